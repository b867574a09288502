"""The two estimators as users and as scikit-learn meet them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aleator
from aleator import PairEnsemble, PairRegressor
from aleator.couplings import COUPLINGS, Coupling
from aleator.losses import LOSSES, Loss, huber
from aleator.preprocessing import splits
from aleator.training import progress, strategies

X, y = load_diabetes(return_X_y=True)
QUICK = {"epochs": 12, "rescale": False}


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize(
    "model", [PairRegressor(**QUICK), PairEnsemble(n_members=3, **QUICK)], ids=["pair", "ensemble"]
)
@pytest.mark.parametrize("loss", [*LOSSES, "pinball(0.8)", "huber(20)"])
def test_answers_fit_together(model, loss):
    model = clone(model).set_params(loss=loss).fit(X, y)
    said = model.predict_uncertainty(X)
    np.testing.assert_array_equal(model.predict(X), said.prediction)
    np.testing.assert_array_equal(model.predict_loss(X), said.expected_loss)
    np.testing.assert_allclose(said.aleatoric + said.epistemic, said.expected_loss)
    assert (said.aleatoric > 0).all()
    assert (said.epistemic >= 0).all()
    assert said.epistemic.any() == isinstance(model, PairEnsemble)
    assert said.prediction.dtype == said.expected_loss.dtype == np.float64
    frame = said.to_frame(index=pd.RangeIndex(1000, 1442))
    assert frame.index[0] == 1000
    assert said.to_frame().index[0] == 0
    assert ("std" in frame) == (loss == "squared")
    if loss == "squared":
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_array_equal(mean, said.prediction)
        np.testing.assert_allclose(std**2, said.expected_loss)
    else:
        with pytest.raises(ValueError, match=f"this model was trained with the .*{loss.split('(')[0]}.* loss"):
            model.predict(X, return_std=True)


def test_several_outputs():
    rng = np.random.default_rng(0)
    Y = np.column_stack([y, 10 * X[:, 0] + 0.1 * rng.normal(size=len(y))])
    together = PairRegressor(**QUICK).fit(X, pd.DataFrame(Y)).predict_uncertainty(X)  # frames are in column order
    with pytest.raises(ValueError, match="set per_output=True"):
        _ = together.std
    assert "std" not in together.to_frame()
    assert together.prediction.shape == (442, 2)
    assert together.expected_loss.shape == (442,)
    each = PairRegressor(per_output=True, **QUICK).fit(X, Y)
    said = each.predict_uncertainty(X)
    assert said.prediction.shape == said.expected_loss.shape == (442, 2)
    assert said.expected_loss[:, 0].mean() > 100 * said.expected_loss[:, 1].mean()  # each in its own units
    assert "std_1" in said.to_frame()
    ensemble = PairEnsemble(n_members=2, per_output=True, **QUICK).fit(X, Y).predict_uncertainty(X)
    assert ensemble.epistemic.shape == (442, 2)
    assert PairEnsemble(n_members=2, **QUICK).fit(X, Y).predict_loss(X).shape == (442,)
    column = PairRegressor(**QUICK).fit(X, y[:, None])
    assert column.predict(X).shape == (442, 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], PairRegressor(**QUICK).fit(X, y).predict(X))


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber(1)"])
def test_outputs_in_any_units_are_learned_together(loss):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(500, 2))
    Y = np.column_stack([1000 * np.sin(3 * x[:, 0]), x[:, 1] ** 2, 1e-3 * x[:, 0] * x[:, 1]]) * (
        1 + 0.01 * rng.normal(size=(500, 3))
    )
    prediction = PairRegressor(loss=loss).fit(x, Y).predict(x)
    assert (1 - ((prediction - Y) ** 2).mean(axis=0) / Y.var(axis=0) > 0.9).all()


def test_one_quantifier_for_all_outputs_predicts_the_sum_of_the_losses():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(4000, 1))
    Y = np.column_stack([x[:, 0] + rng.normal(size=4000), 3 * x[:, 0] + 2 * rng.normal(size=4000)])
    model = PairRegressor(epochs=20, rescale=False).fit(x, Y)
    assert model.predict_loss(x).mean() == pytest.approx(1 + 4, rel=0.1)
    each = PairRegressor(epochs=20, rescale=False, per_output=True).fit(x, Y)
    np.testing.assert_allclose(each.predict_loss(x).mean(axis=0), [1, 4], rtol=0.1)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize(("loss", "power"), [("squared", 2), ("absolute", 1), ("pinball(0.7)", 1)])
@pytest.mark.parametrize("c", [1e-30, 10.0, 1e30])
def test_scaling_the_target_scales_prediction_and_loss(loss, power, c):
    for model in (PairRegressor(loss=loss, **QUICK), PairEnsemble(n_members=2, loss=loss, **QUICK)):
        a, b = clone(model).fit(X, y).predict_uncertainty(X), clone(model).fit(X, c * y).predict_uncertainty(X)
        np.testing.assert_allclose(b.prediction / c, a.prediction, rtol=1e-6)
        np.testing.assert_allclose(b.expected_loss / c**power, a.expected_loss, rtol=1e-6)


@pytest.mark.parametrize("c", [1e-30, 1e30])
def test_scaling_the_inputs_changes_nothing(c, monkeypatch):
    """But for the folds, which follow from the values in a row."""
    monkeypatch.setattr(splits, "array_keys", lambda X, rows: np.arange(len(rows), dtype=np.uint64))
    a = PairRegressor().fit(X[:150], y[:150]).predict_uncertainty(X)
    b = PairRegressor().fit(c * X[:150], y[:150]).predict_uncertainty(c * X)
    np.testing.assert_allclose(b.prediction, a.prediction, rtol=1e-6)
    np.testing.assert_allclose(b.expected_loss, a.expected_loss, rtol=1e-6)


def test_shifting_the_target_shifts_the_prediction():
    a = PairRegressor(loss="huber(20)", **QUICK).fit(X, y).predict_uncertainty(X)
    b = PairRegressor(loss="huber(20)", **QUICK).fit(X, y + 512).predict_uncertainty(X)
    np.testing.assert_allclose(b.prediction - 512, a.prediction, rtol=1e-3)
    np.testing.assert_allclose(b.expected_loss, a.expected_loss, rtol=1e-3)


@pytest.mark.parametrize(
    "model", [PairRegressor(), PairEnsemble(n_members=2, early_stopping=True)], ids=["cv", "stopping"]
)
def test_rows_in_any_order_and_weights_as_repetitions(model):
    rng = np.random.default_rng(0)
    w = rng.integers(0, 3, size=len(y)) * (np.arange(len(y)) < 200)
    repeated = rng.permutation(np.repeat(np.arange(len(y)), w))
    a = clone(model).fit(X, y, sample_weight=w)
    b = clone(model).fit(X[repeated], y[repeated])
    np.testing.assert_array_equal(a.params_, b.params_)
    np.testing.assert_array_equal(a.predict_loss(X), b.predict_loss(X))


def test_a_loss_in_original_units_means_what_it_says():
    """huber(10) on a target of spread 77 is nearly 10 |r|; on one of spread 0.08 it is r^2 / 2."""
    wide, narrow = PairRegressor(loss=huber(10.0)).fit(X, y), PairRegressor(loss=huber(10.0)).fit(X, y / 1000)
    realised = huber(10.0)(y, wide.predict(X)).mean()
    assert wide.predict_loss(X).mean() == pytest.approx(realised, rel=0.5)
    assert narrow.predict_loss(X).mean() == pytest.approx(((y / 1000 - narrow.predict(X)) ** 2).mean() / 2, rel=0.5)


def test_same_seed_same_bits_whatever_n_jobs():
    for model in (PairRegressor(), PairEnsemble(n_members=4, dropout=0.2, **QUICK), PairEnsemble(n_members=3)):
        one = clone(model).set_params(n_jobs=1).fit(X[:80], y[:80])
        for n_jobs in (2, 5, -1, None):
            other = clone(model).set_params(n_jobs=n_jobs).fit(X[:80], y[:80])
            assert other.params_.tobytes() == one.params_.tobytes()
            assert other.predict_loss(X[:50]).tobytes() == one.predict_loss(X[:50]).tobytes()
    assert not np.array_equal(PairRegressor(random_state=1, **QUICK).fit(X[:150], y[:150]).params_, PairRegressor(**QUICK).fit(X[:150], y[:150]).params_)  # fmt: skip


@pytest.mark.parametrize("settings", [{}, QUICK, {"early_stopping": True}], ids=["cv", "epochs", "stopping"])
def test_an_ensemble_of_one_is_the_member(settings):
    rows = slice(None, 200)
    one = PairEnsemble(n_members=1, **settings).fit(X[rows], y[rows])
    pair = PairRegressor(**settings).fit(X[rows], y[rows])
    assert one.params_.tobytes() == pair.params_.tobytes()
    assert one.predict_loss(X).tobytes() == pair.predict_loss(X).tobytes()
    more = PairEnsemble(n_members=3, **QUICK).fit(X, y)
    np.testing.assert_array_equal(more.params_[0], PairRegressor(**QUICK).fit(X, y).params_[0])


def test_global_state_is_left_alone():
    before = np.random.get_state()[1].tobytes()
    PairEnsemble(n_members=2, dropout=0.1, **QUICK).fit(X, y)
    assert np.random.get_state()[1].tobytes() == before


# ---------------------------------------------------------------- training


def test_history_is_data_to_plot():
    watched = PairEnsemble(n_members=2, **QUICK).fit(X[:300], y[:300], validation=(X[300:], y[300:]))
    history = watched.history_
    found = PairRegressor().fit(X[:300], y[:300], validation=(X[300:], y[300:])).history_
    assert {"validation_loss", "cv_loss"} <= set(found)
    assert found.loc[found["joint_loss"].notna(), "validation_loss"].notna().all()
    assert list(history) == ["member", "epoch", "joint_loss", "loss", "validation_score", "validation_loss"]
    assert len(history) == 2 * 12
    assert history.notna().all().all()
    last = history[history["member"] == 0].iloc[-1]
    pair = PairRegressor(**QUICK).fit(X[:300], y[:300])
    realised = ((pair.predict(X[300:]) - y[300:]) ** 2).mean()
    assert last["validation_loss"] == pytest.approx(realised, rel=1e-4)  # in the units of the loss
    unwatched = PairEnsemble(n_members=2, **QUICK).fit(X[:300], y[:300])
    assert unwatched.params_.tobytes() == watched.params_.tobytes()  # watching changes nothing


def test_early_stopping_keeps_the_best_and_says_when():
    own = PairRegressor(early_stopping=True, patience=15, learning_rate=1e-2).fit(X, y)
    curve = own.history_["validation_score"]
    assert own.n_epochs_[0] == curve.idxmin() + 1
    assert len(curve) == own.n_epochs_[0] + 15
    given = PairRegressor(early_stopping=True, learning_rate=1e-2).fit(X[:300], y[:300], validation=(X[300:], y[300:]))
    ratio = given.predict_loss(X[300:]).mean() / ((given.predict(X[300:]) - y[300:]) ** 2).mean()
    assert ratio == pytest.approx(1, rel=1e-3)  # the scale was learned there
    raw = clone(given).set_params(rescale=False).fit(X[:300], y[:300], validation=(X[300:], y[300:]))
    np.testing.assert_allclose(raw.predict_loss(X) * given.loss_scale_, given.predict_loss(X), rtol=1e-12)


def test_the_number_of_epochs_is_found():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 10))
    target = np.sin(3 * x[:, 0]) + x[:, 1]
    for lam, curve in ((0.2, "cv_joint_loss"), ("auto", "cv_loss")):
        noise = PairRegressor(lam=lam).fit(x, rng.normal(size=300))  # nothing to learn: stop at once
        signal = PairRegressor(lam=lam).fit(x if lam == 0.2 else x[:, :3], target)
        assert noise.n_epochs_[0] < 30 < signal.n_epochs_[0]
        assert curve in noise.history_
        if lam == 0.2:
            assert noise.loss_scale_[0] > 1  # and what was learned all the same is accounted for


def test_the_scale_is_right_on_new_rows_where_the_raw_one_is_not():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(250, 10)), rng.normal(size=(5000, 10))

    def ratio(model):
        model.fit(x, x[:, 0] + rng.normal(size=250))
        return model.predict_loss(z).mean() / (1 + np.mean((model.predict(z) - z[:, 0]) ** 2))

    assert ratio(PairRegressor(epochs=200, rescale=False)) < 0.5
    assert 0.75 < ratio(PairRegressor()) < 1.3
    assert 0.75 < ratio(PairEnsemble()) < 1.3


def test_lam_and_learning_rate_may_be_functions_of_the_epoch():
    falling = PairRegressor(
        lam=lambda epoch: 1 / (1 + epoch), learning_rate=lambda epoch: 1e-2 / (1 + epoch), epochs=20, rescale=False
    )
    model = falling.fit(X, y)
    assert model.lam_[0] == 0.05
    assert 0.3 < model.predict_loss(X).mean() / ((model.predict(X) - y) ** 2).mean() < 3
    with pytest.raises(ValueError, match=r"lam must be positive at every epoch, but lam\(3\) is 0.0"):
        PairRegressor(lam=lambda epoch: 3.0 - epoch, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="lam must be a function of the epoch"):
        PairRegressor(lam=lambda: 1.0).fit(X, y)


@pytest.mark.parametrize("settings", [{}, {"early_stopping": True}], ids=["cv", "stopping"])
def test_a_falling_lam_does_not_fool_the_search_for_the_number_of_epochs(settings):
    """The joint loss falls with lam to the last epoch, whatever the networks do; the search looks at something else."""
    models = [PairRegressor(lam=lambda epoch: 1 / (1 + epoch), random_state=k, **settings).fit(X, y) for k in range(3)]
    assert min(model.n_epochs_[0] for model in models) < 200
    model = models[0]
    assert 0.5 < model.predict_loss(X).mean() / ((model.predict(X) - y) ** 2).mean() < 2


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden": ()},
        {"hidden": (8, 8, 8), "activation": "tanh"},
        {"hidden": (8, 8), "shared_layers": 1},
        {"hidden": (8,), "shared_layers": 1},
        {"hidden": [16]},
        {"optimizer": "nesterov", "momentum": 0.5, "clip": 1.0},
        {"dropout": 0.5},
        {"l2": 0.0},
        {"coupling": "softplus"},
        {"batch_size": 100_000},
        {"batch_size": 1, "epochs": 60},
    ],
    ids=str,
)
def test_every_setting_learns(settings):
    model = PairRegressor(**settings).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.3
    assert 0.5 < model.predict_loss(X[300:]).mean() / ((model.predict(X[300:]) - y[300:]) ** 2).mean() < 2


def module_level_value(target, prediction):
    return 5 * (target - prediction) if target > prediction else prediction - target


def module_level_slope(target, prediction):
    return -5.0 if target > prediction else 1.0


def test_an_own_loss_and_an_own_coupling():
    late = Loss("late", module_level_value, module_level_slope, degree=1)
    model = PairRegressor(loss=late).fit(X[:300], y[:300])
    assert np.mean(model.predict(X[300:]) > y[300:]) > 0.7  # too low is dear
    assert model.predict_loss(X[300:]).mean() == pytest.approx(late(y[300:], model.predict(X[300:])).mean(), rel=0.4)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_loss(X), model.predict_loss(X))
    import math

    exponential = Coupling("exponential", math.exp, lambda xi: -xi, math.exp, lambda xi: -1.0)
    own = PairRegressor(coupling=exponential, **QUICK).fit(X, y)
    assert 0.3 < own.predict_loss(X).mean() / ((own.predict(X) - y) ** 2).mean() < 3


def test_an_interrupted_fit_leaves_the_model_as_it_was(monkeypatch):
    model = PairRegressor(**QUICK).fit(X, y)
    before = model.predict(X)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(strategies, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :4], 1000 * y)
    np.testing.assert_array_equal(model.predict(X), before)
    untouched = PairRegressor(**QUICK)
    with pytest.raises(KeyboardInterrupt):
        untouched.fit(X, y)
    assert vars(untouched) == PairRegressor(**QUICK).get_params()


def test_verbose_shows_progress(capsys, monkeypatch):
    PairRegressor(epochs=3, rescale=False).fit(X, y)
    assert not capsys.readouterr().out
    bars, real = [], progress.progress_bar

    def recorded(show, title, total):
        bar, tick = real(show, title, total)
        bars.append({"show": show, "title": title, "total": total, "done": 0})

        def count(epochs, entry=bars[-1]):
            entry["done"] += epochs
            tick(epochs)

        return bar, count

    monkeypatch.setattr(progress, "progress_bar", recorded)
    PairEnsemble(n_members=3, verbose=True, **QUICK).fit(X, y)
    assert bars == [{"show": True, "title": "training", "total": 36, "done": 36}]
    PairRegressor(verbose=True).fit(X[:100], y[:100])
    assert [bar["title"] for bar in bars[1:]] == 2 * [
        "choosing the number of epochs",
        "training",
    ]  # of pairs, quantifiers
    assert all(0 < bar["done"] <= bar["total"] for bar in bars[1:])
    PairRegressor(**QUICK).fit(X, y)
    assert not bars[-1]["show"]


# ---------------------------------------------------------------- company


def test_with_scikit_learn_tools():
    assert cross_val_score(PairRegressor(epochs=60), X, y, cv=3).mean() > 0.4
    search = GridSearchCV(PairRegressor(**QUICK), {"lam": [0.1, 1.0], "hidden": [(10,), (20,)]}, cv=2).fit(X, y)
    assert search.best_estimator_.predict_loss(X).shape == (442,)
    pipeline = make_pipeline(StandardScaler(), PairEnsemble(n_members=2, **QUICK)).fit(X, y)
    assert pipeline.predict(X).shape == (442,)
    assert pipeline[-1].predict_loss(pipeline[:-1].transform(X)).shape == (442,)
    model = PairRegressor(lam=0.3, hidden=(7,))
    assert clone(model).get_params() == model.get_params()
    assert clone(PairRegressor(coupling=COUPLINGS["sigmoid"])).coupling is COUPLINGS["sigmoid"]
    assert "PairRegressor" in repr(model)


def test_frames_and_float32():
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(10)])
    frame["flag"] = frame["x0"] > 0
    named = PairRegressor(**QUICK).fit(frame, pd.Series(y))
    assert list(named.feature_names_in_) == list(frame)
    np.testing.assert_array_equal(named.predict(frame), named.predict(frame.astype(float)))
    assert list(named.predict_uncertainty(frame[::-1]).to_frame().index[:2]) == [441, 440]
    single = PairRegressor(**QUICK).fit(X.astype(np.float32), y)
    double = PairRegressor(**QUICK).fit(X.astype(np.float32).astype(np.float64), y)
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), rtol=1e-3)
    fortran = PairRegressor(**QUICK).fit(np.asfortranarray(X), y)
    np.testing.assert_array_equal(fortran.predict(X), PairRegressor(**QUICK).fit(X, y).predict(X))


@pytest.mark.parametrize(
    "model", [PairRegressor(), PairEnsemble(n_members=2, loss="absolute", **QUICK)], ids=["pair", "ensemble"]
)
def test_pickle(model):
    model = clone(model).fit(X[:100], y[:100])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_loss(X), model.predict_loss(X))


def test_public_names():
    assert set(aleator.__all__) >= {"PairRegressor", "PairEnsemble", "Prediction", "load"}
