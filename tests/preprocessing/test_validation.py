"""Bad input gets one clear error that names what is wrong and where, or a sensible result."""

import numpy as np
import pandas as pd
import pytest

from aleator import LossQuantifier, PairEnsemble, PairRegressor
from aleator.baselines import PlainRegressor, SVGDRegressor
from aleator.engine import DivergenceError
from aleator.losses import Loss

pytestmark = pytest.mark.usefixtures("short_training")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = X[:, 0] + 0.1 * RNG.normal(size=60)
FRAME = pd.DataFrame(X, columns=["size", "age", "floor"])


def put(values, where, what):
    values = np.array(values)
    values[where] = what
    return values


SPIKE = Loss("spike", lambda t, p: (t - p) ** 2 if t < 900 else float("inf"), lambda t, p: 2 * (p - t))


NUMBERS_ONLY = PairRegressor(epochs=3, rescale=False, encoder=None)


def fit(X=X, y=y, model=None, **fit_params):
    return (model or PairRegressor(epochs=3, rescale=False)).fit(X, y, **fit_params)


BAD = {
    "NaN in X": (lambda: fit(put(X, (7, 1), np.nan), model=NUMBERS_ONLY), r"Input X contains NaN. The first is in X at row 7, column 1"),
    "NaN in a frame": (lambda: fit(FRAME.mask(FRAME > 1.5), model=NUMBERS_ONLY), r"The first is in X at row \d+, column '\w+'"),
    "NaN: the way out": (lambda: fit(put(X, (7, 1), np.nan), model=NUMBERS_ONLY), r"PairRegressor\(encoder='auto'\) takes .* missing"),
    "NaN, no encoder": (lambda: fit(put(X, (7, 1), np.nan), model=PlainRegressor(epochs=3)), r"row 7, column 1((?!TableEncoder).)*\Z"),
    "text, no encoder": (lambda: fit(FRAME.assign(city="Ulm"), model=PlainRegressor()), r"'Ulm'\). Turn it into numbers: One"),
    "text in an array": (lambda: fit(put(X.astype(object), (5, 2), "Ulm"), model=NUMBERS_ONLY), r"column 2 is not numeric.*for example 'Ulm'.*encoder='auto'"),
    "text alone": (lambda: fit(np.full((60, 2), "Ulm"), model=NUMBERS_ONLY), r"column 0 is not numeric.*for example 'Ulm'.*encoder='auto'"),
    "coverage before rows": (lambda: fit().predict_interval(X, 90), "coverage must lie strictly between 0 and 1, got 90"),
    "inf in X": (lambda: fit(put(X, (3, 0), np.inf)), r"infinity.*The first is in X at row 3, column 0"),
    "NaN in y": (lambda: fit(y=put(y, 5, np.nan)), r"Input y contains NaN. The first is in y at row 5"),
    "inf in y": (lambda: fit(y=put(y, 5, -np.inf)), r"Input y contains infinity.*row 5"),
    "one dimension": (lambda: fit(X[:, 0]), "Expected 2D array, got 1D array"),
    "three dimensions": (lambda: fit(X[None]), "Found array with dim 3"),
    "rows that do not fit": (lambda: fit(y=y[:-1]), r"inconsistent numbers of samples: \[60, 59\]"),
    "no y": (lambda: fit(y=None), "requires y to be passed"),
    "text": (lambda: fit(FRAME.assign(city="Ulm"), model=NUMBERS_ONLY), r"'city' is not numeric .* 'Ulm'\). PairRegressor\(encoder='auto'"),
    "dates": (lambda: fit(FRAME.assign(day=pd.Timestamp("2026-01-01")), model=NUMBERS_ONLY), "column 'day' is not numeric"),
    "zero rows": (lambda: fit(X[:0], y[:0]), r"Found array with 0 sample\(s\)"),
    "one row": (lambda: fit(X[:1], y[:1]), r"Found array with 1 sample\(s\) .* minimum of 2"),
    "no columns": (lambda: fit(X[:, :0]), r"0 feature\(s\)"),
    "no outputs": (lambda: fit(y=np.empty((60, 0))), "y has no columns|0 feature"),
    "negative weight": (lambda: fit(sample_weight=put(np.ones(60), 4, -1)), "Negative values .*sample_weight"),
    "NaN weight": (lambda: fit(sample_weight=put(np.ones(60), 4, np.nan)), "sample_weight contains NaN"),
    "weights too short": (lambda: fit(sample_weight=np.ones(59)), r"sample_weight.shape == \(59,\)"),
    "weights all zero": (lambda: fit(sample_weight=np.zeros(60)), "at least one non-zero|sample_weight is zero for all rows"),
    "one row of weight": (lambda: fit(sample_weight=np.eye(60)[0]), "sample_weight is zero for all rows but"),
    "loss": (lambda: fit(model=PairRegressor(loss="squred")), "unknown loss 'squred': did you mean 'squared'"),
    "coupling": (lambda: fit(model=PairRegressor(coupling="sigmod")), "unknown coupling 'sigmod': did you mean 'sig"),
    "activation": (lambda: fit(model=PairRegressor(activation="rely")), "unknown activation 'rely': did you mean 'relu'"),
    "optimizer": (lambda: fit(model=PairRegressor(optimizer="sgd")), "unknown optimizer 'sgd'; known: nesterov, adam"),
    "lam zero": (lambda: fit(model=PairRegressor(lam=0)), "lam must be 'auto', a positive number or a function.*, got 0"),
    "lam negative": (lambda: fit(model=PairRegressor(lam=-0.1)), "lam must be 'auto', a positive number.*, got -0.1"),
    "lam NaN": (lambda: fit(model=PairRegressor(lam=np.nan)), "lam must be 'auto', a positive number.*, got nan"),
    "lam text": (lambda: fit(model=PairRegressor(lam="best")), "lam must be 'auto', a positive number.*, got 'best'"),
    "hidden": (lambda: fit(model=PairRegressor(hidden=(50, 0))), r"hidden must be a tuple of positive.*, got \(50, 0\)"),
    "hidden number": (lambda: fit(model=PairRegressor(hidden=50)), "hidden must be a tuple"),
    "shared": (lambda: fit(model=PairRegressor(shared_layers=2)), "at most the number of hidden layers, 1, got 2"),
    "dropout": (lambda: fit(model=PairRegressor(dropout=1)), r"dropout must be a number in \[0, 1\), got 1"),
    "rate": (lambda: fit(model=PairRegressor(learning_rate=0)), "learning_rate must be a positive number"),
    "momentum": (lambda: fit(model=PairRegressor(momentum=1.0)), r"momentum must be a number in \[0, 1\)"),
    "l2": (lambda: fit(model=PairRegressor(l2=-1)), "l2 must be a number >= 0 or None, got -1"),
    "no l2": (lambda: fit(model=LossQuantifier(PairRegressor(), l2=None)), "l2 must be a number >= 0, got None"),
    "no batch": (lambda: fit(model=SVGDRegressor(batch_size=None)), "batch_size must be a whole number >= 1, got None"),
    "clip": (lambda: fit(model=PairRegressor(clip=0)), "clip must be a positive number or None"),
    "epochs": (lambda: fit(model=PairRegressor(epochs=0, rescale=False)), "epochs must be a whole number >= 1 or None, got 0"),
    "batch": (lambda: fit(model=PairRegressor(batch_size=2.5)), "batch_size must be a whole number >= 1 or None, got 2.5"),
    "patience": (lambda: fit(model=PairRegressor(patience=0)), "patience must be a whole number"),
    "fraction": (lambda: fit(model=PairRegressor(validation_fraction=1.0)), "validation_fraction must be"),
    "members": (lambda: fit(model=PairEnsemble(n_members=0)), "n_members must be a whole number >= 1, got 0"),
    "n_jobs": (lambda: fit(model=PairRegressor(n_jobs=0)), "n_jobs must be a whole number other than 0"),
    "validation": (lambda: fit(validation=X), r"validation must be a tuple \(X, y\)"),
    "validation y": (lambda: fit(validation=(X, np.column_stack([y, y]))), "has 2 outputs, that of the training 1"),
    "validation X": (lambda: fit(validation=(X[:, :2], y)), "X has 2 features, but PairRegressor is expecting 3"),
    "negative loss": (
        lambda: fit(model=PairRegressor(loss=Loss("gain", lambda t, p: p - t, lambda t, p: 1.0))),
        "loss 'gain' is negative at y=",
    ),
    "loss not finite": (
        lambda: fit(model=PairRegressor(loss=Loss("log", lambda t, p: float("nan"), lambda t, p: 1.0))),
        "loss 'log' is not finite at y=",
    ),
    "wrong slope": (
        lambda: fit(model=PairRegressor(loss=Loss("own", lambda t, p: (t - p) ** 2, lambda t, p: p - t))),
        "slope is not the derivative of value",
    ),
    "reordered": (
        lambda: fit(FRAME).predict(FRAME[["age", "size", "floor"]]),
        "Column 0 is 'age' here and was 'size' in fit",
    ),
    "missing column": (lambda: fit(FRAME).predict(FRAME[["size", "age"]]), "missing:\n- floor"),
    "other column": (lambda: fit(FRAME).predict(FRAME.rename(columns={"age": "agee"})), "unseen at fit time:\n- agee"),
    "too few columns": (lambda: fit().predict(X[:, :2]), "X has 2 features, but PairRegressor is expecting 3"),
    "NaN in predict": (lambda: fit().predict(put(X, (2, 2), np.nan)), "The first is in X at row 2, column 2"),
    "overflow": (lambda: fit(y=1e200 * y), "is not finite"),
    "flag": (lambda: fit(model=PairRegressor(early_stopping="no")), "early_stopping must be True or False, got 'no'"),
    "activation list": (lambda: fit(model=PairRegressor(activation=["relu"])), "unknown activation"),
    "coupling function": (lambda: fit(model=PairRegressor(coupling=abs)), "coupling must be a name or an aleator"),
    "seed": (lambda: fit(model=PairRegressor(random_state=-1)), "random_state: "),
    "text y": (lambda: fit(y=np.array(["a"] * 60)), "y must be numbers"),
    "dates as y": (lambda: fit(y=pd.date_range("2026-01-01", periods=60)), "y must be numbers"),
    "None in y": (lambda: fit(y=[None, *y[1:]]), "Input y contains NaN. The first is in y at row 0"),
    "dates in an array": (lambda: fit(X.astype("datetime64[s]"), model=NUMBERS_ONLY), "X must be numbers, and it holds dates"),
    "lam that divides by zero": (lambda: fit(model=PairRegressor(lam=lambda e: 1 / e)), r"lam\(0\) raises"),
    "underflow": (lambda: fit(y=1e-170 * y), "loss is 0 in float64"),
    "duplicate columns": (lambda: fit(FRAME[["size", "age", "size"]]), "column 'size' appears twice"),
    "validation NaN": (lambda: fit(validation=(X * np.nan, y)), "in the validation table: Input X contains NaN"),
    "calibrate y": (lambda: fit().conformalize(X, np.column_stack([y, y])), "y has 2 outputs, the model was fitted with 1"),
    "coverage": (lambda: fit().conformalize(X, y).predict_interval(X, "a"), "coverage must lie strictly between 0 and 1"),
    "validation not finite": (
        lambda: fit(model=PairRegressor(loss=SPIKE, early_stopping=True), validation=(X, 1e3 + y)),
        "the loss on the validation rows is not finite after epoch 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_one_clear_error(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


def test_not_fitted():
    from sklearn.exceptions import NotFittedError

    for call in (PairRegressor().predict, PairEnsemble().predict_loss, PairRegressor().predict_uncertainty):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            call(X)


def test_divergence_is_an_error_not_a_model():
    model = PairRegressor(learning_rate=1e8, optimizer="nesterov", epochs=50, rescale=False)
    with pytest.raises(DivergenceError, match=r"diverged in member 0, epoch \d+.*Lower learning_rate"):
        model.fit(X, y)
    assert not hasattr(model, "params_")


# ---------------------------------------------------------------- sensible results


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "pinball(0.9)", "logcosh"])
@pytest.mark.parametrize("constant", [0.0, 0.1, -7e8])
def test_a_constant_target_is_predicted_with_no_loss(loss, constant):
    for model in (PairRegressor(loss=loss), PairEnsemble(n_members=2, loss=loss, epochs=3, rescale=False)):
        said = fit(y=np.full(60, constant), model=model).predict_uncertainty(X)
        np.testing.assert_array_equal(said.prediction, constant)
        np.testing.assert_array_equal(said.expected_loss, 0)


def test_one_constant_output_among_others():
    said = fit(y=np.column_stack([y, np.full(60, 3.0)]), model=PairRegressor(per_output=True)).predict_uncertainty(X)
    np.testing.assert_array_equal(said.prediction[:, 1], 3)
    np.testing.assert_array_equal(said.expected_loss[:, 1], 0)
    assert (said.expected_loss[:, 0] > 0).all()


def test_constant_and_duplicate_columns():
    wide = np.column_stack([X, np.full(60, 1e9), X[:, 0], X[:, 0]])
    model = PairRegressor().fit(wide, y)
    assert model.score(wide, y) > 0.8
    moved = wide.copy()
    moved[:, 3] = -5.0  # what never changed is ignored where it does
    np.testing.assert_array_equal(model.predict(moved), model.predict(wide))
    assert np.isfinite(PairRegressor().fit(np.ones((60, 2)), y).predict_loss(np.ones((60, 2)))).all()


@pytest.mark.parametrize("n", [2, 3, 4, 5, 9])
@pytest.mark.parametrize(
    "settings", [{}, {"early_stopping": True}, {"epochs": 3, "rescale": False}], ids=["cv", "stopping", "epochs"]
)
def test_few_rows(n, settings):
    said = PairRegressor(**settings).fit(X[:n], y[:n]).predict_uncertainty(X)
    assert np.isfinite(said.prediction).all()
    assert np.isfinite(said.expected_loss).all()


def test_all_rows_equal():
    said = PairRegressor().fit(np.ones((10, 2)), np.arange(10.0)).predict_uncertainty(np.ones((1, 2)))
    assert said.prediction[0] == pytest.approx(4.5, abs=1.5)
    said = PairRegressor().fit(np.ones((10, 2)), np.ones(10)).predict_uncertainty(np.ones((1, 2)))
    assert (said.prediction[0], said.expected_loss[0]) == (1, 0)
    with pytest.raises(ValueError, match="would hold back all 1 distinct rows"):
        PairRegressor(early_stopping=True).fit(np.ones((10, 2)), np.ones(10))


def test_outputs_may_have_the_same_name():
    Y = pd.DataFrame(np.column_stack([y, -y]), columns=["a", "a"])
    assert fit(y=Y).predict(X).shape == (60, 2)


def test_training_that_went_astray_is_an_error():
    wide = RNG.normal(size=(300, 2))
    with pytest.raises(DivergenceError, match="training failed|diverged"):
        PairRegressor(lam=0.2, learning_rate=3.0).fit(wide, wide[:, 0] + RNG.normal(size=300))


def test_integers_and_booleans_are_numbers():
    assert np.isfinite(fit(np.arange(60)[:, None], np.arange(60)).predict([[3]])).all()
    assert np.isfinite(fit(X > 0, y > 0).predict(X > 0)).all()


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "pinball(0.9)", "logcosh"])
@pytest.mark.parametrize("shift", [1e9, -1.7e12])
def test_a_target_far_from_zero(loss, shift):
    said = PairRegressor(loss=loss).fit(X, shift + y).predict_uncertainty(X)
    assert np.corrcoef(said.prediction - shift, y)[0, 1] > 0.9
    assert (said.expected_loss > 0).all()


def test_rows_far_away_get_finite_answers():
    model = fit(model=PairEnsemble(n_members=2, epochs=5, rescale=False))
    for c in (1e6, 1e40, 1e300):
        said = model.predict_uncertainty(c * X)
        assert np.isfinite(said.prediction).all()
        assert np.isfinite(said.expected_loss).all()


def test_weights_of_any_size():
    a, b = (fit(sample_weight=np.full(60, w)).predict(X) for w in (1.0, 1.7e308))
    np.testing.assert_allclose(a, b, rtol=1e-5)


def test_calibration_rows_that_contradict_a_constant_target():
    low, high = PairRegressor(epochs=3, rescale=False).fit(X, np.full(60, 7.0)).conformalize(X, y).predict_interval(X)
    assert y.max() < 7  # nothing was expected, and all targets are below
    assert np.isneginf(low).all()
    assert (high == 7).all()
