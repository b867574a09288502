"""How good a model is on rows with a known target: its error, the gain from refusing rows, the scale of its losses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import losses, metrics
from aleator.estimators import Prediction
from aleator.losses import Cost, Loss
from aleator.tabular.io import Column, Schema, Source
from aleator.tabular.table_model import TableModel
from aleator.training.held_out import plausible_losses

Floats = NDArray[np.float64]

REFUSED = (0.1, 0.2, 0.5)
COVERAGE = 0.9
BINS = 8
BEYOND = 2.0  # a test loss is plausible up to this multiple of the largest plausible training loss


@dataclass(frozen=True)
class Evaluation:
    """Rows of a table, their targets, and the model's answers.

    Attributes
    ----------
    frame : DataFrame
        The rows.
    y : ndarray of shape (n,)
        Their targets.
    prediction : Prediction
        The model's answers.
    lower, upper : ndarray of shape (n,)
        Ends of 90 % intervals.
    trust : ndarray of shape (n,)
        The share of training rows that are less certain.
    constant : float
        The best constant prediction for the training rows.
    learned : int
        Number of rows that are copies of training rows.
    largest : float
        The largest plausible training loss.

    Examples
    --------
    See `aleator.tabular.fit`.
    """

    frame: pd.DataFrame
    y: Floats
    prediction: Prediction
    lower: Floats
    upper: Floats
    trust: Floats
    constant: float
    learned: int = 0
    largest: float = np.inf

    @property
    def loss(self) -> Loss | Cost:
        """The loss of the model."""
        return self.prediction.loss

    @property
    def error_name(self) -> str:
        """Name of the error: RMSE, MAE, or the mean of another loss."""
        return {"squared": "RMSE", "absolute": "MAE"}.get(self.loss.name, f"mean {self.loss.name} loss")

    @property
    def realised(self) -> Floats:
        """The loss of each row."""
        return self.loss(self.y, self.prediction.prediction)

    @property
    def credible(self) -> Floats:
        """The loss of each row, clipped to `BEYOND` times the largest that the model found plausible."""
        if np.isfinite(self.largest):
            return np.minimum(self.realised, BEYOND * self.largest)
        return plausible_losses(self.realised, np.ones(len(self.y)))

    @property
    def credible_expected(self) -> Floats:
        """The expected loss of each row, clipped to `BEYOND` times the largest that the model found plausible."""
        return np.minimum(self.prediction.expected_loss, BEYOND * self.largest)

    def in_units(self, loss: Any) -> Any:
        """Turn a mean loss into an error, in the units of the target where possible (the root of a squared loss).

        Parameters
        ----------
        loss : float or ndarray
            A mean loss.

        Returns
        -------
        float or ndarray
            The error.
        """
        return np.sqrt(loss) if losses.is_squared(self.loss) else loss

    def curve(self) -> Floats:
        """Compute the error of the rest after refusing the n least certain rows, for n = 0, ..., N - 1.

        Returns
        -------
        ndarray of shape (N,)
            The errors.
        """
        measure = "rmse" if losses.is_squared(self.loss) else self.loss
        return metrics.rejection_curve(self.y, self.prediction.prediction, self.prediction.expected_loss, measure)

    def after_refusing(self, share: float) -> float:
        """Compute the error of the accepted rows when a share of the rows, the least certain, is refused.

        Parameters
        ----------
        share : float
            The share that is refused.

        Returns
        -------
        float
            The error, as an RMSE for the squared loss and a mean otherwise.
        """
        return float(self.curve()[refused(share, len(self.y))])

    def calibration(self) -> metrics.LossCalibration:
        """Compare expected and realised loss by bins of equally many rows.

        Returns
        -------
        LossCalibration
            The bins.
        """
        bins = max(1, min(BINS, len(self.y) // 5))
        return metrics.loss_calibration(
            self.y, self.prediction.prediction, self.prediction.expected_loss, self.loss, bins
        )

    @property
    def loss_ratio(self) -> float:
        """Mean expected over mean realised loss, both clipped to plausible values."""
        expected, realised = float(np.mean(self.credible_expected)), float(np.mean(self.credible))
        return expected / realised if realised > 0 else np.inf if expected > 0 else 1.0

    def measures(self) -> dict[str, Any]:
        """Give all measures as numbers.

        Returns
        -------
        dict
            Error, error of the best constant, area under the rejection curve, loss ratio, coverage and more.
        """
        curve = self.curve()
        baseline = self.in_units(np.mean(self.loss(self.y, np.full_like(self.y, self.constant))))
        return {
            "rows": len(self.y),
            "rows_learned_from": self.learned,
            "loss": self.loss.name,
            "error_name": self.error_name,
            "error": float(curve[0]),
            "error_of_a_constant": float(baseline),
            "error_after_refusing": {f"{share:g}": self.after_refusing(share) for share in REFUSED},
            "rejection_auc": metrics.area(curve),
            "expected_loss": float(np.mean(self.prediction.expected_loss)),
            "realised_loss": float(np.mean(self.realised)),
            "credible_expected_loss": float(np.mean(self.credible_expected)),
            "credible_loss": float(np.mean(self.credible)),
            "credible_loss_error": float(np.std(self.credible) / len(self.y) ** 0.5),
            "loss_ratio": self.loss_ratio,
            "coverage_90": metrics.coverage(self.y, self.lower, self.upper),
            "interval_width": metrics.interval_width(self.lower, self.upper),
        }


def refused(share: float, n_rows: int) -> int:
    """The number of rows in a share; at least one row remains."""
    return min(round(share * n_rows), n_rows - 1)


def evaluate(model: TableModel, frame: pd.DataFrame, y: Floats) -> Evaluation:
    """Predict rows with known targets.

    Parameters
    ----------
    model : TableModel
        The model.
    frame : DataFrame
        Rows, as `TableModel.read` gives them.
    y : ndarray of shape (n,)
        Their targets.

    Returns
    -------
    Evaluation
        Targets and answers.

    Examples
    --------
    See `aleator.tabular.fit`.
    """
    prediction = model.estimator.predict_uncertainty(frame)
    lower, upper = model.estimator.interval_of(prediction, COVERAGE)
    constant, learned = float(model.card["constant"]), model.learned_from(frame, y)
    held_out = getattr(model.estimator, "out_of_fold_", None)
    largest = np.inf if held_out is None else _largest_plausible(held_out["loss"].to_numpy(np.float64))
    return Evaluation(frame, y, prediction, lower, upper, model.trust(prediction), constant, learned, largest)


def _largest_plausible(losses: Floats) -> float:
    return float(plausible_losses(losses, np.ones(len(losses))).max(initial=0.0)) or np.inf


def of_table(model: TableModel, source: Source) -> tuple[Evaluation, int]:
    """The same for a table in a file, and how many of its rows have no target and were left out."""
    if not model.target:
        raise ValueError("the file holds an estimator and not which column it predicts; models of `aleator fit` do.")
    target = Schema(
        (Column(model.target, "number", unit=model.target_unit),), model.schema.missing, model.schema.decimal
    )
    for part in (model.schema, target):
        part.check(source)
    both = Schema((*model.schema.columns, *target.columns), model.schema.missing, model.schema.decimal)
    data = both.read(source)
    known = data[data[model.target].notna()]
    if len(known) < 2:
        raise ValueError(f"{source.path}: rows with a known {model.target!r}: {len(known)}; at least 2 are needed.")
    judged = evaluate(model, known[model.schema.names], known[model.target].to_numpy(np.float64))
    return judged, len(data) - len(known)


def best_constant(loss: Loss | Cost, y: Floats) -> float:
    """The best constant prediction: of up to a thousand targets, the one with the smallest mean loss."""
    if losses.is_squared(loss):
        return float(np.mean(y))
    tried = np.unique(np.quantile(y, np.linspace(0, 1, 1001)))
    return float(min(tried, key=lambda constant: np.mean(loss(y, np.full_like(y, constant)))))
