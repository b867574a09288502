"""What a fold more is worth (lam="auto"): by hand, and where nothing is known of it."""

from unittest import mock

import numpy as np
import pytest

from aleator import PairEnsemble, PairRegressor, engine, losses, mixtures
from aleator.estimators import automatic, fitting, gain, recipe
from aleator.estimators.held_out import HeldOut


def table(n, seed=0, columns=4):
    """A smooth function of two columns, with noise that grows with a third."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * np.abs(X[:, 2]) * rng.normal(size=n)


@pytest.fixture
def shares(monkeypatch):
    """All that `gain.share` says: first for quantifiers beside their regressors, then for those that learned anew."""
    plain, told = gain.share, []
    monkeypatch.setattr(gain, "share", lambda *values: told.append(plain(*values)) or told[-1])
    return told


def fitted(model, X, y, weight=None, groups=None):
    lesson = model._prepare(X, y, weight, groups)
    fit = model._fit(lesson, None)
    model._finish(fit, lesson)
    return fit, lesson


def test_more_rows_are_worth_more_where_there_is_no_noise(shares):
    """Nearly all is left of noise, and less of what a smooth function is missed by."""
    X, _ = table(200)
    left = {}
    for name, y in (("noise", np.random.default_rng(2).normal(size=200)), ("function", np.sin(2 * X[:, 0]) + X[:, 1])):
        fitted(PairRegressor(), X, y)
        left[name] = shares[-1]
    assert left["noise"] > 0.95 > left["function"]


def test_every_output_has_a_share_of_its_own(shares):
    X, _ = table(100)
    Y = np.column_stack([np.random.default_rng(2).normal(size=100), np.sin(2 * X[:, 0]) + X[:, 1]])
    fitted(PairRegressor(per_output=True), X, Y)
    noise, function = shares[-1]
    assert noise > 0.93 > function


@pytest.mark.parametrize("folds", [3, 5, 10])
def test_the_share_of_a_power_law_is_exact(folds):
    alpha = np.array([0.0, 0.3, 1.0])
    once, twice = (7 * (folds - k) ** -alpha for k in (1, 2))
    np.testing.assert_allclose(gain.share(once, twice, folds), (1 - 1 / folds) ** alpha)
    once, twice = np.array([1.7, 1e-9, np.nan, 1.0, np.inf]), np.array([1.0, 1.0, 1.0, 0.0, np.inf])
    np.testing.assert_array_equal(gain.share(once, twice, folds), [1.0, recipe.LEAST_GAIN, 1.0, 1.0, 1.0])


def test_the_gain_beside_is_how_the_scale_falls():
    """Where layers are shared, by hand: realised over predicted without a fold, and without two, by as many members."""
    X, _ = table(60)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = PairEnsemble(3, hidden=(8, 8), shared_layers=1, random_state=1)
    fit, lesson = fitted(model, X, y)
    make_member = fitting.member_maker(model, lesson.table.data)
    read, rows, epochs = model._readout(), lesson.table.rows, int(fit.epochs[0])

    def scale(folds):
        compared, held = [], []
        for left in folds:
            out = np.isin(lesson.fold, left)
            members = [make_member(rows[~out], seed, epochs) for seed in lesson.seeds[: recipe.SEARCHERS]]
            runs = engine.train(lesson.training.plan, members)
            pairs = [engine.settled(lesson.training.plan, *each) for each in zip(members, runs, strict=True)]
            params, lams = zip(*pairs, strict=True)
            compared.append(read.compare(fitting.LeftOut(lesson.table.data, rows[out], params, np.array(lams))))
            held.append(rows[out])
        realised, predicted, _ = np.concatenate(compared, axis=1)
        return HeldOut(np.concatenate(held), realised, predicted, np.ones(len(realised))).ratio

    once = scale([[a] for a in range(5)])
    twice = scale([[a, (a + 1) % 5] for a in range(5)])
    expected = np.clip((once / twice) ** (np.log(4 / 5) / np.log(3 / 4)), recipe.LEAST_GAIN, 1.0)
    np.testing.assert_allclose(fit.gain, expected, rtol=1e-6)
    assert recipe.LEAST_GAIN < fit.gain < 1
    held_out = fitting.held_out(fit.left_out, read.compare)
    np.testing.assert_allclose(model.loss_scale_, held_out.scale * fit.gain)
    assert (PairRegressor(rescale=False).fit(X, y).loss_scale_ == 1).all()


CASES = {
    "squared": ("squared", 1, False),
    "absolute": ("absolute", 1, True),
    "as many outputs as members": ("squared", 3, True),
}


@pytest.mark.parametrize("case", CASES)
def test_what_others_told_is_taken_out_and_the_spread_stays(case, shares, monkeypatch):
    """By hand: of each row left out, quantifiers ought to have expected more; what members disagree on stays."""
    loss, outputs, weighted = CASES[case]
    X, y = table(120)
    Y = y if outputs == 1 else np.column_stack([y, y**2, np.sin(2 * X[:, 0]) + X[:, 1]])
    weight = np.random.default_rng(1).uniform(0.5, 2, size=120) if weighted else None
    before = []
    plain = automatic._untold
    monkeypatch.setattr(automatic, "_untold", lambda left_out, share: before.append(left_out) or plain(left_out, share))
    model = PairEnsemble(3, loss=loss, per_output=outputs > 1)
    fitted(model, X, Y, weight)
    (left_out,), (_, share), read = before, shares, model._readout()
    rule = {"squared": mixtures.gaussian, "absolute": mixtures.laplace}[loss]
    rows, realised, expected, spread = [], [], [], []
    for part in left_out:
        mu, xi = (np.stack(each) for each in zip(*[read.outputs(p, X[part.rows]) for p in part.params], strict=True))
        e = read.units.unit * part.lams[:, None, None] * np.exp(-xi.astype(np.float64))  # (K, n, Q)
        mean, aleatoric, epistemic = rule(mu, e / share)
        rows.append(part.rows)
        realised.append(losses.get(loss)(Y.reshape(120, -1)[part.rows], mean))
        expected.append(aleatoric + epistemic)
        spread.append(epistemic)
    rows, realised, expected, spread = map(np.concatenate, (rows, realised, expected, spread))
    w = left_out[0].data.weight[rows]
    np.testing.assert_allclose(model.loss_scale_, HeldOut(rows, realised, expected, w).ratio, rtol=1e-6)
    assert (share < 0.99).any()
    assert (w @ spread > 0.01 * w @ expected).any()
    np.testing.assert_allclose(model.out_of_fold_.filter(regex="expected").mean(), model.out_of_fold_.filter(regex="^loss").mean(), rtol=1e-6 if weight is None else 0.5)  # fmt: skip


def test_folds_are_left_out_twice():
    """Members that tell the gain have seen neither fold, and every other row."""
    X, y = table(80)
    model = PairEnsemble(3)
    lesson = model._prepare(X, y, None)
    seen = []
    plain = fitting.trained_without

    def trained_without(training, data, held, ensembles):
        if len(ensembles) == 5 and len(ensembles[0]) == 2 and len(held[0]) == 32:
            seen.append((held, ensembles))
        return plain(training, data, held, ensembles)

    with mock.patch.object(fitting, "trained_without", trained_without):
        model._fit(lesson, None)
    ((held, ensembles),) = seen
    pairs = set()
    draws = np.unique(np.concatenate(held), return_counts=True)[1]
    assert (draws == 2).all()  # each fold has a partner on each side
    for rows, ensemble in zip(held, ensembles, strict=True):
        folds = lesson.fold[np.isin(lesson.table.rows, rows)]
        assert len(rows) == 32 == len(folds)
        assert len(set(folds)) == 2
        pairs.add(frozenset(folds))
        assert len(ensemble) == recipe.SEARCHERS
        for m in ensemble:
            assert sorted([*m.rows, *rows]) == sorted(lesson.table.rows)
    assert len(pairs) == 5


def test_losses_that_knew_of_a_row_are_told_from_those_that_did_not():
    """The losses of fold b by members that lack folds a and b stand at the rows of b, and at no row of a."""
    held = [np.arange(3), np.arange(3, 6), np.arange(6, 9)]
    twice = {(0, 1): "01", (0, 2): "02", (1, 2): "12"}
    parts = {pair: fitting.LeftOut(None, np.concatenate([held[pair[0]], held[pair[1]]]), [name], None) for pair, name in twice.items()}  # fmt: skip
    for a, expected in enumerate([{"01": held[1], "02": held[2]}, {"01": held[0], "12": held[2]}, {"02": held[0], "12": held[1]}]):  # fmt: skip
        found = {part.params[0]: part.rows for part in gain.Further(None, held, (), parts).partners(a)}
        assert found.keys() == expected.keys()
        assert all((found[name] == rows).all() for name, rows in expected.items())


def test_columns_with_heavy_tails_leave_the_scale_alone(shares):
    """A row far out, of which a quantifier may expect anything, does not decide about the scale of all others."""
    rng = np.random.default_rng(2)
    X = np.exp(1.5 * rng.normal(size=(300, 3)))
    fitted(PairRegressor(), X, np.log(X[:, 0]) + 0.5 * np.log(X[:, 1]) + 0.5 * rng.normal(size=300))
    assert shares[-1] > 0.8


# ---------------------------------------------------------------- where nothing is known


def test_two_groups_tell_nothing_of_a_fold_more(shares):
    X, y = table(60)
    fit, _ = fitted(PairEnsemble(2), X, y, groups=np.arange(60) % 2)
    assert not shares
    assert fit.gain == 1


@pytest.mark.parametrize(("ensembles_of_it", "known"), [(5, 0), (10, 1)])
def test_what_diverges_a_fold_further_in_costs_the_gain_only(ensembles_of_it, known, shares, monkeypatch):
    """There are five pairs of folds that pairs are trained without; of the quantifiers that are asked, twice five."""
    X, y = table(80)
    plain = fitting.trained_without

    def trained_without(training, data, held, ensembles):
        further_in = len(held[0]) == 32 or ensembles_of_it == 10
        if len(ensembles) == ensembles_of_it and len(ensembles[0]) == 2 and further_in:
            raise engine.DivergenceError("made to")
        return plain(training, data, held, ensembles)

    monkeypatch.setattr(fitting, "trained_without", trained_without)
    model = PairEnsemble(3)
    fit, _ = fitted(model, X, y)
    assert len(shares) == known
    held_out = fitting.held_out(fit.left_out, model._readout().compare)
    np.testing.assert_allclose(model.loss_scale_, held_out.scale)


def test_quantifiers_that_diverge_do_not_answer(monkeypatch):
    X, y = table(80)

    def cross_validated(*args, **kwargs):
        raise engine.DivergenceError("made to")

    monkeypatch.setattr(fitting, "cross_validated", cross_validated)
    model = PairRegressor().fit(X, y)
    own = PairRegressor(epochs=int(model.n_epochs_[0])).fit(X, y)
    assert model.params_.tobytes() == own.params_.tobytes()


def test_a_loss_beyond_the_networks_numbers_is_not_learned_anew():
    """One row that counts for nothing and is missed by everything: an answer, and no error about a loss named 'given'."""
    X, y = table(80)
    weight = np.ones(80)
    y[7], weight[7] = 1e22, 1e-60
    said = PairRegressor().fit(X, y, sample_weight=weight).predict_uncertainty(X)
    assert np.isfinite(said.mean).all()
    assert np.isfinite(said.expected_loss).all()
