"""Losses a regressor had on rows it was not trained on: any regressor, any way of splitting.

A regressor is an object with `predict`, or a function X -> y. With `fit` it can be cloned and fitted to parts of the
rows; without it, or with cv="prefit", it is taken as it is and never changed.
"""

import inspect
import numbers
import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import r2_score
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.validation import _check_method_params, check_is_fitted, has_fit_parameter

from aleator.array_types import Booleans, Floats, Integers, Rows
from aleator.preprocessing import splits
from aleator.preprocessing.validation import regressor_predictions
from aleator.training import defaults

Fold = tuple[Rows, Rows]  # rows to learn from, rows to predict

MOST_COPIES = 10  # so many times its size a table may grow where weights are counts
TOO_GOOD = 0.999  # R^2 on "held-out" rows that makes one ask whether they are


@dataclass(frozen=True)
class OutOfFold:
    """Predictions (k, M) of `rows` (k,), each by a regressor that had not seen the row; `fold` (k,) tells which."""

    rows: Rows
    fold: Integers
    predictions: Floats

    def times(self) -> Integers:
        """How often the row of each prediction was predicted."""
        return np.bincount(self.rows)[self.rows]

    def mean_by_row(self, values: Floats, n_rows: int) -> Floats:
        """A value for each prediction, as one for each row; a row never predicted gets the mean. All have mean 1."""
        times = np.bincount(self.rows, minlength=n_rows)
        sums = np.bincount(self.rows, values, n_rows)
        mean: Floats = np.where(times > 0, sums / np.maximum(times, 1), values.mean())
        return mean / np.mean(mean)

    def of(self, chosen: Booleans) -> "OutOfFold":
        """Some of the predictions."""
        return OutOfFold(self.rows[chosen], self.fold[chosen], self.predictions[chosen])


# ---------------------------------------------------------------- any regressor


def check_regressor(regressor: Any) -> None:
    if isinstance(regressor, type):
        raise ValueError(
            f"estimator must be an object, got the class {regressor.__name__}: write {regressor.__name__}()."
        )
    # a stack has no predict before it is fitted
    if not (callable(getattr(regressor, "predict", None)) or callable(regressor) or _is_regressor(regressor)):
        raise ValueError(
            f"estimator must have a method predict, or be a function X -> y; a {type(regressor).__name__} is neither."
        )


def _is_regressor(regressor: Any) -> bool:
    return isinstance(regressor, BaseEstimator) and is_regressor(regressor)


def is_given(regressor: Any, cv: Any) -> bool:
    """Whether the regressor is taken as it is."""
    if isinstance(cv, str) and cv not in ("auto", "prefit"):
        raise ValueError(f"cv must be a number of folds, a splitter, 'auto' or 'prefit', got {cv!r}.")
    return (
        (isinstance(cv, str) and cv == "prefit")
        or not hasattr(regressor, "fit")
        or isinstance(regressor, FrozenEstimator)
    )


def check_fitted(regressor: Any) -> None:
    if not _is_fitted(regressor):
        raise NotFittedError(
            f"cv='prefit' takes the estimator as it is, and this {type(regressor).__name__} is not fitted. Fit it "
            "first, on other rows; if it was fitted and then cloned (by a grid search, say), wrap it in "
            "sklearn.frozen.FrozenEstimator; or leave cv as it is, and it is fitted."
        )


def _is_fitted(regressor: Any) -> bool:
    if not isinstance(regressor, BaseEstimator):
        return bool(regressor.is_fitted()) if callable(getattr(regressor, "is_fitted", None)) else True  # CatBoost's
    try:
        check_is_fitted(regressor)
    except NotFittedError:
        return False
    return True


def fitted(regressor: Any, X: Any, y: Any, rows: Rows, params: dict[str, Any]) -> Any:
    """A clone, fitted to `rows`, with parameters of `fit` that may have one value a row."""
    copy = _cloned(regressor)
    if len(rows) == len(y) and (rows == np.arange(len(y))).all():
        return _fit(copy, X, y, params)
    return _fit(copy, _safe_indexing(X, rows), y[rows], _check_method_params(X, params, rows))


def _cloned(regressor: Any) -> Any:
    try:
        return clone(regressor, safe=False)  # what has no parameters is copied
    except RuntimeError:  # parameters that its constructor changes, as CatBoost's cat_features
        return deepcopy(regressor)


def _fit(regressor: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
    regressor.fit(X, y, **params)
    return regressor  # whatever its fit returns


def counts(regressor: Any, weight: Floats) -> Integers | None:
    """Weights that are whole numbers, as how often each row is there; None if they are to be weights.

    Every regressor knows what a repeated row means, also one that takes no weights, or to which a weight of two is not
    quite two rows. Not one that holds out rows of its own: it would find their copies among the others.
    """
    whole = (weight == np.round(weight)).all() and weight.sum() <= MOST_COPIES * len(weight)
    return weight.astype(np.int64) if whole and not _holds_out(regressor, weight.sum()) else None


def _holds_out(regressor: Any, n_rows: float) -> bool:
    """Whether a regressor splits its rows again, as searches and early stopping do."""
    params = regressor.get_params() if hasattr(regressor, "get_params") else {}
    last = {name.split("__")[-1]: value for name, value in params.items()}
    early = last.get("early_stopping", last.get("n_iter_no_change"))
    return "cv" in last or (early == "auto" and n_rows > 10_000) or (early not in (None, False, "auto"))


def weight_parameter(regressor: Any) -> str:
    """What `fit` of the regressor calls the weights of the rows; for a pipeline that of its last step."""
    if isinstance(regressor, Pipeline) and not _routing_enabled():
        name, last = regressor.steps[-1]
        return f"{name}__{weight_parameter(last)}"
    passes_on = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(regressor.fit).parameters.values())
    if not (passes_on or has_fit_parameter(regressor, "sample_weight")):
        raise ValueError(f"fit of {type(regressor).__name__} takes no sample_weight.")
    return "sample_weight"


# ---------------------------------------------------------------- folds


def makes_own_folds(cv: Any) -> bool:
    """Whether folds are made here, from a number of them, and not by a splitter."""
    return (isinstance(cv, str) and cv == "auto") or (isinstance(cv, numbers.Integral) and not isinstance(cv, bool))


def distinct_rows(X: Any, y: Floats, weight: Floats | None) -> int:
    """The number of rows with weight; copies count once."""
    return len(np.unique(_keys(X, y, _present(y, weight))))


def _present(y: Floats, weight: Floats | None) -> Rows:
    return np.flatnonzero(np.ones(len(y), bool) if weight is None else weight > 0)


def folds(cv: Any, X: Any, y: Any, weight: Floats | None, seed: int, split_params: dict[str, Any]) -> list[Fold]:
    """The folds of a splitter, or of a number: then at random, and equal rows are in one fold."""
    if makes_own_folds(cv):
        present = _present(y, weight)
        keys, groups = _keys(X, y, present), split_params.get("groups")
        n_rows = len(np.unique(keys))
        if groups is None:
            n_folds = int(cv) if cv != "auto" else min(defaults.n_folds(n_rows), max(2, n_rows // 2))
            return _random_folds(n_folds, keys, present, seed)
        keys = splits.group_keys(keys, groups[present])
        n_groups = len(np.unique(keys))
        if n_groups < 2:
            raise ValueError("groups must hold at least two different values for rows with weight.")
        n_folds = int(cv) if cv != "auto" else min(defaults.n_folds(n_rows), n_groups)
        return _by_groups(n_folds, keys, present, seed)
    split = check_cv(cv, y).split(X, y, **split_params)
    made = [(np.asarray(train), np.asarray(test)) for train, test in split]
    if not made:
        raise ValueError("cv makes no folds.")
    for k, (train, test) in enumerate(made):
        both = np.intersect1d(train, test)
        if len(both):
            raise ValueError(
                f"row {both[0]} is in both parts of fold {k}: its loss would be that of a row learned from."
            )
    return made


def _random_folds(n_folds: int, keys: splits.Keys, present: Rows, seed: int) -> list[Fold]:
    if not 2 <= n_folds <= len(present):
        raise ValueError(f"cv={n_folds} must be at least 2 and at most the number of rows: n_samples={len(present)}.")
    n_distinct = len(np.unique(keys))
    if n_distinct == 1:
        raise ValueError(f"all {len(present)} rows of X and y are equal; cross-validation needs different ones.")
    return _by_groups(min(n_folds, n_distinct), keys, present, seed)


def _by_groups(n_folds: int, keys: splits.Keys, rows: Rows, seed: int) -> list[Fold]:
    """Rows of one key together, in folds of about as many keys each."""
    n_groups = len(np.unique(keys))
    if not 2 <= n_folds <= n_groups:
        raise ValueError(f"cv={n_folds} must be at least 2 and at most the number of groups, {n_groups}.")
    fold = splits.folds(keys, n_folds, seed)
    return [(rows[fold != k], rows[fold == k]) for k in range(n_folds)]


def _keys(X: Any, y: Floats, rows: Rows) -> splits.Keys:
    """A key for each of these `rows`, the same for copies: rows that are equal in X and y, and not by chance."""
    X_keys, targets = splits.table_keys(X, len(y))[rows], y.reshape(len(y), -1)[rows]
    keys = splits.without_ties(X_keys, *targets.T)
    y_keys = splits.array_keys(targets, np.arange(len(rows)))
    return keys if splits.are_copies(keys, X_keys, y_keys) else splits.one_by_one(keys)


def held_out_together(oof: OutOfFold, X: Any, y: Floats, groups: NDArray[Any] | None, seed: int) -> Integers:
    """Up to five parts of the predictions (k,) for the quantifiers to hold out in turn.

    Neighbouring folds are a part; a row predicted in several is in that of the first. Where there is but one fold,
    whole groups are, or rows at random. So what is never on both sides of the regressor's folds is not so here either.
    """
    first = np.full(oof.rows.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, oof.rows, oof.fold)
    names, place = np.unique(first[oof.rows], return_inverse=True)
    if len(names) > 1:
        return np.asarray(place * min(splits.FOLDS, len(names)) // len(names))
    keys = _keys(X, y, oof.rows)
    return splits.folds(keys if groups is None else splits.group_keys(keys, groups[oof.rows]), splits.FOLDS, seed)


def out_of_fold(
    fit: Callable[[Rows], Any], X: Any, split: Iterable[Fold], n_outputs: int, tick: Callable[[int], None]
) -> OutOfFold:
    """Predictions of each fold's rows by a regressor that `fit` makes from the rows it leaves."""
    rows, fold, predicted = [], [], []
    for k, (train, test) in enumerate(split):
        model = fit(train)
        rows.append(test)
        fold.append(np.full(len(test), k))
        predicted.append(regressor_predictions(model, _safe_indexing(X, test), len(test), n_outputs))
        tick(1)
    return OutOfFold(np.concatenate(rows), np.concatenate(fold), np.concatenate(predicted))


def without_two_folds(
    fit: Callable[[Rows], Any], X: Any, split: list[Fold], n_pairs: int, n_outputs: int, tick: Callable[[int], None]
) -> OutOfFold | None:
    """Predictions of the rows of some pairs of folds, by regressors that lack both.

    None without pairs, or if a regressor cannot be fitted to so few rows: then there is nothing to compare.
    """
    pairs = [
        (np.setdiff1d(split[k][0], split[k + 1][1]), np.concatenate([split[k][1], split[k + 1][1]]))
        for k in range(0, 2 * n_pairs, 2)
    ]
    try:
        return out_of_fold(fit, X, pairs, n_outputs, tick) if pairs else None
    except Exception:  # whatever a regressor may raise
        return None


# ---------------------------------------------------------------- the trap of training rows


def warn_if_training_rows(regressor: Any, X: Any, y: Any, predictions: Floats) -> None:
    """Rows a regressor was trained on make its losses, and so all that is learned from them, too small."""
    if any(part is X or part is y for part in _held_by(regressor)):
        why = f"the {type(regressor).__name__} holds this very table as its training data"
    elif len(y) > 1 and r2_score(y, predictions.reshape(np.shape(y))) > TOO_GOOD:
        why = f"its predictions are nearly perfect here, R^2 > {TOO_GOOD}"
    else:
        return
    warnings.warn(
        f"cv='prefit' wants rows the estimator was not trained on, and {why}. Losses on training rows are too small; "
        "pass held-out rows, or an unfitted estimator.",
        stacklevel=4,
    )


def _held_by(regressor: Any) -> list[Any]:
    """Tables a fitted model keeps, as nearest neighbours and Gaussian processes do; of a pipeline, its last step's."""
    last = regressor.steps[-1][1] if isinstance(regressor, Pipeline) else regressor
    return [part for part in vars(last).values() if hasattr(part, "shape")] if hasattr(last, "__dict__") else []
