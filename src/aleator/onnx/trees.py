"""Trees as ONNX, by hand: forests and gradient boosting models of scikit-learn's, with thresholds in float64.

skl2onnx rounds thresholds to float32, and cannot take a HistGradientBoosting. ONNX sums the leaves in float32, so what
is common to all rows, the mean of a forest's leaves or the first guess of a gradient boosting model, is added outside.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.ensemble._forest import ForestRegressor
from sklearn.tree import DecisionTreeRegressor

from aleator.onnx.graph import Value, beside, cast, exp


@dataclass(frozen=True)
class Nodes:
    """A tree, node by node: where a row goes whose feature is at most the threshold, or missing, or else; leaves."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    leaf: NDArray[np.bool_]
    value: NDArray[np.float64]


def predicted(estimator: Any, X: Value) -> Value | None:
    """The prediction (n, 1) of a fitted ensemble of trees for one target; None if it is something else."""
    if isinstance(estimator, HistGradientBoostingRegressor):
        if estimator.is_categorical_ is not None or estimator.loss not in (
            "squared_error",
            "absolute_error",
            "quantile",
        ):
            return None
        return _boosted(estimator, X)
    if isinstance(estimator, DecisionTreeRegressor):
        members = [estimator]
    elif isinstance(estimator, ForestRegressor):
        members = estimator.estimators_
    else:
        return None
    if estimator.n_outputs_ != 1:
        return None
    trees = [_of_tree(member.tree_) for member in members]
    middle = float(np.mean([tree.value[tree.leaf].mean() for tree in trees]))
    rows = cast(cast(X, np.float32), np.float64)  # as these trees read them
    return _sum(rows, [_around(tree, middle) for tree in trees]) * (1 / len(trees)) + middle


def expected_losses(members: tuple[tuple[HistGradientBoostingRegressor, ...], ...], Z: Value) -> Value:
    """The mean (n, Q) of what the members' models expect, whose trees add up to a logarithm."""
    each = [beside(*(exp(_boosted(model, Z)) for model in own)) for own in members]
    total: Value = sum(each[1:], each[0]) * (1 / len(each))
    return total


def _boosted(estimator: HistGradientBoostingRegressor, X: Value) -> Value:
    """The sum (n, 1) of the trees of a gradient boosting model and its first guess."""
    trees = [_of_boosting(stage[0].nodes) for stage in estimator._predictors]
    return _sum(X, trees) + float(np.ravel(estimator._baseline_prediction)[0])


def _of_tree(tree: Any) -> Nodes:
    nodes = tree.__getstate__()["nodes"]
    return Nodes(
        nodes["left_child"].astype(np.int64),
        nodes["right_child"].astype(np.int64),
        nodes["feature"].astype(np.int64),
        nodes["threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(bool),
        nodes["left_child"] == -1,
        tree.value[:, 0, 0].astype(np.float64),
    )


def _of_boosting(nodes: Any) -> Nodes:
    return Nodes(
        nodes["left"].astype(np.int64),
        nodes["right"].astype(np.int64),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(bool),
        nodes["is_leaf"].astype(bool),
        nodes["value"].astype(np.float64),
    )


def _around(tree: Nodes, middle: float) -> Nodes:
    return Nodes(tree.left, tree.right, tree.feature, tree.threshold, tree.missing_left, tree.leaf, tree.value - middle)


def _sum(X: Value, trees: list[Nodes]) -> Value:
    """The sum over trees of the leaves that rows end in (n, 1)."""
    sizes = [len(tree.leaf) for tree in trees]
    number = np.repeat(np.arange(len(trees)), sizes)
    node = np.concatenate([np.arange(size) for size in sizes])
    leaf = np.concatenate([tree.leaf for tree in trees])

    def of_inner(name: str) -> NDArray[Any]:
        return np.where(leaf, 0, np.concatenate([getattr(tree, name) for tree in trees]))

    threshold = numpy_helper.from_array(of_inner("threshold").astype(np.float64), "thresholds")
    weights = numpy_helper.from_array(np.concatenate([tree.value[tree.leaf] for tree in trees]), "leaves")
    total = X.graph.node(
        "TreeEnsembleRegressor",
        X,
        dtype=np.float32,
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=number.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_featureids=of_inner("feature").tolist(),
        nodes_values_as_tensor=threshold,
        nodes_truenodeids=of_inner("left").tolist(),
        nodes_falsenodeids=of_inner("right").tolist(),
        nodes_missing_value_tracks_true=of_inner("missing_left").astype(int).tolist(),
        target_treeids=number[leaf].tolist(),
        target_nodeids=node[leaf].tolist(),
        target_ids=np.zeros(int(leaf.sum()), int).tolist(),
        target_weights_as_tensor=weights,
    )
    return cast(total, np.float64)
