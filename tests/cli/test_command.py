"""The command on tables, as its user has it: fit, predict, evaluate, report, inspect, export."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_diabetes

import aleator
from aleator import Prediction, datasets, losses, metrics
from aleator.cli import commands
from aleator.model_files import file_format
from aleator.tabular import ANSWERS, Request, TableModel, evaluation, fitting, model_warnings
from aleator.tabular.io import opened

pytestmark = pytest.mark.usefixtures("short_training")

X, y = load_diabetes(return_X_y=True, as_frame=True)
DIABETES = X.assign(progression=y)


def run(*arguments, code=0):
    done = CliRunner().invoke(commands, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


def messy(folder, n=300, seed=0):
    """A table with text, categories, dates, gaps, quotation marks, commas, line ends in cells; the noise is in Kiel."""
    rng = np.random.default_rng(seed)
    size, city = rng.uniform(30, 200, n), rng.choice(["Ulm", "Bonn", "Kiel"], n)
    price = 2000 * size + rng.normal(size=n) * np.where(city == "Kiel", 60_000, 5_000)
    lines = ["size,city,street,sold,notes,price"]
    for k in range(n):
        gap = rng.uniform() < 0.1
        note = f'"line one\nline two {k}"' if k % 3 else f'"nice, with ""view"" {k}"'
        lines.append(
            f"{'' if gap else round(size[k], 1)},{city[k] if rng.uniform() > 0.05 else 'NA'},Street {k % 40},"
            f'2024-{1 + k % 12:02d}-{1 + k % 28:02d},{note},"{price[k]:,.2f}"'
        )
    path = folder / "messy.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    DIABETES.to_csv(folder / "diabetes.csv", index=False)
    messy(folder)
    return folder


@pytest.fixture(scope="module")
def fitted(folder):
    """A model of diabetes, its page, and what was said in JSON."""
    told = run("fit", folder / "diabetes.csv", "--target", "progression", "--model", "ensemble", "--json",
               "--out", folder / "d.aleator", "--report", folder / "d.html", "--seed", 3)  # fmt: skip
    return folder / "d.aleator", json.loads(told)


# ---------------------------------------------------------------- fit


def test_what_is_said_is_what_the_metrics_say(folder, fitted):
    """The rows held out are those that anyone would get by the same splitter, and the figures those of the library."""
    path, told = fitted
    model = aleator.load(path)
    from sklearn.model_selection import ShuffleSplit

    _, test = next(ShuffleSplit(1, test_size=0.2, random_state=3).split(X))
    test = np.sort(test)
    said = model.predict_uncertainty(X.iloc[test])
    truth = y.iloc[test].to_numpy()
    measures = told["card"]["measures"]
    assert measures["rows"] == len(test) == told["card"]["test_rows"]
    assert measures["loss"] == "absolute"
    assert measures["error"] == pytest.approx(np.mean(np.abs(truth - said.prediction)))
    curve = metrics.rejection_curve(truth, said.prediction, said.expected_loss, "mae")
    for share, n in (("0.1", 9), ("0.2", 18), ("0.5", 44)):
        assert measures["error_after_refusing"][share] == pytest.approx(curve[n])
    assert measures["rejection_auc"] == pytest.approx(
        metrics.rejection_auc(truth, said.prediction, said.expected_loss, "mae")
    )
    assert measures["loss_ratio"] == pytest.approx(
        np.mean(said.expected_loss) / np.mean(np.abs(truth - said.prediction))
    )
    lower, upper = model.predict_interval(X.iloc[test])
    assert measures["coverage_90"] == pytest.approx(np.mean((lower <= truth) & (truth <= upper)))
    assert set(told["uncertain_by"]) == set(X)
    assert told["card"]["rows"] == 442


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("pair", "absolute"),
        ("pair", "pinball(0.8)"),
        ("boosting", "squared"),
        ("boosting", "pinball(0.8)"),
        ("forest", "absolute"),
    ],
)
def test_every_model_on_a_messy_table(folder, tmp_path, name, loss):
    table = folder / "messy.csv"
    out = tmp_path / "m.aleator"
    told = json.loads(run("fit", table, "--target", "price", "--model", name, "--loss", loss, "--json", "--out", out))
    share = 0.8 if name == "pair" else 0.6  # a small network takes the words of 240 notes for something
    assert told["card"]["measures"]["error"] < share * told["card"]["measures"]["error_of_a_constant"]
    run("predict", out, table, "--out", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert list(predicted)[-7:] == ANSWERS
    assert len(predicted) == 300
    if name == "forest":  # which knows that Kiel is noisy
        by_city = predicted.groupby("city")["expected_loss"].mean()
        assert by_city["Kiel"] > 2 * max(by_city["Ulm"], by_city["Bonn"])


def test_auto_takes_the_best_and_says_why(folder, tmp_path):
    text = run("fit", folder / "messy.csv", "--target", "price", "--out", tmp_path / "m.aleator")
    card = json.loads(run("inspect", tmp_path / "m.aleator", "--json"))["card"]
    compared = card["compared"]
    assert set(compared) == {"ensemble", "boosting", "forest"}
    best = min(compared, key=lambda name: compared[name]["rejection_auc"])
    assert card["model"] == best
    assert f"Chosen: {best}, which has the least AUC" in " ".join(text.split())
    for word in ("category, many values", "date (year-month-day)", "text", "the target", "wrote"):
        assert word in text


def test_what_auto_compares_are_losses_of_rows_not_seen(folder, tmp_path):
    """The error of the comparison is that on fresh rows, not on the ones learned from."""
    source = opened(folder / "diabetes.csv")
    request = Request(source, "progression", test_fraction=0.5)
    fitted = fitting.fit(request)
    held_out = fitted.judged.measures()["error"]
    name = fitted.model.card["model"]
    assert fitted.compared.loc[name, "error"] == pytest.approx(held_out, rel=0.2)


def test_same_seed_same_answers(folder, tmp_path):
    answers = []
    for k, seed in enumerate((1, 1, 2)):
        out = tmp_path / f"{k}.aleator"
        run("fit", folder / "messy.csv", "--target", "price", "--model", "pair", "--seed", seed, "--out", out)
        run("predict", out, folder / "messy.csv", "--out", tmp_path / f"{k}.csv")
        answers.append((tmp_path / f"{k}.csv").read_bytes())
    assert answers[0] == answers[1] != answers[2]


def test_groups_are_never_on_both_sides(tmp_path):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(40), 8)
    table = pd.DataFrame({"patient": [f"p{k}" for k in patient], "x": rng.normal(size=320)})
    table["y"] = rng.normal(size=40)[patient] + 0.1 * rng.normal(size=320)
    table["level"] = patient  # tells the patient, so that rows of one are nearly copies
    table.to_csv(tmp_path / "t.csv", index=False)
    ratios = {}
    for group in ((), ("--group", "patient")):
        told = json.loads(run("fit", tmp_path / "t.csv", "--target", "y", "--model", "boosting", "--loss", "squared",
                              "--json", "--out", tmp_path / "m", *group, *(() if group else ("--exclude", "patient"))))  # fmt: skip
        ratios[bool(group)] = told["card"]["measures"]["error"]
    assert ratios[True] > 2 * ratios[False]  # new patients are not known
    model = TableModel.load(tmp_path / "m")
    assert model.schema.names == ["x", "level"]
    request = Request(opened(tmp_path / "t.csv"), "y", group="patient")
    schema, data, _ = fitting.read(request)
    train, test = fitting._parts(request, schema, data)
    assert not set(train["patient"]) & set(test["patient"])
    assert len(test) == 64


def test_another_table_to_judge_by(folder, tmp_path):
    DIABETES.iloc[300:].to_csv(tmp_path / "test.csv", index=False)
    DIABETES.iloc[:300].to_csv(tmp_path / "train.csv", index=False)
    arguments = ["--target", "progression", "--model", "pair", "--json", "--out", tmp_path / "m"]
    told = json.loads(run("fit", tmp_path / "train.csv", "--test", tmp_path / "test.csv", *arguments))
    assert (told["card"]["training_rows"], told["card"]["test_rows"]) == (300, 142)
    again = json.loads(run("evaluate", tmp_path / "m", tmp_path / "test.csv", "--json"))
    assert again["measures"] == told["card"]["measures"]
    none = json.loads(run("fit", tmp_path / "train.csv", "--test-fraction", 0, *arguments))
    assert "measures" not in none["card"]
    assert none["card"]["training_rows"] == 300
    assert any("No rows were left to judge" in text for text in none["warnings"])


def test_rows_without_a_target_are_left_out_and_counted(tmp_path):
    table = DIABETES.astype({"progression": object})
    table.loc[table.index[:7], "progression"] = ""
    table.to_csv(tmp_path / "t.csv", index=False)
    told = json.loads(run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "pair", "--json",
                          "--out", tmp_path / "m"))  # fmt: skip
    assert told["card"]["rows"] == 435
    assert "7 rows have no progression, and were left out." in told["warnings"]


def test_leaks_are_suspected(tmp_path):
    table = DIABETES.assign(copy=DIABETES["progression"], log=np.log(DIABETES["progression"]), number=np.arange(442))
    table.to_csv(tmp_path / "t.csv", index=False)
    told = json.loads(run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "pair", "--json",
                          "--test-fraction", 0.1, "--out", tmp_path / "m"))  # fmt: skip
    text = " ".join(told["warnings"])
    assert "Column 'copy' equals 'progression'" in text
    assert "Column 'log' orders the rows exactly as 'progression' does" in text
    assert "45 rows are too few to tell" in text
    noise = DIABETES.assign(progression=np.random.default_rng(0).normal(size=442))[["age", "progression"]][:150]
    noise.assign(number=np.arange(150)).to_csv(tmp_path / "t.csv", index=False)
    told = json.loads(run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "pair", "--json",
                          "--test-fraction", 0, "--out", tmp_path / "m"))  # fmt: skip
    text = " ".join(told["warnings"])
    assert "learned from 150 rows only" in text
    assert "Column 'number' counts the rows" in text


# ---------------------------------------------------------------- predict


def test_the_table_is_kept_to_the_cell(folder, fitted, tmp_path):
    """Cells as they were written, columns and rows in their order, also those the model does not read."""
    rows = ["id,note," + ",".join(X.columns[::-1])]
    rows += [f'00{k},"a, ""b""",' + ",".join(f"{v:.3f}" for v in X.iloc[k][::-1]) for k in range(5)]
    (tmp_path / "new.csv").write_text("\n".join(rows) + "\n")
    run("predict", fitted[0], tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == rows[0] + "," + ",".join(ANSWERS)
    for line, row in zip(lines[1:], rows[1:], strict=True):
        assert line.startswith(row + ",")
    expected = aleator.load(fitted[0]).predict_uncertainty(X[:5].round(3))
    told = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(told["prediction"], expected.prediction, rtol=1e-8)
    np.testing.assert_allclose(told["expected_loss"], expected.expected_loss, rtol=1e-8)
    np.testing.assert_allclose(told["aleatoric"] + told["epistemic"], told["expected_loss"], rtol=1e-7)


def test_trust_is_the_share_of_training_rows_that_are_less_certain(folder, fitted, tmp_path):
    run("predict", fitted[0], folder / "diabetes.csv", "--out", tmp_path / "p.csv")
    told = pd.read_csv(tmp_path / "p.csv").sort_values("expected_loss")
    assert (told["trust"].diff().dropna() <= 0).all()  # monotone
    assert told["trust"].between(0, 1).all()
    model = TableModel.load(fitted[0])
    assert len(model.losses) == 353
    expected = model.estimator.predict_loss(X)
    shares = np.array([(np.mean(model.losses > e) + np.mean(model.losses >= e)) / 2 for e in expected])
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["trust"], shares, rtol=1e-8)


def test_rows_that_are_equally_certain_have_trust_one_half(fitted):
    model = TableModel.load(fitted[0])
    model = replace(model, losses=np.array([1.0, 2.0, 2.0, 2.0, 3.0]))
    ones = np.ones(4)
    prediction = Prediction(ones, np.array([2.0, 1.0, 0.5, 4.0]), ones, 0 * ones)
    np.testing.assert_allclose(model.trust(prediction), [0.5, 0.9, 1.0, 0.0])


def test_trust_of_new_rows_is_like_that_of_training_rows(tmp_path):
    """With few rows many expected losses are equal, at the least that held-out rows support."""
    table, new = (datasets.houses(n, random_state=n) for n in (40, 400))
    table[0].assign(price=table[1]).to_csv(tmp_path / "t.csv", index=False)
    new[0].to_csv(tmp_path / "n.csv", index=False)
    run(
        "fit",
        tmp_path / "t.csv",
        "--target",
        "price",
        "--model",
        "ensemble",
        "--test-fraction",
        0,
        "--out",
        tmp_path / "m",
    )
    run("predict", tmp_path / "m", tmp_path / "n.csv", "--out", tmp_path / "p.csv")
    assert 0.25 < pd.read_csv(tmp_path / "p.csv")["trust"].mean() < 0.75


def test_coverage_is_an_option(folder, fitted, tmp_path):
    widths = []
    for coverage in (0.5, 0.9, 0.99):
        run("predict", fitted[0], folder / "diabetes.csv", "--out", tmp_path / "p.csv", "--coverage", coverage)
        told = pd.read_csv(tmp_path / "p.csv")
        widths.append((told["upper"] - told["lower"]).mean())
        inside = told["progression"].between(told["lower"], told["upper"]).mean()
        assert inside == pytest.approx(coverage, abs=0.15)  # most rows were learned from
    assert widths == sorted(widths)


@pytest.mark.parametrize("end", ["csv", "tsv", "csv.gz", "parquet"])
@pytest.mark.parametrize("start", ["csv", "tsv", "csv.gz", "parquet"])
def test_all_ways_in_and_out(fitted, tmp_path, monkeypatch, start, end):
    """The same answers whatever the files are, and however many blocks they are read in."""
    monkeypatch.setattr("aleator.tabular.io.reader.ROWS", 16)
    new, out = tmp_path / f"new.{start}", tmp_path / f"p.{end}"
    frame = X[:50].assign(note=[None, "a,b"] * 25, n=pd.array([1, None] * 25, "Int64"))
    if start == "parquet":
        frame.to_parquet(new)
    else:
        frame.to_csv(new, index=False, sep="\t" if start == "tsv" else ",")
    run("predict", fitted[0], new, "--out", out)
    told = pd.read_parquet(out) if end == "parquet" else pd.read_csv(out, sep="\t" if end == "tsv" else ",")
    assert list(told) == [*frame, *ANSWERS]
    expected = aleator.load(fitted[0]).predict_uncertainty(X[:50]).to_frame()
    np.testing.assert_allclose(told["prediction"], expected["prediction"], rtol=1e-8)
    np.testing.assert_allclose(told["expected_loss"], expected["expected_loss"], rtol=1e-8)
    np.testing.assert_allclose(told["bmi"], X["bmi"][:50], rtol=1e-12)
    assert told["note"].fillna("").tolist() == ["", "a,b"] * 25


def test_on_the_screen_and_beside(folder, fitted, tmp_path, monkeypatch):
    text = run("predict", fitted[0], folder / "diabetes.csv", "--out", "-")
    assert len(text.splitlines()) == 443
    assert text.startswith("age,sex")
    monkeypatch.chdir(tmp_path)
    said = run("predict", fitted[0], folder / "diabetes.csv")
    assert "442 rows predicted" in said
    assert (tmp_path / "diabetes_predicted.csv").read_text() == text
    again = run("predict", fitted[0], "diabetes_predicted.csv", "--prefix", "new_", "--out", "twice.csv", "--json")
    assert json.loads(again)["rows"] == 442
    assert list(pd.read_csv("twice.csv"))[-7:] == [f"new_{name}" for name in ANSWERS]


def test_values_never_seen_are_told(folder, tmp_path):
    run("fit", folder / "messy.csv", "--target", "price", "--model", "pair", "--out", tmp_path / "m")
    new = pd.read_csv(folder / "messy.csv").assign(city="Graz")
    new.to_csv(tmp_path / "new.csv", index=False)
    told = json.loads(run("predict", tmp_path / "m", tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--json"))
    assert told["unseen_categories"]["city"] == {"rows": 300, "example": "Graz"}
    text = " ".join(run("predict", tmp_path / "m", tmp_path / "new.csv", "--out", tmp_path / "p.csv").split())
    assert "Column 'city' has values the model has not seen, such as 'Graz', in 300 of 300 rows" in text


def test_gaps_and_numbers_out_of_reach_are_told(folder, fitted, tmp_path, monkeypatch):
    """Where there never was a gap, and far beyond the training rows; over all blocks."""
    monkeypatch.setattr("aleator.tabular.io.reader.ROWS", 100)
    new = DIABETES.assign(bmi=np.where(np.arange(442) % 2, DIABETES["bmi"], np.nan), age=DIABETES["age"] * 30)
    new.to_csv(tmp_path / "new.csv", index=False)
    told = json.loads(run("predict", fitted[0], tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--json"))
    assert told["never_missing_before"] == {"bmi": {"rows": 221}}
    assert told["out_of_reach"]["age"]["rows"] > 300
    assert set(told["out_of_reach"]) == {"age"}
    text = " ".join(run("evaluate", fitted[0], tmp_path / "new.csv").split())
    assert "Column 'bmi' is missing in 221 of 442 rows, and never was" in text
    assert "Column 'age' is far from anything the model saw" in text
    same = json.loads(run("predict", fitted[0], folder / "diabetes.csv", "--out", tmp_path / "p.csv", "--json"))
    assert same["never_missing_before"] == same["out_of_reach"] == same["unseen_categories"] == {}


def test_rows_it_learned_from_are_noticed(folder, fitted, tmp_path):
    told = json.loads(run("evaluate", fitted[0], folder / "diabetes.csv", "--json"))
    assert told["measures"]["rows_learned_from"] == 353
    assert "353 of the 442 rows it was judged by are equal to rows it learned from" in " ".join(told["warnings"])
    assert fitted[1]["card"]["measures"]["rows_learned_from"] == 0
    pd.concat([DIABETES] * 2).to_csv(tmp_path / "twice.csv", index=False)
    twice = json.loads(run("fit", tmp_path / "twice.csv", "--target", "progression", "--model", "pair", "--json",
                           "--out", tmp_path / "m"))  # fmt: skip
    assert twice["card"]["measures"]["rows_learned_from"] > 100


def test_inputs_are_not_written_over(folder, fitted, tmp_path):
    table = tmp_path / "t.csv"
    DIABETES.to_csv(table, index=False)
    model = tmp_path / "m"
    model.write_bytes(fitted[0].read_bytes())
    before = table.read_bytes(), model.read_bytes()
    for arguments in (
        ["report", model, table, "--out", table],
        ["report", model, table, "--out", model],
        ["export", model, "--onnx", model],
        ["predict", model, table, "--out", table],
        ["predict", model, table, "--out", model],
        ["fit", table, "--target", "progression", "--out", table],
        ["fit", table, "--target", "progression", "--report", table],
    ):
        with pytest.raises(ValueError, match="itself; choose another place"):
            run(*arguments)
    assert (table.read_bytes(), model.read_bytes()) == before
    with pytest.raises(ValueError, match="needs a file, not the screen"):
        run("fit", table, "--target", "progression", "--out", "-")
    with pytest.raises(ValueError, match="tables are written as .csv"):
        run("predict", model, table, "--out", tmp_path / "p.xlsx")
    run("predict", model, table, "--out", "-", "--json", code=2)
    run("fit", table, "--target", "progression", "--test", table, "--test-fraction", "0.1", code=2)


def test_a_table_stays_as_it_was_written(fitted, tmp_path):
    """Semicolons, decimal commas, a byte order mark, Windows line ends, another encoding."""
    rows = [";".join(["ort", *X.columns])]
    rows += [";".join(["Köln", *(f"{v:.4f}".replace(".", ",") for v in X.iloc[k])]) for k in range(30)]
    german = pd.DataFrame(X).assign(y=y)
    german.to_csv(tmp_path / "g.csv", index=False, sep=";", decimal=",")
    run(
        "fit",
        tmp_path / "g.csv",
        "--target",
        "y",
        "--delimiter",
        ";",
        "--decimal",
        ",",
        "--model",
        "pair",
        "--out",
        tmp_path / "m",
    )
    for encoding in ("utf-8-sig", "latin-1", "utf-8"):
        (tmp_path / "new.csv").write_bytes("\r\n".join(rows).encode(encoding))
        name = "utf-8" if encoding == "utf-8-sig" else encoding
        run(
            "predict",
            tmp_path / "m",
            tmp_path / "new.csv",
            "--delimiter",
            ";",
            "--encoding",
            name,
            "--out",
            tmp_path / "p.csv",
        )
        text = (tmp_path / "p.csv").read_bytes().decode(encoding)
        lines = text.split("\r\n")
        assert text.startswith(rows[0] + ";prediction;")
        assert [line.startswith(row + ";") for line, row in zip(lines, rows, strict=False)] == [True] * 31
        said = pd.read_csv(tmp_path / "p.csv", sep=";", decimal=",", encoding=encoding)
        assert said["prediction"].between(0, 400).all()


def test_codes_are_categories(tmp_path):
    table = DIABETES.assign(zip=[f"{k % 7:05d}" for k in range(442)])
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "pair", "--out", tmp_path / "m")
    model = TableModel.load(tmp_path / "m")
    assert {c.name: c.kind for c in model.schema.columns}["zip"] == "category"
    assert model.read(tmp_path / "t.csv")["zip"].tolist() == table["zip"].tolist()


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_unit_of_the_target_does_not_matter(tmp_path, unit):
    small = DIABETES[:120]
    small.to_csv(tmp_path / "t.csv", index=False)
    small.assign(progression=unit * small["progression"]).to_csv(tmp_path / "u.csv", index=False)
    for name in ("forest", "pair"):
        told = [json.loads(run("fit", tmp_path / f"{t}.csv", "--target", "progression", "--model", name, "--json", "--out",
                               tmp_path / "m"))["card"]["measures"] for t in "tu"]  # fmt: skip
        assert told[1]["error"] == pytest.approx(unit * told[0]["error"], rel=0.05)
        assert told[1]["loss_ratio"] == pytest.approx(told[0]["loss_ratio"], rel=0.05)


def test_twenty_rows_are_enough(tmp_path):
    DIABETES[:20].to_csv(tmp_path / "t.csv", index=False)
    told = json.loads(run("fit", tmp_path / "t.csv", "--target", "progression", "--json", "--out", tmp_path / "m"))
    assert told["card"]["training_rows"] == 16
    assert len(told["card"]["compared"]) == 3


def test_estimators_saved_in_python_can_be_used_too(tmp_path, folder):
    model = aleator.PairRegressor(loss="absolute").fit(X, y)
    model.save(tmp_path / "m")
    run("predict", tmp_path / "m", folder / "diabetes.csv", "--out", tmp_path / "p.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], model.predict(X), rtol=1e-8)
    assert pd.read_csv(tmp_path / "p.csv")["trust"].isna().all()  # which takes the losses of the training rows
    told = json.loads(run("predict", tmp_path / "m", folder / "diabetes.csv", "--out", tmp_path / "p.csv", "--json"))
    assert told["mean_trust"] is None
    told = json.loads(run("inspect", tmp_path / "m", "--json"))
    assert [c["name"] for c in told["columns"]] == list(X)
    aleator.PairRegressor(epochs=2, rescale=False).fit(X.to_numpy(), y).save(tmp_path / "m")
    with pytest.raises(ValueError, match="was made without names of columns"):
        run("predict", tmp_path / "m", folder / "diabetes.csv", "--out", tmp_path / "p.csv")


# ---------------------------------------------------------------- the others


def test_evaluate_and_inspect(folder, fitted):
    text = run("evaluate", fitted[0], folder / "diabetes.csv")
    assert "judged on 442 rows" in text
    told = json.loads(run("inspect", fitted[0], "--json"))
    assert told["model"] == "PairEnsemble"
    assert told["target"] == "progression"
    assert told["parameters"]["loss"] == "absolute"
    assert told["card"] == fitted[1]["card"]
    assert told["weights"] == sum(a.size for a in [aleator.load(fitted[0]).params_])
    assert "checksum right" in run("inspect", fitted[0])


def test_export(folder, fitted, tmp_path):
    import onnxruntime

    run("export", fitted[0], "--onnx", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    prediction, expected = session.run(["prediction", "expected_loss"], {"X": X.to_numpy()})
    said = aleator.load(fitted[0]).predict_uncertainty(X)
    np.testing.assert_allclose(prediction, said.prediction, rtol=1e-5)
    np.testing.assert_allclose(expected, said.expected_loss, rtol=1e-5)
    run("fit", folder / "messy.csv", "--target", "price", "--model", "pair", "--out", tmp_path / "m")
    with pytest.raises(ValueError, match="ONNX has no words: column 'notes' is text"):
        run("export", tmp_path / "m", "--onnx", tmp_path / "no.onnx")
    assert not (tmp_path / "no.onnx").exists()


def test_every_command_has_help_with_an_example():
    for name, command in commands.commands.items():
        text = run(name, "--help")
        subcommands = getattr(command, "commands", None)
        for arguments in [[name]] if subcommands is None else [[name, sub] for sub in subcommands]:
            text = run(*arguments, "--help")
            assert f"Example: aleator {' '.join(arguments)}" in " ".join(text.split()), arguments


def test_usage_is_one_line_too(tmp_path):
    for arguments in (["fit"], ["fit", "a.csv"], ["nonsense"], ["predict", "--coverage", "2", "a", "b"]):
        done = subprocess.run(
            [sys.executable, "-m", "aleator", *arguments], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith("aleator: ")


def slow_table(path, rows, copies=1):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, 10)).round(4), columns=[f"c{k}" for k in range(10)])
    header, _, body = frame.assign(y=frame.sum(axis=1) + rng.normal(size=rows)).to_csv(index=False).partition("\n")
    path.write_text(header + "\n" + copies * body)


@pytest.mark.parametrize(
    ("what", "sent", "code", "said"),
    [
        ("fit ensemble", signal.SIGINT, 130, "interrupted"),
        ("fit forest", signal.SIGTERM, 143, "terminated"),
        ("predict", signal.SIGINT, 130, "interrupted"),
        ("predict", signal.SIGTERM, 143, "terminated"),
        ("predict", signal.SIGHUP, 129, "its terminal was closed"),
    ],
)
def test_ended_by_a_signal(what, sent, code, said, tmp_path, fitted):
    """It ends within two seconds with its code, and nothing is under the final name, nor beside it."""
    slow_table(tmp_path / "t.csv", 60_000, copies=20 if what == "predict" else 1)  # many blocks, so that it lasts
    if what == "predict":
        slow_table(tmp_path / "small.csv", 300)
        run("fit", tmp_path / "small.csv", "--target", "y", "--model", "ensemble", "--out", tmp_path / "m")
        arguments = ["predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv"]
    else:
        arguments = ["fit", tmp_path / "t.csv", "--target", "y", "--model", what.split()[1], "--out", tmp_path / "f"]
    before = sorted(os.listdir(tmp_path))
    command = [sys.executable, "-m", "aleator", *map(str, arguments)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL),  # background jobs of a shell ignore some
    ) as process:
        started = time.monotonic()
        while time.monotonic() - started < (60 if what == "predict" else 8) and process.poll() is None:
            time.sleep(0.05)
            if what == "predict" and len(os.listdir(tmp_path)) > len(before):  # it has begun to write
                break
        assert process.poll() is None, process.stderr.read()
        process.send_signal(sent)
        interrupted = time.monotonic()
        assert process.wait(timeout=30) == code
        took = time.monotonic() - interrupted
        assert process.stderr.read().strip() == f"aleator: {said}"
    assert sorted(os.listdir(tmp_path)) == before
    assert took < 10  # two seconds by the clock of an idle machine


def test_a_reader_that_has_read_enough_is_no_error(fitted, tmp_path):
    X.to_csv(tmp_path / "new.csv", index=False)
    DIABETES[:100].to_csv(tmp_path / "known.csv", index=False)
    for asked in (
        f"predict {fitted[0]} {tmp_path / 'new.csv'} --out -",
        f"predict {fitted[0]} {tmp_path / 'new.csv'}",
        f"evaluate {fitted[0]} {tmp_path / 'known.csv'}",
        f"inspect {fitted[0]} --json",
    ):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m aleator {asked} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"],
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip
        assert done.stdout == "0\n"
        assert done.stderr == ""


def test_a_target_in_per_cent_is_judged_in_per_cent(tmp_path):
    share = DIABETES[:200].assign(progression=[f"{value / 4:.1f} %" for value in y[:200]])
    share.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "boosting", "--out", tmp_path / "m")
    run("evaluate", tmp_path / "m", tmp_path / "t.csv")
    DIABETES[:200].to_csv(tmp_path / "plain.csv", index=False)
    refused = CliRunner().invoke(commands, ["evaluate", str(tmp_path / "m"), str(tmp_path / "plain.csv")])
    assert "cannot be compared with the numbers learned from, in %" in str(refused.exception)


@pytest.mark.parametrize("screen", ["a closed pipe", "a closed terminal"])
def test_a_signal_after_the_screen_is_gone(screen, tmp_path):
    """The exit code is the signal's, and it is soon."""
    slow_table(tmp_path / "t.csv", 30_000)
    read, write = os.pipe() if screen == "a closed pipe" else os.openpty()
    command = [sys.executable, "-m", "aleator", "fit", tmp_path / "t.csv", "--target", "y", "--model", "forest"]
    with subprocess.Popen(
        [*map(str, command), "--out", str(tmp_path / "m")], stderr=write, stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        time.sleep(6)
        os.close(read)
        os.close(write)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
    assert os.listdir(tmp_path) == ["t.csv"]


def test_the_screen_is_safe_from_what_is_in_a_file(fitted, tmp_path):
    facts, arrays = file_format.read(fitted[0])
    evil = "\x1b[2J\x1b]0;title\x07[red]\u202e"
    for key in ("data", "about", "created", "group", "check"):
        facts["table"]["card"][key] = evil
    facts["table"]["card"]["measures"]["error_name"] = evil
    facts["params"]["loss"], facts["written_by"] = evil, {evil: evil}
    path = tmp_path / "[bold]m"
    file_format.write(path, facts, arrays)
    shown = run("inspect", path)
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    assert "[bold]m" in shown
    del facts["table"]["card"]["measures"]["error"]
    file_format.write(path, facts, arrays)
    run("inspect", path)


def test_signed_files(fitted, tmp_path):
    DIABETES[:200].to_csv(tmp_path / "t.csv", index=False)
    for name, content in (("key", b"0123456789abcdef"), ("other", b"fedcba9876543210"), ("short", b"0123")):
        (tmp_path / name).write_bytes(content)
    signed, key = tmp_path / "m", ["--key-file", tmp_path / "key"]
    run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "boosting", "--out", signed, *key)
    for asked in (["inspect"], ["predict", tmp_path / "t.csv"], ["evaluate", tmp_path / "t.csv"]):
        command, *more = asked
        out = ["--out", tmp_path / "p.csv"] if command == "predict" else []
        run(command, signed, *more, *out, *key)
        run(command, signed, *more, *out)  # who has no key can read it all the same
        for model, wrong in ((signed, "other"), (fitted[0], "key"), (signed, "short")):
            arguments = [command, model, *more, *out, "--key-file", tmp_path / wrong]
            refused = CliRunner().invoke(commands, [str(argument) for argument in arguments])
            if wrong == "short":
                assert "has 4 bytes" in refused.output
            else:
                assert "not signed with this key" in str(refused.exception)


def test_one_row_is_kept_at_least():
    assert evaluation.refused(0.99, 10) == 9
    assert evaluation.refused(0.0, 10) == 0


def test_cells_with_strange_line_ends_stay_cells(fitted, tmp_path):
    rows = [",".join(["note", *X.columns]), *(f'"a\rb{k}",' + ",".join(map(str, X.iloc[k])) for k in range(3))]
    (tmp_path / "new.csv").write_bytes("\n".join(rows).encode())
    run("predict", fitted[0], tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    again = opened(tmp_path / "p.csv")
    assert [cell for block in again.blocks() for cell in block.column("note")] == ["a\rb0", "a\rb1", "a\rb2"]


def test_parquet_with_categories_can_be_read_again(fitted, tmp_path):
    X.assign(kind=pd.Categorical(["a", "b"] * 221)).to_parquet(tmp_path / "new.parquet")
    run("predict", fitted[0], tmp_path / "new.parquet", "--out", tmp_path / "p.parquet")
    again = pd.read_parquet(tmp_path / "p.parquet")
    assert again["kind"].tolist() == ["a", "b"] * 221
    assert again["bmi"].dtype == np.float64


def test_columns_with_hardly_a_value(tmp_path):
    sparse = DIABETES[:200].assign(rare=[None] * 150 + ["x"] * 2 + [None] * 48)
    sparse.to_csv(tmp_path / "t.csv", index=False)
    for name in ("pair", "boosting"):
        run("fit", tmp_path / "t.csv", "--target", "progression", "--model", name, "--out", tmp_path / "m")
        run("predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv")


def test_rows_that_cannot_be_judged_are_counted(fitted, tmp_path):
    table = DIABETES.assign(progression=DIABETES["progression"].where(np.arange(442) % 2 > 0))
    table.to_csv(tmp_path / "t.csv", index=False)
    told = json.loads(run("evaluate", fitted[0], tmp_path / "t.csv", "--json"))
    assert told["measures"]["rows"] == 221
    assert "221 rows have no progression, and were left out." in told["warnings"]
    by_hand = np.abs(aleator.load(fitted[0]).predict(X[1::2]) - y[1::2]).mean()
    assert told["measures"]["error"] == pytest.approx(by_hand)


def test_more_that_is_refused(tmp_path):
    table = DIABETES.assign(group=[f"g{k % 50}" for k in range(442)])
    table.loc[7, "group"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="row 9, column 'group': the group is missing"):
        run("fit", tmp_path / "t.csv", "--target", "progression", "--group", "group", "--out", tmp_path / "m")
    pd.DataFrame({"a": ["x", "y"] * 50, "b": [1.0, 2.0] * 50}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="the table has only 2 different rows"):
        run("fit", tmp_path / "t.csv", "--target", "b", "--model", "pair", "--out", tmp_path / "m")
    run("fit", tmp_path / "t.csv", "--target", "b", "--encoding", "hex", code=2)


def test_a_row_number_is_noticed_among_the_training_rows(tmp_path):
    DIABETES.assign(id=np.arange(100, 542)).to_csv(tmp_path / "t.csv", index=False)
    told = json.loads(
        run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "pair", "--json", "--out", tmp_path / "m")
    )
    assert any("Column 'id' counts the rows" in text for text in told["warnings"])


def test_the_least_certain_are_the_least_certain(folder, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("aleator.tabular.io.reader.ROWS", 100)
    told = json.loads(run("predict", fitted[0], folder / "diabetes.csv", "--out", tmp_path / "p.csv", "--json"))
    table = pd.read_csv(tmp_path / "p.csv")
    worst = table["expected_loss"].sort_values(ascending=False).index[:5]
    assert [row["row"] for row in told["least_certain"]] == (worst + 2).tolist()
    assert told["mean_expected_loss"] == pytest.approx(table["expected_loss"].mean())
    assert told["mean_trust"] == pytest.approx(table["trust"].mean())


@pytest.mark.parametrize(
    ("rows", "ratio", "covered", "tone"),
    [(100, 1.0, 0.9, "good"), (100, 0.7, 0.9, "bad"), (100, 1.0, 0.8, "bad"), (100, 1.5, 0.9, "unsure"), (100, 1.0, 0.99, "unsure"),
     (30, 1.0, 0.9, "unsure")],
)  # fmt: skip
def test_verdicts(rows, ratio, covered, tone):
    assert model_warnings.verdict({"rows": rows, "loss_ratio": ratio, "coverage_90": covered}).tone == tone


def test_the_best_constant():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=5001)
    assert evaluation.best_constant(losses.squared, values) == pytest.approx(values.mean())
    assert evaluation.best_constant(losses.get("absolute"), values) == pytest.approx(np.median(values), rel=0.01)
    assert evaluation.best_constant(losses.get("pinball(0.9)"), values) == pytest.approx(
        np.quantile(values, 0.9), rel=0.01
    )


# ---------------------------------------------------------------- models that are not to be relied on


def judged(loss, expected):
    """An evaluation of rows that lost and were expected to lose so much."""
    loss, expected = np.asarray(loss, float), np.broadcast_to(np.asarray(expected, float), np.shape(loss))
    said = aleator.Prediction(np.zeros_like(loss), expected, expected, np.zeros_like(loss), loss=losses.get("absolute"))
    frame = pd.DataFrame({"x": np.zeros_like(loss)}, index=np.arange(2, len(loss) + 2))
    return evaluation.Evaluation(frame, loss, said, -loss, loss, np.zeros_like(loss), 0.0)


def test_who_loses_four_times_what_is_expected_is_refused():
    rng = np.random.default_rng(0)
    errors = rng.exponential(size=200)
    with pytest.raises(
        model_warnings.UnreliableError, match=r"on 200 rows it has not seen, the losses it expects are 0.089 times"
    ):
        model_warnings.refuse_unreliable(judged(errors, 0.1))
    for fine in (
        judged(errors, 0.5),
        judged(errors, 9.0),
        judged(errors[:40], 0.1),
        judged(np.zeros(200), 1e-12),
        None,
    ):
        model_warnings.refuse_unreliable(fine)


def test_one_row_that_loses_everything_is_no_reason_to_refuse():
    errors = np.r_[np.random.default_rng(0).exponential(size=200), 1e9]
    found = judged(errors, 1.0)
    model_warnings.refuse_unreliable(found)
    assert found.loss_ratio == pytest.approx(1.0, rel=0.4)
    (warning,) = [text for text in model_warnings.judged_warnings(found) if "far beyond all others" in text]
    assert "1 row, 202, has a loss" in warning
    measures = found.measures()
    assert measures["loss_ratio"] == pytest.approx(measures["expected_loss"] / measures["credible_loss"])


@pytest.mark.parametrize("seed", range(20))
def test_rare_claims_are_no_reason_to_refuse(seed):
    """A claim of 10,000 in a hundred rows is expected rightly, and may be absent from the rows it is judged by."""
    claims = np.where(np.random.default_rng(seed).uniform(size=200) < 0.01, 10_000.0, 0.0)
    model_warnings.refuse_unreliable(judged(claims, 100.0))


def test_rare_claims_are_judged_by_what_the_model_found_plausible():
    """One large claim in 200 rows is not taken for a mistake if there were such among the rows learned from."""
    claims = np.r_[np.zeros(150), np.full(49, 0.1), 195.1]
    assert judged(claims, 1.0).loss_ratio > 10
    found = replace(judged(claims, 1.0), largest=200.0)
    assert found.loss_ratio == pytest.approx(1.0)
    assert not any("far beyond" in text for text in model_warnings.judged_warnings(found))


def test_few_large_losses_may_be_chance():
    """One claim where two were expected is no reason to call the model careful; as rare in many rows, it is."""
    one = replace(judged(np.r_[np.zeros(199), 100.0], 1.3), largest=100.0)
    assert "may be chance" in model_warnings.verdict(one.measures() | {"coverage_90": 0.9}).text
    many = replace(judged(np.r_[np.zeros(199_000), np.full(1_000, 100.0)], 1.5), largest=100.0)
    assert "chance" not in model_warnings.verdict(many.measures() | {"coverage_90": 0.9}).text


def test_a_check_that_failed_is_told_whenever_the_model_is_used(folder, fitted, tmp_path):
    made = TableModel.load(fitted[0])
    failed = "The quantifier failed its check on held-out rows."
    replace(made, card=made.card | {"check": failed}).save(tmp_path / "m")
    for command in ("predict", "evaluate"):
        where = ["--out", tmp_path / "p.csv"] if command == "predict" else []
        assert failed in " ".join(run(command, tmp_path / "m", folder / "diabetes.csv", *where).split())
        told = json.loads(run(command, tmp_path / "m", folder / "diabetes.csv", *where, "--json"))
        assert f"About the model: {failed}" in told["warnings"]
    assert "failed its check" in run("inspect", tmp_path / "m")
    assert "passed" in run("inspect", fitted[0])


def test_dates_at_the_end_of_time(tmp_path):
    """9999-12-31 is what some systems write for no end."""
    table = DIABETES.assign(until="2024-05-17")
    table.loc[::3, "until"] = "2023-01-01"
    table.loc[5, "until"] = "9999-12-31"
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "--target", "progression", "--model", "pair", "--out", tmp_path / "m")
    run("predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    expected = pd.read_csv(tmp_path / "p.csv")["expected_loss"]
    assert expected.max() < 10 * expected.median()


def test_a_model_that_fails_is_not_written(tmp_path):
    DIABETES.iloc[:200].to_csv(tmp_path / "table.csv", index=False)
    other = DIABETES.iloc[200:].assign(progression=lambda rows: 100 * rows["progression"])
    other.to_csv(tmp_path / "other.csv", index=False)
    arguments = ["fit", "table.csv", "--target", "progression", "--model", "boosting", "--test", "other.csv"]
    done = subprocess.run([sys.executable, "-m", "aleator", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "Nothing was written" in done.stderr
    assert not (tmp_path / "model.aleator").exists()


def test_a_few_absurd_targets_are_named(tmp_path):
    table = DIABETES.copy()
    table.loc[10, "progression"] = 1e7
    table.to_csv(tmp_path / "table.csv", index=False)
    told = json.loads(run("fit", tmp_path / "table.csv", "--target", "progression", "--model", "boosting", "--json",
                          "--out", tmp_path / "m.aleator"))  # fmt: skip
    assert any("far beyond all others" in text and "12" in text for text in told["warnings"])
    assert 0.5 < told["card"]["measures"]["loss_ratio"] < 2
