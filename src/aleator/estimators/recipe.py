"""The recipe behind lam="auto": every number that is chosen for the user, in one place.

lam = kappa * (running mean of the loss over about an epoch). Small or large is then a question about kappa, which has
no unit: the regressor gives a region of expected loss e the weight f = ln(1 + lam / e) (Lemma 6.1), which is that of
least squares for kappa -> infinity, and of maximum likelihood, 1 / e, for kappa -> 0. A region that is not learned yet
looks like one full of noise, so kappa begins large and falls: first learn everywhere, then let the clean regions count.
Where part of the table is hopeless, it is better given up from the start (`CLEAN_FIRST`), which has to prove itself.

With lam the two speeds of section 6 would change, and with the size of the loss; that is divided out (`_pace`), and the
penalty on the regressor's weights follows the loss, as it would in a likelihood. So nothing depends on the unit of y,
nor on how much of it can be explained. `docs/automatic-lambda.md` has the derivation, and what each number is worth.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import theory
from aleator.couplings import Coupling
from aleator.engine import Data, Member, Relative
from aleator.estimators.settings import NetworkSettings

Floats = NDArray[np.float64]

KAPPA = 100.0, 0.01  # lam over the mean loss, at the beginning and at the end
HOPELESS = 0.3  # of what a constant would lose must be left, or there is nothing to give up;
CLEAN_FIRST = 1e-3, 1e-4  # kappa where noisy regions are given up, without a penalty,
CALMER = 4  # with so many times the rows a step and
PATIENCE = 3  # in so many times the epochs; which must make
TYPICAL_LOSS = 0.8  # of the loss that is typically expected (as a geometric mean) of rows left out,
BEYOND_DOUBT = 3.0  # by so many standard errors
RATE = 1e-2  # of Adam at the beginning; falls to 0 like a cosine
BATCH = 32  # rows a step at least, and
ROOT = 0.7  # times the root of the number of rows
L2 = 1.0  # the penalty of one row; for the regressor in units of its loss
LONGEST = 800  # epochs, but
WORK = 2_400_000  # no more than this many rows are looked at, if that is at least
FEWEST = 10  # epochs
SHORTEST = 3  # epochs that are tried
TIMES = 3  # each length that is tried is so many times the one before
JUDGES = 2_000  # rows held out are enough to choose the length, and
FIRST_JUDGES = 100  # for a first look at whether noisy regions are better given up
SEARCHERS = 2  # members that do so, and that are trained without two folds
PARTNERS = 1  # folds on either side of each are left out together with it
BEYOND = 10.0  # times the most that a pair expects of a row it knows, or a tenth of the least, is said of a new one
LEAST_GAIN = 0.5  # of the loss that was seen on rows left out is expected of members that know all rows, at the least

# Quantifiers that learn given losses, in units of their mean: the defaults of LossQuantifier, see DESIGN.md.
GIVEN_LAM = 0.1
GIVEN_RATE = 5e-3
GIVEN_L2 = 1.0


def is_auto(settings: Any) -> bool:
    """Whether an estimator leaves lam to us."""
    return isinstance(getattr(settings, "lam", None), str)


def learning_rate(settings: Any) -> Any:
    return _given(settings.learning_rate, RATE if is_auto(settings) else NetworkSettings.learning_rate)


def l2(settings: Any) -> float:
    return float(_given(settings.l2, L2 if is_auto(settings) else NetworkSettings.l2))


def batch_size(settings: Any, n_rows: int) -> int:
    """Rows a step: grows with the root of their number, as the number of steps does."""
    ours = max(BATCH, round(ROOT * math.sqrt(n_rows)))
    return int(_given(settings.batch_size, ours if is_auto(settings) else NetworkSettings.batch_size))


def lengths(n_rows: int) -> list[int]:
    """Numbers of epochs to try, rising: the longest, a third of it, a third of that, ..."""
    tried = [int(np.clip(WORK // n_rows, FEWEST, LONGEST))]
    while tried[-1] // TIMES >= SHORTEST:
        tried.append(tried[-1] // TIMES)
    return tried[::-1]


def member(
    data: Data,
    rows: NDArray[np.int64],
    seed: int,
    kappa: tuple[float, float],
    rates: Floats,
    dropout: float,
    coupling: Coupling,
) -> Member:
    """A member whose lam is kappa times the loss; kappa falls over its epochs from one number to the other."""
    kappas, speeds = _pace(*kappa, len(rates), coupling)
    fall = 0.5 * (1 + np.cos(np.pi * (np.arange(len(rates)) + 0.5) / len(rates)))
    return Member(data, rows, seed, kappas, rates * fall, dropout, Relative(speeds, coupling.is_exponential))


@lru_cache(maxsize=64)
def _pace(begin: float, end: float, epochs: int, coupling: Coupling) -> tuple[Floats, Floats]:
    """Kappa by epoch, in equal ratios, and what the gradients of both networks are multiplied with (epochs, 2).

    At the mean loss the regressor learns as with that loss alone: f is divided by what it is there, ln(1 + kappa), eq.
    (6.4). The quantifier's gradient is divided by lam. Where the expected loss is not lam e^-xi, a lam that falls would
    have to be followed by xi all the way, so kappa stays 1 there; softplus weighs by 1 / e at any lam.
    """
    if not coupling.is_exponential:
        begin = end = 1.0
    kappas = begin * (end / begin) ** np.linspace(0.0, 1.0, epochs)
    return kappas, np.column_stack([1 / theory.regressor_speed(1.0, kappas, coupling), 1 / kappas])


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value
