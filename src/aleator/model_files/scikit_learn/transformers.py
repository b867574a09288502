"""Scalers, encoders, imputers and other transformers."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn import decomposition, impute, preprocessing

from aleator.model_files.object_records import Record, UnstorableError, plain, restored
from aleator.model_files.schema import Sizes, Value, count, floats, integers
from aleator.model_files.scikit_learn.supported_type import (
    FEATURES,
    MOST_FEATURES,
    Kind,
    array_of,
    demand,
    rebuilt,
    record,
)


def categories_of(written: Any) -> list[Any]:
    """The categories of each column: different from each other, and sorted if they are numbers."""
    demand(isinstance(written, list), "categories must be lists")
    found = []
    for each in written:
        values = restored(each)
        demand(isinstance(values, np.ndarray) and values.ndim == 1 and len(values), "categories must be arrays")
        if values.dtype.kind == "O":
            fine = all(value is None or isinstance(value, (str, bool, int, float)) for value in values)
            demand(fine and len({str(value) for value in values}) == len(values), "categories must differ")
        else:
            known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
            demand(len(known) >= len(values) - 1 and (known == values[: len(known)]).all(), "categories must differ")
            demand((known[1:] > known[:-1]).all(), "categories must be sorted")
        found.append(values)
    return found


def _pack_categories(thing: Any, found: Record) -> None:
    found.values["categories_"] = [plain(each) for each in thing.categories_]
    if thing._infrequent_enabled:
        rare = [None if each is None else [int(k) for k in each] for each in thing._infrequent_indices]
        found.values["infrequent"] = rare


def _restore_categories(thing: Any, found: Record, sizes: Sizes) -> None:
    thing.categories_ = categories_of(found.values.get("categories_"))
    demand(len(thing.categories_) == sizes["features"], "categories of a column are missing")
    thing._check_infrequent_enabled()
    if not thing._infrequent_enabled:
        return
    rare = found.values.get("infrequent")
    demand(isinstance(rare, list) and len(rare) == len(thing.categories_), "infrequent categories are missing")
    assert isinstance(rare, list)
    thing._infrequent_indices, thing._default_to_infrequent_mappings = [], []
    for own, categories in zip(rare, thing.categories_, strict=True):
        if own is None:
            thing._infrequent_indices.append(None)
            thing._default_to_infrequent_mappings.append(None)
            continue
        indices = np.asarray(own)
        integers(("rare",), low=0, high=len(categories) - 1).check("infrequent", indices, {})
        demand(len(indices) and (np.diff(indices) > 0).all(), "infrequent categories must be sorted")
        frequent = np.setdiff1d(np.arange(len(categories)), indices)
        mapping = np.full(len(categories), len(frequent), np.int64)
        mapping[frequent] = np.arange(len(frequent))
        thing._infrequent_indices.append(indices)
        thing._default_to_infrequent_mappings.append(mapping)


def _finish_one_hot(thing: Any, found: Record, sizes: Sizes) -> None:
    _restore_categories(thing, found, sizes)
    thing._set_drop_idx()
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
    thing.encodings_ = [
        array_of(found, f"encoding {k}", floats((len(each),))) for k, each in enumerate(thing.categories_)
    ]
    thing.target_type_, thing.classes_ = "continuous", None


def _finish_from_width(thing: Any, found: Record, sizes: Sizes) -> None:
    """A transformer that learns the number of columns only."""
    demand(np.max(getattr(thing, "degree", 1)) <= MOST_DEGREE, f"degrees are at most {MOST_DEGREE}")
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
    demand(isinstance(statistics, np.ndarray) and statistics.shape == (sizes["features"],), "statistics are missing")
    known = {"float64", "float32", "object", "int64", "int32", "bool"}
    demand(isinstance(dtypes, list) and len(dtypes) == 2 and set(map(str, dtypes)) <= known, "dtypes are unknown")
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
        own = array_of(found, f"edges {k}", floats((int(thing.n_bins_[k]) + 1,), infinite=True))
        demand((np.diff(own) >= 0).all(), "edges of bins must be sorted")
        edges[k] = own
    thing.bin_edges_ = edges
    if "_encoder" in found.parts:
        thing._encoder = rebuilt(found.parts["_encoder"])
        fits = [len(each) for each in thing._encoder.categories_] == [int(n) for n in thing.n_bins_]
        demand(isinstance(thing._encoder, preprocessing.OneHotEncoder) and fits, "bins and their encoder differ")


def _finish_quantiles(thing: Any, found: Record, sizes: Sizes) -> None:
    thing.n_quantiles_ = sizes["quantiles"]


def _absent(thing: Any, *names: str) -> None:
    """Attributes that are None if a scaler does not centre or scale."""
    for name in names:
        if not hasattr(thing, name):
            setattr(thing, name, None)


_COLUMN = floats(("features",))
_COLUMN_OR_NONE = floats(("features",), optional=True)

MOST_DEGREE = 50  # of polynomials

KINDS = [
    Kind(preprocessing.StandardScaler,
         {"mean_": _COLUMN_OR_NONE, "var_": _COLUMN_OR_NONE, "scale_": floats(("features",), low=0, optional=True)},
         finish=lambda thing, found, sizes: _absent(thing, "mean_", "var_", "scale_")),
    Kind(preprocessing.MinMaxScaler,
         dict.fromkeys(("scale_", "min_", "data_min_", "data_max_", "data_range_"), _COLUMN)),
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
         pack=_pack_bins, finish=_finish_bins, own_arrays=True),
    Kind(preprocessing.OneHotEncoder, pack=_pack_categories, finish=_finish_one_hot,
         own_values=("categories_", "infrequent")),
    Kind(preprocessing.OrdinalEncoder, pack=_pack_categories, finish=_finish_ordinal,
         own_values=("categories_", "infrequent")),
    Kind(preprocessing.TargetEncoder, {"target_mean_": floats(())}, pack=_pack_target_encoder,
         finish=_finish_target_encoder, own_arrays=True, own_values=("categories_", "infrequent")),
    Kind(impute.SimpleImputer, pack=_pack_imputer, finish=_finish_imputer,
         own_values=("statistics_", "dtypes", "gaps")),
    Kind(decomposition.PCA,
         {"components_": floats(("components", "features")), "mean_": _COLUMN,
          "explained_variance_": floats(("components",), low=0),
          "explained_variance_ratio_": floats(("components",), nan=True),
          "singular_values_": floats(("components",), low=0), "noise_variance_": floats(())},
         values={**FEATURES, "n_components_": count(0), "n_samples_": count()}),
    Kind(decomposition.TruncatedSVD, {"components_": floats(("components", "features"))}),
]  # fmt: skip
