"""What a data set of MSD's size costs: memory, time of an epoch beside PyTorch's, and a look at the real sample.

Usage: make msd. Made-up data of MSD's shape (515,345 x 90, float32), published settings (100 + 100 hidden units, batches of
5,000, 50 epochs), one pair. Each part runs in a process of its own, so that its peak of memory is its own.
"""

import os
import resource
import subprocess
import sys
import time

import numpy as np

from aleator import datasets
from aleator.paper.protocol import Trial, fold, published_settings

EPOCHS_OF_TORCH = 3


def peak():
    """Most memory this process ever had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def ours():
    dataset = datasets.msd_shaped()
    before = peak()
    settings = published_settings("msd_shaped", "rmse", "pair")
    model = Trial("msd_shaped", "rmse", "pair", 0, settings).model().set_params(n_jobs=None)
    train, test = slice(0, dataset.split), slice(dataset.split, None)
    model.set_params(epochs=1).fit(dataset.X[train], dataset.y[train])  # compile or load
    start = time.perf_counter()
    model.set_params(epochs=settings["epochs"]).fit(dataset.X[train], dataset.y[train])
    seconds = time.perf_counter() - start
    said = model.predict_uncertainty(dataset.X[test])
    error, expected = np.sqrt(np.mean((dataset.y[test] - said.prediction) ** 2)), np.sqrt(said.expected_loss.mean())
    print(f"aleator: {seconds / settings['epochs']:.2f} s an epoch ({seconds:.0f} s for {settings['epochs']}), "
          f"peak {peak():.2f} GB, of which data and imports {before:.2f}; RMSE {error:.2f}, expected {expected:.2f}")  # fmt: skip


def in_torch():
    import torch
    from torch import nn

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dataset = datasets.msd_shaped()
    settings = published_settings("msd_shaped", "rmse", "pair")
    X = torch.from_numpy(dataset.X[: dataset.split])
    X = (X - X.mean(0)) / X.std(0)
    y = torch.from_numpy(dataset.y[: dataset.split, None])
    y = (y - y.mean()) / y.std()

    def network():
        return nn.Sequential(nn.Linear(90, 100), nn.ReLU(), nn.Dropout(settings["dropout"]), nn.Linear(100, 1))

    regressor, quantifier, softplus = network(), network(), nn.functional.softplus
    parameters = [*regressor.parameters(), *quantifier.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=settings["learning_rate"], momentum=0.9, nesterov=True)
    times = []
    for _ in range(EPOCHS_OF_TORCH):
        start = time.perf_counter()
        for rows in torch.randperm(len(y)).split(settings["batch_size"]):
            x, target = X[rows], y[rows]
            xi = quantifier(x)
            value = (target - regressor(x)) ** 2 * softplus(xi) + settings["lam"] * softplus(-xi)
            optimizer.zero_grad(set_to_none=True)
            value.mean().backward()
            optimizer.step()
        times.append(time.perf_counter() - start)
    print(f"PyTorch: {min(times):.2f} s an epoch (best of {EPOCHS_OF_TORCH}), peak {peak():.2f} GB")


def sample():
    dataset = datasets.load("msd_sample")
    train, test = fold(dataset, 0)
    print(f"sample of the real MSD, {len(train)} + {len(test)} rows; compares with nothing published")
    for method in ("ml", "pair", "ens_pair"):
        settings = published_settings("msd_sample", "rmse", method) | {"batch_size": 100, "learning_rate": 1e-3}
        outcome, _ = Trial("msd_sample", "rmse", method, 0, settings).perform(dataset)
        measured = outcome["measures"]
        ratio = measured["expected"] / measured["realised"]
        print(f"  {method:<9} RMSE {measured['error']:.2f} years, AUC {measured['auc']:.2f}, loss ratio {ratio:.2f}, "
              f"{outcome['fit_seconds']:.1f} s")  # fmt: skip
    print(f"  the mean year alone: RMSE {np.sqrt(np.mean((dataset.y[test] - dataset.y[train].mean()) ** 2)):.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"ours": ours, "torch": in_torch, "sample": sample}[sys.argv[1]]()
    else:
        for threads in ("1", "2"):
            print(f"{threads} thread{'s' if threads != '1' else ''}:", flush=True)
            for part in ("ours", "torch"):
                environment = os.environ | {"OMP_NUM_THREADS": threads}
                subprocess.run([sys.executable, __file__, part], check=True, env=environment)
        subprocess.run([sys.executable, __file__, "sample"], check=True)
