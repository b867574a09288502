"""The correction for one more fold of rows (lam="auto"): computed by hand, and where nothing is known of it."""

from unittest import mock

import numpy as np
import pytest

from aleator import PairEnsemble, PairRegressor, engine, losses, mixtures
from aleator.training import defaults, strategies
from aleator.training.auto import fold_correction
from aleator.training.held_out import HeldOutLosses, held_out_losses
from aleator.training.results import HeldOutPart


def table(n, seed=0, columns=4):
    """A smooth function of two columns, with noise that grows with a third."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * np.abs(X[:, 2]) * rng.normal(size=n)


@pytest.fixture
def shares(monkeypatch):
    """All results of `extrapolated_share`: first for quantifiers beside their regressors, then for refitted ones."""
    plain, found = fold_correction.extrapolated_share, []
    monkeypatch.setattr(
        fold_correction, "extrapolated_share", lambda *values: found.append(plain(*values)) or found[-1]
    )
    return found


def fitted(model, X, y, weight=None, groups=None):
    task = model._problem(X, y, weight, groups)
    result = model._train(task, None)
    model._set_fitted(result, task)
    return result, task


def test_one_more_fold_is_worth_more_without_noise(shares):
    """Nearly all is left of noise, and less of what a smooth function is missed by."""
    X, _ = table(200)
    left = {}
    for name, y in (("noise", np.random.default_rng(2).normal(size=200)), ("function", np.sin(2 * X[:, 0]) + X[:, 1])):
        fitted(PairRegressor(), X, y)
        left[name] = shares[-1]
    assert left["noise"] > 0.95 > left["function"]


def test_each_output_has_its_own_share(shares):
    X, _ = table(100)
    Y = np.column_stack([np.random.default_rng(2).normal(size=100), np.sin(2 * X[:, 0]) + X[:, 1]])
    fitted(PairRegressor(per_output=True), X, Y)
    noise, function = shares[-1]
    assert noise > 0.93 > function


def test_the_loss_share_is_extrapolated_from_two_missing_folds_to_none():
    """Where layers are shared, by hand: realised over predicted without a fold, and without two, by as many members."""
    X, _ = table(60)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = PairEnsemble(n_members=3, hidden=(8, 8), shared_layers=1, random_state=1)
    result, task = fitted(model, X, y)
    readout, rows, epochs = model._readout(), task.rows, int(result.epochs[0])

    def scale(folds):
        compared, held = [], []
        for left in folds:
            out = np.isin(task.fold, left)
            members = [task.make_member(rows[~out], seed, epochs) for seed in task.seeds[: defaults.SEARCH_MEMBERS]]
            runs = engine.train(task.plan, members)
            pairs = [engine.final_pair(task.plan, *each) for each in zip(members, runs, strict=True)]
            params, lams = zip(*pairs, strict=True)
            compared.append(readout.compare(HeldOutPart(task.data, rows[out], params, np.array(lams))))
            held.append(rows[out])
        realised, predicted, _ = np.concatenate(compared, axis=1)
        return HeldOutLosses(np.concatenate(held), realised, predicted, np.ones(len(realised))).ratio

    once = scale([[a] for a in range(5)])
    twice = scale([[a, (a + 1) % 5] for a in range(5)])
    expected = np.clip((once / twice) ** (np.log(4 / 5) / np.log(3 / 4)), defaults.MIN_LOSS_SHARE, 1.0)
    np.testing.assert_allclose(result.loss_share, expected, rtol=1e-6)
    assert defaults.MIN_LOSS_SHARE < result.loss_share < 1
    held_out = held_out_losses(result.held_out, readout.compare)
    np.testing.assert_allclose(model.loss_scale_, held_out.scale * result.loss_share)
    assert (PairRegressor(rescale=False).fit(X, y).loss_scale_ == 1).all()


CASES = {
    "squared": ("squared", 1, False),
    "absolute": ("absolute", 1, True),
    "as many outputs as members": ("squared", 3, True),
}


@pytest.mark.parametrize("case", CASES)
def test_the_share_of_refitted_quantifiers_changes_the_aleatoric_part_only(case, shares):
    """By hand: quantifiers should expect more of each held-out row; what members disagree on stays."""
    loss, outputs, weighted = CASES[case]
    X, y = table(120)
    Y = y if outputs == 1 else np.column_stack([y, y**2, np.sin(2 * X[:, 0]) + X[:, 1]])
    weight = np.random.default_rng(1).uniform(0.5, 2, size=120) if weighted else None
    model = PairEnsemble(n_members=3, loss=loss, per_output=outputs > 1)
    result, _ = fitted(model, X, Y, weight)
    parts, (_, share), readout = result.held_out, shares, model._readout()
    rule = {"squared": mixtures.gaussian, "absolute": mixtures.laplace}[loss]
    rows, realised, expected, spread = [], [], [], []
    for part in parts:
        mu, xi = (np.stack(each) for each in zip(*[readout.outputs(p, X[part.rows]) for p in part.params], strict=True))
        e = readout.units.unit * part.lams[:, None, None] * np.exp(-xi.astype(np.float64))  # (K, n, Q)
        mean, aleatoric, epistemic = rule(mu, e / share)
        rows.append(part.rows)
        realised.append(losses.get(loss)(Y.reshape(120, -1)[part.rows], mean))
        expected.append(aleatoric + epistemic)
        spread.append(epistemic)
    rows, realised, expected, spread = map(np.concatenate, (rows, realised, expected, spread))
    w = parts[0].data.weight[rows]
    np.testing.assert_allclose(model.loss_scale_, HeldOutLosses(rows, realised, expected, w).ratio, rtol=1e-6)
    assert (share < 0.99).any()
    assert (w @ spread > 0.01 * w @ expected).any()
    np.testing.assert_allclose(model.out_of_fold_.filter(regex="expected").mean(), model.out_of_fold_.filter(regex="^loss").mean(), rtol=1e-6 if weight is None else 0.5)  # fmt: skip


def test_members_for_the_correction_lack_two_folds():
    """Members for the correction have seen neither of two folds, and every other row."""
    X, y = table(80)
    model = PairEnsemble(n_members=3)
    task = model._problem(X, y, None)
    seen = []
    plain = strategies.trained_without

    def trained_without(problem, held, ensembles):
        if len(ensembles) == 5 and len(ensembles[0]) == 2 and len(held[0]) == 32:
            seen.append((held, ensembles))
        return plain(problem, held, ensembles)

    with mock.patch.object(strategies, "trained_without", trained_without):
        model._train(task, None)
    ((held, ensembles),) = seen
    pairs = set()
    draws = np.unique(np.concatenate(held), return_counts=True)[1]
    assert (draws == 2).all()  # each fold has a partner on each side
    for rows, ensemble in zip(held, ensembles, strict=True):
        folds = task.fold[np.isin(task.rows, rows)]
        assert len(rows) == 32 == len(folds)
        assert len(set(folds)) == 2
        pairs.add(frozenset(folds))
        assert len(ensemble) == defaults.SEARCH_MEMBERS
        for m in ensemble:
            assert sorted([*m.rows, *rows]) == sorted(task.rows)
    assert len(pairs) == 5


def test_partners_are_the_folds_held_out_together_with_a_fold():
    """The losses of fold b by members that lack folds a and b stand at the rows of b, and at no row of a."""
    held = [np.arange(3), np.arange(3, 6), np.arange(6, 9)]
    twice = {(0, 1): "01", (0, 2): "02", (1, 2): "12"}
    parts = {pair: HeldOutPart(None, np.concatenate([held[pair[0]], held[pair[1]]]), [name], None) for pair, name in twice.items()}  # fmt: skip
    for a, expected in enumerate([{"01": held[1], "02": held[2]}, {"01": held[0], "12": held[2]}, {"02": held[0], "12": held[1]}]):  # fmt: skip
        found = {part.params[0]: part.rows for part in fold_correction.NestedFolds(None, held, (), parts).partners(a)}
        assert found.keys() == expected.keys()
        assert all((found[name] == rows).all() for name, rows in expected.items())


def test_columns_with_heavy_tails_do_not_change_the_share(shares):
    """A row far out, of which a quantifier may expect anything, does not decide about the scale of all others."""
    rng = np.random.default_rng(2)
    X = np.exp(1.5 * rng.normal(size=(300, 3)))
    fitted(PairRegressor(), X, np.log(X[:, 0]) + 0.5 * np.log(X[:, 1]) + 0.5 * rng.normal(size=300))
    assert shares[-1] > 0.8


# ---------------------------------------------------------------- where nothing is known


def test_two_folds_give_no_correction(shares):
    X, y = table(60)
    result, _ = fitted(PairEnsemble(n_members=2), X, y, groups=np.arange(60) % 2)
    assert not shares
    assert result.loss_share == 1


@pytest.mark.parametrize(("ensembles_of_it", "known"), [(5, 0), (10, 1)])
def test_divergence_without_two_folds_only_drops_the_correction(ensembles_of_it, known, shares, monkeypatch):
    """There are five pairs of folds that pairs are trained without; of the quantifiers that are asked, twice five."""
    X, y = table(80)
    plain = strategies.trained_without

    def trained_without(problem, held, ensembles):
        nested = len(held[0]) == 32 or ensembles_of_it == 10
        if len(ensembles) == ensembles_of_it and len(ensembles[0]) == 2 and nested:
            raise engine.DivergenceError("made to")
        return plain(problem, held, ensembles)

    monkeypatch.setattr(strategies, "trained_without", trained_without)
    model = PairEnsemble(n_members=3)
    result, _ = fitted(model, X, y)
    assert len(shares) == known
    held_out = held_out_losses(result.held_out, model._readout().compare)
    np.testing.assert_allclose(model.loss_scale_, held_out.scale)


def test_the_pairs_own_quantifier_stays_if_the_refit_diverges(monkeypatch):
    X, y = table(80)

    def cross_validated(*args, **kwargs):
        raise engine.DivergenceError("made to")

    monkeypatch.setattr(strategies, "cross_validated", cross_validated)
    model = PairRegressor().fit(X, y)
    own = PairRegressor(epochs=int(model.n_epochs_[0]), rescale=False).fit(X, y)
    assert model.params_.tobytes() == own.params_.tobytes()


def test_a_loss_beyond_float32_leaves_the_pairs_own_quantifier():
    """One row that counts for nothing and is missed by everything: an answer, and no error about a loss named 'given'."""
    X, y = table(80)
    weight = np.ones(80)
    y[7], weight[7] = 1e22, 1e-60
    said = PairRegressor().fit(X, y, sample_weight=weight).predict_uncertainty(X)
    assert np.isfinite(said.prediction).all()
    assert np.isfinite(said.expected_loss).all()
