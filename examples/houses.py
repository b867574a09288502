"""Which houses should we not price automatically?

A boosting prices houses and is to stay as it is. `LossQuantifier` adds what each of its prices will be off by, in
thousands, learned from the whole table: also from the date and the remarks, which the boosting never sees. Because that is
right in scale, the share to automate can be chosen before the true prices are known.

Usage: python examples/houses.py [directory for the picture and the list]
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from aleator import LossQuantifier, plots
from aleator.datasets import houses
from aleator.metrics import coverage

ACCEPTABLE = 50.0  # thousands that an automatic price may be off by, on average


def main(out: Path) -> None:
    X, y = houses(3000)
    X, new, y, price = train_test_split(X, y, test_size=1000, random_state=0)
    columns = make_column_transformer((OrdinalEncoder(), ["district", "kind"]), ("passthrough", ["size", "year"]))
    boosting = make_pipeline(columns, HistGradientBoostingRegressor())

    model = LossQuantifier(boosting, loss="absolute").fit(X, y)
    said = model.predict_uncertainty(new)
    table = said.to_frame()[["prediction", "expected_loss"]].join(new).sort_values("expected_loss")
    automatic = table["expected_loss"].expanding().mean() <= ACCEPTABLE
    off_by = (price - said.prediction).abs()

    print(f"{automatic.mean():.0%} of the houses are priced automatically: expected to be off by")
    print(
        f"{table['expected_loss'][automatic].mean():.1f} thousand on average, and it was {off_by[table.index[automatic]].mean():.1f}."
    )
    print(
        f"The others: expected {table['expected_loss'][~automatic].mean():.1f}, it was {off_by[table.index[~automatic]].mean():.1f}.\n"
    )
    print("For a person to look at, the worst five:")
    print(table[::-1][:5].drop(columns="sold").round(0).to_string())
    lower, upper = model.predict_interval(new, coverage=0.9)
    print(f"\n90 % intervals hold {coverage(price, lower, upper):.1%} of the prices.")

    out.mkdir(parents=True, exist_ok=True)
    table[~automatic][::-1].to_csv(out / "houses_to_look_at.csv", index_label="house")
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.automation(price, said.prediction, said.expected_loss, "absolute", limit=ACCEPTABLE, ax=left)
    left.set_title(f"off by {ACCEPTABLE:.0f} thousand on average: which share is that?", fontsize="medium")
    plots.calibration(price, said.prediction, said.expected_loss, "absolute", ax=right)
    figure.suptitle("a boosting that prices houses, and how far to trust it (1,000 sales it did not see)")
    figure.savefig(out / "houses.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))
