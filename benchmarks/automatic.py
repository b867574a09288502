"""What each part of lam="auto" is worth: `make automatic`. On training parts only: no test row of section 8 is seen.

Random splits of the training part of fold 0 of the small sets, 5 % of it held out; RMSE, AUC, and expected over realised
loss, all means over the splits. Every line changes one thing of the recipe. One thread a fit.
"""

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed

from aleator import PairEnsemble, datasets, metrics
from aleator.baselines import MeanVarianceEnsemble
from aleator.couplings import Coupling
from aleator.estimators import automatic, recipe
from aleator.paper.protocol import METHODS, fold, published_settings

SPLITS = {"boston": 10, "concrete": 4, "yacht": 8}

# Other couplings, by the weight f of a sample that is expected to lose u in units of lam; all have u = e^-xi.
POWER = 0.5


def power_f(xi: float) -> float:  # f = u^-power
    return math.exp(POWER * xi)


def power_df(xi: float) -> float:
    return POWER * math.exp(POWER * xi)


def power_g(xi: float) -> float:
    return POWER / (1 - POWER) * math.exp((POWER - 1) * xi)


def power_dg(xi: float) -> float:
    return -POWER * math.exp((POWER - 1) * xi)


def bounded_f(xi: float) -> float:  # f = 1 / (1 + u)
    return 1 / (1 + math.exp(-xi))


def bounded_df(xi: float) -> float:
    return 1 / (2 + math.exp(xi) + math.exp(-xi))


def bounded_g(xi: float) -> float:
    return 1 / (1 + math.exp(-xi)) + math.log1p(math.exp(-xi))


def bounded_dg(xi: float) -> float:
    return -1 / (1 + math.exp(xi)) ** 2


POWER_COUPLING = Coupling("power", power_f, power_g, power_df, power_dg)
BOUNDED_COUPLING = Coupling("bounded", bounded_f, bounded_g, bounded_df, bounded_dg)

# name -> what of the recipe is replaced, parameters of PairEnsemble
VARIANTS: dict[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "lam='auto'": ({}, {}),
    "kappa 30, does not fall": ({(recipe, "KAPPA"): (30.0, 30.0)}, {}),
    "kappa 1 from the start": ({(recipe, "KAPPA"): (1.0, 1.0)}, {}),
    "kappa 0.1 from the start": ({(recipe, "KAPPA"): (0.1, 0.1)}, {}),
    "kappa 30 to 0.1": ({(recipe, "KAPPA"): (30.0, 0.1)}, {}),
    "no penalty": ({}, {"l2": 0.0}),
    "penalty times 10": ({}, {"l2": 10.0}),
    "rate 0.003": ({}, {"learning_rate": 3e-3}),
    "rate 0.03": ({}, {"learning_rate": 3e-2}),
    "quantifiers do not learn anew": ({(automatic, "_quantified_anew"): lambda settings, task, fit: fit}, {}),
    "no learning curve": ({(automatic, "_gain"): lambda *task: 1.0}, {}),
    "coupling softplus": ({}, {"coupling": "softplus"}),
    "coupling f = u^-1/2": ({}, {"coupling": POWER_COUPLING}),
    "coupling f = 1 / (1 + u)": ({}, {"coupling": BOUNDED_COUPLING}),
    "lam=0.2": ({}, {"lam": 0.2}),
}


@contextlib.contextmanager
def changed(places: dict[Any, Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for (module, name), value in places.items():
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def one(variant: str, name: str, split: int) -> list[float]:
    dataset = datasets.load(name)
    rows = fold(dataset, 0)[0]
    order = np.random.default_rng([9, split]).permutation(rows)
    held, learned = np.split(order, [round(0.05 * len(rows))])
    start = time.perf_counter()
    if variant in VARIANTS:
        places, settings = VARIANTS[variant]
        with changed(places):
            model: Any = PairEnsemble(n_jobs=1, random_state=split, **settings).fit(
                dataset.X[learned], dataset.y[learned]
            )
    else:
        method = {"pairs, published settings": "ens_pair", "EnsML, published settings": "ens_ml"}.get(variant)
        model = (
            MeanVarianceEnsemble(n_jobs=1)
            if method is None
            else METHODS[method].model("squared", published_settings(name, "rmse", method))
        )
        model.set_params(random_state=split).fit(dataset.X[learned], dataset.y[learned])
    seconds = time.perf_counter() - start
    said, y = model.predict_uncertainty(dataset.X[held]), dataset.y[held]
    loss = float(np.mean((y - said.mean) ** 2))
    return [
        loss**0.5,
        metrics.rejection_auc(y, said.mean, said.expected_loss, "rmse"),
        float(said.expected_loss.mean()),
        loss,
        seconds,
    ]


def main() -> None:
    wanted = sys.argv[1:] or [*VARIANTS, "pairs, published settings", "EnsML, published settings", "EnsML"]
    print(f"{'':32s}" + "".join(f"{name:>28s}" for name in SPLITS) + "   seconds a fit")
    for variant in wanted:
        line, seconds = f"{variant:32s}", []
        for name, splits in SPLITS.items():
            results = np.array(Parallel(n_jobs=2)(delayed(one)(variant, name, split) for split in range(splits)))
            error, auc, expected, realised, took = results.mean(axis=0)
            line += f"{error:10.3f} {auc:8.3f} {expected / realised:8.2f}"
            seconds.append(f"{took:.1f}")
        print(line, "  ", " ".join(seconds), flush=True)


if __name__ == "__main__":
    main()
