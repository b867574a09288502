"""Predict a table of any length, block by block."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aleator.tabular.io import Source, writing
from aleator.tabular.table_model import ANSWERS, TableModel
from aleator.tabular.unseen_values import UnseenValues

WORST = 5  # number of least certain rows to report


@dataclass
class Predicted:
    """A summary: number of rows, mean expected loss and trust, the least certain rows, unseen values."""

    rows: int = 0
    expected_loss: float = 0.0
    trust: float = 0.0
    least_certain: pd.DataFrame = field(default_factory=pd.DataFrame)
    unseen: UnseenValues | None = None

    def facts(self) -> dict[str, Any]:
        """The summary as JSON."""
        return {
            "rows": self.rows,
            "mean_expected_loss": self.expected_loss,
            "mean_trust": self.trust,
            "least_certain": self.least_certain.to_dict("records"),
        } | ({} if self.unseen is None else self.unseen.facts())


def predict(
    model: TableModel, source: Source, place: Path, coverage: float, prefix: str, say: Callable[[str], None]
) -> Predicted:
    """Write the table to `place` with the model's answers as further columns."""
    model.schema.check(source)
    names = [f"{prefix}{name}" for name in ANSWERS]
    done = Predicted(unseen=model.unseen_values())
    with writing(place, source, model.schema, names) as write:
        for block in source.blocks():
            frame = model.schema.frame(source, block)
            answers = model.answers(frame, coverage)
            write(block, dict(zip(names, answers.values(), strict=True)))
            _count(done, frame, answers)
            say(f"predicting: {done.rows:,} rows")
        if not done.rows:
            raise ValueError(f"{source.path} has a header and no rows.")
    return done


def _count(done: Predicted, frame: pd.DataFrame, answers: dict[str, Any]) -> None:
    n = len(frame)
    for name in ("expected_loss", "trust"):
        mean = (getattr(done, name) * done.rows + float(np.sum(answers[name]))) / (done.rows + n)
        setattr(done, name, mean)
    done.rows += n
    rows = pd.DataFrame({"row": frame.index} | {name: answers[name] for name in ANSWERS})
    done.least_certain = pd.concat([done.least_certain, rows]).nlargest(WORST, "expected_loss")
    if done.unseen is not None:
        done.unseen.look(frame)
