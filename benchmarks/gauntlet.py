"""The gauntlet: ten tables, forty kinds of dirt in the training rows, four models. Does one bad cell break anything?

Usage: make gauntlet, with ALEATOR_DATA naming the directory of the data sets. `--again FILE --results OTHER` fits the
cells of FILE that are outside of a limit with five other draws of rows and dirt, which tells a defect from chance. Every fit has its line in a file of
results (ARGS="--results FILE"), so an interrupted run resumes. `--show FILE [FILE]` prints the table, before beside after.

Each dirty model is judged beside the same model trained without the dirt, on the same fresh rows, so that most of the
sampling error cancels:

    scale        mean expected loss on fresh clean rows, over that of the clean model: 0.8 to 1.25
    ratio        mean expected over mean realised loss on fresh clean rows, of the dirty model and of the clean one
    error, auc   error and area under the rejection curve on fresh clean rows, over those of the clean model: at most 1.15
    largest      largest expected loss on fresh rows with the dirt, over the largest realised loss: at most 10
    dirty error  error on fresh rows with the dirt, over that of the clean model there: at most 1.5

Dirt in y makes the regressor itself worse, so there error and auc do not count; where it ruins the regressor, mean
expected over mean realised loss tells whether the expected loss follows. A column that is dirty in every row (an id, a copy
of another) is so in fresh rows too: there the dirty model sees them with it. There are two boostings: "boosting" is trained
with the absolute error, as the loss it is asked about, "boosting, squared error" as it comes. Four kinds are controls, and
show what chance alone does: "none" trains on the clean rows with another seed, "3 rows less" on all of them but three.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from click.testing import CliRunner
from joblib import Parallel, delayed
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import make_pipeline

from aleator import LossQuantifier, PairEnsemble, TableEncoder, datasets
from aleator.metrics import rejection_auc

FRESH = 2_000  # fresh rows of made-up tables
DIRTY = 60  # fresh rows that get the dirt

# ---------------------------------------------------------------- tables: training rows and fresh rows


def seeded(seed: int, draw: int) -> np.random.Generator:
    """Random numbers of the first draw of all tables and their dirt, or of a further one."""
    return np.random.default_rng(seed + 1000 * draw)


def real(name: str, n_train: int, draw: int) -> tuple[pd.DataFrame, np.ndarray, int]:
    data = datasets.load(name)
    order = seeded(1, draw).permutation(len(data.y))[: n_train + FRESH]
    frame = pd.DataFrame(np.asarray(data.X)[order], columns=[f"x{k}" for k in range(data.X.shape[1])])
    return frame, np.asarray(data.y)[order], n_train


def diabetes(draw: int) -> tuple[pd.DataFrame, np.ndarray, int]:
    X, y = load_diabetes(return_X_y=True)
    order = seeded(1, draw).permutation(len(y))
    return pd.DataFrame(X[order], columns=[f"x{k}" for k in range(X.shape[1])]), y[order], 330


def smooth(draw: int) -> tuple[pd.DataFrame, np.ndarray, int]:
    rng = seeded(2, draw)
    X = rng.normal(size=(1000 + FRESH, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 2] * X[:, 3] + 0.3 * np.exp(X[:, 1] / 2) * rng.normal(size=len(X))
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(5)]), y, 1000


def heavy(draw: int) -> tuple[pd.DataFrame, np.ndarray, int]:
    rng = seeded(3, draw)
    X = rng.normal(size=(1500 + FRESH, 5))
    y = 3 * X[:, 0] + 5 * rng.standard_t(3, len(X)) * np.exp(X[:, 1] / 2)
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(5)]), y, 1500


def steps(draw: int) -> tuple[pd.DataFrame, np.ndarray, int]:
    rng = seeded(4, draw)
    X = rng.uniform(size=(900 + FRESH, 8))
    noise = np.where(X[:, 2] > 0.7, 1.0, 0.2)
    y = np.floor(4 * X[:, 0]) + 2 * (X[:, 1] > 0.5) * X[:, 3] + noise * rng.normal(size=len(X))
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(8)]), y, 900


def mixed(draw: int) -> tuple[pd.DataFrame, np.ndarray, int]:
    rng = seeded(5, draw)
    n = 800 + FRESH
    size, city = rng.uniform(30, 200, n), rng.choice(["Ulm", "Bonn", "Kiel", "Jena"], n, p=[0.4, 0.3, 0.2, 0.1])
    street = np.array([f"Street {k}" for k in rng.integers(60, size=n)])
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(1500, size=n), "D")
    words = np.array(["garden", "view", "old", "new", "quiet", "loft", "cellar", "lift"])
    note = [f"{' '.join(rng.choice(words, 3))} {k}" for k in range(n)]
    garden = np.array(["garden" in text for text in note])
    y = (
        2 * size
        + 30 * garden
        + 10 * np.sin(2 * np.pi * day.dayofyear / 365)
        + rng.normal(size=n) * np.where(city == "Kiel", 40, 8)
    )
    frame = pd.DataFrame({"x0": size, "city": city, "street": street, "day": day.strftime("%Y-%m-%d"), "note": note})
    return frame, np.asarray(y), 800


TABLES: dict[str, Callable[[int], tuple[pd.DataFrame, np.ndarray, int]]] = {
    "concrete": lambda draw: real("concrete", 700, draw),
    "power": lambda draw: real("power", 1000, draw),
    "kin8nm": lambda draw: real("kin8nm", 1000, draw),
    "boston": lambda draw: real("boston", 380, draw),
    "yacht": lambda draw: real("yacht", 230, draw),
    "diabetes": diabetes,
    "smooth": smooth,
    "heavy": heavy,
    "steps": steps,
    "mixed": mixed,
}

# ---------------------------------------------------------------- dirt


@dataclass(frozen=True)
class Dirt:
    """How many rows of the training part become dirty (below 1: a share), and what happens to the rows that do.

    `needs` adds a clean column that the dirt works on, to clean and dirty tables alike.
    """

    rows: float
    spoil: Callable[[pd.DataFrame, np.ndarray, np.ndarray, np.random.Generator], None]
    needs: str = ""
    in_y: bool = False


def cell(value: float | str | None, column: str = "x0") -> Callable[..., None]:
    def spoil(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
        if isinstance(value, str):
            X[column] = X[column].astype(object)
        elif value is not None and X[column].dtype.kind in "iub":
            X[column] = X[column].astype(float)
        X.iloc[rows, X.columns.get_loc(column)] = np.nan if value is None else value

    return spoil


def times(factor: float) -> Callable[..., None]:
    def spoil(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
        X["x0"] = X["x0"].astype(float)
        X.iloc[rows, X.columns.get_loc("x0")] *= factor

    return spoil


def everywhere(value: float | None) -> Callable[..., None]:
    """The value in every column of numbers of these rows."""

    def spoil(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
        for column in X.columns[[dtype.kind == "f" for dtype in X.dtypes]]:
            cell(value, column)(X, y, rows, rng)

    return spoil


def scattered(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
    """A missing cell in every column, each in a row of its own."""
    for column in X.columns:
        X.iloc[rng.choice(rows), X.columns.get_loc(column)] = np.nan


def names(*values: str) -> Callable[..., None]:
    """Categories, one for each row in turn."""

    def spoil(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
        for k, row in enumerate(rows):
            X.iloc[row, X.columns.get_loc("kind")] = values[k % len(values)]

    return spoil


def target(change: Callable[[np.ndarray, float, np.random.Generator], np.ndarray]) -> Callable[..., None]:
    def spoil(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
        y[rows] = change(y[rows], float(np.std(y)), rng)

    return spoil


def drawn(draw: Callable[[np.random.Generator, int], np.ndarray], column: str = "x0") -> Callable[..., None]:
    def spoil(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
        X.iloc[rows, X.columns.get_loc(column)] = draw(rng, len(rows))

    return spoil


def nothing(X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
    pass


DIRTS = {
    "none": Dirt(0, nothing),
    "1 row less": Dirt(1, nothing),
    "3 rows less": Dirt(3, nothing),
    "9 rows less": Dirt(9, nothing),
    "1 missing cell": Dirt(1, cell(None)),
    "3 missing cells": Dirt(3, cell(None)),
    "9 missing cells": Dirt(9, cell(None)),
    "1 missing cell in every column": Dirt(0.1, scattered),
    "1 row of missing cells": Dirt(1, everywhere(None)),
    "5 % missing cells": Dirt(0.05, cell(None)),
    "1 row of a category": Dirt(1, names("ninth"), "kind"),
    "2 rows of a category": Dirt(2, names("ninth"), "kind"),
    "3 categories of 1 row": Dirt(3, names("ninth", "tenth", "eleventh"), "kind"),
    "12 categories of 1 row": Dirt(12, names(*(f"rare {k}" for k in range(12))), "kind"),
    "40 categories of 1 row": Dirt(40, names(*(f"rare {k}" for k in range(40))), "kind"),
    "0.5 % misspelt categories": Dirt(0.005, names("KIND A", "kind  b", "knid c"), "kind"),
    "2 missing categories": Dirt(2, cell(None, "kind"), "kind"),
    "-999 in 1 row": Dirt(1, cell(-999.0)),
    "-999 in 3 rows": Dirt(3, cell(-999.0)),
    "9999 in 3 rows": Dirt(3, cell(9999.0)),
    "1e6 in 3 rows": Dirt(3, cell(1e6)),
    "1e30 in 1 row": Dirt(1, cell(1e30)),
    "-999 in 1 %": Dirt(0.01, cell(-999.0)),
    "9999 in 5 %": Dirt(0.05, cell(9999.0)),
    "9999 in all columns of 1 row": Dirt(1, everywhere(9999.0)),
    "unit x1000 in 3 rows": Dirt(3, times(1000.0)),
    "unit x1000 in 1 %": Dirt(0.01, times(1000.0)),
    "unit /1000 in 1 %": Dirt(0.01, times(0.001)),
    "sign of 3 rows": Dirt(3, times(-1.0)),
    "Cauchy cells in 1 %": Dirt(0.01, drawn(lambda rng, n: 100 * rng.standard_cauchy(n))),
    "a Cauchy column": Dirt(1.0, drawn(lambda rng, n: rng.standard_cauchy(n), "extra"), "extra"),
    "a log-normal column": Dirt(1.0, drawn(lambda rng, n: np.exp(3 * rng.normal(size=n)), "extra"), "extra"),
    "a flag set once": Dirt(1, cell(1.0, "flat"), "flat"),
    "a flag set 3 times to 1e9": Dirt(3, cell(1e9, "flat"), "flat"),
    "an id column": Dirt(1.0, drawn(lambda rng, n: rng.permutation(10 * n)[:n].astype(float), "extra"), "extra"),
    "a column of hashes": Dirt(
        1.0, drawn(lambda rng, n: np.array([f"{k:x}" for k in rng.integers(2**40, size=n)], object), "label"), "label"
    ),
    "a duplicated column": Dirt(1.0, lambda X, y, rows, rng: X.__setitem__("extra", X["x0"]), "extra"),
    "5 % of the rows twice": Dirt(0.05, nothing),
    "dates far off": Dirt(2, cell("2199-12-31", "sold"), "sold"),
    "3 missing dates": Dirt(3, cell(None, "sold"), "sold"),
    "tiny groups": Dirt(0.1, lambda X, y, rows, rng: cell_range(X, rows), "group"),
    "0.1 % of y x1000": Dirt(0.001, target(lambda y, sd, rng: 1000 * y), in_y=True),
    "1 y of a million sd": Dirt(1, target(lambda y, sd, rng: y + 1e6 * sd), in_y=True),
    "0.2 % of y is -999": Dirt(0.002, target(lambda y, sd, rng: 0 * y - 999), in_y=True),
    "0.3 % of y is 0": Dirt(0.003, target(lambda y, sd, rng: 0 * y), in_y=True),
    "0.3 % of y skewed": Dirt(0.003, target(lambda y, sd, rng: y + sd * rng.lognormal(1, 1, len(y))), in_y=True),
}


CONTROLS = ["none", "1 row less", "3 rows less", "9 rows less"]


def cell_range(X: pd.DataFrame, rows: np.ndarray) -> None:
    """Each of these rows is a group of its own."""
    X.iloc[rows, X.columns.get_loc("group")] = np.arange(1_000, 1_000 + len(rows))


def prepared(X: pd.DataFrame, needs: str, draw: int) -> pd.DataFrame:
    """The table with the clean column that a kind of dirt works on."""
    rng, n = seeded(7, draw), len(X)
    if needs == "kind":
        return X.assign(kind=rng.choice([f"kind {c}" for c in "abcdefgh"], n))
    if needs == "extra":
        return X.assign(extra=rng.normal(size=n))
    if needs == "label":
        return X.assign(label=rng.choice(["left", "right"], n).astype(object))
    if needs == "flat":
        return X.assign(flat=0.0)
    if needs == "sold":
        days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(900, size=n), "D")
        return X.assign(sold=days.strftime("%Y-%m-%d").astype(object))
    if needs == "group":
        return X.assign(group=rng.integers(40, size=n))
    return X


def spoilt(
    kind: Dirt, X: pd.DataFrame, y: np.ndarray, rows: int, seed: int
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The table and its target with dirt in so many rows, and which."""
    X, y, rng = X.copy(), y.copy(), np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(X), min(rows, len(X)), replace=False))
    kind.spoil(X, y, chosen, rng)
    return X, y, chosen


# ---------------------------------------------------------------- models: (training table) -> (rows -> prediction, loss)


Answer = Callable[[pd.DataFrame], tuple[np.ndarray, np.ndarray]]


def quantifier(regressor: object, loss: str, X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[Answer, float]:
    numeric = all(dtype.kind in "fiu" for dtype in X.dtypes)
    groups = X.pop("group") if "group" in X else None
    whole = regressor if numeric else make_pipeline(TableEncoder(), regressor)
    model = LossQuantifier(whole, loss=loss, random_state=seed, n_jobs=1).fit(X, y, groups=groups)
    return answers(model), float(model.out_of_fold_["loss"].max())


def pairs(X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[Answer, float]:
    groups = X.pop("group") if "group" in X else None
    model = PairEnsemble(encoder=TableEncoder(), random_state=seed, n_jobs=1).fit(X, y, groups=groups)
    return answers(model), float(model.out_of_fold_["loss"].max())


def answers(model: object) -> Answer:
    def answer(X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        known = model.predict_uncertainty(X.drop(columns="group", errors="ignore"))
        return known.prediction, known.expected_loss

    return answer


def command(X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[Answer, float]:
    """`aleator fit` and `aleator predict`, through files."""
    from aleator import load
    from aleator.cli import commands

    folder = Path(tempfile.mkdtemp(prefix="gauntlet"))
    X.assign(target=y).to_csv(folder / "table.csv", index=False)
    options = ["--group", "group"] if "group" in X else []

    def run(*arguments: object) -> None:
        done = CliRunner().invoke(commands, [str(a) for a in arguments], catch_exceptions=False)
        if done.exit_code:
            raise RuntimeError(f"exit code {done.exit_code}: {done.output[-300:]}")

    model = folder / "model.aleator"
    run(
        "fit",
        folder / "table.csv",
        "--target",
        "target",
        "--model",
        "boosting",
        "--seed",
        seed,
        "--out",
        model,
        *options,
    )

    def answer(new: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        new.to_csv(folder / "new.csv", index=False)
        run("predict", model, folder / "new.csv", "--out", folder / "answers.csv")
        table = pd.read_csv(folder / "answers.csv")
        return table["prediction"].to_numpy(), table["expected_loss"].to_numpy()

    return answer, float(load(model).out_of_fold_["loss"].max())


def boosting(X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[Answer, float]:
    return quantifier(HistGradientBoostingRegressor(loss="absolute_error", random_state=0), "absolute", X, y, seed)


def forest(X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[Answer, float]:
    return quantifier(RandomForestRegressor(50, min_samples_leaf=2, random_state=0), "absolute", X, y, seed)


def boosting_as_it_comes(X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[Answer, float]:
    return quantifier(HistGradientBoostingRegressor(random_state=0), "absolute", X, y, seed)


AS_IT_COMES = "boosting, squared error"
MODELS = {
    "boosting": boosting,
    "forest": forest,
    "pairs": pairs,
    "command": command,
    AS_IT_COMES: boosting_as_it_comes,
}
POWER = {"boosting": 1, "forest": 1, "pairs": 2, "command": 1, AS_IT_COMES: 1}  # of the loss each is about


# ---------------------------------------------------------------- one table, one model: all kinds of dirt


def judged(table: str, name: str, kinds: list[str], results: Path, draw: int = 0) -> None:
    warnings.simplefilter("ignore")
    X, y, n = TABLES[table](draw)
    power, clean = POWER[name], {}

    def fitted(X: pd.DataFrame, y: np.ndarray, seed: int = 0) -> tuple[Answer, float]:
        return MODELS[name](X.copy(), y, seed)

    for kind in kinds:
        dirt, whole = DIRTS[kind], kind in WHOLE
        frame = prepared(X, dirt.needs, draw)
        fresh, truth = frame.iloc[n:].reset_index(drop=True), y[n:]
        try:
            if dirt.needs not in clean:
                clean[dirt.needs] = fitted(frame.iloc[:n], y[:n])
            rows = n if whole else max(1, round(dirt.rows * n)) if dirt.rows % 1 else int(dirt.rows)
            train, dirty_y, chosen = spoilt(dirt, frame.iloc[:n].reset_index(drop=True), y[:n], rows, 11 + 1000 * draw)
            if kind.endswith("less"):
                train, dirty_y = train.drop(index=chosen).reset_index(drop=True), np.delete(dirty_y, chosen)
            if kind == "5 % of the rows twice":
                twice = seeded(11, draw).choice(n, round(0.05 * n), replace=False)
                train, dirty_y = (
                    pd.concat([train, train.iloc[twice]], ignore_index=True),
                    np.append(dirty_y, dirty_y[twice]),
                )
            began = time.perf_counter()
            model, worst = fitted(train, dirty_y, 1 if kind == "none" else 0)
            seconds = time.perf_counter() - began
            old, _ = clean[dirt.needs]
            measure = {
                "table": table,
                "model": name,
                "kind": kind,
                "draw": draw,
                "in_y": dirt.in_y,
                "seconds": round(seconds, 2),
            }
            (p0, e0), (p1, e1) = (
                old(fresh),
                model(spoilt(dirt, fresh, truth, len(fresh), 13 + 1000 * draw)[0] if whole else fresh),
            )
            l0, l1 = np.abs(truth - p0) ** power, np.abs(truth - p1) ** power
            measure["scale"] = float(e1.mean() / e0.mean())
            measure["error"] = float((l1.mean() / l0.mean()) ** (1 / power))
            criterion = "rmse" if power == 2 else "mae"
            measure["auc"] = rejection_auc(truth, p1, e1, criterion) / rejection_auc(truth, p0, e0, criterion)
            measure["ratio"], measure["clean ratio"] = float(e1.mean() / l1.mean()), float(e0.mean() / l0.mean())
            if not dirt.in_y:
                spoilt_rows, _, chosen = spoilt(dirt, fresh, truth, len(fresh) if whole else DIRTY, 12 + 1000 * draw)
                few, its = spoilt_rows.iloc[chosen].reset_index(drop=True), truth[chosen]
                (p0, e0), (p1, e1) = old(few), model(few)
                l0, l1 = np.abs(its - p0) ** power, np.abs(its - p1) ** power
                measure["largest"] = float(e1.max() / max(worst, l1.max()))
                measure["dirty error"] = float((l1.mean() / l0.mean()) ** (1 / power))
        except Exception:
            measure = {
                "table": table,
                "model": name,
                "kind": kind,
                "draw": draw,
                "in_y": dirt.in_y,
                "failed": traceback.format_exc()[-600:],
            }
        with results.open("a") as file:
            file.write(json.dumps(measure) + "\n")


WHOLE = {"a Cauchy column", "a log-normal column", "an id column", "a column of hashes", "a duplicated column"}

# ---------------------------------------------------------------- the table


def shown(*paths: str) -> None:
    """By kind of dirt: shares of fits within the bounds, and the worst values, of one file or of several one below the other."""
    with pd.option_context("display.width", 300, "display.max_rows", None, "display.max_columns", None):
        for path in paths:
            data = pd.read_json(path, lines=True)
            data["failed"] = data["failed"].notna() if "failed" in data else False
            dirty = data[~data["kind"].isin(CONTROLS)]
            ruined = dirty["in_y"] & ~(dirty["error"] <= 1.15)
            print(
                f"{path}: {len(data)} fits, {data['failed'].sum()} failed, {data['seconds'].sum() / 60:.0f} core minutes of dirty fits"
            )
            print("\nscale within 0.8 to 1.25 of the clean model's, and the other bounds, by model")
            parts = {
                "all": dirty,
                "dirt not in y": dirty[~dirty["in_y"]],
                "dirt in y, error at most 1.15": dirty[dirty["in_y"] & ~ruined],
                "dirt in y that ruins the regressor": dirty[ruined],
                "no dirt, another seed or some rows less": data[data["kind"].isin(CONTROLS)],
            }
            rows = {}
            for name, part in parts.items():
                rows |= {(name, model): summary(own) for model, own in part.groupby("model", sort=False)}
                rows[name, "together"] = summary(part)
            print(pd.DataFrame(rows).T.to_string())
            print("\nby kind of dirt")
            by_kind = {kind: by(own) for kind, own in data.groupby("kind", sort=False)}
            print(pd.DataFrame(by_kind).T.to_string(), end="\n\n")


def summary(data: pd.DataFrame) -> dict[str, str]:
    """How many fits are within the bounds, and mean expected over mean realised loss of the dirty models."""
    return {
        "fits": f"{len(data)}",
        "within": f"{data['scale'].between(0.8, 1.25).mean():.1%}",
        "outside 0.5 to 2": f"{(~data['scale'].between(0.5, 2.0)).sum()}",
        "error above 1.15": f"{(data['error'] > 1.15).sum()}",
        "auc above 1.15": f"{(data['auc'] > 1.15).sum()}",
        "largest above 10": f"{(data['largest'] > 10).sum()}",
        "dirty error above 1.5": f"{(data['dirty error'] > 1.5).sum()}",
        "expected / realised, least": f"{data['ratio'].min():.2g}",
        "median": f"{data['ratio'].median():.2f}",
        "largest": f"{data['ratio'].max():.2g}",
    }


def by(data: pd.DataFrame) -> dict[str, str]:
    def middle(name: str) -> str:
        return f"{np.exp(np.log(data[name]).mean()):.3g}"

    return {
        "fits": f"{len(data)}",
        "within": f"{data['scale'].between(0.8, 1.25).mean():.2f}",
        "scale from": f"{data['scale'].min():.3g}",
        "to": f"{data['scale'].max():.3g}",
        "exp/real from": f"{data['ratio'].min():.3g}",
        "median": f"{data['ratio'].median():.3g}",
        "to ": f"{data['ratio'].max():.3g}",
        "error": middle("error"),
        "worst": f"{data['error'].max():.3g}",
        "auc": middle("auc"),
        "worst ": f"{data['auc'].max():.3g}",
        "largest": f"{data['largest'].max():.3g}",
        "dirty error": f"{data['dirty error'].max():.3g}",
    }


LIMITS = {"scale": (0.8, 1.25), "error": (0, 1.15), "auc": (0, 1.15), "largest": (0, 10), "dirty error": (0, 1.5)}


def outside(data: pd.DataFrame) -> pd.Series:
    """Fits with dirt that is not in y and of which a measure is outside of its limits."""
    beyond = [data[name].notna() & ~data[name].between(*ends) for name, ends in LIMITS.items()]
    return np.logical_or.reduce(beyond) & ~data["in_y"] & ~data["kind"].isin(CONTROLS)


def compared(first: str, again: str) -> None:
    """Cells that were outside of a limit, and the same cells with other draws of rows and dirt: is it the code, or chance?"""
    data, more = pd.read_json(first, lines=True), pd.read_json(again, lines=True)
    rows = {}
    for _, cell in data[outside(data)].iterrows():
        own = more[(more["table"] == cell["table"]) & (more["model"] == cell["model"]) & (more["kind"] == cell["kind"])]
        texts = {}
        for name, ends in LIMITS.items():
            logs = np.log(own[name].dropna())
            missed = f"{cell[name]:.2f}{'' if ends[0] <= cell[name] <= ends[1] or np.isnan(cell[name]) else '*'}"
            spread = logs.std() / np.sqrt(len(logs))
            texts[name] = f"{missed:>6s} again {np.exp(logs.mean()):.2f} x/ {np.exp(spread):.2f}"
        rows[f"{cell['model']}, {cell['table']}, {cell['kind']}"] = texts | {
            "outside": f"{outside(own).sum()} of {len(own)}"
        }
    with pd.option_context("display.width", 300, "display.max_rows", None, "display.max_columns", None):
        print(pd.DataFrame(rows).T.to_string())
    print(f"\n{outside(more).sum()} of {len(more)} fits are outside of a limit again")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", default=".bench/gauntlet.jsonl")
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--kinds", nargs="*", default=list(DIRTS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", nargs="*")
    parser.add_argument("--again", help="a file of results: fit what was outside of a limit with other draws")
    parser.add_argument("--draws", type=int, default=5)
    asked = parser.parse_args()
    if asked.show:
        shown(*asked.show)
        return
    results = Path(asked.results)
    results.parent.mkdir(parents=True, exist_ok=True)
    done = set()
    if results.exists():
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        done = {(line["table"], line["model"], line["kind"], line.get("draw", 0)) for line in lines}
    jobs = []
    if asked.again:
        data = pd.read_json(asked.again, lines=True)
        for (model, table), own in data[outside(data)].groupby(["model", "table"]):
            for draw in range(1, asked.draws + 1):
                kinds = [kind for kind in own["kind"] if (table, model, kind, draw) not in done]
                jobs += [(table, model, kinds, results, draw)] if kinds else []
        Parallel(n_jobs=asked.jobs)(delayed(judged)(*job) for job in jobs)
        compared(asked.again, asked.results)
        return
    for name in asked.models:
        for table in asked.tables:
            kinds = [kind for kind in asked.kinds if (table, name, kind, 0) not in done]
            jobs += [(table, name, kinds, results)] if kinds else []
    began = time.perf_counter()
    Parallel(n_jobs=asked.jobs)(delayed(judged)(*job) for job in jobs)
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    shown(asked.results)


if __name__ == "__main__":
    main()
