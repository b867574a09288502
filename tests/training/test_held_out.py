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
from aleator.torch import to_torch
from aleator.training import held_out, loss_network, quantifier
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

    monkeypatch.setattr(quantifier, "fit_loss_networks", learned)
    monkeypatch.setattr(held_out, "_checked", checked)
    scores = iter([1.0, 0.0, 1.0])  # of the networks, of the linear ones, and of the networks again
    monkeypatch.setattr(HeldOutLosses, "score", property(lambda self: next(scores)))
    model = LossQuantifier(Ridge(), quantifier="network").fit(X, y)
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


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_a_few_losses_among_zeros_are_no_mistake(k):
    """A regressor that is exact but for k rows of 400: their mean is what is to be expected, and not nothing."""
    L = np.zeros(400)
    L[:k] = 5.0
    assert_allclose(held_out.plausible_losses(L, np.ones(400)), L)
    held = HeldOutLosses(np.arange(400), L[:, None], np.full((400, 1), 0.3), np.ones(400))
    assert_allclose(held.expected, 5.0 * k / 400)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_equal_losses_of_a_few_rows_are_all_credible(n):
    """Each is more than a third of the sum, because there are no more."""
    assert_allclose(held_out.plausible_losses(np.ones(n), np.ones(n)), 1.0)


# ---------------------------------------------------------------- against the plain way of writing it

losses_of_rows = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([0.0, 1.0, 2.0, 50.0]), st.floats(1e-3, 1e3)),  # realised
        st.floats(1e-2, 1e2),  # predicted
        st.sampled_from([1.0, 2.0, 3.0]),  # weight
    ),
    min_size=1,
    max_size=120,
)


def limits_written_plainly(L, predicted, weight):
    """In groups of ten rows by predicted loss, at most fifty: a fifth of the least mean; and the largest loss."""
    if max(L) == 0:
        return 0.0, np.inf
    n_groups = min(50, max(1, len(L) // 10))
    order = sorted(range(len(L)), key=lambda row: predicted[row])
    least, start = np.inf, 0
    for k in range(n_groups):
        size = len(L) // n_groups + (k < len(L) % n_groups)
        rows = order[start : start + size]
        start += size
        least = min(least, sum(weight[row] * L[row] for row in rows) / sum(weight[row] for row in rows))
    return least / 5, max(L)


@given(losses_of_rows)
@settings(max_examples=150, deadline=None)
def test_limits_are_those_of_the_groups(given_rows):
    L, predicted, weight = (np.array(part) for part in zip(*given_rows, strict=True))
    assert_allclose(held_out._limits(L, predicted, weight), limits_written_plainly(L, predicted, weight), rtol=1e-9)


def test_limits_of_many_rows_are_those_of_fifty_groups():
    L, predicted = np.arange(1.0, 2001.0), np.arange(2000.0)
    assert_allclose(held_out._limits(L, predicted, np.ones(2000)), [20.5 / 5, 2000.0])
    assert_allclose(held_out._limits(L[:15], predicted[:15], np.ones(15)), [8.0 / 5, 15.0])  # one group
    assert_allclose(held_out._limits(np.zeros(9), np.ones(9), np.ones(9)), [0.0, np.inf])


@given(losses_of_rows, st.sampled_from([(0.0, np.inf), (0.5, 20.0), (1.0, 5.0)]))
@settings(max_examples=150, deadline=None)
def test_the_ratio_solves_for_equal_means(given_rows, limits):
    """Where the mean realised loss lies strictly within the limits, some factor reaches it exactly."""
    L, predicted, weight = (np.array(part) for part in zip(*given_rows, strict=True))
    ratio = held_out._ratio(L, predicted, np.array(limits), weight)
    capped = np.minimum(predicted, held_out.outliers.plausible_maximum(predicted, weight))
    mean = np.average(L, weights=weight)
    if mean == 0:
        assert ratio == 1.0
    elif limits == (0.0, np.inf):
        assert ratio == pytest.approx(mean / np.average(capped, weights=weight), rel=1e-12)
    elif 1.05 * limits[0] < mean < 0.95 * limits[1]:
        found = np.average(np.clip(ratio * capped, *limits), weights=weight)
        assert found == pytest.approx(mean, rel=0.02)


def test_the_ratio_is_1_where_there_is_nothing_to_compare():
    everything, ones = np.array([0.0, np.inf]), np.ones(3)
    assert held_out._ratio(np.zeros(3), ones, everything, ones) == 1.0
    assert held_out._ratio(ones, np.zeros(3), everything, ones) == 1.0
    assert held_out._ratio(ones, np.array([1.0, np.inf, 1.0]), everything, ones) == 1.0
    assert held_out._ratio(3 * ones, ones, everything, ones) == 3.0


@pytest.mark.parametrize(
    ("realised", "factor", "near"),
    [(2.0, 2.0, True), (2.0, 1.9, False), (0.5, 2.0, True), (0.5, 1.9, False), (1.0, 1.0, True), (3.0, 2.0, False)],
)
def test_near_is_within_a_factor(realised, factor, near):
    held = HeldOutLosses(np.arange(9), np.full((9, 1), realised), np.ones((9, 1)), np.ones(9))
    assert held.is_near(factor) == near


def test_a_scale_that_no_training_can_have_wanted_is_an_error():
    for realised, fine in ((9e9, True), (2e10, False)):
        held = HeldOutLosses(np.arange(9), np.full((9, 1), realised), np.ones((9, 1)), np.ones(9))
        if fine:
            assert_allclose(held.scale, realised)
        else:
            with pytest.raises(held_out.DivergenceError, match="the loss is 2e"):
                _ = held.scale


@given(losses_of_rows)
@settings(max_examples=150, deadline=None)
def test_a_loss_is_clipped_until_it_is_a_share_of_the_sum(given_rows):
    """The largest clipped loss is at most 30 % of the sum, or twice its share if all above zero were equal; and no lower."""
    L, _, weight = (np.array(part) for part in zip(*given_rows, strict=True))
    own = np.minimum(L, held_out.outliers.plausible_maximum(L, weight))
    found = held_out.plausible_losses(L, weight)
    one = min(weight)
    losing = sum(w for w, x in zip(weight, L, strict=True) if x > 0)
    most = max(0.3, 2 * one / losing) if losing else 1.0
    height = max(found)
    assert_allclose(found, np.minimum(own, height))
    assert one * height <= most * (weight @ found) * (1 + 1e-9)
    if height < max(own):  # clipped, and no more than is needed
        higher = np.minimum(own, 1.001 * height)
        assert one * 1.001 * height > most * (weight @ higher)


def test_rows_without_weight_clip_nothing():
    L = np.array([1.0, 2.0, 30.0])
    assert_allclose(held_out.plausible_losses(L, np.zeros(3)), L)
    # a row of weight 0 is no observation: one weighs 1 here, and not 0
    weighted = held_out.plausible_losses(np.array([5.0, 1.0, 1.0, 1.0, 30.0]), np.array([0.0, 1.0, 1.0, 1.0, 1.0]))
    assert weighted[4] == pytest.approx(3.0, rel=1e-6)  # half of the sum: twice the share of one in four


def test_scores_are_the_gamma_deviance():
    L, expected = np.array([0.0, 2.0, 3.0]), np.array([1.0, 2.0, 0.5])
    assert_allclose(held_out._scores(L, expected), [0.0, 1 + np.log(2), 6 + np.log(0.5)])
    assert_allclose(held_out._scores(np.zeros(1), np.zeros(1)), np.log(1e-300))


def checked_written_plainly(L, expected, weight):
    """Every tenth, and the first k tenths together: more than four times off, by more than four standard errors."""
    n_groups = max(1, min(10, len(L) // 30))
    tenths = np.array_split(np.argsort(expected, kind="stable"), n_groups)
    mean = np.average(L, weights=weight)
    problem, groups = "", []
    for rows in [*tenths, *(np.concatenate(tenths[:k]) for k in range(2, n_groups))]:
        own = weight[rows]
        believed, realised = np.average(expected[rows], weights=own), np.average(L[rows], weights=own)
        groups.append((len(rows), believed, realised))
        error = np.hypot.reduce(own / own.sum() * (L[rows] - realised))
        too_low = realised > 4 * believed
        too_high = believed > 4 * realised and believed - realised > 0.5 * mean
        if (too_low or too_high) and abs(believed - realised) > 4 * error and len(rows) >= 30 and not problem:
            problem = f"{len(rows)} rows are expected to lose {believed:.3g} on average, and lose {realised:.3g}"
    if mean > 0:
        e = np.maximum(expected, 1e-300)
        apart = L / e + np.log(e) - (L / mean + np.log(mean))
        worse = np.average(apart, weights=weight)
        error = np.hypot.reduce(weight / weight.sum() * (apart - worse))
        if worse > 3 * error and worse > 0 and len(L) >= 30 and not problem:
            problem = held_out.NO_BETTER
    influence = max(abs(weight * (L - expected))) / sum(weight * L) if mean > 0 else 0.0
    return problem, groups[:n_groups], influence


@given(
    st.integers(1, 400),
    st.integers(0, 10_000),
    st.sampled_from(["right", "noise", "low", "high", "zero", "constant", "upside down"]),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_the_check_is_what_it_says(n, seed, kind, weighted):
    rng = np.random.default_rng(seed)
    level = np.exp(rng.normal(size=n))
    L = level * rng.gamma(4, 0.25, size=n)
    share = rng.uniform(size=n) < rng.uniform(0.1, 0.6)
    expected = {
        "right": level,
        "noise": np.exp(2 * rng.normal(size=n)),
        "low": np.where(share, level * rng.uniform(0.1, 0.4), level),
        "high": np.where(share, level * rng.uniform(2, 12), level),
        "zero": np.where(share, 0.0, level),
        "constant": np.full(n, 1.7),
        "upside down": 1 / level,
    }[kind]
    if kind == "zero" and seed % 2:
        L = np.zeros(n)
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    problem, groups, influence = held_out._checked(L, expected, weight)
    told, plainly, most = checked_written_plainly(L, expected, weight)
    assert problem == told
    assert_allclose(groups.to_numpy(float), plainly, rtol=1e-9)
    assert influence == pytest.approx(most, rel=1e-9)


def test_thirty_rows_are_enough_to_judge_and_29_are_not():
    """A group lies, or all rows do, only if there are so many of them."""
    for n, problem in ((29, ""), (30, "30 rows are expected to lose 1 on average, and lose 9")):
        L, expected = np.full(n, 9.0), np.full(n, 1.0)
        assert held_out._compared(L, expected, np.ones(n), np.arange(n), 1.0)[2] == problem
        noise = np.tile([0.4, 2.5], n)[:n]
        told = held_out._checked(np.full(n, 1.0), noise, np.ones(n))[0]
        assert told == ("" if n == 29 else held_out.NO_BETTER)
    assert len(held_out._checked(np.ones(89), np.arange(1.0, 90.0), np.ones(89))[1]) == 2
    assert len(held_out._checked(np.ones(90), np.arange(1.0, 91.0), np.ones(90))[1]) == 3


def test_outliers_are_named_with_the_share_that_was_left_out():
    """Rows by how much was clipped of them, the largest first, at most five; the share is of the sum of all losses."""
    rng = np.random.default_rng(0)
    realised = rng.exponential(size=(2000, 2))
    realised[[30, 40, 50, 60, 70, 80], 0] = [3e4, 9e4, 4e4, 5e4, 7e4, 6e4]
    realised[90, 1] = 8e4
    weight = rng.integers(1, 3, 2000).astype(float)
    held = HeldOutLosses(np.arange(5000, 7000), realised, np.ones((2000, 2)), weight)
    clipped = weight[:, None] * (realised - held.plausible)
    check = held.check()
    order = sorted(range(2000), key=lambda row: -max(clipped[row]))
    assert check.outliers == tuple(5000 + row for row in order[:5])
    assert check.outlier_share == pytest.approx(clipped.sum() / (weight @ realised).sum(), rel=1e-12)
    assert not check.passed
    nothing = HeldOutLosses(np.arange(50), np.zeros((50, 1)), np.ones((50, 1)), np.ones(50)).check()
    assert (nothing.outliers, nothing.outlier_share, nothing.influence) == ((), 0.0, 0.0)
    calm = HeldOutLosses(np.arange(50), np.ones((50, 1)), np.ones((50, 1)), np.ones(50)).check()
    assert (calm.outliers, calm.outlier_share, calm.passed, calm.message) == ((), 0.0, True, "")


def test_a_quarter_of_the_loss_left_out_is_reported():
    check = rows().check()
    for share, outlying, name in ((0.24, (), ""), (0.25, (7,), "row 7"), (0.3, (7, 9), "rows 7, 9")):
        found = replace(check, outlier_share=share, outliers=outlying)
        assert found.passed == (share < 0.25)
        assert name in found.message
        assert bool(found.message) == (share >= 0.25)
        assert (f"{share:.0%}" in found.message) == (share >= 0.25)


@pytest.mark.parametrize(
    ("changed", "passed", "says"),
    [
        ({}, True, []),
        ({"problems": ("bad",)}, False, ["The quantifier failed", "bad.", "Do not rely"]),
        ({"problems": ("", "bad")}, False, ["quantifier of an output failed", "bad.", "Do not rely"]),
        ({"quantifier": "linear", "rejected": ("bad",)}, False, ["bad. It was replaced by a linear one."]),
        ({"quantifier": "constant", "rejected": ("bad",)}, False, ["bad. It was replaced by one constant"]),
        ({"quantifier": "constant", "rejected": (held_out.NO_BETTER,)}, False, ["no better than one constant"]),
        ({"rejected": ("worse", "")}, True, []),
        ({"problems": ("bad",), "rejected": ("first",)}, False, ["first. Do not rely"]),
    ],
)
def test_what_a_check_says(changed, passed, says):
    check = replace(rows().check(), **changed)
    assert check.passed == passed
    assert bool(check.message) == bool(says)
    for text in says:
        assert text.lower() in check.message.lower()


def test_mean_and_score_are_weighted():
    rng = np.random.default_rng(1)
    L, p, w = rng.exponential(size=(300, 2)), rng.exponential(size=(300, 2)), rng.integers(1, 4, 300).astype(float)
    held = HeldOutLosses(np.arange(300), L, p, w)
    assert_allclose(held.mean, np.average(held.plausible, axis=0, weights=w))
    e = held.expected
    each = held.plausible / e + np.log(e)
    assert held.score == pytest.approx(np.average(each.mean(axis=1), weights=w), rel=1e-12)
    constant = held.plausible / held.mean + np.log(held.mean)
    better = np.average(each - constant, axis=0, weights=w) < 0
    assert held.beats_constant == list(better)
    equal = HeldOutLosses(np.arange(9), np.ones((9, 1)), np.ones((9, 1)), np.ones(9))
    assert equal.beats_constant == [False]  # no better is not better


def test_parts_are_put_together():
    def part(rows, weight):
        data = type("Data", (), {"weight": weight})()
        return type("Part", (), {"rows": rows, "data": data})()

    weight = np.arange(10.0)
    parts = [part(np.array([3, 1]), weight), part(np.array([7]), 2 * weight)]
    held = held_out.held_out_losses(parts, lambda p: np.stack([np.c_[10.0 * p.rows], np.c_[20.0 * p.rows]]))
    assert held.rows.tolist() == [3, 1, 7]
    assert held.weight.tolist() == [3, 1, 14]
    assert held.realised.ravel().tolist() == [30, 10, 70]
    assert held.predicted.ravel().tolist() == [60, 20, 140]
    assert held.side is None
    with_side = held_out.held_out_losses(parts, lambda p: np.stack([np.c_[1.0 * p.rows]] * 2 + [np.c_[-1.0 * p.rows]]))
    assert with_side.side.ravel().tolist() == [-3, -1, -7]
    assert held_out.held_out_losses([], None) is None


def test_what_beats_a_constant_and_what_beats_another():
    """True levels beat one constant and levels upside down; these beat neither."""
    rng = np.random.default_rng(0)
    level = np.exp(rng.normal(size=400))
    L, ones = (level * rng.gamma(4, 0.25, size=400))[:, None], np.ones(400)
    right, wrong = (HeldOutLosses(np.arange(400), L, p[:, None], ones) for p in (level, 1 / level))
    assert (right.beats_constant, wrong.beats_constant) == ([True], [False])
    assert right.clearly_beats(wrong, 1.0)
    assert not wrong.clearly_beats(right, 1.0)
    assert not right.clearly_beats(right, 0.0)
    better = (wrong.plausible / wrong.expected + np.log(wrong.expected))[:, 0]
    better = better - (right.plausible / right.expected + np.log(right.expected))[:, 0]
    t = better.mean() / (better.std() / np.sqrt(400))
    assert right.clearly_beats(wrong, 0.99 * t)
    assert not right.clearly_beats(wrong, 1.01 * t)
