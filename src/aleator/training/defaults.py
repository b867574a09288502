"""Every number that is chosen for the user, in one place: lam="auto", and the defaults of other training settings.

lam = kappa * (running mean of the loss over about an epoch). Small or large is then a question about kappa, which has
no unit: the regressor gives a region of expected loss e the weight f = ln(1 + lam / e) (Lemma 6.1), which is that of
least squares for kappa -> infinity, and of maximum likelihood, 1 / e, for kappa -> 0. A region that is not learned yet
looks like a noisy one, so kappa starts large and falls: first learn everywhere, then let the clean regions count more.
Where part of the table is pure noise, it is better to give it up from the start (`CLEAN_FIRST`); this must be shown
on held-out rows.

The two learning speeds of section 6 change with lam, and with the size of the loss; both are divided out (`_pace`), and
the penalty on the regressor's weights follows the loss, as it does in a likelihood. So nothing depends on the unit of
y, nor on how much of it can be explained. `docs/theory/automatic-lambda.md` has the derivation.
"""

import math
from functools import lru_cache

import numpy as np

from aleator import theory
from aleator.array_types import Floats, Rows
from aleator.couplings import Coupling
from aleator.engine import Data, Member, RelativeLam
from aleator.training.settings import NetworkSettings, Schedule, TrainingSettings, lam_is_auto

KAPPA = 100.0, 0.01  # lam over the mean loss, at the start and at the end
UNEXPLAINED = 0.3  # the part of a constant's loss that must be left for noisy regions to be given up
CLEAN_FIRST = 1e-3, 1e-4  # kappa where noisy regions are given up, without a penalty,
CLEAN_FIRST_BATCH = 4  # with so many times the rows of a step, and
CLEAN_FIRST_EPOCHS = 3  # so many times the epochs. It must reach
TYPICAL_LOSS = 0.8  # of the typical expected loss (a geometric mean) of held-out rows,
STANDARD_ERRORS = 3.0  # by so many standard errors
RATE = 1e-2  # of Adam at the start; falls to 0 like a cosine
MIN_BATCH = 32  # rows of a step, and
BATCH_FACTOR = 0.7  # times the root of the number of rows
L2 = 1.0  # the penalty of one row; for the regressor in units of its loss
MAX_EPOCHS = 800  # but
MAX_ROWS_SEEN = 2_400_000  # over all epochs, if that is at least
MIN_EPOCHS = 10
SHORTEST = 3  # epochs that are tried
LENGTH_RATIO = 3  # each length that is tried is so many times the one before
SEARCH_ROWS = 2_000  # held-out rows that are enough to choose the length, and
FIRST_SEARCH_ROWS = 100  # for a first decision whether to give up noisy regions
SEARCH_MEMBERS = 2  # members of the search, and of ensembles trained without two folds
PARTNER_FOLDS = 1  # folds on either side of each fold that are held out together with it
BEYOND = 10.0  # the expected loss of a new row is at most so many times that of any training row, or at least a tenth
MIN_LOSS_SHARE = 0.5  # of the loss on held-out rows, expected of members that know all rows, at the least

# Cross-fitting of any regressor.
MANY_FOLDS = 10  # on tables of fewer than
MANY_FOLDS_ROWS = 4_000  # rows;
FEW_FOLDS = 5  # on others
PAIRS_OF_FOLDS = {1_000: 1 / 2, 10_000: 1 / 4}  # below so many rows: pairs held out together, over the number of folds

# Quantifiers that learn given losses, in units of their mean.
GIVEN_LAM = 0.1
GIVEN_RATE = 5e-3
GIVEN_L2 = 1.0


def n_folds(n_rows: int) -> int:
    """How many folds cross-fitting has: more on small tables, where the rows of a fold are missed most."""
    return MANY_FOLDS if n_rows < MANY_FOLDS_ROWS else FEW_FOLDS


def pairs_of_folds(n_folds: int, n_rows: int) -> int:
    """How many pairs of folds are held out together; none on large tables, where a fold is worth next to nothing."""
    share = next((share for rows, share in PAIRS_OF_FOLDS.items() if n_rows < rows), 0.0)
    return math.ceil(share * (n_folds - 1)) if n_folds > 2 else 0


def learning_rate(settings: TrainingSettings) -> Schedule:
    """The learning rate of an estimator."""
    default = RATE if lam_is_auto(settings) else NetworkSettings.learning_rate
    return default if settings.learning_rate is None else settings.learning_rate


def l2(settings: TrainingSettings) -> float:
    """The penalty of an estimator."""
    default = L2 if lam_is_auto(settings) else NetworkSettings.l2
    return float(default if settings.l2 is None else settings.l2)


def batch_size(settings: TrainingSettings, n_rows: int) -> int:
    """Rows of a step: grows with the root of the number of rows, as the number of steps does."""
    auto = max(MIN_BATCH, round(BATCH_FACTOR * math.sqrt(n_rows)))
    default = auto if lam_is_auto(settings) else NetworkSettings.batch_size
    return int(default if settings.batch_size is None else settings.batch_size)


def lengths(n_rows: int) -> list[int]:
    """Numbers of epochs to try, rising: the longest, a third of it, a third of that, ..."""
    tried = [int(np.clip(MAX_ROWS_SEEN // n_rows, MIN_EPOCHS, MAX_EPOCHS))]
    while tried[-1] // LENGTH_RATIO >= SHORTEST:
        tried.append(tried[-1] // LENGTH_RATIO)
    return tried[::-1]


def auto_member(
    data: Data,
    rows: Rows,
    seed: int,
    kappa: tuple[float, float],
    rates: Floats,
    dropout: float,
    coupling: Coupling,
) -> Member:
    """A member whose lam is kappa times the loss; kappa falls over its epochs from one number to the other."""
    kappas, speeds = _pace(*kappa, len(rates), coupling)
    fall = 0.5 * (1 + np.cos(np.pi * (np.arange(len(rates)) + 0.5) / len(rates)))
    return Member(data, rows, seed, kappas, rates * fall, dropout, RelativeLam(speeds, coupling.is_exponential))


@lru_cache(maxsize=64)
def _pace(begin: float, end: float, epochs: int, coupling: Coupling) -> tuple[Floats, Floats]:
    """Kappa by epoch, in equal ratios, and the factors of the gradients of both networks (epochs, 2).

    At the mean loss the regressor learns as with that loss alone: f is divided by its value there, ln(1 + kappa), eq.
    (6.4). The quantifier's gradient is divided by lam. If the expected loss is not lam e^-xi, xi would have to follow a
    falling lam all the way, so kappa stays 1 there; softplus weighs by 1 / e at any lam.
    """
    if not coupling.is_exponential:
        begin = end = 1.0
    kappas = begin * (end / begin) ** np.linspace(0.0, 1.0, epochs)
    return kappas, np.column_stack([1 / theory.regressor_speed(1.0, kappas, coupling), 1 / kappas])


# Trees that learn given losses, in units of their mean.
TREE_RATE = 0.05
TREE_LEAVES = 15
TREE_ROWS_OF_A_LEAF = 5, 20  # at least, and at most;
TREE_SHARE_OF_A_LEAF = 0.02  # between them so much of all rows
TREE_FEATURES = 0.5  # of the columns, drawn anew for each split
TREE_PENALTY = 10.0  # on the values of leaves
TREE_LEAST_LOSS = 0.003  # smaller losses count as this
SHARE_ERRORS = 1.0  # standard errors by which a mixture must be better than one of half networks, half trees
TREE_ROWS = 200  # trees are tried from so many rows on
TREE_COPIES = 10  # whole-number weights are repetitions, up to so many rows for each
TREE_SEARCH_ROWS = 20_000  # are enough to choose the number of trees by
TREE_JUDGED_ROWS = 4_000  # rows of each fold, and
TREE_MEMBER_ROWS = 50_000  # for each member, each with others
TREES = 100, 400  # trees at most; the larger number is tried if more than
TREES_LEFT = 0.9  # of the smaller one were best
