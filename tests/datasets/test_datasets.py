"""Data sets: the same arrays whatever the way, and one clear line when there is none. The internet is a server here."""

import gzip
import http.server
import io
import json
import re
import socket
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from aleator import datasets
from aleator.cli import commands
from aleator.datasets import download, loading, msd, real
from aleator.datasets.download import DownloadError, fetch


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch, tmp_path):
    """An empty cache, no directory, no patience."""
    monkeypatch.delenv("ALEATOR_DATA", raising=False)
    monkeypatch.delenv("ALEATOR_MIRROR", raising=False)
    monkeypatch.setenv("ALEATOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download.time, "sleep", lambda _: None)


@pytest.fixture
def server():
    """A web server; `answers` maps paths to (status, content, content length) or to a function of the handler."""
    answers, asked = {}, []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            answer = answers.get(self.path, (404, b"", None))
            if callable(answer):
                answer = answer(self)
                if answer is None:
                    return
            status, content, length = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(content) if length is None else length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.block_on_close = False
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    httpd.url, httpd.answers, httpd.asked = f"http://127.0.0.1:{httpd.server_port}", answers, asked
    yield httpd
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def tiny(monkeypatch):
    """In place of Yacht, a table of four rows with its own checksum."""
    values = np.array([[0.3, 1.0, -2.0], [0.3333, 2.0, 5.5], [1e-17, 3.0, 1e10], [4.0, 5.0, 6.0]])
    facts = real.Facts(4, ("a", "b"), "t", real.sha256(values), "nobody")
    monkeypatch.setitem(real.FACTS, "yacht", facts)
    monkeypatch.setitem(real.PLACES, "yacht", ())
    return values


def packed(values, names=("a", "b", "t")):
    return gzip.compress(pd.DataFrame(values, columns=names).to_csv(index=False).encode())


def left_behind(folder):
    return sorted(path.name for path in Path(folder).rglob("*") if path.is_file())


# ---------------------------------------------------------------- where sets come from


def test_from_a_mirror_and_then_from_the_cache(server, tiny, tmp_path):
    server.answers["/data/yacht.csv.gz"] = (200, packed(tiny), None)
    found = datasets.load("yacht", mirror=server.url + "/data/")
    np.testing.assert_array_equal(np.column_stack([found.X, found.y]), tiny)  # every bit, through text
    assert found.names == ("a", "b")
    assert found.target == "t"
    assert found.split is None
    server.answers.clear()
    again = datasets.load("yacht")
    np.testing.assert_array_equal(again.X, found.X)
    assert len(server.asked) == 1
    assert left_behind(tmp_path) == ["yacht.csv.gz"]
    assert loading.where("yacht") == tmp_path / "cache" / "yacht.csv.gz"


def test_the_mirror_may_be_named_by_the_environment(server, tiny, monkeypatch):
    server.answers["/yacht.csv.gz"] = (200, packed(tiny), None)
    monkeypatch.setenv("ALEATOR_MIRROR", server.url)
    assert datasets.load("yacht").y[2] == 1e10


def test_the_own_directory_comes_first(server, tiny, tmp_path, monkeypatch):
    pd.DataFrame(tiny, columns=["a", "b", "t"]).to_csv(tmp_path / "yacht.csv", index=False)
    monkeypatch.setenv("ALEATOR_DATA", str(tmp_path))
    np.testing.assert_array_equal(datasets.load("yacht", mirror=server.url).y, tiny[:, -1])
    assert not server.asked


def test_a_wrong_file_in_the_own_directory_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("ALEATOR_DATA", str(tmp_path))
    wrong = tiny.copy()
    wrong[1, 1] += 1e-9
    (tmp_path / "yacht.csv.gz").write_bytes(packed(wrong))
    with pytest.raises(ValueError, match=r"yacht.csv.gz is not yacht: its values have the SHA-256"):
        datasets.load("yacht")
    (tmp_path / "yacht.csv.gz").write_bytes(packed(tiny[:3]))
    with pytest.raises(ValueError, match=r"is not yacht: \(3, 3\) rows and columns in place of \(4, 3\)"):
        datasets.load("yacht")
    (tmp_path / "yacht.csv.gz").write_bytes(packed(tiny)[:40])
    with pytest.raises(ValueError, match="not a table of numbers"):
        datasets.load("yacht")


def test_a_damaged_cache_is_fetched_again(server, tiny, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "yacht.csv.gz").write_bytes(packed(tiny)[:40])
    server.answers["/yacht.csv.gz"] = (200, packed(tiny), None)
    np.testing.assert_array_equal(datasets.load("yacht", mirror=server.url).y, tiny[:, -1])
    np.testing.assert_array_equal(datasets.load("yacht").y, tiny[:, -1])


@pytest.mark.parametrize("form", ["path", "uri"])
def test_a_folder_may_be_a_mirror(tiny, tmp_path, form):
    (tmp_path / "yacht.csv.gz").write_bytes(packed(tiny))
    mirror = str(tmp_path) if form == "path" else tmp_path.as_uri()
    np.testing.assert_array_equal(datasets.load("yacht", mirror=mirror).y, tiny[:, -1])


def test_places_are_asked_after_the_mirror(server, tiny, monkeypatch):
    server.answers["/good.csv.gz"] = (200, packed(tiny), None)
    monkeypatch.setitem(real.PLACES, "yacht", (real.Place(server.url + "/good.csv.gz", real._csv),))
    np.testing.assert_array_equal(datasets.load("yacht", mirror=server.url).y, tiny[:, -1])
    assert server.asked == ["/yacht.csv.gz", "/good.csv.gz"]


def test_unknown_names():
    with pytest.raises(ValueError, match="did you mean 'boston'"):
        datasets.load("bostn")


def test_the_command_lists_and_loads(server, tiny):
    server.answers["/yacht.csv.gz"] = (200, packed(tiny), None)
    listed = CliRunner().invoke(commands, ["data"])
    assert "yacht      not here" in listed.output
    assert "diabetes" in listed.output
    loaded = CliRunner().invoke(commands, ["data", "yacht", "--mirror", server.url])
    assert loaded.output.startswith("yacht")
    assert "cache" in loaded.output
    assert "not here" not in loaded.output


def test_diabetes_needs_no_download():
    found = datasets.load("diabetes")
    assert found.X.shape == (442, 10)
    assert loading.where("diabetes").is_file()


# ---------------------------------------------------------------- downloads that go wrong: one line, nothing half written


def slowly(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.wfile.write(b"x" * 10)
    handler.wfile.flush()
    threading.Event().wait(3)


def garbage(handler):
    handler.wfile.write(b"this is not HTTP\r\n\r\n")


TROUBLE = {
    "truncated": ((200, b"half of", 20), r"the file was cut( after|:).* bytes", 3),
    "missing": ((404, b"", None), r"the server answers 404 \(Not Found\)", 1),
    "broken": ((503, b"", None), r"the server answers 503", 3),
    "slow": (slowly, r"nothing came for 0\.2 seconds", 3),
    "garbage": (garbage, r"no connection|the file was cut", 3),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_one_line(server, tmp_path, name):
    answer, message, attempts = TROUBLE[name]
    server.answers["/file"] = answer
    with pytest.raises(DownloadError, match=message) as caught:
        fetch(server.url + "/file", tmp_path / "file", timeout=0.2)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(server.url)
    assert len(server.asked) == attempts
    assert left_behind(tmp_path) == []


def test_files_that_are_too_large_are_refused(server, tmp_path):
    server.answers["/file"] = (200, b"content", None)
    for most, told in ((6, "the file has (7|more than 6) bytes"), (7, "")):
        if told:
            with pytest.raises(DownloadError, match=told):
                fetch(server.url + "/file", tmp_path / "file", max_bytes=most)
            assert len(server.asked) == 1  # not tried again
            assert left_behind(tmp_path) == []
        else:
            assert fetch(server.url + "/file", tmp_path / "file", max_bytes=most).read_bytes() == b"content"


def test_pauses_grow(server, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(download.time, "sleep", pauses.append)
    server.answers["/file"] = (429, b"", None)
    with pytest.raises(DownloadError, match="429"):
        fetch(server.url + "/file", tmp_path / "file")
    assert pauses == [1.0, 2.0]


def test_a_hiccup_is_overcome(server, tmp_path):
    def once(_):
        server.answers["/file"] = (200, b"content", None)
        return 503, b"", None

    server.answers["/file"] = once
    assert fetch(server.url + "/file", tmp_path / "file").read_bytes() == b"content"


def test_no_network(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match=r"no connection \("):
        fetch(f"http://127.0.0.1:{port}/file", tmp_path / "file", timeout=1)
    with pytest.raises(DownloadError, match="not an address"):
        fetch("boston", tmp_path / "file")
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("content", ["wrong", "truncated", "404"])
def test_a_set_that_cannot_be_had(server, tiny, tmp_path, content):
    """The error says what was tried, and which file to put where; the cache stays empty."""
    wrong = tiny.copy()
    wrong[0, 0] = 7.0
    answers = {
        "wrong": (200, packed(wrong), None),
        "truncated": (200, packed(tiny)[:30], None),
        "404": (404, b"", None),
    }
    server.answers["/yacht.csv.gz"] = answers[content]
    message = {"wrong": "SHA-256", "truncated": "not in the form expected", "404": "answers 404"}[content]
    with pytest.raises(OSError, match=message) as caught:
        datasets.load("yacht", mirror=server.url)
    assert re.search(r"Put yacht\.csv\.gz into .*cache, or", str(caught.value))
    assert "\n" not in str(caught.value)
    assert left_behind(tmp_path) == []
    result = CliRunner().invoke(commands, ["data", "yacht", "--mirror", server.url])
    assert isinstance(result.exception, OSError)


def test_what_was_there_survives_a_failed_download(server, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(DownloadError):
        fetch(server.url + "/file", path)
    assert path.read_bytes() == b"old"


# ---------------------------------------------------------------- the formats of the places


def zipped(member, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, content)
    return file.getvalue()


def excel(values):
    file = io.BytesIO()
    pd.DataFrame(values, columns=["a", "b", "t"]).to_excel(file, index=False)
    return file.getvalue()


def arff(values):
    rows = "\n".join(",".join(f"'{v!r}'" if k == 1 else repr(v) for k, v in enumerate(row)) for row in values.tolist())
    return f"% words\n@RELATION r\n@ATTRIBUTE a REAL\n@ATTRIBUTE b {{'1.0','2.0'}}\n@DATA\n{rows}\n".encode()


def test_places_give_the_same_arrays(server, tiny, monkeypatch):
    server.answers |= {
        "/excel.zip": (200, zipped("in/side.xlsx", excel(tiny)), None),
        "/text.zip": (200, zipped("x.data", "\n".join(" ".join(map(repr, row)) for row in tiny.tolist())), None),
        "/openml": (200, json.dumps({"data_set_description": {"url": server.url + "/a.arff"}}).encode(), None),
        "/a.arff": (200, arff(tiny), None),
        "/bad": (200, b"no table", None),
    }
    places = {
        "/excel.zip": real._zipped("in/side.xlsx", real._excel),
        "/text.zip": real._zipped("x.data", lambda content: real._numbers(content.decode()).reshape(-1, 3)),
        "/openml": real._openml,
    }
    for path, read in places.items():
        broken = real.Place(server.url + "/bad", read)  # the first place has something else: the next is asked
        monkeypatch.setitem(real.PLACES, "yacht", (broken, real.Place(server.url + path, read)))
        found = datasets.load("yacht")
        np.testing.assert_array_equal(np.column_stack([found.X, found.y]), tiny)
        (real.cache() / "yacht.csv.gz").unlink()


def test_statlib_and_eight_digits(tmp_path):
    rows = np.arange(28.0).reshape(2, 14)
    lines = ["words"] * 22 + [
        " ".join(map(repr, part)) for row in rows for part in (row[:11].tolist(), row[11:].tolist())
    ]
    (tmp_path / "boston").write_text("\n".join(lines) + "\n")
    np.testing.assert_array_equal(real._statlib(tmp_path / "boston"), rows)
    rounded = real._eight_digits(lambda _: np.array([[0.123456784999, 1.0], [-123.45678949, 2e-9]]))(tmp_path)
    np.testing.assert_array_equal(rounded, [[0.12345678, 1.0], [-123.45679, 2e-9]])


def test_every_set_has_facts_and_a_place():
    for name, facts in real.FACTS.items():
        assert len(facts.sha256) == 64
        assert real.PLACES[name] or name == "msd_sample"
        assert all(place.url.startswith("http") for place in real.PLACES[name])
    assert {*real.FACTS, "msd", "diabetes"} == set(datasets.NAMES)


# ---------------------------------------------------------------- Year Prediction MSD


@pytest.fixture
def small_msd(monkeypatch):
    """MSD with 50 rows in blocks of 20."""
    monkeypatch.setattr(msd, "ROWS", 50)
    monkeypatch.setattr(msd, "TRAIN", 45)
    monkeypatch.setattr(msd, "BLOCK", 20)
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(1922, 2012, 50), np.round(rng.normal(size=(50, 90)), 5)])


def text_of(values):
    lines = [",".join([f"{row[0]:.0f}", *(repr(v) for v in row[1:].tolist())]) for row in values]
    return "\n".join(lines).encode()


@pytest.mark.parametrize("form", ["text", "zip", "download"])
def test_msd_in_blocks(small_msd, server, tmp_path, monkeypatch, form):
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("ALEATOR_DATA", str(own))
    if form == "text":
        (own / "YearPredictionMSD.txt").write_bytes(text_of(small_msd))
    elif form == "zip":
        (own / "YearPredictionMSD.txt.zip").write_bytes(zipped("YearPredictionMSD.txt", text_of(small_msd)))
    else:
        content = zipped("YearPredictionMSD.txt", text_of(small_msd))
        server.answers["/yearpredictionmsd.zip"] = (200, content, None)
    found = datasets.load("msd", mirror=server.url)
    assert found.X.dtype == found.y.dtype == np.float32
    np.testing.assert_array_equal(found.X, small_msd[:, 1:].astype(np.float32))
    np.testing.assert_array_equal(found.y, small_msd[:, 0].astype(np.float32))
    assert found.split == 45
    for path in own.iterdir():
        path.unlink()
    np.testing.assert_array_equal(datasets.load("msd").y, found.y)  # from the cache
    assert loading.where("msd").suffix == ".npy"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v[:30], r"was cut: it has 30 rows, not 50"),
        (lambda v: np.vstack([v, v]), r"is not Year Prediction MSD: it has 60 rows or more"),
        (lambda v: v[:, :80], r"of 80 columns, not 50 x 91"),
        (lambda v: np.column_stack([v[:, 0] - 500, v[:, 1:]]), r"its years go from 1\d\d\d"),
    ],
)
def test_msd_that_is_not(small_msd, tmp_path, monkeypatch, change, message):
    monkeypatch.setenv("ALEATOR_DATA", str(tmp_path))
    (tmp_path / "YearPredictionMSD.txt").write_bytes(text_of(change(small_msd)))
    with pytest.raises(ValueError, match=message):
        datasets.load("msd")
    assert left_behind(tmp_path / "cache") == []


def test_msd_damaged(small_msd, tmp_path, monkeypatch):
    monkeypatch.setenv("ALEATOR_DATA", str(tmp_path))
    text = text_of(small_msd).replace(b",", b",,", 1)
    (tmp_path / "YearPredictionMSD.txt").write_bytes(text)
    with pytest.raises(ValueError, match="damaged|not Year Prediction MSD"):
        datasets.load("msd")
    (tmp_path / "YearPredictionMSD.txt").unlink()
    (tmp_path / "YearPredictionMSD.zip").write_bytes(zipped("YearPredictionMSD.txt", text_of(small_msd))[:-40])
    with pytest.raises(ValueError, match="is damaged"):
        datasets.load("msd")
    (tmp_path / "YearPredictionMSD.zip").write_bytes(zipped("other.txt", b""))
    with pytest.raises(ValueError, match=r"does not hold YearPredictionMSD\.txt"):
        datasets.load("msd")


def test_what_was_downloaded_wrongly_does_not_stay(small_msd, server, tmp_path):
    server.answers["/yearpredictionmsd.zip"] = (200, b"<html>come back later</html>", None)
    with pytest.raises(OSError, match="is damaged"):
        datasets.load("msd", mirror=server.url)
    server.answers["/yearpredictionmsd.zip"] = (200, zipped("YearPredictionMSD.txt", text_of(small_msd)), None)
    assert len(datasets.load("msd", mirror=server.url).y) == 50
    assert left_behind(tmp_path) == ["msd-X.npy", "msd-y.npy"]


def test_msd_is_told_apart_by_its_targets(small_msd, tmp_path, monkeypatch):
    digests = set()
    for k, values in enumerate((small_msd, np.column_stack([small_msd[::-1, 0], small_msd[:, 1:]]))):
        monkeypatch.setenv("ALEATOR_CACHE", str(tmp_path / str(k)))
        monkeypatch.setenv("ALEATOR_DATA", str(tmp_path))
        (tmp_path / "YearPredictionMSD.txt").write_bytes(text_of(values))
        digests.add(datasets.load("msd").sha256)
    assert len(digests) == 2


def test_msd_offline(monkeypatch):
    monkeypatch.setattr(msd, "URL", "http://127.0.0.1:9/yearpredictionmsd.zip")
    with pytest.raises(OSError, match=r"Put YearPredictionMSD\.txt or yearpredictionmsd\.zip into"):
        datasets.load("msd")


def test_msd_shaped_noise_depends_on_the_region():
    found = datasets.msd_shaped(40_000, random_state=1)
    assert found.X.shape == (40_000, 90)
    assert found.X.dtype == np.float32
    assert found.split == 40_000 * 463_715 // 515_345
    low, high = found.X[:, 0] < -1.5, found.X[:, 0] > 1.5
    # with the same mean function, what differs between near rows is noise: compare with a flexible fit of the mean
    features = np.column_stack(
        [
            np.sin(found.X[:, 2]),
            found.X[:, 3] * np.abs(found.X[:, 4]),
            np.tanh(found.X[:, 0] + 0.5 * found.X[:, 1]),
            np.ones(len(found.y)),
        ]
    )
    rest = found.y - features @ np.linalg.lstsq(features, found.y, rcond=None)[0]
    assert rest[high].std() > 4 * rest[low].std()
    np.testing.assert_array_equal(found.X[:100], datasets.msd_shaped(40_000, random_state=1).X[:100])


def test_datasets_are_values(tiny, tmp_path, monkeypatch):
    (tmp_path / "yacht.csv.gz").write_bytes(packed(tiny))
    monkeypatch.setenv("ALEATOR_DATA", str(tmp_path))
    found = datasets.load("yacht")
    assert replace(found, split=2).split == 2
