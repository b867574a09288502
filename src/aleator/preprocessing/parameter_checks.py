"""Checks of the parameters of estimators, with errors that name the parameter and what it must be."""

import math
import numbers
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from aleator.array_types import Floats
from aleator.engine import ACTIVATIONS, OPTIMIZERS
from aleator.preprocessing.standardisation import SCALINGS
from aleator.suggestions import suggestion

Rule = tuple[Callable[[Any], bool], str]


def is_number(value: Any) -> bool:
    """Whether the value is a finite number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: Any, least: int) -> bool:
    """Whether the value is a whole number, at least `least`."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def _flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _units(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(is_whole(units, 1) for units in value)


def _prior(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(is_number(v) and v > 0 for v in value)


# What each parameter must be. An estimator is checked against the rules for the parameters it has.
RULES: dict[str, Rule] = {
    "lam": (lambda v: v == "auto" or callable(v) or (is_number(v) and v > 0),
            "'auto', a positive number or a function of the epoch"),
    "hidden": (_units, "a tuple of positive whole numbers, one for each hidden layer"),
    "shared_layers": (lambda v: is_whole(v, 0), "a whole number >= 0"),
    "dropout": (lambda v: is_number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "learning_rate": (lambda v: callable(v) or (is_number(v) and v > 0),
                      "a positive number or a function of the epoch"),
    "momentum": (lambda v: is_number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "l2": (lambda v: is_number(v) and v >= 0, "a number >= 0"),
    "clip": (lambda v: v is None or (is_number(v) and v > 0), "a positive number or None"),
    "epochs": (lambda v: v is None or is_whole(v, 1), "a whole number >= 1 or None"),
    "batch_size": (lambda v: is_whole(v, 1), "a whole number >= 1"),
    "validation_fraction": (lambda v: is_number(v) and 0 < v < 1, "a number strictly between 0 and 1"),
    "patience": (lambda v: is_whole(v, 1), "a whole number >= 1"),
    "per_output": (_flag, "True or False"),
    "early_stopping": (_flag, "True or False"),
    "rescale": (_flag, "True or False"),
    "verbose": (_flag, "True or False"),
    "n_members": (lambda v: is_whole(v, 1), "a whole number >= 1"),
    "rounds": (lambda v: is_whole(v, 1), "a whole number >= 1"),
    "use_prediction": (_flag, "True or False"),
    "beta": (lambda v: is_number(v) and 0 <= v <= 1, "a number in [0, 1]"),
    "n_passes": (lambda v: is_whole(v, 1), "a whole number >= 1"),
    "length_scale": (lambda v: is_number(v) and v > 0, "a positive number"),
    "n_particles": (lambda v: is_whole(v, 1), "a whole number >= 1"),
    "iterations": (lambda v: is_whole(v, 1), "a whole number >= 1"),
    "decay": (lambda v: is_number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "fudge": (lambda v: is_number(v) and v > 0, "a positive number"),
    "held_out": (lambda v: is_number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "shuffle": (_flag, "True or False"),
    "prior": (_prior, "a tuple of two positive numbers, shape and rate"),
    "n_jobs": (lambda v: v is None or (is_whole(abs(v), 1) if isinstance(v, numbers.Integral) else False),
               "a whole number other than 0, or None"),
}  # fmt: skip
NAMES: dict[str, Iterable[str]] = {
    "activation": ACTIVATIONS,
    "optimizer": OPTIMIZERS,
    "scaling": SCALINGS,
    "noise": ("held-out", "formula"),
    "quantifier": ("auto", "network", "trees", "mixed"),
}


def check_parameters(estimator: BaseEstimator) -> None:
    """Raise a ValueError for the first parameter of an estimator that breaks its rule."""
    params = estimator.get_params(deep=False)
    for name, (fine, text) in RULES.items():
        by_default = getattr(type(estimator), name, None)
        if name in params and params[name] is not by_default and not fine(params[name]):
            or_none = " or None" if by_default is None and not text.endswith("None") else ""
            raise ValueError(f"{name} must be {text}{or_none}, got {params[name]!r}.")
    for name, known in NAMES.items():
        if name in params and not (isinstance(params[name], str) and params[name] in known):
            raise ValueError(f"unknown {name} {params[name]!r}{suggestion(str(params[name]), known)}")
    if "shared_layers" in params and params["shared_layers"] > len(params["hidden"]):
        raise ValueError(
            f"shared_layers must be at most the number of hidden layers, {len(params['hidden'])}, "
            f"got {params['shared_layers']}."
        )


def schedule(name: str, value: Any, epochs: int) -> Floats:
    """A number, or a function of the epoch counted from 0, as one positive value for each epoch."""
    if not callable(value):
        return np.full(epochs, float(value))
    values = np.empty(epochs)
    for epoch in range(epochs):
        try:
            at_epoch = value(epoch)
        except (TypeError, ArithmeticError) as error:
            raise ValueError(f"{name} must be a function of the epoch, but {name}({epoch}) raises: {error}.") from error
        if not (is_number(at_epoch) and at_epoch > 0):
            raise ValueError(f"{name} must be positive at every epoch, but {name}({epoch}) is {at_epoch!r}.")
        values[epoch] = at_epoch
    return values


def increasing(name: str, values: Any) -> list[int]:
    """Whole numbers from 1 on, each larger than the one before."""
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not found or not all(is_whole(v, 1) for v in found) or any(b <= a for a, b in pairwise(found)):
        raise ValueError(f"{name} must be increasing whole numbers >= 1, got {values!r}.")
    return [int(v) for v in found]
