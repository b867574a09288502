"""Tables of people: what is a table is read as it is, and what is not quite one is refused with the place."""

import csv
import errno
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from aleator.cli import commands, main
from aleator.tabular.io import Schema, infer, opened
from aleator.tabular.io.schema import number

ROWS = 40
rng = np.random.default_rng(0)
GOOD = [["size", "city", "price"]] + [
    [f"{size:.1f}", city, f"{3 * size:.1f}"]
    for size, city in zip(rng.uniform(10, 90, ROWS), rng.choice(["Ulm", "Bonn"], ROWS), strict=True)
]


def text(rows, delimiter=",", end="\n"):
    return "".join(delimiter.join(row) + end for row in rows)


def changed(row, column, cell):
    rows = [list(cells) for cells in GOOD]
    rows[row][column] = cell
    return text(rows).encode()


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.csv", content)
    return file.getvalue()


PLAIN = text(GOOD).encode()
# What is wrong: the content of the file, and what the one line must say.
BAD = {
    "empty": (b"", "is empty"),
    "only an end of line": (b"\n\n\n", "header|only one column|no name"),
    "header only": (b"size,city,price\n", "has a header and no rows"),
    "a short row": (PLAIN + b"12.0,Ulm\n", r"row 42 has 2 cells, the header has 3"),
    "a long row": (PLAIN + b"12.0,Ulm,5,6\n", r"row 42 has 4 cells, the header has 3"),
    "a short row in the middle": (PLAIN.replace(b"\n", b"\n7,Ulm\n", 1), r"row 2 has 2 cells"),
    "two columns of one name": (PLAIN.replace(b"size", b"price", 1), r"row 1: columns 1 and 3 are both named 'price'"),
    "names that differ by blanks": (PLAIN.replace(b"size", b" price ", 1), "columns 1 and 3 are both named 'price'"),
    "a column without a name": (PLAIN.replace(b"size", b"", 1), "row 1: column 1 has no name"),
    "a blank name": (PLAIN.replace(b"size", b"  ", 1), "row 1: column 1 has no name"),
    "an index of pandas": (pd.read_csv(io.BytesIO(PLAIN)).to_csv().encode(), "column 1 has no name"),
    "no header": (b"1.0,2,3.0\n" * 30, "row 1 holds numbers only, .* the header is missing"),
    "semicolons": (text(GOOD, ";").encode(), "only one column, 'size;city;price': .*semicolon.*--delimiter ';'"),
    "tabs": (text(GOOD, "\t").encode(), "only one column, .*the tab"),
    "bars": (text(GOOD, "|").encode(), "only one column, .*the bar"),
    "one column": (b"price\n1\n2\n", "only one column, 'price'"),
    "text in the target": (changed(7, 2, "cheap"), "row 8, column 'price': 'cheap' is not a number"),
    "a target of text": (PLAIN.replace(b"price", b"cost").replace(b"city", b"price"), "row 2, column 'price': '(Ulm|Bonn)' is not a number"),
    "dates in the target": (text([[*r[:2], "2024-05-17"] if k else r for k, r in enumerate(GOOD)]).encode(), "column 'price': '2024-05-17' is not a number"),
    "inf in the target": (changed(7, 2, "inf"), "row 8, column 'price': 'inf' is not a finite number"),
    "inf in a column": (changed(9, 0, "-Infinity"), "row 10, column 'size': '-Infinity' is not a finite number"),
    "1e400": (changed(9, 0, "1e400"), "row 10, column 'size': '1e400' is not a finite number"),
    "a target too large": (changed(5, 2, "1e200"), "row 6, column 'price': 1e.200 is too large a number"),
    "1e400 in the target": (changed(5, 2, "1e400"), "row 6, column 'price': '1e400' is not a finite number"),
    "a typing error": (changed(9, 0, "12.o"), "row 10, column 'size': '12.o' is not a number, and 39 of 40 cells are; .*--missing '12.o'"),
    "NUL bytes": (PLAIN.replace(b"Ulm", b"U\0lm", 1), "row .* has a NUL byte"),
    "NUL in the header": (PLAIN.replace(b"size", b"si\0ze", 1), "row 1 has a NUL byte"),
    "UTF-16": (PLAIN.decode().encode("utf-16"), "is UTF-16"),
    "UTF-16 without a mark": (PLAIN.decode().encode("utf-16-le"), "NUL byte.*UTF-16"),
    "Latin-1": (changed(9, 1, "Köln").decode().encode("latin-1"), r"line 10 is not UTF-8 \(byte 0xf6\).*latin-1"),
    "Latin-1 in the header": ("größe,city,price\n1,a,2\n".encode("latin-1"), "line 1 is not UTF-8"),
    "a zip archive": (zipped(PLAIN), "is a zip archive or an Excel file"),
    "an old Excel file": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "is a zip archive or an Excel file"),
    "a cut gzip": (gzip.compress(PLAIN)[:-20], "is a damaged gzip file"),
    "a broken gzip": (gzip.compress(PLAIN)[:40] + b"x" * 50, "is a damaged gzip file"),
    "a gzip of nothing": (gzip.compress(b""), "is empty"),
    "no such target": (PLAIN.replace(b"price", b"prices"), "has no column 'price'.* did you mean 'prices'"),
    "one row": (b"size,city,price\n1,Ulm,2\n", "has 1 row with a target; at least 20"),
    "few rows": (text(GOOD[:10]).encode(), "has 9 rows with a target; at least 20"),
    "a constant target": (text([[*r[:2], "5"] if k else r for k, r in enumerate(GOOD)]).encode(), "column 'price' is 5 in all rows to learn from"),
    "an empty target": (text([[*r[:2], ""] if k else r for k, r in enumerate(GOOD)]).encode(), "column 'price', the target, is empty in all rows"),
    "an empty column": (text([["", *r[1:]] if k else r for k, r in enumerate(GOOD)]).encode(), r"column 'size' is empty in all rows\. Add --exclude 'size'"),
    "a column of NaN": (text([["NaN", *r[1:]] if k else r for k, r in enumerate(GOOD)]).encode(), "column 'size' is empty in all rows"),
    "10,000 columns": ((",".join(f"c{k}" for k in range(9_999)) + ",price\n").encode() + (",".join(["1"] * 10_000) + "\n").encode() * 3, "has 10,000 columns; at most 2,000"),
    "an open quotation mark": (PLAIN + b'1.0,"Ulm,3.0\n2.0,Ulm,3\n', "row 42: a quotation mark is opened here and never closed"),
    "text after a quotation mark": (PLAIN + b'1.0,"Ulm"er,3.0\n', "row 42: text follows a closing quotation mark"),
    "a cell of a megabyte": (PLAIN + b"1.0," + b"a" * 1_000_000 + b",3.0\n", "row 42: a cell is too long"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, "not UTF-8|only one column|NUL"),
    "a damaged Parquet file": (b"PAR1" + bytes(100), "is a damaged Parquet file"),
    "an HTML page": (b"<!doctype html>\n<html><body>404</body></html>\n", "only one column"),
}  # fmt: skip


def refused(arguments, match, capsys, folder):
    """Exit 2, one line on stderr that says it, nothing on stdout, nothing written."""
    before = sorted(os.listdir(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["aleator", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    said = capsys.readouterr()
    assert ended.value.code == 2, said
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert re.search(match, lines[0]), said.err
    assert said.out == ""
    assert sorted(os.listdir(folder)) == before


@pytest.fixture(autouse=True)
def no_watching(monkeypatch):
    """The thread that waits for Ctrl-C belongs to a process of its own."""
    monkeypatch.setattr("aleator.cli._end_soon_after_a_signal", None)
    monkeypatch.setattr("aleator.cli._listen", lambda: None)


@pytest.mark.parametrize("name", BAD)
def test_malformed_tables_are_refused_in_one_line(name, tmp_path, capsys):
    content, match = BAD[name]
    table = tmp_path / "houses.csv"
    table.write_bytes(content)
    out, page = tmp_path / "m.aleator", tmp_path / "r.html"
    refused(
        ["fit", table, "--target", "price", "--out", out, "--report", page], f"houses.csv.*({match})", capsys, tmp_path
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of the good table."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "houses.csv").write_bytes(PLAIN)
    arguments = ["fit", folder / "houses.csv", "--target", "price", "--out", folder / "m.aleator", "--model", "pair"]
    done = CliRunner().invoke(commands, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return folder / "m.aleator"


IN_NEW = {
    "text in a column of numbers": (changed(9, 0, "large"), "row 10, column 'size': 'large' is not a number"),
    "inf": (changed(9, 0, "inf"), "row 10, column 'size': 'inf' is not a finite number"),
    "a column is missing": (PLAIN.replace(b"city", b"town"), "has no column 'city'"),
    "a short row far down": (PLAIN + b"1.0,Ulm\n", "row 42 has 2 cells"),
    "header only": (b"size,city\n", "has a header and no rows"),
    "a column of ours": (PLAIN.replace(b"price", b"trust"), "has a column 'trust' already; .* Add --prefix"),
}


@pytest.mark.parametrize("name", IN_NEW)
def test_malformed_new_tables_leave_nothing_behind(name, tmp_path, capsys, model):
    content, match = IN_NEW[name]
    (tmp_path / "new.csv").write_bytes(content)
    refused(
        ["predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv"], f"new.csv.*({match})", capsys, tmp_path
    )


def test_places(tmp_path, capsys, model):
    table = tmp_path / "houses.csv"
    table.write_bytes(PLAIN)
    fit = ["fit", table, "--target", "price", "--model", "pair", "--out"]
    refused([*fit, tmp_path / "no" / "m"], "cannot write the model file", capsys, tmp_path)
    refused([*fit, tmp_path], "is a directory", capsys, tmp_path)
    refused([*fit, table], "is the table itself", capsys, tmp_path)
    refused([*fit, tmp_path / "m", "--report", tmp_path / "m"], "at once", capsys, tmp_path)
    refused(["fit", tmp_path, "--target", "price"], "is a directory", capsys, tmp_path)
    refused(["fit", tmp_path / "none.csv", "--target", "price"], "there is no file", capsys, tmp_path)
    refused(["predict", model, table, "--out", table], "is the table itself", capsys, tmp_path)
    refused(["predict", model, table, "--out", model], "is the model itself", capsys, tmp_path)
    refused(["predict", table, table], "not an aleator model file", capsys, tmp_path)
    refused(["predict", model, table, "--out", "/dev/full"], "not a place", capsys, tmp_path)


def test_no_permission(capsys):
    """As someone who may not read the table, nor write beside it."""
    own = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        table, closed = folder / "houses.csv", folder / "closed"
        table.write_bytes(PLAIN)
        closed.mkdir()
        closed.chmod(0o500)
        for mode, arguments, match in (
            (0, ["--target", "price"], "Permission denied.*houses.csv"),
            (0o644, ["--target", "price", "--out", closed / "m"], "cannot write the model file.*Permission denied"),
        ):
            table.chmod(mode)
            if own == 0:  # nothing is forbidden to root
                os.seteuid(65534)
            try:
                refused(["fit", table, *arguments], match, capsys, folder)
            finally:
                os.seteuid(own)
        closed.chmod(0o700)


@pytest.mark.parametrize("what", ["model file", "report", "table"])
def test_a_full_disk(what, tmp_path, capsys, model, monkeypatch):
    """The disk is full when the file is written: the error of the system, as one line, and nothing left."""
    table = tmp_path / "houses.csv"
    table.write_bytes(PLAIN)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    fit = ["fit", table, "--target", "price", "--model", "pair", "--out", tmp_path / "m", "--report", tmp_path / "r"]
    if what == "model file":
        monkeypatch.setattr("pathlib.Path.write_bytes", full)
    elif what == "report":
        monkeypatch.setattr("pathlib.Path.write_text", full)
    else:
        monkeypatch.setattr("csv.writer", lambda *_, **__: type("Writer", (), {"writerow": full, "writerows": full})())
    arguments = fit if what != "table" else ["predict", model, table, "--out", tmp_path / "p.csv"]
    refused(arguments, f"cannot write the {what} .No space left on device", capsys, tmp_path)


def test_a_file_that_may_not_grow(tmp_path, model):
    """The same by the system itself, in a process that may write but a few kilobytes."""
    table = tmp_path / "new.csv"
    table.write_bytes(PLAIN + b"".join(PLAIN.splitlines(keepends=True)[1:]) * 200)
    limited = (
        "import resource, sys; from aleator.cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); sys.argv[0] = 'aleator'; main()"
    )
    arguments = ["predict", model, table, "--out", tmp_path / "p.csv"]
    done = subprocess.run([sys.executable, "-c", limited, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 2, done
    assert re.fullmatch(r"aleator: .*cannot write the table \(File too large\).*\n", done.stderr)
    assert os.listdir(tmp_path) == ["new.csv"]


# ---------------------------------------------------------------- what is a table


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("12", 12.0), (" -3.5 ", -3.5), ("1e6", 1e6), ("+7", 7.0), (".5", 0.5), ("1,234.50", 1234.5), ("-1,234,567", -1234567.0),
        ("$12", 12.0), ("€ 1,200", 1200.0), ("7 %", 7.0), ("7.5%", 7.5),
        ("1,23", None), ("12,34.5", None), ("1_000", None), ("twelve", None), ("0x10", None), ("1 2", None), ("--5", None),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(cell, value):
    assert number(cell) == value
    assert number("1,5", ",") == 1.5
    assert number("1.5", ",") is None


def schema_of(tmp_path, columns, **options):
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    source = opened(path)
    schema = infer(source, **options)
    return source, schema


def test_what_columns_hold(tmp_path):
    columns = {
        "number": (["1", "2.5", "NA"], "number"),
        "money": (["$1,200", "30", ""], "number ($)"),
        "share": (["5 %", "7.5%", ""], "number (%)"),
        "truth": (["TRUE", "FALSE", "TRUE"], "category"),
        "iso": (["2024-05-17", "2024-05-18T10:00", "?"], "date (year-month-day)"),
        "german": (["17.05.2024", "1.6.2024", "02.01.1999"], "date (day.month.year)"),
        "american": (["5/17/2024", "12/31/2023", "1/1/2000"], "date (month/day/year)"),
        "british": (["17/5/2024", "31/12/2023", "1/1/2000 13:30"], "date (day/month/year)"),
        "word": (["a", "NaN", "b"], "category"),
        "mixed": (["1", "b", "3"], "category"),
        "no dates": (["2024-13-17", "2024-02-30", "2024-01-01"], "category"),
    }
    source, schema = schema_of(tmp_path, {name: cells for name, (cells, _) in columns.items()})
    assert {c.name: str(c) for c in schema.columns} == {name: kind for name, (_, kind) in columns.items()}
    frame = schema.read(source)
    assert list(frame.index) == [2, 3, 4]  # as in a spreadsheet
    np.testing.assert_array_equal(frame["money"], [1200, 30, np.nan])
    assert frame["german"].dt.day.tolist() == [17, 1, 2]
    assert frame["british"].dt.hour.tolist() == [0, 0, 13]
    assert frame["word"].tolist() == ["a", None, "b"]
    assert Schema.from_facts(json.loads(json.dumps(schema.facts()))) == schema


@pytest.mark.parametrize("cells", [["$5", "€7", "3"], ["5 %", "$7", "3 %"], ["5 %", "7", "3 %"], ["1", "2", "3%"]])
def test_units_that_cannot_be_compared_are_refused(cells, tmp_path):
    with pytest.raises(ValueError, match=r"row \d, column 'a': .* cannot be compared with .* in row \d"):
        schema_of(tmp_path, {"a": cells, "b": ["x", "y", "z"]})
    assert schema_of(tmp_path, {"a": cells, "b": ["x", "y", "z"]}, categories=["a"])[1].columns[0].kind == "category"


@pytest.mark.parametrize(
    ("learned", "new", "fine"),
    [("$5", "$7", True), ("$5", "7", True), ("5", "$7", True), ("$5", "€7", False), ("5 %", "7", False), ("5", "7 %", False),
     ("$5", "7 USD", True), ("5 €", "EUR 7", True), ("5 EUR", "$7", False), ("CHF 5", "7CHF", True), ("5 CHF", "7 EUR", False)],
)  # fmt: skip
def test_new_tables_are_in_the_unit_that_was_learned(learned, new, fine, tmp_path):
    _, schema = schema_of(tmp_path, {"a": [learned, ""], "b": ["x", "y"]})
    schema = Schema.from_facts(json.loads(json.dumps(schema.facts())))
    source, _ = schema_of(tmp_path, {"a": ["", new], "b": ["x", "y"]}, categories=["a"])
    if fine:
        np.testing.assert_array_equal(schema.read(source)["a"], [np.nan, 7.0])
    else:
        with pytest.raises(ValueError, match=r"row 3, column 'a': .* cannot be compared with the numbers learned from"):
            schema.read(source)


def test_units_that_are_not_known_and_marks_that_have_none(tmp_path):
    facts = {"columns": [{"name": "a", "kind": "number", "date": ""}], "missing": ["-999"], "decimal": "."}
    schema = Schema.from_facts(facts)  # as earlier versions wrote it
    for cell in ("5 %", "$5", "5"):
        source, _ = schema_of(tmp_path, {"a": [cell, "-999"], "b": ["x", "y"]}, categories=["a"])
        np.testing.assert_array_equal(schema.read(source)["a"], [5.0, np.nan])
    for mark in ("-999", "-999.0"):
        cells = {"a": ["5 %", mark, "7 %"], "b": ["x", "y", "z"]}
        source, schema = schema_of(tmp_path, cells, missing=["-999"])
        np.testing.assert_array_equal(schema.read(source)["a"], [5.0, np.nan, 7.0])


def test_dates_that_can_be_read_in_two_ways_are_asked_about(tmp_path):
    cells = {"sold": ["01/02/2024", "03/04/2024"], "b": ["x", "y"]}
    with pytest.raises(ValueError, match=r"row 2, column 'sold': '01/02/2024' may be .*no row shows which"):
        schema_of(tmp_path, cells)
    for day_first, months in ((True, [2, 4]), (False, [1, 3])):
        source, schema = schema_of(tmp_path, cells, day_first=day_first)
        assert schema.read(source)["sold"].dt.month.tolist() == months
    source, schema = schema_of(tmp_path, cells | {"sold": ["01/02/2024", "13/04/2024"]}, day_first=False)
    assert schema.read(source)["sold"].dt.month.tolist() == [2, 4]  # the second row tells


def test_truth_values_are_not_numbers(tmp_path):
    _, schema = schema_of(tmp_path, {"a": ["1", "0"], "b": ["x", "y"]})
    for words in (["TRUE", "TRUE"], ["true", "false"], ["False", "1"]):
        source, _ = schema_of(tmp_path, {"a": words, "b": ["x", "y"]}, categories=["a"])
        with pytest.raises(ValueError, match="is not a number"):
            schema.read(source)
    source, found = schema_of(tmp_path, {"a": ["TRUE", "false", "maybe"], "b": ["x", "y", "z"]})
    assert found.read(source)["a"].tolist() == ["True", "False", "maybe"]  # as in Parquet, below
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [True, None, False], "b": [1.0, 2.0, 3.0]}).astype({"a": "boolean"}).to_parquet(path)
    found = infer(opened(path))
    assert found.columns[0].kind == "category"
    assert found.read(opened(path))["a"].tolist() == ["True", None, "False"]
    with pytest.raises(ValueError, match="the target, must be numbers, not truth values: write 1 and 0"):
        infer(opened(path), numbers=["a"])


def test_numbers_are_the_nearest_floats(tmp_path):
    """Whatever the version of pandas: half of such numbers were off by more than 1e-12 with some."""
    values = np.random.default_rng(0).normal(size=2000) * 10.0 ** np.random.default_rng(1).integers(-25, 25, 2000)
    texts = [f"{value:.20f}" if k % 2 else f"{value:.17e}" for k, value in enumerate(values)]
    texts += ["0.0000000000000000000011362", "1e-320", "9007199254740993", "0.1" + 400 * "0" + "1"]
    source, schema = schema_of(tmp_path, {"a": texts, "b": texts})
    assert schema.read(source)["a"].tolist() == [float(text) for text in texts]


def test_what_the_user_knows_better(tmp_path):
    cells = {"code": ["01", "02", "1"], "size": ["1", "none", "3"], "y": ["1", "2", "3"]}
    source, schema = schema_of(tmp_path, cells, categories=["code"], missing=["none"], exclude=["y"])
    assert [str(c) for c in schema.columns] == ["category", "number"]
    assert schema.read(source)["code"].tolist() == ["01", "02", "1"]
    with pytest.raises(ValueError, match="has no column 'zip'"):
        infer(source, categories=["zip"])
    path = tmp_path / "german.csv"
    path.write_text("a;b\n1,5;x\n2,5;y\n")
    german = opened(path, ";")
    assert infer(german, decimal=",").read(german)["a"].tolist() == [1.5, 2.5]


def test_a_messy_file_is_read_as_it_is(tmp_path):
    """A byte order mark, Windows line ends, commas, line ends and quotation marks in cells, blank lines."""
    path = tmp_path / "messy.csv"
    path.write_bytes('\ufeff a ,b\r\n1,"x, ""y""\nz"\r\n\r\n2,\r\n'.encode())
    source = opened(path)
    assert source.names == ["a", "b"]
    frame = infer(source).read(source)
    assert frame["b"].tolist() == ['x, "y"\nz', None]
    assert frame.index.tolist() == [2, 4]
    zipped = tmp_path / "messy.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    pd.testing.assert_frame_equal(infer(opened(zipped)).read(opened(zipped)), frame)
    wide = tmp_path / "messy16.csv"
    wide.write_bytes(path.read_bytes().decode("utf-8-sig").encode("utf-16"))
    pd.testing.assert_frame_equal(infer(opened(wide, encoding="utf-16")).read(opened(wide, encoding="utf-16")), frame)


def test_blocks_do_not_matter(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(PLAIN)
    source = opened(path)
    whole = infer(source).read(source)
    monkeypatch.setattr("aleator.tabular.io.reader.ROWS", 7)
    pd.testing.assert_frame_equal(infer(source).read(source), whole)


def test_parquet(tmp_path):
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], "Int64"),
            "x": [0.5, 1.5, np.nan],
            "day": pd.to_datetime(["2024-05-17", None, "2024-05-19"]),
            "word": ["a", None, "b"],
            "kind": pd.Categorical(["u", "v", "u"]),
            "yes": [True, False, True],
            "iso": ["2024-01-01", "2024-01-02", None],
        }
    )
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    source = opened(path)
    schema = infer(source)
    assert [c.kind for c in schema.columns] == ["number", "number", "date", "category", "category", "category", "date"]
    read = schema.read(source)
    np.testing.assert_array_equal(read["n"], [1, np.nan, 3])
    assert read["word"].tolist() == ["a", None, "b"]
    assert read["day"].isna().tolist() == [False, True, False]
    frame.assign(x=[0.5, np.inf, 1.0]).to_parquet(path)
    with pytest.raises(ValueError, match="row 3, column 'x': 'inf' is not a finite number"):
        schema.read(opened(path))


def test_marks_that_are_numbers(tmp_path):
    """-999 is missing however the block is read: in bulk, cell by cell, from Parquet; and however it is written."""
    rows = "a,b,c\n1,-999,x\n-999.0,2,x\n3,4,{}\n"
    frames = []
    for k, last in enumerate(("x", '"x"', "x\n$5,6,x")):
        path = tmp_path / f"{k}.csv"
        path.write_text(rows.format(last))
        frames.append(infer(opened(path), missing=["-999"]).read(opened(path))[:3])
    pd.DataFrame({"a": [1.0, -999.0, 3.0], "b": [-999, 2, 4], "c": ["x"] * 3}).to_parquet(tmp_path / "t.parquet")
    source = opened(tmp_path / "t.parquet")
    frames.append(infer(source, missing=["-999"]).read(source))
    for frame in frames:
        np.testing.assert_array_equal(frame[["a", "b"]].to_numpy(float), [[1, np.nan], [np.nan, 2], [3, 4]])


@pytest.mark.parametrize("seed", range(3))
def test_both_readers_of_numbers_agree(tmp_path, seed):
    """In bulk, and cell by cell as soon as there is a quotation mark: the same values, to the bit."""
    chance = np.random.default_rng(seed)
    cells = [repr(float(v)) for v in chance.normal(size=300) * 10.0 ** chance.integers(-300, 300, 300)]
    cells += ["", "NA", "nan", " 7 ", "+1", "1e5", ".5", "-0", "1E-3", "0.1"]
    for k, word in enumerate(("x", '"x"')):
        (tmp_path / f"{k}.csv").write_text("n,w\n" + "".join(f"{cell},x\n" for cell in cells) + f"1,{word}\n")
    plain, quoted = (infer(opened(tmp_path / f"{k}.csv")).read(opened(tmp_path / f"{k}.csv"))["n"] for k in (0, 1))
    assert plain.to_numpy().tobytes() == quoted.to_numpy().tobytes()


def test_empty_lines_do_not_shift_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n\n1,x\n\n\n2,y\nno,z\n")
    with pytest.raises(ValueError, match="row 7, column 'a': 'no' is not a number"):
        infer(opened(tmp_path / "t.csv"), numbers=["a"])
    (tmp_path / "t.csv").write_text("a,b\n\n1,x\n\n\n2,y\n")
    assert infer(opened(tmp_path / "t.csv")).read(opened(tmp_path / "t.csv")).index.tolist() == [3, 6]


def test_rows_of_parquet_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("aleator.tabular.io.reader.ROWS", 10)
    pd.DataFrame({"a": [*range(24), np.inf], "b": "x"}).to_parquet(tmp_path / "t.parquet")
    source = opened(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="row 26, column 'a': 'inf' is not a finite number"):
        infer(source).read(source)
    indexed = pd.DataFrame({"a": np.arange(25.0) ** 2, "b": "x"}).set_index("a")
    indexed.to_parquet(tmp_path / "t.parquet")
    assert opened(tmp_path / "t.parquet").names == ["b", "a"]
    pd.DataFrame({"a": [1.0], "b": [[1, 2]]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="column 'b' holds list"):
        opened(tmp_path / "t.parquet")


def test_decimal_commas_with_thousands():
    assert number("1.234,5", ",") == 1234.5
    assert number("1.234.567", ",") == 1234567
    assert number("1.5", ",") is None
