"""Fit a model to a table in a file, and evaluate it on test rows."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aleator import losses, metrics
from aleator.estimators import LossQuantifier, PairEnsemble, PairRegressor, TableEncoder
from aleator.preprocessing import splits
from aleator.suggestions import suggestion
from aleator.tabular.evaluation import Evaluation, best_constant, evaluate
from aleator.tabular.formatting import plain
from aleator.tabular.io import Schema, Source, infer
from aleator.tabular.model_warnings import checked, refuse_unreliable, warnings_of, without_target
from aleator.tabular.table_model import TableModel, fingerprints
from aleator.tabular.unseen_values import seen_in
from aleator.training import defaults

Floats = NDArray[np.float64]
Say = Callable[[str], None]

MODELS = {
    "ensemble": "five pairs of a regressor and a network that predicts its error, trained together",
    "pair": "one pair of a regressor and a network that predicts its error, trained together",
    "boosting": "gradient boosting, and a quantifier that learned its errors",
    "forest": "a random forest, and a quantifier that learned its errors",
}
COMPARED = ["ensemble", "boosting", "forest"]  # by model "auto"; a single pair is an ensemble of one
FEWEST_ROWS = 20
FEWEST_DISTINCT = 9  # for intervals of 90 %
LARGEST = 1e100  # largest absolute target: its square must be finite too
MOST_FOR_FOREST = 50_000  # largest number of rows for which a forest is compared; beyond, it is too slow and too large
MOST_FINGERPRINTS = 1_000_000  # number of training rows whose fingerprints are kept
SEEN_AT_MOST = 20_000  # number of training rows from which the distribution of expected losses is taken


@dataclass(frozen=True)
class Request:
    """What to fit, as the options of `aleator fit`.

    Parameters
    ----------
    source : Source
        The table, as `aleator.tabular.opened` gives it.
    target : str
        Name of the target column.
    model : {"auto", "ensemble", "pair", "boosting", "forest"}, default="auto"
        The model; "auto" compares three of them.
    loss : str, default="absolute"
        The loss.
    lam : float, default=None
        The factor of the joint loss of pairs; None is "auto".
    exclude : tuple of str, default=()
        Columns that are not used.
    category : tuple of str, default=()
        Columns of categories, whatever they hold.
    missing : tuple of str, default=()
        Further signs for missing values.
    decimal : str, default="."
        The decimal mark.
    day_first : bool, default=None
        How to read 01/02/2024; None refuses such dates if no row tells.
    group : str, default=None
        Column of groups that are held out together.
    test_fraction : float, default=0.2
        Share of the rows for the evaluation.
    test : Source, default=None
        Another table for the evaluation.
    seed : int, default=0
        Random seed.

    Examples
    --------
    See `aleator.tabular.fit`.
    """

    source: Source
    target: str
    model: str = "auto"
    loss: str = "absolute"
    lam: float | None = None
    exclude: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    decimal: str = "."
    day_first: bool | None = None
    group: str | None = None
    test_fraction: float = 0.2
    test: Source | None = None
    seed: int = 0


@dataclass(frozen=True)
class Fitted:
    """A fitted model with its evaluation.

    Attributes
    ----------
    model : TableModel
        The model.
    judged : Evaluation or None
        Its evaluation on test rows; None if there are none.
    compared : DataFrame or None
        The comparison of ``model="auto"``.
    warnings : list of str
        What makes the model, or its evaluation, less reliable than it looks.

    Examples
    --------
    See `aleator.tabular.fit`.
    """

    model: TableModel
    judged: Evaluation | None
    compared: pd.DataFrame | None
    warnings: list[str] = field(default_factory=list)


def fit(request: Request, say: Say = lambda text: None) -> Fitted:
    """Read a table, fit a model to a part of it, and evaluate it on the rest.

    Parameters
    ----------
    request : Request
        What to fit.
    say : callable
        Called with a text at each step; the default does nothing.

    Returns
    -------
    Fitted
        The model, its evaluation, and warnings.

    Raises
    ------
    TableError
        If the table cannot be read; the message names row and column.

    Examples
    --------
    >>> import tempfile
    >>> from aleator import tabular
    >>> from aleator.datasets import houses
    >>> X, y = houses(500)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     X.assign(price=y).to_csv(f"{folder}/houses.csv", index=False)
    ...     source = tabular.opened(f"{folder}/houses.csv")
    ...     request = tabular.Request(source, "price", model="boosting", exclude=("remarks",))
    ...     fitted = tabular.fit(request)
    >>> len(fitted.judged.y)
    100
    """
    began = time.perf_counter()
    losses.get(request.loss)
    say("reading")
    schema, data, n_rows = read(request)
    features = schema.of(name for name in schema.names if name not in (request.target, request.group))
    say("splitting")
    train, test = _parts(request, schema, data)
    _check_target(request, train[request.target])
    X, y = train[features.names], train[request.target].to_numpy(np.float64)
    groups = None if request.group is None else train[request.group].astype(str).to_numpy()
    if request.model == "auto":
        compared, estimator = compare(request, X, y, groups, say)
        name = str(compared.index[0])
    else:
        compared, name = None, request.model
        say(f"fitting {name}")
        estimator = _fitted(candidate(name, request), X, y, groups)
    some = np.random.default_rng(request.seed).permutation(len(X))[:SEEN_AT_MOST]
    card = {
        "data": request.source.path.name,
        "rows": len(data),
        "training_rows": len(train),
        "test_rows": len(test),
        "test": "a part of the table" if request.test is None else request.test.path.name,
        "model": name,
        "about": MODELS[name],
        "chosen_by": "comparison" if request.model == "auto" else "the user",
        "group": request.group,
        "seed": request.seed,
        "excluded": list(request.exclude),
        "quantifier": estimator.check_.quantifier,
        "check": checked(estimator, X),
        "constant": best_constant(losses.get(request.loss), y),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in ("aleator", "numpy", "scikit-learn")},
    }
    model = TableModel(
        estimator,
        features,
        request.target,
        losses=np.sort(estimator.predict_loss(X.iloc[some])),
        rows=np.unique(fingerprints(X, y))[:MOST_FINGERPRINTS],
        seen=seen_in(X),
        card=card,
        target_unit=schema.of([request.target]).columns[0].unit,
    )
    say("judging")
    judged = None if test.empty else evaluate(model, test[features.names], test[request.target].to_numpy(np.float64))
    refuse_unreliable(judged)
    card["seconds"] = round(time.perf_counter() - began, 1)
    if judged is not None:
        card["measures"] = plain(judged.measures())
    if compared is not None:
        card["compared"] = plain(compared.to_dict("index"))
    notes = without_target(n_rows - len(data), request.target)
    return Fitted(model, judged, compared, notes + warnings_of(X, y, request.target, judged, estimator))


# ---------------------------------------------------------------- the table


def read(request: Request) -> tuple[Schema, pd.DataFrame, int]:
    """Schema, rows with a target, and the number of all rows."""
    for name in (request.target, request.group):
        if name in request.exclude:
            raise ValueError(f"column {name!r} is to be excluded, and is asked for as well.")
    if request.target == request.group:
        raise ValueError(f"column {request.target!r} cannot be the target and the group at once.")
    asked = [] if request.group is None else [request.group]
    for name in (request.target, *asked):
        if name not in request.source.names:
            raise ValueError(f"{request.source.path} has no column {name!r}{suggestion(name, request.source.names)}")
    schema = infer(
        request.source,
        exclude=request.exclude,
        categories=[*request.category, *asked],
        numbers=[request.target],
        missing=request.missing,
        decimal=request.decimal,
        day_first=request.day_first,
    )
    if len(schema.columns) < 2 + len(asked):
        raise ValueError(f"{request.source.path}: no column is left to predict {request.target!r} from.")
    data = schema.read(request.source)
    kept = data[data[request.target].notna()]
    if len(kept) < FEWEST_ROWS:
        rows = "1 row" if len(kept) == 1 else f"{len(kept)} rows"
        raise ValueError(f"{request.source.path} has {rows} with a target; at least {FEWEST_ROWS} are needed.")
    sizes = kept[request.target].abs()
    if sizes.max() > LARGEST:
        where = request.source.place(kept.index[int(np.argmax(sizes))], request.target)
        raise ValueError(f"{where}: {sizes.max():g} is too large a number; take another unit.")
    for name in asked:
        if kept[name].isna().any():
            row = kept.index[int(np.argmax(kept[name].isna()))]
            raise ValueError(f"{request.source.place(row, name)}: the group is missing.")
    return schema, kept, len(data)


def _parts(request: Request, schema: Schema, data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training rows and test rows; groups stay together."""
    if request.test is not None:
        columns = schema.of(name for name in schema.names if name != request.group)
        columns.check(request.test)
        test = columns.read(request.test)
        missing = test[request.target].isna()
        if missing.all():
            raise ValueError(f"{request.test.path}: column {request.target!r} is empty in all rows.")
        return data, test[~missing]
    if request.test_fraction == 0:
        return data, data.iloc[:0]
    splitter: Any = ShuffleSplit(1, test_size=request.test_fraction, random_state=request.seed)
    groups = None
    if request.group is not None:
        groups = data[request.group].astype(str)
        if groups.nunique() < 10:
            raise ValueError(f"column {request.group!r} has {groups.nunique()} groups; to hold some out takes ten.")
        splitter = GroupShuffleSplit(1, test_size=request.test_fraction, random_state=request.seed)
    train, test = next(splitter.split(data, groups=groups))
    if len(train) < FEWEST_ROWS // 2:
        raise ValueError(f"a test fraction of {request.test_fraction:g} leaves {len(train)} rows to learn from.")
    return data.iloc[np.sort(train)], data.iloc[np.sort(test)]


def _check_target(request: Request, y: "pd.Series[float]") -> None:
    if y.nunique() == 1:
        raise ValueError(
            f"{request.source.path}: column {request.target!r} is {y.iloc[0]:g} in all rows to learn from."
        )


# ---------------------------------------------------------------- models


def candidate(name: str, request: Request) -> Any:
    """An unfitted model, by its name."""
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}{suggestion(name, [*MODELS, 'auto'])}")
    given: dict[str, Any] = {"loss": request.loss, "random_state": request.seed}
    if request.lam is not None:
        given["lam"] = request.lam
    if name == "pair":
        return PairRegressor(**given, encoder=TableEncoder())
    if name == "ensemble":
        return PairEnsemble(**given, encoder=TableEncoder())
    regressor = _boosting(request) if name == "boosting" else _forest(request)
    return LossQuantifier(make_pipeline(TableEncoder(), regressor), **given)


def _boosting(request: Request) -> Any:
    """Gradient boosting, trained with the requested loss where scikit-learn has it."""
    name, _, parameter = request.loss.partition("(")
    known = {"squared": {"loss": "squared_error"}, "absolute": {"loss": "absolute_error"}}
    if name == "pinball":
        known[name] = {"loss": "quantile", "quantile": float(parameter.rstrip(")") or 0.5)}  # type: ignore[dict-item]
    return HistGradientBoostingRegressor(**known.get(name, {}), random_state=request.seed)


def _forest(request: Request) -> Any:
    """A forest on a standardised target: scikit-learn's trees treat variances below 1e-16 as zero."""
    forest = RandomForestRegressor(100, min_samples_leaf=2, random_state=request.seed)
    return TransformedTargetRegressor(forest, transformer=StandardScaler(), check_inverse=False)


def _fitted(estimator: Any, X: pd.DataFrame, y: Floats, groups: Any) -> Any:
    estimator = estimator.fit(X, y) if groups is None else estimator.fit(X, y, groups=groups)
    n_different = len(estimator.out_of_fold_)
    if n_different < FEWEST_DISTINCT:
        raise ValueError(f"the table has only {n_different} different rows; {FEWEST_DISTINCT} are needed.")
    return estimator


def compare(request: Request, X: pd.DataFrame, y: Floats, groups: Any, say: Say) -> tuple[pd.DataFrame, Any]:
    """Models by their held-out rows, best first, and the best one: error, and area under the
    rejection curve, which is the mean of the errors after refusing any share of the rows; the best has the least.

    Each is fitted with rows held out in turn anyway. Where a quantifier wants more folds than the comparison had, the
    best is fitted again.
    """
    names = [name for name in COMPARED if name != "forest" or len(X) <= MOST_FOR_FOREST]
    models, rows = {}, {}
    for name in names:
        say(f"comparing {', '.join(names)}: fitting {name}")
        model = candidate(name, request)
        if isinstance(model, LossQuantifier):
            # as many folds as the ensemble has, so that all models learn from equally many rows
            n_different = len(X) // 2 if groups is None else len(np.unique(groups))
            model.set_params(cv=min(splits.FOLDS, n_different))
        models[name] = _fitted(model, X, y, groups)
        judged = models[name].out_of_fold_
        curve = metrics.rejection_curve(judged["loss"], 0.0 * judged["loss"], judged["expected_loss"], "mae")
        curve = np.sqrt(curve) if losses.is_squared(losses.get(request.loss)) else curve
        rows[name] = {"error": float(curve[0]), "rejection_auc": metrics.area(curve)}
    table = pd.DataFrame.from_dict(rows, orient="index").sort_values("rejection_auc", kind="stable")
    best = str(table.index[0])
    again = candidate(best, request)
    most = len(X) if groups is None else len(np.unique(groups))
    if isinstance(again, LossQuantifier) and min(defaults.n_folds(len(X)), most) > splits.FOLDS:
        say(f"fitting {best} with more folds")
        return table, _fitted(again, X, y, groups)
    return table, models[best]
