"""From a user's table to the engine's data: a weighted set of rows, standardised, in a frame for the loss.

Training depends on the table as a *weighted set*: rows are put into lexicographic order, equal rows are merged with
their weights added, rows of weight zero are left out. So the model is the same to the last bit whatever the order of
the rows, and a weight of 2 is the same as the row twice. No row is copied: all of this is an array of indices.

Inputs are standardised in one of two ways. "standard" is the paper's: mean and standard deviation. "robust" first clips
each column to the end of its tail (`outliers.tail_ends`), ignores one in which hardly any row differs, and lets no
value be more than `FARTHEST` spreads out. New values count up to twice the end of the tail, but beyond `FAR` spreads
only as far as the tail itself: there is little to extrapolate from. Where the tail reaches beyond `FAR` spreads, its
last rows have so much leverage that a network follows them alone. They keep their place only if a straight line through
them predicts rows that it did not see, or how far these are from the mean, better than a line through the column
without them; otherwise they are clipped. A column without such a tail is standardised as in the paper, to the bit; a
wrong cell is then not much farther out than the last of the others, whatever stands in it.
"""

from dataclasses import dataclass, replace

import numpy as np

from aleator.array_types import AnyFloats, Floats, Floats32, Integers
from aleator.engine import Data, unbounded
from aleator.losses import Loss
from aleator.preprocessing import outliers

ROWS_PER_BLOCK = 16_384  # copied together, where rows are copied at all
FARTHEST = 10.0  # spreads from the mean to the end of a tail, or the spread is made larger
FAR = 5.0  # spreads out, new values count only as far as the tail reaches; nearer, up to twice as far
LAST, LAST_SHARE = 3.0, 0.01  # rows, or this share of all if it is more: the last ones of a tail
BETTER = 0.98  # of the error without them, or less, is that of a line through them, if they are to keep their place
SCALINGS = ("robust", "standard")


@dataclass(frozen=True)
class Scaling:
    """Mean and spread of the columns of X (D,) and of Y (M,) over a weighted set of rows, and how inputs are clipped.

    A column that never changes has spread 0; it is then ignored by the network, also where it changes later.
    """

    x_mean: Floats
    x_spread: Floats
    y_mean: Floats
    y_spread: Floats
    x_clip: Floats | None = None  # (2, D): the range of inputs, in spreads; none: `engine.unbounded`

    @property
    def x_scale(self) -> Floats:
        """What the engine multiplies by: one over the spread, 0 for a column that never changes."""
        return np.divide(1.0, self.x_spread, out=np.zeros_like(self.x_spread), where=self.x_spread > 1e-300)

    @property
    def to_inputs(self) -> tuple[Floats, Floats, Floats]:
        """What the engine needs to turn rows into inputs: shift, scale and range."""
        return self.x_mean, self.x_scale, unbounded(len(self.x_mean)) if self.x_clip is None else self.x_clip

    def inputs(self, X: AnyFloats) -> Floats:
        """Rows (n, D) as the networks see them: what `kernels.gather` computes."""
        shift, scale, ends = self.to_inputs
        with np.errstate(over="ignore"):
            return np.clip((X.astype(np.float64, copy=False) - shift) * scale, *ends)

    def standardised(self, Y: Floats) -> Floats32:
        """Y (n, M) in the network's units; 0 where the target never changes."""
        spread = np.where(self.y_spread > 0, self.y_spread, 1.0)
        return np.ascontiguousarray((Y - self.y_mean) / spread * (self.y_spread > 0), np.float32)

    def restored(self, y_r: Floats32) -> Floats:
        """The network's output (n, M) in the target's units."""
        return self.y_mean + self.y_spread * y_r


@dataclass(frozen=True)
class Units:
    """How the engine measures the loss: the frame (M, 4) of each output and the unit (Q,) it divides by.

    One unit is the loss of missing by one standard deviation of the target (the mean of both sides), summed over the
    outputs that share a quantifier. In these units lam means the same for every loss and every scale of y; for the
    squared loss they are those of the paper, which standardises y.
    """

    frame: Floats
    unit: Floats


def weighted_set(X: AnyFloats, Y: Floats, weight: Floats | None) -> tuple[Integers, Floats]:
    """Indices of the distinct rows of positive weight, in lexicographic order, and the weight of every row of X."""
    n = len(X)
    order = np.arange(n) if weight is None else np.flatnonzero(weight)
    order, ties = _sorted(order, [*X.T, *Y.T])
    weight = np.ones(n) if weight is None else weight.astype(np.float64)
    if len(ties):  # positions that repeat the one before
        first = np.ones(len(order), bool)
        first[ties] = False
        total = np.bincount(np.cumsum(first) - 1, weight[order])
        order = order[first]
        weight[order] = total
    weight = weight / weight[order].max()  # first, so that no sum can overflow
    return order, weight / np.mean(weight[order])


def repetitions(weight: Floats, one: float, most: float) -> Integers | None:
    """How often each row is there, if the weights are multiples of that of one row; None if not, or if over `most`."""
    times = weight / one
    whole = np.rint(times)
    if np.abs(times - whole).max(initial=0.0) > 1e-9 * whole.max(initial=1.0) or whole.sum() > most:
        return None
    return whole.astype(np.int64)


def _sorted(order: Integers, columns: list[AnyFloats]) -> tuple[Integers, Integers]:
    """Sort by the columns in turn, looking at a later one only where the earlier ones tie.

    Returns the order and the positions in it that equal their predecessor in all columns.
    """
    group = np.zeros(len(order), np.int64)  # rows that tie so far
    tied = np.arange(len(order))  # positions in groups of two and more
    for column in columns:
        if not len(tied):
            break
        values = column[order[tied]]
        place = np.lexsort((order[tied], values, group[tied]))
        order[tied], values = order[tied][place], values[place]
        apart = np.ones(len(tied), bool)
        apart[1:] = (np.diff(group[tied]) != 0) | (values[1:] != values[:-1])
        group[tied] = np.cumsum(apart)
        alone = apart & np.append(apart[1:], True)
        tied = tied[~alone]
    repeats = np.zeros(len(order), bool)
    repeats[tied[1:]] = (np.diff(tied) == 1) & (np.diff(group[tied]) == 0)
    return order, np.flatnonzero(repeats)


def fit_scaling(X: AnyFloats, Y: Floats, rows: Integers, weight: Floats, method: str = "standard") -> Scaling:
    """The scaling of a weighted set of rows, one of `SCALINGS`."""
    of_y = _moments(Y, rows, weight)
    if method == "standard":
        return Scaling(*_moments(X, rows, weight), *of_y)
    low, high = _tail_ends(X, rows, weight)
    low, high = _supported_ends(X, Y, rows, weight, (low, high), of_y)
    mean, spread = _moments(X, rows, weight, (low, high))
    spread = np.maximum(spread, np.maximum(high - mean, mean - low) / FARTHEST)
    scales = Scaling(mean, spread, *of_y)
    ends = np.stack([low - mean, high - mean]) * scales.x_scale
    reach = np.maximum(np.abs(ends), np.minimum(outliers.REACH * np.abs(ends), FAR))
    return replace(scales, x_clip=np.sign(ends) * reach)


def _tail_ends(X: AnyFloats, rows: Integers, weight: Floats) -> tuple[Floats, Floats]:
    """The ends of the tails of each column; of one in which hardly any row differs, a single value."""
    own = weight[rows]
    weights = None if (own == own[0]).all() else own
    ends = np.empty((2, X.shape[1]))
    for k in range(X.shape[1]):
        values = X[rows, k].astype(np.float64, copy=False)
        found = outliers.tail_ends(values, weights)
        ends[:, k] = outliers.quantiles(values, weights, (0.5,)) * 2 if found is None else found
    return ends[0], ends[1]


def _supported_ends(
    X: AnyFloats,
    Y: Floats,
    rows: Integers,
    weight: Floats,
    ends: tuple[Floats, Floats],
    of_y: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    """The ends of tails beyond `FAR` spreads, without their last rows where a straight line to Y does better so."""
    low, high = ends
    mean, spread = _moments(X, rows, weight, ends)
    below, above = mean - low > FAR * spread, high - mean > FAR * spread
    long = np.flatnonzero((below | above) & (spread > 1e-300))
    if not len(long):
        return ends
    low, high, own = low.copy(), high.copy(), weight[rows]
    targets = (Y[rows] - of_y[0]) / np.where(of_y[1] > 0, of_y[1], 1.0)
    targets = np.hstack([targets, np.abs(targets)])  # the column may tell of the noise alone
    share = max(LAST / own.sum(), LAST_SHARE)
    for k in long:
        values = X[rows, k].astype(np.float64, copy=False)
        lower, upper = outliers.quantiles(values, own, (share, 1 - share))
        near = max(lower, low[k]) if below[k] else low[k], min(upper, high[k]) if above[k] else high[k]
        if near[0] >= near[1]:
            continue
        whole, short = (
            _left_out_errors((np.clip(values, *range_) - mean[k]) / spread[k], targets, own)
            for range_ in ((low[k], high[k]), near)
        )
        if (whole > BETTER * short).all():
            low[k], high[k] = near
    return low, high


def _left_out_errors(x: Floats, Y: Floats, weight: Floats) -> Floats:
    """Squared errors (M,) of a straight line from x (n,) to Y (n, M), each row predicted by the line of all others.

    It is in closed form: residual / (1 - leverage). Allen, Technometrics 16 (1974).
    """
    share = weight / weight.sum()
    x = x - (share * x).sum()
    Y = Y - (share[:, None] * Y).sum(axis=0)
    variance = (share * x**2).sum()
    residual = Y - np.outer(x, ((share * x)[:, None] * Y).sum(axis=0) / variance)
    leverage = np.minimum(share * (1 + x**2 / variance), 1 - 1e-9)
    return np.asarray((share[:, None] * (residual / (1 - leverage)[:, None]) ** 2).sum(axis=0))


def _moments(
    A: AnyFloats, rows: Integers, weight: Floats, within: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each column, block by block and safe at the ends of float64's range.

    Values are clipped to the range `within`, if there is one.
    """
    blocks = [rows[lo : lo + ROWS_PER_BLOCK] for lo in range(0, len(rows), ROWS_PER_BLOCK)]
    low = np.min([A[b].min(axis=0) for b in blocks], axis=0).astype(np.float64)
    high = np.max([A[b].max(axis=0) for b in blocks], axis=0).astype(np.float64)
    if within is not None:
        low, high = np.clip(low, *within), np.clip(high, *within)
    size = np.maximum(np.abs(low), np.abs(high))
    size[size == 0] = 1.0
    mass = weight[rows].sum()
    mean = size * sum(weight[b] @ (np.clip(A[b], low, high) / size) for b in blocks) / mass
    mean = np.where(low == high, low, mean)
    reach = np.maximum(high - mean, mean - low)
    reach[reach == 0] = 1.0
    variance = sum(weight[b] @ ((np.clip(A[b], low, high) - mean) / reach) ** 2 for b in blocks) / mass
    return mean, np.where(low == high, 0.0, reach * np.sqrt(variance))


def loss_units(loss: Loss, scales: Scaling, per_output: bool) -> Units:
    """The units of a loss for targets in this scaling; an error if the loss of one spread is 0 or not finite."""
    mean, spread = scales.y_mean, scales.y_spread
    if loss.over_rows:
        return _row_units(loss, scales, per_output)
    if loss.degree is not None:  # on the standardised target, so that the unit of y cannot matter
        with np.errstate(over="ignore"):
            power = spread**loss.degree
        size = (loss.value(1.0, 0.0) + loss.value(-1.0, 0.0)) / 2 * power
        if ((power < 1e-300) & (spread > 0)).any():
            raise ValueError(f"y varies so little, by {spread}, that its {loss.name} loss is 0 in float64.")
        shift, scale = np.zeros_like(mean), np.ones_like(mean)
    else:
        shift, scale, power = mean, spread, np.ones_like(mean)
        size = np.array([(loss.value(m + s, m) + loss.value(m - s, m)) / 2 for m, s in zip(mean, spread, strict=True)])
    unit = size if per_output else size.sum(keepdims=True)
    if not np.all(np.isfinite(unit)):
        raise ValueError(f"the {loss.name} loss of missing by one standard deviation of y, {spread}, is not finite.")
    factor = power / np.where(unit > 0, unit, 1.0)
    # An output in small units would hardly count in the sum, and the regressor would not learn it. Its optimum does not
    # depend on how outputs are weighed, so the regressor follows each in its own unit: equal units, the exact gradient.
    share = 1 if per_output else len(size)
    push = power / (share * np.where(size > 0, size, 1.0))
    # Rounded to float32, so that a last bit of the spread, which depends on the unit of y, cannot show.
    with np.errstate(over="ignore"):
        factor, push = factor.astype(np.float32), push.astype(np.float32)
    if not (np.isfinite(factor).all() and np.isfinite(push).all() and (size[spread > 0] > 0).all()):
        raise ValueError(f"y varies so little, by {spread}, that its {loss.name} loss is 0 in float64.")
    return Units(np.column_stack([shift, scale, factor, push]), unit)


def _row_units(loss: Loss, scales: Scaling, per_output: bool) -> Units:
    """The units of a loss of all outputs together: that of missing each by one standard deviation."""
    if per_output:
        raise ValueError(f"per_output=True needs a loss for each output, {loss.name!r} gives one a row.")
    mean, spread = scales.y_mean, scales.y_spread
    unit = float(loss.value(mean + spread, mean) + loss.value(mean - spread, mean)) / 2
    if not np.isfinite(unit) or (unit <= 0 and (spread > 0).any()):
        raise ValueError(f"the {loss.name} loss of missing y by one standard deviation, {spread}, is {unit:g}.")
    factor = np.full(len(mean), 1 / unit if unit > 0 else 1.0)
    return Units(np.column_stack([mean, spread, factor, factor]), np.array([unit]))


@dataclass(frozen=True)
class TrainingSet:
    """A weighted set of rows, ready for the engine."""

    rows: Integers
    scaling: Scaling
    units: Units
    data: Data


def training_set(
    X: AnyFloats, Y: Floats, weight: Floats | None, loss: Loss, per_output: bool, method: str = "standard"
) -> TrainingSet:
    """The table that networks learn from, standardised by one of the methods of `SCALINGS`.

    The robust one also clips targets that are implausibly far from the others.
    """
    rows, weight = weighted_set(X, Y, weight)
    learned = plausible_targets(Y, rows, weight) if method == "robust" else Y
    scales = fit_scaling(X, learned, rows, weight, method)
    units = loss_units(loss, scales, per_output)
    data = engine_data(X, learned, weight, scales, units)
    return TrainingSet(rows, scales, units, data if learned is Y else replace(data, truth=Y))


def engine_data(X: AnyFloats, Y: Floats, weight: Floats, scales: Scaling, units: Units) -> Data:
    """The engine's view of rows, in a scaling and units learned before."""
    return Data(X, scales.x_mean, scales.x_scale, scales.standardised(Y), weight, units.frame, scales.x_clip)


def plausible_targets(Y: Floats, rows: Integers, weight: Floats) -> Floats:
    """Y (n, M), clipped to what the tails of its values make plausible; Y itself if nothing is clipped."""
    own = Y[rows]
    ends = np.array([outliers.plausible_range(column, weight[rows]) for column in own.T]).T
    return Y if ((own >= ends[0]) & (own <= ends[1])).all() else np.clip(Y, *ends)
