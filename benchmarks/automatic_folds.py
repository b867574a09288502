"""`PairEnsemble()` on the 50 folds of section 8, beside the ensembles with published and with tuned settings.

    aleator reproduce tables --methods auto --objective both --no-sweep --out auto   # some 55 minutes on two cores
    python benchmarks/automatic_folds.py auto    # writes auto/compared.md, which `make docs` puts into the page

Significant: two-tailed paired t-test over the folds, p = 0.05. The last table is pooled over folds, with the standard error of having these
rows and no others (rows are drawn several times, and are one observation); "each row once" counts every row that was ever drawn the same.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel

from aleator import atomic_write, datasets, losses
from aleator.model_files import file_format
from aleator.paper import compact_results
from aleator.paper.protocol import OBJECTIVES, PUBLISHED, SETS, fold
from aleator.paper.real_data_tables import DIGITS, ERROR, SIGNIFICANT

RESULTS = Path(__file__).parent.parent / "results"
OURS = "`PairEnsemble()`"
PUBLISHED_ONES = {"pairs": ("published", "ens_pair"), "EnsML": ("published", "ens_ml")}
OTHERS = PUBLISHED_ONES | {"pairs, tuned": ("tuned", "ens_pair"), "EnsML, tuned": ("tuned_ml", "ens_ml")}


def by_fold(table, dataset, objective, method, measure):
    cell = (table["dataset"] == dataset) & (table["objective"] == objective) & (table["method"] == method)
    cell &= ~table["sweep"] & (table["failed"] == "")
    return table[cell].set_index("fold")[measure].sort_index()


def differs(one, other):
    assert (one.index == other.index).all()
    return ttest_rel(one, other).pvalue < SIGNIFICANT


def scales(folder, dataset, objective):
    """Expected over realised loss, pooled and with each row once; with standard errors, from the records in a folder."""
    data = datasets.load(dataset)
    loss, sums = losses.get(OBJECTIVES[objective]), np.zeros((3, len(data.y)))  # draws, expected, realised
    for path in sorted((folder / "records" / dataset / objective).glob("auto-*.safetensors")):
        facts, said = file_format.read(path)
        test = fold(data, facts["job"]["fold"])[1]
        sums[:, test] += np.ones(len(test)), said["expected_loss"], loss(data.y[test], said["y_pred"])
    drawn = sums[:, sums[0] > 0]
    return [_ratio(*drawn[1:]), _ratio(*drawn[1:] / drawn[0])]


def _ratio(expected, realised):
    ratio = expected.sum() / realised.sum()
    error = np.sqrt(np.sum((expected - ratio * realised) ** 2)) / realised.sum()
    return f"{ratio:.2f} ± {error:.2f}"


def compared(folder, ours, others):
    """Lines of a table, and what the issue asks for, counted."""
    lines, told = [], []
    for objective in OBJECTIVES:
        for measure in ("error", "auc"):
            fine, better, below = [], [], []
            objective = f"{ERROR[objective]}, {measure}" if measure == "error" else f"AUC of the {ERROR[objective]}"
            lines += ["", f"| {objective} | {OURS} | " + " | ".join(OTHERS) + " | paper's best |", "| --- " * 7 + "|"]
            for dataset in SETS:
                own = by_fold(ours, dataset, objective, "auto", measure)
                found = {OURS: own} | {
                    name: by_fold(others[folder], dataset, objective, method, measure)
                    for name, (folder, method) in OTHERS.items()
                }
                best = min(found.values(), key=np.mean)
                paper = min(cell[measure] for cell in PUBLISHED[objective][dataset].values())
                shown = [_shown(each, best, dataset) for each in found.values()]
                lines.append(f"| {dataset} | " + " | ".join(shown) + f" | {paper} |")
                if own is best or not differs(own, best):
                    fine.append(dataset)
                if all(own.mean() < found[name].mean() and differs(own, found[name]) for name in PUBLISHED_ONES):
                    better.append(dataset)
                if own.mean() <= paper:
                    below.append(dataset)
            told.append(
                f"* {objective}: best or not significantly worse on {len(fine)} of 5 ({', '.join(fine)}); significantly "
                f"better than both published ones on {len(better)} ({', '.join(better)}); "
                f"at or below the paper's best on {len(below)}."
            )
    lines += ["", "| expected / realised loss | " + " | ".join(SETS) + " |", "| --- " * 6 + "|"]
    for objective, loss in OBJECTIVES.items():
        found = [scales(folder, name, objective) for name in SETS]
        for how, each in zip((loss, f"{loss}, each row once"), zip(*found, strict=True), strict=True):
            lines.append(f"| {how} | " + " | ".join(each) + " |")
    return [*told, *lines]


def _shown(each, best, dataset):
    text = f"{each.mean():.{DIGITS.get(dataset, 2)}f}"
    return f"**{text}**" if each is best or not differs(each, best) else text


def main():
    folder = Path(sys.argv[1])
    ours = compact_results.read(folder).measures
    assert not ours["failed"].any(), "a fold failed"
    others = {name: compact_results.read(RESULTS / name).measures for name in {folder for folder, _ in OTHERS.values()}}
    text = "\n".join(compared(folder, ours, others)) + "\n"
    with atomic_write.whole(folder / "compared.md", "table") as beside:
        beside.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
