"""Quantifiers made of trees: what they learn, from which rows, and that no loss throws them off."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import HistGradientBoostingRegressor

from aleator.training import defaults, loss_trees
from aleator.training.given_losses import given_losses
from aleator.training.loss_trees import fit_loss_trees


def settings(**changed):
    return SimpleNamespace(**{"random_state": 0, "n_members": 2, "n_jobs": 1, "verbose": False} | changed)


def table(n=600, seed=0):
    """Losses with steps: expected 1, 4 or 12."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    level = np.where(Z[:, 0] > 0.5, 12.0, np.where(Z[:, 1] > 0, 4.0, 1.0))
    return Z, level, (level * rng.chisquare(1, n))[:, None]


def trained(Z, L, weight=None, fold=None, **changed):
    weight = np.ones(len(Z)) if weight is None else weight
    fold = np.arange(len(Z)) % 5 if fold is None else fold
    return fit_loss_trees(settings(**changed), given_losses(Z, L, weight, fold))


@pytest.mark.parametrize("noise", ["gamma", "log-normal", "two values"])
def test_trees_expect_the_mean_whatever_the_distribution(noise):
    """L / e + ln e is least at e = E[L | x]; two groups of 2,000 rows show it."""
    rng = np.random.default_rng(0)
    group = np.arange(4000) % 2
    draws = {
        "gamma": rng.gamma(0.5, 2.0, 4000),
        "log-normal": rng.lognormal(-0.5, 1.0, 4000),
        "two values": 2.0 * (rng.uniform(size=4000) < 0.5),
    }[noise]
    L = np.where(group == 1, 5.0, 1.0) * draws
    Z = group[:, None] + rng.uniform(0, 0.1, (4000, 1))
    expected = trained(Z, L[:, None]).trees.expected_loss(Z)[:, 0]
    for k in (0, 1):
        assert expected[group == k].mean() == pytest.approx(L[group == k].mean(), rel=0.1)


def test_steps_are_found():
    Z, _, L = table(3000)
    new, truth, _ = table(2000, seed=1)
    expected = trained(Z, L).trees.expected_loss(new)[:, 0]
    assert np.corrcoef(np.log(expected), np.log(truth))[0, 1] > 0.9


def test_held_out_losses_are_expected_by_trees_that_have_not_seen_them():
    Z, _, L = table(300)
    fold = np.arange(300) % 3
    found = trained(Z, L, fold=fold)
    given = given_losses(Z, L, np.ones(300), fold)
    losses = np.maximum(given.in_units(), defaults.TREE_LEAST_LOSS)[:, 0]
    seed = loss_trees.member_seeds(0, 1)[0] % 2**32
    for k in range(3):
        others = given.rows[given.fold[given.rows] != k]
        model = loss_trees._model(seed, found.n_trees, 6).fit(Z[others], losses[others])
        rows = np.flatnonzero(fold == k)
        place = np.argsort(found.held_out.rows)[rows]
        assert_allclose(found.held_out.predicted[place, 0], given.unit[0] * model.predict(Z[rows]), rtol=1e-12)
    assert_array_equal(np.sort(found.held_out.rows), np.arange(300))
    assert_array_equal(found.held_out.realised, L[found.held_out.rows])


def test_the_joint_loss_after_each_tree():
    """Two losses, three rows and four lengths, summed by hand."""
    expected = np.exp(np.random.default_rng(0).normal(size=(4, 3, 2)))
    L, weight = np.array([[1.0, 2.0], [3.0, 0.0], [0.5, 5.0]]), np.array([1.0, 2.0, 3.0])
    given = SimpleNamespace(weight=weight, L=L, unit=np.ones(2), in_units=lambda: L)
    joint = [
        sum(weight[i] * (L[i, q] / e[i, q] + np.log(e[i, q])) for i in range(3) for q in range(2)) for e in expected
    ]
    parts = [SimpleNamespace(judged=np.array(rows), expected=expected[:, rows]) for rows in ([0, 1], [2])]
    assert_allclose(loss_trees._joint_losses(given, parts), np.array(joint) / 12)


def test_the_number_of_trees_is_that_of_the_least():
    Z, _, L = table()
    found = trained(Z, L)
    assert found.n_trees == found.history["cv_joint_loss"].argmin() + 1
    assert len(found.history) in defaults.TREES


@pytest.mark.parametrize(("n", "most", "step"), [(10, 20, 1), (39, 20, 1), (40, 20, 2), (95, 20, 4)])
def test_rows_are_thinned_evenly(n, most, step):
    rows = np.arange(100, 100 + n)
    assert_array_equal(loss_trees._thinned(rows, most), rows[::step])
    every = np.sort(np.concatenate([loss_trees._thinned(rows, most, k) for k in range(step)]))
    assert_array_equal(every, rows)


def test_large_tables_are_learned_from_a_part_and_predicted_whole(monkeypatch):
    Z, _, L = table(2000)
    whole = trained(Z, L)
    for name, rows in (("TREE_SEARCH_ROWS", 400), ("TREE_JUDGED_ROWS", 100), ("TREE_MEMBER_ROWS", 500)):
        monkeypatch.setattr(defaults, name, rows)
    found = trained(Z, L, n_jobs=2)
    assert_array_equal(np.sort(found.held_out.rows), np.arange(2000))
    assert_array_equal(found.trees.expected_loss(Z), trained(Z, L).trees.expected_loss(Z))
    alike = np.corrcoef(np.log(found.trees.expected_loss(Z)[:, 0]), np.log(whole.trees.expected_loss(Z)[:, 0]))[0, 1]
    assert alike > 0.8


def test_losses_that_span_fifteen_decades_do_not_throw_them_off():
    """A plain Newton step for a leaf of tiny losses is thousands of e-folds long."""
    rng = np.random.default_rng(0)
    Z = rng.uniform(size=(500, 2))
    L = 10.0 ** (-15 * Z[:, :1]) * rng.chisquare(1, (500, 1))
    found = trained(Z, L)
    expected = found.trees.expected_loss(Z)[:, 0]
    assert np.isfinite(expected).all()
    assert (np.diff(expected[np.argsort(Z[:, 0])][::50]) < 1e-3 * L.mean()).all()
    assert expected.min() > 1e-4 * L.mean()
    assert expected.mean() == pytest.approx(L.mean(), rel=0.3)
    plain = HistGradientBoostingRegressor(loss="gamma", learning_rate=0.05, early_stopping=False)
    wild = plain.fit(Z, np.maximum(L[:, 0] / L.mean(), 1e-15)).predict(Z)
    assert wild.min() < 1e-30  # what this test is about


def test_many_zeros():
    rng = np.random.default_rng(0)
    Z = rng.uniform(size=(500, 2))
    L = np.where(Z[:, :1] > 0.9, rng.exponential(size=(500, 1)), 0.0)
    expected = trained(Z, L).trees.expected_loss(Z)[:, 0]
    assert expected[Z[:, 0] < 0.8].max() < 0.05
    assert expected[Z[:, 0] > 0.92].mean() == pytest.approx(L[Z[:, 0] > 0.92].mean(), rel=0.3)
    nothing = trained(Z, np.zeros((500, 1)))
    assert_array_equal(nothing.trees.expected_loss(Z), 0.0)


@pytest.mark.parametrize("weighted", [True, False])
def test_the_same_bits_on_any_number_of_threads_and_in_any_order(weighted):
    Z, _, L = table()
    weight = np.random.default_rng(1).uniform(0.5, 2, 600) if weighted else np.ones(600)
    fold = np.arange(600) % 5
    first = trained(Z, L, weight, fold).trees.expected_loss(Z)
    assert_array_equal(trained(Z, L, weight, fold, n_jobs=2).trees.expected_loss(Z), first)
    order = np.random.default_rng(2).permutation(600)
    again = trained(Z[order], L[order], weight[order], fold[order])
    assert_array_equal(again.trees.expected_loss(Z), first)


def test_weights_are_repetitions_and_units_do_not_matter():
    Z, _, L = table(400)
    fold, counts = np.arange(400) % 5, np.random.default_rng(1).integers(0, 4, 400)
    weighted = trained(Z, L, counts.astype(float), fold)
    rows = np.repeat(np.arange(400), counts)
    repeated = trained(Z[rows], L[rows], None, fold[rows])
    assert weighted.n_trees == repeated.n_trees
    assert_allclose(weighted.trees.expected_loss(Z), repeated.trees.expected_loss(Z), rtol=1e-12)
    tenfold = trained(Z, 1024 * L, 7 * counts.astype(float), fold)
    assert_allclose(tenfold.trees.expected_loss(Z), 1024 * weighted.trees.expected_loss(Z), rtol=1e-9)


def test_weights_that_are_no_counts_matter_as_much():
    """Half of the rows have a loss of 1 and the weight pi, the others a loss of 3 and weight 1."""
    L = np.where(np.arange(1000) % 2, 3.0, 1.0)
    weight = np.where(L == 1, np.pi, 1.0)
    Z = np.random.default_rng(0).uniform(size=(1000, 1))
    expected = trained(Z, L[:, None], weight).trees.expected_loss(Z)[:, 0]
    assert expected.mean() == pytest.approx((np.pi + 3) / (np.pi + 1), rel=0.03)


def test_each_loss_has_its_own_trees():
    Z, _, L = table()
    both = trained(Z, np.column_stack([L, 5 * L[::-1]]))
    for k, alone in enumerate((L, 5 * L[::-1])):
        assert_allclose(both.trees.unit[k], alone.mean(), rtol=1e-9)
    assert both.trees.expected_loss(Z).shape == (600, 2)
    assert both.held_out.predicted.shape == (600, 2)


def test_one_fold_is_no_cross_validation():
    Z, _, L = table(100)
    found = trained(Z, L, fold=np.zeros(100, int))
    assert found.held_out is None
    assert found.n_trees == defaults.TREES[0]


def test_a_longer_search_if_the_best_is_near_the_end(monkeypatch):
    Z, _, L = table()
    monkeypatch.setattr(defaults, "TREES", (10, 60))
    assert 10 < trained(Z, L).n_trees <= 60
    monkeypatch.setattr(defaults, "TREES", (10,))
    assert trained(Z, L).n_trees == 10
