"""Are the numbers those of another commit? Predictions and expected losses of every estimator, to the last bit.

Usage: python benchmarks/same_numbers.py write FILE      with one commit,
       python benchmarks/same_numbers.py compare FILE    with another; exits 1 if a number differs.

On the five data sets of section 8, cut to 400 rows, 300 to learn from. ALEATOR_DATA names the directory that has them.
Attributes and methods that were renamed are looked up by both names, so that commits on either side can be compared.
"""

import contextlib
import sys
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from aleator import LossQuantifier, PairEnsemble, PairRegressor, baselines, datasets

NAMES = ("boston", "concrete", "yacht", "power", "kin8nm")
MODELS = {
    "pair": lambda: PairRegressor(),
    "pair, lam=1": lambda: PairRegressor(lam=1.0),
    "pair, 30 epochs, softplus": lambda: PairRegressor(lam=0.5, epochs=30, coupling="softplus", rescale=False),
    "pair, absolute": lambda: PairRegressor(loss="absolute"),
    "pair, early stopping": lambda: PairRegressor(lam=0.5, epochs=60, early_stopping=True),
    "ensemble": lambda: PairEnsemble(n_members=3),
    "quantifier of boosting": lambda: LossQuantifier(HistGradientBoostingRegressor(random_state=0), loss="absolute"),
    "quantifier of ridge": lambda: LossQuantifier(Ridge(), cv=10, rounds=2),
    "mean and variance": lambda: baselines.MeanVarianceEnsemble(n_members=3),
    "beta-NLL": lambda: baselines.BetaNLLRegressor(),
    "dropout": lambda: baselines.DropoutRegressor(epochs=40),
    "SVGD": lambda: baselines.SVGDRegressor(iterations=200),
    "PBP": lambda: baselines.PBPRegressor(epochs=5),
}


def numbers() -> dict[str, np.ndarray]:
    found = {}
    for name in NAMES:
        data = datasets.load(name)
        rows = np.random.default_rng(0).permutation(len(data.y))[:400]
        X, y = np.asarray(data.X)[rows], np.asarray(data.y)[rows]
        for title, make in MODELS.items():
            model = make().fit(X[:300], y[:300])
            answer = model.predict_uncertainty(X[300:])
            parts = {
                "prediction": answer.prediction if hasattr(answer, "prediction") else answer.mean,
                "expected_loss": answer.expected_loss,
                "epistemic": answer.epistemic,
            }
            with contextlib.suppress(ValueError):  # nothing was held out
                parts |= dict(zip(("lower", "upper"), np.asarray(model.predict_interval(X[300:])), strict=True))
            found |= {f"{name} | {title} | {part}": np.asarray(values) for part, values in parts.items()}
            print(f"{name:9s} {title:28s} {answer.expected_loss.mean():.6g}", flush=True)
    return found


def main() -> None:
    way, path = sys.argv[1:3]
    warnings.simplefilter("ignore")
    found = numbers()
    if way == "write":
        np.savez_compressed(path, **found)
        return
    before = np.load(path)
    missing = set(before.files) ^ set(found)
    different = [key for key in before.files if key in found and not np.array_equal(before[key], found[key])]
    print(f"{len(found)} arrays, {len(different)} differ, {len(missing)} on one side only")
    for key in [*different, *sorted(missing)]:
        print("  differs:", key)
    sys.exit(bool(different or missing))


if __name__ == "__main__":
    main()
