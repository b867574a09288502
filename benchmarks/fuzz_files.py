"""Doctored model files with a right checksum: `make fuzz-files ARGS="--mutations 100 --seed 0"`.

Every scikit-learn model of tests/model_files/test_scikit_learn.py goes into a file of a LossQuantifier; beside them are the files of
tests/golden: every estimator of aleator, earlier formats, and a model of the command. In each, one value, array or name
is changed, again and again, and the file is written with a new checksum, read, and asked about its table. Each model has
a process of its own, with memory checking, so that a crash is seen and counted.

Counted: crashes, hangs, errors of another type than ValueError while reading, and models that were read and then
answer NaN, infinite or negative losses.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
SECONDS = 300  # and one for each mutation of a model, beyond which it hangs


def original(case: str, path: Path) -> Any:
    """Write the file of a case, and return the table to ask about."""
    import pandas as pd
    from sklearn.base import clone
    from test_scikit_learn import CASES

    from aleator import LossQuantifier

    if case.isdigit():
        model, table, y = CASES[int(case)]
        LossQuantifier(clone(model).fit(table, y), cv="prefit", n_members=1, epochs=2).fit(table, y).save(path)
        return table
    path.write_bytes((TESTS / "golden" / f"{case}.aleator").read_bytes())
    table = pd.DataFrame(json.loads((TESTS / "golden" / f"{case}.json").read_text())["rows"])
    return table.assign(day=pd.to_datetime(table["day"])) if "day" in table else table


def mutate(case: str, mutations: int, seed: int) -> dict[str, int]:
    """What became of the mutations of one model."""
    sys.path.insert(0, str(TESTS / "model_files"))
    import numpy as np
    from test_scikit_learn import corrupted

    import aleator
    from aleator.model_files import file_format
    from aleator.tabular import TableModel

    warnings.simplefilter("ignore")  # also about training rows, which do no harm here
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.aleator"
        table = original(case, path)
        facts, arrays = file_format.read(path)
        rng = np.random.default_rng([seed, zlib.crc32(case.encode())])
        for _ in range(mutations):
            began = time.perf_counter()
            file_format.write(path, *corrupted(facts, arrays, rng))
            try:
                again = TableModel.load(path).estimator if "table" in facts else aleator.load(path)
            except ValueError:
                found["refused"] += 1
                continue
            except Exception as error:
                found[f"{type(error).__name__} while reading: {str(error)[:80]}"] += 1
                continue
            finally:
                found["slower than a second"] += time.perf_counter() - began > 1
            try:
                losses = again.predict_loss(table) if facts["kind"] != "PlainRegressor" else np.zeros(1)
                fine = np.isfinite(again.predict(table)).all()
            except Exception:
                found["read, refuses the table"] += 1
                continue
            fine = fine and np.isfinite(losses).all() and (losses >= 0).all()
            found["read, answers" if fine else "read, answers nonsense"] += 1
    return dict(found)


def judged(case: str, mutations: int, seed: int) -> dict[str, int]:
    """The same in a process of its own, under memory checking."""
    checked = os.environ | {
        "MALLOC_CHECK_": "3",
        "MALLOC_PERTURB_": "85",
        "PYTHONMALLOC": "debug",
        "OMP_NUM_THREADS": "1",
    }
    arguments = ["--one", case, "--mutations", str(mutations), "--seed", str(seed)]
    try:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", __file__, *arguments],
            env=checked, capture_output=True, text=True, timeout=SECONDS + mutations,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"hangs": 1}
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return {"crashes": 1}
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", nargs="*", help="numbers of scikit-learn's models, names of golden files")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(mutate(asked.one, asked.mutations, asked.seed)))
        return
    sys.path.insert(0, str(TESTS / "model_files"))
    from test_scikit_learn import CASES, name_of

    golden = sorted(path.stem for path in (TESTS / "golden").glob("*.aleator"))
    cases = asked.cases or [*map(str, range(len(CASES))), *golden]
    total: collections.Counter[str] = collections.Counter()
    print(f"seed {asked.seed}, {asked.mutations} mutations of each of {len(cases)} models")
    with ThreadPoolExecutor(asked.jobs) as pool:
        for case, found in zip(
            cases, pool.map(lambda case: judged(case, asked.mutations, asked.seed), cases), strict=True
        ):
            total.update(found)
            strange = {name: n for name, n in found.items() if n and name not in ("refused", "read, answers")}
            name = name_of(CASES[int(case)]) if case.isdigit() else ""
            print(f"{case:>36} {name:60s} refused {found.get('refused', 0)}  {strange or ''}", flush=True)
    print({name: n for name, n in total.items() if n})


if __name__ == "__main__":
    main()
