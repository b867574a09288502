"""A LossQuantifier as a model file: the quantifiers and their view of the table, and the regressor where that is safe.

A fitted regressor can be anything, and most ways of writing it down execute code when read. The file holds it if skops
(the extra `files`) can, without trusting any type that skops does not trust by itself: linear models, support vectors,
pipelines of such. Otherwise the regressor stays where its owner keeps it, and goes to `load(path, estimator=...)`; the
file remembers what it predicts at a few made-up rows, so that another one is not taken for it.
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import couplings
from aleator.bundle import Arrays
from aleator.engine import network
from aleator.estimators.crossfit import predictions
from aleator.estimators.encoding import TableEncoder, imputer
from aleator.estimators.quantifiers import Quantifiers
from aleator.estimators.saving import SCALING, Facts, check_shapes, check_weights, pack, unpack
from aleator.estimators.table import Scaling

_TRUSTED = ["numpy.dtype"]  # of strings, in lists of categories
_PROBES = np.array([[-1.0], [0.0], [1.0]])  # spreads from the mean of each column


def pack_given(model: Any) -> tuple[Facts, Arrays]:
    held_elsewhere = ("estimator", "encoder", "cv")
    plain = {name: value for name, value in model.settings_.items() if name not in held_elsewhere}
    facts, arrays = pack(model, plain)
    quantifiers = model.quantifiers_
    arrays |= {"params": quantifiers.params, "lams": quantifiers.lams, "reach": quantifiers.reach}
    arrays |= {"unit": quantifiers.unit, "n_epochs_": model.n_epochs_, "loss_scale_": model.loss_scale_}
    arrays |= {name: getattr(quantifiers.scaling, name) for name in SCALING}
    arrays["out_of_fold"] = model.out_of_fold_.to_numpy(np.float64)
    facts |= {
        "n_features": getattr(model, "n_features_in_", None),
        "out_of_fold": list(model.out_of_fold_.columns),
        "regressor": type(model.estimator_).__name__,
    }
    encoder_facts, encoder_arrays = _pack_encoder(model.encoder_)
    regressor = _written(model.estimator_)
    arrays |= encoder_arrays | ({} if regressor is None else {"regressor": regressor}) | _probes(model)
    return facts | encoder_facts, arrays


def unpack_given(kind: type[Any], facts: Facts, arrays: Arrays, estimator: Any = None) -> Any:
    if estimator is None:
        if "regressor" not in arrays:
            raise ValueError(
                f"the file holds the quantifier of a {facts['regressor']}, not that regressor itself (trees, boosters "
                "and functions no file can hold safely, others need skops): keep it in its own way, and call "
                "load(path, estimator=...) with it."
            )
        estimator = _read(arrays["regressor"])
    encoder = _unpack_encoder(facts, arrays)
    own = {} if isinstance(encoder, TableEncoder) else {"encoder": encoder}
    model = unpack(kind, facts, arrays, estimator=estimator, cv="prefit", **own)
    scaling = Scaling(*(arrays[name] for name in SCALING))
    D, Q = len(scaling.x_mean), model.n_outputs_ if model.per_output else 1
    net = network(D, tuple(model.hidden), n_outputs=0, n_quantifiers=Q, activation=model.activation)
    K = model.n_members
    check_weights(arrays["params"], K)
    check_shapes(
        {
            "params": (arrays["params"], np.float32, (K, net.n_params)),
            "lams": (arrays["lams"], np.float64, (K,)),
            "reach": (arrays["reach"], np.float32, (K, 2, Q)),
            "unit": (arrays["unit"], np.float64, (Q,)),
            "n_epochs_": (arrays["n_epochs_"], np.int64, (K,)),
            "loss_scale_": (arrays["loss_scale_"], np.float64, (Q,)),
            "x_mean": (scaling.x_mean, np.float64, (D,)),
            "x_spread": (scaling.x_spread, np.float64, (D,)),
            "y_mean": (scaling.y_mean, np.float64, (Q,)),
            "y_spread": (scaling.y_spread, np.float64, (Q,)),
        }
    )
    model.quantifiers_ = Quantifiers(
        net, couplings.get(model.coupling), scaling, arrays["unit"], arrays["params"], arrays["lams"], arrays["reach"]
    )
    model.n_epochs_, model.loss_scale_ = arrays["n_epochs_"], arrays["loss_scale_"]
    model.out_of_fold_ = pd.DataFrame(arrays["out_of_fold"], columns=facts["out_of_fold"]).astype(
        {"row": int, "fold": int}
    )
    model.estimator_, model.encoder_ = estimator, encoder
    if facts["kinds"] == []:
        n, gaps = facts["n_features"], arrays["missing"]
        width = n + len(gaps) + (model.n_outputs_ if model.use_prediction else 0)
        check_shapes(
            {"medians": (arrays["medians"], np.float64, (n,)), "x_mean": (scaling.x_mean, np.float64, (width,))}
        )
    if facts["n_features"] is not None:
        model.n_features_in_ = facts["n_features"]
    _check_probes(model, arrays)
    return model


# ---------------------------------------------------------------- the view of the table


def _pack_encoder(encoder: Any) -> tuple[Facts, Arrays]:
    if isinstance(encoder, TableEncoder) and not encoder.kinds_:
        return {"kinds": []}, {
            "medians": encoder.parts_.statistics_,
            "missing": np.asarray(encoder.parts_.indicator_.features_, np.int64),
        }
    written = _written(encoder.parts_ if isinstance(encoder, TableEncoder) else encoder)
    if written is None:
        raise ValueError(
            f"a model file cannot hold the encoder {type(encoder).__name__} safely."
            if not isinstance(encoder, TableEncoder)
            else "text, categories and dates need skops to be saved: pip install 'aleator[files]'."
        )
    return {"kinds": encoder.kinds_ if isinstance(encoder, TableEncoder) else None}, {"encoder": written}


def _unpack_encoder(facts: Facts, arrays: Arrays) -> Any:
    if facts["kinds"] is None:
        return _read(arrays["encoder"])
    encoder = TableEncoder()
    encoder.kinds_ = facts["kinds"]
    encoder.parts_ = _read(arrays["encoder"]) if encoder.kinds_ else imputer(arrays["medians"], arrays["missing"])
    return encoder


# ---------------------------------------------------------------- objects of scikit-learn's


def _written(model: Any) -> NDArray[np.uint8] | None:
    """A fitted object as bytes that can be read without trusting anything; None if it is not of that kind."""
    try:
        from skops import io
    except ImportError:
        return None
    try:
        content = io.dumps(model)
        unknown = set(io.get_untrusted_types(data=content)) - set(_TRUSTED)
    except Exception:  # whatever an object of unknown kind may raise when it is taken apart
        return None
    return None if unknown else np.frombuffer(content, np.uint8)


def _read(content: NDArray[np.uint8]) -> Any:
    try:
        from skops import io
    except ImportError as error:
        raise ImportError(
            "the file holds parts of scikit-learn; to read them: pip install 'aleator[files]'."
        ) from error
    try:
        return io.loads(content.tobytes(), trusted=_TRUSTED)
    except Exception as error:
        raise ValueError(f"the regressor or the encoder in the file cannot be read: {error}.") from error


# ---------------------------------------------------------------- the right regressor


def _probes(model: Any) -> Arrays:
    """What the regressor predicts at made-up rows, where it does: in tables of numbers that are not codes."""
    rows = _probe_rows(model)
    if rows is None:
        return {}
    try:
        return {"probes": predictions(model.estimator_, rows, len(_PROBES), model.n_outputs_)}
    except Exception:  # a row that never was may be refused in any way
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
        if "regressor" not in arrays:
            warnings.warn(
                "whether this is the estimator the file was made with cannot be told: its table is not all numbers.",
                stacklevel=5,
            )
        return
    said = predictions(model.estimator_, _probe_rows(model), len(_PROBES), model.n_outputs_)
    then = arrays["probes"]
    if then.shape != said.shape or not np.allclose(said, then, rtol=1e-4, atol=1e-6 * np.abs(then).max()):
        row, output = (
            np.unravel_index(np.argmax(np.abs(said - then)), said.shape) if then.shape == said.shape else (0, 0)
        )
        raise ValueError(
            "the estimator is not the one the file was made with: at a typical row it predicts "
            f"{said[row, output]:.6g}, and the other predicted {then[row, output]:.6g}."
        )
