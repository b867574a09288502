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
        return np.interp(inside, self.before, self.after) * (expected / inside)


def learn(realised: Floats, expected: Floats, method: str) -> Correction:
    """The correction that held-out rows with these losses (n,) ask for."""
    order = np.argsort(expected, kind="stable")
    n_bins = max(1, len(order) // ROWS_OF_A_BIN) if method == "isotonic" else 1
    bins = np.array_split(order, n_bins)
    before = np.array([expected[rows].mean() for rows in bins])
    after = np.array([realised[rows].mean() for rows in bins])
    distinct = np.append(True, np.diff(before) > 0)
    if not distinct.all():
        return learn(realised, expected, "factor")
    if n_bins > 1:
        after = IsotonicRegression().fit_transform(before, after)
    if before[0] <= 0 or after[0] <= 0:
        raise ValueError("the losses of the rows to recalibrate on, realised or expected, are zero.")
    return Correction(before, after)
