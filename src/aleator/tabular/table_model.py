"""An estimator together with the schema of its table and the distribution of its expected losses."""

import math
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import registry
from aleator.estimators import Prediction
from aleator.estimators.base import QuantifiedRegressor
from aleator.model_files import file_format, layout, serialization
from aleator.tabular.io import Column, Schema, opened
from aleator.tabular.unseen_values import Seen, UnseenValues

Floats = NDArray[np.float64]

ANSWERS = ["prediction", "expected_loss", "aleatoric", "epistemic", "lower", "upper", "trust"]


@dataclass(frozen=True)
class TableModel:
    """An estimator together with the schema of its table and the distribution of its expected losses.

    `aleator fit` writes it, and `load` reads it. It knows how to read tables, and adds the same columns as `aleator
    predict`.

    Attributes
    ----------
    estimator : estimator
        The fitted estimator.
    schema : Schema
        The columns it reads, and how cells are written.
    target : str
        Name of the target.
    losses : ndarray
        Expected losses of the training rows, sorted.
    rows : ndarray of int
        Fingerprints of the training rows, sorted.
    seen : dict
        What was in the columns of the training rows.
    card : dict
        How the model was made and judged.
    target_unit : str or None
        Unit of the target, such as "$".

    Examples
    --------
    See `aleator.tabular.fit`.
    """

    estimator: QuantifiedRegressor
    schema: Schema
    target: str
    losses: Floats
    rows: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    seen: dict[str, Seen] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    target_unit: str | None = None  # see `Column`

    def read(self, path: str | PathLike[str], **how: Any) -> pd.DataFrame:
        """Read a table from a file, as the command does.

        Parameters
        ----------
        path : str or PathLike
            The file.
        **how : dict
            `delimiter`, by default a comma (in .tsv a tab), and `encoding`, by default utf-8.

        Returns
        -------
        DataFrame
            The columns that the estimator takes.
        """
        source = opened(path, **how)
        self.schema.check(source)
        return self.schema.read(source)

    def answers(self, frame: pd.DataFrame, coverage: float = 0.9) -> dict[str, Floats]:
        """Compute the columns that `aleator predict` adds.

        Parameters
        ----------
        frame : DataFrame
            Rows, as `read` gives them.
        coverage : float, default=0.9
            Coverage of the intervals.

        Returns
        -------
        dict of str to ndarray
            prediction, expected_loss, aleatoric, epistemic, lower, upper and trust.
        """
        prediction = self.estimator.predict_uncertainty(frame)
        unknown = np.full(len(prediction.prediction), np.nan)  # if the estimator's fit held no rows out
        lower, upper = (
            self.estimator.interval_of(prediction, coverage) if hasattr(self.estimator, "scores_") else (unknown,) * 2
        )
        values = (
            prediction.prediction,
            prediction.expected_loss,
            prediction.aleatoric,
            prediction.epistemic,
            lower,
            upper,
            self.trust(prediction),
        )
        return dict(zip(ANSWERS, values, strict=True))

    def unseen_values(self) -> UnseenValues:
        """Make a counter of values that the model has not seen.

        Returns
        -------
        UnseenValues
            Call its `look` with frames and read its `sentences`.
        """
        return UnseenValues(self.seen, getattr(self.estimator, "encoder_", None))

    def cautions(self) -> list[str]:
        """Give the warnings of the model's own check when it was fitted.

        Returns
        -------
        list of str
            The warnings.
        """
        found = str(self.card.get("check", ""))
        return [f"About the model: {found}"] if found else []

    def learned_from(self, frame: pd.DataFrame, y: Floats) -> int:
        """Count rows that are equal to training rows.

        Parameters
        ----------
        frame : DataFrame
            Rows, as `read` gives them.
        y : ndarray of shape (n,)
            Their targets.

        Returns
        -------
        int
            The number of copies.
        """
        return int(np.isin(fingerprints(frame, y), self.rows).sum())

    def trust(self, prediction: Prediction) -> Floats:
        """Compute the share of training rows with a larger expected loss; those with an equal one count half.

        Parameters
        ----------
        prediction : Prediction
            Predictions of the estimator.

        Returns
        -------
        ndarray of shape (n,)
            Trust, between 0 and 1.
        """
        if not len(self.losses):  # not known if the estimator was saved on its own
            return np.full(len(prediction.prediction), np.nan)
        places = [np.searchsorted(self.losses, prediction.expected_loss, side=side) for side in ("left", "right")]
        return np.asarray(1 - np.mean(places, axis=0) / len(self.losses))

    # ------------------------------------------------------------ files

    def save(self, path: str | PathLike[str], key: bytes | None = None) -> None:
        """Write a file that `TableModel.load` reads, and `aleator.load` too, which gives the estimator.

        Parameters
        ----------
        path : str or PathLike
            The file.
        key : bytes, default=None
            A secret key with which the file is signed.
        """
        facts, arrays = serialization.packed(self.estimator)
        seen = {name: [each.low, each.high, each.gaps] for name, each in self.seen.items()}
        table: dict[str, Any] = {"schema": self.schema.facts(), "target": self.target, "target_unit": self.target_unit}
        table |= {"seen": seen, "card": self.card}
        layout.TABLE.check_values(table)
        layout.TABLE.check_arrays({"losses": self.losses, "rows": self.rows}, {})
        own = {"table/losses": self.losses, "table/rows": self.rows}
        file_format.write(path, facts | {"table": table}, arrays | own, key=key)

    @classmethod
    def load(cls, path: str | PathLike[str], key: bytes | None = None) -> "TableModel":
        """Read a file. An estimator that was saved on its own gets a schema of numeric columns.

        Parameters
        ----------
        path : str or PathLike
            The file.
        key : bytes, default=None
            The secret key that the file must have been signed with.

        Returns
        -------
        TableModel
            The model.

        Raises
        ------
        ValueError
            If the file is damaged, unsigned or not a model file.
        """
        facts, arrays = file_format.read(path, key=key)
        estimator = serialization.restored(path, facts, arrays, registry.MODELS)
        table = facts.get("table")
        try:
            if table is None:
                return cls._of_estimator(path, estimator)
            _check_table(path, table, serialization.within("table", arrays))
            model = cls(
                estimator,
                Schema.from_facts(table["schema"]),
                str(table["target"]),
                arrays["table/losses"],
                arrays["table/rows"],
                {
                    str(name): Seen(float(low), float(high), bool(gaps))
                    for name, (low, high, gaps) in table["seen"].items()
                },
                _card(table["card"]),
                None if table.get("target_unit") is None else str(table["target_unit"]),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path} is incomplete, or of another version: {error!r}.") from error
        if not set(model.seen) <= {column.name for column in model.schema.columns if column.kind == "number"}:
            raise ValueError(f"{path}: corrupt model file: `seen` names a column that is not one of numbers.")
        if getattr(estimator, "n_features_in_", None) != len(model.schema.columns):
            raise ValueError(f"{path}: corrupt model file: the table has another number of columns than the model.")
        return model

    @classmethod
    def _of_estimator(cls, path: str | PathLike[str], estimator: Any) -> "TableModel":
        names = getattr(estimator, "feature_names_in_", None)
        if names is None or getattr(estimator, "n_outputs_", 1) != 1:
            what = "names of columns" if names is None else "one target"
            raise ValueError(f"{path} was made without {what}: the command needs them, aleator.load does not.")
        kinds = getattr(getattr(estimator, "encoder_", None), "kinds_", [])
        known = {"number": ("number", ""), "date": ("date", "year-month-day")}
        columns = [
            Column(str(name), *known.get(kind, ("category", "")), unit=None)
            for name, kind in zip(names, kinds or ["number"] * len(names), strict=True)
        ]
        return cls(estimator, Schema(tuple(columns)), "", np.empty(0))


def _check_table(path: str | PathLike[str], table: dict[str, Any], arrays: dict[str, Any]) -> None:
    try:
        layout.TABLE.check_values(table)
        layout.TABLE.check_arrays(arrays, {})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not len(arrays["losses"]):
        raise ValueError(f"{path}: corrupt model file: table/losses is empty.")


def _card(card: Any) -> dict[str, Any]:
    """The model card in a file, if it has the form that the command writes."""
    measures, versions = card.get("measures") or {}, card.get("versions") or {}
    numbers = [card["constant"], *(value for value in measures.values() if isinstance(value, float))]
    texts = [card.get("check", ""), *card.get("excluded", []), *versions, *versions.values()]
    if not (all(math.isfinite(number) for number in numbers) and all(isinstance(text, str) for text in texts)):
        raise ValueError("corrupt model file: the model card must hold finite numbers and strings.")
    return dict(card)


def fingerprints(frame: pd.DataFrame, y: Floats) -> NDArray[np.uint64]:
    """A 64-bit hash of each row with its target; equal rows have equal hashes."""
    columns = [frame.reset_index(drop=True), pd.Series(y, name="target of the row")]
    hashed = pd.util.hash_pandas_object(pd.concat(columns, axis=1), index=False)
    return np.asarray(hashed, np.uint64)
