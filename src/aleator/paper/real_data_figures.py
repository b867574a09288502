"""The figures of section 8, from results: each returns a matplotlib Figure and writes nothing."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from aleator.paper.compact_results import Results
from aleator.paper.protocol import LAMS, METHODS, published_settings
from aleator.paper.real_data_tables import ERROR
from aleator.plots import BLUE, GREY, ORANGE, RED

# Ours stand out; the paper's single models are dashed, ensembles solid.
STYLES = {
    "ml": (ORANGE, "--", 1.4),
    "svgd": (GREY, "-.", 1.4),
    "pbp": ("#7b5ea7", "-.", 1.4),
    "pair": (BLUE, "--", 1.4),
    "ens_ml": (ORANGE, "-", 2.0),
    "ens_pair": (BLUE, "-", 2.6),
    "quantifier": ("#2b8a3e", "-", 2.0),
    "dropout": ("#b0208c", ":", 1.6),
    "beta_nll": (RED, ":", 1.6),
}


def against_lam(results: Results, objective: str) -> Figure:
    """Error (above) and AUC (below) of a single pair against lam, a column for each data set.

    The band is one standard error of the mean over folds; the dot is the published lam.
    """
    measures = results.measures
    pairs = measures[(measures["method"] == "pair") & (measures["objective"] == objective) & (measures["failed"] == "")]
    sets = list(dict.fromkeys(pairs[pairs["sweep"]]["dataset"]))
    figure = Figure(figsize=(max(2.9 * len(sets), 6.5), 5.2), layout="constrained")
    axes = figure.subplots(2, len(sets), sharex=True, squeeze=False)
    for column, dataset in zip(axes.T, sets, strict=True):
        of_set = pairs[pairs["dataset"] == dataset]
        own = published_settings(dataset, objective, "pair")["lam"]
        for ax, name in zip(column, ("error", "auc"), strict=True):
            by_lam = of_set.groupby("lam")[name]
            mean, error = by_lam.mean(), by_lam.sem().fillna(0)
            ax.fill_between(mean.index, mean - error, mean + error, color=BLUE, alpha=0.18, lw=0)
            ax.plot(mean.index, mean, color=BLUE, lw=2, marker=".", ms=7)
            if own in mean.index:
                ax.plot(own, mean[own], "o", color=ORANGE, ms=8, zorder=3)
            ax.axvline(1.0, color=GREY, lw=0.8, ls="--", zorder=0)
            ax.set(xscale="log", xticks=LAMS)
            ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            ax.minorticks_off()
            _plain(ax)
        column[0].set_title(dataset.capitalize())
        column[1].set_xlabel("lam")
    for ax, text in zip(axes[:, 0], (ERROR[objective], f"AUC of {ERROR[objective]}"), strict=True):
        ax.set_ylabel(text)
    texts = (
        f"A single pair with other values of lam, {pairs['fold'].nunique()} folds; less is better.",
        ("Band: standard error. Dot: the published lam. Dashed: lam = 1"),
    )
    figure.suptitle((" " if len(sets) > 3 else "\n").join(texts), fontsize="medium")
    return figure


def rejection_curves(results: Results, objective: str) -> Figure:
    """Error of the rows that are left after the most uncertain have been dropped, of all methods; one panel a set."""
    cells = {cell for cell in results.curves if cell[1] == objective}
    there = {dataset for dataset, _, _ in cells}
    sets = [dataset for dataset in dict.fromkeys(results.measures["dataset"]) if dataset in there]
    figure = Figure(figsize=(max(4.2 * min(len(sets), 3), 6.5), 3.7 * -(-len(sets) // 3)), layout="constrained")
    axes = figure.subplots(-(-len(sets) // 3), min(len(sets), 3), squeeze=False).ravel()
    handles = {}
    for ax, dataset in zip(axes, sets, strict=False):
        for method in (method for method in METHODS if (dataset, objective, method) in cells):
            curve = results.curves[dataset, objective, method]
            color, dashes, width = STYLES.get(method, ("#222222", "-", 1.4))
            label, dropped = METHODS[method].label, np.arange(len(curve)) / len(curve)
            (handles[label],) = ax.plot(dropped, curve, color=color, ls=dashes, lw=width, label=label)
        ax.set(title=dataset.capitalize(), xlim=(0, 1), ylim=(0, None), xlabel="most uncertain rows dropped")
        ax.set_ylabel(f"{ERROR[objective]} of the rest")
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        _plain(ax)
    for ax in axes[len(sets) :]:
        ax.axis("off")
    if len(sets) < len(axes):
        axes[len(sets)].legend(handles.values(), handles, loc="center", frameon=False)
    else:
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=3 * len(sets), frameon=False)
    return figure


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e7eaee", lw=0.8)
    ax.set_axisbelow(True)
