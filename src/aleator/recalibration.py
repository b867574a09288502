"""Correcting the expected loss on rows that were held out, so that its scale is right where it is used.

A correction is a curve from the expected loss to the corrected one: straight between knots, in proportion beyond them.
One knot is a single factor, mean realised over mean expected loss. Several are an isotonic regression of realised on
expected losses, through the means of bins of equally many rows, which keeps the order of the rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

Floats = NDArray[np.float64]

ROWS_OF_A_BIN = 25
METHODS = ("factor", "isotonic")


@dataclass(frozen=True)
class Correction:
    """Knots: an expected loss `before` (J,), rising, becomes `after` (J,), never falling."""

    before: Floats
    after: Floats

    def __call__(self, expected: Floats) -> Floats:
        """The corrected expected loss."""
        inside = np.clip(expected, self.before[0], self.before[-1])
        beyond = np.divide(expected, inside, out=np.ones_like(expected), where=inside > 0)
        return np.interp(inside, self.before, self.after) * beyond


def learn(realised: Floats, expected: Floats, method: str) -> Correction:
    """The correction that held-out rows with these losses (n,) ask for."""
    if not expected.any():
        raise ValueError("no loss at all is expected of the rows to recalibrate on; there is nothing to correct.")
    order = np.argsort(expected, kind="stable")
    bins = np.array_split(order, max(1, len(order) // ROWS_OF_A_BIN) if method == "isotonic" else 1)
    means = np.array([expected[rows].mean() for rows in bins])
    before, bin_of = np.unique(means, return_inverse=True)  # bins with the same mean are one
    size = np.bincount(bin_of, [len(rows) for rows in bins])
    after = np.bincount(bin_of, [realised[rows].sum() for rows in bins]) / size
    return Correction(before, IsotonicRegression().fit_transform(before, after, sample_weight=size))
