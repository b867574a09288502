"""Every figure of the paper up to section 7, one function each. They return a matplotlib Figure and write nothing.

The paper's files of figures are not public: each shows what its caption and the text say it shows. Figures that need
trained networks train them, some seconds each, and share them within a process (`synthetic.py`).
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from aleator import theory
from aleator.datasets.synthetic import EDGES
from aleator.paper.synthetic import ENOUGH, EPOCHS, GRID, STAGES, Curve, Setting, curves
from aleator.plots import BLUE, GREY, ORANGE, RED

Floats = NDArray[np.float64]

MAGENTA, GREEN, INK = "#b0208c", "#2b8a3e", "#222222"  # regressor and quantifier, as in the paper
DASHED = (0, (5, 2.5))
LAMS = np.geomspace(1e-3, 1e3, 400)
L1, L2 = 0.1, 2.0  # losses of a clean and of a noisy region, for the figures of sec. 6


# ---------------------------------------------------------------- sec. 2 and 6: what lam does, by formulas


def speeds() -> Figure:
    """Fig. 1, 2: how fast both networks learn, and which region counts, against lam; sigmoid above, softplus below."""
    figure = Figure(figsize=(11, 7.6), layout="constrained")
    for (left, right), coupling in zip(figure.subplots(2, 2), ("sigmoid", "softplus"), strict=True):
        _overall_speed(left, coupling)
        _relative_contribution(right, coupling)
    return figure


def _overall_speed(ax: Axes, coupling: str) -> None:
    ax.plot(LAMS, theory.regressor_speed(1.0, LAMS, coupling), color=MAGENTA, lw=2.2, label="regressor")
    ax.plot(LAMS, theory.quantifier_speed(1.0, LAMS, coupling), color=GREEN, lw=2.2, label="quantifier")
    if coupling == "sigmoid":
        _level(ax, 1.0, "never faster than L", GREEN)
    else:
        fastest = theory.LARGEST_SOFTPLUS_SPEED
        _level(ax, fastest, f"never faster than {fastest:.3f} L", GREEN)
        ax.plot(theory.MU0, fastest, "o", color=GREEN, ms=6)
        ax.annotate(f"lam = {theory.MU0:.3f} L", (theory.MU0, fastest), (8, 6), textcoords="offset points", color=GREEN)
    ax.set(ylim=(5e-4, 2e2), ylabel="learning speed", title=f"{coupling}: how fast both learn, loss L = 1")
    _over_lam(ax, (0.01, 0.82))


def _relative_contribution(ax: Axes, coupling: str) -> None:
    limits = theory.limits(L1, L2, coupling)
    ax.axhspan(1, 1e3, color=BLUE, alpha=0.06, lw=0)
    ax.plot(LAMS, theory.regressor_ratio(LAMS, L1, L2, coupling), color=MAGENTA, lw=2.2, label="regressor, R(lam)")
    ax.plot(LAMS, theory.quantifier_ratio(LAMS, L1, L2, coupling), color=GREEN, lw=2.2, label="quantifier, Q(lam)")
    _level(ax, limits["regressor"].small, "L2 / L1", MAGENTA)
    _level(ax, limits["quantifier"].large, {"sigmoid": "L1 / L2", "softplus": "(L1 / L2)²"}[coupling], GREEN)
    for y, text in ((45, "above 1: a clean sample counts more"), (0.5, "below 1: a noisy sample counts more")):
        ax.annotate(text, (LAMS[-1], y), (-5, 0), textcoords="offset points", ha="right", fontsize="small")
    ax.set(ylim=(1e-3, 1e2), ylabel="weight, clean over noisy")
    ax.set_title(f"{coupling}: clean (L1 = {L1:g}) against noisy (L2 = {L2:g})")
    _over_lam(ax, (0.01, 0.02) if coupling == "sigmoid" else (0.01, 0.22))


def _level(ax: Axes, y: float, text: str, color: str) -> None:
    ax.axhline(y, color=color, lw=1, ls=DASHED)
    ax.annotate(text, (LAMS[0], y), (5, 4), textcoords="offset points", color=color, fontsize="small")


def _over_lam(ax: Axes, legend: tuple[float, float]) -> None:
    ax.set(xscale="log", yscale="log", xlim=(LAMS[0], LAMS[-1]), xlabel="lam")
    ax.legend(frameon=False, loc=legend)
    _plain_axes(ax)


def contributions() -> Figure:
    """Table 1, computed: whether a clean or a noisy region counts more for each network."""
    table = theory.contributions()
    text = table.map(lambda text: text.replace(">>", "≫").replace("<<", "≪"))
    figure = Figure(figsize=(9.5, 1.9), layout="constrained")
    ax = figure.subplots()
    ax.axis("off")
    cells = ax.table(
        text.to_numpy().tolist(),
        rowLabels=[f"{lam} lam" for lam in table.index],
        colLabels=["\n".join(names) for names in table.columns],
        cellLoc="center",
        bbox=Bbox.from_bounds(0.1, 0, 0.9, 1),
    )
    for (row, column), cell in cells.get_celld().items():
        cell.set_edgecolor("#d5dae0")
        if row == 0 or column < 0:
            cell.set_text_props(weight="bold")
        elif "=" not in (entry := str(table.iat[row - 1, column])):
            cell.set_facecolor("#e3f0e5" if ">" in entry else "#fbe3e4")
    return figure


def surfaces(small: float = 0.01, large: float = 100.0) -> Figure:
    """Fig. 4: the losses of two regions over a weight of the regressor, and the joint loss for small and large lam."""
    theta = np.linspace(-1.2, 3.2, 1501)
    clean, noisy = 0.03 + 0.5 * theta**2, 2.5 + 1.1 * (theta - 2) ** 2  # L1, least at 0, and L2, least at 2
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    for ax, lam, word in zip(figure.subplots(1, 2, sharey=True), (small, large), ("small", "large"), strict=True):
        joint = theory.surface([clean, noisy], lam)
        joint = 1.2 * (joint - joint.min()) / (joint.max() - joint.min()) * 4 + 0.6  # shifted and scaled: same minimum
        ax.plot(theta, clean, color=BLUE, lw=2, label="clean region, L1")
        ax.plot(theta, noisy, color=RED, lw=2, label="noisy region, L2")
        ax.plot(theta, joint, color=INK, lw=2.4, label="joint loss of all samples (shifted, scaled)")
        for values, name, color, side in ((clean, "θ¹", BLUE, -16), (noisy, "θ²", RED, 4), (joint, "θ*", INK, 4)):
            at = theta[values.argmin()]
            ax.vlines(at, 0, values.min(), color=color, lw=1, ls=DASHED)
            ax.plot(at, values.min(), "o", color=color, ms=6)
            ax.annotate(name, (at, 0.12), (side, 3), textcoords="offset points", color=color, fontsize="large")
        ax.set(xlim=(theta[0], theta[-1]), ylim=(0, 6), xlabel="weight of the regressor, θ")
        ax.set_title(f"{word} lam ({lam:g}): the joint loss is least {theta[joint.argmin()]:.2f} from θ¹")
        _plain_axes(ax)
    figure.axes[0].set_ylabel("loss")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


# ---------------------------------------------------------------- sec. 4: special cases

# text, x, y, color
_BOXES = (
    ("joint loss   $L\\,f(z) + \\lambda\\,g(z)$\nany loss $L$, any $f$ and $g$, any $\\lambda > 0$", 0.5, 0.90, INK),
    ("expected loss $= -\\lambda\\,g'(z)\\,/\\,f'(z)$\nfor any distribution of $y$ given $x$", 0.5, 0.68, INK),
    ("$L = (y - y_r)^2$\n$y_r$ = mean, expected loss = variance\nfor any distribution", 0.24, 0.42, BLUE),
    (
        "$L = |y - y_r|$\n$y_r$ = median, expected loss = mean absolute\ndeviation, for any distribution",
        0.76,
        0.42,
        ORANGE,
    ),
    ("$f = z,\\ g = -\\ln z,\\ \\lambda = 1$\nGaussian maximum likelihood\nvariance $= 1 / z$", 0.24, 0.13, BLUE),
    ("$f = z,\\ g = -\\ln z,\\ \\lambda = 1$\nLaplace maximum likelihood\nscale $= 1 / z$", 0.76, 0.13, ORANGE),
)
_ARROWS = (
    (0, 1, ""),
    (1, 2, "squared loss"),
    (1, 3, "absolute loss"),
    (2, 4, "softplus, $\\lambda = 1$"),
    (3, 5, "softplus, $\\lambda = 1$"),
)


def flowchart() -> Figure:
    """Fig. 3: what the method becomes for particular losses, f, g and lam."""
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")
    half = 0.085
    for text, x, y, color in _BOXES:
        box = FancyBboxPatch((x - 0.215, y - half), 0.43, 2 * half, boxstyle="round,pad=0,rounding_size=0.02",
                             facecolor=color + "12", edgecolor=color, lw=1.4)  # fmt: skip
        ax.add_patch(box)
        ax.text(x, y, text, ha="center", va="center", fontsize=11.5, linespacing=1.5)
    for start, end, text in _ARROWS:
        (_, x0, y0, _), (_, x1, y1, _) = _BOXES[start], _BOXES[end]
        x0 += 0.4 * (x1 - x0)
        ends = (x0, y0 - half), (x1, y1 + half)
        ax.add_patch(
            FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=14, color=GREY, lw=1.4, shrinkA=2, shrinkB=2)
        )
        side = -1 if x1 < x0 else 1
        middle = (x0 + x1) / 2 + 0.015 * side, (y0 + y1) / 2
        ax.text(*middle, text, ha="right" if side < 0 else "left", va="center", color="#555555", fontsize="small")
    return figure


# ---------------------------------------------------------------- sec. 7: trained networks

# Frames of the animation: the first epochs one by one, later ones in steps that grow.
FRAMES = tuple(int(e) for e in np.unique(np.rint(np.geomspace(1, EPOCHS, 110))))
WANTED = sorted({*FRAMES, *STAGES.values(), *ENOUGH.values()})

# What is trained: the smooth data; pair and standard network on little and on much noise; a small and a large lam.
SMOOTH = Setting(noisy=None, lam=0.1)
SHARP = {noisy: (Setting(noisy), Setting(noisy, coupling=None)) for noisy in ENOUGH}
SIGMOID = Setting(lam=0.05), Setting(lam=2.0)
SOFTPLUS = Setting(coupling="softplus", lam=0.03), Setting(coupling="softplus", lam=1.0)


@functools.lru_cache(maxsize=32)
def learned(setting: Setting) -> dict[int, Curve]:
    """The curves of one training at every frame."""
    return {curve.epochs: curve for curve in curves(setting, WANTED)}


def smooth_fit() -> Figure:
    """Fig. 5: mean and standard deviation that vary smoothly, lam = 0.1."""
    curve, data = learned(SMOOTH)[EPOCHS], SMOOTH.data()
    mean, std = SMOOTH.truth(GRID)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(data.X[:, 0], data.y, ".", color=GREY, ms=2.5, alpha=0.5, mew=0, label="samples")
    left.plot(GRID, mean, color=INK, lw=3.5, alpha=0.35, label="truth")
    left.plot(GRID, curve.mean, color=BLUE, lw=1.8, label="regressor")
    left.set(ylim=(-4, 8), ylabel="y", title="mean")
    right.plot(GRID, std, color=INK, lw=3.5, alpha=0.35, label="truth")
    right.plot(GRID, curve.std, color=GREEN, lw=1.8, label="quantifier")
    right.set(ylim=(0, 2.4), title="standard deviation")
    for ax in (left, right):
        ax.set(xlim=(0, 1), xlabel="x")
        ax.legend(frameon=False)
        _plain_axes(ax)
    return figure


def sharp_interfaces() -> Figure:
    """Fig. 6: two noisy strips with 20 % and with 80 % of the samples; the pair against a standard network."""
    figure = Figure(figsize=(11, 7.4), layout="constrained")
    for (left, right), (noisy, (pair, plain)) in zip(figure.subplots(2, 2), SHARP.items(), strict=True):
        data, epochs = pair.data(), ENOUGH[noisy]
        own, standard = learned(pair)[epochs], learned(plain)[epochs]
        left.plot(data.X[:, 0], data.y, ".", color=GREY, ms=2.5, alpha=0.35, mew=0, label="samples")
        left.plot(GRID, standard.mean, color=RED, lw=1.8, label=f"standard network, {_error(standard)}")
        left.plot(GRID, own.mean, color=BLUE, lw=2, label=f"regressor of the pair, {_error(own)}")
        mean, std = pair.truth(GRID)
        right.plot(GRID, std, color=INK, lw=3.5, alpha=0.25, label="noise alone")
        right.plot(GRID, np.hypot(std, own.mean - mean), color=INK, lw=1.2, ls=":", label="real error")
        right.plot(GRID, own.std, color=GREEN, lw=1.8, label="expected error")
        left.set_title(f"{noisy:.0%} of the samples lie in the strips; {epochs:,} epochs")
        right.set_title("error of the pair, root mean square")
        _strips(left, right)
        right.set_ylim(0, 8.5)
        left.legend(frameon=False, loc="lower left", fontsize="small")
        right.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.45, 0.93), fontsize="small")
    return figure


def _error(curve: Curve) -> str:
    return f"clean error {curve.error:.3f}"


def _named(curve: Curve) -> str:
    return f"lam = {curve.setting.lam:g}, {_error(curve)}"


def learning_stages() -> Figure:
    """Fig. 7: early, middle and final stage, sigmoid, small lam (solid) against large lam (dashed), 80 % noise."""
    figure = Figure(figsize=(11, 10), layout="constrained")
    for (left, right), (word, epoch) in zip(figure.subplots(3, 2), STAGES.items(), strict=True):
        _compared(left, right, SIGMOID, epoch)
        left.set_title(f"{word}, {epoch:,} epochs: prediction")
        right.set_title("standard deviation")
    return figure


def softplus_sharp() -> Figure:
    """Fig. 8: the same with the softplus coupling, at the end; lam = 1 is Gaussian maximum likelihood."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    _compared(left, right, SOFTPLUS, EPOCHS)
    left.set_title("softplus: prediction")
    right.set_title("standard deviation")
    return figure


def _compared(left: Axes, right: Axes, settings: Sequence[Setting], epoch: int) -> None:
    """A small lam, solid, against a large one, dashed."""
    mean, std = settings[0].truth(GRID)
    left.plot(GRID, mean, color=INK, lw=3.5, alpha=0.25, label="truth")
    right.plot(GRID, std, color=INK, lw=3.5, alpha=0.25, label="truth")
    for setting, style in zip(settings, ("-", DASHED), strict=True):
        curve = learned(setting)[epoch]
        left.plot(GRID, curve.mean, color=BLUE, lw=1.8, ls=style, label=_named(curve))
        right.plot(GRID, curve.std, color=GREEN, lw=1.8, ls=style, label=f"lam = {setting.lam:g}")
    _strips(left, right)
    left.set_ylim(-5.5, 5)
    for ax, y in ((left, 0.0), (right, 0.55)):  # between the strips nothing is in the way
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.45, y), fontsize="small")


def _strips(left: Axes, right: Axes) -> None:
    left.set(ylim=(-9, 7), ylabel="y")
    right.set(ylim=(0, 6.5))
    for ax in (left, right):
        ax.set(xlim=(0, 1), xlabel="x")
        for edge in EDGES:
            ax.axvline(edge, color=GREY, lw=0.9, ls=DASHED, zorder=0)
        for region, middle in enumerate(np.convolve([0, *EDGES, 1], [0.5, 0.5], "valid"), 1):
            ax.text(middle, 0.965, str(region), transform=ax.get_xaxis_transform(), ha="center", va="top",
                    color="#777777", fontsize="small")  # fmt: skip
        _plain_axes(ax)


def learning_animation() -> FuncAnimation:
    """The learning stages as a film: `FuncAnimation.save("x.gif", writer="pillow")`."""
    figure = Figure(figsize=(9, 3.9), dpi=80, layout="constrained")
    left, right = figure.subplots(1, 2)
    _compared(left, right, SIGMOID, FRAMES[0])
    names = left.get_legend().get_texts()[1:]  # the first of lines and names is the truth
    moving = list(zip(SIGMOID, left.lines[1:], right.lines[1:], names, strict=False))
    right.set_title("standard deviation")

    def draw(epoch: int) -> None:
        left.set_title(f"prediction after {epoch:,} epochs")
        for setting, mean, std, name in moving:
            curve = learned(setting)[epoch]
            mean.set_ydata(curve.mean)
            std.set_ydata(curve.std)
            name.set_text(_named(curve))

    return FuncAnimation(figure, draw, frames=[*FRAMES, *([EPOCHS] * 12)], interval=90)


def _plain_axes(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


# Every figure, and the networks it needs.
FIGURES: dict[str, Callable[[], Figure]] = {
    "speeds": speeds,
    "contributions": contributions,
    "flowchart": flowchart,
    "surfaces": surfaces,
    "smooth_fit": smooth_fit,
    "sharp_interfaces": sharp_interfaces,
    "learning_stages": learning_stages,
    "softplus_sharp": softplus_sharp,
}

NETWORKS: dict[str, tuple[Setting, ...]] = {
    "smooth_fit": (SMOOTH,),
    "sharp_interfaces": sum(SHARP.values(), ()),
    "learning_stages": SIGMOID,
    "softplus_sharp": SOFTPLUS,
    "learning_animation": SIGMOID,
}
