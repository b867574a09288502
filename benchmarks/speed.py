"""Speed as a ratio, all in one run: aleator, the obvious PyTorch loop, scikit-learn's MLPRegressor, one thread each.

Usage: make bench [ARGS=--quick]. A step is one minibatch through forward, backward and update: of a pair for aleator and
PyTorch, of a single network for scikit-learn, which has no pairs. Times are the best of several repetitions, the three
competitors in turn, because a shared machine changes its speed from minute to minute.
"""

import argparse
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
from scipy.linalg.blas import sgemm
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from aleator import engine
from aleator.baselines import PBPRegressor, SVGDRegressor
from aleator.losses import LOSSES
from aleator.objectives import OBJECTIVES
from svgd_numpy import svgd

# name: rows of a training fold, inputs, hidden units, batch, learning rate, lam, dropout, ratio to reach
CONFIGURATIONS = {
    "Boston": (481, 13, 50, 5, 8e-4, 0.1, 0.0, 250),
    "Boston, dropout 0.4": (481, 13, 50, 5, 8e-4, 0.1, 0.4, 180),
    "Concrete": (978, 8, 50, 5, 2e-4, 0.2, 0.0, 250),
    "Yacht": (293, 6, 50, 5, 4e-4, 0.2, 0.0, 300),
    "Power": (9090, 4, 50, 10, 3e-4, 0.2, 0.0, 110),
    "Kin8nm": (7782, 8, 50, 10, 2e-4, 0.5, 0.0, 110),
    "MSD-shaped": (50_000, 90, 100, 5000, 0.05, 0.1, 0.0, 1),
}


def table(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = np.sin(X[:, 0]) + 0.3 * (1 + X[:, 1] ** 2) * rng.normal(size=n)
    return X, ((y - y.mean()) / y.std()).astype(np.float32)


def aleator_steps(X, y, hidden, batch, rate, lam, dropout, members=1):
    """Plan and members, ready to train any number of epochs."""
    n, d = X.shape
    X = X.astype(np.float64) if n < 20_000 else X  # what a user passes
    data = engine.Data(X, np.zeros(d), np.ones(d), y[:, None], np.ones(n), np.array([[0.0, 1.0, 1.0, 1.0]]))
    network = engine.network(d, (hidden,), n_outputs=1, n_quantifiers=1)
    plan = engine.Plan(network, LOSSES["squared"], OBJECTIVES["joint-sigmoid"], batch, "nesterov")

    def crew(epochs):
        lams, rates = np.full(epochs, lam), np.full(epochs, rate)
        return [engine.Member(data, np.arange(n), seed, lams, rates, dropout) for seed in range(members)]

    return plan, crew


def time_aleator(X, y, hidden, batch, rate, lam, dropout, steps):
    plan, crew = aleator_steps(X, y, hidden, batch, rate, lam, dropout)
    per_epoch = -(-len(X) // batch)
    epochs = max(1, steps // per_epoch)
    start = time.perf_counter()
    engine.train(plan, crew(epochs))
    return (time.perf_counter() - start) / (epochs * per_epoch)


def time_torch(X, y, hidden, batch, rate, lam, dropout, steps):
    """What one writes first: two Sequentials, an optimizer, a loop over minibatches of a permutation."""
    X, y = torch.tensor(X), torch.tensor(y)[:, None]

    def network():
        middle = [torch.nn.ReLU(), torch.nn.Dropout(dropout)] if dropout else [torch.nn.ReLU()]
        return torch.nn.Sequential(torch.nn.Linear(X.shape[1], hidden), *middle, torch.nn.Linear(hidden, 1))

    regressor, quantifier = network(), network()
    parameters = [*regressor.parameters(), *quantifier.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=rate, momentum=0.9, nesterov=True)
    softplus = torch.nn.functional.softplus
    done = 0
    start = time.perf_counter()
    while done < steps:
        for rows in torch.randperm(len(X)).split(batch):
            x = X[rows]
            loss, xi = (regressor(x) - y[rows]) ** 2, quantifier(x)
            joint = (loss * softplus(xi) + lam * softplus(-xi)).mean()
            optimizer.zero_grad()
            joint.backward()
            optimizer.step()
            done += 1
            if done == steps:
                break
    return (time.perf_counter() - start) / steps


def time_sklearn(X, y, hidden, batch, rate, lam, dropout, steps):
    """One plain network, half of a pair."""
    per_epoch = -(-len(X) // batch)
    epochs = max(1, steps // per_epoch)
    model = MLPRegressor(hidden_layer_sizes=(hidden,), solver="sgd", batch_size=batch, learning_rate_init=rate, max_iter=epochs, tol=0,
                         n_iter_no_change=10**9)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(X, y)
        return (time.perf_counter() - start) / (epochs * per_epoch)


def sgemm_rate():
    """Multiplications and additions a second of the machine's BLAS, one thread."""
    a = np.asfortranarray(np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32))
    best = min(_timed(lambda: sgemm(1.0, a, a)) for _ in range(10))
    return 2 * 1024**3 / best


def _timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _times(ratio):
    return f"{ratio:.0f}x" if ratio > 10 else f"{ratio:.1f}x"


def flops(d, hidden, batch):
    """Forward, and backward to the weights: two products of (batch, d) with (d, 2 hidden), and the output layers."""
    return batch * (4 * d * 2 * hidden + 6 * 2 * hidden)


def steps_table(repeats):
    rate_of_sgemm = sgemm_rate()
    print(f"sgemm, one thread: {rate_of_sgemm / 1e9:.0f} GFlop/s. Microseconds a step, best of {repeats}.\n")
    print(f"{'':20s} {'aleator':>9s} {'PyTorch':>9s} {'ratio':>7s} {'to reach':>9s} {'sklearn MLP':>12s} {'ratio':>7s}"
          f" {'of sgemm':>9s}")  # fmt: skip
    for name, (n, d, hidden, batch, rate, lam, dropout, goal) in CONFIGURATIONS.items():
        X, y = table(n, d)
        settings = X, y, hidden, batch, rate, lam, dropout
        large = batch > 1000
        runs = {
            time_aleator: 20 if large else 40_000,
            time_torch: 20 if large else 500,
            time_sklearn: 20 if large else 1000,
        }
        time_aleator(*settings, 1)  # compile
        times = {run: [] for run in runs}
        for _ in range(repeats):
            for run, steps in runs.items():
                times[run].append(1e6 * run(*settings, steps))
        ours, torchs, sklearns = (min(times[run]) for run in runs)
        share = flops(d, hidden, batch) / (ours * 1e-6) / rate_of_sgemm
        print(f"{name:20s} {ours:9.2f} {torchs:9.1f} {_times(torchs / ours):>7s} {goal:8d}x {sklearns:12.1f} {_times(sklearns / ours):>7s}"
              f" {share:9.0%}")  # fmt: skip


def threads_line(repeats):
    X, y = table(481, 13)
    plan, crew = aleator_steps(X, y, 50, 5, 8e-4, 0.1, 0.0, members=10)
    times = {threads: [] for threads in (1, 2)}
    for _ in range(repeats):
        for threads, seconds in times.items():
            seconds.append(_timed(lambda threads=threads: engine.train(plan, crew(400), threads=threads)))
    one, two = min(times[1]), min(times[2])
    print(
        f"\nensemble of 10, 400 epochs of Boston: {one:.2f} s on one thread, {two:.2f} s on two: {one / two:.2f} times"
    )


# data set: rows of a training fold, inputs, seconds of 40 epochs of the authors' C code on a machine like this one
PBP_SHAPES = {"Boston": (481, 13, 0.21), "Concrete": (978, 8, 0.40), "Kin8nm": (7782, 8, 3.3)}


def baselines_lines(repeats):
    """Whole fits of the two baselines with loops of their own, one thread."""
    print(f"\n{'':30s} {'aleator':>9s} {'other':>9s} {'ratio':>7s}")
    for name, (n, d, authors) in PBP_SHAPES.items():
        X, y = table(n, d)
        PBPRegressor(epochs=1).fit(X, y)
        ours = min(_timed(lambda X=X, y=y: PBPRegressor(epochs=40).fit(X, y)) for _ in range(repeats))
        print(f"{'PBP, 40 epochs, ' + name:30s} {ours:7.2f} s {authors:7.2f} s {_times(authors / ours):>7s}   "
              "other: the authors' C code, measured elsewhere")  # fmt: skip
    X, y = table(481, 13)
    SVGDRegressor(iterations=1).fit(X, y)
    ours = min(_timed(lambda: SVGDRegressor(iterations=2000).fit(X, y)) for _ in range(repeats))
    X = X.astype(np.float64)
    plain = min(_timed(lambda: svgd(X[:433], y[:433], 200)) for _ in range(min(repeats, 3))) * 10
    print(f"{'SVGD, 2,000 iterations, Boston':30s} {ours:7.2f} s {plain:7.2f} s {_times(plain / ours):>7s}   "
          "other: a loop in numpy, ten times its 200 iterations")  # fmt: skip


FIRST_CALL = """
import time
import numpy as np
from aleator import PairRegressor
X = np.random.default_rng(0).normal(size=(481, 13))
start = time.perf_counter()
PairRegressor(epochs=10, rescale=False).fit(X, X[:, 0])
print(time.perf_counter() - start)
"""

MEMORY = """
import re
from pathlib import Path
import numpy as np
from aleator import PairRegressor
n, d = 515_345, 90
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
small = np.random.default_rng(0).normal(size=(1000, d)).astype(np.float32)
settings = dict(lam=0.1, hidden=(100,), optimizer="nesterov", learning_rate=0.05, epochs=2, batch_size=5000, dropout=0.1,
                rescale=False)
PairRegressor(**settings).fit(small, small[:, 0]).predict_loss(small)
bare = peak()
X = np.random.default_rng(0).standard_normal(size=(n, d), dtype=np.float32)
y = X[:, 0] + 0.0
with_data = peak()
model = PairRegressor(**settings).fit(X, y)
fitted = peak()
model.predict_loss(X)
print((fitted - bare) / X.nbytes, (fitted - with_data) / X.nbytes, (peak() - bare) / X.nbytes)
"""


def in_a_new_process(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two repetitions instead of seven")
    repeats = 2 if parser.parse_args().quick else 7
    torch.set_num_threads(1)
    with threadpool_limits(1):
        steps_table(repeats)
        baselines_lines(repeats)
    threads_line(repeats)
    in_a_new_process(FIRST_CALL)  # fill the cache
    first = min(in_a_new_process(FIRST_CALL)[0] for _ in range(3))
    print(f"first fit in a new process, warm cache: {first:.2f} s")
    total, added, predicting = in_a_new_process(MEMORY)
    print(f"peak memory on 515,345 x 90, in units of the float32 data: {total:.2f} with the data itself, "
          f"{added:.2f} added by fit, {predicting:.2f} with predict_loss on all rows")  # fmt: skip


if __name__ == "__main__":
    main()
