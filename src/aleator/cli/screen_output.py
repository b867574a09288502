"""What commands tell on the screen."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aleator.tabular import Evaluation, Fitted, TableModel
from aleator.tabular.evaluation import REFUSED
from aleator.tabular.formatting import formatted, percent

SHOWN_COLUMNS = 25
STRONGEST = 5


class Screen(Console):
    """A console that leaves a closed pipe to the command; rich would end with 1."""

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError that is being handled."""
        raise


def _console() -> Console:
    return Screen(highlight=False, soft_wrap=False)


def schema(fitted: Fitted, target: str) -> None:
    """What the columns hold."""
    model, card = fitted.model, fitted.model.card
    table = Table(title=f"{shown(str(card['data']))}: {card['rows']:,} rows", title_justify="left")
    for name in ("column", "holds"):
        table.add_column(name, overflow="fold")
    encoder = getattr(model.estimator, "encoder_", None)
    kinds = getattr(encoder, "kinds_", None) or ["number"] * len(model.schema.columns)
    words = {"few": "category", "many": "category, many values", "text": "text", "id": "identifiers, ignored"}
    table.add_row(shown(target), "number, the target")
    for column, kind in list(zip(model.schema.columns, kinds, strict=True))[:SHOWN_COLUMNS]:
        table.add_row(shown(column.name), words.get(kind, str(column)))
    more = len(model.schema.columns) - SHOWN_COLUMNS
    if more > 0:
        table.add_row(f"and {more} more", "")
    _console().print(table)


def comparison(fitted: Fitted) -> None:
    """Which models were compared, and why one was chosen."""
    if fitted.compared is None:
        return
    table = Table("model", "error", "mean error after refusing\nany share (AUC)",
                  title="compared on training rows held out in turn", title_justify="left")  # fmt: skip
    for name, row in fitted.compared.iterrows():
        table.add_row(str(name), *(formatted(row[key]) for key in ("error", "rejection_auc")))
    best, *others = [str(name) for name in fitted.compared.index]
    _console().print(table)
    _console().print(
        f"Chosen: {best}, which has the least AUC, {formatted(fitted.compared['rejection_auc'].iloc[0])}"
        + (f" against {formatted(fitted.compared['rejection_auc'].iloc[1])} of {others[0]}." if others else ".")
    )


def summary(model: TableModel, judged: Evaluation | None, strongest: dict[str, float]) -> None:
    """How good the model is, on rows it has not seen."""
    if judged is None:
        return
    found = judged.measures()
    table = Table("", "", show_header=False, title=f"judged on {found['rows']:,} rows", title_justify="left")
    name = found["error_name"]
    table.add_row(f"error ({name})", formatted(found["error"]))
    table.add_row("  of the same value for all rows", formatted(found["error_of_a_constant"]))
    for share in REFUSED:
        table.add_row(
            f"  refusing the {percent(share)} least certain", formatted(found["error_after_refusing"][f"{share:g}"])
        )
    table.add_row("expected / real loss", f"{found['loss_ratio']:.2f}" if found["loss_ratio"] < 1e4 else "very large")
    table.add_row("true values inside 90 % intervals", percent(found["coverage_90"]))
    if strongest:
        first = [
            f"{shown(name)} ({percent(value)})" for name, value in list(strongest.items())[:STRONGEST] if value > 0
        ]
        table.add_row(
            "what makes it uncertain (change of\nexpected loss if a column is shuffled)", "\n".join(first) or "none"
        )
    _console().print(table)


def warnings(found: list[str]) -> None:
    """What to beware of."""
    for text in found:
        _console().print(f"[yellow]Beware:[/yellow] {shown(text)}")


def shown(text: str) -> str:
    """A text of the user's: no markup of ours, and nothing that moves the cursor or turns the writing around."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


def written(places: list[str]) -> None:
    """Where things are."""
    for place in places:
        _console().print(f"wrote {shown(place)}", soft_wrap=True)


def predicted(model: TableModel, done: Any) -> None:
    """What was predicted, and which rows to look at."""
    console = _console()
    expected = formatted(done.expected_loss)
    console.print(f"{done.rows:,} rows predicted; mean expected loss {expected}, mean trust {done.trust:.2f}.")
    table = Table(title="least certain", title_justify="left")
    for name in ("row", "prediction", "expected_loss", "lower", "upper", "trust"):
        table.add_column(name, justify="right")
    for _, row in done.least_certain.iterrows():
        table.add_row(
            f"{row['row']:.0f}",
            *(formatted(row[name]) for name in ("prediction", "expected_loss", "lower", "upper")),
            percent(row["trust"]),
        )
    console.print(table)
    warnings([*model.cautions(), *done.unseen.sentences()])


def contents(found: dict[str, Any]) -> None:
    """What is in a file."""
    table = Table("", "", show_header=False, title=shown(found["file"]), title_justify="left")
    card = found["card"]
    table.add_row("model", shown(f"{found['model']}" + (f" of {found['regressor']}" if found["regressor"] else "")))
    if card:
        table.add_row("which is", shown(str(card.get("about", ""))))
    table.add_row("target", shown(found["target"] or "unknown"))
    names = [f"{column['name']}: {column['kind']}" for column in found["columns"]]
    more = [f"and {len(names) - SHOWN_COLUMNS} more"] if len(names) > SHOWN_COLUMNS else []
    table.add_row("columns", "\n".join(map(shown, [*names[:SHOWN_COLUMNS], *more])) or "not named")
    table.add_row("parameters", shown(", ".join(f"{key}={value!r}" for key, value in found["parameters"].items())))
    for key in ("data", "rows", "training_rows", "test_rows", "chosen_by", "group", "seed", "created", "seconds"):
        if card.get(key) is not None:
            table.add_row(key.replace("_", " "), shown(str(card[key])))
    for key in ("error_name", "error", "loss_ratio", "coverage_90"):
        if key in (card.get("measures") or {}):
            table.add_row(key.replace("_", " "), shown(formatted(card["measures"][key])))
    if "check" in card:
        table.add_row("check", shown(str(card["check"])) or "passed")
    table.add_row("weights", f"{found['weights']:,}")
    table.add_row("written by", shown(", ".join(f"{name} {number}" for name, number in found["written_by"].items())))
    table.add_row("file", f"format {found['format']}, {found['bytes']:,} bytes, checksum right")
    _console().print(table)
