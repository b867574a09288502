"""Decision trees, forests and gradient boosting. Their trees are stored as columns of numbers (`tree_checks.py`)."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn import dummy, ensemble, tree
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

from aleator.model_files import tree_checks
from aleator.model_files.object_records import Record, UnstorableError, plain, restored
from aleator.model_files.schema import Array, Sizes, Value, check_arrays, count, floats, integers
from aleator.model_files.scikit_learn.supported_type import FEATURES, Kind, demand, rebuilt, record
from aleator.model_files.scikit_learn.transformers import categories_of


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
        found.arrays |= tree_checks.tree_columns([member.tree_ for member in members])
    except ValueError as error:
        raise UnstorableError(str(error)) from None


def _trees(found: Record, n_features: int, n_outputs: int) -> list[Any]:
    described, widths = found.values.get("tree"), found.values.get("tree_max_features")
    demand(isinstance(described, dict) and described.keys() == {"type", "params"}, "trees are not described")
    assert isinstance(described, dict)
    kind = {"DecisionTreeRegressor": tree.DecisionTreeRegressor, "ExtraTreeRegressor": tree.ExtraTreeRegressor}.get(
        str(described["type"])
    )
    demand(kind is not None and isinstance(described["params"], dict), "trees are of an unknown type")
    arrays = {name: values for name, values in found.arrays.items() if name in tree_checks.TREE_ARRAYS}
    walked = tree_checks.trees_of(arrays, n_features, n_outputs)
    seeds = found.arrays.get("tree_seeds")
    if seeds is not None:
        integers((len(walked),), low=0, high=2**32 - 1).check("tree_seeds", seeds, {})
    demand(isinstance(widths, list) and len(widths) == len(walked), "trees are incomplete")
    assert isinstance(widths, list)
    params = {name: restored(value) for name, value in described["params"].items()}
    kind(**params)._validate_params()  # type: ignore[misc]
    members = []
    for k, own in enumerate(walked):
        member = kind(**params)  # type: ignore[misc]
        if seeds is not None:
            member.random_state = int(seeds[k])
        member.n_features_in_, member.n_outputs_, member.tree_ = n_features, n_outputs, own
        demand(type(widths[k]) is int and 0 < widths[k] <= n_features, "max_features_ of a tree is out of range")
        member.max_features_ = widths[k]
        members.append(member)
    return members


_OUTPUTS = {**FEATURES, "n_outputs_": count()}


def _pack_tree(thing: Any, found: Record) -> None:
    _pack_trees(found, [thing])
    found.arrays.pop("tree_seeds", None)


def _finish_tree(thing: Any, found: Record, sizes: Sizes) -> None:
    members = _trees(found, thing.n_features_in_, thing.n_outputs_)
    demand(len(members) == 1, "there must be one tree")
    thing.tree_, thing.max_features_ = members[0].tree_, members[0].max_features_


def _pack_forest(thing: Any, found: Record) -> None:
    _pack_trees(found, thing.estimators_)


def _finish_forest(thing: Any, found: Record, sizes: Sizes) -> None:
    thing.estimators_ = _trees(found, thing.n_features_in_, thing.n_outputs_)
    demand(len(thing.estimators_) > 0, "a forest has no trees")
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
    demand(len(members) == thing.n_estimators_, "trees are missing")
    thing.estimators_ = np.empty((len(members), 1), object)
    thing.estimators_[:, 0] = members
    thing.n_trees_per_iteration_, thing._loss, thing.init_ = 1, thing._get_loss(sample_weight=None), "zero"
    if "init_" in found.parts:
        thing.init_ = rebuilt(found.parts["init_"])
        begins = isinstance(thing.init_, dummy.DummyRegressor) and np.shape(thing.init_.constant_) == (1, 1)
        demand(begins and thing.init_.n_outputs_ == 1, "a gradient boosting must begin with one number")


def _pack_histogram(thing: Any, found: Record) -> None:
    if thing.n_trees_per_iteration_ != 1 or not isinstance(thing._baseline_prediction, np.ndarray):
        raise UnstorableError("several trees an iteration")
    found.arrays |= tree_checks.predictor_columns([each[0] for each in thing._predictors])
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
    demand(ends[-1] == len(bins["bin_thresholds"]), "bins are incomplete")
    mapper = _BinMapper(n_bins=thing.max_bins + 1, is_categorical=categorical)
    mapper.bin_thresholds_ = [each.astype(np.float64) for each in np.split(bins["bin_thresholds"], ends[:-1])]
    for k in np.flatnonzero(categorical):
        known = mapper.bin_thresholds_[k]
        demand(((known >= 0) & (known <= 255) & (known == np.floor(known))).all(), "categories are out of range")
    mapper.is_categorical_ = np.asarray(categorical, np.uint8)
    mapper.n_bins_non_missing_, mapper.missing_values_bin_idx_ = bins["bins"], thing.max_bins
    thing._bin_mapper, thing._n_features = mapper, n_features
    arrays = {name: values for name, values in found.arrays.items() if name in tree_checks.PREDICTOR_ARRAYS}
    thing._predictors = [[each] for each in tree_checks.predictors_of(arrays, categorical)]
    thing.n_trees_per_iteration_, thing._loss = 1, thing._get_loss(sample_weight=None)
    thing._scorer = None


def _preprocessor(thing: Any, found: Record, n_features: int) -> Any:
    """Restore how categories become numbers, from a table that has each of them; which columns have some afterwards."""
    thing.is_categorical_ = thing._preprocessor = thing._is_categorical_remapped = None
    if "is_categorical" not in found.values:
        return np.zeros(n_features, bool)
    flags, written = found.values["is_categorical"], found.values.get("categories")
    demand(isinstance(flags, list) and len(flags) == n_features and all(type(f) is bool for f in flags), "bad flags")
    demand(isinstance(written, list) and len(written) == sum(flags) > 0, "categories are missing")
    categories = categories_of(written)
    n_rows = max(1, *(len(each) for each in categories))
    demand(n_rows <= 256, "a column has too many categories")
    columns, known = {}, iter(categories)
    names = getattr(thing, "feature_names_in_", range(n_features))
    for name, flag in zip(names, flags, strict=True):
        values = next(known) if flag else np.zeros(1)
        column = pd.Series([*values, *[values[0]] * (n_rows - len(values))])
        columns[name] = column.astype(pd.CategoricalDtype()) if flag and values.dtype.kind == "O" else column
        if flag and thing.categorical_features == "from_dtype":
            columns[name] = column.astype(pd.CategoricalDtype())
    frame = pd.DataFrame(columns)
    thing._preprocess_X(frame if hasattr(thing, "feature_names_in_") else frame.to_numpy(), reset=True)
    found_again = thing._preprocessor.named_transformers_["encoder"].categories_
    same = all(len(a) == len(b) for a, b in zip(found_again, categories, strict=True))
    demand(same and [bool(each) for each in thing.is_categorical_] == flags, "categories do not fit")
    return np.asarray(thing._is_categorical_remapped, bool)


KINDS = [
    *(
        Kind(each, values=_OUTPUTS, pack=_pack_tree, finish=_finish_tree, own_arrays=True,
             own_values=("tree", "tree_max_features"))
        for each in (tree.DecisionTreeRegressor, tree.ExtraTreeRegressor)
    ),
    *(
        Kind(each, values=_OUTPUTS, pack=_pack_forest, finish=_finish_forest, own_arrays=True,
             own_values=("tree", "tree_max_features"))
        for each in (ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor)
    ),
    Kind(
        ensemble.GradientBoostingRegressor, values={**FEATURES, "n_estimators_": count(), "max_features_": count()},
        pack=_pack_boosting, finish=_finish_boosting, own_arrays=True, own_values=("tree", "tree_max_features"),
    ),
    Kind(
        ensemble.HistGradientBoostingRegressor,
        {"_baseline_prediction": floats((1, 1)), "train_score_": floats(("scores",), nan=True),
         "validation_score_": floats(("validations",), nan=True)},
        values={**FEATURES, "do_early_stopping_": Value(bool)},
        pack=_pack_histogram, finish=_finish_histogram, own_arrays=True,
        own_values=("is_categorical", "categories"),
    ),
]  # fmt: skip
