"""Doctored model files with a right checksum: `make fuzz-files ARGS="--mutations 100 --seed 0"`.

Every scikit-learn model of tests/test_model_files.py goes into a file of a LossQuantifier; then one value, array or name
in it is changed, again and again, and the file is written with a new checksum, read, and asked about its table. Each
model has a process of its own, with memory checking, so that a crash is seen and counted.

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
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
SECONDS = 300  # for the mutations of one model, beyond which it hangs


def mutate(number: int, mutations: int, seed: int) -> dict[str, int]:
    """What became of the mutations of one model."""
    sys.path.insert(0, str(TESTS))
    import numpy as np

    import aleator
    from aleator import LossQuantifier, bundle
    from test_model_files import CASES, corrupted

    warnings.simplefilter("ignore")
    model, table, y = CASES[number]
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.aleator"
        LossQuantifier(model, n_members=1, epochs=2).fit(table, y).save(path)
        facts, arrays = bundle.read(path)
        rng = np.random.default_rng([seed, number])
        for _ in range(mutations):
            began = time.perf_counter()
            bundle.write(path, *corrupted(facts, arrays, rng))
            try:
                again = aleator.load(path)
            except ValueError:
                found["refused"] += 1
                continue
            except Exception as error:
                found[f"{type(error).__name__} while reading: {str(error)[:80]}"] += 1
                continue
            finally:
                found["slower than a second"] += time.perf_counter() - began > 1
            try:
                losses = again.predict_loss(table)
            except Exception:
                found["read, refuses the table"] += 1
                continue
            fine = np.isfinite(losses).all() and (losses >= 0).all()
            found["read, answers" if fine else "read, answers nonsense"] += 1
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, nargs="*")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(mutate(asked.one, asked.mutations, asked.seed)))
        return
    sys.path.insert(0, str(TESTS))
    from test_model_files import CASES, name_of

    total: collections.Counter[str] = collections.Counter()
    checked = os.environ | {
        "MALLOC_CHECK_": "3",
        "MALLOC_PERTURB_": "85",
        "PYTHONMALLOC": "debug",
        "OMP_NUM_THREADS": "1",
    }
    print(f"seed {asked.seed}, {asked.mutations} mutations of each model")
    for number in range(len(CASES)) if asked.models is None else asked.models:
        arguments = ["--one", str(number), "--mutations", str(asked.mutations), "--seed", str(asked.seed)]
        try:
            done = subprocess.run(
                [sys.executable, "-X", "faulthandler", __file__, *arguments],
                env=checked, capture_output=True, text=True, timeout=SECONDS,
            )  # fmt: skip
            found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"crashes": 1}
            if done.returncode:
                print(done.stderr[-2000:], file=sys.stderr)
        except subprocess.TimeoutExpired:
            found = {"hangs": 1}
        total.update(found)
        strange = {name: n for name, n in found.items() if n and name not in ("refused", "read, answers")}
        print(
            f"{number:4d} {name_of(CASES[number]):60s} refused {found.get('refused', 0)}  {strange or ''}", flush=True
        )
    print({name: n for name, n in total.items() if n})


if __name__ == "__main__":
    main()
