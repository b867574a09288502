"""Small pictures as SVG: axes, lines, points. Coordinates are rounded to a tenth of a pixel; texts are escaped."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from aleator.tabular.formatting import formatted

Floats = NDArray[np.float64]

LEFT, RIGHT, TOP, BOTTOM = 78, 14, 12, 46  # margins


@dataclass(frozen=True)
class Axes:
    """A picture of `width` x `height` pixels with values from `x` to `x[1]` and `y` to `y[1]`."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
    width: int = 560
    height: int = 330

    def across(self, value: float) -> float:
        """The place of a value, from the left."""
        low, high = self.x
        return round(LEFT + (value - low) / (high - low) * (self.width - LEFT - RIGHT), 1)

    def down(self, value: float) -> float:
        """The place of a value, from the top."""
        low, high = self.y
        return round(self.height - BOTTOM - (value - low) / (high - low) * (self.height - TOP - BOTTOM), 1)

    def places(self, x: Floats, y: Floats) -> list[tuple[float, float]]:
        """Of points."""
        return [(self.across(a), self.down(b)) for a, b in zip(x, y, strict=True)]

    def line(self, x: Floats, y: Floats, name: str) -> Markup:
        """A line through points, of a class that the style knows."""
        points = " ".join(f"{a:g},{b:g}" for a, b in self.places(x, y))
        return Markup('<polyline class="{}" points="{}"/>').format(name, points)

    def picture(
        self, parts: Sequence[Markup], title: str, x_ticks: Sequence[tuple[float, str]] | None = None
    ) -> Markup:
        """The whole, with axes, and a title for those who cannot see it."""
        frame = [self._x_tick(*tick) for tick in (self._ticks(self.x) if x_ticks is None else x_ticks)]
        frame += [self._y_tick(*tick) for tick in self._ticks(self.y)]
        frame.append(
            Markup('<text class="label" x="{:g}" y="{:g}">{}</text>').format(
                (LEFT + self.width - RIGHT) / 2, self.height - 8, self.x_label
            )
        )
        frame.append(
            Markup('<text class="label" transform="translate(14 {:g}) rotate(-90)">{}</text>').format(
                (TOP + self.height - BOTTOM) / 2, self.y_label
            )
        )
        ends = f"{LEFT} {self.width - RIGHT} {self.height - BOTTOM} {TOP}"
        return Markup(
            '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" data-ends="{}" data-x="{} {}" data-y="{} {}">{}</svg>'
        ).format(self.width, self.height, title, ends, *self.x, *self.y, Markup("").join([*frame, *parts]))

    def _ticks(self, ends: tuple[float, float]) -> list[tuple[float, str]]:
        values = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends)
        inside = [float(v) for v in values if ends[0] - 1e-9 * abs(ends[1]) <= v <= ends[1] * (1 + 1e-9)]
        return [(v, f"{v:,.6g}" if 1e-4 <= abs(v) < 1e6 or v == 0 else formatted(v)) for v in inside]

    def _x_tick(self, value: float, text: str) -> Markup:
        x, bottom = self.across(value), self.height - BOTTOM
        side = "tick left" if len(text) > 5 and x > self.width - RIGHT - 40 else "tick"  # a long one stays inside
        return Markup(
            '<line class="grid" x1="{:g}" x2="{:g}" y1="{:g}" y2="{:g}"/><text class="{}" x="{:g}" y="{:g}">{}</text>'
        ).format(x, x, TOP, bottom, side, x, bottom + 17, text)

    def _y_tick(self, value: float, text: str) -> Markup:
        y = self.down(value)
        return Markup(
            '<line class="grid" x1="{:g}" x2="{:g}" y1="{:g}" y2="{:g}"/>'
            '<text class="tick left" x="{:g}" y="{:g}">{}</text>'
        ).format(LEFT, self.width - RIGHT, y, y, LEFT - 7, y + 4, text)


def span(*values: Floats, zero: bool = False, margin: float = 0.04) -> tuple[float, float]:
    """Ends of an axis that shows all values, perhaps from 0 on."""
    together = np.concatenate([np.ravel(v) for v in values])
    low, high = float(together.min()), float(together.max())
    width = (high - low) or abs(high) or 1.0
    return (0.0 if zero else low - margin * width), high + margin * width


def rejection(curve: Floats, oracle: Floats, shares: Floats, error_name: str) -> Markup:
    """The error of what is left, against the share refused, with a marker that the script moves."""
    axes = Axes(
        (0, 100),
        (0, 1.08 * float(max(curve.max(), 1e-300))),
        "least certain predictions refused, %",
        f"{error_name} of the others",
    )
    parts = [
        axes.line(np.array([0.0, 100.0]), np.full(2, curve[0]), "random"),
        axes.line(100 * shares, oracle, "oracle"),
        axes.line(100 * shares, curve, "curve"),
        Markup('<g id="marker"><line y1="{}" y2="{}"/><circle r="6"/></g>').format(TOP, axes.height - BOTTOM),
    ]
    return axes.picture(parts, f"Error against the share refused: {formatted(float(curve[0]))} with none refused.")


def scatter(y: Floats, predicted: Floats, level: Floats, rank: NDArray[np.int64], target: str) -> Markup:
    """Predicted against actual, coloured by `level`, certain 0 to 1; `rank`, least certain 0, is the script's."""
    ends = span(y, predicted)
    axes = Axes(ends, ends, f"predicted {target}", f"actual {target}", height=420)
    dots = [
        Markup('<circle cx="{:g}" cy="{:g}" r="3.4" class="c{}" data-rank="{}"/>').format(a, b, int(9.999 * u), k)
        for (a, b), u, k in zip(axes.places(predicted, y), level, rank, strict=True)
    ]
    parts = [
        axes.line(np.array(ends), np.array(ends), "random"),
        Markup('<g id="dots">{}</g>').format(Markup("").join(dots)),
    ]
    return axes.picture(parts, f"Predicted against actual {target}; on the line they are equal.")


def calibration(expected: Floats, real: Floats, name: str) -> Markup:
    """Expected against real error by groups of rows; on the line the uncertainty is true."""
    ends = span(expected, real, zero=True, margin=0.08)
    axes = Axes(ends, ends, f"expected {name}", f"real {name}", height=360)
    dots = [
        Markup('<circle class="bin" cx="{:g}" cy="{:g}" r="5"/>').format(a, b) for a, b in axes.places(expected, real)
    ]
    parts = [axes.line(np.array(ends), np.array(ends), "random"), axes.line(expected, real, "curve"), *dots]
    return axes.picture(parts, f"Expected against real {name} in groups of rows.")


def dependence(values: Floats, expected: Floats, labels: list[str], column: str, name: str) -> Markup:
    """The expected error over the values of a column."""
    axes = Axes(span(values), (0.0, 1.12 * float(max(expected.max(), 1e-300))), column, f"expected {name}", 360, 230)
    dots = [
        Markup('<circle class="bin" cx="{:g}" cy="{:g}" r="2.6"/>').format(a, b)
        for a, b in axes.places(values, expected)
    ]
    ticks = [(float(values[k]), labels[k]) for k in sorted({0, len(values) // 2, len(values) - 1})]
    if len(ticks) == 3 and any(
        abs(axes.across(ticks[1][0]) - axes.across(end)) < 5 * (len(text) + len(ticks[1][1]))
        for end, text in ticks[::2]
    ):
        del ticks[1]  # which would be printed over its neighbour
    return axes.picture([axes.line(values, expected, "curve"), *dots], f"Expected {name} over {column}.", ticks)
