"""The range of xi on the rows a member has learned from, to which xi is clipped on new rows.

Beyond its training rows a network continues in straight lines, and the expected loss, an exponential of xi, goes to
0 or to infinity with it.
"""

from collections.abc import Sequence

import numpy as np

from aleator.array_types import Floats32, Rows
from aleator.engine import Data, Network, Plan, forward
from aleator.preprocessing.standardisation import ROWS_PER_BLOCK
from aleator.training import defaults


def xi_range(network: Network, params: Floats32, data: Data, rows: Rows) -> Floats32:
    """Least and largest xi (2, Q) of one member on `rows`."""
    found = []
    for lo in range(0, len(rows), ROWS_PER_BLOCK):
        xi = forward(network, params, data.X[rows[lo : lo + ROWS_PER_BLOCK]], data.shift, data.scale, data.clip)[1]
        found.append((xi.min(axis=0), xi.max(axis=0)))
    return np.stack([np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)])


def extended_xi_ranges(
    plan: Plan, params: Sequence[Floats32], training_rows: Sequence[tuple[Data, Rows]]
) -> list[Floats32] | None:
    """The range (2, Q) of each member's xi, wide enough for expected losses `defaults.BEYOND` times larger or smaller.

    That is exact for the sigmoid, and an upper bound for softplus. None for objectives other than the joint loss.
    """
    if plan.objective.level is None:
        return None
    margin = np.array([[-1], [1]], np.float32) * np.float32(np.log(defaults.BEYOND))
    return [xi_range(plan.network, own, *rows) + margin for own, rows in zip(params, training_rows, strict=True)]
