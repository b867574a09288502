"""A LossQuantifier as a model file: the quantifiers and their view of the table, and the regressor where that is safe.

A fitted regressor can be any object, and most file formats for it execute code when read. The file holds the
regressor if `third_party.py` lists its type. Otherwise the user stores it and passes it to `load(path, estimator=...)`;
the file has its predictions for a few made-up rows, so that another regressor is refused.
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from aleator import couplings
from aleator.engine import network
from aleator.model_files import scikit_learn, third_party
from aleator.model_files.file_format import Arrays
from aleator.model_files.object_records import flattened, nested
from aleator.model_files.serialization import (
    Facts,
    check_width,
    pack,
    pack_encoder,
    pack_scaling,
    under,
    unpack,
    unpack_scaling,
    within,
)
from aleator.preprocessing.table_encoder import TableEncoder
from aleator.preprocessing.validation import regressor_predictions
from aleator.training.loss_network import LossNetworks
from aleator.training.loss_trees import LossTrees
from aleator.training.quantifier import LossModel

MOST_LOGARITHM = 700.0  # of an expected loss
_PROBES = np.array([[-1.0], [0.0], [1.0]])  # distances of made-up rows from the mean of each column, in spreads


def pack_given(model: Any) -> tuple[Facts, Arrays]:
    held_elsewhere = ("estimator", "encoder", "cv")
    plain = {name: value for name, value in model.settings_.items() if name not in held_elsewhere}
    facts, arrays = pack(model, plain)
    quantifiers = model.quantifiers_
    networks = quantifiers.networks
    if networks is not None:
        arrays |= {"params": networks.params, "lams": networks.lams, "reach": networks.xi_ranges}
    arrays |= {"unit": quantifiers.unit, "n_epochs_": model.n_epochs_}
    arrays |= pack_scaling(quantifiers.scaling)
    arrays |= {"prediction_range_": model.prediction_range_, "fold_share_": model.fold_share_}
    arrays["out_of_fold"] = model.out_of_fold_.to_numpy(np.float64)
    facts |= {
        "n_features": getattr(model, "n_features_in_", None),
        "out_of_fold": list(model.out_of_fold_.columns),
        "regressor": type(model.estimator_).__name__,
        "linear": networks is not None and len(networks.network.matrices) == 1,
        "tree_share": float(quantifiers.tree_share),
    }
    if quantifiers.trees is not None:
        facts["trees"], tree_arrays = _pack_trees(quantifiers.trees)
        arrays |= under("trees", tree_arrays)
    facts["encoder"], encoder_arrays = pack_encoder(model.encoder_)
    regressor = third_party.pack(model.estimator_)
    if regressor is not None:
        facts["estimator"], regressor_arrays = regressor
        arrays |= under("estimator", regressor_arrays)
    return facts, arrays | under("encoder", encoder_arrays) | _probes(model)


def unpack_given(kind: type[Any], facts: Facts, arrays: Arrays, estimator: Any = None) -> Any:
    given = estimator is not None
    if not given:
        if "estimator" not in facts:
            raise ValueError(
                f"the file holds the quantifier of a {facts['regressor']}, not that regressor itself, which no file "
                "can hold safely: keep it in its own way, and call load(path, estimator=...) with it."
            )
        estimator = third_party.unpack(facts["estimator"], within("estimator", arrays))
    encoder = third_party.unpack(facts["encoder"], within("encoder", arrays))
    own = {} if isinstance(encoder, TableEncoder) else {"encoder": encoder}
    model = unpack(kind, facts, arrays, estimator=estimator, cv="prefit", **own)
    Q = model.n_outputs_ if model.per_output else 1
    scaling = unpack_scaling(arrays)
    D = len(scaling.x_mean)
    hidden = () if facts.get("linear") else tuple(model.hidden)
    net = network(D, hidden, n_outputs=0, n_quantifiers=Q, activation=model.activation)
    sizes = {"outputs": model.n_outputs_, "losses": Q, "members": model.n_members, "inputs": D, "weights": net.n_params}
    model._layout.check_arrays(arrays, sizes)
    share = float(facts.get("tree_share", 0.0))  # not in earlier files
    networks = trees = None
    if share == 0 and ("trees" in facts or within("trees", arrays)):
        raise ValueError("corrupt model file: it has trees, and their share is 0.")
    if share == 1 and "params" in arrays:
        raise ValueError("corrupt model file: it has networks, and the share of the trees is 1.")
    if share < 1:
        missing = [name for name in ("params", "lams", "reach") if name not in arrays]
        if missing:
            raise ValueError(f"corrupt model file: the array {missing[0]} is missing.")
        coupling = couplings.get(model.coupling)
        networks = LossNetworks(
            net, coupling, scaling, arrays["unit"], arrays["params"], arrays["lams"], arrays["reach"]
        )
    if share > 0:
        trees = _unpack_trees(facts.get("trees"), within("trees", arrays), arrays["unit"], D, model.n_members)
    model.quantifiers_ = LossModel(scaling, arrays["unit"], networks, trees, share)
    model.n_epochs_ = arrays["n_epochs_"]
    model.fold_share_ = arrays.get("fold_share_", np.ones(Q))  # not in earlier files
    endless = np.tile([[-np.inf], [np.inf]], model.n_outputs_)
    model.prediction_range_ = arrays.get("prediction_range_", endless)  # not in earlier files
    if not (np.isfinite(model.prediction_range_).all() or np.array_equal(model.prediction_range_, endless)):
        raise ValueError("corrupt model file: prediction_range_ must be two rising numbers for each output.")
    model.out_of_fold_ = pd.DataFrame(arrays["out_of_fold"], columns=facts["out_of_fold"]).astype(
        {"row": int, "fold": int}
    )
    model.estimator_, model.encoder_ = estimator, encoder
    check_width(encoder, D - (model.n_outputs_ if model.use_prediction else 0))
    if facts["n_features"] is not None:
        model.n_features_in_ = facts["n_features"]
    if given:  # nothing that comes from the file predicts while it is loaded
        _check_probes(model, arrays)
    return model


# ---------------------------------------------------------------- trees


def _pack_trees(trees: LossTrees) -> tuple[list[list[Facts]], Arrays]:
    """The gradient boosting models of each member, as records of scikit-learn's estimators are."""
    facts: list[list[Facts]] = []
    arrays: Arrays = {}
    for k, models in enumerate(trees.members):
        facts.append([])
        for q, model in enumerate(models):
            own, own_arrays = flattened(scikit_learn.record(model))
            facts[-1].append(own)
            arrays |= under(f"{k} {q}", own_arrays)
    return facts, arrays


def _unpack_trees(facts: Any, arrays: Arrays, unit: Any, n_inputs: int, n_members: int) -> LossTrees:
    if not (isinstance(facts, list) and all(isinstance(each, list) for each in facts)):
        raise ValueError("corrupt model file: its trees are not described.")
    if len(facts) != n_members:
        raise ValueError(f"corrupt model file: it has trees of {len(facts)} members, of {n_members}.")
    if any(len(each) != len(unit) for each in facts):
        raise ValueError("corrupt model file: each member needs trees for each loss.")
    names = {f"{k} {q}" for k, each in enumerate(facts) for q in range(len(each))}
    unknown = [name for name in arrays if name.partition("/")[0] not in names]
    if unknown:
        raise ValueError(f"corrupt model file: the array {unknown[0]!r:.80} belongs to no tree.")
    members = [
        tuple(scikit_learn.rebuilt(nested(own, within(f"{k} {q}", arrays))) for q, own in enumerate(each))
        for k, each in enumerate(facts)
    ]
    for own in members:
        for model, size in zip(own, unit, strict=True):
            _check_model(model, n_inputs, float(size))
    return LossTrees(tuple(members), unit)


def _check_model(model: Any, n_inputs: int, unit: float) -> None:
    """Raise a ValueError unless it predicts finite expected losses, in this unit, from so many inputs."""
    fine = (
        isinstance(model, HistGradientBoostingRegressor)
        and model.loss == "gamma"
        and model.n_features_in_ == n_inputs
        and model.is_categorical_ is None
    )
    if not fine:
        raise ValueError("corrupt model file: its trees must be gradient boosting models of the gamma deviance.")
    highest = float(np.ravel(model._baseline_prediction).max()) + np.log(max(unit, 1.0))
    highest += sum(max(0.0, float(stage[0].nodes["value"].max())) for stage in model._predictors)
    if not highest <= MOST_LOGARITHM:
        raise ValueError("corrupt model file: its trees could expect an infinite loss.")


# ---------------------------------------------------------------- the right regressor


def _probes(model: Any) -> Arrays:
    """Predictions of the regressor at made-up rows, for tables of numbers that are not codes."""
    rows = _probe_rows(model)
    if rows is None:
        return {}
    try:
        return {"probes": regressor_predictions(model.estimator_, rows, len(_PROBES), model.n_outputs_)}
    except Exception:  # a regressor may refuse made-up rows with any error
        return {}


def _probe_rows(model: Any) -> Any:
    if getattr(model.encoder_, "kinds_", None) != []:
        return None
    scaling, D = model.quantifiers_.scaling, model.n_features_in_
    rows = scaling.x_mean[:D] + _PROBES * scaling.x_spread[:D]
    names = getattr(model, "feature_names_in_", None)
    return rows if names is None else pd.DataFrame(rows, columns=names)


def _check_probes(model: Any, arrays: Arrays) -> None:
    if "probes" not in arrays:
        warnings.warn(
            "cannot check whether this is the estimator the file was made with: its table is not all numbers.",
            stacklevel=5,
        )
        return
    predicted = regressor_predictions(model.estimator_, _probe_rows(model), len(_PROBES), model.n_outputs_)
    then = arrays["probes"]
    if not np.allclose(predicted, then, rtol=1e-4, atol=1e-6 * np.abs(then).max()):
        row, output = np.unravel_index(np.argmax(np.abs(predicted - then)), predicted.shape)
        raise ValueError(
            "the estimator is not the one the file was made with: at a typical row it predicts "
            f"{predicted[row, output]:.6g}, and the other predicted {then[row, output]:.6g}."
        )
