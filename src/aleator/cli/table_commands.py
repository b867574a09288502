"""`aleator fit`, `predict`, `evaluate`, `report`, `inspect`, `export`: for people with a table."""

import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from aleator.cli.options import choice, json_option, key_option, out_option, reading_key, table_options

if TYPE_CHECKING:
    from aleator.tabular import Request, TableModel
    from aleator.tabular.io import Source

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("data", type=FILE)
@click.option("--target", required=True, metavar="COL", help="The column to predict.")
@out_option("model.aleator", "Where to write the model.", folder=False)
@click.option("--report", "page", type=FILE, metavar="FILE", help="Also write a page (HTML) about the model.")
@choice("--model", ["auto", "ensemble", "pair", "boosting", "forest"], "Which one; auto compares three of them.")
@click.option("--loss", default="absolute", show_default=True,
              help='What being wrong costs: absolute, squared, "huber(2.5)", "pinball(0.9)", logcosh.')  # fmt: skip
@click.option(
    "--lam",
    type=click.FloatRange(1e-6, 1e6),
    help="Of the joint loss: small leaves noisy regions alone.  [default: the model's]",
)
@click.option("--exclude", multiple=True, metavar="COL", help="A column to leave out; may be repeated.")
@click.option("--category", multiple=True, metavar="COL", help="A column of codes that look like numbers; repeatable.")
@click.option("--missing", multiple=True, metavar="TEXT", help="A cell that means there is no value; repeatable.")
@choice("--decimal", [".", ","], "The decimal mark.")
@click.option("--dayfirst/--monthfirst", "day_first", default=None, help="What a date such as 01/02/2024 means.")
@click.option("--group", metavar="COL", help="Rows that share it, as those of one patient, are held out together.")
@click.option("--test-fraction", type=click.FloatRange(0, 0.9), default=0.2, show_default=True,
              help="The part of the rows that the model is judged by and does not learn from.")  # fmt: skip
@click.option("--test", type=FILE, metavar="FILE", help="A table to judge it by instead.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of everything random.")
@key_option("A secret to sign the model file with (HMAC-SHA-256).")
@table_options
@json_option
def fit(
    data: Path, out: Path, page: Path | None, test: Path | None, as_json: bool, delimiter: str | None, encoding: str,
    key: bytes | None, **asked: Any,
) -> None:  # fmt: skip
    """Fit a model to a table, judge it on rows it has not seen, and write it to a file.

    DATA is CSV, TSV (both perhaps .gz) or Parquet, with a header. What the columns hold is found out: numbers, dates,
    categories, text; cells may be missing.

    Example: aleator fit houses.csv --target price --out houses.aleator --report houses.html
    """
    from aleator import atomic_write
    from aleator.tabular import Request, fitting

    request = Request(
        source=_opened(data, delimiter, encoding),
        test=None if test is None else _opened(test, delimiter, encoding),
        **asked,
    )
    _check_rows_to_judge_by(request, page)
    places = {"model file": out} | ({} if page is None else {"report": page})
    for what, place in places.items():
        _check_place(place, what, table=data, test=test)
    if page is not None and page.resolve() == out.resolve():
        raise ValueError(f"{page} cannot be the model file and the report at once.")
    with _busy(as_json) as say:
        fitted = fitting.fit(request, say)
        say("finding what makes it uncertain")
        strongest = _strongest(fitted.model, fitted.judged)
        with ExitStack() as together:  # both files or none
            if page is not None and fitted.judged is not None:
                from aleator.report import write

                say("writing the report")
                beside = together.enter_context(atomic_write.whole(page, "report"))
                write(beside, fitted.model, fitted.judged, fitted.warnings, strongest)
            fitted.model.save(together.enter_context(atomic_write.whole(out, "model file")), key)
    written = [str(place) for place in places.values()]
    if as_json:
        _print_json(
            {"card": fitted.model.card, "warnings": fitted.warnings, "uncertain_by": strongest, "written": written}
        )
        return
    from aleator.cli import screen_output

    screen_output.schema(fitted, request.target)
    screen_output.comparison(fitted)
    screen_output.summary(fitted.model, fitted.judged, strongest)
    screen_output.warnings(fitted.warnings)
    screen_output.written(written)


@click.command()
@click.argument("model", type=FILE)
@click.argument("new", type=FILE)
@out_option(
    None, "Where to write: .csv, .tsv, .gz, .parquet; - for the screen.  [default: NEW_predicted.csv]", folder=False
)
@click.option("--coverage", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.9, show_default=True,
              help="Of the intervals from lower to upper.")  # fmt: skip
@click.option("--prefix", default="", help="Before the names of the new columns.")
@reading_key
@table_options
@json_option
def predict(
    model: Path, new: Path, out: Path | None, coverage: float, prefix: str, delimiter: str | None, encoding: str,
    as_json: bool, key: bytes | None,
) -> None:  # fmt: skip
    """Predict the rows of a table, and how far each prediction can be trusted.

    NEW is written again, its columns and rows as they are, with these behind: prediction; expected_loss, how wrong it
    will be (epistemic: what the members of an ensemble disagree on, aleatoric: the rest); lower and upper ends of an
    interval; trust, the share of the training rows whose predictions are less certain. Any number of rows.

    Example: aleator predict houses.aleator new.csv --out priced.csv
    """
    from aleator.tabular import TableModel, batch_prediction

    made = TableModel.load(model, key)
    source = _opened(new, delimiter, encoding)
    place = (
        out if out is not None else Path(f"{new.name.removesuffix('.gz').rpartition('.')[0] or new.name}_predicted.csv")
    )
    if str(place) == "-" and as_json:
        raise click.UsageError("--json and --out - would both write to the screen; give --out a file.")
    if str(place) != "-":
        _check_place(place, "table", model=model, table=new)
    with _busy(as_json or str(place) == "-") as say:
        done = batch_prediction.predict(made, source, place, coverage, prefix, say)
    if as_json:
        _print_json(done.facts() | {"warnings": made.cautions(), "written": [str(place)]})
    elif str(place) != "-":
        from aleator.cli import screen_output

        screen_output.predicted(made, done)
        screen_output.written([str(place)])


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE)
@reading_key
@table_options
@json_option
def evaluate(model: Path, data: Path, delimiter: str | None, encoding: str, as_json: bool, key: bytes | None) -> None:
    """Compare what a model says of a table with what is true: its error, and whether its uncertainty is right.

    DATA has the target beside the columns. Rows that the model learned from make it look better than it is.

    Example: aleator evaluate houses.aleator sold_since.csv
    """
    from aleator.tabular.model_warnings import judged_warnings

    made, judged, unseen = _judged(model, key, data, delimiter, encoding)
    with _busy(as_json):
        strongest, found = _strongest(made, judged), made.cautions() + judged_warnings(judged) + unseen
    if as_json:
        _print_json({"measures": judged.measures(), "warnings": found, "uncertain_by": strongest})
        return
    from aleator.cli import screen_output

    screen_output.summary(made, judged, strongest)
    screen_output.warnings(found)


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE)
@out_option("report.html", "Where to write the page.", folder=False)
@reading_key
@table_options
def report(model: Path, data: Path, out: Path, delimiter: str | None, encoding: str, key: bytes | None) -> None:
    """Write a page that says where the model can be trusted: one file, for the browser, that needs no network.

    DATA has the target beside the columns, and rows that the model did not learn from.

    Example: aleator report houses.aleator sold_since.csv --out report.html
    """
    from aleator.report import write
    from aleator.tabular.model_warnings import judged_warnings

    _check_place(out, "report", model=model, table=data)
    made, judged, unseen = _judged(model, key, data, delimiter, encoding)
    card = made.card | {"test": data.name, "test_rows": len(judged.y)}
    with _busy(False) as say:
        say("writing the report")
        from dataclasses import replace

        found = made.cautions() + judged_warnings(judged) + unseen
        write(out, replace(made, card=card), judged, found, _strongest(made, judged))
    click.echo(out)


@click.command()
@click.argument("model", type=FILE)
@reading_key
@json_option
def inspect(model: Path, as_json: bool, key: bytes | None) -> None:
    """Show what is in a model file: the model, its parameters, the columns it reads, how it was made and judged.

    Example: aleator inspect houses.aleator
    """
    from aleator.tabular.inspection import contents

    found = contents(model, key)
    if as_json:
        _print_json(found)
        return
    from aleator.cli import screen_output

    screen_output.contents(found)


@click.command()
@click.argument("model", type=FILE)
@click.option("--onnx", type=FILE, required=True, metavar="FILE", help="Where to write the ONNX file.")
@click.option("--dtype", type=click.Choice(["float64", "float32"]), default="float64", show_default=True,
              help="Of the input.")  # fmt: skip
@click.option("--given", is_flag=True, help="Leave the regressor out; its predictions become an input.")
@reading_key
def export(model: Path, onnx: Path, dtype: str, given: bool, key: bytes | None) -> None:
    """Write a model as an ONNX file, which runs without Python: a table of numbers in, predictions and losses out.

    Example: aleator export houses.aleator --onnx houses.onnx
    """
    import aleator

    _check_place(onnx, "ONNX file", model=model)
    aleator.export_onnx(aleator.load(model, key=key), onnx, dtype=dtype, given=given)
    click.echo(onnx)


# ---------------------------------------------------------------- what they share


def _opened(path: Path, delimiter: str | None, encoding: str) -> "Source":
    from aleator.tabular.io import opened

    try:
        "".encode(encoding)
    except LookupError:
        raise click.BadParameter(f"{encoding!r} is not an encoding of text.", param_hint="--encoding") from None
    if delimiter is not None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in '\r\n"':
            raise click.BadParameter(f"{delimiter!r} is not one character.", param_hint="--delimiter")
    return opened(path, delimiter, encoding)


def _check_rows_to_judge_by(request: "Request", page: Path | None) -> None:
    source = click.get_current_context().get_parameter_source("test_fraction")
    if request.test is not None and source is not ParameterSource.DEFAULT:
        raise click.UsageError("--test and --test-fraction are two ways to say which rows to judge by; give one.")
    if not request.test_fraction >= 0:
        raise click.BadParameter("nan is no part of the rows.", param_hint="--test-fraction")
    if request.test_fraction == 0 and request.test is None and page is not None:
        raise click.UsageError("a report needs rows the model has not seen: --test-fraction, or --test FILE.")


def _check_place(place: Path, what: str, **inputs: Path | None) -> None:
    """Refuses a place that is one of the inputs, or where nothing can be written."""
    from aleator import atomic_write

    if str(place) == "-":
        raise ValueError(f"a {what} needs a file, not the screen.")
    for name, path in inputs.items():
        if path is not None and place.resolve() == path.resolve():
            raise ValueError(f"{place} is the {name} itself; choose another place for the {what}.")
    atomic_write.check_place(place, what)


def _judged(
    model: Path, key: bytes | None, data: Path, delimiter: str | None, encoding: str
) -> "tuple[TableModel, Any, list[str]]":
    """A model, what it says of a table beside what is true, and what is new to it there."""
    from aleator.tabular import TableModel, evaluation
    from aleator.tabular.model_warnings import without_target

    made = TableModel.load(model, key)
    with _busy(True):
        judged, n_without = evaluation.of_table(made, _opened(data, delimiter, encoding))
    unseen = made.unseen_values()
    unseen.look(judged.frame)
    return made, judged, [*without_target(n_without, made.target), *unseen.sentences()]


def _strongest(model: "TableModel", judged: Any) -> dict[str, float]:
    from aleator.tabular import importance

    return {} if judged is None else importance.strongest(model, judged.frame)


@contextmanager
def _busy(quiet: bool) -> Iterator[Any]:
    """A line that says what is being done, where someone looks.

    Categories that a fold or a new table has and others have not are not new to each of these; `predict` counts them.
    """
    from rich.console import Console

    from aleator.training.held_out import UnreliableWarning

    console = Console(stderr=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UnreliableWarning)  # which the commands show by themselves
        warnings.filterwarnings("ignore", "column .* has values never seen in fit")
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # of numbers at the ends of their range
        if quiet or not console.is_terminal:
            yield lambda text: None
            return
        with console.status("") as status:
            yield lambda text: status.update(text + " ...")


def _print_json(facts: dict[str, Any]) -> None:
    from aleator.tabular.formatting import plain

    click.echo(json.dumps(plain(facts), indent=2, allow_nan=False, default=str))
