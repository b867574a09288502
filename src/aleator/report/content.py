"""What the page says and shows: sentences, figures, tables and pictures, from a model and the rows it was judged by."""

import json
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from aleator import losses, metrics
from aleator.report import charts
from aleator.tabular import Evaluation, TableModel
from aleator.tabular.evaluation import refused
from aleator.tabular.formatting import cell, formatted, isolated, percent, shortened
from aleator.tabular.importance import Dependence, dependence
from aleator.tabular.model_warnings import FEW_TEST_ROWS, verdict

Floats = NDArray[np.float64]

SHARES = np.arange(100) / 100
SHOWN_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
MOST_DOTS = 1500
MOST_ROWS = 200  # in the table of refused rows
TEN = 10
SHOWN_COLUMNS = 5
PICTURED_COLUMNS = 4
LONGEST = 60  # characters of a cell
UNUSABLE = 2.0  # times more or less than the real loss is expected: the verdict is then negative


def findings(model: TableModel, judged: Evaluation, strongest: dict[str, float]) -> dict[str, Any]:
    """Everything that the template needs."""
    measures = judged.measures()
    order = np.argsort(-judged.prediction.expected_loss, kind="stable")  # the least certain first
    curve, oracle = judged.curve(), _oracle(judged)
    at = np.array([refused(share, len(judged.y)) for share in SHARES])
    columns = list(strongest)[:SHOWN_COLUMNS] or model.schema.names[:SHOWN_COLUMNS]
    bins = judged.calibration().bins
    expected, real = (judged.in_units(bins[name].to_numpy(np.float64)) for name in ("predicted", "realised"))
    name = _error_word(judged)
    return {
        "target": model.target,
        "card": _card(model, judged, measures),
        "measures": {key: formatted(value) if isinstance(value, float) else value for key, value in measures.items()},
        "sentence": sentence(model.target, judged, measures),
        "verdict": verdict(measures),
        "error_name": judged.error_name,
        "error_word": name,
        "n_rows": len(judged.y),
        "n_learned": judged.learned,
        "table_of_shares": [
            (
                percent(share),
                f"{len(judged.y) - refused(share, len(judged.y)):,}",
                formatted(judged.after_refusing(share)),
            )
            for share in SHOWN_SHARES
        ],
        "rejection": charts.rejection(curve[at], oracle[at], SHARES, judged.error_name),
        "scatter": _scatter(model, judged, order),
        "calibration": charts.calibration(expected, real, name),
        "bins": [
            (formatted(float(e)), formatted(float(r)), f"{int(n):,}")
            for e, r, n in zip(expected, real, bins["count"], strict=True)
        ],
        "parts": _parts(judged),
        "strongest": _bars(strongest),
        "dependences": [
            _dependence(model, judged, column, name)
            for column in [c for c in strongest if _repeats(model, judged, c)][:PICTURED_COLUMNS]
        ],
        "head": ["row", model.target, "prediction", f"expected {name}", f"real {name}", "trust", *columns],
        "refused_rows": [_row(judged, k, columns) for k in order[:MOST_ROWS]],
        "least": [_row(judged, k, columns) for k in order[:TEN]],
        "most": [_row(judged, k, columns) for k in order[::-1][:TEN]],
        "data": Markup(
            json.dumps(
                {
                    "n": len(judged.y),
                    "refused": at.tolist(),
                    "error": [formatted(float(e)) for e in curve[at]],
                    "exact": [float(e) for e in curve[at]],
                    "saved": [percent(abs(1 - e / curve[0])) if curve[0] > 0 else percent(0.0) for e in curve[at]],
                }
            )
        ),
    }


# ---------------------------------------------------------------- sentences


def sentence(target: str, judged: Evaluation, measures: dict[str, Any]) -> str:
    """How good the model is, in two sentences."""
    error, constant, half = measures["error"], measures["error_of_a_constant"], measures["error_after_refusing"]["0.5"]
    few = f"By {len(judged.y)} rows only, and so roughly: the" if len(judged.y) < FEW_TEST_ROWS else "The"
    name, kind = (
        isolated(target),
        {"RMSE": "root mean square error", "MAE": "mean error"}.get(judged.error_name, "mean loss"),
    )
    better = 1 - error / constant if constant > 0 else 0.0
    own, without = formatted(error), formatted(constant)
    if better < 0.02:
        first = f"{few} model predicts {name} no better than one value for all rows would: its {kind} is {own}."
    else:
        first = (
            f"{few} model predicts {name} with a {kind} of {own}, {percent(better)} less than one value for all rows "
            f"would have ({without})."
        )
    gain, surest = 1 - half / error if error > 0 else 0.0, formatted(half)
    ratio = measures["loss_ratio"]
    if not 1 / UNUSABLE <= ratio <= UNUSABLE:
        times = f"{ratio:.2g} times" if ratio < 1e4 else "far beyond"
        return f"{first} Do not rely on its uncertainty: the losses it expects are {times} the real ones."
    if np.ptp(judged.prediction.expected_loss) == 0:
        return f"{first} It does not know where it is wrong: it expects the same loss of every row."
    if gain > 0.05:
        return f"{first} It knows where it is wrong: the half it is surest of has {surest}, {percent(gain)} less."
    if gain > -0.05:
        return f"{first} It hardly knows where it is wrong: the half it is surest of has about the same, {surest}."
    return f"{first} Its certainty misleads here: the half it is surest of has {surest}, which is more."


def _error_word(judged: Evaluation) -> str:
    return "error" if judged.loss.name in ("squared", "absolute") else f"{judged.loss.name} loss"


# ---------------------------------------------------------------- pictures


def _oracle(judged: Evaluation) -> Floats:
    return metrics.oracle_curve(
        judged.y, judged.prediction.prediction, "rmse" if losses.is_squared(judged.loss) else judged.loss
    )


def _scatter(model: TableModel, judged: Evaluation, order: NDArray[np.int64]) -> Markup:
    """At most MOST_DOTS rows, evenly taken from the least to the most certain."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(MOST_DOTS, len(order))).round().astype(np.int64))]
    level = 1 - rank[shown] / max(len(order) - 1, 1)
    return charts.scatter(
        judged.y[shown], judged.prediction.prediction[shown], level, rank[shown], shortened(model.target)
    )


def _dependence(model: TableModel, judged: Evaluation, column: str, name: str) -> dict[str, Any]:
    found: Dependence = dependence(model, judged.frame, column)
    expected = judged.in_units(found.expected_loss)
    labels = [_short(value) for value in found.values]
    if found.ordered and len(found.values) > 1:
        places = pd.Series(found.values)
        places = places.astype("int64") if places.dtype.kind == "M" else places
        numbers = np.asarray(places, np.float64)
        where_missing = None if found.missing is None else formatted(float(judged.in_units(found.missing)))
        picture = charts.dependence(numbers, expected, labels, shortened(column), name)
        return {"column": column, "picture": picture, "missing": where_missing}
    top = float(max(expected.max(), 1e-300)) if len(expected) else 1.0
    rows = sorted(zip(labels, expected, found.share, strict=True), key=lambda row: -row[1])
    if len(rows) > TEN:  # the two ends of many
        rows = [*rows[: TEN // 2], *rows[-TEN // 2 :]]
    return {
        "column": column,
        "more": len(labels) if len(labels) > TEN else None,
        "bars": [
            (label, formatted(float(e)), round(100 * float(e) / top, 1), percent(float(s))) for label, e, s in rows
        ],
    }


def _repeats(model: TableModel, judged: Evaluation, column: str) -> bool:
    """Whether values of a column can be compared: numbers and dates, and categories, but not whole sentences."""
    kind = next(c.kind for c in model.schema.columns if c.name == column)
    return kind != "category" or judged.frame[column].nunique() <= len(judged.y) / 2


def _bars(strongest: dict[str, float]) -> list[tuple[str, str, float]]:
    top = max(strongest.values(), default=0.0)
    return [
        (name, percent(value), round(100 * value / top, 1))
        for name, value in list(strongest.items())[:TEN]
        if value > 0
    ]


def _parts(judged: Evaluation) -> dict[str, Any] | None:
    """The shares of the expected loss that members of an ensemble agree and disagree on."""
    epistemic, whole = float(np.mean(judged.prediction.epistemic)), float(np.mean(judged.prediction.expected_loss))
    if not epistemic > 0 or not whole > 0:
        return None
    return {
        "epistemic": percent(epistemic / whole),
        "aleatoric": percent(1 - epistemic / whole),
        "width": round(100 * epistemic / whole, 1),
    }


# ---------------------------------------------------------------- tables


def _row(judged: Evaluation, k: int, columns: list[str]) -> list[str]:
    prediction = judged.prediction
    own = [
        f"{judged.frame.index[k]}",
        formatted(float(judged.y[k])),
        formatted(float(prediction.prediction[k])),
        formatted(float(judged.in_units(prediction.expected_loss[k]))),
        formatted(float(judged.in_units(judged.realised[k]))),
        percent(float(judged.trust[k])),
    ]
    return own + [_short(judged.frame[name].iloc[k]) for name in columns]


def _short(value: Any) -> str:
    text = cell(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _card(model: TableModel, judged: Evaluation, measures: dict[str, Any]) -> list[tuple[str, str]]:
    card = model.card
    rows = [
        ("data", card.get("data")),
        ("rows learned from", card.get("training_rows")),
        ("rows judged by", len(judged.y)),
        ("which were", card.get("test")),
        ("model", card.get("about")),
        ("chosen by", card.get("chosen_by")),
        ("loss", judged.loss.name),
        ("lambda", model.estimator.get_params(deep=False).get("lam")),
        ("groups held out together", card.get("group")),
        ("columns left out", ", ".join(card.get("excluded", []))),
        ("mean width of the 90 % intervals", formatted(measures["interval_width"])),
        ("seed", card.get("seed")),
        ("made", card.get("created")),
        ("seconds to fit", card.get("seconds")),
        ("versions", ", ".join(f"{name} {number}" for name, number in card.get("versions", {}).items())),
    ]
    return [
        (name, f"{value:,}" if isinstance(value, int) else str(value))
        for name, value in rows
        if value not in (None, "")
    ]
