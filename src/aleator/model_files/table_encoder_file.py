"""A `TableEncoder` as values and arrays for a model file: names and numbers only."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.model_files import layout
from aleator.preprocessing.table_encoder import KINDS, CategoryMeans, TableEncoder


def pack_table_encoder(encoder: TableEncoder) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The fitted encoder as values and arrays."""
    values = {
        "kinds": encoder.kinds_,
        "categories": encoder.categories_,
        "otherwise": {name: means.otherwise for name, means in encoder.category_means_.items()},
    }
    arrays: dict[str, NDArray[Any]] = {
        "medians": encoder.medians_, "missing": encoder.missing_, "plausible": encoder._plausible_set()
    }  # fmt: skip
    arrays |= {f"columns {name}": columns for name, columns in encoder._columns_set().items()}
    means = {f"means {name}": each.by_category for name, each in encoder.category_means_.items()}
    return values, arrays | means


def unpack_table_encoder(values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TableEncoder:
    """The encoder that a file describes, or a ValueError."""
    layout.ENCODER.check_values(values)
    encoder = TableEncoder()
    encoder.kinds_ = [str(kind) for kind in values["kinds"]]
    encoder.categories_ = {str(name): [str(v) for v in found] for name, found in values["categories"].items()}
    encoder.medians_, encoder.missing_ = arrays["medians"], arrays["missing"]
    if "plausible" in arrays:
        encoder.plausible_ = arrays["plausible"]
    encoder._plausible_set()
    encoder.category_means_ = {
        name: CategoryMeans(_category_means(name, arrays), float(values["otherwise"][name]))
        for name in encoder._columns("many")
    }
    named = {name: f"columns {name}" for name in encoder._columns("few")}
    if all(array in arrays for array in named.values()):
        encoder.columns_ = {name: arrays[array] for name, array in named.items()}
    encoder._columns_set()
    _check(encoder)
    return encoder


def _category_means(name: str, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """The array "means k" of column k; files before 0.1.0 have another word for "means"."""
    found = [array for key, array in arrays.items() if key.endswith(f" {name}") and not key.startswith("columns ")]
    if len(found) != 1:
        raise ValueError(f"corrupt model file: its encoder needs one array of means for column {name:.20}.")
    return found[0]


def _check(encoder: TableEncoder) -> None:
    """Raise a ValueError unless kinds, categories and arrays agree."""
    arrays = {"medians": encoder.medians_, "missing": encoder.missing_, "plausible": encoder.plausible_}
    layout.ENCODER.check_arrays(arrays, {})
    n, means = len(encoder.medians_), encoder.category_means_
    agree = (
        set(encoder.kinds_) <= KINDS
        and (not encoder.kinds_ or n == len(encoder._columns("number", "date")))
        and (encoder.missing_ < n).all()
        and sorted(encoder.categories_) == sorted(encoder._columns("few", "many"))
        and all(len(set(found)) == len(found) for found in encoder.categories_.values())
        and all(columns.dtype == np.int64 and columns.shape == (len(encoder.categories_[name]) + 1,)
                and ((columns >= -1) & (columns < len(columns))).all() for name, columns in encoder.columns_.items())
        and all(t.by_category.dtype == np.float64 and t.by_category.shape == (len(encoder.categories_[name]),)
                and np.isfinite([*t.by_category, t.otherwise]).all() for name, t in means.items())
    )  # fmt: skip
    if not agree:
        raise ValueError("corrupt model file: kinds, categories and arrays of its encoder disagree.")
