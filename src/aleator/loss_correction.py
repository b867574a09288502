"""From the expected loss that networks predict to the one that is returned: scale, limits, and `recalibrate`."""

from dataclasses import dataclass

import numpy as np

from aleator.array_types import Floats
from aleator.recalibration import Correction


@dataclass(frozen=True, eq=False)
class LossCorrection:
    """expected = curve(clip(scale * raw, limits)), for each of Q quantifiers.

    Attributes
    ----------
    scale : (Q,) mean realised over mean predicted loss on held-out rows; 1 where none were held out.
    limits : (2, Q) the smallest and the largest expected loss that held-out rows support; None without such rows.
    curves : for each quantifier what `recalibrate` learned; None before it was called.
    """

    scale: Floats
    limits: Floats | None = None
    curves: tuple[Correction, ...] | None = None

    def __call__(self, raw: Floats) -> Floats:
        """The expected loss (n, Q)."""
        expected = self.within_limits(self.scale * raw)
        if self.curves is None:
            return expected
        return np.column_stack([curve(column) for curve, column in zip(self.curves, expected.T, strict=True)])

    def within_limits(self, expected: Floats) -> Floats:
        """The expected loss (n, Q), clipped to the limits."""
        return expected if self.limits is None else np.clip(expected, *self.limits)
