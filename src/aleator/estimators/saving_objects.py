"""Encoders and regressors as parts of a model file: those of aleator's, of scikit-learn's, and boosters.

| object | form in the file |
| --- | --- |
| estimators of aleator's, `TableEncoder` | facts and arrays, as in a file of their own |
| regressors and transformers of scikit-learn's | skops (the extra `files`), types in `TRUSTED` only, trees checked |
| CatBoost, LightGBM, XGBoost | their own format |

Everything else, functions and classes of the user's above all, no file can hold without executing it when read. Reading
the first two forms executes nothing and trusts nothing: a type that is not in the list is refused, and no tree can
point outside its table. The parsers of the boosters are C++ of their makers, and as robust as these made them: do not
load a booster from someone you would not take a program from.
"""

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree, DecisionTreeRegressor, ExtraTreeRegressor
from sklearn.tree._tree import Tree

from aleator.bundle import Arrays
from aleator.estimators.encoding import TableEncoder

Facts = dict[str, Any]
Bytes = NDArray[np.uint8]

Owners = tuple[Any, ...]
TREE_OWNERS = (
    DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor, GradientBoostingRegressor,
    HistGradientBoostingRegressor, BaggingRegressor, AdaBoostRegressor, VotingRegressor, TransformedTargetRegressor,
)  # fmt: skip

# Beside what skops trusts by itself. Each of these only holds values; trees are checked after they are read.
TRUSTED = [
    "numpy.dtype",
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.utils._bunch.Bunch",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    *(f"sklearn.gaussian_process.kernels.{kernel}" for kernel in (
        "ConstantKernel", "DotProduct", "Exponentiation", "Hyperparameter", "Matern", "Product", "RBF",
        "RationalQuadratic", "Sum", "WhiteKernel")),
    "aleator.estimators.encoding.TableEncoder",
    "aleator.estimators.encoding.Told",
]  # fmt: skip


def pack(thing: Any) -> tuple[Facts, Arrays] | None:
    """An encoder or a regressor as facts and arrays; None if no file can hold it."""
    if isinstance(thing, TableEncoder):
        facts, arrays = thing._packed()
        return {"form": "table", **facts}, arrays
    if hasattr(thing, "_packed"):
        facts, arrays = thing._packed()
        return {"form": "aleator", "kind": type(thing).__name__, **facts}, arrays
    for name, (write, _) in BOOSTERS.items():
        if type(thing).__module__.split(".")[0] == name:
            return {"form": name}, {"content": np.frombuffer(write(thing), np.uint8)}
    content = _as_skops(thing)
    return None if content is None else ({"form": "skops"}, {"content": content})


def unpack(facts: Facts, arrays: Arrays) -> Any:
    """What `pack` packed, but for estimators of aleator's, which `saving.made` makes."""
    form = facts["form"]
    if form == "table":
        return TableEncoder._unpacked(facts, arrays)
    content = arrays["content"]
    if content.dtype != np.uint8:
        raise ValueError("the model file does not fit together: an object in it is not bytes.")
    if form == "skops":
        return _from_skops(content.tobytes())
    if form not in BOOSTERS:
        raise ValueError(f"the file holds an object in the form {form!r}, which this aleator does not know.")
    try:
        return BOOSTERS[form][1](content.tobytes())
    except ImportError as error:
        raise ImportError(f"the file holds a model of {form}, which is not installed.") from error
    except Exception as error:  # whatever a parser of theirs may raise
        reason = str(error).strip().split("\n")[0][:200]
        raise ValueError(f"the regressor in the file cannot be read: {reason}.") from error


# ---------------------------------------------------------------- scikit-learn


def _as_skops(thing: Any) -> Bytes | None:
    """A fitted object as bytes that can be read without trusting anything else; None if it is not of that kind."""
    try:
        from skops import io as skops
    except ImportError:
        return None
    try:
        content = skops.dumps(thing)
        unknown = set(skops.get_untrusted_types(data=content)) - set(TRUSTED)
        if unknown:
            return None
        _check_trees(thing)
    except Exception:  # whatever an object of unknown kind may raise when it is taken apart
        return None
    return np.frombuffer(content, np.uint8)


def _from_skops(content: bytes) -> Any:
    try:
        from skops import io as skops
    except ImportError as error:
        raise ImportError(
            "the file holds parts of scikit-learn; to read them: pip install 'aleator[files]'."
        ) from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            if any(part.compress_type != zipfile.ZIP_STORED for part in parts.infolist()):
                raise ValueError("it is compressed, and we write none such")  # so nothing can unfold without end
        thing = skops.loads(content, trusted=TRUSTED)
        _check_trees(thing)
    except Exception as error:
        reason = str(error).strip().split("\n")[0][:200]
        raise ValueError(f"the regressor or the encoder in the file cannot be read: {reason}.") from error
    return thing


def _check_trees(thing: Any) -> None:
    """Trees are walked by compiled code that trusts them: each step must lead on, and to a column that is there.

    So a tree may only be where scikit-learn looks at the rows before it: in an estimator of TREE_OWNERS that knows its
    number of columns itself, and has it in common with its trees.
    """
    for part, owners in _walk(thing, (), set()):
        if isinstance(part, (Tree, TreePredictor)) and not (owners and all(type(o) in TREE_OWNERS for o in owners)):
            raise ValueError("a tree in it is where none should be")
        handing_on = isinstance(
            part, (BaseDecisionTree, BaseForest, BaseGradientBoosting, HistGradientBoostingRegressor)
        )
        fitted = handing_on and not vars(part).keys().isdisjoint({"tree_", "estimators_", "_predictors"})
        if fitted and type(vars(part).get("n_features_in_")) is not int:
            raise ValueError("an estimator of trees in it does not know its columns")
        if isinstance(part, Tree):
            nodes = part.__getstate__()["nodes"]
            leaf = nodes["left_child"] == -1
            _check_nodes(nodes["left_child"], nodes["right_child"], nodes["feature"], leaf, part.n_features)
            if part.n_features != owners[-1].n_features_in_ or getattr(owners[-1], "tree_", None) is not part:
                raise ValueError("a tree in it is for another table")
        elif fitted and isinstance(part, (BaseForest, BaseGradientBoosting)):  # no look at rows before each tree
            if any(
                tree.n_features_in_ != part.n_features_in_ for tree in np.ravel(np.asarray(part.estimators_, object))
            ):
                raise ValueError("a tree in it is for another table")
        elif fitted and isinstance(part, HistGradientBoostingRegressor) and part.is_categorical_ is not None:
            raise ValueError("a HistGradientBoosting with categories cannot be checked")
        elif isinstance(part, TreePredictor):
            nodes = part.nodes
            if not isinstance(owners[-1], HistGradientBoostingRegressor) or nodes["is_categorical"].any():
                raise ValueError("a tree in it splits categories that are not there")
            leaf = nodes["is_leaf"].astype(bool)
            _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], leaf, owners[-1].n_features_in_)


def _check_nodes(left: Any, right: Any, feature: Any, leaf: Any, n_features: int | None) -> None:
    n, inner = len(left), ~leaf
    here = np.arange(n)[inner]
    left, right, feature = (np.asarray(part[inner], np.int64) for part in (left, right, feature))
    further = (left > here) & (left < n) & (right > here) & (right < n)
    if n == 0 or n_features is None or not (further & (feature >= 0) & (feature < n_features)).all():
        raise ValueError("a tree in it leads nowhere")


def _walk(thing: Any, owners: Owners, seen: set[tuple[int, ...]]) -> Iterator[tuple[Any, Owners]]:
    """Every object within another, by every way that leads to it, with the estimators of trees on the way."""
    key = (id(thing), *map(id, owners))
    if key in seen or isinstance(thing, (str, bytes, int, float, type(None))):
        return
    seen.add(key)
    yield thing, owners
    own = getattr(thing, "__dict__", {})
    if isinstance(thing, dict):
        children: Any = thing.values()
    elif isinstance(thing, (list, tuple, set)) or (isinstance(thing, np.ndarray) and thing.dtype == object):
        children = list(np.ravel(thing)) if isinstance(thing, np.ndarray) else thing
    else:
        children = own.values()
        owners = (*owners, thing) if isinstance(thing, BaseEstimator) and not isinstance(thing, Pipeline) else owners
    for child in children:
        yield from _walk(child, owners, seen)


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
