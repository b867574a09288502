"""ONNX files: onnxruntime says what `predict` says, for every estimator and every model of torch."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from scipy.special import ndtr
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from torch import nn

import aleator
from aleator import LossQuantifier, PairEnsemble, PairRegressor, TableEncoder
from aleator.couplings import COUPLINGS, Coupling
from aleator.losses import LOSSES, Loss
from aleator.onnx import export_onnx, gaussian_moments, networks
from aleator.onnx.graph import Graph, absolute, softplus
from aleator.registry import MODELS
from aleator.torch import JointLoss, Pair, Quantifier, fit_ensemble, fit_pair
from quick_models import QUICK, SEVERAL

pytestmark = pytest.mark.usefixtures("short_training")

rng = np.random.default_rng(0)
CENTRE, SPREAD = np.array([0, 0, 1e4, 0]), np.array([1, 10, 100, 1])
X = CENTRE + SPREAD * rng.normal(size=(250, 4))
NEW = CENTRE + SPREAD * rng.normal(size=(10_000, 4))
y = 7 + 3 * X[:, 0] + 0.1 * X[:, 1] * rng.normal(size=250)
Y = np.column_stack([y, X[:, 2] - 1e4])


def answers(path, rows, **others):
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows, **others}), strict=True))


def steepness(model):
    """How many times a relative difference becomes larger where a curve corrects the expected loss, at the most."""
    found = [1.0]
    for curve in getattr(getattr(model, "loss_correction_", None), "curves", None) or ():
        rises = np.diff(curve.before) > 0
        slopes = np.diff(curve.after)[rises] / np.diff(curve.before)[rises]
        found += list(slopes * curve.before[1:][rises] / np.maximum(curve.after[:-1][rises], 1e-300))
    return max(found)


def assert_answers(model, path, rows=NEW, spread=1.0, **others):
    """Predictions to 1e-5 of themselves (or of the target's spread, where they pass 0), losses to 1e-5 of themselves."""
    said = answers(path, rows, **others)
    prediction = model.predict(rows)
    assert said["prediction"].shape == prediction.shape
    assert (np.abs(said["prediction"] - prediction) <= 1e-5 * np.maximum(np.abs(prediction), spread)).all()
    if "expected_loss" in said:
        ours = model.predict_uncertainty(rows)
        assert said["expected_loss"].shape == ours.expected_loss.shape
        np.testing.assert_allclose(said["expected_loss"], ours.expected_loss, rtol=1e-5 * min(steepness(model), 30))
        if "epistemic" in said:
            assert (np.abs(said["epistemic"] - ours.epistemic) <= 1e-5 * ours.expected_loss).all()
    return said


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_every_estimator(name, loss, scale, tmp_path):
    for target in (y, Y):
        model = MODELS[name](**QUICK[name], loss=loss).fit(X, scale * target)
        export_onnx(model, tmp_path / "m.onnx")
        said = assert_answers(model, tmp_path / "m.onnx", spread=scale * target.std(axis=0))
        assert ("epistemic" in said) == (name in SEVERAL)
        assert ("expected_loss" in said) == (name != "PlainRegressor")
        assert said["prediction"].dtype == np.float64


@pytest.mark.parametrize("loss", [*LOSSES, "huber(0.5)", "pinball(0.9)"])
@pytest.mark.parametrize("coupling", ["sigmoid", "softplus"])
def test_every_loss_and_coupling_of_a_mixture(loss, coupling, tmp_path):
    model = PairEnsemble(loss=loss, coupling=coupling, lam=0.2, epochs=10, rescale=False, n_members=3).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    assert_answers(model, tmp_path / "m.onnx", spread=y.std())


@pytest.mark.parametrize(
    "shape",
    [
        {"hidden": (20, 10), "activation": "tanh", "shared_layers": 1, "per_output": True},
        {"hidden": (20, 10)},
        {"hidden": (8,), "shared_layers": 1},
        {"hidden": ()},
    ],
)
def test_every_shape_of_network(shape, tmp_path):
    model = PairEnsemble(epochs=10, rescale=False, n_members=2, **shape).fit(X, Y)
    export_onnx(model, tmp_path / "m.onnx")
    assert_answers(model, tmp_path / "m.onnx", spread=Y.std(axis=0))


def test_any_number_of_rows_and_float32(tmp_path):
    model = PairEnsemble(epochs=10, rescale=False, n_members=2).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    for n in (1, 7, 1000):
        assert_answers(model, tmp_path / "m.onnx", NEW[:n], spread=y.std())
    export_onnx(model, tmp_path / "f.onnx", dtype="float32")
    assert_answers(model, tmp_path / "f.onnx", NEW.astype(np.float32), spread=y.std())


@pytest.mark.parametrize("method", ["factor", "isotonic"])
def test_scale_and_corrections_are_inside(method, tmp_path):
    for model in (PairEnsemble(n_members=2), LossQuantifier(Ridge()), PairRegressor(per_output=True)):
        target = Y if isinstance(model, PairRegressor) else y
        model.fit(X, target).recalibrate(X, target, method)
        export_onnx(model, tmp_path / "m.onnx")
        assert_answers(model, tmp_path / "m.onnx", spread=target.std(axis=0))


@pytest.mark.parametrize(
    "estimator",
    [RandomForestRegressor(20, random_state=0), GradientBoostingRegressor(), PairRegressor(epochs=5, rescale=False),
     LossQuantifier(Ridge(), epochs=3, rescale=False)],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_a_regressor_that_was_there_is_inside(estimator, tmp_path):
    model = LossQuantifier(estimator, n_members=2, epochs=10, rescale=False).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    assert_answers(model, tmp_path / "m.onnx", spread=y.std())


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.9)", "huber(2.0)", "logcosh"])
@pytest.mark.parametrize("target", ["one", "shared", "each"])
def test_predictions_beyond_all_plausible_ones(loss, target, tmp_path):
    model = LossQuantifier(Ridge(), loss=loss, n_members=2, epochs=10, rescale=False, per_output=target == "each")
    model.fit(X, y if target == "one" else Y)
    far = NEW.copy()
    far[::2, 0] *= 1e4
    assert model.predict_loss(far).max() > 100 * model.predict_loss(NEW).max()
    export_onnx(model, tmp_path / "m.onnx")
    assert_answers(model, tmp_path / "m.onnx", far, spread=np.abs(model.predict(far)).max())


def test_encoders_that_saw_other_rows_read_the_columns_they_know(tmp_path):
    """What is an identifier in the rows of the regressor may be one of many categories in those of its quantifier."""
    rng = np.random.default_rng(0)
    n = 240
    code = [f"c{k}" for k in range(n)]
    first = pd.DataFrame({"x": rng.normal(size=n), "code": code, "city": rng.choice(["Ulm", "Bonn"], n)})
    regressor = make_pipeline(TableEncoder(), Ridge()).fit(first, first["x"] + (first["city"] == "Ulm"))
    second = first.assign(code=rng.choice(code[:40], n), x=rng.normal(size=n))
    target = second["x"] + rng.normal(size=n)
    model = LossQuantifier(regressor, cv="prefit", n_members=1, epochs=3, rescale=False).fit(second, target)
    assert (regressor[0].kinds_[1], model.encoder_.kinds_[1]) == ("id", "many")
    export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    asked = {"X": second[["x"]].to_numpy(), "categories": second[["code", "city"]].to_numpy(object)}
    predicted, expected = session.run(["prediction", "expected_loss"], asked)
    np.testing.assert_allclose(predicted, model.predict(second), atol=1e-5)
    np.testing.assert_allclose(expected, model.predict_loss(second), rtol=1e-4)
    noted = first.assign(code=[f"{'old' if k % 3 else 'new'} {k}" for k in range(n)])
    reads_text = make_pipeline(TableEncoder(), Ridge()).fit(noted, noted["x"])
    model = LossQuantifier(reads_text, cv="prefit", n_members=1, epochs=3, rescale=False).fit(first, target)
    with pytest.raises(ValueError, match="ONNX has no words: column 'code' is text"):
        export_onnx(model, tmp_path / "n.onnx")
    export_onnx(model, tmp_path / "n.onnx", given=True)


def test_or_its_predictions_are_an_input(tmp_path):
    model = LossQuantifier(lambda rows: rows[:, 0], n_members=2, epochs=10, rescale=False).fit(X, y)
    with pytest.raises(ValueError, match="function cannot become ONNX .* with given=True"):
        export_onnx(model, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    export_onnx(model, tmp_path / "m.onnx", given=True)
    assert_answers(model, tmp_path / "m.onnx", spread=y.std(), given=NEW[:, 0])


def test_missing_values_are_filled_in(tmp_path):
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    new = NEW.copy()
    new[::5, 1] = np.nan
    new[::3, 0] = np.nan
    given = GradientBoostingRegressor().fit(X, y)
    model = LossQuantifier(lambda rows: given.predict(np.nan_to_num(rows)), n_members=2, epochs=10, rescale=False).fit(
        gaps, y
    )
    export_onnx(model, tmp_path / "m.onnx", given=True)
    assert_answers(model, tmp_path / "m.onnx", new, spread=y.std(), given=model.predict(new))


def test_the_file_says_what_it_is(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    export_onnx(PairRegressor(loss="absolute", epochs=2, rescale=False).fit(frame, y), tmp_path / "m.onnx")
    read = onnx.load(tmp_path / "m.onnx")
    facts = {entry.key: json.loads(entry.value) for entry in read.metadata_props}
    assert facts == {
        "aleator": aleator.__version__, "model": "PairRegressor", "loss": "absolute", "feature_names": ["a", "b", "c", "d"],
        "inputs": {"X": ["a", "b", "c", "d"], "categories": []},
    }  # fmt: skip
    assert [value.name for value in read.graph.input] == ["X"]
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


def test_the_normal_distribution_by_a_polynomial(tmp_path):
    graph = Graph()
    x = graph.input("X", np.float64, ("n",))
    lower, upper = gaussian_moments.normal_tails(x)
    graph.output("lower", lower, ("n",))
    graph.output("upper", upper, ("n",))
    graph.write(tmp_path / "m.onnx", {})
    at = np.concatenate([np.linspace(-37, 37, 20_001), [0.0, 1e-9, -1e-9, 1e4, -1e4]])
    said = answers(tmp_path / "m.onnx", at)
    np.testing.assert_allclose(said["lower"], ndtr(at), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(said["upper"], ndtr(-at), rtol=1e-11, atol=1e-300)


def test_functions_that_onnx_does_not_know(tmp_path):
    graph = Graph()
    x = graph.input("X", np.float64, ("n",))
    made = {"softplus": softplus(x), "expm1": networks._expm1(-absolute(x)), "logcosh": networks._logcosh(x, 0.0 * x)}
    made |= {name: networks.level(coupling)(x) for name, coupling in COUPLINGS.items() if name != "softplus"}
    made["softplus level"] = networks.level(COUPLINGS["softplus"])(x)
    for name, value in made.items():
        graph.output(name, value, ("n",))
    graph.write(tmp_path / "m.onnx", {})
    at = np.concatenate(
        [np.linspace(-40, 40, 4001), [-1e4, -700, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.049, 0.051, 700, 1e4]]
    )
    said = answers(tmp_path / "m.onnx", at)
    np.testing.assert_allclose(said["softplus"], np.logaddexp(0, at), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(said["expm1"], np.expm1(-np.abs(at)), rtol=1e-9)
    np.testing.assert_allclose(said["logcosh"], LOSSES["logcosh"](at, 0 * at), rtol=1e-9, atol=1e-300)
    for name, key in (("sigmoid", "sigmoid"), ("softplus", "softplus level")):
        np.testing.assert_allclose(said[key], COUPLINGS[name].expected_loss(at, 1.0), rtol=1e-9)


def test_rows_far_outside_and_losses_of_nothing(tmp_path):
    far = NEW[:200] + 1e9 * SPREAD
    model = PairEnsemble(loss="absolute", epochs=10, rescale=False, n_members=2).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    np.testing.assert_allclose(answers(tmp_path / "m.onnx", far)["prediction"], model.predict(far), rtol=1e-4)
    still = PairEnsemble(loss="absolute", epochs=1, rescale=False, n_members=2).fit(
        X, np.full(250, 3.0)
    )  # a target that never changes
    export_onnx(still, tmp_path / "s.onnx")
    said = answers(tmp_path / "s.onnx", NEW)
    assert (said["prediction"] == 3).all()
    for name in ("expected_loss", "epistemic"):
        np.testing.assert_allclose(said[name], getattr(still.predict_uncertainty(NEW), name), rtol=1e-5)


def test_bad_input_is_named(tmp_path):
    place = tmp_path / "m.onnx"
    own = Coupling("own", lambda xi: np.exp(xi), lambda xi: -xi, lambda xi: np.exp(xi), lambda xi: -1.0)
    late = Loss("late", lambda y, p: 5 * (y - p) if y > p else p - y, lambda y, p: -5.0 if y > p else 1.0, degree=1)
    for model, error, message in [
        (PairRegressor(), Exception, "not fitted"),
        (Ridge().fit(X, y), TypeError, "export_onnx takes estimators of aleator, got Ridge"),
        (
            PairRegressor(coupling=own, epochs=1, rescale=False).fit(X, y),
            ValueError,
            "'joint-own' has a custom coupling",
        ),
        (
            PairEnsemble(loss=late, epochs=1, rescale=False, n_members=2).fit(X, y),
            ValueError,
            "the loss 'late' is custom",
        ),
        (
            LossQuantifier(lambda f: np.zeros(len(f)), epochs=1, rescale=False).fit(
                pd.DataFrame({"a": [f"{'old' if k % 3 else 'new'} {k}" for k in range(250)]}), y
            ),
            ValueError,
            "ONNX has no words: column 'a' is text",
        ),
    ]:
        with pytest.raises(error, match=message):
            export_onnx(model, place, given=isinstance(model, LossQuantifier))
    with pytest.raises(ValueError, match="dtype must be"):
        export_onnx(PairRegressor(epochs=1, rescale=False).fit(X, y), place, dtype="int8")
    with pytest.raises(OSError, match="cannot write the ONNX file"):
        export_onnx(PairRegressor(epochs=1, rescale=False).fit(X, y), tmp_path / "no" / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_estimators_need_no_torch(tmp_path):
    code = f"""
import importlib.abc, sys
class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
sys.meta_path.insert(0, NoTorch())
import aleator
model = aleator.PairRegressor(epochs=1, hidden=(2,)).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0])
aleator.export_onnx(model, {str(tmp_path / "m.onnx")!r})
try:
    import aleator.torch
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "aleator.torch needs the extra: pip install 'aleator[torch]'."
    assert (tmp_path / "m.onnx").exists()


# ---------------------------------------------------------------- torch


def mlp(outputs=1):
    ends = [nn.Flatten(0)] if outputs == 1 else []
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, outputs), *ends)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])[:, 0]


def of_torch(kind):
    rows, target = NEW[:300].astype(np.float32), 1e30 * np.column_stack([NEW[:300, 0], NEW[:300, 1]])
    if kind == "pair":
        return fit_pair(Pair(mlp()), (rows, target[:, 0]), epochs=2, standardise=True), rows
    if kind in ("squared", "absolute", "logcosh"):
        target = target if kind != "logcosh" else target / 1e30
        pairs = lambda k: Pair(mlp(2), criterion=JointLoss(kind, "softplus" if kind == "squared" else "sigmoid"))  # noqa: E731
        return fit_ensemble(pairs, 3, (rows, target), epochs=2, standardise=True).recalibrate((rows, target)), rows
    if kind == "convolution":
        images = np.random.default_rng(0).normal(size=(200, 1, 8, 8)).astype(np.float32)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1), nn.Flatten(0)
        )
        return fit_pair(Pair(net), (images, images.mean((1, 2, 3))), epochs=2), images
    if kind == "recurrent":
        signals = np.random.default_rng(0).normal(size=(200, 9, 1)).astype(np.float32)
        return fit_pair(Pair(Recurrent()), (signals, signals[:, -1, 0]), epochs=2), signals
    module = mlp().eval()
    return Quantifier(module, loss="absolute", n_members=2).fit((rows, rows[:, 0])), rows


@pytest.mark.parametrize("kind", ["pair", "squared", "absolute", "logcosh", "convolution", "recurrent", "post hoc"])
def test_models_of_torch(kind, tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, rows = of_torch(kind)
    aleator.export_onnx(model, tmp_path / "m.onnx", rows[:2])
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
    for n in (1, 7, 150):
        said, ours = answers(tmp_path / "m.onnx", rows[:n]), model.predict(rows[:n])
        assert list(said) == ["prediction", "expected_loss", "epistemic"][: len(said)]
        assert ("epistemic" in said) == (kind in ("squared", "absolute", "logcosh"))
        spread = np.abs(model.predict(rows).prediction).max()
        assert said["prediction"].shape == ours.prediction.shape
        assert np.abs(said["prediction"] - ours.prediction).max() <= 1e-5 * spread
        np.testing.assert_allclose(said["expected_loss"], ours.expected_loss, rtol=1e-5 * min(steepness(model), 30))
        if "epistemic" in said:
            assert (np.abs(said["epistemic"] - ours.epistemic) <= 1e-5 * ours.expected_loss).all()


def test_an_example_is_asked_for(tmp_path):
    pair = Pair(nn.Sequential(nn.Conv1d(1, 1, 3), nn.Flatten(), nn.Linear(5, 1)))
    with pytest.raises(ValueError, match="needs example="):
        aleator.export_onnx(pair, tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"cannot read the example, of shape \(2, 3\)"):
        aleator.export_onnx(Pair(mlp()), tmp_path / "m.onnx", np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="not fitted yet"):
        aleator.export_onnx(Quantifier(mlp()), tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="are for estimators"):
        aleator.export_onnx(Pair(mlp()), tmp_path / "m.onnx", dtype="float32")
    assert not list(tmp_path.iterdir())


def test_support_vector_machines_are_refused(tmp_path):
    """Runtimes compute them in float32 only, and cannot run the file."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = LossQuantifier(make_pipeline(StandardScaler(), SVR()), n_members=1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="support vector machine, which ONNX runs in float32 only; with given=True"):
        export_onnx(model, tmp_path / "m.onnx")
    export_onnx(model, tmp_path / "m.onnx", given=True)
