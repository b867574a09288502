"""Writes files that every later version of aleator must read: run once for a format or a kind that is new.

python tests/golden/make.py 0.1.0 [NAME ...]
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from aleator import LossQuantifier, PairEnsemble, PairRegressor, TableEncoder, registry
from aleator.tabular import Request, fitting
from aleator.tabular.io import opened

HERE = Path(__file__).parent


def table(n=150, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n).round(3),
            "gap": np.where(rng.uniform(size=n) < 0.2, np.nan, rng.normal(size=n).round(3)),
            "city": rng.choice(["Ulm", "Bonn", "Kiel"], n),
            "street": [f"street {k % 30}" for k in range(n)],
            "note": [f"note number {k}" for k in range(n)],
            "day": pd.date_range("2024-01-01", periods=n),
        }
    )
    return frame, 3 * frame["size"] + rng.normal(size=n) * np.where(frame["city"] == "Kiel", 2.0, 0.3)


def write(name, model, frame):
    if len(sys.argv) > 2 and name.partition("-")[2] not in sys.argv[2:]:
        return
    path = HERE / f"{name}.aleator"
    if path.exists():
        raise SystemExit(f"{path} is there already, and stays as it is.")
    model.save(path)
    rows = frame.iloc[:8]
    estimator = getattr(model, "estimator", model) if hasattr(model, "schema") else model
    said = {"kind": type(estimator).__name__, "prediction": estimator.predict(rows).tolist()}
    if said["kind"] != "PlainRegressor":
        said["expected_loss"] = estimator.predict_loss(rows).tolist()
    said["rows"] = json.loads(rows.to_json(orient="records", date_format="iso"))
    path.with_suffix(".json").write_text(json.dumps(said, indent=1) + "\n")


def main(version):
    frame, y = table()
    numbers = frame[["size"]].assign(square=frame["size"] ** 2)
    small = {"hidden": (4,), "epochs": 5}
    for name, kind in registry.MODELS.items():
        known = kind.__dataclass_fields__
        settings = {key: value for key, value in small.items() if key in known}
        settings |= {key: 3 for key in ("n_members", "n_particles", "n_passes") if key in known}
        settings |= {"iterations": 20} if "iterations" in known else {}
        model = kind(Ridge(), **settings) if name == "LossQuantifier" else kind(**settings)
        write(f"{version}-{name}", model.fit(numbers, y), numbers)
    write(
        f"{version}-encoded",
        PairEnsemble(n_members=2, loss="absolute", encoder=TableEncoder(), **small).fit(frame, y),
        frame,
    )
    write(
        f"{version}-calibrated",
        PairRegressor(**small).fit(numbers, y).recalibrate(numbers, y).conformalize(numbers, y),
        numbers,
    )
    for regressor in (RandomForestRegressor(3, max_depth=3, random_state=0), HistGradientBoostingRegressor(max_iter=3)):
        model = LossQuantifier(make_pipeline(TableEncoder(), regressor), n_members=2, **small).fit(frame, y)
        write(f"{version}-{type(regressor).__name__}", model, frame)
    many, target = table(240)
    many = many[["size"]].assign(square=many["size"] ** 2)
    for kind in ("trees", "mixed"):
        model = LossQuantifier(Ridge(), quantifier=kind, loss="absolute", n_members=2, hidden=(4,)).fit(many, target)
        write(f"{version}-{kind}", model, many)
    csv = HERE / "table.csv"
    frame.assign(y=y).to_csv(csv, index=False)
    fitted = fitting.fit(Request(opened(csv), "y", model="pair"))
    csv.unlink()
    write(f"{version}-command", fitted.model, frame.assign(day=frame["day"].dt.tz_localize("UTC")))


if __name__ == "__main__":
    main(sys.argv[1])
