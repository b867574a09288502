"""Several processes under torchrun, on loopback: the same result as one, and what happens when one of them dies."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from aleator.torch import checkpoint

SCRIPT = Path(__file__).parents[2] / "examples" / "torch_distributed.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def command(place, *extra, processes=2):
    rows = ["--rows", "6000", "--epochs", "4", "--checkpoint", str(place), *extra]
    return [*(TORCHRUN if processes == 2 else [sys.executable]), str(SCRIPT), *rows]


def trained(place, *extra, processes=2):
    done = subprocess.run(
        command(place, *extra, processes=processes), env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert f"{processes} process(es), 4 epochs" in done.stdout
    return checkpoint.load(place.read_bytes(), "checkpoint")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("two") / "checkpoint")


def test_two_processes_are_one(two, tmp_path):
    one = trained(tmp_path / "checkpoint", processes=1)
    for name, values in one["model"].items():
        torch.testing.assert_close(two["model"][name], values, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(two["progress"]["history"], one["progress"]["history"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_process_ends_all_and_the_same_command_goes_on(two, tmp_path):
    place = tmp_path / "checkpoint"
    with subprocess.Popen(
        command(place, "--checkpoint-every", "0"), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as run:
        until = time.monotonic() + 120
        while not place.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)  # somewhere in the middle
        workers = [child for child in _children(run.pid) if "torch_distributed" in _command_of(child)]
        assert len(workers) == 2, run.poll()
        killed = time.monotonic()
        os.kill(workers[1], signal.SIGKILL)
        run.communicate(timeout=60)
        assert run.returncode != 0
        assert time.monotonic() - killed < 60
    stopped = checkpoint.load(place.read_bytes(), "checkpoint")["progress"]
    assert stopped["epoch"] < 4
    resumed = trained(place)
    for name, values in resumed["model"].items():
        assert torch.equal(values, two["model"][name]), name
    assert resumed["progress"]["history"] == two["progress"]["history"]


def _command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


OWN_DISKS = """
import os, sys
import numpy as np, torch
from torch import nn
from aleator.torch import Pair, distributed, fit_pair
rng = np.random.default_rng(0)
X = rng.normal(size=(333, 3)).astype(np.float32)
weight = rng.uniform(1, 3, size=333)
with distributed(timeout=240) as world:
    torch.manual_seed(0)
    pair = Pair(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1), nn.Flatten(0)))
    held = X[:50], X[:50, 0]
    fit_pair(pair, (X, X[:, 0], weight), epochs=int(sys.argv[2]), batch_size=50, validation=held, patience=2,
             checkpoint=f"{sys.argv[1]}/{world.rank}")
    # each process reads its own share of a stream, and standardises by all of it
    share = [(X[world.rank :: world.size], X[world.rank :: world.size, 0])]
    scaled = Pair(nn.Linear(3, 1), nn.Linear(3, 1)).standardise([(x, y[:, None]) for x, y in share]).scaling
    assert np.allclose(scaled.x_mean, X.mean(0), atol=1e-6) and np.allclose(scaled.x_spread, X.std(0), atol=1e-6)
    torch.save(pair.state_dict(), f"{sys.argv[1]}/weights_{world.rank}")
os._exit(0)  # all is done and written; on a busy machine gloo's threads may abort the end of the interpreter
"""


def test_disks_need_not_be_shared(tmp_path):
    """Only one machine has the checkpoint, and it is not the first process now; uneven batches and weights besides."""
    script = tmp_path / "script.py"
    script.write_text(OWN_DISKS)

    def run(folder, epochs, launcher):
        started = [*launcher, str(script), str(folder), str(epochs)]
        done = subprocess.run(started, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return [torch.load(file, weights_only=True) for file in sorted(folder.glob("weights_*"))]

    for name in ("whole", "parts", "alone"):
        (tmp_path / name).mkdir()
    whole = run(tmp_path / "whole", 4, TORCHRUN)
    run(tmp_path / "parts", 2, TORCHRUN)
    assert not (tmp_path / "parts" / "1").exists()
    (tmp_path / "parts" / "0").rename(tmp_path / "parts" / "1")
    parts = run(tmp_path / "parts", 4, TORCHRUN)
    (alone,) = run(tmp_path / "alone", 4, [sys.executable])
    for name, values in whole[0].items():
        assert torch.equal(values, whole[1][name])
        assert torch.equal(values, parts[0][name])
        assert torch.equal(values, parts[1][name])
        torch.testing.assert_close(values, alone[name], rtol=1e-5, atol=1e-5)
