"""Bytes and load times of model files: `make file-sizes`. `--beside SRC` writes and reads the same models with another version of the
library, the folder `src` of another checkout, so that both meet the same machine.

Each model is fitted to 1,000 rows, saved, and loaded 15 times; the median is shown. Loading includes every check.
"""

import argparse
import json
import os
import subprocess
import sys

SCRIPT = """
import json, os, statistics, sys, tempfile, time, warnings
import numpy as np
from sklearn.ensemble import (ExtraTreesRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor,
    RandomForestRegressor)
from sklearn.linear_model import Lasso, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from aleator import LossQuantifier, PairEnsemble, load
warnings.simplefilter("ignore")

rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 10))
y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=1000)
regressors = [Ridge(), Lasso(0.01), make_pipeline(StandardScaler(), SVR()), MLPRegressor(hidden_layer_sizes=(30,), max_iter=100),
    GradientBoostingRegressor(), HistGradientBoostingRegressor(), RandomForestRegressor(100), ExtraTreesRegressor(100)]
models = {"PairEnsemble": PairEnsemble(epochs=20)}
for regressor in regressors:
    name = regressor.steps[-1][1] if hasattr(regressor, "steps") else regressor
    models[type(name).__name__] = LossQuantifier(regressor, cv=3, n_members=2)
path = os.path.join(tempfile.mkdtemp(), "m.aleator")
for name, model in models.items():
    model.fit(X, y).save(path)
    seconds = []
    for _ in range(15):
        began = time.perf_counter()
        again = load(path)
        seconds.append(time.perf_counter() - began)
    same = bool((again.predict_loss(X) == model.predict_loss(X)).all())
    print(json.dumps([name, os.path.getsize(path), statistics.median(seconds), same]), flush=True)
"""


def measured(source):
    env = os.environ | {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": source} if source else {})
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--beside")
    asked = parser.parse_args()
    versions = ([measured(asked.beside)] if asked.beside else []) + [measured(None)]
    print("bytes and milliseconds to load" + (": before | now" if asked.beside else "") + "; same bits after loading")
    for rows in zip(*versions, strict=True):
        shown = [
            f"{size:10,} {1000 * seconds:7.1f} ms  {'same' if same else 'OTHER'}" for _, size, seconds, same in rows
        ]
        print(f"{rows[0][0]:30}" + "   |   ".join(shown), flush=True)
