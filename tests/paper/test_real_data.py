"""Section 8: the protocol leaks nothing, records are whole and found again, and every back end gives the same bits."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats
from sklearn.datasets import load_diabetes

from aleator import PairEnsemble, datasets
from aleator.cli import commands
from aleator.datasets import Dataset
from aleator.metrics import rejection_auc
from aleator.paper import (
    compact_results,
    job_runner,
    parallel_backends,
    protocol,
    real_data,
    real_data_figures,
    real_data_tables,
    records,
    tuning,
)
from aleator.paper.protocol import METHODS, PUBLISHED, SETS, Trial, fold, published, published_settings
from aleator.paper.real_data import Request
from aleator.paper.records import Record, Store

QUICK = {"hidden": (5,), "batch_size": 10, "learning_rate": 1e-3, "epochs": 3, "dropout": 0.0, "lam": 0.2}


def made_up(n=80, seed=0, name="diabetes"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] + (0.1 + (X[:, 1] > 0)) * rng.normal(size=n)
    return Dataset(name, X, y, ("a", "b", "c"), "t", "nobody", records.hashlib.sha256(y.tobytes()).hexdigest())


def trials(methods=("ml", "pair", "pbp"), folds=3, **changed):
    return [Trial("diabetes", "rmse", method, k, QUICK | changed) for method in methods for k in range(folds)]


def store_in(folder, dataset=None):
    return Store(folder / "records", {"diabetes": dataset or made_up()})


def computed(jobs, store, workers=1):
    with parallel_backends.local(store.data, workers) as backend:
        return job_runner.run(jobs, store, backend)


# ---------------------------------------------------------------- the protocol


def test_every_published_cell_is_there():
    six = ("ml", "svgd", "pbp", "pair", "ens_ml", "ens_pair")
    for objective in ("rmse", "mae"):
        for name in (*SETS, "msd"):
            cells = PUBLISHED[objective][name]
            assert set(cells) == set(six) - ({"pbp"} if name == "msd" else set())
            assert any("error" in cell["bold"] for cell in cells.values())
            assert set(PUBLISHED["hyperparameters"][objective][name]) == {"ml", "pair"}
    assert PUBLISHED["rmse"]["yacht"]["ens_ml"] == {
        "error": 0.48, "error_std": 0.24, "auc": 0.21, "auc_std": 0.07, "bold": ["error", "auc"]
    }  # fmt: skip
    assert six == real_data.PAPERS


def test_published_settings():
    assert published_settings("boston", "rmse", "pair") == {
        "hidden": (50,), "batch_size": 5, "lam": 0.1, "learning_rate": 0.0008, "dropout": 0.4, "epochs": 500
    }  # fmt: skip
    assert published_settings("boston", "rmse", "ens_pair")["dropout"] == 0.0  # ensembles have none
    assert published_settings("msd_sample", "mae", "ml")["hidden"] == (100,)
    for method in METHODS:
        for name in (*SETS, "msd"):
            for objective, loss in protocol.OBJECTIVES.items():
                model = Trial(name, objective, method, 7, published_settings(name, objective, method)).model()
                assert model.random_state == 7
                assert model.loss == loss


def test_published_settings_are_a_preset():
    X, y = load_diabetes(return_X_y=True)
    model = published("yacht", objective="mae")
    expected = published_settings("yacht", "mae", "ens_pair")
    assert (type(model).__name__, model.loss) == ("PairEnsemble", "absolute")
    assert {name: model.get_params()[name] for name in expected} == expected
    assert model.set_params(epochs=2).fit(X, y).predict(X).shape == y.shape
    assert type(published("boston", "ens_ml")).__name__ == "MeanVarianceEnsemble"
    for given, message in (
        (("bostom",), "no dataset 'bostom': did you mean 'boston'"),
        (("boston", "ens"), "no method 'ens'"),
        (("boston", "ml", "mse"), "no objective 'mse'"),
    ):
        with pytest.raises(ValueError, match=message):
            published(*given)


def test_folds_are_the_recipe():
    dataset = made_up(81)
    train, test = fold(dataset, 3)
    order = np.random.default_rng(3).permutation(81)
    np.testing.assert_array_equal(np.concatenate([train, test]), order)
    assert len(train) == round(0.95 * 81)
    train, test = fold(replace(dataset, split=50), 9)
    np.testing.assert_array_equal(train, np.arange(50))
    np.testing.assert_array_equal(test, np.arange(50, 81))


@pytest.mark.parametrize("method", METHODS)
def test_a_test_target_has_no_influence(method):
    """The fold's model says the same, whatever the targets of its test rows are; a training target is another matter."""
    dataset = made_up(100)
    trial = Trial("diabetes", "rmse", method, 1, QUICK)
    train, test = fold(dataset, 1)
    _, said = trial.perform(dataset)
    for rows, same in ((test, True), (train[:3], False)):
        y = dataset.y.copy()
        y[rows] += 5.0
        outcome, other = trial.perform(replace(dataset, y=y))
        for name, values in said.items():
            assert np.array_equal(values, other[name]) == same
        assert outcome["measures"]["error"] > 0


def test_a_search_sees_no_test_row(monkeypatch):
    """No test target of any of the five folds changes what is chosen, nor any number on the way."""
    grid = tuning.Grid((1e-3, 4e-3), (0.1, 1.0), (0.0,), (2, 5), 2, 0.25)
    monkeypatch.setattr(tuning, "grid", lambda *_: grid)
    dataset = made_up(120)
    search = tuning.Search("diabetes", "rmse", "ens_pair", 5)
    outcome, _ = search.perform(dataset)
    y = dataset.y.copy()
    for number in range(5, 10):
        y[fold(dataset, number)[1]] += 100.0
    assert search.perform(replace(dataset, y=y))[0] == outcome
    y[tuning.common_rows(dataset, tuning.group(7))[:9]] += 100.0
    assert search.perform(replace(dataset, y=y))[0] != outcome
    for part, (learned, held) in enumerate(parts := list(search._parts(dataset))):
        assert not set(learned) & set(held)
        assert set(learned) | set(held) == set(tuning.common_rows(dataset, range(5, 10)))
        assert part == 0 or set(held) != set(parts[0][1])
    best = outcome["settings"]
    by_hand = []
    for learned, held in parts:
        model = PairEnsemble(n_members=3, loss="squared", **protocol._trained(best, "lam"), random_state=5)
        said = model.fit(dataset.X[learned], dataset.y[learned]).predict_uncertainty(dataset.X[held])
        by_hand.append(rejection_auc(dataset.y[held], said.prediction, said.expected_loss, "rmse"))
    assert outcome["auc"] == pytest.approx(np.mean(by_hand))
    assert len(outcome["tried"]) == 2 * 2 * 2
    assert outcome["auc"] == min(each["auc"] for each in outcome["tried"])
    assert outcome["settings"]["epochs"] in (2, 5)


def test_common_rows():
    dataset = made_up(100)
    rows = tuning.common_rows(dataset, tuning.group(13))
    assert list(tuning.group(13)) == [10, 11, 12, 13, 14]
    outside = set().union(*(fold(dataset, number)[1] for number in range(10, 15)))
    assert set(rows) == set(range(100)) - outside


def test_diverging_combinations_are_out(monkeypatch):
    dataset = made_up(120)
    grids = [
        tuning.Grid((1e-3, 1e9), (0.1,), (0.0,), (5,), 1, 0.25),
        tuning.Grid((1e9,), (0.1,), (0.0,), (5,), 1, 0.25),
    ]
    monkeypatch.setattr(tuning, "grid", lambda *_: grids[0])
    outcome, _ = tuning.Search("diabetes", "rmse", "pair", 0).perform(dataset)
    assert [each["settings"]["learning_rate"] for each in outcome["tried"]] == [1e-3]
    monkeypatch.setattr(tuning, "grid", lambda *_: grids[1])
    with pytest.raises(ArithmeticError, match="every combination"):
        tuning.Search("diabetes", "rmse", "pair", 0).perform(dataset)


def test_searches_are_found_by_what_determines_them(tmp_path, monkeypatch):
    store, search = store_in(tmp_path), tuning.Search("diabetes", "rmse", "pair", 0)
    path = store.path(search)
    monkeypatch.setitem(PUBLISHED["batch_size"], "boston", 17)
    assert store.path(search) != path
    with pytest.raises(ValueError, match="there is no grid for msd"):
        tuning.Search("msd", "rmse", "pair", 0)


def test_the_methods_are_those_of_the_paper():
    settings = published_settings("concrete", "rmse", "pair")
    made = {name: method.model("squared", settings).get_params(deep=False) for name, method in METHODS.items()}
    for name in ("ml", "pair", "ens_ml", "ens_pair", "beta_nll", "dropout"):
        trained = {
            "optimizer": "nesterov",
            "momentum": 0.9,
            "l2": 0.0,
            "batch_size": 5,
            "learning_rate": 2e-4,
            "epochs": 700,
        }
        assert made[name].items() >= trained.items()
    assert made["ens_ml"]["n_members"] == made["ens_pair"]["n_members"] == 5
    assert made["pair"]["dropout"] == made["ml"]["dropout"] == 0.15
    assert made["ens_pair"]["dropout"] == made["ens_ml"]["dropout"] == 0.0
    assert made["pair"]["lam"] == made["ens_pair"]["lam"] == 0.2
    assert made["pair"]["coupling"] == "sigmoid"
    assert made["dropout"]["dropout"] == 0.1
    assert made["svgd"].items() >= {"iterations": 1000, "n_particles": 20, "batch_size": 100, "shuffle": False}.items()


def test_measures_of_what_is_known():
    rng = np.random.default_rng(0)
    scale = rng.uniform(1, 3, 200_000)
    y = scale * rng.normal(size=200_000)
    said = protocol.measures("rmse", y, np.zeros_like(y), scale**2)
    assert said["coverage"] == pytest.approx(0.9, abs=0.003)
    assert said["error"] == pytest.approx(np.sqrt(np.mean(y**2)))
    assert said["expected"] == pytest.approx(said["realised"], rel=0.02)
    assert said["nll"] == pytest.approx(-np.mean(stats.norm.logpdf(y, 0, scale)))
    assert said["auc"] < said["error"]
    y = rng.laplace(0, scale)
    said = protocol.measures("mae", y, np.zeros_like(y), scale)
    assert said["coverage"] == pytest.approx(0.9, abs=0.003)
    assert said["error"] == pytest.approx(np.abs(y).mean())
    assert said["nll"] == pytest.approx(-np.mean(stats.laplace.logpdf(y, 0, scale)))
    assert said["crps"] == pytest.approx(np.mean(np.abs(y) + scale * np.exp(-np.abs(y) / scale) - 0.75 * scale))


# ---------------------------------------------------------------- records


def test_a_rerun_computes_only_what_is_missing(tmp_path, monkeypatch):
    store, performed = store_in(tmp_path), []
    real = Trial.perform
    monkeypatch.setattr(Trial, "perform", lambda self, data: (performed.append(self), real(self, data))[1])
    jobs = trials()
    first = computed(jobs, store)
    assert len(performed) == len(jobs)
    again = computed(jobs, store)
    assert len(performed) == len(jobs)
    for a, b in zip(first, again, strict=True):
        assert a.outcome == b.outcome
        np.testing.assert_array_equal(a.arrays["y_pred"], b.arrays["y_pred"])
    store.path(jobs[2]).unlink()
    content = bytearray(store.path(jobs[4]).read_bytes())
    content[-3] ^= 1  # a flipped bit
    store.path(jobs[4]).write_bytes(content)
    computed(jobs, store)
    assert performed[len(jobs) :] == [jobs[2], jobs[4]]


def test_what_determines_a_record_is_in_its_name(tmp_path, monkeypatch):
    store, job = store_in(tmp_path), trials()[0]
    path = store.path(job)
    assert path == store.path(trials()[0])
    others = [replace(job, fold=1), replace(job, method="pair"), replace(job, objective="mae")]
    others += [replace(job, settings=QUICK | {name: value}) for name, value in (("epochs", 4), ("learning_rate", 2e-3))]
    names = {store.path(other) for other in others}
    assert path not in names
    assert len(names) == len(others)
    assert store_in(tmp_path, made_up(seed=1)).path(job) != path
    for name in ("code", "numpy", "aleator"):
        changed = {**records.made_with(), name: "another"}
        with monkeypatch.context() as patched:
            patched.setattr(records, "made_with", lambda changed=changed: changed)
            assert store.path(job) != path


def test_one_job_one_process(tmp_path):
    ours, theirs, job = store_in(tmp_path), store_in(tmp_path), trials()[0]
    with ours.claims():
        assert ours.claim(job)
        assert not theirs.claim(job)
    assert theirs.claim(job)  # what was held is free again
    theirs.release(job)
    assert ours.claim(job)
    ours.release(job)


def test_jobs_of_another_process_are_waited_for(tmp_path, monkeypatch):
    """They are not computed twice: the other process writes them while this one waits."""
    ours, theirs, jobs = store_in(tmp_path), store_in(tmp_path), trials()
    (known,) = computed(jobs[:1], store_in(tmp_path / "elsewhere"))
    assert theirs.claim(jobs[0])

    def meanwhile(_):
        theirs.write(jobs[0], known)
        theirs.release(jobs[0])

    monkeypatch.setattr(job_runner.time, "sleep", meanwhile)
    written = []
    write = Store.write
    monkeypatch.setattr(Store, "write", lambda self, job, record: (written.append(self), write(self, job, record)))
    computed(jobs, ours)
    assert sum(store is ours for store in written) == len(jobs) - 1


@dataclass(frozen=True)
class Killer:
    """A job that takes its process with it."""

    dataset: str = "diabetes"
    fold: int = 0

    def facts(self):
        return {"kind": "killer", "dataset": "diabetes", "objective": "rmse", "method": "ml", "fold": self.fold}

    def perform(self, dataset):
        os._exit(9)


@dataclass(frozen=True)
class Slow(Killer):
    """A job that takes longer than it takes to kill a process."""

    def facts(self):
        return super().facts() | {"kind": "slow"}

    def perform(self, dataset):
        time.sleep(1.0)
        return {"slept": True}, {}


def test_a_dead_worker_costs_one_job(tmp_path):
    """Jobs that were in flight beside it are done, though the pool breaks under them."""
    jobs = [Slow(fold=0), Slow(fold=1), Killer(), Slow(fold=2), Slow(fold=3), *trials(folds=1)]
    store = store_in(tmp_path)
    found = computed(jobs, store, workers=2)
    assert [k for k, record in enumerate(found) if record.failed] == [2]
    assert found[2].failed.startswith("the worker died 3 times (")
    assert "\n" not in found[2].failed
    assert not any((tmp_path / "records" / ".claims").iterdir())


def test_locks_that_do_not_work_are_told(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(records.fcntl, "flock", unsupported)
    with pytest.raises(OSError, match="cannot lock files here"):
        computed(trials(), store_in(tmp_path))


def test_a_record_of_another_job_is_not_taken(tmp_path):
    store, jobs = store_in(tmp_path), trials()
    first = computed(jobs, store)
    store.path(jobs[0]).write_bytes(store.path(jobs[5]).read_bytes())
    assert store.read(jobs[0]) is None
    assert [record.outcome["measures"] for record in computed(jobs, store)] == [r.outcome["measures"] for r in first]


# ---------------------------------------------------------------- failures are told


@pytest.fixture
def failing(monkeypatch):
    """Fold 1 of ML fails, until told otherwise."""
    real, state = Trial.perform, {"fails": True}

    def perform(self, dataset):
        if self.method == "ml" and self.fold == 1 and state["fails"]:
            raise ArithmeticError("training diverged\nin epoch 3.")
        return real(self, dataset)

    monkeypatch.setattr(Trial, "perform", perform)
    monkeypatch.setattr(real_data, "published_settings", lambda *_: QUICK)
    return state


def test_a_failed_fold_is_told_and_tried_again(failing, tmp_path):
    arguments = ["reproduce", "tables", "--datasets", "diabetes", "--methods", "ml,pair", "--folds", "3", "--no-sweep"]
    arguments += ["--objective", "rmse", "--jobs", "1", "--out", str(tmp_path)]
    told = CliRunner().invoke(commands, arguments)
    assert told.exit_code == 1
    line = "diabetes, RMSE, ML: 2/3, fold 1: ArithmeticError: training diverged in epoch 3."
    assert line in told.output.splitlines()
    text = (tmp_path / "tables.md").read_text()
    assert f"- {line}" in text
    assert "(2/3)" in next(row for row in text.splitlines() if row.startswith("| ML"))
    measures = compact_results.read(tmp_path).measures
    good = measures[(measures["method"] == "ml") & (measures["failed"] == "")]
    assert list(good["fold"]) == [0, 2]
    failing["fails"] = False
    assert CliRunner().invoke(commands, arguments).exit_code == 0
    assert "(2/3)" not in (tmp_path / "tables.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--datasets", "bostn"], "did you mean 'boston'"),
        (["--methods", "pairs"], "did you mean 'pair'"),
        (["--datasets", "diabetes", "--address", "auto"], "the local backend has none"),
    ],
)
def test_bad_options_are_one_line(tmp_path, arguments, message):
    result = CliRunner().invoke(commands, ["reproduce", "tables", "--out", str(tmp_path / "out"), *arguments])
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)


def test_lists_and_counts():
    for bad in ({"datasets": "diabetes"}, {"methods": ()}, {"folds": "3"}, {"jobs": 0}, {"methods": ("ml", "ml")}):
        with pytest.raises(ValueError, match="must be|twice"):
            Request(**bad)
    told = CliRunner().invoke(commands, ["reproduce", "tables", "--datasets", ","], standalone_mode=True)
    assert "no name is given" in told.output


def test_if_all_folds_fail_it_is_told(failing, tmp_path, monkeypatch):
    monkeypatch.setattr(Trial, "perform", lambda *_: 1 / 0)
    paths, failures = real_data.reproduce(str(tmp_path), Request(("diabetes",), ("ml", "pair"), ("rmse",), 2, jobs=1))
    assert len(failures) == 2
    assert "fold 0: ZeroDivisionError" in failures[0]
    assert tmp_path / "tables.md" in paths


def test_one_folder_one_request(failing, tmp_path):
    """What another request left is gone, and the tables say whose settings they show."""
    failing["fails"] = False
    real_data.reproduce(tmp_path, Request(("diabetes",), ("pair",), ("rmse", "mae"), 2, jobs=1))
    assert (tmp_path / "lam-mae.png").is_file()
    real_data.reproduce(tmp_path, Request(("diabetes",), ("pair",), ("rmse",), 2, sweep=False, jobs=1))
    assert {path.name for path in tmp_path.glob("*.png")} == {"curves-rmse.png"}
    text = (tmp_path / "tables.md").read_text()
    assert text.startswith("Settings: those of the paper; diabetes has those of boston.")
    assert "standard errors" in text


def test_the_sweep_is_beside_the_table(failing, tmp_path):
    failing["fails"] = False
    real_data.reproduce(tmp_path, Request(("diabetes",), ("ml", "pair"), ("rmse",), 2, jobs=1))
    found = compact_results.read(tmp_path)
    pairs = found.measures[found.measures["method"] == "pair"]
    assert [tuple(row) for row in pairs[["fold", "lam", "sweep"]].to_numpy()][:6] == [
        (0, 0.2, False), (0, 0.1, True), (0, 0.5, True), (0, 1.0, True), (0, 2.0, True), (0, 5.0, True)
    ]  # fmt: skip
    own = pairs[~pairs["sweep"]]["auc"].mean()
    curve = found.curves["diabetes", "rmse", "pair"]
    assert np.trapezoid(curve) / (len(curve) - 1) == pytest.approx(own, rel=1e-6)


# ---------------------------------------------------------------- tables and figures


AUCS = {
    "ml": 2.0,
    "svgd": 1.0,
    "pbp": 1.01,
    "pair": 1.5,
    "ens_ml": 1.6,
    "ens_pair": 1.7,
    "quantifier": 2.5,
    "beta_nll": 0.5,
}


def some_results(n_folds=12, seed=0):
    """Errors as drawn; ens_pair is best, ens_ml not significantly worse, the quantifier far better."""
    rng = np.random.default_rng(seed)
    level = {"ml": 3.0, "svgd": 4.0, "pbp": 3.5, "pair": 2.8, "ens_ml": 2.01, "ens_pair": 2.0, "quantifier": 1.0}
    level |= {"beta_nll": 5.0}
    rows = []
    for objective in ("rmse", "mae"):
        for name in ("boston", "kin8nm"):
            common = rng.normal(0, 1.0, n_folds)
            for method, mean in level.items():
                for k in range(n_folds):
                    value = mean + 0.1 * common[k] + 0.1 * rng.normal()
                    cell = {"dataset": name, "objective": objective, "method": method, "fold": k}
                    own = {"lam": 0.1 if "pair" in method else np.nan, "sweep": False}
                    auc = AUCS[method] + 0.1 * common[-k] + 0.1 * rng.normal()
                    measured = {"error": value, "auc": auc, "expected": 2.0, "realised": 1.0}
                    measured |= {"nll": 1.5, "crps": 0.25, "coverage": 0.9}
                    rows.append(cell | own | measured | {"failed": ""})
                    if method == "pair":
                        rows += [rows[-1] | {"lam": lam, "sweep": True, "error": value + lam} for lam in (0.5, 2.0)]
    measures = pd.DataFrame(rows)
    cells = {(name, objective, method) for name, objective, method in measures[compact_results.CELL].to_numpy(str)}
    curves = {cell: np.linspace(level[cell[2]], 0.1, 20) for cell in sorted(cells)}
    seconds = measures["method"].map({method: 0.25 * k for k, method in enumerate(level)}).rename("fit_seconds")
    return compact_results.Results(measures, seconds, curves)


def test_marks_and_differences_by_hand():
    found = some_results()
    table = real_data_tables.cells(found)
    boston = table[(table["dataset"] == "boston") & (table["objective"] == "rmse")].set_index("method")
    own = found.measures[~found.measures["sweep"] & (found.measures["dataset"] == "boston")]
    errors = own[own["objective"] == "rmse"].pivot(index="fold", columns="method", values="error")
    aucs = own[own["objective"] == "rmse"].pivot(index="fold", columns="method", values="auc")
    for name, folds, best, star in (("error", errors, "ens_pair", "quantifier"), ("auc", aucs, "pbp", "beta_nll")):
        assert folds.drop(columns=[star]).mean().idxmin() == best
        for method in folds:
            p = stats.ttest_rel(folds[method], folds[best]).pvalue if method != best else 1.0
            expected = "star" if method == star else "" if p < 0.05 or METHODS[method].ours else "bold"
            assert boston.loc[method, f"{name}_mark"] == expected
    assert boston.loc["ens_ml", "error_mark"] == "bold"
    assert boston.loc["ml", "error_mark"] == ""
    assert boston.loc["svgd", "auc_mark"] == "bold"
    ml = errors["ml"]
    auc_off = (aucs["ml"].mean() - 2.40) / np.sqrt(aucs["ml"].var(ddof=1) / 12 + 0.59**2 / 50)
    assert boston.loc["ml", "auc_off"] == pytest.approx(auc_off)
    assert boston.loc["pbp", "fit_seconds"] == 0.5
    off = (ml.mean() - 3.79) / np.sqrt(ml.var(ddof=1) / 12 + 1.44**2 / 50)
    assert boston.loc["ml", "error_off"] == pytest.approx(off)
    assert boston.loc["ml", "error_std"] == pytest.approx(np.std(ml, ddof=1))
    assert boston.loc["ml", "loss_ratio"] == 2.0
    assert pd.isna(boston.loc["quantifier", "paper_error"])


def test_marks_where_folds_are_missing_or_few():
    """Who lacks folds is not bold, however good the others are; with one fold only the best is."""
    folds = pd.DataFrame({"ml": [1.0, np.nan, np.nan], "pair": [2.0, 3.0, 2.5], "svgd": [2.1, 3.3, 2.4]})
    assert real_data_tables._marks(folds) == {"pair": "bold", "svgd": "bold"}
    assert real_data_tables._marks(folds[:1]) == {"ml": "bold"}
    always = pd.DataFrame({"ml": [1.0, 2.0, 3.0], "pair": [1.5, 2.5, 3.5]})
    assert real_data_tables._marks(always) == {"ml": "bold"}  # a difference that never changes is not by chance
    skewed = pd.DataFrame({"ml": [1.0, 1.0, 9.0], "pair": [2.0, 2.0, 2.0]})
    assert real_data_tables._marks(skewed)["pair"] == "bold"  # the mean decides which is best, not the median


def test_texts():
    table = real_data_tables.cells(some_results())
    text = real_data_tables.errors(table)
    assert text.count("| --- |") == 4
    assert "**Boston, RMSE (12 folds)**" in text
    assert "boosting + quantifier (not in the paper)" in text
    assert "**0.078 ± 0.004**" not in text  # the paper's EnsML on Kin8nm is not bold
    assert "**0.077 ± 0.003**" not in text
    assert "**0.077 ± 0.004**" in text  # its ensemble of pairs is
    latex = real_data_tables.errors(table, real_data_tables.LATEX)
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 4
    assert r"\textbf{" in latex
    assert "| ML | 2.00 | 1.500 | 0.250 | 90.0% |" in real_data_tables.further(table)
    assert "90% coverage" in real_data_tables.further(table)
    assert r"90\% coverage" in real_data_tables.further(table, real_data_tables.LATEX)
    assert "| PBP | 0.50 | 0.50 | 0.50 | 0.50 |" in real_data_tables.seconds(table)
    assert real_data_tables.failures(table) == []


def test_against_the_best():
    found = some_results()
    text = real_data_tables.against_best(real_data_tables.cells(found))
    row = next(line for line in text.splitlines() if line.startswith("| Boston"))
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    assert cells[1::2] == ["3.1", "1.86", "2.06", "1.39"]  # of SVGD, the ensemble of pairs, itself, and the pair
    assert [cell.startswith("**") for cell in cells[::2]] == [True, True, True, False]


def test_results_are_read_as_written(tmp_path):
    found = some_results()
    first = [hashlib.sha256(path.read_bytes()).hexdigest() for path in found.write(tmp_path)]
    time.sleep(1.1)  # no time of day in the files
    assert first == [hashlib.sha256(path.read_bytes()).hexdigest() for path in found.write(tmp_path)]
    again = compact_results.read(tmp_path)
    pd.testing.assert_frame_equal(real_data_tables.cells(again), real_data_tables.cells(found), check_dtype=False)
    with pytest.raises(FileNotFoundError, match="there are no results in"):
        compact_results.read(tmp_path / "nowhere")


def test_figures_show_what_they_say():
    found = some_results()
    sweep = real_data_figures.against_lam(found, "rmse")
    assert [ax.get_title() for ax in sweep.axes[:2]] == ["Boston", "Kin8nm"]
    pairs = found.measures[(found.measures["dataset"] == "boston") & (found.measures["objective"] == "rmse")]
    pairs = pairs[pairs["method"] == "pair"]
    line = sweep.axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [0.1, 0.5, 2.0])
    np.testing.assert_allclose(line.get_ydata(), pairs.groupby("lam")["error"].mean())
    np.testing.assert_allclose(sweep.axes[2].lines[0].get_ydata(), pairs.groupby("lam")["auc"].mean())
    np.testing.assert_array_equal(sweep.axes[0].lines[1].get_xdata(), [0.1])  # the published lam
    curves = real_data_figures.rejection_curves(found, "mae")
    assert len(curves.axes[0].lines) == 8
    labels = {line.get_label(): line.get_ydata() for line in curves.axes[0].lines}
    np.testing.assert_array_equal(labels["ML"], found.curves["boston", "mae", "ml"])


def test_curves_are_means_over_folds(tmp_path):
    store, jobs = store_in(tmp_path), trials(("pair",))
    found = compact_results.of(jobs, computed(jobs, store), [False] * 3, store.data)
    aucs = found.measures["auc"]
    curve = found.curves["diabetes", "rmse", "pair"]
    assert np.trapezoid(curve) / (len(curve) - 1) == pytest.approx(aucs.mean())
    assert curve[0] == pytest.approx(found.measures["error"].mean())


# ---------------------------------------------------------------- the same bits, however it is run

SMALL = [
    "--datasets",
    "diabetes",
    "--methods",
    "ml,pair,quantifier",
    "--folds",
    "4",
    "--objective",
    "rmse",
    "--no-sweep",
]
SHOWN = ("tables.md", "tables.csv", "further.md", "measures.csv.gz", "curves.npz")


def command(out, *more):
    return [sys.executable, "-m", "aleator", "reproduce", "tables", *SMALL, "--out", str(out), *more]


def digests(out):
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in SHOWN}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    subprocess.run(command(out, "--jobs", "1"), check=True, capture_output=True)
    return digests(out)


def test_two_processes_give_the_same_bits(uninterrupted, tmp_path):
    subprocess.run(command(tmp_path, "--jobs", "2"), check=True, capture_output=True)
    assert digests(tmp_path) == uninterrupted


def test_killed_and_restarted(uninterrupted, tmp_path):
    """SIGKILL at some moments; `make kills` does it twenty times."""
    for seconds in (3.0, 4.5):
        process = subprocess.Popen(command(tmp_path), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command(tmp_path), check=True, capture_output=True)
    assert digests(tmp_path) == uninterrupted


def test_two_runs_in_one_folder(uninterrupted, tmp_path):
    both = [subprocess.Popen(command(tmp_path, "--jobs", "1"), stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0] or [process.stderr.read() for process in both] == []
    for process in both:
        process.stderr.close()
    assert digests(tmp_path) == uninterrupted


def test_dask_gives_the_same_bits(uninterrupted, tmp_path):
    subprocess.run(command(tmp_path, "--backend", "dask", "--jobs", "2"), check=True, capture_output=True)
    assert digests(tmp_path) == uninterrupted


RAY = """
import sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from aleator.paper import job_runner, real_data

soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 5}
head = {"num_cpus": 1, "include_dashboard": False, "_system_config": soon}  # a lost node is noticed within seconds
cluster = Cluster(initialize_head=True, head_node_args=head)
second = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
submitted, round_ = [], job_runner._round

def removing(todo, store, backend, tick):
    def ticked(job, seconds):
        submitted.append(job)
        if len(submitted) == 3:
            cluster.remove_node(second, allow_graceful=False)
        tick(job, seconds)
    return round_(todo, store, backend, ticked)

job_runner._round = removing
request = real_data.Request(("diabetes",), ("ml", "pair", "quantifier"), ("rmse",), 4, sweep=False, backend="ray")
_, failures = real_data.reproduce(Path(sys.argv[1]), request)
assert not failures, failures
assert len(submitted) > 3
ray.shutdown()
cluster.shutdown()
"""


def test_ray_gives_the_same_bits_though_a_node_is_lost(uninterrupted, tmp_path):
    environment = os.environ | {"RAY_worker_niceness": "0"}  # or it waits for the other tests
    subprocess.run([sys.executable, "-c", RAY, str(tmp_path)], check=True, capture_output=True, env=environment)
    assert digests(tmp_path) == uninterrupted


def test_a_backend_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for name, open_backend in (("ray", parallel_backends.on_ray), ("dask", parallel_backends.on_dask)):
        with pytest.raises(ValueError, match=rf"pip install 'aleator\[{name}\]'"), open_backend({}):
            pass


def test_a_worker_with_other_versions_is_refused(tmp_path):
    stranger = Record({}, {}, 0.0, {"aleator": "0"}, None)
    backend = parallel_backends.Backend(1, lambda job: job, lambda handles: next(iter(handles)), lambda _: stranger)

    @dataclass(frozen=True)
    class Hashable(Killer):
        pass

    with pytest.raises(ValueError, match="another version of aleator than"):
        job_runner.run([Hashable()], store_in(tmp_path), backend)


def test_tuned_settings_are_used_and_recorded(tmp_path, monkeypatch):
    grid = tuning.Grid((1e-3,), (0.1, 1.0), (0.0,), (2, 4), 1, 0.25)
    monkeypatch.setattr(tuning, "grid", lambda *_: grid)
    search = tuning.Search.perform

    def alternating(self, dataset):
        outcome, arrays = search(self, dataset)
        return outcome | {"settings": outcome["settings"] | {"lam": 0.1 + self.fold}}, arrays

    monkeypatch.setattr(tuning.Search, "perform", alternating)
    request = Request(("diabetes",), ("pair", "pbp"), ("rmse",), 6, "tuned", sweep=False, jobs=1)
    real_data.reproduce(tmp_path, request)
    choices = pd.read_csv(tmp_path / "choices.csv")
    assert list(choices["folds"]) == ["0 to 4", "5 to 9"]
    found = compact_results.read(tmp_path).measures
    lams = found[found["method"] == "pair"].set_index("fold")["lam"]
    assert list(lams) == [*[choices["lam"][0]] * 5, choices["lam"][1]] == [*[0.1] * 5, 5.1]
    assert set(choices["epochs"]) <= {2, 4}


def test_an_official_split_is_one_fold(tmp_path, monkeypatch):
    dataset = replace(made_up(), split=60)
    monkeypatch.setattr(datasets, "load", lambda _: dataset)
    monkeypatch.setattr(real_data, "published_settings", lambda *_: QUICK)
    real_data.reproduce(tmp_path, Request(("diabetes",), ("ml",), ("rmse",), 5, jobs=1))
    found = compact_results.read(tmp_path).measures
    assert list(found["fold"]) == [0]
    assert "±" not in (tmp_path / "tables.md").read_text().partition("**Diabetes")[2]
