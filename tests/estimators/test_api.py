"""What the API promises: names, keyword-only parameters, frames of any kind, lengths, losses over rows."""

import inspect
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.linear_model import Ridge

import aleator
from aleator import LossQuantifier, PairEnsemble, PairRegressor, TableEncoder
from aleator.losses import Loss
from aleator.metrics import coverage
from aleator.paper import published
from aleator.registry import MODELS
from aleator.tabular import ANSWERS
from aleator.torch import JointLoss, Pair, fit_pair

pytestmark = pytest.mark.usefixtures("short_training")

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
y = X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=400)
Y = np.column_stack([y, 10 * X[:, 2] + 3 * rng.normal(size=400)])
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    kind=pd.Categorical(rng.choice(["x", "y"], size=400)),
    text=rng.choice(["Ulm", "Bonn", "Kiel"], size=400),
    day=pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, size=400), "D"),
    gap=np.where(X[:, 0] > 1, np.nan, X[:, 0]),
    whole=pd.array(np.where(X[:, 1] > 1, None, 3), dtype="Int64"),
    flag=X[:, 2] > 0,
)
QUICK = {"epochs": 10, "rescale": False}


# ---------------------------------------------------------------- 1. one name for a prediction


def test_a_prediction_is_named_prediction_everywhere(tmp_path):
    model = LossQuantifier(Ridge(), n_members=1, epochs=5).fit(X, y)
    answer = model.predict_uncertainty(X)
    np.testing.assert_array_equal(answer.prediction, model.predict(X))
    assert list(answer.to_frame().columns) == ["prediction", "expected_loss", "std", "aleatoric", "epistemic"]
    assert ANSWERS[:4] == ["prediction", "expected_loss", "aleatoric", "epistemic"]
    assert {"prediction", "expected_loss"} <= set(model.out_of_fold_.columns)
    aleator.export_onnx(model, tmp_path / "m.onnx")
    import onnxruntime

    outputs = {output.name for output in onnxruntime.InferenceSession(tmp_path / "m.onnx").get_outputs()}
    assert {"prediction", "expected_loss"} <= outputs
    assert not hasattr(answer, "mean")


# ---------------------------------------------------------------- 2. conformalize, recalibrate


@pytest.mark.parametrize(
    "model", [PairRegressor(n_jobs=1), LossQuantifier(Ridge(), n_members=1)], ids=["pair", "given"]
)
def test_intervals_follow_recalibrate_until_they_are_guaranteed(model, tmp_path):
    model.fit(X[:200], y[:200])
    low, high = model.predict_interval(X[300:])
    model.recalibrate(X[200:250], 10 * y[200:250])
    wide_low, wide_high = model.predict_interval(X[300:])
    assert np.mean(wide_high - wide_low) > 2 * np.mean(high - low)
    model.conformalize(X[200:300], y[200:300])
    model.save(tmp_path / "m.aleator")
    for guaranteed in (model, aleator.load(tmp_path / "m.aleator")):
        low, high = guaranteed.predict_interval(X[300:])
        assert coverage(y[300:], low, high) > 0.8
        with pytest.raises(ValueError, match=r"recalibrate was called after conformalize.*conformalize\(X, y\) again"):
            guaranteed.recalibrate(X[:50], y[:50]).predict_interval(X)
        guaranteed.conformalize(X[200:300], y[200:300]).predict_interval(X)
    assert not hasattr(model, "calibrate")


# ---------------------------------------------------------------- 3. parameters are keyword-only


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_keyword_only(name):
    parameters = inspect.signature(MODELS[name]).parameters.values()
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert positional == (["estimator"] if name == "LossQuantifier" else [])


# ---------------------------------------------------------------- 4. encoder="auto"


def test_pairs_take_any_frame():
    model = PairEnsemble(n_members=2, **QUICK).fit(FRAME, y)
    assert isinstance(model.encoder_, TableEncoder)
    assert model.n_features_in_ == FRAME.shape[1]
    assert list(model.feature_names_in_) == list(FRAME.columns)
    by_hand = PairEnsemble(n_members=2, encoder=TableEncoder(), **QUICK).fit(FRAME, y)
    np.testing.assert_array_equal(model.predict_loss(FRAME), by_hand.predict_loss(FRAME))


@pytest.mark.parametrize(
    "make", [lambda: PairRegressor(**QUICK), lambda: LossQuantifier(Ridge(), n_members=1, epochs=5)]
)
def test_plain_numbers_are_taken_as_they_are(make):
    plain = make().fit(X, y)
    frame = make().fit(FRAME[["a", "b", "c"]], y)
    np.testing.assert_allclose(frame.predict_loss(FRAME[["a", "b", "c"]]), plain.predict_loss(X), rtol=1e-12)
    if isinstance(plain, PairRegressor):
        assert not hasattr(plain, "encoder_")
        assert not hasattr(frame, "encoder_")


def test_frames_with_gaps_or_implausible_cells_are_encoded():
    gaps, sentinel = FRAME[["a", "gap"]], FRAME[["a", "b"]].copy()
    sentinel.loc[3, "a"] = -9999.0
    for frame in (gaps, sentinel, gaps.to_numpy()):
        model = PairRegressor(**QUICK).fit(frame, y)
        assert isinstance(model.encoder_, TableEncoder)
        assert np.isfinite(model.predict_loss(frame)).all()


def test_polars_frames_are_those_of_pandas():
    columns = {name: FRAME[name].tolist() for name in ("a", "text", "day", "flag")}
    columns["gap"] = [None if np.isnan(v) else v for v in FRAME["gap"]]
    columns["whole"] = [None if v is pd.NA else v for v in FRAME["whole"]]
    theirs = pl.DataFrame(columns).with_columns(pl.Series("kind", FRAME["kind"].tolist()).cast(pl.Categorical))
    ours = FRAME[theirs.columns]
    by_polars, by_pandas = (PairRegressor(**QUICK).fit(table, y) for table in (theirs, ours))
    np.testing.assert_array_equal(by_polars.predict_loss(theirs), by_pandas.predict_loss(ours))
    np.testing.assert_array_equal(by_polars.predict_loss(ours), by_pandas.predict_loss(theirs))
    assert list(by_polars.feature_names_in_) == theirs.columns
    with pytest.raises(TypeError, match=r"lazy frame: call .collect\(\) first"):
        by_polars.predict(theirs.lazy())


def test_an_encoder_that_is_no_encoder_is_refused():
    with pytest.raises(ValueError, match=r"encoder must be 'auto', None, a transformer or a function, got 'table'"):
        PairRegressor(encoder="table").fit(X, y)


# ---------------------------------------------------------------- 5. epochs only set the length


@pytest.mark.parametrize(
    "make", [lambda **s: PairRegressor(n_jobs=1, **s), lambda **s: LossQuantifier(Ridge(), n_members=2, **s)]
)
def test_epochs_leave_scale_and_intervals_to_held_out_rows(make):
    model = make(epochs=30).fit(X, y)
    assert model.out_of_fold_["expected_loss"].mean() == pytest.approx(model.out_of_fold_["loss"].mean(), rel=0.2)
    assert model.check_.passed
    low, high = model.predict_interval(X)
    assert (low < high).all()
    papers = make(epochs=30, rescale=False).fit(X, y)
    assert (papers.loss_scale_ == 1).all()
    assert not hasattr(papers, "check_")
    np.testing.assert_array_equal(papers.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="fit held none out"):
        papers.predict_interval(X)


def test_the_length_that_was_found_gives_the_same_model_again():
    found = PairRegressor(random_state=3).fit(X, y)
    assert not found.gave_up_
    again = PairRegressor(random_state=3, epochs=int(found.n_epochs_[0])).fit(X, y)
    np.testing.assert_array_equal(again.predict_loss(X), found.predict_loss(X))
    np.testing.assert_array_equal(again.out_of_fold_, found.out_of_fold_)


def test_a_given_length_trains_members_without_each_fold():
    """By hand, with a lam that is a number: the same members on all rows, and the scale of those without a fold."""
    model = PairRegressor(lam=0.2, epochs=10).fit(X, y)
    held = model.out_of_fold_
    assert sorted(held["row"]) == list(range(400))
    papers = PairRegressor(lam=0.2, epochs=10, rescale=False).fit(X, y)
    np.testing.assert_array_equal(model.params_, papers.params_)
    assert held["expected_loss"].mean() == pytest.approx(held["loss"].mean())


# ---------------------------------------------------------------- 6. public modules, presets


@pytest.mark.parametrize("name", ["boston", "concrete", "power", "yacht", "kin8nm", "msd"])
def test_published_settings_are_a_preset(name):
    model = published(name)
    assert (model.n_members, model.optimizer, model.scaling, model.rescale) == (5, "nesterov", "standard", False)
    assert published(name, "ml", "mae").loss == "absolute"


def test_public_modules_are_attributes_of_the_package():
    for name in (
        "losses",
        "couplings",
        "theory",
        "mixtures",
        "metrics",
        "baselines",
        "datasets",
        "plots",
        "tabular",
        "paper",
    ):
        assert inspect.ismodule(getattr(aleator, name))
    with pytest.raises(ValueError, match="no dataset 'bosten': did you mean 'boston'"):
        published("bosten")


# ---------------------------------------------------------------- 7. losses over rows


def length(y, y_r):
    return math.sqrt(((y_r - y) ** 2).sum())


def direction(y, y_r):
    d = y_r - y
    return d / max(math.sqrt((d**2).sum()), 1e-300)


LENGTH = Loss("length", length, direction, over_rows=True)
SUM = Loss("sum", lambda y, y_r: ((y_r - y) ** 2).sum(), lambda y, y_r: 2 * (y_r - y), over_rows=True)
SUM_OF_EACH = Loss("each", lambda y, y_r: (y_r - y) ** 2, lambda y, y_r: 2 * (y_r - y))


def test_a_loss_over_rows_is_learned_by_pairs():
    """The length of a vector of errors: right in scale on new rows, and larger where the noise is."""
    model = PairEnsemble(loss=LENGTH, n_members=2).fit(X[:300], Y[:300])
    answer = model.predict_uncertainty(X[300:])
    realised = LENGTH(Y[300:], answer.prediction)
    np.testing.assert_allclose(realised, np.linalg.norm(Y[300:] - answer.prediction, axis=1))
    assert answer.expected_loss.shape == (100,)
    assert answer.expected_loss.mean() == pytest.approx(realised.mean(), rel=0.25)
    assert np.corrcoef(answer.expected_loss, X[300:, 1])[0, 1] > 0.3


def test_a_sum_over_a_row_is_a_sum_over_outputs():
    """Outputs with one spread: a step of the engine is the same, whichever way the loss is written."""
    same = np.column_stack([y, y[::-1]])
    settings = {"epochs": 20, "rescale": False, "lam": 0.5, "scaling": "standard"}
    rows, each = (PairRegressor(loss=loss, **settings).fit(X, same) for loss in (SUM, SUM_OF_EACH))
    np.testing.assert_allclose(rows.predict(X), each.predict(X), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(rows.predict_loss(X), each.predict_loss(X), rtol=1e-2)


def test_a_loss_over_rows_needs_rows_and_a_gradient():
    with pytest.raises(ValueError, match="over rows of several outputs, and y has one"):
        PairRegressor(loss=LENGTH).fit(X, y)
    with pytest.raises(ValueError, match="per_output=True needs a loss for each output"):
        PairRegressor(loss=LENGTH, per_output=True).fit(X, Y)
    with pytest.raises(ValueError, match="slope is not the gradient of value"):
        PairRegressor(loss=Loss("wrong", length, lambda y, y_r: y_r - y, over_rows=True)).fit(X, Y)
    with pytest.raises(ValueError, match="is over rows, and has no degree"):
        Loss("length", length, direction, degree=1, over_rows=True)


def test_joint_loss_takes_a_loss_of_the_shape_of_xi():
    def by_row(y_pred, y):
        return (y_pred - y).square().sum(-1, keepdim=True)

    pred, target, xi = torch.randn(5, 3), torch.randn(5, 3), torch.randn(5, 1)
    ours = JointLoss(by_row, lam=0.3)(pred, xi, target)
    torch.testing.assert_close(ours, JointLoss("squared", lam=0.3)(pred, xi, target))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2))
    data = torch.tensor(X).float(), torch.tensor(Y).float()
    pair = fit_pair(Pair(net), data, epochs=20, standardise=True, criterion=JointLoss(by_row, lam=0.5))
    answer = pair.recalibrate(data).predict(data[0])
    realised = ((answer.prediction - Y) ** 2).sum(axis=1)
    assert np.ravel(answer.expected_loss).mean() == pytest.approx(realised.mean(), rel=0.01)
    with pytest.raises(ValueError, match=r"for each element of xi \(5, 1\), and gives \(5, 2\)"):
        JointLoss(lambda y_pred, y: (y_pred - y)[:, :2].square())(pred, xi, target)


# ---------------------------------------------------------------- 8. what users of scikit-learn expect


def test_notebooks_show_the_parameters():
    assert "PairRegressor" in PairRegressor()._repr_html_()
    assert repr(PairRegressor(lam=0.2)) == "PairRegressor(lam=0.2)"


def test_frames_come_out_with_the_index_that_came_in():
    model = PairRegressor(**QUICK).fit(FRAME, y)
    part = FRAME.iloc[[7, 3, 5]]
    assert list(model.predict_uncertainty(part).to_frame().index) == [7, 3, 5]
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(part[part.columns[::-1]])


def test_a_refit_forgets_the_names_of_another_table():
    model = PairRegressor(encoder=lambda table: np.asarray(table, float), **QUICK).fit(FRAME[["a", "b"]], y)
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3


def test_a_frame_of_one_target_is_a_column_whatever_the_table_is():
    for table in (FRAME[["a", "b"]], FRAME[["a", "text"]]):
        for target in (pd.DataFrame({"y": y}), pl.DataFrame({"y": y})):
            assert PairRegressor(**QUICK).fit(table, target).predict(table).shape == (400,)


def test_missing_marks_of_pandas_in_arrays_are_gaps():
    table = FRAME[["a", "whole"]].to_numpy(object)
    assert any(value is pd.NA for value in table[:, 1])
    assert np.isfinite(PairRegressor(**QUICK).fit(table, y).predict_loss(table)).all()


def test_files_remember_how_they_were_made(tmp_path):
    model = PairRegressor(encoder=None, n_jobs=1, epochs=10).fit(X, y)
    model.conformalize(X[:100], y[:100]).recalibrate(X[100:200], y[100:200]).save(tmp_path / "m.aleator")
    back = aleator.load(tmp_path / "m.aleator")
    assert back.encoder is None
    with pytest.raises(ValueError, match="recalibrate was called after conformalize"):
        back.predict_interval(X)
    encoded = PairRegressor(**QUICK).fit(FRAME, y)
    encoded.save(tmp_path / "e.aleator")
    assert aleator.load(tmp_path / "e.aleator").encoder == "auto"


def test_a_loss_over_rows_around_any_regressor():
    model = LossQuantifier(Ridge(), loss=LENGTH, n_members=1, epochs=5).fit(X, Y)
    assert model.predict_loss(X).shape == (400,)
    with pytest.raises(ValueError, match="over rows of several outputs, and y has one"):
        LossQuantifier(Ridge(), loss=LENGTH, n_members=1).fit(X, y)
