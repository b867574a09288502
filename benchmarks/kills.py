"""Kill `aleator reproduce tables` at random moments, restart it, and compare with a run that was left alone.

Usage: make kills [ARGS="20 0"], the number of kills and the seed of their moments. The first runs are killed after up to
a minute of work in all; the last is left to end. Prints the SHA-256 of the tables of both, and exits 1 if they differ.
"""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORK = ["--datasets", "diabetes", "--methods", "all", "--folds", "8"]
SHOWN = ("tables.md", "tables.tex", "tables.csv", "further.md", "measures.csv.gz", "curves.npz")


def command(out):
    return [sys.executable, "-m", "aleator", "reproduce", "tables", *WORK, "--out", str(out)]


def digest(out):
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in SHOWN}


def main():
    kills, seed = (int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 20), (2, 0)))
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        alone, killed = Path(folder) / "alone", Path(folder) / "killed"
        start = time.perf_counter()
        subprocess.run(command(alone), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        whole = time.perf_counter() - start
        print(f"left alone: {whole:.0f} s", flush=True)
        for k in range(kills):
            moment = rng.uniform(2, 2 + 0.12 * whole)
            process = subprocess.Popen(
                command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            try:
                process.wait(moment)
                print(f"kill {k + 1}: it had ended already")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the workers too
                process.wait()
                there = len(list(killed.rglob("*.safetensors")))
                print(f"kill {k + 1} after {moment:.1f} s: {there} records", flush=True)
        subprocess.run(command(killed), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        left = [path.name for path in killed.rglob(".*") if path.is_file()]
        same = digest(alone) == digest(killed)
        for name, found in digest(killed).items():
            print(f"{name:<16} {found[:16]} {'same' if found == digest(alone)[name] else 'DIFFERENT'}")
        records = [len(list(out.rglob("*.safetensors"))) for out in (alone, killed)]
        print(f"records {records[0]} and {records[1]}; half-written files that were left: {len(left)}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
