"""Every estimator as one self-contained ONNX file, with its standardisation inside.

Input `X` (rows, columns), outputs `prediction`, `expected_loss` (but of a `PlainRegressor`) and `epistemic` where
members or passes can disagree, in the user's units and the shapes of `predict` and `predict_uncertainty`. Needs the
extra `aleator[onnx]`; torch only for models of torch.
"""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import aleator
from aleator import losses, models
from aleator.baselines import DropoutRegressor, PBPRegressor, PlainRegressor, SVGDRegressor
from aleator.estimators import LossQuantifier
from aleator.estimators.encoding import TableEncoder
from aleator.estimators.network import NetworkRegressor
from aleator.onnx import moments, networks
from aleator.onnx.graph import DOMAINS, Graph, Value, beside, cast, clip, flat, isnan, mean, reshaped, sqrt, take, where

Answer = tuple[Value, Value | None, Value | None]  # mean (n, M), aleatoric and epistemic loss (n, Q), before scaling


def export_onnx(
    model: Any, path: str | PathLike[str], example: Any = None, *, dtype: str = "float64", given: bool = False
) -> None:
    """Write a fitted model to an ONNX file.

    model : any estimator of aleator; a `Pair`, `Ensemble` or `Quantifier` of `aleator.torch`.
    example : for models of torch, inputs (a few rows are enough) that show their shapes and types.
    dtype : "float64" or "float32", of the input X. The answers are float64, so that no unit is too large for them (of
        torch, predictions have the type they have there).
    given : for a `LossQuantifier` whose regressor ONNX cannot hold: its predictions become the input `given`.
    """
    if hasattr(model, "to_onnx"):  # of torch
        if given or dtype != "float64":
            raise ValueError("dtype and given are for estimators; the example says what a model of torch reads.")
        model.to_onnx(path, example)
        return
    kind = next((kind for kind in _ANSWERS if isinstance(model, kind)), None)
    if kind is None or type(model).__name__ not in models.MODELS:
        raise TypeError(f"export_onnx takes estimators of aleator, got {type(model).__name__}.")
    check_is_fitted(model)
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
    graph = Graph()
    X = cast(graph.input("X", dtype, ("rows", model.n_features_in_)), np.float64)
    answer = _given(model, X, given) if kind is LossQuantifier else _ANSWERS[kind](model, X)
    _outputs(graph, model, answer)
    graph.write(path, _facts(model))


def _outputs(graph: Graph, model: Any, answer: Answer) -> None:
    predicted, aleatoric, epistemic = answer
    M, Q = model.n_outputs_, len(model.loss_scale_)

    def give(name: str, value: Value, width: int) -> None:
        alone = model.y_is_1d_ or width < M
        graph.output(name, flat(value) if alone else value, ("rows",) if alone else ("rows", width))

    give("prediction", predicted, M)
    if aleatoric is None:
        return
    raw = aleatoric if epistemic is None else aleatoric + epistemic
    expected = networks.scaled(model, raw)
    give("expected_loss", expected, Q)
    if epistemic is not None:
        give("epistemic", where(raw > 0.0, expected / raw, 0.0) * epistemic, Q)


def _facts(model: Any) -> dict[str, Any]:
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    return {
        "aleator": aleator.__version__,
        "model": type(model).__name__,
        "loss": model._loss().name,
        "feature_names": names,
    }


# ---------------------------------------------------------------- one for each kind of model


def _network(model: Any, X: Value) -> Answer:
    """Pairs, likelihoods, and ensembles of them."""
    read = model._readout()
    y_r, xi = networks.outputs(model.network_, model.params_, networks.standardised(X, model.scaling_))
    mu = model.scaling_.y_mean + model.scaling_.y_spread * y_r
    expected = model.units_.unit * networks.expected_loss(read.head, xi, model.lam_)
    if len(model.params_) == 1:
        return mean(mu, 0), mean(expected, 0), None
    return networks.mixed(mu, expected, read.loss, shared=len(model.units_.unit) < model.n_outputs_)


def _plain(model: Any, X: Value) -> Answer:
    return mean(_members(model, model.params_, X), 0), None, None


def _dropout(model: Any, X: Value) -> Answer:
    thinned = np.stack([model._thinned(model.params_[0], mask) for mask in model.masks_])
    mu = _members(model, thinned, X)
    return networks.mixed(mu, 0.0 * mu + model.noise_, model._loss(), shared=False)


def _svgd(model: Any, X: Value) -> Answer:
    mu = _members(model, model.params_, X)
    return networks.mixed(mu, 0.0 * mu + model.noise_[:, None], model._loss(), shared=False)


def _members(model: Any, params: NDArray[np.float32], X: Value) -> Value:
    """Predictions (K, n, M) of regressors alone."""
    y_r, _ = networks.outputs(model.network_, params, networks.standardised(X, model.scaling_))
    return model.scaling_.y_mean + model.scaling_.y_spread * y_r  # type: ignore[no-any-return]


def _pbp(model: Any, X: Value) -> Answer:
    weights = model.weight_mean_, model.weight_variance_
    middle, variance = moments.forward(networks.standardised(X, model.scaling_), model._sizes(), *weights)
    a, b = model.noise_precision_.T
    spread = model.scaling_.y_spread
    aleatoric = 0.0 * middle + spread**2 * b / (a - 1)
    epistemic = spread**2 * variance
    if not losses.is_squared(model._loss()):  # of a Gaussian, E|y - mu| = sqrt(2 V / pi)
        both, aleatoric = (sqrt(part * (2 / np.pi)) for part in (aleatoric + epistemic, aleatoric))
        epistemic = both - aleatoric
    return model.scaling_.y_mean + spread * middle, aleatoric, epistemic


def _given(model: Any, X: Value, given: bool) -> Answer:
    """A regressor that was there, and quantifiers of its losses."""
    n_outputs, trained = model.n_outputs_, model.quantifiers_
    if given:
        shape = ("rows",) if model.y_is_1d_ else ("rows", n_outputs)
        said = reshaped(X.graph.input("given", np.float64, shape), -1, n_outputs)
    else:
        said = reshaped(_regressor(model.estimator_, X, model.n_features_in_), -1, n_outputs)
    Z = beside(_encoded(model.encoder_, X), said) if model.settings_["use_prediction"] else _encoded(model.encoder_, X)
    _, xi = networks.outputs(trained.network, trained.params, networks.standardised(Z, trained.scaling))
    low, high = trained.reach.transpose(1, 0, 2)[:, :, None]  # (K, 1, Q) each
    level = networks.level(trained.coupling)(clip(xi, low, high))
    return said, trained.unit * mean(trained.lams.reshape(-1, 1, 1) * level, 0), None


def _encoded(encoder: Any, X: Value) -> Value:
    """Numbers as they are; the median where one is missing, and a column that says so."""
    if not isinstance(encoder, TableEncoder) or encoder.kinds_:
        raise ValueError("export_onnx needs a table of numbers: this quantifier reads text, categories or dates.")
    missing = encoder.parts_.indicator_.features_
    gaps = isnan(X)
    filled = where(gaps, encoder.parts_.statistics_, X)
    return beside(filled, take(cast(gaps, np.float64), missing)) if len(missing) else filled


def _regressor(estimator: Any, X: Value, n_features: int) -> Value:
    """The prediction of an estimator of aleator's or, by skl2onnx, of scikit-learn's."""
    kind = next((kind for kind in _ANSWERS if isinstance(estimator, kind)), None)
    if kind is not None:
        predicted, _, _ = _given(estimator, X, False) if kind is LossQuantifier else _ANSWERS[kind](estimator, X)
        return predicted
    name = type(estimator).__name__
    advice = "pass given=True, and its predictions become the input `given`"
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import DoubleTensorType
    except ImportError:
        raise ValueError(f"{name} needs skl2onnx to become ONNX (pip install 'aleator[onnx]'); or {advice}.") from None
    try:
        made = convert_sklearn(
            estimator, initial_types=[("X", DoubleTensorType([None, n_features]))], target_opset=DOMAINS
        )
    except Exception as error:  # whatever a converter may raise
        reason = str(error).strip().split("\n")[0][:100]
        raise ValueError(f"{name} cannot become ONNX ({reason}); {advice}.") from error
    return X.graph.include(made, {made.graph.input[0].name: X})


_ANSWERS: dict[type[Any], Callable[[Any, Value], Answer]] = {
    PlainRegressor: _plain,
    DropoutRegressor: _dropout,
    SVGDRegressor: _svgd,
    PBPRegressor: _pbp,
    LossQuantifier: lambda model, X: _given(model, X, False),
    NetworkRegressor: _network,
}
