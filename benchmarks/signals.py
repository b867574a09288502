"""Signals at random moments over the commands: are files complete or absent, leftovers removed, processes gone?

Usage: make signals [ARGS="--signals 200 --seed 0"]. SIGTERM, SIGINT and SIGKILL in turn, over fit, predict, report, export
and reproduce, each after a random part of the time that the command takes when it is left alone. After each:

    whole       every file under its final name can be read, and is that of a run that was left alone, or an old one
    leftovers   hidden files; after SIGKILL they may be there, and the next run of the same command must remove them
    alive       processes of the command's session that live five seconds later

Then a model file is rewritten 1,000 times beside a process that reads it again and again.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}


def commands(folder: Path) -> dict[str, tuple[list[str], Path]]:
    """Arguments of each command, and the file it writes."""
    table, model = str(folder / "table.csv"), str(folder / "model.aleator")
    out = {name: folder / name for name in ("fitted.aleator", "predicted.csv", "page.html", "model.onnx", "records")}
    reproduce = [
        "reproduce",
        "tables",
        "--datasets",
        "diabetes",
        "--methods",
        "ml",
        "--folds",
        "6",
        "--objective",
        "rmse",
    ]
    return {
        "fit": (["fit", table, "--target", "y", "--model", "boosting", "--out", str(out["fitted.aleator"])], out["fitted.aleator"]),
        "predict": (["predict", model, str(folder / "long.csv"), "--out", str(out["predicted.csv"])], out["predicted.csv"]),
        "report": (["report", model, table, "--out", str(out["page.html"])], out["page.html"]),
        "export": (["export", model, "--onnx", str(out["model.onnx"])], out["model.onnx"]),
        "reproduce": ([*reproduce, "--no-sweep", "--out", str(out["records"])], out["records"] / "tables.md"),
    }  # fmt: skip


def started(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "aleator", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs of a shell ignore it
    )  # fmt: skip


def alive(session: int) -> list[str]:
    """Processes of a session that are not zombies."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(")")
        except OSError:
            continue
        state, _, _, its_session = rest.split()[:4]
        if int(its_session) == session and state != "Z":
            found.append(name)
    return found


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*-*") if path.is_file()]


def meaning(path: Path) -> str:
    """A digest of what a file says; model files and records carry times, so they are read instead."""
    if path.suffix == ".aleator":
        from aleator import load

        load(path)
        return "a model"
    if path.suffix == ".html":
        text = path.read_text(encoding="utf-8")
        return "a page" if text.rstrip().endswith("</html>") else "cut"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def signalled(n: int, seed: int, sends: list[signal.Signals]) -> Counter[str]:
    rng, count = np.random.default_rng(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = rng.normal(size=(600, 6))
        frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=X[:, 0] + X[:, 1] * rng.normal(size=600))
        frame.to_csv(folder / "table.csv", index=False)
        pd.concat([frame] * 100).to_csv(folder / "long.csv", index=False)
        model = [
            "fit",
            str(folder / "table.csv"),
            "--target",
            "y",
            "--model",
            "boosting",
            "--out",
            str(folder / "model.aleator"),
        ]
        assert started(model).wait() == 0
        whole, seconds = {}, {}
        for what, (arguments, file) in commands(folder).items():
            began = time.perf_counter()
            assert started(arguments).wait() == 0, what
            seconds[what], whole[what] = time.perf_counter() - began, meaning(file)
            print(f"{what}: {seconds[what]:.1f} s when it is left alone", flush=True)
        for k in range(n):
            sent, what = sends[k % len(sends)], list(whole)[(k // len(sends)) % len(whole)]
            arguments, file = commands(folder)[what]
            if file.exists() and rng.random() < 0.5:
                file.unlink()
            if what == "reproduce":
                for record in file.parent.rglob("*.safetensors"):
                    record.unlink()
            process = started(arguments)
            try:
                process.wait(rng.uniform(0.02, 1.0) * seconds[what])
                count["ended before"] += 1
            except subprocess.TimeoutExpired:
                os.kill(process.pid, sent)
                began = time.monotonic()
                code = process.wait(30)
                count[f"{sent.name}: slower than 2.5 s"] += time.monotonic() - began > 2.5
                count[f"{sent.name} sent"] += 1
                count[f"{sent.name}: ended by itself at that moment"] += code == 0
                count[f"{sent.name}: another exit code"] += code not in (CODES[sent], -sent, 0)
            deadline = time.monotonic() + 5
            while alive(process.pid) and time.monotonic() < deadline:
                time.sleep(0.1)
            if still := alive(process.pid):
                count["alive after 5 s"] += 1
                print(what, sent.name, still, flush=True)
                os.killpg(process.pid, signal.SIGKILL)
            if file.exists() and meaning(file) != whole[what]:
                count["not whole"] += 1
            left = hidden(folder)
            count[f"{sent.name}: leftovers"] += bool(left)
            if left:
                assert started(arguments).wait() == 0
                count["leftovers after the next run"] += bool(hidden(folder))
    return count


READ = """
import sys, time
from aleator import load
path, until = sys.argv[1], time.time() + float(sys.argv[2])
read = refused = 0
while time.time() < until:
    try:
        load(path); read += 1
    except (ValueError, OSError):
        refused += 1
print(read, refused)
"""


def rewritten(times: int) -> None:
    """In place, as `cp` does: the worst that can happen to a reader."""
    from sklearn.linear_model import Ridge

    from aleator import LossQuantifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "m.aleator"
        contents = []
        for n_members in (1, 8):
            LossQuantifier(Ridge(), n_members=n_members, epochs=2).fit(X, X[:, 0]).save(path)
            contents.append(path.read_bytes())
        readers = [
            subprocess.Popen([sys.executable, "-c", READ, str(path), "20"], stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        time.sleep(3)
        for k in range(times):
            with path.open("r+b") as file:
                file.truncate(0)
                for lo in range(0, len(contents[k % 2]), 4096):
                    file.write(contents[k % 2][lo : lo + 4096])
            time.sleep(0.01)
        for reader in readers:
            told, _ = reader.communicate()
            print(f"a reader beside {times} rewrites: exit code {reader.returncode}, read and refused {told.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--signals", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[sent.name for sent in SIGNALS])
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    rewritten(1000)
    sends = [signal.Signals[name] for name in asked.only]
    for name, number in sorted(signalled(asked.signals, asked.seed, sends).items()):
        print(f"{name:<44}{number}")


if __name__ == "__main__":
    main()
