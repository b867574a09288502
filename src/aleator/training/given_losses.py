"""What a quantifier of given losses learns from, whatever kind of learner it is.

A loss beyond what the tail of the others makes plausible is learned as the largest plausible one. Losses are measured
in units of their mean, so that lam means the same for every loss and unit.
"""

from dataclasses import dataclass

import numpy as np

from aleator.array_types import AnyFloats, Floats, Integers, Rows
from aleator.preprocessing import outliers
from aleator.preprocessing.standardisation import Scaling, fit_scaling, weighted_set


@dataclass(frozen=True)
class GivenLosses:
    """A table Z (n, D) with losses L (n, Q) of predictions made by regressors that had not seen the rows.

    Attributes
    ----------
    rows : the distinct rows with weight, sorted; all arrays but this one are in the order of Z.
    weight : (n,) with mean 1 over `rows`.
    fold : (n,) rows of one number are held out together.
    plausible : (n, Q) the losses, clipped to what is plausible.
    unit : (Q,) the mean plausible loss.
    """

    Z: AnyFloats
    L: Floats
    rows: Rows
    weight: Floats
    fold: Integers
    plausible: Floats
    unit: Floats

    def in_units(self) -> Floats:
        """The plausible losses (n, Q) over their mean."""
        return self.plausible / np.where(self.unit > 0, self.unit, 1.0)

    def scaling(self, method: str) -> Scaling:
        """How networks see the table."""
        return fit_scaling(self.Z, self.plausible, self.rows, self.weight, method)


def given_losses(Z: AnyFloats, L: Floats, weight: Floats, fold: Integers) -> GivenLosses:
    """Rows Z (n, D) with losses L (n, Q), weights (n,) and folds (n,), as quantifiers learn from them."""
    rows, weight = weighted_set(Z, L, weight)
    plausible = np.minimum(L, [outliers.plausible_maximum(losses, weight[rows]) for losses in L[rows].T])
    unit = np.average(plausible[rows], axis=0, weights=weight[rows])
    return GivenLosses(Z, L, rows, weight, fold, plausible, unit)
