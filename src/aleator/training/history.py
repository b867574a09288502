"""Tables of losses by member and epoch: the attribute `history_` of estimators."""

import numpy as np
import pandas as pd

from aleator.array_types import Floats
from aleator.engine import Plan, Run


def training_losses(run: Run | None) -> pd.DataFrame:
    """Losses of one member on its training rows, by epoch."""
    table = pd.DataFrame(np.empty((0, 2)) if run is None else run.history, columns=["joint_loss", "loss"])
    table.insert(0, "epoch", np.arange(1, len(table) + 1))
    return table


def with_curve(table: pd.DataFrame, curve: list[tuple[float, ...]], columns: list[str]) -> pd.DataFrame:
    """The table with the columns of a curve, whose first column is the epoch."""
    return table.merge(pd.DataFrame(curve, columns=columns), how="outer", on="epoch")


def curve_columns(rows: str, judge: Plan) -> list[str]:
    """Names of the columns of a curve measured on `rows`: "validation" or "cv"."""
    return ["epoch", f"{rows}_{judge.objective.measures}", f"{rows}_loss"]


def in_units(tables: list[pd.DataFrame], unit: Floats) -> pd.DataFrame:
    """The tables of all members as one, in the units of the loss; with several units, in those of the networks.

    A score, L / e + ln e, has no unit, but changes by a constant with the unit of e.
    """
    table = pd.concat(tables, keys=range(len(tables)), names=["member", None]).reset_index(level=0)
    if len(unit) == 1:
        scores = table.columns[table.columns.str.endswith("score")]
        table[scores] += np.log(unit[0]) if unit[0] > 0 else 0.0
        table[table.columns.difference(["member", "epoch"]).difference(scores)] *= unit[0]
    return table.reset_index(drop=True)
