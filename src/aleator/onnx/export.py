"""Every estimator as one self-contained ONNX file, with its standardisation inside.

Input `X` (rows, columns), for tables with categories also `categories` (rows, columns) of strings, "" where missing; a
date is a number in X, days since 1970. The metadata tells which column is where. Outputs `prediction`, `expected_loss`
(but of a `PlainRegressor`) and `epistemic` where members or passes can disagree, in the user's units and the shapes of
`predict` and `predict_uncertainty`. Needs the extra `aleator[onnx]`; torch only for models of torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from aleator import losses, registry
from aleator.baselines import DropoutRegressor, PBPRegressor, PlainRegressor, SVGDRegressor
from aleator.estimators import LossQuantifier
from aleator.estimators.network_regressor import NetworkRegressor
from aleator.losses import Loss
from aleator.onnx import gaussian_moments, networks, trees
from aleator.onnx.graph import (
    DOMAINS,
    Graph,
    Value,
    beside,
    cast,
    chosen,
    clip,
    cosine,
    equals,
    flat,
    isnan,
    mean,
    minimum,
    places,
    reshaped,
    rounded,
    sine,
    sqrt,
    take,
    total,
    where,
)
from aleator.preprocessing import outliers
from aleator.preprocessing.table_encoder import CYCLES, MISSING, WAVE_DIGITS, TableEncoder
from aleator.training.loss_network import LossNetworks
from aleator.training.quantifier import LossModel

Columns = tuple[list[int], list[int], int]  # places of numbers and of texts in the table, and how many columns it has
Answer = tuple[Value, Value | None, Value | None]  # mean (n, M), aleatoric and epistemic loss (n, Q), before scaling


class ExportError(ValueError):
    """A regressor that ONNX cannot hold; `settings` of `export_onnx` would help."""

    settings: ClassVar[dict[str, Any]] = {"given": True}


def export_onnx(
    model: Any, path: str | PathLike[str], example: Any = None, *, dtype: str = "float64", given: bool = False
) -> None:
    """Write a fitted model to an ONNX file, which runs without Python.

    The input ``X`` holds the numbers, ``categories`` the other columns as strings; the metadata says which column is
    where. The outputs are ``prediction``, ``expected_loss`` and, for ensembles, ``epistemic``.

    Parameters
    ----------
    model : estimator or torch module
        Any fitted estimator of aleator, or a `Pair`, `Ensemble` or `Quantifier` of `aleator.torch`.
    path : str or PathLike
        The file.
    example : tensor or tuple, default=None
        For torch models, a few inputs that show shapes and types.
    dtype : {"float64", "float32"}, default="float64"
        Type of the input ``X``. The outputs are float64.
    given : bool, default=False
        For a `LossQuantifier` whose regressor ONNX cannot hold: its predictions become a second input, ``given``.

    Raises
    ------
    TypeError
        If the model is not one of those.
    ValueError
        If the model cannot be exported, for example because of text columns.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from aleator import PairRegressor, export_onnx
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> model = PairRegressor(epochs=5, rescale=False).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(model, f"{folder}/model.onnx")
    """
    if hasattr(model, "to_onnx"):  # of torch
        if given or dtype != "float64":
            raise ValueError("dtype and given are for estimators; the example says what a model of torch reads.")
        model.to_onnx(path, example)
        return
    kind = next((kind for kind in _ANSWERS if isinstance(model, kind)), None)
    if kind is None or type(model).__name__ not in registry.MODELS:
        raise TypeError(f"export_onnx takes estimators of aleator, got {type(model).__name__}.")
    check_is_fitted(model)
    if given and kind is not LossQuantifier:
        raise ValueError(f"given is for a LossQuantifier, whose regressor is another model; this is a {kind.__name__}.")
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
    graph = Graph()
    columns = _columns_read(model, given)
    rows = _inputs(graph, columns, dtype)
    answer = _given(model, rows, given) if kind is LossQuantifier else _ANSWERS[kind](model, rows)
    _outputs(graph, model, answer)
    graph.write(path, _facts(model, columns))


@dataclass(frozen=True)
class Rows:
    """The inputs of a model: its columns of numbers, dates among them as days since 1970, and those of texts.

    `places`: where the columns of texts are in the table. `only_numbers`: whether it has no other columns, not even
    those that encoders ignore.
    """

    numbers: Value
    texts: Value | None = None
    places: tuple[int, ...] = ()
    only_numbers: bool = True


def _inputs(graph: Graph, columns: Columns, dtype: str) -> Rows:
    numbers, texts, n_columns = columns
    X = cast(graph.input("X", dtype, ("rows", len(numbers))), np.float64)
    strings = graph.texts("categories", ("rows", len(texts))) if texts else None
    return Rows(X, strings, tuple(texts), len(numbers) == n_columns)


def _columns_read(model: Any, given: bool) -> Columns:
    """The places of the columns of numbers, and of texts that some encoder in the model reads, and how many there are.

    A quantifier and its regressor may have an encoder each, which were fitted to other rows; if the regressor's
    predictions are `given`, its own does not count.
    """
    by_encoder = [encoder.kinds_ for encoder in _encoders(model, not given) if encoder.kinds_]
    if not by_encoder:
        return list(range(model.n_features_in_)), [], model.n_features_in_
    names = getattr(model, "feature_names_in_", range(len(by_encoder[0])))
    numbers, texts = [], []
    for k, kinds in enumerate(zip(*by_encoder, strict=True)):
        if "text" in kinds:
            raise ValueError(f"ONNX has no words: column {names[k]!r} is text, fit the model without it.")
        of_numbers = {kind in ("number", "date") for kind in kinds}
        if len(of_numbers) > 1:
            raise ValueError(
                f"column {names[k]!r} is numbers to the regressor or its quantifier, and not to the other."
            )
        if of_numbers == {True}:
            numbers.append(k)
        elif {"few", "many"} & set(kinds):
            texts.append(k)
    return numbers, texts, len(by_encoder[0])


def _encoders(model: Any, inside: bool = True) -> list[TableEncoder]:
    """Every TableEncoder that reads the columns of the model's table; perhaps not those `inside` of its regressor."""
    if isinstance(model, Pipeline):
        return [model[0]] if isinstance(model[0], TableEncoder) else []
    own = getattr(model, "encoder_", None)
    inner = _encoders(model.estimator_) if isinstance(model, LossQuantifier) and inside else []
    return ([own] if isinstance(own, TableEncoder) else []) + inner


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
    loss = model._loss()
    if isinstance(model, LossQuantifier) and isinstance(loss, Loss) and np.isfinite(model.prediction_range_).all():
        beyond = networks.losses_of(loss)(clip(predicted, *model.prediction_range_), predicted)
        beyond = minimum(beyond, outliers.LARGEST)
        expected = expected + (beyond if Q == M else total(beyond, -1, keep=True))
    give("expected_loss", expected, Q)
    if epistemic is not None:
        give("epistemic", where(raw > 0.0, expected / raw, 0.0) * epistemic, Q)


def _facts(model: Any, columns: Columns) -> dict[str, Any]:
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    numbers, texts, _ = columns
    return {
        "aleator": version("aleator"),
        "model": type(model).__name__,
        "loss": model._loss().name,
        "feature_names": names,
        "inputs": {"X": [names[k] for k in numbers if names], "categories": [names[k] for k in texts if names]},
    }


# ---------------------------------------------------------------- one for each kind of model


def _network(model: Any, rows: Rows) -> Answer:
    """Pairs, likelihoods, and ensembles of them."""
    read = model._readout()
    Z = _encoded(model.encoder_, rows) if hasattr(model, "encoder_") else rows.numbers
    y_r, xi = networks.outputs(model.network_, model.params_, networks.standardised(Z, model.scaling_))
    mu = model.scaling_.y_mean + model.scaling_.y_spread * y_r
    xi = clip(xi, *_ends(model.xi_range_)) if hasattr(model, "xi_range_") else xi
    expected = model.units_.unit * networks.expected_loss(read.objective, xi, model.lam_)
    if len(model.params_) == 1:
        return mean(mu, 0), mean(expected, 0), None
    return networks.mixed(mu, expected, read.loss, shared=len(model.units_.unit) < model.n_outputs_)


def _plain(model: Any, rows: Rows) -> Answer:
    return mean(_members(model, model.params_, rows.numbers), 0), None, None


def _dropout(model: Any, rows: Rows) -> Answer:
    thinned = np.stack([model._thinned(model.params_[0], mask) for mask in model.masks_])
    mu = _members(model, thinned, rows.numbers)
    return networks.mixed(mu, 0.0 * mu + model.noise_, model._loss(), shared=False)


def _svgd(model: Any, rows: Rows) -> Answer:
    mu = _members(model, model.params_, rows.numbers)
    return networks.mixed(mu, 0.0 * mu + model.noise_[:, None], model._loss(), shared=False)


def _members(model: Any, params: NDArray[np.float32], X: Value) -> Value:
    """Predictions (K, n, M) of regressors alone."""
    y_r, _ = networks.outputs(model.network_, params, networks.standardised(X, model.scaling_))
    return model.scaling_.y_mean + model.scaling_.y_spread * y_r  # type: ignore[no-any-return]


def _pbp(model: Any, rows: Rows) -> Answer:
    weights = model.weight_mean_, model.weight_variance_
    middle, variance = gaussian_moments.forward(
        networks.standardised(rows.numbers, model.scaling_), model._sizes(), *weights
    )
    a, b = model.noise_precision_.T
    spread = model.scaling_.y_spread
    aleatoric = 0.0 * middle + spread**2 * b / (a - 1)
    epistemic = spread**2 * variance
    if not losses.is_squared(model._loss()):  # of a Gaussian, E|y - mu| = sqrt(2 V / pi)
        both, aleatoric = (sqrt(part * (2 / np.pi)) for part in (aleatoric + epistemic, aleatoric))
        epistemic = both - aleatoric
    return model.scaling_.y_mean + spread * middle, aleatoric, epistemic


def _given(model: Any, rows: Rows, given: bool) -> Answer:
    """A regressor that was there, and quantifiers of its losses."""
    n_outputs, trained = model.n_outputs_, model.quantifiers_
    if given:
        shape = ("rows",) if model.y_is_1d_ else ("rows", n_outputs)
        prediction = reshaped(rows.numbers.graph.input("given", np.float64, shape), -1, n_outputs)
    else:
        prediction = reshaped(_regressor(model.estimator_, rows, model.n_features_in_), -1, n_outputs)
    Z = _encoded(model.encoder_, rows)
    Z = beside(Z, prediction) if model.settings_["use_prediction"] else Z
    return prediction, _expected_loss(trained, Z), None


def _expected_loss(model: LossModel, Z: Value) -> Value:
    """What networks and trees expect (n, Q) of rows as the quantifier sees them."""

    def by_networks(trained: LossNetworks) -> Value:
        _, xi = networks.outputs(trained.network, trained.params, networks.standardised(Z, trained.scaling))
        level = networks.level(trained.coupling)(clip(xi, *_ends(trained.xi_ranges)))
        return mean(trained.lams.reshape(-1, 1, 1) * level, 0)

    if model.trees is None:
        assert model.networks is not None
        return model.unit * by_networks(model.networks)
    expected = trees.expected_losses(model.trees.members, Z)
    if model.networks is not None:
        expected = (1 - model.tree_share) * by_networks(model.networks) + model.tree_share * expected
    return model.unit * expected


def _ends(reach: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Least and largest xi, (K, 1, Q) each, that members may say."""
    low, high = reach.transpose(1, 0, 2)[:, :, None]
    return low, high


def _encoded(encoder: Any, rows: Rows) -> Value:
    """What `TableEncoder` makes of the rows: see there; of an encoder of the user's, ONNX knows nothing."""
    if not isinstance(encoder, TableEncoder):
        raise ValueError(
            f"export_onnx knows TableEncoder only, and this model has a {type(encoder).__name__} in front."
        )
    numbers = _filled(encoder, _with_calendar(encoder, rows.numbers))
    few = [
        cast(equals(chosen(columns, _places(encoder, rows, name)), np.arange(columns.max(initial=-1) + 1)), np.float64)
        for name, columns in encoder._columns_set().items()
    ]
    many = [
        chosen(np.append(means.by_category, means.otherwise), _places(encoder, rows, name))
        for name, means in encoder.category_means_.items()
    ]
    return beside(numbers, *few, *many) if few or many else numbers


def _places(encoder: TableEncoder, rows: Rows, name: str) -> Value:
    """The place (n, 1) of each cell of a column among its categories, -1 for a new one."""
    assert rows.texts is not None  # where there are categories
    known = {value: k for k, value in enumerate(encoder.categories_[name])}
    known |= {"": known[MISSING]} if MISSING in known else {}
    return places(take(rows.texts, [rows.places.index(int(name))]), known)


def _filled(encoder: TableEncoder, numbers: Value) -> Value:
    """Numbers as they are; the median where one is missing or implausible, and a column that says so."""
    low, high = encoder._plausible_set()
    numbers = where(numbers < low, np.nan, numbers) if np.isfinite(low).any() else numbers
    numbers = where(numbers > high, np.nan, numbers) if np.isfinite(high).any() else numbers
    gaps = isnan(numbers)
    filled = where(gaps, encoder.medians_, numbers)
    return beside(filled, take(cast(gaps, np.float64), encoder.missing_)) if len(encoder.missing_) else filled


def _with_calendar(encoder: TableEncoder, numbers: Value) -> Value:
    """Beside each date, in days since 1970, its place in the year, the week and the day."""
    kinds = [kind for kind in encoder.kinds_ if kind in ("number", "date")]
    if "date" not in kinds:
        return numbers
    parts = []
    for k, kind in enumerate(kinds):
        days = take(numbers, [k])
        parts.append(days)
        if kind == "date":
            turns = [days * (2 * np.pi / length) for length in CYCLES.values()]
            waves = [wave for turn in turns for wave in (sine(turn), cosine(turn))]
            parts += [rounded(wave, WAVE_DIGITS) for wave in waves]
    return beside(*parts)


def _regressor(estimator: Any, rows: Rows, n_features: int) -> Value:
    """The prediction of an estimator of aleator's or, by skl2onnx, of scikit-learn's, perhaps behind a TableEncoder."""
    kind = next((kind for kind in _ANSWERS if isinstance(estimator, kind)), None)
    if kind is not None:
        predicted, _, _ = _given(estimator, rows, False) if kind is LossQuantifier else _ANSWERS[kind](estimator, rows)
        return predicted
    X = rows.numbers
    if isinstance(estimator, Pipeline) and isinstance(estimator[0], TableEncoder):
        X, n_features, estimator = _encoded(estimator[0], rows), estimator[0].width, estimator[1:]
    elif not rows.only_numbers:
        raise ExportError("ONNX cannot hold a regressor that reads categories in a way of its own; pass given=True.")
    last = estimator[0] if isinstance(estimator, Pipeline) and len(estimator) == 1 else estimator
    if isinstance(last, TransformedTargetRegressor) and isinstance(last.transformer_, StandardScaler):
        scale, middle = float(last.transformer_.scale_[0]), float(last.transformer_.mean_[0])
        return _regressor(last.regressor_, Rows(X), n_features) * scale + middle
    by_hand = trees.predicted(last, X)
    return _converted(estimator, X, n_features) if by_hand is None else by_hand


def _converted(estimator: Any, X: Value, n_features: int) -> Value:
    """The prediction of a regressor of scikit-learn's, by skl2onnx."""
    name = type(estimator).__name__
    advice = "with given=True its predictions become the input `given`"
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import DoubleTensorType
    except ImportError:
        raise ExportError(f"{name} needs skl2onnx to become ONNX (pip install 'aleator[onnx]'); or {advice}.") from None
    try:
        made = convert_sklearn(
            estimator, initial_types=[("X", DoubleTensorType([None, n_features]))], target_opset=DOMAINS
        )
    except Exception as error:  # whatever a converter may raise
        reason = str(error).strip().split("\n")[0][:100]
        raise ExportError(f"{name} cannot become ONNX ({reason}); {advice}.") from error
    if any(node.op_type.startswith("SVM") for node in made.graph.node):
        raise ExportError(f"{name} holds a support vector machine, which ONNX runs in float32 only; {advice}.")
    return X.graph.include(made, {made.graph.input[0].name: X})


_ANSWERS: dict[type[Any], Callable[[Any, Rows], Answer]] = {
    PlainRegressor: _plain,
    DropoutRegressor: _dropout,
    SVGDRegressor: _svgd,
    PBPRegressor: _pbp,
    LossQuantifier: lambda model, rows: _given(model, rows, False),
    NetworkRegressor: _network,
}
