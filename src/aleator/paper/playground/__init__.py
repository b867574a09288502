"""`aleator playground`: one page, no server, that replays trainings of the library over a grid of settings.

A page could train networks itself, but then moving lam would show nothing for many seconds, and the numbers would be
those of another program. So `make playground` trains every setting once (`computed`, some minutes) and keeps curves and
numbers in ``runs.npz``, which is part of the package; `page` puts them into the template, and a slider looks them up.
"""

import base64
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from joblib import effective_n_jobs
from numpy.typing import NDArray
from rich.progress import track

from aleator import atomic_write, theory
from aleator.engine import DivergenceError
from aleator.paper.synthetic import EPOCHS, GRID, Curve, Setting, predicted

Floats = NDArray[np.float64]

HERE = Path(__file__).parent
RUNS = HERE / "runs.npz"

SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
COUPLINGS = ("sigmoid", "softplus")
LAMS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STAGES = [int(e) for e in np.unique(np.rint(np.geomspace(1, EPOCHS, 36)))]
POINTS = (np.arange(160) + 0.5) / 160
STEP = 1 / 2000  # of the curves, which are kept as whole numbers of 16 bits
SAMPLES_SHOWN = 700
NUMBERS = ["error", "L1", "L2", *(f"weight_{k}" for k in range(1, 6))]


def settings() -> list[Setting]:
    """All runs in the order of the page: for each data set the standard network, then by coupling the lams."""
    data = [*(Setting(noisy=share) for share in SHARES), Setting(noisy=None)]
    return [
        replace(each, coupling=coupling, lam=lam)
        for each in data
        for coupling, lam in [(None, 1.0), *((coupling, lam) for coupling in COUPLINGS for lam in LAMS)]
    ]


# ---------------------------------------------------------------- training, once


def computed(wanted: list[Setting] | None = None) -> dict[str, NDArray[Any]]:
    """Curves (runs, stages, 2, points) in steps of STEP and numbers (runs, stages, NUMBERS) of all settings."""
    with ThreadPoolExecutor(effective_n_jobs(-1)) as pool:
        wanted = settings() if wanted is None else wanted
        runs = list(track(pool.map(run, wanted), total=len(wanted), description="training"))
    curves = np.stack([curves for curves, _ in runs])
    # A standard network has no deviation. What does not fit into 16 bits, beyond +-16.4, is put at the end of their
    # range: far outside the picture, where some softplus runs go before they diverge.
    curves[[setting.coupling is None for setting in wanted], :, 1] = 0
    most = np.iinfo(np.int16).max
    steps = np.clip(np.rint(curves / STEP), -most, most).astype(np.int16)
    return {"differences": differences(steps), "numbers": np.stack([numbers for _, numbers in runs]).astype(np.float32)}


def differences(curves: NDArray[np.int16]) -> NDArray[np.int16]:
    """Of each stage from the one before, and twice of each point from its neighbour: small numbers, that pack well.

    Whole numbers of 16 bits wrap, here and on the way back, in page.js.
    """
    for axis in (1, 3, 3):
        first = np.take(curves, [0], axis)
        curves = np.concatenate([first, np.diff(curves, axis=axis)], axis)
    return curves


def run(setting: Setting) -> tuple[Floats, Floats]:
    """What is shown of one training: mean and standard deviation (stages, 2, points), numbers (stages, NUMBERS).

    After a divergence the last stage stays, with NaN for its error.
    """
    data = setting.data()
    x, region, unit = data.X[:, 0], setting.region(data.X[:, 0]), np.var(data.y)
    curves, numbers = [], []
    try:
        for epochs, model in zip(STAGES, setting.model().fit_staged(data.X, data.y, STAGES), strict=True):
            mean, std = predicted(model, x)
            loss = (data.y - mean) ** 2 / unit
            losses = [loss[setting.is_noisy[region] == noisy].mean() for noisy in (False, True)]  # L1, L2
            weight = np.bincount(region, _weight(setting, std**2 / unit), minlength=5)
            curves.append(predicted(model, POINTS))
            numbers.append([Curve(setting, epochs, *predicted(model, GRID)).error, *losses, *weight / weight.sum()])
    except DivergenceError:
        if not curves:
            raise
        missing = len(STAGES) - len(curves)
        curves += missing * [curves[-1]]
        numbers += missing * [[np.nan, *numbers[-1][1:]]]
    return np.array(curves), np.array(numbers)


def _weight(setting: Setting, expected: Floats) -> Floats:
    """What the regressor's gradient of each sample is multiplied with: f(z), z being where this loss is expected."""
    if setting.coupling is None:
        return np.ones_like(expected)
    return theory.regressor_speed(expected, setting.lam, setting.coupling)


def keep(runs: dict[str, NDArray[Any]]) -> None:
    """Make these the runs of the package."""
    with atomic_write.whole(RUNS, "file of runs") as beside, beside.open("wb") as file:
        np.savez_compressed(file, differences=runs["differences"], numbers=runs["numbers"])


def kept() -> dict[str, NDArray[Any]]:
    """The runs of the package."""
    with np.load(RUNS, allow_pickle=False) as runs:
        return dict(runs)


# ---------------------------------------------------------------- the page


def page() -> str:
    """The whole page, with everything it needs."""
    runs = kept()
    template = Environment(undefined=StrictUndefined).from_string((HERE / "page.html").read_text(encoding="utf-8"))
    return template.render(
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        script=(HERE / "page.js").read_text(encoding="utf-8"),
        facts=json.dumps(_facts(), separators=(",", ":"), allow_nan=False),
        runs=_packed(runs),
        n_runs=len(settings()),
        n_frames=len(STAGES),
        version=version("aleator"),
    )


def write(path: Path) -> Path:
    """Write the page to `path`."""
    text = page()
    with atomic_write.whole(path, "page") as beside:
        beside.write_text(text, encoding="utf-8")
    return path


def _packed(runs: dict[str, NDArray[Any]]) -> str:
    """All numbers in the order the page reads them."""
    content = runs["differences"].astype("<i2").tobytes() + runs["numbers"].astype("<f4").tobytes()
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _facts() -> dict[str, Any]:
    """What the page needs to know of the runs."""
    return {
        "data": [_data(setting) for setting in settings() if setting.coupling is None],
        "couplings": COUPLINGS,
        "lams": LAMS,
        "epochs": STAGES,
        "x": POINTS.round(6).tolist(),
        "step": STEP,
        "numbers": NUMBERS,
        "n_runs": len(settings()),
    }


def _data(setting: Setting) -> dict[str, Any]:
    """One data set: some of its samples, the truth, its regions, and how to draw it."""
    data, strips = setting.data(), setting.noisy is not None
    mean, std = setting.truth(POINTS)
    region = setting.region(data.X[:, 0])
    return {
        "name": "smooth" if setting.noisy is None else f"strips-{100 * setting.noisy:.0f}",
        "kind": "strips" if strips else "smooth",
        "share": setting.noisy,
        "edges": setting.edges.tolist(),
        "noisy": setting.is_noisy.tolist(),
        "shares": (np.bincount(region) / len(region)).tolist(),
        "samples": np.column_stack([data.X[:, 0], data.y])[:SAMPLES_SHOWN].round(3).tolist(),
        "mean": mean.round(4).tolist(),
        "std": std.round(4).tolist(),
        "range": (-8, 6) if strips else (-3, 7),
        "ticks": (-8, -4, 0, 4) if strips else (-2, 0, 2, 4, 6),
        "most": 8 if strips else 2.4,
        "spreadTicks": (0, 2, 4, 6, 8) if strips else (0, 0.5, 1, 1.5, 2),
    }
