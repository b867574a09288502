"""What held-out rows tell: a scale that no row decides, limits, and a check that finds what is wrong."""

import warnings
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

import aleator
from aleator import LossQuantifier, PairEnsemble, PairRegressor, export_onnx
from aleator.estimators import loss_quantifier
from aleator.torch import to_torch
from aleator.training import held_out, loss_network
from aleator.training.held_out import HeldOutLosses, UnreliableWarning


def rows(n=1000, seed=0, factor=1.0):
    """Losses of rows that differ in what they lose, and what was predicted: `factor` times too little."""
    rng = np.random.default_rng(seed)
    expected = np.exp(rng.normal(size=n))
    realised = expected * rng.exponential(size=n)
    return HeldOutLosses(np.arange(n), realised[:, None], expected[:, None] / factor, np.ones(n))


@given(st.floats(1e-6, 1e6), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_the_scale_makes_the_means_equal(factor, seed):
    held = rows(seed=seed, factor=factor)
    assert held.ratio == pytest.approx(factor, rel=0.25)
    assert held.expected.mean() == pytest.approx(held.plausible.mean(), rel=0.01)


def test_no_single_row_decides_about_the_scale():
    """An absurd loss, an absurd prediction, or both in one row: the scale hardly moves."""
    clean = rows().ratio[0]
    for spoil in ({"realised": 1e9}, {"predicted": 1e12}, {"realised": 1e9, "predicted": 1e-9}):
        held = rows()
        for name, value in spoil.items():
            getattr(held, name)[0] = value
        assert held.ratio[0] == pytest.approx(clean, rel=0.15)
        assert held.check().influence < 0.35


@pytest.mark.parametrize("n", [6, 20, 40])
def test_an_observation_is_at_most_a_share_of_the_sum(n):
    L = np.r_[40.0, 20.0, 10.0, 5.0, np.ones(n)]  # a tail that is not torn
    credible = held_out.plausible_losses(L, np.ones(n + 4))
    assert credible.max() == pytest.approx(held_out.MAX_SHARE * credible.sum(), rel=1e-6)
    assert_allclose(held_out.plausible_losses(np.ones(n), np.ones(n)), 1.0)


def test_rows_that_are_often_there_are_not_clipped():
    """Equal rows are merged, with their weights added: what many rows have in common is not one row."""
    L, weight = np.array([0.0004, 0.96, 0.25, 0.25]), np.array([490.0, 10.0, 250.0, 250.0])
    assert_allclose(held_out.plausible_losses(L, weight / weight.mean()), L)


def test_rare_claims_count():
    """25 claims among 5,000 rows make the loss, and nothing about them is implausible."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 2)), np.zeros(5000)
    y[rng.choice(5000, 25, replace=False)] = rng.uniform(500, 3000, 25)
    model = LossQuantifier(lambda X: np.full(len(X), y.mean())).fit(X, y)
    assert model.predict_loss(X).mean() == pytest.approx(((y - y.mean()) ** 2).mean(), rel=0.3)


def test_pairs_are_judged_by_the_targets_themselves():
    X, y = noise_anywhere(300)
    y[7] = 1e6
    model = PairRegressor().fit(X, y)
    table = model.out_of_fold_.set_index("row")
    assert table.loc[7, "loss"] == pytest.approx(1e12, rel=1e-3)
    assert model.predict_loss(X).mean() < 20
    assert model.check_.outliers[0] == 7
    assert not model.check_.passed
    assert "(rows 7" in model.check_.message or "(row 7" in model.check_.message


def test_what_was_not_seen_is_not_expected():
    held = rows()
    low, high = held.limits[:, 0]
    assert high == held_out.ABOVE * held.plausible.max()
    order = np.argsort(held.predicted[:, 0])
    assert low == pytest.approx(held.realised[order[:20], 0].mean() / held_out.BELOW, rel=1)
    held.predicted[0] = 1e30
    assert held.expected.max() <= high


def test_the_check_finds_what_is_wrong():
    assert not any(rows().check().problems)
    upside_down = rows()
    upside_down = HeldOutLosses(upside_down.rows, upside_down.realised, 1 / upside_down.predicted, upside_down.weight)
    assert upside_down.beats_constant == [False]
    assert upside_down.check().problems[0]
    too_sure = rows()
    too_sure.predicted[:200] *= 1e-3  # a fifth of the rows
    (problem,) = too_sure.check().problems
    assert "rows are expected to lose" in problem
    assert not any(rows(25).check().problems)  # too few to say


def test_groups_of_the_check_hold_all_rows():
    groups = rows().check().groups
    assert groups["rows"].sum() == 1000
    assert (np.diff(groups["expected_loss"]) > 0).all()
    assert np.average(groups["realised_loss"], weights=groups["rows"]) == pytest.approx(rows().plausible.mean())


# ---------------------------------------------------------------- models


def noise_anywhere(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * np.exp(X[:, 1]) * rng.normal(size=n)


def test_a_good_model_says_so():
    X, y = noise_anywhere(600)
    model = LossQuantifier(lambda X: X[:, 0], loss="absolute").fit(X, y)
    assert model.check_.passed
    assert model.check_.quantifier == "network"
    assert not model.check_.message
    far = 1e6 * X
    far[:, 0] = X[:, 0]  # the prediction
    assert model.predict_loss(far).max() <= model.loss_limits_[1, 0]
    assert model.out_of_fold_["expected_loss"].mean() == pytest.approx(model.out_of_fold_["loss"].mean(), rel=0.02)


@pytest.mark.parametrize(
    "make", [lambda: LossQuantifier(lambda X: X[:, 0]), PairRegressor, lambda: PairEnsemble(n_members=2)]
)
def test_a_quantifier_that_fails_is_replaced(make, monkeypatch, tmp_path):
    """Made to fail, and to be no better than a constant: the mean loss is expected of every row, and that is said."""
    X, y = noise_anywhere(200)
    plain = held_out._checked
    monkeypatch.setattr(held_out, "_checked", lambda *a: ("made to fail", *plain(*a)[1:]))
    monkeypatch.setattr(HeldOutLosses, "beats_constant", property(lambda self: [False] * self.realised.shape[1]))
    model = make().fit(X, y)
    expected = model.predict_loss(X)
    assert np.ptp(expected) <= 1e-9 * expected.mean()
    assert model.check_.quantifier == "constant"
    assert "made to fail" in model.check_.message
    assert "one constant for all rows" in model.check_.message
    if not isinstance(model, LossQuantifier):
        model.save(tmp_path / "m.aleator")
        read = aleator.load(tmp_path / "m.aleator")
        assert read.check_.message == model.check_.message
        np.testing.assert_array_equal(read.predict_loss(X), expected)


def test_a_simpler_quantifier_takes_its_place(monkeypatch, tmp_path):
    """Networks are made to fail and linear quantifiers not: these predict, are in the file, and the model says so."""
    X, y = noise_anywhere(300)
    plain, learn = held_out._checked, loss_network.fit_loss_networks
    hidden = []

    def learned(settings, *rest):
        hidden.append(tuple(settings.hidden))
        return learn(settings, *rest)

    def checked(*rest):
        return ("made to fail" if hidden[-1] else "", *plain(*rest)[1:])

    monkeypatch.setattr(loss_quantifier, "fit_loss_networks", learned)
    monkeypatch.setattr(held_out, "_checked", checked)
    scores = iter([0.0, 1.0])  # of the linear ones, then of the networks
    monkeypatch.setattr(HeldOutLosses, "score", property(lambda self: next(scores)))
    model = LossQuantifier(Ridge()).fit(X, y)
    assert hidden == [(50,), ()]
    assert model.check_.quantifier == "linear"
    assert "It was replaced by a linear one." in model.check_.message
    model.save(tmp_path / "m.aleator")
    np.testing.assert_array_equal(aleator.load(tmp_path / "m.aleator").predict_loss(X), model.predict_loss(X))


def test_limits_are_in_torch_and_onnx(tmp_path):
    X, y = noise_anywhere(150)
    model = PairEnsemble(n_members=2).fit(X, y)
    limits = np.quantile(model.predict_loss(X), [0.2, 0.8])[:, None]
    model.loss_correction_ = replace(model.loss_correction_, limits=limits)
    expected = model.predict_loss(X)
    assert expected.min() == pytest.approx(model.loss_limits_[0, 0])
    assert_allclose(to_torch(model).predict(X).expected_loss, expected, rtol=1e-5)
    export_onnx(model, tmp_path / "m.onnx")
    answers = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(["expected_loss"], {"X": X})
    assert_allclose(answers[0], expected, rtol=1e-5)


@pytest.mark.parametrize("n", [400, 1000, 3000])
def test_rare_events_count(n):
    """One row in a hundred has the same large loss, as claims have: that is what is to be expected."""
    L = np.zeros(n)
    L[::100] = 100.0
    assert_allclose(held_out.plausible_losses(L, np.ones(n)), L)


def test_fit_warns_of_a_model_that_failed_its_check():
    X, y = noise_anywhere(600)
    wrong = y.copy()
    wrong[7] = 1e7
    model = LossQuantifier(lambda X: X[:, 0], loss="absolute", n_members=1)
    with pytest.warns(UnreliableWarning, match="A few losses are far beyond all others .row 7.*"):
        model.fit(X, wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnreliableWarning)
        model.fit(X, y)


def test_rare_losses_that_no_tenth_shows_are_seen_in_several():
    """In each of eight tenths one row in 25 loses 1, and 0.005 is expected: no tenth is beyond doubt, all together are."""
    expected = np.r_[np.full(800, 0.005) * (1 + 1e-6 * np.arange(800)), np.full(200, 3.0)]
    realised = np.r_[np.tile(np.r_[1.0, np.zeros(24)], 32), np.full(200, 3.0) * np.tile([0.5, 1.5], 100)]
    held = HeldOutLosses(np.arange(1000), realised[:, None], expected[:, None], np.ones(1000))
    one = held_out._compared(realised, expected, np.ones(1000), np.arange(100), realised.mean())
    assert one[2] == ""
    (problem,) = held.check().problems
    assert problem.startswith("600 rows are expected to lose 0.005")
    assert len(held.check().groups) == 10


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_equal_losses_of_a_few_rows_are_all_credible(n):
    """Each is more than a third of the sum, because there are no more."""
    assert_allclose(held_out.plausible_losses(np.ones(n), np.ones(n)), 1.0)
