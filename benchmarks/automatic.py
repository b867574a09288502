"""What each part of lam="auto" is worth: `make automatic`. On training parts only: no test row of section 8 is seen.

Error, area under the rejection curve, and the score L / e + ln e, on rows left out in turn (five folds)
of the training part of fold 0, in units of the target's deviation; means over seeds. Every line changes one thing.

    make automatic ARGS="--loss absolute 'kappa 1 from the start'"
"""

import argparse
import contextlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed

from aleator import PairEnsemble, datasets, metrics
from aleator.baselines import MeanVarianceEnsemble
from aleator.couplings import Coupling
from aleator.paper.protocol import fold
from aleator.training import defaults, problem
from aleator.training.auto import length_search, procedure
from aleator.training.settings import lam_is_auto

SEEDS = {"boston": 4, "concrete": 2, "yacht": 4, "kin8nm": 1, "power": 1}

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


def everywhere(member_maker: Any) -> dict[Any, Any]:
    """Where members are made."""
    return {(problem, "member_maker"): member_maker, (length_search, "member_maker"): member_maker}


def kappa(begin: float, end: float) -> dict[Any, Any]:
    """Members whose kappa falls so."""
    plain = problem.member_maker
    return everywhere(lambda settings, data, kappa=None: plain(settings, data, (begin, end)))


def kappas(begin: float, ends: list[float]) -> dict[Any, Any]:
    """Members whose kappa falls to different numbers."""
    plain = problem.member_maker

    def member_maker(settings: Any, data: Any, kappa: Any = None) -> Any:
        if not lam_is_auto(settings):
            return plain(settings, data)
        makers = {
            seed: plain(settings, data, (begin, end))
            for seed, end in zip(problem.member_seeds(settings.random_state, len(ends)), ends, strict=True)
        }
        return lambda rows, seed, epochs: makers[seed](rows, seed, epochs)

    return everywhere(member_maker)


def lam_falls(begin: float, end: float) -> dict[Any, Any]:
    """Members whose lam is a number that falls, whatever the loss is."""
    plain = problem.member_maker

    def member_maker(settings: Any, data: Any, kappa: Any = None) -> Any:
        def make_member(rows: Any, seed: int, epochs: int) -> Any:
            member = plain(settings, data)(rows, seed, epochs)
            if not lam_is_auto(settings):
                return member
            return replace(member, lams=np.geomspace(begin, end, epochs), relative=None)

        return make_member

    return everywhere(member_maker)


# name -> what of the recipe is replaced, parameters of PairEnsemble
VARIANTS: dict[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "lam='auto'": ({}, {}),
    "kappa 30 to 1": (kappa(30, 1), {}),
    "kappa 100, does not fall": (kappa(100, 100), {}),
    "kappa 1 from the start": (kappa(1, 1), {}),
    "kappa 0.01 from the start": (kappa(0.01, 0.01), {}),
    "kappa 1,000 to 0.001": (kappa(1000, 0.001), {}),
    "kappa to 1, 0.1, ..., 0.0001": (kappas(100, [1, 0.1, 0.01, 0.001, 0.0001]), {}),
    "lam itself 1 to 0.001": (lam_falls(1, 0.001), {}),
    "no penalty": ({}, {"l2": 0.0}),
    "penalty times 10": ({}, {"l2": 10.0}),
    "rate 0.003": ({}, {"learning_rate": 3e-3}),
    "rate 0.03": ({}, {"learning_rate": 3e-2}),
    "a third as long": ({(defaults, "MAX_EPOCHS"): 266, (defaults, "MAX_ROWS_SEEN"): defaults.MAX_ROWS_SEEN // 3}, {}),
    "three times as long": (
        {(defaults, "MAX_EPOCHS"): 2400, (defaults, "MAX_ROWS_SEEN"): defaults.MAX_ROWS_SEEN * 3},
        {},
    ),
    "batches of half the size": ({(defaults, "MIN_BATCH"): 16, (defaults, "BATCH_FACTOR"): 0.35}, {}),
    "no quantifier refit": ({(procedure, "_with_quantifiers"): lambda settings, pairs, result: result}, {}),
    "coupling softplus": ({}, {"coupling": "softplus"}),
    "coupling f = u^-1/2": ({}, {"coupling": POWER_COUPLING}),
    "coupling f = 1 / (1 + u)": ({}, {"coupling": BOUNDED_COUPLING}),
    **{f"lam={lam}": ({}, {"lam": lam}) for lam in (0.01, 0.05, 0.2, 1.0)},
}


@contextlib.contextmanager
def changed(places: dict[Any, Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for (module, name), value in places.items():
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def one(variant: str, loss: str, name: str, seed: int) -> list[float]:
    dataset = datasets.load(name)
    rows = fold(dataset, 0)[0]
    start = time.perf_counter()
    places, settings = VARIANTS.get(variant, ({}, {}))
    kind = PairEnsemble if variant in VARIANTS else MeanVarianceEnsemble
    with changed(places):
        model: Any = kind(loss=loss, n_jobs=1, random_state=seed, **settings).fit(dataset.X[rows], dataset.y[rows])
    seconds = time.perf_counter() - start
    found = model.out_of_fold_
    realised, expected = found["loss"].to_numpy(), found["expected_loss"].to_numpy()
    curve = metrics.rejection_curve(realised, 0.0 * realised, expected, "mae")
    power = 2 if loss == "squared" else 1
    curve = curve ** (1 / power) / dataset.y[rows].std()
    expected = expected * realised.mean() / expected.mean()
    score = np.mean(realised / expected + np.log(expected / dataset.y[rows].std() ** power))
    return [curve[0], metrics.area(curve), float(score), seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loss", default="squared", choices=["squared", "absolute"])
    parser.add_argument("variants", nargs="*", default=[*VARIANTS, "EnsML"])
    given = parser.parse_args()
    print(f"{given.loss + ': error, area, score':32s}" + "".join(f"{name:>26s}" for name in SEEDS) + "   seconds a fit")
    for variant in given.variants:
        line, seconds = f"{variant:32s}", []
        for name, count in SEEDS.items():
            runs = Parallel(n_jobs=2)(delayed(one)(variant, given.loss, name, seed) for seed in range(count))
            error, area, score, took = np.mean(runs, axis=0)
            line += f"{error:10.4f} {area:8.4f} {score:6.2f}"
            seconds.append(f"{took:.1f}")
        print(line, "  ", " ".join(seconds), flush=True)


if __name__ == "__main__":
    main()
