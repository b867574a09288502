"""Encoders and regressors as parts of a model file: those of aleator's, of scikit-learn's, and boosters.

| object | form in the file |
| --- | --- |
| estimators of aleator's, `TableEncoder` | values and arrays, as in a file of their own |
| estimators of scikit-learn's that `model_files.scikit_learn` lists | values and arrays, each of them checked |
| CatBoost, LightGBM, XGBoost | their own format |

A file cannot hold anything else, such as custom functions and classes: reading it would execute code.
Reading the first two forms executes nothing from the file, and compiled code only sees arrays that were checked. The
boosters' parsers are C++ code of their makers: do not load a booster from a source whose programs you would not run.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.model_files import scikit_learn, skops_archive
from aleator.model_files.file_format import Arrays
from aleator.model_files.object_records import Record, UnstorableError, flattened, nested
from aleator.model_files.schema import Sizes
from aleator.model_files.table_encoder_file import pack_table_encoder, unpack_table_encoder
from aleator.preprocessing.table_encoder import CategoryMeans, TableEncoder

Facts = dict[str, Any]
Bytes = NDArray[np.uint8]


def pack(thing: Any) -> tuple[Facts, Arrays] | None:
    """An encoder or a regressor as facts and arrays; None if no file can hold it."""
    if isinstance(thing, TableEncoder):
        facts, arrays = pack_table_encoder(thing)
        return {"form": "table", **facts}, arrays
    if hasattr(thing, "_packed"):
        facts, arrays = thing._packed()
        return {"form": "aleator", "kind": type(thing).__name__, **facts}, arrays
    for name, (write, _) in BOOSTERS.items():
        if type(thing).__module__.split(".")[0] == name:
            return {"form": name}, {"content": np.frombuffer(write(thing), np.uint8)}
    try:
        facts, arrays = flattened(scikit_learn.record(thing))
    except UnstorableError:
        return None
    return {"form": "scikit-learn", "object": facts}, arrays


def unpack(facts: Facts, arrays: Arrays) -> Any:
    """Rebuild what `pack` packed, except estimators of aleator, which `serialization.made` rebuilds."""
    form = facts["form"]
    if form == "table":
        return unpack_table_encoder(facts, arrays)
    if form == "scikit-learn":
        return scikit_learn.rebuilt(nested(facts["object"], arrays))
    content = arrays["content"]
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ValueError("corrupt model file: an object in it must be bytes.")
    if form == "skops":
        return skops_archive.read(content.tobytes(), {"Told": CategoryMeans})
    if form not in BOOSTERS:
        raise ValueError(f"the file holds an object in the form {form!r:.80}, which this aleator does not know.")
    try:
        return BOOSTERS[form][1](content.tobytes())
    except ImportError as error:
        raise ImportError(f"the file holds a model of {form}, which is not installed.") from error
    except Exception as error:  # parsers raise errors of many types
        reason = str(error).strip().split("\n")[0][:200]
        raise ValueError(f"the regressor in the file cannot be read: {reason}.") from error


# ---------------------------------------------------------------- TableEncoder within pipelines


def _pack_table_encoder(encoder: Any, found: Record) -> None:
    found.values["facts"], arrays = pack_table_encoder(encoder)
    found.arrays |= arrays


def _finish_table_encoder(encoder: Any, found: Record, sizes: Sizes) -> None:
    vars(encoder).update(vars(unpack_table_encoder(found.values["facts"], found.arrays)))


scikit_learn.add(
    scikit_learn.Kind(
        TableEncoder,
        values={},
        fitted="kinds_",
        pack=_pack_table_encoder,
        finish=_finish_table_encoder,
        own_arrays=True,
        own_values=("facts",),
    )
)


# ---------------------------------------------------------------- boosters


def _catboost_written(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        return path.read_bytes()


def _catboost_read(content: bytes) -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor().load_model(blob=content)


def _lightgbm_written(model: Any) -> bytes:
    text: str = getattr(model, "booster_", model).model_to_string()
    return text.encode()


def _lightgbm_read(content: bytes) -> Any:
    from lightgbm import Booster

    return Booster(model_str=content.decode())


def _xgboost_written(model: Any) -> bytes:
    return bytes(model.get_booster().save_raw("ubj"))


def _xgboost_read(content: bytes) -> Any:
    from xgboost import XGBRegressor

    model = XGBRegressor()
    model.load_model(bytearray(content))
    return model


BOOSTERS: dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "catboost": (_catboost_written, _catboost_read),
    "lightgbm": (_lightgbm_written, _lightgbm_read),
    "xgboost": (_xgboost_written, _xgboost_read),
}
