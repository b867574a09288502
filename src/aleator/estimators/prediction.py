"""Predictions with their uncertainty, in the units of the target and of the loss."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from aleator import losses
from aleator.array_types import Floats
from aleator.losses import Cost, Loss


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions and their expected losses, in the units of the target and of the loss.

    Attributes
    ----------
    prediction : ndarray of shape (n,) or (n, m)
        Predictions: a mean for the squared loss, a median for the absolute loss, a quantile for the pinball loss.
    expected_loss : ndarray of shape (n,) or (n, m)
        Expected losses, the sum of the next two. (n, m) with a quantifier for each output.
    aleatoric : ndarray
        The part that the members of an ensemble agree on: the noise of the data and errors that all members share.
    epistemic : ndarray
        The part that comes from the disagreement of the members; 0 without an ensemble.
    loss : Loss or Cost
        The loss that is expected.
    index : Index or None
        The index of the frame that the rows came in; None for arrays.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from aleator import LossQuantifier
    >>> X, y = load_diabetes(return_X_y=True)
    >>> result = LossQuantifier(Ridge()).fit(X, y).predict_uncertainty(X[:3])
    >>> list(result.to_frame())
    ['prediction', 'expected_loss', 'std', 'aleatoric', 'epistemic']
    """

    prediction: Floats
    expected_loss: Floats
    aleatoric: Floats
    epistemic: Floats
    loss: Loss | Cost = losses.squared
    index: pd.Index | None = None

    @property
    def std(self) -> Floats:
        """Standard deviation of the target around the prediction: the root of the expected squared loss."""
        if not self._has_std:
            raise ValueError(
                f"std belongs to the squared loss; this model was trained with the {self.loss.name} loss."
                if not losses.is_squared(self.loss)
                else "one quantifier for all outputs gives no standard deviation of each: set per_output=True."
            )
        return np.sqrt(self.expected_loss)

    @property
    def _has_std(self) -> bool:
        return losses.is_squared(self.loss) and self.prediction.shape == self.expected_loss.shape

    def to_frame(self, index: pd.Index | None = None) -> pd.DataFrame:
        """Make a table with a row for each prediction.

        Parameters
        ----------
        index : Index, default=None
            Index of the table. None takes that of the frame that the rows came in.

        Returns
        -------
        DataFrame
            Columns prediction, expected_loss, std (squared loss), aleatoric, epistemic; with several outputs they are
            numbered.
        """
        if self.prediction.ndim > 2:
            raise ValueError(
                f"predictions of shape {self.prediction.shape} are no table: take prediction and expected_loss."
            )
        parts = {"prediction": self.prediction, "expected_loss": self.expected_loss}
        if self._has_std:
            parts["std"] = self.std
        parts |= {"aleatoric": self.aleatoric, "epistemic": self.epistemic}
        columns = {}
        for name, values in parts.items():
            if values.ndim == 1:
                columns[name] = values
            else:
                columns |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
        return pd.DataFrame(columns, index=self.index if index is None else index)
