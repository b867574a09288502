"""The command by its own words: do its intervals cover, how fast does it predict a large file, how soon does it stop?

make command                      # all of it
make command ARGS="coverage"      # intervals over 50 splits of Concrete (needs ALEATOR_DATA)
make command ARGS="large"         # 5 million rows x 20 through `aleator predict`, beside pandas + scikit-learn
make command ARGS="interrupt"     # seconds from Ctrl-C to the end
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ALEATOR = [sys.executable, "-m", "aleator"]
ROWS, COLUMNS = 5_000_000, 20


def command(*arguments):
    done = subprocess.run([*ALEATOR, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


# ---------------------------------------------------------------- intervals


def coverage(folder, splits=50):
    from aleator.datasets import real

    data = real.load("concrete")
    table = folder / "concrete.csv"
    pd.DataFrame(data.X, columns=[f"x{k}" for k in range(data.X.shape[1])]).assign(y=data.y).to_csv(table, index=False)
    for model in ("ensemble", "boosting"):
        told = []
        for seed in range(splits):
            arguments = [
                "fit",
                table,
                "--target",
                "y",
                "--model",
                model,
                "--seed",
                seed,
                "--out",
                folder / "m",
                "--json",
            ]
            told.append(json.loads(command(*arguments))["card"]["measures"])
        covered = np.array([m["coverage_90"] for m in told])
        ratio = np.sum([m["expected_loss"] for m in told]) / np.sum([m["realised_loss"] for m in told])
        print(
            f"Concrete, {model}, {splits} splits: 90 % intervals cover {100 * covered.mean():.1f} % "
            f"(splits {100 * covered.min():.0f} to {100 * covered.max():.0f} %); expected / real loss {ratio:.2f}; "
            f"MAE {np.mean([m['error'] for m in told]):.2f}, after refusing 20 % "
            f"{np.mean([m['error_after_refusing']['0.2'] for m in told]):.2f}",
            flush=True,
        )


# ---------------------------------------------------------------- a large file


def write_large(path, rows=ROWS):
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join([f"c{k}" for k in range(COLUMNS)]) + "\n")
        for _ in range(0, rows, 100_000):
            np.savetxt(file, rng.normal(size=(100_000, COLUMNS)), fmt="%.5f", delimiter=",")


def measured(arguments):
    """Seconds and peak memory (MB) of a process, by VmHWM."""
    began = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
        except OSError:
            pass
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{arguments} ended with {process.returncode}")
    return time.perf_counter() - began, peak / 1024


BY_HAND = """
import sys, pandas as pd, joblib
model = joblib.load(sys.argv[1])
frame = pd.read_csv(sys.argv[2])
frame.assign(prediction=model.predict(frame)).to_csv(sys.argv[3], index=False)
"""
BY_HAND_IN_CHUNKS = """
import sys, pandas as pd, joblib
model = joblib.load(sys.argv[1])
for k, frame in enumerate(pd.read_csv(sys.argv[2], chunksize=20_000)):
    out = frame.assign(prediction=model.predict(frame))
    out.to_csv(sys.argv[3], index=False, header=k == 0, mode="w" if k == 0 else "a")
"""


def large(folder, rows=ROWS):
    import joblib
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(1)
    small = pd.DataFrame(rng.normal(size=(5_000, COLUMNS)), columns=[f"c{k}" for k in range(COLUMNS)])
    small["y"] = small["c0"] + small["c1"] ** 2 + rng.normal(size=5_000) * np.exp(small["c2"])
    small.to_csv(folder / "small.csv", index=False)
    joblib.dump(HistGradientBoostingRegressor().fit(small.drop(columns="y"), small["y"]), folder / "boosting")
    write_large(folder / "large.csv", rows)
    size = (folder / "large.csv").stat().st_size / 1e6
    print(f"{rows:,} rows x {COLUMNS}, {size:,.0f} MB of CSV; whole processes, reading and writing included")
    for model in ("ensemble", "boosting"):
        command("fit", folder / "small.csv", "--target", "y", "--model", model, "--out", folder / "m")
        seconds, peak = measured([*ALEATOR, "predict", folder / "m", folder / "large.csv", "--out", folder / "p.csv"])
        print(f"aleator predict, {model:<9} {seconds:6.0f} s {rows / seconds:9,.0f} rows/s, peak {peak:6,.0f} MB (7 columns)",
              flush=True)  # fmt: skip
    (folder / "p.csv").unlink()
    for name, script in (("in chunks", BY_HAND_IN_CHUNKS), ("at once", BY_HAND)):
        seconds, peak = measured(
            [sys.executable, "-c", script, folder / "boosting", folder / "large.csv", folder / "p.csv"]
        )
        print(f"pandas + scikit-learn, {name:<9} {seconds:6.0f} s {rows / seconds:9,.0f} rows/s, peak {peak:6,.0f} MB (1 column)",
              flush=True)  # fmt: skip


# ---------------------------------------------------------------- Ctrl-C


def interrupt(folder):
    write_large(folder / "large.csv", 200_000)
    frame = pd.read_csv(folder / "large.csv")
    frame["y"] = frame["c0"] + np.random.default_rng(0).normal(size=len(frame))
    frame.to_csv(folder / "train.csv", index=False)
    frame[:2000].to_csv(folder / "few.csv", index=False)
    command("fit", folder / "few.csv", "--target", "y", "--model", "ensemble", "--out", folder / "m")
    cases = {
        f"fit {model}": ["fit", folder / "train.csv", "--target", "y", "--model", model, "--out", folder / "new"]
        for model in ("ensemble", "boosting", "forest", "auto")
    } | {"predict": ["predict", folder / "m", folder / "large.csv", "--out", folder / "p.csv"]}
    for name, arguments in cases.items():
        for wait in (2.0, 6.0, 14.0):
            process = subprocess.Popen(
                [*ALEATOR, *map(str, arguments)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            time.sleep(min(wait, 5.0) if name == "predict" else wait)
            began = time.perf_counter()
            process.send_signal(signal.SIGINT)
            code = process.wait()
            left = [n for n in os.listdir(folder) if n in ("new", "p.csv")]
            print(f"Ctrl-C after {wait:4.1f} s of {name:<13} exit {code} after {time.perf_counter() - began:.2f} s; left: {left}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # which a shell's background jobs ignore, and their children
    for name in sys.argv[1:] or ["large", "interrupt", "coverage"]:
        with tempfile.TemporaryDirectory() as folder:
            {"coverage": coverage, "large": large, "interrupt": interrupt}[name](Path(folder))
