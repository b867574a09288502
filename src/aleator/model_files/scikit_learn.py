"""Estimators of scikit-learn in model files: an explicit list of types, and what each must hold.

`record` takes a fitted estimator apart into parameters, values and arrays; `rebuilt` puts it together again, through its
constructor and attributes, after every value was checked. No code comes from the file, and compiled code of scikit-learn
only sees arrays whose dtypes, shapes and ranges are proven. What follows from other values is computed again instead
of being read. A type that is not in `KINDS` cannot be stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn import (
    compose,
    decomposition,
    dummy,
    ensemble,
    gaussian_process,
    impute,
    isotonic,
    kernel_ridge,
    linear_model,
    multioutput,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.base import BaseEstimator
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.gaussian_process import kernels
from sklearn.utils import Bunch

from aleator.model_files import trees
from aleator.model_files.records import Record, UnstorableError, plain, restored
from aleator.model_files.schema import Array, Sizes, Value, check_arrays, check_values, count, floats, integers

MOST_FEATURES = 10_000_000
_FEATURES = {"n_features_in_": Value(int, 0, MOST_FEATURES)}
_OPTIONAL = {"optional": True}


@dataclass(frozen=True)
class Kind:
    """A type that can be stored.

    Attributes that are listed in `arrays`, `values`, `parts` and `lists` (of parts) are stored and restored as they
    are. `pack` adds to a record what else there is, and `finish` completes a new object from its checked record.
    """

    type: type
    arrays: Mapping[str, Array] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=lambda: _FEATURES)
    parts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    pack: Callable[[Any, Record], None] | None = None
    finish: Callable[[Any, Record, Sizes], None] | None = None
    extra_arrays: Mapping[str, Array] = field(default_factory=dict)  # written by `pack`, read by `finish`
    extra_values: tuple[str, ...] = ()


# ---------------------------------------------------------------- any object, by its kind


def record(thing: Any) -> Record:
    """A fitted or new estimator as a record; an UnstorableError if it cannot be stored."""
    kind = KINDS.get(type(thing).__name__)
    if kind is None or type(thing) is not kind.type:
        raise UnstorableError(f"a {type(thing).__name__}")
    found = Record(type(thing).__name__)
    for name, value in thing.get_params(deep=False).items():
        if isinstance(value, (BaseEstimator, kernels.Kernel)):
            found.parts[f"param {name}"] = record(value)
        elif _has_estimators(value):
            found.params[name] = {"estimators": _pack_tuples(found, f"param {name}", value)}
        else:
            found.params[name] = plain(value)
    if not _is_fitted(thing, kind):
        return found
    found.values["fitted"] = True
    _pack_names(thing, found)
    for name, spec in kind.arrays.items():
        if getattr(thing, name, None) is not None or not spec.optional:
            array = np.asarray(getattr(thing, name))
            if array.flags.f_contiguous and not array.flags.c_contiguous:  # the order decides about the last bit
                found.values.setdefault("column_major", []).append(name)
            found.arrays[name] = np.asarray(array, order="C")
    for name, spec in kind.values.items():
        if hasattr(thing, name) or not spec.optional:
            value = getattr(thing, name)
            found.values[name] = value.item() if isinstance(value, np.generic) else value
    for name in kind.parts:
        if getattr(thing, name, None) is not None:
            found.parts[name] = record(getattr(thing, name))
    for name in kind.lists:
        found.parts |= {f"{name} {k}": record(part) for k, part in enumerate(getattr(thing, name))}
    if kind.pack:
        kind.pack(thing, found)
    return found


def rebuilt(found: Record) -> Any:
    """The object of a record; a ValueError if anything in it does not fit."""
    kind = KINDS.get(found.type)
    if kind is None:
        raise ValueError(f"corrupt model file: it holds a {found.type!r:.80}, which is not in the list of known types.")
    params = {name: _param(found, name, value) for name, value in found.params.items()}
    params |= {
        name.removeprefix("param "): rebuilt(part)
        for name, part in found.parts.items()
        if name.startswith("param ") and name.removeprefix("param ") not in params and " " not in name[6:]
    }
    try:
        thing = kind.type(**params)
        if hasattr(thing, "_parameter_constraints"):
            thing._validate_params()
    except Exception as error:
        raise ValueError(f"corrupt model file: parameters of {found.type}: {str(error).splitlines()[0]:.200}") from None
    if not found.values:
        return thing
    ours = ("fitted", "feature_names_in_", "column_major", *kind.extra_values)
    own = {name: value for name, value in found.values.items() if name not in ours}
    check_values(kind.values, own)
    sizes: Sizes = {"features": own["n_features_in_"]} if "n_features_in_" in own else {}
    _restore_names(thing, found)
    arrays = {name: values for name, values in found.arrays.items() if name in kind.arrays}
    if not kind.extra_arrays and len(arrays) < len(found.arrays):
        raise ValueError(f"corrupt model file: unexpected arrays in a {found.type}.")
    check_arrays(kind.arrays, arrays, sizes)
    for name, array in arrays.items():
        order = "F" if name in found.values.get("column_major", ()) else "C"
        setattr(thing, name, array[()] if array.ndim == 0 else np.asarray(array, order=order))
    for name, value in own.items():
        setattr(thing, name, value)
    for name in kind.parts:
        setattr(thing, name, rebuilt(found.parts[name]) if name in found.parts else None)
    for name in kind.lists:
        setattr(thing, name, [rebuilt(part) for part in found.numbered(name)])
    if kind.finish:
        kind.finish(thing, found, sizes)
    return thing


def _is_fitted(thing: Any, kind: Kind) -> bool:
    if isinstance(thing, kernels.Kernel) or (isinstance(thing, pipeline.Pipeline | pipeline.FeatureUnion)):
        return False  # what they learned is in their parameters
    learned = [*kind.arrays, *kind.values, *kind.parts, *kind.lists]
    return any(hasattr(thing, name) for name in learned)


def _pack_names(thing: Any, found: Record) -> None:
    names = vars(thing).get("feature_names_in_")
    if names is not None:
        if not all(isinstance(name, str) for name in names):
            raise UnstorableError("names of columns that are not strings")
        found.values["feature_names_in_"] = [str(name) for name in names]


def _restore_names(thing: Any, found: Record) -> None:
    names = found.values.get("feature_names_in_")
    if names is None:
        return
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("corrupt model file: feature_names_in_ must be a list of strings.")
    if len(names) != found.values.get("n_features_in_", len(names)) or len(set(names)) != len(names):
        raise ValueError("corrupt model file: feature_names_in_ must have one name for each column.")
    thing.feature_names_in_ = np.array(names, object)


def _has_estimators(value: Any) -> bool:
    """Whether it is a list of (name, estimator) or (name, estimator, columns), as in pipelines."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(each, tuple) and len(each) in (2, 3) and isinstance(each[0], str) for each in value)
    )


def _pack_tuples(found: Record, place: str, steps: list[Any]) -> list[Any]:
    written = []
    for k, (name, thing, *columns) in enumerate(steps):
        if isinstance(thing, BaseEstimator):
            found.parts[f"{place} {k}"] = record(thing)
            written.append([name, None, *map(_pack_columns, columns)])
        elif thing is None or thing in ("drop", "passthrough"):
            written.append([name, thing or "passthrough", *map(_pack_columns, columns)])
        else:
            raise UnstorableError(f"a {type(thing).__name__}")
    return written


def _pack_columns(columns: Any) -> Any:
    return None if callable(columns) else plain(columns)  # those that were found are stored with what was learned


def _param(found: Record, name: str, value: Any) -> Any:
    if not (isinstance(value, dict) and value.keys() == {"estimators"}):
        return restored(value)
    steps = []
    for k, step in enumerate(value["estimators"]):
        if not (isinstance(step, list) and len(step) in (2, 3) and isinstance(step[0], str)):
            raise ValueError(f"corrupt model file: {name} of a {found.type} must list names and estimators.")
        part = found.parts.get(f"param {name} {k}")
        if part is None and step[1] not in ("drop", "passthrough"):
            raise ValueError(f"corrupt model file: the estimator {step[0]!r:.80} of a {found.type} is missing.")
        steps.append((step[0], step[1] if part is None else rebuilt(part), *map(restored, step[2:])))
    return steps


def _demand(fine: Any, what: str) -> None:
    if not fine:
        raise ValueError(f"corrupt model file: {what}.")


# ---------------------------------------------------------------- linear models, and others that are products of arrays

_LINEAR: dict[str, Array] = {
    "coef_": floats(("features",), ("outputs", "features")),
    "intercept_": floats((), ("outputs",), (1,)),
    "alpha_": floats((), **_OPTIONAL),
    "scale_": floats((), **_OPTIONAL),
}


def _pack_linear(thing: Any, found: Record) -> None:
    if not isinstance(thing.coef_, np.ndarray):
        raise UnstorableError("sparse coefficients")


def _finish_generalised(thing: Any, found: Record, sizes: Sizes) -> None:
    thing._base_loss = thing._get_loss()


def _finish_svr(thing: Any, found: Record, sizes: Sizes) -> None:
    _demand(thing.kernel in ("linear", "poly", "rbf", "sigmoid"), "the kernel of an SVR must be one of scikit-learn's")
    _demand(sizes["vectors"] >= 0 and thing._n_support[0] == sizes["vectors"], "support vectors are missing")
    thing._sparse, thing._probA, thing._probB = False, np.empty(0), np.empty(0)
    thing._effective_probability = False
    thing.dual_coef_, thing.intercept_ = thing._dual_coef_, thing._intercept_
    thing.shape_fit_ = (sizes["vectors"], sizes["features"])
    thing.class_weight_ = np.empty(0)
    thing.fit_status_ = 0


_SVR: dict[str, Array] = {
    "support_": Array(("i4",), (("vectors",),), low=0),
    "support_vectors_": Array(("f8",), (("vectors", "features"),)),
    "_n_support": Array(("i4",), ((2,),), low=0),
    "_dual_coef_": Array(("f8",), ((1, "vectors"),)),
    "_intercept_": Array(("f8",), ((1,),)),
    "_gamma": Array(("f8",), ((),), low=0),
}


def _pack_svr(thing: Any, found: Record) -> None:
    if thing._sparse:
        raise UnstorableError("sparse support vectors")
    found.arrays["_gamma"] = np.asarray(float(thing._gamma))


def _pack_mlp(thing: Any, found: Record) -> None:
    for k, (weights, bias) in enumerate(zip(thing.coefs_, thing.intercepts_, strict=True)):
        found.arrays |= {f"coefs_ {k}": np.ascontiguousarray(weights), f"intercepts_ {k}": bias}


def _finish_mlp(thing: Any, found: Record, sizes: Sizes) -> None:
    n_layers = len(found.arrays) // 2
    _demand(1 <= n_layers <= 1_000 and thing.n_layers_ == n_layers + 1, "layers of an MLPRegressor are missing")
    _demand(thing.out_activation_ in ("identity", "exp"), "unknown activation of an MLPRegressor")
    widths = [sizes["features"], *(len(found.arrays.get(f"intercepts_ {k}", ())) for k in range(n_layers))]
    _demand(widths[-1] == thing.n_outputs_, "outputs of an MLPRegressor are missing")
    specs = {}
    for k in range(n_layers):
        specs |= {f"coefs_ {k}": floats((widths[k], widths[k + 1])), f"intercepts_ {k}": floats((widths[k + 1],))}
    check_arrays(specs, found.arrays, {})
    thing.coefs_ = [found.arrays[f"coefs_ {k}"] for k in range(n_layers)]
    thing.intercepts_ = [found.arrays[f"intercepts_ {k}"] for k in range(n_layers)]


def _finish_neighbors(thing: Any, found: Record, sizes: Sizes) -> None:
    """Nearest neighbours are those of the rows given to `fit`, which learns nothing else."""
    X, y = thing._fit_X, thing._y
    del thing._fit_X, thing._y
    _demand(isinstance(thing.metric, str) and thing.metric != "precomputed", "unknown metric of nearest neighbours")
    names = thing.__dict__.pop("feature_names_in_", None)
    thing.fit(X if names is None else pd.DataFrame(X, columns=names), y)


def _pack_neighbors(thing: Any, found: Record) -> None:
    if not isinstance(thing._fit_X, np.ndarray) or thing.effective_metric_ == "precomputed":
        raise UnstorableError("sparse rows")
    if not isinstance(thing.metric, str):
        raise UnstorableError("a metric of the user's")


def _finish_kernel_ridge(thing: Any, found: Record, sizes: Sizes) -> None:
    _demand(isinstance(thing.kernel, str) and thing.kernel != "precomputed", "unknown kernel of a KernelRidge")


def _finish_process(thing: Any, found: Record, sizes: Sizes) -> None:
    """X_train_ and alpha_ predict; L_ gives standard deviations."""
    _demand(isinstance(thing.kernel_, kernels.Kernel), "the kernel of a Gaussian process is none")
    thing._y_train_mean, thing._y_train_std = (
        np.asarray(each) for each in (thing._y_train_mean, thing._y_train_std)
    )


def _pack_process(thing: Any, found: Record) -> None:
    if not isinstance(thing.X_train_, np.ndarray) or thing.X_train_.dtype.kind != "f":
        raise UnstorableError("rows that are not numbers")
    found.parts["kernel_"] = record(thing.kernel_)


def _finish_isotonic(thing: Any, found: Record, sizes: Sizes) -> None:
    _demand((np.diff(thing.X_thresholds_) >= 0).all() and len(thing.X_thresholds_), "thresholds are not sorted")
    thing._build_f(thing.X_thresholds_, thing.y_thresholds_)


# ---------------------------------------------------------------- trees


def _tree_params(thing: Any) -> dict[str, Any]:
    """Parameters of a tree; its random numbers are used up."""
    params = thing.get_params(deep=False)
    if params.get("random_state") is not None and not isinstance(params["random_state"], (int, np.integer)):
        params["random_state"] = None
    return {name: plain(value) for name, value in params.items()}


def _pack_trees(found: Record, members: list[Any]) -> None:
    """Trees with the same parameters, but for their random seeds."""
    kinds = {type(member) for member in members}
    if not kinds <= {tree.DecisionTreeRegressor, tree.ExtraTreeRegressor} or len(kinds) > 1:
        raise UnstorableError("trees of another kind")
    shared, *others = ({**_tree_params(member), "random_state": None} for member in members)
    if any(other != shared for other in others):
        raise UnstorableError("trees with different parameters")
    seeds = [_tree_params(member)["random_state"] for member in members]
    found.values["tree"] = {"type": kinds.pop().__name__, "params": shared}
    found.values["tree_max_features"] = [int(member.max_features_) for member in members]
    if all(seed is not None for seed in seeds):
        found.arrays["tree_seeds"] = np.array(seeds, np.int64)
    try:
        found.arrays |= trees.tree_columns([member.tree_ for member in members])
    except ValueError as error:
        raise UnstorableError(str(error)) from None


def _trees(found: Record, n_features: int, n_outputs: int) -> list[Any]:
    described, widths = found.values.get("tree"), found.values.get("tree_max_features")
    _demand(isinstance(described, dict) and described.keys() == {"type", "params"}, "trees are not described")
    assert isinstance(described, dict)
    kind = {"DecisionTreeRegressor": tree.DecisionTreeRegressor, "ExtraTreeRegressor": tree.ExtraTreeRegressor}.get(
        str(described["type"])
    )
    _demand(kind is not None and isinstance(described["params"], dict), "trees are of an unknown type")
    arrays = {name: values for name, values in found.arrays.items() if name in trees.TREE_ARRAYS}
    walked = trees.trees_of(arrays, n_features, n_outputs)
    seeds = found.arrays.get("tree_seeds")
    if seeds is not None:
        integers((len(walked),), low=0, high=2**32 - 1).check("tree_seeds", seeds, {})
    _demand(isinstance(widths, list) and len(widths) == len(walked), "trees are incomplete")
    params = {name: restored(value) for name, value in described["params"].items()}
    try:
        kind(**params)._validate_params()  # type: ignore[misc]
    except Exception as error:
        raise ValueError(f"corrupt model file: parameters of trees: {str(error).splitlines()[0]:.200}") from None
    members = []
    for k, own in enumerate(walked):
        member = kind(**params)  # type: ignore[misc]
        if seeds is not None:
            member.random_state = int(seeds[k])
        member.n_features_in_, member.n_outputs_, member.tree_ = n_features, n_outputs, own
        _demand(type(widths[k]) is int and 0 < widths[k] <= n_features, "max_features_ of a tree is out of range")
        member.max_features_ = widths[k]
        members.append(member)
    return members


_TREES = {**trees.TREE_ARRAYS, "tree_seeds": floats()}
_OUTPUTS = {**_FEATURES, "n_outputs_": count()}


def _pack_tree(thing: Any, found: Record) -> None:
    _pack_trees(found, [thing])
    found.arrays.pop("tree_seeds", None)
    if found.params["random_state"] is None:
        del found.values["tree"]["params"]["random_state"]


def _finish_tree(thing: Any, found: Record, sizes: Sizes) -> None:
    members = _trees(found, thing.n_features_in_, thing.n_outputs_)
    _demand(len(members) == 1, "there must be one tree")
    thing.tree_, thing.max_features_ = members[0].tree_, members[0].max_features_


def _pack_forest(thing: Any, found: Record) -> None:
    _pack_trees(found, thing.estimators_)


def _finish_forest(thing: Any, found: Record, sizes: Sizes) -> None:
    thing.estimators_ = _trees(found, thing.n_features_in_, thing.n_outputs_)
    _demand(len(thing.estimators_) > 0, "a forest has no trees")
    thing.estimator_ = type(thing.estimators_[0])()


def _pack_boosting(thing: Any, found: Record) -> None:
    if thing.n_trees_per_iteration_ != 1 or not (
        isinstance(thing.init_, dummy.DummyRegressor) or (isinstance(thing.init_, str) and thing.init_ == "zero")
    ):
        raise UnstorableError("a GradientBoostingRegressor that begins with another estimator")
    _pack_trees(found, list(thing.estimators_[:, 0]))
    if isinstance(thing.init_, dummy.DummyRegressor):
        found.parts["init_"] = record(thing.init_)


def _finish_boosting(thing: Any, found: Record, sizes: Sizes) -> None:
    members = _trees(found, thing.n_features_in_, 1)
    _demand(len(members) == thing.n_estimators_, "trees are missing")
    thing.estimators_ = np.empty((len(members), 1), object)
    thing.estimators_[:, 0] = members
    thing.n_trees_per_iteration_, thing._loss, thing.init_ = 1, thing._get_loss(sample_weight=None), "zero"
    if "init_" in found.parts:
        thing.init_ = rebuilt(found.parts["init_"])
        begins = isinstance(thing.init_, dummy.DummyRegressor) and np.shape(thing.init_.constant_) == (1, 1)
        _demand(begins and thing.init_.n_outputs_ == 1, "a gradient boosting must begin with one number")


def _pack_histogram(thing: Any, found: Record) -> None:
    if thing.n_trees_per_iteration_ != 1 or not isinstance(thing._baseline_prediction, np.ndarray):
        raise UnstorableError("several trees an iteration")
    found.arrays |= trees.predictor_columns([each[0] for each in thing._predictors])
    thresholds = thing._bin_mapper.bin_thresholds_
    found.arrays["bin_sizes"] = np.array([len(each) for each in thresholds], np.int64)
    found.arrays["bin_thresholds"] = np.concatenate([np.empty(0), *thresholds])
    found.arrays["bins"] = np.asarray(thing._bin_mapper.n_bins_non_missing_, np.uint32)
    if thing.is_categorical_ is not None:
        encoder = thing._preprocessor.named_transformers_["encoder"]
        found.values["is_categorical"] = [bool(each) for each in thing.is_categorical_]
        found.values["categories"] = [plain(each) for each in encoder.categories_]


_BINS = {
    "bin_sizes": integers(("features",), low=0, high=255),
    "bin_thresholds": floats(("thresholds",), infinite=True),
    "bins": Array(("u4",), (("features",),), high=256),
}


def _finish_histogram(thing: Any, found: Record, sizes: Sizes) -> None:
    n_features = thing.n_features_in_
    categorical = _preprocessor(thing, found, n_features)
    bins = {name: found.arrays[name] for name in _BINS if name in found.arrays}
    check_arrays(_BINS, bins, {"features": n_features})
    ends = np.cumsum(bins["bin_sizes"])
    _demand(ends[-1] == len(bins["bin_thresholds"]), "bins are incomplete")
    mapper = _BinMapper(n_bins=thing.max_bins + 1, is_categorical=categorical)
    mapper.bin_thresholds_ = [each.astype(np.float64) for each in np.split(bins["bin_thresholds"], ends[:-1])]
    for k in np.flatnonzero(categorical):
        known = mapper.bin_thresholds_[k]
        _demand(((known >= 0) & (known <= 255) & (known == np.floor(known))).all(), "categories are out of range")
    mapper.is_categorical_ = np.asarray(categorical, np.uint8)
    mapper.n_bins_non_missing_, mapper.missing_values_bin_idx_ = bins["bins"], thing.max_bins
    thing._bin_mapper, thing._n_features = mapper, n_features
    arrays = {name: values for name, values in found.arrays.items() if name in trees.PREDICTOR_ARRAYS}
    thing._predictors = [[each] for each in trees.predictors_of(arrays, categorical)]
    thing.n_trees_per_iteration_, thing._loss = 1, thing._get_loss(sample_weight=None)
    thing._scorer = None


def _preprocessor(thing: Any, found: Record, n_features: int) -> Any:
    """Restore how categories become numbers, from a table that has each of them; which columns have some afterwards."""
    thing.is_categorical_ = thing._preprocessor = thing._is_categorical_remapped = None
    if "is_categorical" not in found.values:
        return np.zeros(n_features, bool)
    flags, written = found.values["is_categorical"], found.values.get("categories")
    _demand(isinstance(flags, list) and len(flags) == n_features and all(type(f) is bool for f in flags), "bad flags")
    _demand(isinstance(written, list) and len(written) == sum(flags) > 0, "categories are missing")
    categories = _categories(written)
    n_rows = max(1, *(len(each) for each in categories))
    _demand(n_rows <= 256, "a column has too many categories")
    columns, known = {}, iter(categories)
    names = getattr(thing, "feature_names_in_", range(n_features))
    for name, flag in zip(names, flags, strict=True):
        values = next(known) if flag else np.zeros(1)
        column = pd.Series([*values, *[values[0]] * (n_rows - len(values))])
        columns[name] = column.astype(pd.CategoricalDtype()) if flag and values.dtype.kind == "O" else column
        if flag and thing.categorical_features == "from_dtype":
            columns[name] = column.astype(pd.CategoricalDtype())
    frame = pd.DataFrame(columns)
    try:
        thing._preprocess_X(frame if hasattr(thing, "feature_names_in_") else frame.to_numpy(), reset=True)
    except Exception as error:
        raise ValueError(f"corrupt model file: categories: {str(error).splitlines()[0]:.200}") from None
    found_again = thing._preprocessor.named_transformers_["encoder"].categories_
    same = all(len(a) == len(b) for a, b in zip(found_again, categories, strict=True))
    _demand(same and [bool(each) for each in thing.is_categorical_] == flags, "categories do not fit")
    return np.asarray(thing._is_categorical_remapped, bool)


# ---------------------------------------------------------------- estimators made of estimators


def _finish_bagging(thing: Any, found: Record, sizes: Sizes) -> None:
    members, n_features = thing.estimators_, thing.n_features_in_
    _demand(len(members) > 0, "a BaggingRegressor has no members")
    columns = [found.arrays.get(f"columns {k}") for k in range(len(members))]
    for k, own in enumerate(columns):
        integers(("columns",), low=0, high=n_features - 1).check(f"columns {k}", own, {})
        _demand(_width(members[k]) in (None, len(own)), "a member of a BaggingRegressor has other columns")
    thing.estimators_features_ = columns
    thing._n_samples, thing._max_samples = 1, 1
    thing._max_features = len(columns[0])


def _pack_bagging(thing: Any, found: Record) -> None:
    for k, columns in enumerate(thing.estimators_features_):
        found.arrays[f"columns {k}"] = np.asarray(columns, np.int64)


def _finish_named(thing: Any, found: Record, sizes: Sizes) -> None:
    """Members of a vote or a stack, which are also known by their names."""
    names = [name for name, part in thing.estimators if part != "drop"]
    _demand(len(names) == len(thing.estimators_) > 0, "members are missing")
    thing.named_estimators_ = Bunch(**dict(zip(names, thing.estimators_, strict=True)))


def _finish_stack(thing: Any, found: Record, sizes: Sizes) -> None:
    _finish_named(thing, found, sizes)
    thing.stack_method_ = ["predict"] * len(thing.estimators_)
    thing._n_feature_outs = [1] * len(thing.estimators_)


def _finish_regressor(thing: Any, found: Record, sizes: Sizes) -> None:
    _demand(thing.regressor_ is not None and thing.transformer_ is not None, "a regressor is missing")
    _demand(thing._training_dim in (1, 2), "y has one or two dimensions")


def _width(thing: Any) -> int | None:
    width = getattr(thing, "n_features_in_", None)
    return width if isinstance(width, int) else None


def _pack_columns_of(thing: Any, found: Record) -> None:
    """What each transformer of a ColumnTransformer learned, and from which columns."""
    fitted = []
    for k, (name, part, columns) in enumerate(thing.transformers_):
        if isinstance(part, BaseEstimator) and not _is_passthrough(part):
            found.parts[f"fitted {k}"] = record(part)
            fitted.append([name, None, plain(columns)])
        else:
            fitted.append([name, part if isinstance(part, str) else "passthrough", plain(columns)])
    found.values["transformers_"] = fitted
    found.values["output_indices_"] = {name: plain(each) for name, each in thing.output_indices_.items()}
    found.values["sparse_output_"] = bool(thing.sparse_output_)
    steps = found.params["transformers"]["estimators"]
    for step, columns in zip(steps, thing._columns, strict=True):
        step[2] = plain(columns)


def _is_passthrough(part: Any) -> bool:
    return isinstance(part, preprocessing.FunctionTransformer) and part.func is None


def _finish_columns_of(thing: Any, found: Record, sizes: Sizes) -> None:
    """All that scikit-learn notes about columns, from a table of one row; then each transformer takes its place."""
    described = found.values.get("transformers_")
    _demand(isinstance(described, list) and isinstance(found.values.get("output_indices_"), dict), "columns are missing")
    assert isinstance(described, list)
    n_features = sizes["features"]
    names = getattr(thing, "feature_names_in_", None)
    steps, fitted = [], []
    for k, step in enumerate(described):
        _demand(isinstance(step, list) and len(step) == 3 and isinstance(step[0], str), "columns are not described")
        part = rebuilt(found.parts[f"fitted {k}"]) if f"fitted {k}" in found.parts else step[1]
        _demand(not isinstance(part, str) or part in ("drop", "passthrough"), "a transformer is missing")
        steps.append((step[0], "drop" if isinstance(part, str) and part == "drop" else "passthrough", restored(step[2])))
        fitted.append(part)
    rest = [step for step in steps if step[0] == "remainder"]
    known = [step for step in steps if step[0] != "remainder"]
    skeleton = compose.ColumnTransformer(known, remainder=rest[0][1] if rest else "drop", sparse_threshold=0)
    row = np.zeros((1, n_features))
    try:
        skeleton.fit(row if names is None else pd.DataFrame(row, columns=names))
    except Exception as error:
        raise ValueError(f"corrupt model file: columns: {str(error).splitlines()[0]:.200}") from None
    for name in ("_columns", "_transformer_to_input_indices", "_n_features", "_name_to_fitted_passthrough"):
        if name in vars(skeleton):
            setattr(thing, name, getattr(skeleton, name))
    thing._remainder = ("remainder", thing.remainder, skeleton._remainder[2])
    own = {name: (part, columns) for name, part, columns in skeleton.transformers_}
    _demand(len(own) == len(steps) and own.keys() == {name for name, *_ in steps}, "columns do not fit")
    thing.transformers_ = [
        (name, own[name][0] if isinstance(part, str) else part, own[name][1])
        for (name, *_), part in zip(steps, fitted, strict=True)
    ]
    thing.output_indices_ = {str(name): restored(each) for name, each in found.values["output_indices_"].items()}
    thing.sparse_output_ = bool(found.values["sparse_output_"])


# ---------------------------------------------------------------- scalers and encoders


def _categories(written: Any) -> list[Any]:
    """The categories of each column: different from each other, and sorted if they are numbers."""
    _demand(isinstance(written, list), "categories must be lists")
    found = []
    for each in written:
        values = restored(each)
        _demand(isinstance(values, np.ndarray) and values.ndim == 1 and len(values), "categories must be arrays")
        if values.dtype.kind == "O":
            fine = all(value is None or isinstance(value, (str, bool, int, float)) for value in values)
            _demand(fine and len({str(value) for value in values}) == len(values), "categories must differ")
        else:
            known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
            _demand(len(known) >= len(values) - 1 and (known == values[: len(known)]).all(), "categories must differ")
            _demand((known[1:] > known[:-1]).all(), "categories must be sorted")
        found.append(values)
    return found


def _pack_categories(thing: Any, found: Record) -> None:
    found.values["categories_"] = [plain(each) for each in thing.categories_]
    if thing._infrequent_enabled:
        rare = [None if each is None else [int(k) for k in each] for each in thing._infrequent_indices]
        found.values["infrequent"] = rare


def _restore_categories(thing: Any, found: Record, sizes: Sizes) -> None:
    thing.categories_ = _categories(found.values.get("categories_"))
    _demand(len(thing.categories_) == sizes["features"], "categories of a column are missing")
    thing._check_infrequent_enabled()
    if not thing._infrequent_enabled:
        return
    rare = found.values.get("infrequent")
    _demand(isinstance(rare, list) and len(rare) == len(thing.categories_), "infrequent categories are missing")
    assert isinstance(rare, list)
    thing._infrequent_indices, thing._default_to_infrequent_mappings = [], []
    for own, categories in zip(rare, thing.categories_, strict=True):
        if own is None:
            thing._infrequent_indices.append(None)
            thing._default_to_infrequent_mappings.append(None)
            continue
        indices = np.asarray(own)
        integers(("rare",), low=0, high=len(categories) - 1).check("infrequent", indices, {})
        _demand(len(indices) and (np.diff(indices) > 0).all(), "infrequent categories must be sorted")
        frequent = np.setdiff1d(np.arange(len(categories)), indices)
        mapping = np.full(len(categories), len(frequent), np.int64)
        mapping[frequent] = np.arange(len(frequent))
        thing._infrequent_indices.append(indices)
        thing._default_to_infrequent_mappings.append(mapping)


def _finish_one_hot(thing: Any, found: Record, sizes: Sizes) -> None:
    _restore_categories(thing, found, sizes)
    try:
        thing._set_drop_idx()
    except Exception as error:
        raise ValueError(f"corrupt model file: {str(error).splitlines()[0]:.200}") from None
    thing._n_features_outs = thing._compute_n_features_outs()


def _finish_ordinal(thing: Any, found: Record, sizes: Sizes) -> None:
    _restore_categories(thing, found, sizes)
    missing = {}
    for k, categories in enumerate(thing.categories_):
        for place, category in enumerate(categories):
            if category is None or (isinstance(category, (float, np.floating)) and np.isnan(category)):
                missing[k] = place
    thing._missing_indices = missing


def _pack_target_encoder(thing: Any, found: Record) -> None:
    if thing.target_type_ != "continuous":
        raise UnstorableError("a TargetEncoder of classes")
    _pack_categories(thing, found)
    for k, encoding in enumerate(thing.encodings_):
        found.arrays[f"encoding {k}"] = np.asarray(encoding, np.float64)


def _finish_target_encoder(thing: Any, found: Record, sizes: Sizes) -> None:
    _restore_categories(thing, found, sizes)
    thing.encodings_ = [found.arrays.get(f"encoding {k}") for k in range(len(thing.categories_))]
    for k, (encoding, categories) in enumerate(zip(thing.encodings_, thing.categories_, strict=True)):
        floats((len(categories),)).check(f"encoding {k}", encoding, {})
    thing.target_type_, thing.classes_ = "continuous", None


def _finish_from_width(thing: Any, found: Record, sizes: Sizes) -> None:
    """A transformer that learns the number of columns only."""
    names = thing.__dict__.pop("feature_names_in_", None)
    row = np.zeros((1, sizes["features"]))
    thing.fit(row if names is None else pd.DataFrame(row, columns=names))


def _pack_imputer(thing: Any, found: Record) -> None:
    found.values["statistics_"] = plain(np.asarray(thing.statistics_))
    found.values["dtypes"] = [str(thing._fit_dtype), str(getattr(thing, "_fill_dtype", thing._fit_dtype))]
    if thing.add_indicator:
        found.values["gaps"] = [int(k) for k in thing.indicator_.features_]


def _finish_imputer(thing: Any, found: Record, sizes: Sizes) -> None:
    statistics, dtypes = restored(found.values.get("statistics_")), found.values.get("dtypes")
    _demand(isinstance(statistics, np.ndarray) and statistics.shape == (sizes["features"],), "statistics are missing")
    known = {"float64", "float32", "object", "int64", "int32", "bool"}
    _demand(isinstance(dtypes, list) and len(dtypes) == 2 and set(map(str, dtypes)) <= known, "dtypes are unknown")
    assert isinstance(dtypes, list)
    thing.statistics_, thing.indicator_ = statistics, None
    thing._fit_dtype, thing._fill_dtype = (np.dtype(str(name)) for name in dtypes)
    if thing.add_indicator:
        gaps = np.asarray(found.values.get("gaps"))
        gaps = gaps.astype(np.int64) if gaps.size == 0 else gaps
        integers(("gaps",), low=0, high=sizes["features"] - 1).check("gaps", gaps, {})
        thing.indicator_ = impute.MissingIndicator(missing_values=thing.missing_values, error_on_new=False)
        thing.indicator_.features_, thing.indicator_._n_features = gaps, sizes["features"]
        thing.indicator_.n_features_in_, thing.indicator_._precomputed = sizes["features"], True


def _pack_bins(thing: Any, found: Record) -> None:
    for k, edges in enumerate(thing.bin_edges_):
        found.arrays[f"edges {k}"] = np.asarray(edges, np.float64)
    if hasattr(thing, "_encoder"):
        found.parts["_encoder"] = record(thing._encoder)


def _finish_bins(thing: Any, found: Record, sizes: Sizes) -> None:
    n_features = sizes["features"]
    edges = np.empty(n_features, object)
    for k in range(n_features):
        own = found.arrays.get(f"edges {k}")
        floats((int(thing.n_bins_[k]) + 1,), infinite=True).check(f"edges {k}", own, {})
        _demand((np.diff(own) >= 0).all(), "edges of bins must be sorted")
        edges[k] = own
    thing.bin_edges_ = edges
    if "_encoder" in found.parts:
        thing._encoder = rebuilt(found.parts["_encoder"])
        fits = [len(each) for each in thing._encoder.categories_] == [int(n) for n in thing.n_bins_]
        _demand(isinstance(thing._encoder, preprocessing.OneHotEncoder) and fits, "bins and their encoder differ")


def _finish_quantiles(thing: Any, found: Record, sizes: Sizes) -> None:
    thing.n_quantiles_ = sizes["quantiles"]


def _finish_function(thing: Any, found: Record, sizes: Sizes) -> None:
    pass


# ---------------------------------------------------------------- the list

_COLUMN = floats(("features",))
_COLUMN_OR_NONE = floats(("features",), optional=True)
_SEEN = {**_FEATURES, "n_samples_seen_": Value(float, 0, 1e300, optional=True)}


def _linear(*types: type, **more: Any) -> list[Kind]:
    return [Kind(each, _LINEAR, pack=_pack_linear, **more) for each in types]


_KERNELS = [
    Kind(each, values={})
    for each in (
        kernels.ConstantKernel, kernels.DotProduct, kernels.Exponentiation, kernels.ExpSineSquared, kernels.Matern,
        kernels.Product, kernels.RBF, kernels.RationalQuadratic, kernels.Sum, kernels.WhiteKernel,
    )
]  # fmt: skip

_MEMBERS = {"lists": ("estimators_",)}

_LIST = [
    *_linear(
        linear_model.LinearRegression, linear_model.Ridge, linear_model.RidgeCV, linear_model.Lasso,
        linear_model.LassoCV, linear_model.LassoLars, linear_model.LassoLarsCV, linear_model.LassoLarsIC,
        linear_model.Lars, linear_model.LarsCV, linear_model.ElasticNet, linear_model.ElasticNetCV,
        linear_model.MultiTaskLasso, linear_model.MultiTaskLassoCV, linear_model.MultiTaskElasticNet,
        linear_model.MultiTaskElasticNetCV, linear_model.OrthogonalMatchingPursuit,
        linear_model.OrthogonalMatchingPursuitCV, linear_model.HuberRegressor, linear_model.TheilSenRegressor,
        linear_model.QuantileRegressor, linear_model.SGDRegressor, svm.LinearSVR,
    ),
    *_linear(
        linear_model.PoissonRegressor, linear_model.GammaRegressor, linear_model.TweedieRegressor,
        finish=_finish_generalised,
    ),
    Kind(
        linear_model.BayesianRidge,
        {**_LINEAR, "lambda_": floats((), ("features",)), "sigma_": floats(("used", "used"), ("features", "features")),
         "X_offset_": floats(("features",), optional=True), "X_scale_": floats(("features",), optional=True)},
        pack=_pack_linear,
    ),
    Kind(
        linear_model.ARDRegression,
        {**_LINEAR, "lambda_": floats(("features",), low=0, infinite=True), "sigma_": floats(("used", "used")),
         "X_offset_": floats(("features",), optional=True), "X_scale_": floats(("features",), optional=True)},
        pack=_pack_linear,
    ),
    Kind(linear_model.RANSACRegressor, parts=("estimator_",)),
    *(Kind(each, _SVR, pack=_pack_svr, finish=_finish_svr) for each in (svm.SVR, svm.NuSVR)),
    Kind(
        neural_network.MLPRegressor,
        values={**_OUTPUTS, "n_layers_": count(2), "out_activation_": Value(str)},
        pack=_pack_mlp, finish=_finish_mlp, extra_arrays={"coefs_ 0": floats()},
    ),
    *(
        Kind(
            each,
            {"_fit_X": floats(("rows", "features")),
             "_y": Array(("f8", "f4", "i8", "i4"), (("rows",), ("rows", "outputs")))},
            pack=_pack_neighbors, finish=_finish_neighbors,
        )
        for each in (neighbors.KNeighborsRegressor, neighbors.RadiusNeighborsRegressor)
    ),
    Kind(
        kernel_ridge.KernelRidge,
        {"X_fit_": floats(("rows", "features")), "dual_coef_": floats(("rows",), ("rows", "outputs"))},
        finish=_finish_kernel_ridge,
    ),
    Kind(
        gaussian_process.GaussianProcessRegressor,
        {"X_train_": floats(("rows", "features")), "y_train_": floats(("rows",), ("rows", "outputs")),
         "alpha_": floats(("rows",), ("rows", "outputs")), "L_": floats(("rows", "rows")),
         "_y_train_mean": floats((), (1,), ("outputs",)), "_y_train_std": floats((), (1,), ("outputs",))},
        parts=("kernel_",), pack=_pack_process, finish=_finish_process,
    ),
    *_KERNELS,
    Kind(
        isotonic.IsotonicRegression,
        {"X_thresholds_": floats(("knots",)), "y_thresholds_": floats(("knots",)), "X_min_": floats(()),
         "X_max_": floats(())},
        values={"increasing_": Value(bool)}, finish=_finish_isotonic,
    ),
    Kind(dummy.DummyRegressor, {"constant_": floats((1, "outputs"))}, values={"n_outputs_": count()}),
    *(
        Kind(each, values=_OUTPUTS, pack=_pack_tree, finish=_finish_tree, extra_arrays=_TREES,
             extra_values=("tree", "tree_max_features"))
        for each in (tree.DecisionTreeRegressor, tree.ExtraTreeRegressor)
    ),
    *(
        Kind(each, values=_OUTPUTS, pack=_pack_forest, finish=_finish_forest, extra_arrays=_TREES,
             extra_values=("tree", "tree_max_features"))
        for each in (ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor)
    ),
    Kind(
        ensemble.GradientBoostingRegressor, values={**_FEATURES, "n_estimators_": count(), "max_features_": count()},
        pack=_pack_boosting, finish=_finish_boosting, extra_arrays=_TREES, extra_values=("tree", "tree_max_features"),
    ),
    Kind(
        ensemble.HistGradientBoostingRegressor,
        {"_baseline_prediction": floats((1, 1)), "train_score_": floats(("scores",), nan=True),
         "validation_score_": floats(("validations",), nan=True)},
        values={**_FEATURES, "do_early_stopping_": Value(bool)},
        pack=_pack_histogram, finish=_finish_histogram, extra_arrays={**trees.PREDICTOR_ARRAYS, **_BINS},
        extra_values=("is_categorical", "categories"),
    ),
    Kind(
        ensemble.AdaBoostRegressor,
        {"estimator_weights_": floats(("members",), low=0), "estimator_errors_": floats(("members",))},
        **_MEMBERS, finish=lambda thing, found, sizes: _finish_adaboost(thing, sizes),
    ),
    Kind(ensemble.BaggingRegressor, pack=_pack_bagging, finish=_finish_bagging,
         extra_arrays={"columns 0": floats()}, **_MEMBERS),
    Kind(ensemble.VotingRegressor, values={}, finish=_finish_named, **_MEMBERS),
    Kind(ensemble.StackingRegressor, values={}, parts=("final_estimator_",), finish=_finish_stack, **_MEMBERS),
    Kind(multioutput.MultiOutputRegressor, values={**_FEATURES, "n_features_in_": count(0, optional=True)}, **_MEMBERS),
    Kind(compose.TransformedTargetRegressor, values={"_training_dim": count()}, parts=("regressor_", "transformer_"),
         finish=_finish_regressor),
    Kind(compose.ColumnTransformer, pack=_pack_columns_of, finish=_finish_columns_of,
         extra_values=("transformers_", "output_indices_", "sparse_output_")),
    Kind(pipeline.Pipeline, values={}),
    Kind(pipeline.FeatureUnion, values={}),
    Kind(preprocessing.StandardScaler,
         {"mean_": _COLUMN_OR_NONE, "var_": _COLUMN_OR_NONE, "scale_": floats(("features",), low=0, optional=True)},
         finish=lambda thing, found, sizes: _absent(thing, "mean_", "var_", "scale_")),
    Kind(preprocessing.MinMaxScaler,
         {name: _COLUMN for name in ("scale_", "min_", "data_min_", "data_max_", "data_range_")}),
    Kind(preprocessing.MaxAbsScaler, {"max_abs_": _COLUMN, "scale_": _COLUMN}),
    Kind(preprocessing.RobustScaler, {"center_": _COLUMN_OR_NONE, "scale_": _COLUMN_OR_NONE},
         finish=lambda thing, found, sizes: _absent(thing, "center_", "scale_")),
    *(Kind(each, finish=_finish_from_width)
      for each in (preprocessing.PolynomialFeatures, preprocessing.Normalizer, preprocessing.Binarizer)),
    Kind(preprocessing.FunctionTransformer, values={"n_features_in_": Value(int, 0, MOST_FEATURES, optional=True)}),
    Kind(preprocessing.PowerTransformer, {"lambdas_": _COLUMN}, parts=("_scaler",)),
    Kind(preprocessing.QuantileTransformer,
         {"references_": floats(("quantiles",)), "quantiles_": floats(("quantiles", "features"), nan=True)},
         finish=_finish_quantiles),
    Kind(preprocessing.KBinsDiscretizer, {"n_bins_": integers(("features",), low=1, high=10**6)},
         pack=_pack_bins, finish=_finish_bins, extra_arrays={"edges 0": floats()}),
    Kind(preprocessing.OneHotEncoder, pack=_pack_categories, finish=_finish_one_hot,
         extra_values=("categories_", "infrequent")),
    Kind(preprocessing.OrdinalEncoder, pack=_pack_categories, finish=_finish_ordinal,
         extra_values=("categories_", "infrequent")),
    Kind(preprocessing.TargetEncoder, {"target_mean_": floats(())}, pack=_pack_target_encoder,
         finish=_finish_target_encoder, extra_arrays={"encoding 0": floats()}, extra_values=("categories_", "infrequent")),
    Kind(impute.SimpleImputer, pack=_pack_imputer, finish=_finish_imputer,
         extra_values=("statistics_", "dtypes", "gaps")),
    Kind(decomposition.PCA,
         {"components_": floats(("components", "features")), "mean_": _COLUMN,
          "explained_variance_": floats(("components",), low=0),
          "explained_variance_ratio_": floats(("components",), nan=True),
          "singular_values_": floats(("components",), low=0), "noise_variance_": floats(())},
         values={**_FEATURES, "n_components_": count(0), "n_samples_": count()}),
    Kind(decomposition.TruncatedSVD, {"components_": floats(("components", "features"))}),
]  # fmt: skip


def _finish_adaboost(thing: Any, sizes: Sizes) -> None:
    _demand(len(thing.estimators_) == sizes["members"] > 0, "members of an AdaBoostRegressor are missing")
    widths = {_width(each) for each in thing.estimators_} - {None}
    _demand(widths <= {sizes["features"]}, "a member of an AdaBoostRegressor has other columns")


def _absent(thing: Any, *names: str) -> None:
    """Attributes that are None if a scaler does not centre or scale."""
    for name in names:
        if not hasattr(thing, name):
            setattr(thing, name, None)


KINDS: dict[str, Kind] = {kind.type.__name__: kind for kind in _LIST}
