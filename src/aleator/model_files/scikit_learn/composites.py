"""Estimators made of estimators: pipelines, column transformers, votes, stacks, bags."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn import compose, ensemble, multioutput, pipeline, preprocessing
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from aleator.model_files.object_records import Record, plain, restored
from aleator.model_files.schema import Sizes, count, floats, integers
from aleator.model_files.scikit_learn.supported_type import Kind, array_of, demand, rebuilt, record


def _finish_bagging(thing: Any, found: Record, sizes: Sizes) -> None:
    members, n_features = thing.estimators_, thing.n_features_in_
    demand(len(members) > 0, "a BaggingRegressor has no members")
    spec = integers(("columns",), low=0, high=n_features - 1)
    columns = [array_of(found, f"columns {k}", spec) for k in range(len(members))]
    for k, own in enumerate(columns):
        demand(_width(members[k]) in (None, len(own)), "a member of a BaggingRegressor has other columns")
    thing.estimators_features_ = columns
    thing._n_samples, thing._max_samples = 1, 1
    thing._max_features = len(columns[0])


def _pack_bagging(thing: Any, found: Record) -> None:
    for k, columns in enumerate(thing.estimators_features_):
        found.arrays[f"columns {k}"] = np.asarray(columns, np.int64)


def _finish_named(thing: Any, found: Record, sizes: Sizes) -> None:
    """Members of a vote or a stack, which are also known by their names."""
    names = [name for name, part in thing.estimators if part != "drop"]
    demand(len(names) == len(thing.estimators_) > 0, "members are missing")
    thing.named_estimators_ = Bunch(**dict(zip(names, thing.estimators_, strict=True)))


def _finish_stack(thing: Any, found: Record, sizes: Sizes) -> None:
    _finish_named(thing, found, sizes)
    thing.stack_method_ = ["predict"] * len(thing.estimators_)
    thing._n_feature_outs = [1] * len(thing.estimators_)


def _finish_regressor(thing: Any, found: Record, sizes: Sizes) -> None:
    demand(thing.regressor_ is not None and thing.transformer_ is not None, "a regressor is missing")
    demand(thing._training_dim in (1, 2), "y has one or two dimensions")


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
    demand(isinstance(described, list) and isinstance(found.values.get("output_indices_"), dict), "columns are missing")
    assert isinstance(described, list)
    n_features = sizes["features"]
    names = getattr(thing, "feature_names_in_", None)
    steps, fitted = [], []
    for k, step in enumerate(described):
        demand(isinstance(step, list) and len(step) == 3 and isinstance(step[0], str), "columns are not described")
        part = rebuilt(found.parts[f"fitted {k}"]) if f"fitted {k}" in found.parts else step[1]
        demand(not isinstance(part, str) or part in ("drop", "passthrough"), "a transformer is missing")
        steps.append(
            (step[0], "drop" if isinstance(part, str) and part == "drop" else "passthrough", restored(step[2]))
        )
        fitted.append(part)
    rest = [step for step in steps if step[0] == "remainder"]
    known = [step for step in steps if step[0] != "remainder"]
    skeleton = compose.ColumnTransformer(known, remainder=rest[0][1] if rest else "drop", sparse_threshold=0)
    row = np.zeros((1, n_features))
    skeleton.fit(row if names is None else pd.DataFrame(row, columns=names))
    for name in ("_columns", "_transformer_to_input_indices", "_n_features", "_name_to_fitted_passthrough"):
        if name in vars(skeleton):
            setattr(thing, name, getattr(skeleton, name))
    thing._remainder = ("remainder", thing.remainder, skeleton._remainder[2])
    own = {name: (part, columns) for name, part, columns in skeleton.transformers_}
    demand(len(own) == len(steps) and own.keys() == {name for name, *_ in steps}, "columns do not fit")
    thing.transformers_ = [
        (name, own[name][0] if isinstance(part, str) else part, own[name][1])
        for (name, *_), part in zip(steps, fitted, strict=True)
    ]
    thing.output_indices_ = {str(name): restored(each) for name, each in found.values["output_indices_"].items()}
    thing.sparse_output_ = bool(found.values["sparse_output_"])


def _finish_adaboost(thing: Any, found: Record, sizes: Sizes) -> None:
    demand(len(thing.estimators_) == sizes["members"] > 0, "members of an AdaBoostRegressor are missing")
    widths = {_width(each) for each in thing.estimators_} - {None}
    demand(widths <= {sizes["features"]}, "a member of an AdaBoostRegressor has other columns")


KINDS = [
    Kind(
        ensemble.AdaBoostRegressor,
        {"estimator_weights_": floats(("members",), low=0), "estimator_errors_": floats(("members",))},
        lists=("estimators_",), finish=_finish_adaboost,
    ),
    Kind(ensemble.BaggingRegressor, pack=_pack_bagging, finish=_finish_bagging,
         own_arrays=True, lists=("estimators_",)),
    Kind(ensemble.VotingRegressor, values={}, finish=_finish_named, lists=("estimators_",)),
    Kind(ensemble.StackingRegressor, values={}, parts=("final_estimator_",), lists=("estimators_",),
         finish=_finish_stack),
    Kind(multioutput.MultiOutputRegressor, values={"n_features_in_": count(0, optional=True)}, lists=("estimators_",)),
    Kind(compose.TransformedTargetRegressor, values={"_training_dim": count()}, parts=("regressor_", "transformer_"),
         finish=_finish_regressor),
    Kind(compose.ColumnTransformer, pack=_pack_columns_of, finish=_finish_columns_of,
         own_values=("transformers_", "output_indices_", "sparse_output_")),
    Kind(pipeline.Pipeline, values={}),
    Kind(pipeline.FeatureUnion, values={}),
]  # fmt: skip
