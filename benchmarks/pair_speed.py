"""Seconds of `PairEnsemble()` by the number of rows, one thread: `make pair-speed`. `--beside SRC` times another version of the
library, the folder `src` of another checkout, in turn with this one, so that both meet the same machine.
"""

import argparse
import json
import os
import subprocess
import sys

SCRIPT = """
import json, sys, time, numpy as np
from aleator import PairEnsemble

def made(n, d=13):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 2] * X[:, 3] + 0.3 * np.exp(X[:, 1] / 2) * rng.normal(size=n)

PairEnsemble(n_jobs=1).fit(*made(60))
X, y = made(int(sys.argv[1]))
began = time.perf_counter()
model = PairEnsemble(n_jobs=1, random_state=0).fit(X, y)
seconds = time.perf_counter() - began
new, truth = made(20_001)
known = model.predict_uncertainty(new)
realised = float(np.mean((truth - known.mean) ** 2))
print(json.dumps([seconds, int(model.n_epochs_[0]), realised ** 0.5, float(known.expected_loss.mean()) / realised]))
"""


def timed(source, n):
    env = os.environ | {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": source} if source else {})
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(n)], env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--beside")
    parser.add_argument("--rows", type=int, nargs="*", default=[300, 1_000, 3_000, 10_000])
    asked = parser.parse_args()
    print("13 columns, one thread; seconds, epochs, RMSE and expected / realised loss on 20,001 fresh rows")
    for n in asked.rows:
        other = timed(asked.beside, n) if asked.beside else None
        own = timed(None, n)
        shown = [
            f"{s:6.1f} s {e:4d} epochs  RMSE {r:.3f}  ratio {q:.2f}"
            for s, e, r, q in ([other] if other else []) + [own]
        ]
        print(f"{n:7,} rows   " + "   |   ".join(shown) + (f"   {own[0] / other[0]:.2f}" if other else ""), flush=True)
