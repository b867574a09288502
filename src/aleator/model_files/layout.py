"""The content of each kind of model file: a table of values and a table of arrays.

The code that writes files, the code that reads them and the documentation share these tables.
Names in shapes stand for sizes that must agree within a file: *outputs* M; *losses* Q, which is M if every output has a
quantifier of its own and else 1; *members*; *inputs* of a network; *weights* of a member.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aleator.engine.kernels import FARTHEST
from aleator.model_files.schema import Array, Sizes, Value, check_arrays, check_values, count

LARGEST = 1e300
WEIGHT = 1e8  # larger weights would overflow float32 in products


def _floats(*shape: int | str, about: str, **limits: Any) -> Array:
    return Array(("f8",), (shape,), about=about, **limits)


@dataclass(frozen=True)
class Layout:
    """The values and arrays of one kind of file; names with a slash belong to a part with a layout of its own."""

    about: str
    values: Mapping[str, Value]
    arrays: Mapping[str, Array]

    def extended(self, about: str, values: Mapping[str, Value], arrays: Mapping[str, Array]) -> "Layout":
        """A layout with the entries of this one and further ones."""
        return Layout(about, {**self.values, **values}, {**self.arrays, **arrays})

    def check_values(self, facts: Mapping[str, Any]) -> None:
        """Raise a ValueError unless a file's values are those described."""
        check_values(self.values, facts)

    def check_names(self, arrays: Mapping[str, Any]) -> None:
        """Raise a ValueError if an array is missing."""
        missing = [name for name, spec in self.arrays.items() if name not in arrays and not spec.optional]
        if missing:
            raise ValueError(f"corrupt model file: the array {missing[0]} is missing.")

    def check_arrays(self, arrays: Mapping[str, Any], sizes: Sizes) -> None:
        """Raise a ValueError unless a file's arrays are those described and agree with `sizes`, which are completed."""
        unknown = [name for name in arrays if "/" in name and name.partition("/")[0] not in PARTS]
        if unknown:
            raise ValueError(f"corrupt model file: the array {unknown[0]!r:.80} is not expected.")
        own = {name: values for name, values in arrays.items() if "/" not in name}
        specs = {name: spec for name, spec in self.arrays.items() if name != CURVES}
        n_curves = sum(name.startswith("correction ") for name in own)
        if n_curves not in (0, sizes.get("losses", 0)):
            raise ValueError(f"corrupt model file: {n_curves} curves of `recalibrate`, where each loss has one.")
        for k in range(n_curves):
            specs[f"correction {k}"] = replace(self.arrays[CURVES], shapes=((2, f"knots of {k}"),), optional=False)
        check_arrays(specs, own, sizes)
        if any(own[f"correction {k}"].shape[1] == 0 for k in range(n_curves)):
            raise ValueError("corrupt model file: a curve of `recalibrate` needs a knot.")


CURVES = "correction 0, 1, ..."
PARTS = ("encoder", "estimator", "table", "trees")

EVERY = Layout(
    "every estimator",
    {
        "kind": Value(str, optional=True, about="class of the estimator"),
        "form": Value(str, optional=True, about='"aleator", if it is the regressor of a `LossQuantifier`'),
        "written_by": Value(dict, optional=True, about="versions of aleator, NumPy and scikit-learn"),
        "params": Value(dict, about="parameters by name: numbers, strings, lists of them"),
        "y_is_1d": Value(bool, about="whether y was one-dimensional"),
        "n_outputs": count(about="outputs"),
        "feature_names": Value(list, about="names of the columns, if they had any"),
        "history": Value(list, about="names of the columns of the array `history`"),
        "conformalized": Value(bool, optional=True, about="whether the scores come from `conformalize`"),
        "recalibrated_after": Value(bool, optional=True, about="whether `recalibrate` followed `conformalize`"),
        "check": Value(dict, optional=True, about="`check_`, without its table"),
        "table": Value(dict, optional=True, about="what `aleator fit` adds: columns, target, model card"),
    },
    {
        "history": Array(
            ("f8",), (("epochs", "measures"),), nan=True, infinite=True, about="losses by member and epoch (`history_`)"
        ),
        "loss_scale_": _floats("losses", low=0, about="factor of the expected loss"),
        "loss_limits_": _floats(
            2, "losses", low=0, infinite=True, rising=0, optional=True, about="least and largest expected loss"
        ),
        "scores_": _floats(
            "calibration rows", "outputs", infinite=True, rising=0, optional=True, about="conformal scores"
        ),
        "check groups": _floats(
            "groups", 4, low=-LARGEST, high=LARGEST, optional=True,
            about="`check_.groups`: output, rows, expected and realised loss",
        ),
        CURVES: _floats(
            2, "knots", low=0, rising=1, optional=True, about="a curve of `recalibrate` for each loss: before, after"
        ),
    },
)  # fmt: skip


def _scaling(targets: str) -> dict[str, Array]:
    return {
        "x_mean": _floats("inputs", about="mean of each input"),
        "x_spread": _floats("inputs", low=0, about="standard deviation of each input"),
        "x_clip": _floats(
            2, "inputs", low=-FARTHEST, high=FARTHEST, rising=0, optional=True,
            about="range of each input, in standard deviations",
        ),
        "y_mean": _floats(targets, low=-LARGEST, high=LARGEST, about="mean of each target"),
        "y_spread": _floats(targets, low=0, high=LARGEST, about="standard deviation of each target"),
    }  # fmt: skip


NETWORK = EVERY.extended(
    "pairs and baselines made of networks",
    {
        "encoder": Value(dict, optional=True, about="encoder of the table; its arrays are named `encoder/...`"),
        "encoder_setting": Value(str, none=True, optional=True, about="the parameter `encoder`: a name or null"),
        "n_features": count(optional=True, about="columns of the table, if there is an encoder"),
        "gave_up": Value(bool, optional=True, about='`gave_up_` of `lam="auto"`'),
        "out_of_fold": Value(list, optional=True, about="names of the columns of the array `out_of_fold`"),
    },
    {
        **_scaling("outputs"),
        "params_": Array(("f4",), (("members", "weights"),), -WEIGHT, WEIGHT, about="weights of each member"),
        "n_epochs_": Array(("i8",), (("members",),), low=0, about="epochs of each member"),
        "lam_": _floats("members", low=0, about="lam of each member"),
        "unit": _floats("losses", low=0, about="unit in which the networks measure the loss"),
        "frame": _floats("outputs", 4, about="shift, scale and factors of the target in these units"),
        "reach_": Array(
            ("f4",), (("members", 2, "losses"),), rising=1, optional=True, about="range of xi of each member"
        ),
        "out_of_fold": _floats("held-out rows", "columns", infinite=True, optional=True, about="`out_of_fold_`"),
    },
)

DROPOUT = NETWORK.extended(
    "DropoutRegressor",
    {},
    {
        "noise_": _floats("outputs", low=0, about="variance of the noise"),
        "masks_": Array(("b1",), (("passes", "units"),), about="hidden units that each pass keeps"),
    },
)

SVGD = EVERY.extended(
    "SVGDRegressor",
    {},
    {
        **_scaling("outputs"),
        "params_": Array(("f4",), (("particles", "weights"),), -WEIGHT, WEIGHT, about="weights of each particle"),
        "noise_": _floats("particles", "outputs", low=0, about="loss of the noise"),
    },
)

PBP = EVERY.extended(
    "PBPRegressor",
    {},
    {
        **_scaling("outputs"),
        "weight_mean_": _floats("weights", low=-WEIGHT, high=WEIGHT, about="mean of each weight"),
        "weight_variance_": _floats("weights", positive=True, high=WEIGHT**2, about="variance of each weight"),
        "noise_precision_": _floats(
            "outputs", 2, low=0, high=1e100, about="gamma distribution of the noise's precision"
        ),
        "weight_precision_": _floats(2, about="gamma distribution of the weights' precision"),
    },
)

QUANTIFIER = EVERY.extended(
    "LossQuantifier",
    {
        "n_features": count(none=True, about="columns of the table, if it had a fixed number"),
        "out_of_fold": Value(list, about="names of the columns of the array `out_of_fold`"),
        "regressor": Value(str, about="class of the regressor"),
        "linear": Value(bool, optional=True, about="whether the quantifier is linear"),
        "tree_share": Value(float, 0, 1, optional=True, about="share of the trees in the expected loss"),
        "trees": Value(
            list,
            optional=True,
            about="for each member and loss a gradient boosting model; its arrays are named `trees/0 0/...`",
        ),
        "encoder": Value(dict, about="encoder of the quantifier; its arrays are named `encoder/...`"),
        "estimator": Value(
            dict, optional=True, about="the regressor, if a file can hold it; its arrays are named `estimator/...`"
        ),
    },
    {
        **_scaling("losses"),
        "params": Array(
            ("f4",), (("members", "weights"),), -WEIGHT, WEIGHT, optional=True, about="weights of each network"
        ),
        "lams": _floats("members", low=0, optional=True, about="lam of each network"),
        "reach": Array(
            ("f4",), (("members", 2, "losses"),), rising=1, optional=True, about="range of xi of each network"
        ),
        "unit": _floats("losses", low=0, about="unit in which the networks measure the loss"),
        "n_epochs_": Array(("i8",), (("members",),), low=0, about="epochs of each quantifier"),
        "prediction_range_": _floats(
            2, "outputs", infinite=True, rising=0, optional=True, about="range of plausible predictions"
        ),
        "fold_share_": _floats("losses", low=0, high=1, optional=True, about="part of the losses left with all folds"),
        "out_of_fold": _floats("held-out rows", "columns", nan=True, infinite=True, about="`out_of_fold_`"),
        "probes": _floats(
            3,
            "outputs",
            nan=True,
            infinite=True,
            optional=True,
            about="predictions at three made-up rows",
        ),
    },
)

ENCODER = Layout(
    "TableEncoder",
    {
        "form": Value(str, optional=True, choices=("table",), about='"table"'),
        "kinds": Value(list, about="kind of each column; empty for a table of numbers"),
        "categories": Value(dict, about="categories by the place of their column"),
        "otherwise": Value(dict, about="for columns of many categories, what a new category stands for"),
    },
    {
        "medians": _floats("numbers", about="median of each column of numbers, of which a date is seven"),
        "missing": Array(("i8",), (("indicators",),), low=0, about="columns of numbers with an indicator of gaps"),
        "plausible": _floats(
            2, "numbers", infinite=True, rising=0, optional=True, about="range of each; beyond it a cell is missing"
        ),
    },
)

TABLE = Layout(
    "what `aleator fit` adds, named `table/...`",
    {
        "schema": Value(dict, about="columns of the table: names, kinds, units"),
        "target": Value(str, about="name of the target"),
        "target_unit": Value(str, none=True, optional=True, about="unit of the target"),
        "seen": Value(dict, about="least and largest number of each column, and whether cells were missing"),
        "card": Value(dict, about="how the model was made"),
    },
    {
        "losses": _floats("training rows", low=0, rising=0, about="expected losses of the training rows"),
        "rows": Array(("u8",), (("hashes",),), about="hashes of the training rows"),
    },
)

LAYOUTS = (EVERY, NETWORK, DROPOUT, SVGD, PBP, QUANTIFIER, ENCODER, TABLE)


# ---------------------------------------------------------------- as documentation


def markdown(layout: Layout, beside: Layout | None = None) -> str:
    """Two tables of what a file holds; without what the layout `beside` holds too."""
    known = set() if beside is None else {*beside.values, *(f"{name} " for name in beside.arrays)}
    values = [(name, spec) for name, spec in layout.values.items() if name not in known]
    arrays = [(name, spec) for name, spec in layout.arrays.items() if f"{name} " not in known]
    lines = []
    if values:
        lines += ["| value | type | |", "| --- | --- | --- |"]
        lines += [f"| `{name}` | {_type(spec)} | {spec.about} |" for name, spec in values]
    if arrays:
        lines += ["", "| array | type | shape | range | |", "| --- | --- | --- | --- | --- |"]
        for name, spec in arrays:
            dtypes = " or ".join(_DTYPE[dtype] for dtype in spec.dtypes)
            lines.append(f"| `{name}` | {dtypes} | {_shapes(spec)} | {_range(spec)} | {spec.about} |")
    return "\n".join(lines).strip() + "\n"


_DTYPE = {
    "f8": "float64", "f4": "float32", "i8": "int64", "i4": "int32", "u8": "uint64", "u4": "uint32", "u1": "uint8",
    "b1": "bool",
}  # fmt: skip


def _type(spec: Value) -> str:
    return f"{spec.type.__name__}{' or null' if spec.none else ''}{', optional' if spec.optional else ''}"


def _shapes(spec: Array) -> str:
    shapes = [", ".join(map(str, shape)) for shape in spec.shapes]
    return " or ".join(f"({shape})" for shape in shapes)


def _range(spec: Array) -> str:
    parts = ["> 0"] * spec.positive
    if spec.low > -math.inf or spec.high < math.inf:
        low = f"≥ {spec.low:g}" if spec.low > -math.inf else ""
        parts.append(f"{low}{f', ≤ {spec.high:g}' if spec.high < math.inf else ''}".strip(", "))
    parts += ["NaN allowed"] * spec.nan + ["infinity allowed"] * spec.infinite
    parts += [f"rising along axis {spec.rising}"] * (spec.rising is not None) + ["optional"] * spec.optional
    return ", ".join(parts)
