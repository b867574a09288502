"""Tables of few different rows: cells of categories, counts, ratings, claims."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from aleator import LossQuantifier, PairEnsemble


def table(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 2, n)]).astype(float)
    y = {
        "claims": lambda: np.where(
            rng.uniform(size=n) < 0.05 + 0.1 * X[:, 0], np.exp(0.5 * rng.normal(size=n) + X[:, 1]), 0.0
        ),
        "ratings": lambda: np.clip(np.round(2 + X[:, 0] / 2 + rng.normal(size=n)), 1, 5),
        "counts": lambda: rng.poisson(np.exp(X[:, 0] / 3)).astype(float),
    }[kind]()
    return X, y


@pytest.mark.parametrize("kind", ["claims", "ratings", "counts"])
def test_scale_and_coverage_on_tables_of_cells(kind):
    """Rows equal by chance are in different folds, and each counts for the intervals."""
    X, y = table(kind, 1500)
    model = LossQuantifier(HistGradientBoostingRegressor(max_iter=40), loss="absolute", n_members=2).fit(X, y)
    new, truth = table(kind, 6000, seed=1)
    known = model.predict_uncertainty(new)
    assert known.expected_loss.mean() == pytest.approx(np.abs(truth - known.prediction).mean(), rel=0.15)
    low, high = model.interval_of(known, 0.8)
    assert 0.77 < np.mean((low <= truth) & (truth <= high)) < 0.97  # whole numbers cannot be split finer


def test_copies_stay_together():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    rows = np.repeat(np.arange(200), 3)
    model = LossQuantifier(HistGradientBoostingRegressor(), n_members=1).fit(X[rows], y[rows])
    folds = model.out_of_fold_.groupby(rows[model.out_of_fold_["row"]])["fold"].nunique()
    assert (folds == 1).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: PairEnsemble(n_members=2, epochs=20),
        lambda: LossQuantifier(HistGradientBoostingRegressor(max_iter=10), n_members=1),
    ],
)
def test_each_of_several_equal_rows_calibrates_the_intervals(make):
    X, y = table("ratings", 400)
    assert len(make().fit(X, y).scores_) == 400
