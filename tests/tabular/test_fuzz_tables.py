"""A small share of `make fuzz-tables`: what aleator does not refuse, it reads as Python and pyarrow do."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzz_tables import differences, made, mutated


def test_mutated_tables_are_refused_or_read_as_others_read_them(tmp_path):
    read = 0
    for k in range(150):
        rng = np.random.default_rng([99, k])
        content = mutated(made(rng), rng)
        try:
            found = differences(content, tmp_path / "t.csv")
        except ValueError:
            continue
        assert not found, (k, found)
        read += 1
    assert read > 30


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (
            b"a,b\n0.0000000000000000000011362,x\n0.1000000000000000055511151231257827,y\n",
            "",
        ),  # misread by pandas < 3.1
        (b"a,b\nTRUE,1\nTRUE,2\n", ""),  # read as 1.0
        (b"a,b\n$5,x\n\xe2\x82\xac7,y\n", "cannot be compared"),
        (b"a,b\n01/02/2024,1\n02/03/2024,2\n", "may be day/month/year"),
    ],
)
def test_what_once_broke(content, refused, tmp_path):
    if refused:
        with pytest.raises(ValueError, match=refused):
            differences(content, tmp_path / "t.csv")
    else:
        assert not differences(content, tmp_path / "t.csv")
