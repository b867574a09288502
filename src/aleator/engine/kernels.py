"""The compiled loops: forward, backward and update of a small network, many epochs in one call.

Shapes: B rows of a block, I inputs and U units of a layer, R rows a block may hold, P parameters.
Every buffer is one flat float32 array; a *slot* is the (rows, units) matrix one layer writes, and slot ``s`` begins at
``s * R`` where ``s`` counts the units before it. A network is the table of its layers (see ``network.py``), so separate
networks, a shared trunk, a lone regressor and a lone quantifier all run through the same two loops below.

Positions are unsigned: Numba then drops the check for negative indices, and the inner loops vectorise. A hidden layer
keeps its weights as (inputs, units) and an output layer as (units, inputs), so that every inner loop runs over the
contiguous axis. Losses and objectives arrive as first-class functions: a new one does not recompile anything here.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from aleator.compiled_functions import LOSS_SIGNATURE, OBJECTIVE_SIGNATURE, ROW_LOSS_SIGNATURE, ROW_SLOPE_SIGNATURE, jit

# Columns of the table of layers.
SOURCE, TARGET, INPUTS, UNITS, WEIGHTS, KIND, LEFT, STRIDE = range(8)
# Kinds of layer.
RELU, TANH, OUTPUT = range(3)
# Optimizers.
NESTEROV, ADAM = range(2)
# What a run of epochs ended with.
FINISHED, DIVERGED, BAD_LOSS = range(3)

MODE: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
}
kernel = functools.partial(jit, **MODE)

u8 = np.uint64
f4 = np.float32
ONE, TWO, THREE, FOUR, FIVE = u8(1), u8(2), u8(3), u8(4), u8(5)

# What belongs to a unit that never fires decays until it is subnormal, where the processor is a hundred times slower,
# and stays there; below this it is zero.
TINY = f4(1e-30)

LEAST_LEVEL = 1e-12  # of the running mean of the loss, in units of the loss of missing by one standard deviation

FARTHEST = 1e4  # in spreads of an input, where nothing else bounds it

# A product of matrices of so many multiplications goes to BLAS. OpenBLAS does larger ones on several threads, and their
# last bits then depend on how many; a block is kept small enough (see ``network.py``) unless a layer is very large.
BLAS_FROM, ONE_THREAD = 120_000, 262_144


# ---------------------------------------------------------------- arguments


class Sample(NamedTuple):
    """Rows to learn from: arrays of `train.Data`, and the numbers of the rows (N,)."""

    X: Any  # (n, D)
    shift: Any  # (D,)
    scale: Any  # (D,)
    clip: Any  # (2, D)
    Y: Any  # (n, M)
    weight: Any  # (n,)
    frame: Any  # (M, 4)
    rows: Any  # (N,)


class LayerTable(NamedTuple):
    """The table of layers (K, 8), the outputs (slot of y_r, M, slot of xi, Q), and how many rows a block has."""

    layers: Any
    outputs: Any
    R: Any


class Functions(NamedTuple):
    """Pointers to loss and objective; `by_row`: the loss is that of a row of outputs.

    Entry points take them one by one: Numba converts compiled functions to pointers in arguments, not within tuples.
    """

    value: Any
    slope: Any
    row_value: Any
    row_slope: Any
    objective: Any
    by_row: Any


class State(NamedTuple):
    """What training changes: params (P,), moments (2, P), and the running mean of the loss, `level` (1,)."""

    params: Any
    moments: Any
    level: Any


class Schedule(NamedTuple):
    """Epochs to train: the number of the first, rates and lams (epochs,), speeds (epochs, 2), the random seed."""

    first: Any
    rates: Any
    lams: Any
    speeds: Any
    seed: Any


class Settings(NamedTuple):
    """How a member is trained; penalty (2, P), or (2, 0) for none; `relative`, `shifted`: see `train.RelativeLam`."""

    batch: Any
    dropout: Any
    penalty: Any
    limit: Any
    optimizer: Any
    momentum: Any
    beta2: Any
    relative: Any
    shifted: Any


# ---------------------------------------------------------------- layers


@kernel()
def affine(x, xo, w, wo, out, oo, B, I, U):
    """Hidden layer, forward: out = bias + x W, with W (I, U)."""
    bias = wo + I * U
    if u8(BLAS_FROM) <= B * I * U <= u8(ONE_THREAD):
        product = out[oo : oo + B * U].reshape((np.intp(B), np.intp(U)))
        np.dot(
            x[xo : xo + B * I].reshape((np.intp(B), np.intp(I))),
            w[wo:bias].reshape((np.intp(I), np.intp(U))),
            product,
        )
        for b in range(B):
            for j in range(U):
                out[oo + b * U + j] += w[bias + j]
        return
    loops_affine(x, xo, w, wo, out, oo, B, I, U)


@kernel()
def loops_affine(x, xo, w, wo, out, oo, B, I, U):
    """The same, by loops: what a row gets does not depend on the rows beside it."""
    bias = wo + I * U
    whole = I - I % FOUR
    for b in range(B):
        o, xb = oo + b * U, xo + b * I
        for j in range(U):
            out[o + j] = w[bias + j]
        i = u8(0)
        while i < whole:  # four inputs at a time: one load and store of `out` for four products
            x0, x1, x2, x3 = x[xb + i], x[xb + i + ONE], x[xb + i + TWO], x[xb + i + THREE]
            w0 = wo + i * U
            w1, w2, w3 = w0 + U, w0 + TWO * U, w0 + THREE * U
            for j in range(U):
                out[o + j] += x0 * w[w0 + j] + x1 * w[w1 + j] + x2 * w[w2 + j] + x3 * w[w3 + j]
            i += FOUR
        while i < I:
            x0, w0 = x[xb + i], wo + i * U
            for j in range(U):
                out[o + j] += x0 * w[w0 + j]
            i += ONE


@kernel()
def affine_gradient(x, xo, d, do, g, wo, B, I, U, scratch):
    """Hidden layer, backward: g += x^T d for the weights and the sum of d for the bias."""
    bias = wo + I * U
    for b in range(B):
        for j in range(U):
            g[bias + j] += d[do + b * U + j]
    if u8(BLAS_FROM) <= B * I * U <= u8(ONE_THREAD):
        product = scratch[: I * U].reshape((np.intp(I), np.intp(U)))
        np.dot(
            x[xo : xo + B * I].reshape((np.intp(B), np.intp(I))).T,
            d[do : do + B * U].reshape((np.intp(B), np.intp(U))),
            product,
        )
        for k in range(I * U):
            g[wo + k] += scratch[k]
        return
    whole = B - B % FIVE
    for i in range(I):
        gi, xi = wo + i * U, xo + i
        b = u8(0)
        while b < whole:  # five rows at a time, as above; five is the paper's favourite batch
            x0, x1, x2 = x[xi + b * I], x[xi + (b + ONE) * I], x[xi + (b + TWO) * I]
            x3, x4 = x[xi + (b + THREE) * I], x[xi + (b + FOUR) * I]
            d0 = do + b * U
            d1, d2, d3, d4 = d0 + U, d0 + TWO * U, d0 + THREE * U, d0 + FOUR * U
            for j in range(U):
                g[gi + j] += x0 * d[d0 + j] + x1 * d[d1 + j] + x2 * d[d2 + j] + x3 * d[d3 + j] + x4 * d[d4 + j]
            b += FIVE
        while b < B:
            x0, d0 = x[xi + b * I], do + b * U
            for j in range(U):
                g[gi + j] += x0 * d[d0 + j]
            b += ONE


@kernel()
def affine_back(d, do, w, wo, out, oo, B, I, U, scratch):
    """Hidden layer, backward: out += d W^T, the derivative with respect to the layer's inputs."""
    if u8(BLAS_FROM) <= B * I * U <= u8(ONE_THREAD):
        product = scratch[: B * I].reshape((np.intp(B), np.intp(I)))
        np.dot(
            d[do : do + B * U].reshape((np.intp(B), np.intp(U))),
            w[wo : wo + I * U].reshape((np.intp(I), np.intp(U))).T,
            product,
        )
        for k in range(B * I):
            out[oo + k] += scratch[k]
        return
    for b in range(B):
        for i in range(I):
            total = f4(0)
            for j in range(U):
                total += d[do + b * U + j] * w[wo + i * U + j]
            out[oo + b * I + i] += total


@kernel()
def output(x, xo, stride, w, wo, out, oo, B, I, U):
    """Output layer, forward: out = bias + x W^T, with W (U, I); rows of x are `stride` apart."""
    for b in range(B):
        for j in range(U):
            total = w[wo + U * I + j]
            for i in range(I):
                total += x[xo + b * stride + i] * w[wo + j * I + i]
            out[oo + b * U + j] = total


@kernel()
def output_gradient(x, dx, xo, stride, d, do, w, g, wo, B, I, U):
    """Output layer, backward: gradients into g, and dx += d W."""
    for b in range(B):
        for j in range(U):
            e, xb, wj = d[do + b * U + j], xo + b * stride, wo + j * I
            g[wo + U * I + j] += e
            for i in range(I):
                g[wj + i] += e * x[xb + i]
                dx[xb + i] += e * w[wj + i]


@kernel()
def tanh(a):
    """Hyperbolic tangent to a few units in the last place, by arithmetic alone so that loops over it vectorise.

    Lambert's continued fraction, seven levels, at a quarter of the argument; then tanh 2x = 2 t / (1 + t^2), twice.
    """
    x = f4(0.25) * min(max(a, f4(-9)), f4(9))
    s = x * x
    above = f4(135135) + s * (f4(17325) + s * (f4(378) + s))
    below = f4(135135) + s * (f4(62370) + s * (f4(3150) + s * f4(28)))
    t = x * above / below
    t = f4(2) * t / (f4(1) + t * t)
    return f4(2) * t / (f4(1) + t * t)


@kernel()
def activate(h, ho, n, kind):
    if kind == RELU:
        for k in range(n):
            h[ho + k] = max(h[ho + k], f4(0))
    else:
        for k in range(n):
            h[ho + k] = tanh(h[ho + k])


@kernel()
def activate_gradient(h, d, o, n, kind):
    """D *= activation'(a), from the activation h = activation(a) alone."""
    if kind == RELU:
        for k in range(n):
            d[o + k] = d[o + k] if h[o + k] > f4(0) else f4(0)
    else:
        for k in range(n):
            d[o + k] *= f4(1) - h[o + k] * h[o + k]


# ---------------------------------------------------------------- random numbers


@kernel()
def mixed(x):
    """One step of the splitmix64 generator's output function: 64 well mixed bits."""
    x = (x ^ (x >> u8(30))) * u8(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> u8(27))) * u8(0x94D049BB133111EB)
    return x ^ (x >> u8(31))


@kernel()
def shuffle(order, seed, epoch):
    """Fisher-Yates in place; which permutation is a function of seed and epoch alone, so a run can be resumed."""
    state = mixed(seed + u8(epoch) * u8(0x9E3779B97F4A7C15))
    for i in range(order.size - 1, 0, -1):
        state += u8(0x9E3779B97F4A7C15)
        j = np.intp(((mixed(state) >> u8(32)) * u8(i + 1)) >> u8(32))
        order[i], order[j] = order[j], order[i]


@kernel()
def drop(h, keep, o, n, key, threshold, scale):
    """Dropout: a unit survives, times `scale`, if the 32-bit hash of (key, its position) reaches `threshold`."""
    for k in range(n):
        x = np.uint32(np.uint32(k) * np.uint32(0x9E3779B1)) ^ key
        x ^= x >> np.uint32(16)
        x = np.uint32(x * np.uint32(0x85EBCA6B))
        x ^= x >> np.uint32(13)
        x = np.uint32(x * np.uint32(0xC2B2AE35))
        x ^= x >> np.uint32(16)
        kept = scale if x >= threshold else f4(0)
        keep[o + k] = kept
        h[o + k] *= kept


# ---------------------------------------------------------------- one block of rows


@kernel()
def gather(X, shift, scale, clip, rows, out):
    """Standardise and clip the rows asked for, in float64, into a float32 block.

    (x - shift) scale, clipped to the range `clip` (2, D) of each column.
    """
    D = X.shape[1]
    for b in range(rows.size):
        for i in range(D):
            out[b * D + i] = min(max((X[rows[b], i] - shift[i]) * scale[i], clip[0, i]), clip[1, i])


@kernel()
def forward(layers, R, B, params, act, blas, keep, key, rate):
    """All layers in turn, each hidden one followed by dropout if there is a `rate`."""
    threshold, scale = np.uint32(rate * 4294967296.0), f4(1.0 / (1.0 - rate))
    for k in range(layers.shape[0]):
        source, target = u8(layers[k, SOURCE]) * R, u8(layers[k, TARGET]) * R
        I, U, wo = u8(layers[k, INPUTS]), u8(layers[k, UNITS]), u8(layers[k, WEIGHTS])
        if layers[k, KIND] == OUTPUT:
            left, stride = u8(layers[k, LEFT]), u8(layers[k, STRIDE])
            output(act, source + left, stride, params, wo, act, target, B, I, U)
            continue
        if blas:
            affine(act, source, params, wo, act, target, B, I, U)
        else:
            loops_affine(act, source, params, wo, act, target, B, I, U)
        activate(act, target, B * U, layers[k, KIND])
        if rate > 0.0:
            drop(act, keep, target, B * U, np.uint32(mixed(key + u8(k)) >> u8(32)), threshold, scale)


@kernel()
def backward(layers, R, B, params, act, delta, keep, rate, gradient, scratch):
    """Derivatives of the block's loss, from `delta` at the outputs, added to `gradient`."""
    for k in range(layers.shape[0] - 1, -1, -1):
        source, target = u8(layers[k, SOURCE]) * R, u8(layers[k, TARGET]) * R
        I, U, wo = u8(layers[k, INPUTS]), u8(layers[k, UNITS]), u8(layers[k, WEIGHTS])
        if layers[k, KIND] == OUTPUT:
            left, stride = u8(layers[k, LEFT]), u8(layers[k, STRIDE])
            output_gradient(act, delta, source + left, stride, delta, target, params, gradient, wo, B, I, U)
            continue
        if rate > 0.0:
            for j in range(target, target + B * U):
                delta[j] *= keep[j]
                act[j] *= f4(1.0 - rate)  # the activation before dropout, where the unit was kept
        activate_gradient(act, delta, target, B * U, layers[k, KIND])
        affine_gradient(act, source, delta, target, gradient, wo, B, I, U, scratch)
        if source > u8(0):
            affine_back(delta, target, params, wo, delta, source, B, I, U, scratch)


@kernel()
def block_loss(functions, sample, block, outputs, act, delta, lam, measure, share, totals):
    """Value of the objective and its derivatives at the outputs, for the rows of one block.

    The M outputs fall into groups, one for each of the Q quantifier outputs (one group if there is none); a group's
    loss is the sum over its outputs, each measured in its frame (shift, scale, factor, push), or one number for all of
    them. Adds to `totals` the objective's value and the regressor's loss, times the row's weight, and the weight.
    Returns whether all losses of finite predictions were finite and not negative.

    outputs: where y_r begins, M, where xi begins, Q. measure (4,): the unit in which the objective sees the loss, what
    is added to xi for that, and the speeds of regressor and quantifier; 1, 0, 1, 1 where lam is a number.
    """
    yo, M, zo, Q = outputs
    Y, weight, frame = sample.Y, sample.weight, sample.frame
    groups = max(Q, 1)
    width = M // groups
    sound = True
    for b in range(block.size):
        row = block[b]
        for group in range(groups):
            L = 0.0
            reached = True
            if functions.by_row:
                y_row, prediction_row = np.empty(M), np.empty(M)
                for m in range(M):
                    y_r = act[yo + b * M + m]
                    reached = reached and math.isfinite(y_r)
                    y_row[m] = frame[m, 0] + frame[m, 1] * Y[row, m]
                    prediction_row[m] = frame[m, 0] + frame[m, 1] * y_r
                L = frame[0, 2] * functions.row_value(y_row, prediction_row)
                slopes = functions.row_slope(y_row, prediction_row)
                for m in range(M):
                    delta[yo + b * M + m] = frame[m, 3] * frame[m, 1] * slopes[m]
            else:
                for m in range(group * width, (group + 1) * width):
                    shift, scale, factor, push = frame[m, 0], frame[m, 1], frame[m, 2], frame[m, 3]
                    y_r = act[yo + b * M + m] if yo > 0 else f4(0)
                    reached = reached and math.isfinite(y_r)
                    y, prediction = shift + scale * Y[row, m], shift + scale * y_r
                    L += factor * functions.value(y, prediction)
                    if yo > 0:
                        delta[yo + b * M + m] = push * scale * functions.slope(y, prediction)
            xi = act[zo + b * Q + group] if Q > 0 else f4(0)
            value, dL, dxi = functions.objective(L / measure[0], xi + measure[1], lam)
            sound = sound and ((L >= 0.0 and math.isfinite(L)) or not reached)
            w = weight[row]
            totals[0] += w * value * measure[0]
            totals[1] += w * L
            totals[2] += w / groups
            if Q > 0:
                delta[zo + b * Q + group] = share * w * dxi * measure[3]
            if yo > 0:
                for m in range(group * width, (group + 1) * width):
                    delta[yo + b * M + m] *= f4(share * w * dL * measure[2])
    return sound


# ---------------------------------------------------------------- one step


@kernel()
def penalise(params, gradient, penalty, level):
    """Gradient += penalty * params, where the first row of penalty (2, P) is in units of the level of the loss."""
    level = f4(level)
    for j in range(params.size):
        gradient[j] += (level * penalty[0, j] + penalty[1, j]) * params[j]


@kernel()
def clip_gradient(gradient, limit):
    """Scale the gradient down to Euclidean norm `limit` if it is longer."""
    total = 0.0
    for j in range(gradient.size):
        total += gradient[j] * gradient[j]
    norm = math.sqrt(total)
    if norm > limit:
        factor = f4(limit / norm)
        for j in range(gradient.size):
            gradient[j] *= factor


@kernel()
def nesterov(params, velocity, gradient, rate, momentum):
    rate, momentum = f4(rate), f4(momentum)
    for j in range(params.size):
        g = gradient[j]
        v = momentum * velocity[j] + g
        w = params[j] - rate * (g + momentum * v)
        velocity[j] = f4(0) if abs(v) <= TINY else v  # so written, NaN stays NaN and is found
        params[j] = f4(0) if abs(w) <= TINY else w


@kernel()
def adam(params, first, second, gradient, rate, beta1, beta2, step):
    """Adam (Kingma, Ba 2015), epsilon 1e-8."""
    rate = f4(rate * math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step))
    beta1, beta2 = f4(beta1), f4(beta2)
    epsilon = f4(1e-8 * math.sqrt(1.0 - beta2**step))
    for j in range(params.size):
        g = gradient[j]
        m = beta1 * first[j] + (f4(1) - beta1) * g
        v = beta2 * second[j] + (f4(1) - beta2) * g * g
        w = params[j] - rate * m / (math.sqrt(v) + epsilon)
        first[j] = f4(0) if abs(m) <= TINY else m
        second[j] = f4(0) if v <= TINY else v
        params[j] = f4(0) if abs(w) <= TINY else w


@kernel()
def all_finite(params):
    total = f4(0)
    for j in range(params.size):
        total += params[j] * f4(0)  # 0 for a finite number, NaN for any other
    return total == f4(0)


# ---------------------------------------------------------------- entry points


def run_epochs(
    sample, table, value, slope, row_value, row_slope, objective, by_row, state, schedule, settings, trace
):  # fmt: skip
    """Train one member for the epochs of `schedule`; `state` changes in place.

    trace (epochs, 2): mean value of the objective and mean loss of each epoch.
    Returns (FINISHED, DIVERGED or BAD_LOSS, the epoch's number).
    """
    functions = Functions(value, slope, row_value, row_slope, objective, by_row)
    X, shift, scale, clip, rows = sample.X, sample.shift, sample.scale, sample.clip, sample.rows
    layers, R = table.layers, table.R
    params, level = state.params, state.level
    rates, lams, speeds, seed = schedule.rates, schedule.lams, schedule.speeds, schedule.seed
    batch, dropout, penalty, limit = settings.batch, settings.dropout, settings.penalty, settings.limit
    momentum, beta2, relative = settings.momentum, settings.beta2, settings.relative
    N, P, D = rows.size, params.size, X.shape[1]
    outputs = table.outputs[0] * R, table.outputs[1], table.outputs[2] * R, table.outputs[3]
    Q = outputs[3]
    width = layers[-1, TARGET] + layers[-1, UNITS]
    act, delta = np.zeros(R * width, np.float32), np.zeros(R * width, np.float32)
    keep = np.zeros(R * width if dropout > 0.0 else 1, np.float32)
    gradient, scratch = np.zeros(P, np.float32), np.zeros(max(P, R * width), np.float32)
    order, totals = np.empty(N, np.int64), np.zeros(3)
    measure = np.array([1.0, 0.0, 1.0, 1.0])
    velocity, second = state.moments[0], state.moments[1]
    steps = (N + batch - 1) // batch
    for t in range(rates.size):
        epoch = schedule.first + t
        order[:] = rows
        shuffle(order, seed, epoch)
        totals[:] = 0.0
        sound = True
        for s in range(steps):
            start, stop = s * batch, min(N, (s + 1) * batch)
            step = epoch * steps + s + 1
            share = 1.0 / (stop - start)
            gradient[:] = 0.0
            if relative:
                measure[0], measure[2], measure[3] = level[0], speeds[t, 0], speeds[t, 1]
                measure[1] = math.log(lams[t] * level[0]) if settings.shifted else 0.0
            loss, mass = totals[1], totals[2]
            for lo in range(start, stop, R):
                block = order[lo : min(stop, lo + R)]
                B = u8(block.size)
                gather(X, shift, scale, clip, block, act)
                key = mixed(seed ^ mixed(u8(step) * u8(0x9E3779B97F4A7C15) + u8(lo - start)))
                forward(layers, u8(R), B, params, act, True, keep, key, dropout)
                delta[D * R :] = 0.0
                fine = block_loss(functions, sample, block, outputs, act, delta, lams[t], measure, share, totals)
                sound = sound and fine
                backward(layers, u8(R), B, params, act, delta, keep, dropout, gradient, scratch)
            loss, mass = totals[1] - loss, max(Q, 1) * (totals[2] - mass)
            if relative and mass > 0.0:  # a running mean over rows, with the memory of an epoch
                level[0] = max(level[0] + (loss / mass - level[0]) * (stop - start) / N, LEAST_LEVEL)
            if penalty.size > 0:
                penalise(params, gradient, penalty, level[0])
            if limit > 0.0:
                clip_gradient(gradient, limit)
            if settings.optimizer == NESTEROV:
                nesterov(params, velocity, gradient, rates[t], momentum)
            else:
                adam(params, velocity, second, gradient, rates[t], momentum, beta2, step)
        trace[t, 0], trace[t, 1] = totals[0] / totals[2], totals[1] / totals[2]
        if not sound:
            return BAD_LOSS, epoch
        if not (math.isfinite(totals[0]) and all_finite(params)):
            return DIVERGED, epoch
    return FINISHED, schedule.first + rates.size


def run_forward(X, shift, scale, clip, table, params, y_r, xi):
    """Outputs of one member for all rows of X, block by block, by loops: a row's result never depends on its block."""
    layers, R = table.layers, table.R
    act = np.zeros(R * (layers[-1, TARGET] + layers[-1, UNITS]), np.float32)
    yo, M, zo, Q = table.outputs[0] * R, table.outputs[1], table.outputs[2] * R, table.outputs[3]
    for lo in range(0, X.shape[0], R):
        block = np.arange(lo, min(X.shape[0], lo + R))
        gather(X, shift, scale, clip, block, act)
        forward(layers, u8(R), u8(block.size), params, act, False, act, u8(0), 0.0)
        for b in range(block.size):
            for m in range(y_r.shape[1]):
                y_r[lo + b, m] = act[yo + b * M + m]
            for q in range(xi.shape[1]):
                xi[lo + b, q] = act[zo + b * Q + q]


def run_evaluate(sample, table, value, slope, row_value, row_slope, objective, by_row, params, lam):
    """Weighted mean of the objective's value and of the regressor's loss over the rows, without changing anything."""
    functions = Functions(value, slope, row_value, row_slope, objective, by_row)
    layers, R, rows = table.layers, table.R, sample.rows
    outputs = table.outputs[0] * R, table.outputs[1], table.outputs[2] * R, table.outputs[3]
    size = R * (layers[-1, TARGET] + layers[-1, UNITS])
    act, delta, totals = np.zeros(size, np.float32), np.zeros(size, np.float32), np.zeros(3)
    measure = np.array([1.0, 0.0, 1.0, 1.0])
    for lo in range(0, rows.size, R):
        block = rows[lo : min(rows.size, lo + R)]
        gather(sample.X, sample.shift, sample.scale, sample.clip, block, act)
        forward(layers, u8(R), u8(block.size), params, act, False, act, u8(0), 0.0)
        block_loss(functions, sample, block, outputs, act, delta, lam, measure, 1.0, totals)
    return totals[0] / totals[2], totals[1] / totals[2]


def run_gradients(
    sample, table, value, slope, row_value, row_slope, objective, by_row, params, lam, values, gradients
):  # fmt: skip
    """For each network of params (K, P): mean of the objective's value over the rows (K,), and its gradient (K, P)."""
    functions = Functions(value, slope, row_value, row_slope, objective, by_row)
    layers, R, rows, D = table.layers, table.R, sample.rows, sample.X.shape[1]
    outputs = table.outputs[0] * R, table.outputs[1], table.outputs[2] * R, table.outputs[3]
    size = R * (layers[-1, TARGET] + layers[-1, UNITS])
    act, delta, totals = np.zeros(size, np.float32), np.zeros(size, np.float32), np.zeros(3)
    measure = np.array([1.0, 0.0, 1.0, 1.0])
    scratch, share = np.zeros(max(params.shape[1], size), np.float32), 1.0 / rows.size
    values[:], gradients[:] = 0.0, 0.0
    for lo in range(0, rows.size, R):
        block = rows[lo : min(rows.size, lo + R)]
        B = u8(block.size)
        # once for all networks: the layers do not write to their input
        gather(sample.X, sample.shift, sample.scale, sample.clip, block, act)
        for k in range(params.shape[0]):
            forward(layers, u8(R), B, params[k], act, True, act, u8(0), 0.0)
            delta[D * R :] = 0.0
            totals[:] = 0.0
            block_loss(functions, sample, block, outputs, act, delta, lam, measure, share, totals)
            values[k] += share * totals[0]
            backward(layers, u8(R), B, params[k], act, delta, act, 0.0, gradients[k], scratch)


def _read(dtype: types.Type, ndim: int) -> types.Array:
    return types.Array(dtype, ndim, "C", readonly=True)


@functools.cache
def specialised(entry: Callable[..., Any], data: str) -> Callable[..., Any]:
    """One of the four entry points, for X of dtype `data`; compiled once, then read from Numba's cache on disk.

    The signature is spelled out so that losses and objectives are pointers to functions and not part of the type.
    """
    f8, i8, f4, boolean = types.float64, types.int64, types.float32, types.boolean
    X = _read(types.float32 if data == "float32" else f8, 2)
    scaling = _read(f8, 1), _read(f8, 1), _read(f8, 2)
    pointers = LOSS_SIGNATURE, LOSS_SIGNATURE, ROW_LOSS_SIGNATURE, ROW_SLOPE_SIGNATURE, OBJECTIVE_SIGNATURE
    functions = *map(types.FunctionType, pointers), boolean
    sample = types.NamedTuple((X, *scaling, _read(f4, 2), _read(f8, 1), _read(f8, 2), _read(i8, 1)), Sample)
    table = types.NamedTuple((_read(i8, 2), _read(i8, 1), i8), LayerTable)
    if entry is run_forward:
        signature = types.void(X, *scaling, table, _read(f4, 1), f4[:, ::1], f4[:, ::1])
    elif entry is run_evaluate:
        signature = types.UniTuple(f8, 2)(sample, table, *functions, _read(f4, 1), f8)
    elif entry is run_gradients:
        signature = types.void(sample, table, *functions, _read(f4, 2), f8, f8[::1], f4[:, ::1])
    else:
        state = types.NamedTuple((f4[::1], f4[:, ::1], f8[::1]), State)
        schedule = types.NamedTuple((i8, _read(f8, 1), _read(f8, 1), _read(f8, 2), types.uint64), Schedule)
        settings = types.NamedTuple((i8, f8, _read(f4, 2), f8, i8, f8, f8, boolean, boolean), Settings)
        signature = types.UniTuple(i8, 2)(sample, table, *functions, state, schedule, settings, f8[:, ::1])
    return jit(signature, **MODE)(entry)
