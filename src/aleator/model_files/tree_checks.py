"""Decision trees as columns of numbers, and back: many trees side by side, each node checked.

Compiled code follows the links of a tree unchecked, so a tree is rebuilt only if every node but the root has exactly
one parent, which precedes it, and every split uses an existing column.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import NODE_DTYPE, Tree

from aleator.model_files.schema import Array, Sizes, check_arrays, floats, integers

Arrays = dict[str, NDArray[Any]]

MOST_NODES = 2**31 - 1
DEEPEST = 10_000  # levels of a tree

# ---------------------------------------------------------------- scikit-learn's Tree

_CHILD = {"low": -1, "high": MOST_NODES}
TREE_ARRAYS: dict[str, Array] = {
    "tree_sizes": integers(("trees",), low=1, high=MOST_NODES),
    "left_child": integers(("nodes",), **_CHILD),
    "right_child": integers(("nodes",), **_CHILD),
    "feature": integers(("nodes",), low=-2, high=MOST_NODES),
    "threshold": floats(("nodes",), infinite=True),
    "impurity": floats(("nodes",), nan=True, infinite=True),
    "n_node_samples": integers(("nodes",), low=0, high=2**62),
    "weighted_n_node_samples": floats(("nodes",), low=0),
    "missing_go_to_left": Array(("u1",), (("nodes",),), high=1),
    "value": floats(("nodes", "outputs")),
}
_NODE_COLUMNS = tuple(name for name in TREE_ARRAYS if name not in ("tree_sizes", "value"))


def tree_columns(trees: list[Any]) -> Arrays:
    """The nodes of all trees, one below the other."""
    states = [tree.__getstate__() for tree in trees]
    nodes = np.concatenate([state["nodes"] for state in states])
    missing = [name for name in nodes.dtype.names or () if name not in _NODE_COLUMNS]
    if missing or any(tree.max_n_classes != 1 for tree in trees):
        raise ValueError(f"trees with {missing or 'classes'} are not known")
    columns: Arrays = {"tree_sizes": np.array([len(state["nodes"]) for state in states])}
    for name in _NODE_COLUMNS:
        kind = np.int32 if name in ("left_child", "right_child", "feature") else nodes.dtype[name]
        columns[name] = np.ascontiguousarray(nodes[name], kind)
    columns["value"] = np.concatenate([state["values"][:, :, 0] for state in states])
    return columns


def trees_of(arrays: Arrays, n_features: int, n_outputs: int) -> list[Any]:
    """The trees in these columns; a ValueError unless all of them can be walked safely."""
    sizes: Sizes = {"outputs": n_outputs}
    check_arrays(TREE_ARRAYS, arrays, sizes)
    tree_sizes = arrays["tree_sizes"].astype(np.int64)
    leaf = arrays["left_child"] == -1
    _check_links(arrays["left_child"], arrays["right_child"], leaf, tree_sizes)
    depths = _depths(arrays["left_child"], arrays["right_child"], leaf, tree_sizes)
    _check_features(arrays["feature"], leaf, n_features)
    nodes = np.zeros(len(leaf), NODE_DTYPE)
    for name in _NODE_COLUMNS:
        nodes[name] = arrays[name]
    nodes["feature"][leaf] = -2
    values = np.ascontiguousarray(arrays["value"], np.float64)[:, :, None]
    trees, begin = [], 0
    for size, depth in zip(tree_sizes, depths, strict=True):
        tree = Tree(n_features, np.ones(n_outputs, np.intp), n_outputs)
        own = slice(begin, begin := begin + int(size))
        state = {"max_depth": depth, "node_count": int(size), "nodes": nodes[own].copy(), "values": values[own].copy()}
        tree.__setstate__(state)
        trees.append(tree)
    return trees


# ---------------------------------------------------------------- the trees of HistGradientBoosting

PREDICTOR_ARRAYS: dict[str, Array] = {
    "tree_sizes": integers(("trees",), low=1, high=MOST_NODES),
    "value": floats(("nodes",)),
    "count": Array(("u4",), (("nodes",),)),
    "feature_idx": integers(("nodes",), low=0, high=MOST_NODES),
    "num_threshold": floats(("nodes",), nan=True, infinite=True),
    "missing_go_to_left": Array(("u1",), (("nodes",),), high=1),
    "left": Array(("u4",), (("nodes",),), high=MOST_NODES),
    "right": Array(("u4",), (("nodes",),), high=MOST_NODES),
    "gain": floats(("nodes",), nan=True, infinite=True),
    "depth": Array(("u4",), (("nodes",),), high=MOST_NODES),
    "is_leaf": Array(("u1",), (("nodes",),), high=1),
    "bin_threshold": Array(("u1",), (("nodes",),)),
    "is_categorical": Array(("u1",), (("nodes",),), high=1),
    "bitset_idx": Array(("u4",), (("nodes",),), high=MOST_NODES),
    "bitset_sizes": integers(("trees",), low=0, high=MOST_NODES),
    "binned_bitsets": Array(("u4",), (("bitsets", 8),)),
    "raw_bitsets": Array(("u4",), (("bitsets", 8),)),
}
_PREDICTOR_COLUMNS = PREDICTOR_RECORD_DTYPE.names


def predictor_columns(predictors: list[TreePredictor]) -> Arrays:
    """The nodes of all trees, one below the other, and their sets of categories."""
    if not set(_PREDICTOR_COLUMNS) <= set(PREDICTOR_ARRAYS):
        raise ValueError("the trees of this scikit-learn are not known")
    nodes = np.concatenate([np.empty(0, PREDICTOR_RECORD_DTYPE), *(each.nodes for each in predictors)])
    columns: Arrays = {
        "tree_sizes": np.array([len(each.nodes) for each in predictors], np.int64),
        "bitset_sizes": np.array([len(each.raw_left_cat_bitsets) for each in predictors], np.int64),
    }
    none = np.empty((0, 8), np.uint32)
    columns["binned_bitsets"] = np.concatenate([none, *(each.binned_left_cat_bitsets for each in predictors)])
    columns["raw_bitsets"] = np.concatenate([none, *(each.raw_left_cat_bitsets for each in predictors)])
    for name in _PREDICTOR_COLUMNS:
        kind = np.int32 if name == "feature_idx" else nodes.dtype[name]
        columns[name] = np.ascontiguousarray(nodes[name], kind)
    return columns


def predictors_of(arrays: Arrays, is_categorical: NDArray[np.bool_]) -> list[TreePredictor]:
    """The trees in these columns, for a table whose columns hold categories or not; a ValueError unless all fit."""
    check_arrays(PREDICTOR_ARRAYS, arrays, {})
    tree_sizes, bitset_sizes = (arrays[name].astype(np.int64) for name in ("tree_sizes", "bitset_sizes"))
    leaf = arrays["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, arrays[name].astype(np.int64)) for name in ("left", "right"))
    _check_links(left, right, leaf, tree_sizes)
    _depths(left, right, leaf, tree_sizes)
    _check_features(arrays["feature_idx"], leaf, len(is_categorical))
    by_category = arrays["is_categorical"].astype(bool) & ~leaf
    if not is_categorical[arrays["feature_idx"][by_category]].all():
        raise ValueError("corrupt model file: a tree splits categories of a column that has none.")
    if bitset_sizes.sum() != len(arrays["raw_bitsets"]):
        raise ValueError("corrupt model file: the sets of categories of its trees are incomplete.")
    if (arrays["bitset_idx"] >= np.repeat(bitset_sizes, tree_sizes))[by_category].any():
        raise ValueError("corrupt model file: a tree asks for a set of categories that it does not have.")
    nodes = np.zeros(len(leaf), PREDICTOR_RECORD_DTYPE)
    for name in _PREDICTOR_COLUMNS:
        nodes[name] = arrays[name]
    ends, bitset_ends = np.cumsum(tree_sizes), np.cumsum(bitset_sizes)
    predictors = []
    for k in range(len(tree_sizes)):
        own = slice(ends[k] - tree_sizes[k], ends[k])
        bitsets = slice(bitset_ends[k] - bitset_sizes[k], bitset_ends[k])
        parts = (nodes[own], arrays["binned_bitsets"][bitsets], arrays["raw_bitsets"][bitsets])
        predictors.append(TreePredictor(*(part.copy() for part in parts)))
    return predictors


# ---------------------------------------------------------------- checks


def _check_links(left: Any, right: Any, leaf: NDArray[np.bool_], tree_sizes: NDArray[np.int64]) -> None:
    """Every node but the first of each tree has one parent, which comes before it."""
    if int(tree_sizes.sum()) != len(leaf):
        raise ValueError("corrupt model file: the nodes of its trees are incomplete.")
    begin = np.repeat(np.cumsum(tree_sizes) - tree_sizes, tree_sizes)
    size = np.repeat(tree_sizes, tree_sizes)
    here = np.arange(len(leaf)) - begin
    inner = ~leaf
    children = np.concatenate([(begin + left)[inner], (begin + right)[inner]])
    later = all((((child > here) & (child < size)) | leaf).all() for child in (left, right))
    if not later or (np.asarray(right)[leaf] != -1).any():
        raise ValueError("corrupt model file: a tree leads nowhere.")
    parents = np.bincount(children.astype(np.int64), minlength=len(leaf))
    if (parents != (here > 0)).any():
        raise ValueError("corrupt model file: a node of a tree does not have one parent.")


def _depths(left: Any, right: Any, leaf: NDArray[np.bool_], tree_sizes: NDArray[np.int64]) -> list[int]:
    """The depth of each tree, level by level."""
    begin = np.cumsum(tree_sizes) - tree_sizes
    tree = np.repeat(np.arange(len(tree_sizes)), tree_sizes)
    depths, level = np.zeros(len(tree_sizes), np.int64), begin
    for depth in range(DEEPEST):
        depths[tree[level]] = depth
        inner = level[~leaf[level]]
        if not len(inner):
            return [int(each) for each in depths]
        start = begin[tree[inner]]
        level = np.concatenate([start + np.asarray(left)[inner], start + np.asarray(right)[inner]])
    raise ValueError(f"corrupt model file: a tree is deeper than {DEEPEST:,} levels.")


def _check_features(feature: Any, leaf: NDArray[np.bool_], n_features: int) -> None:
    used = np.asarray(feature)[~leaf]
    if len(used) and (used.min() < 0 or used.max() >= n_features):
        raise ValueError("corrupt model file: a tree splits a column that does not exist.")
