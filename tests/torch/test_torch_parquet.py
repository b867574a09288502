"""Tables larger than memory: every row once, shuffled, in bounded memory, shared among workers and processes."""

import functools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from aleator.torch import Pair, ParquetRegression, fit_pair
from aleator.torch.process_group import World, world

ROWS = 40_000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "row": np.arange(ROWS), "y": X[:, 0] + 0.1 * X[:, 2]})


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    frame[:25_000].to_parquet(place / "1.parquet", row_group_size=3_000)
    frame[25_000:].to_parquet(place / "2.parquet", row_group_size=20_000)
    (place / "notes.txt").write_text("not a table")
    return place


@pytest.fixture(scope="module")
def table(frame, tmp_path_factory):
    place = tmp_path_factory.mktemp("tables") / "table.csv"
    frame.to_csv(place, index=False)
    return place


def rows(batches):
    return torch.cat([x[:, -1] for x, *_ in batches]).long()


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_every_row_once_and_as_it_is(kind, frame, request):
    data = ParquetRegression(request.getfixturevalue(kind), target="y", batch_size=300, buffer=5_000)
    batches = list(data)
    order = rows(batches)
    assert sorted(order.tolist()) == list(range(ROWS))
    assert {len(y) for _, y in batches[:-1]} == {300}
    X, y = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    torch.testing.assert_close(X, torch.tensor(frame[["a", "b", "row"]].to_numpy()[order], dtype=torch.float32))
    torch.testing.assert_close(y, torch.tensor(frame["y"].to_numpy()[order], dtype=torch.float32))
    assert data.features == ["a", "b", "row"]
    assert data.n_rows == (ROWS if kind == "folder" else None)


def test_shuffled_anew_in_each_epoch_and_the_same_for_a_seed(folder):
    data = ParquetRegression(folder, target="y", buffer=5_000)
    first, again = rows(data), rows(data)
    assert torch.equal(first, again)
    data.set_epoch(1)
    other = rows(data)
    assert not torch.equal(first, other)
    assert not torch.equal(first, rows(ParquetRegression(folder, target="y", buffer=5_000, seed=1)))
    steps = first.diff().abs().double()
    assert steps.median() > 1_000  # neighbours come from afar
    assert torch.equal(rows(ParquetRegression(folder, target="y", buffer=0)), torch.arange(ROWS))


def test_rows_are_kept_back_and_mixed_with_later_ones(table, monkeypatch):
    """Blocks of a CSV file come in their order: only the buffer moves rows, and it moves them far."""
    monkeypatch.setattr("aleator.torch.parquet.ROWS", 2_000)
    monkeypatch.setattr("aleator.torch.parquet.BLOCK", 100_000)
    data = ParquetRegression(table, target="y", buffer=10_000, batch_size=500)
    order = rows(data)
    place = torch.empty(ROWS, dtype=torch.long)
    place[order] = torch.arange(ROWS)
    assert place[:1000].max() > 12_000
    assert place[:1000].double().mean() < 15_000
    data.set_epoch(1)
    assert not torch.equal(rows(data), order)
    with pytest.raises(ValueError, match="named twice"):
        ParquetRegression(table, target="y", features=["a", "a"])


def test_spawned_workers_know_their_process(folder, monkeypatch):
    monkeypatch.setattr("aleator.torch.parquet.world", lambda: World(1, 2))
    data = ParquetRegression(folder, target="y", batch_size=500)
    loader = DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    spawned = rows(loader)
    assert torch.equal(spawned, rows(data))
    assert len(spawned) < ROWS


@pytest.mark.parametrize("kind", ["folder", "table"])
@pytest.mark.parametrize(("ranks", "workers"), [(1, 2), (2, 1), (3, 2), (40, 1)])
def test_workers_and_processes_share_the_rows(kind, ranks, workers, request, monkeypatch):
    data = ParquetRegression(request.getfixturevalue(kind), target="y", batch_size=500)
    seen = []
    for rank in range(ranks):
        monkeypatch.setattr("aleator.torch.parquet.world", lambda rank=rank: World(rank, ranks))
        data.set_epoch(0)
        loader = DataLoader(data, batch_size=None, num_workers=workers if workers > 1 else 0)
        part = list(loader)
        seen.append(rows(part) if part else torch.zeros(0).long())
    assert sorted(torch.cat(seen).tolist()) == list(range(ROWS))
    if (kind, ranks) == ("folder", 3):
        assert all(len(part) > 0 for part in seen)
    assert world() == World()


def test_several_targets_and_weights(folder, frame):
    data = ParquetRegression(
        folder, target=["y", "b"], weight="row", features=["a"], batch_size=100, dtype=torch.float64
    )
    x, y, weight = next(iter(data))
    assert (x.shape, y.shape, weight.shape) == ((100, 1), (100, 2), (100,))
    torch.testing.assert_close(y, torch.tensor(frame[["y", "b"]].to_numpy()[weight.long()]))


def test_a_pair_learns_from_it(folder):
    torch.manual_seed(0)
    data = ParquetRegression(folder, target="y", features=["a", "b"], batch_size=256)
    pair = fit_pair(Pair(nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))), data, epochs=4, standardise=True,
                    optimizer=functools.partial(torch.optim.Adam, lr=0.02))  # fmt: skip
    assert pair.history.loss.iloc[-1] == pytest.approx(0.01, rel=0.3)
    assert pair.predict(np.zeros((1, 2), np.float32)).std[0] == pytest.approx(0.1, rel=0.3)


def test_bad_tables_are_named(folder, table, tmp_path, frame):
    for target, settings, message in [
        ("z", {}, r"1.parquet has no column 'z'"),
        ("y", {"features": ["roww"]}, "did you mean 'row'"),
        ("y", {"features": ["y"]}, "'y' is a feature and a target"),
        ("y", {"batch_size": 0}, "batch_size must be >= 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            ParquetRegression(folder, target=target, **settings)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ParquetRegression(tmp_path / "no.parquet", target="y")
    with pytest.raises(FileNotFoundError, match="no Parquet or CSV file in"):
        ParquetRegression(tmp_path, target="y")
    with pytest.raises(ValueError, match="neither Parquet nor CSV"):
        ParquetRegression(folder / "notes.txt", target="y")
    frame[:10].assign(city="Ulm").to_parquet(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match="column 'city' holds .*string, numbers are needed"):
        ParquetRegression(tmp_path / "text.parquet", target="y")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ValueError, match="broken.parquet cannot be read"):
        ParquetRegression(tmp_path / "broken.parquet", target="y")
    holes = frame[:5000].copy()
    holes.loc[4321, "b"] = np.nan
    holes.to_parquet(tmp_path / "holes.parquet", row_group_size=1000)
    with pytest.raises(ValueError, match=r"holes.parquet: column 'b' is (nan|None) in row 4321"):
        list(ParquetRegression(tmp_path / "holes.parquet", target="y"))
    (tmp_path / "twice.csv").write_text("a,a,y\n1,2,3\n")
    with pytest.raises(ValueError, match="twice.csv has two columns 'a'"):
        ParquetRegression(tmp_path / "twice.csv", target="y")
    lines = table.read_text().splitlines()
    (tmp_path / "late.csv").write_text("\n".join([*lines[:30_000], "1,oh,2,3", ""]))
    with pytest.raises(ValueError, match="late.csv"):
        list(ParquetRegression(tmp_path / "late.csv", target="y"))


def test_memory_is_bounded_by_the_buffer(tmp_path):
    """Half a million rows of 20 columns, 40 MB as float32 and 80 on disk: reading them adds less than either."""
    code = f"""
import re
import numpy as np, pyarrow as pa
from pyarrow import parquet
from aleator.torch import ParquetRegression
rng = np.random.default_rng(0)
names = [*(f"x{{k}}" for k in range(20)), "y"]
writer = None
for _ in range(25):
    piece = pa.table({{name: rng.normal(size=20_000) for name in names}})
    writer = writer or parquet.ParquetWriter({str(tmp_path / "t.parquet")!r}, piece.schema)
    writer.write_table(piece)
writer.close()
def peak():  # getrusage would count what the parent had
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
total = sum(len(y) for _, y in ParquetRegression({str(tmp_path / "t.parquet")!r}, target="y", buffer=20_000))
print(total, (peak() - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    total, grown = map(int, done.stdout.split())
    assert total == 500_000
    assert grown < 80
