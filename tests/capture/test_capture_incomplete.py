"""What recordings of real programs add: binaries, clusters, notes of what is missing, remarks about the whole."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.capture import Capture, Launch, convert, open_capture, package_writer, write
from ptxgraft.capture.blobs import CHUNK_BYTES
from ptxgraft.errors import SourceError

CUBIN = b"\x7fELF" + bytes(range(200))


def full(in_memory) -> Launch:
    return in_memory(binary=CUBIN, cooperative=True, cluster=(2, 1, 1), notes=["allocation 7 was left out"])


def test_round_trip(in_memory, tmp_path: Path) -> None:
    write(Capture([full(in_memory)], remarks=["process 1: 3 launches seen"]), tmp_path / "a.ptxcap")
    convert(tmp_path / "a.ptxcap", tmp_path / "b.ptxcap")
    for name in ("a", "b"):
        opened = open_capture(tmp_path / f"{name}.ptxcap")
        (launch,) = opened.launches
        assert launch.binary is not None and launch.binary.tobytes() == CUBIN
        assert launch.binary_hash == hashlib.sha256(CUBIN).hexdigest()
        assert (launch.cooperative, launch.cluster, launch.notes) == (True, (2, 1, 1), ["allocation 7 was left out"])
        assert opened.remarks == ["process 1: 3 launches seen"] and not opened.notes


def test_the_directory_form_says_what_it_leaves_out(in_memory, tmp_path: Path) -> None:
    write([full(in_memory)], tmp_path / "a.ptxcap")
    notes = convert(tmp_path / "a.ptxcap", tmp_path / "dir", form="directory")
    assert any("module binaries" in note and "cluster" in note for note in notes)


def test_an_ordinary_launch_says_none_of_it(in_memory, tmp_path: Path) -> None:
    write([in_memory()], tmp_path / "a.ptxcap")
    manifest = json.loads((tmp_path / "a.ptxcap" / "capture.json").read_text())
    assert not {"binary", "binary_hash", "cooperative", "cluster", "notes"} & manifest["launches"][0].keys()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("cluster", [0, 1, 1], "cluster"),
        ("cluster", [1, 1], "three integers"),
        ("cooperative", 1, "true or false"),
        ("notes", "text", "a list"),
        ("notes", ["\x1b[2J"], "printable"),
        ("binary_hash", "x", "64 hexadecimal digits"),
    ],
)
def test_lies_make_a_bad_launch(in_memory, tmp_path: Path, key: str, value: object, words: str) -> None:
    write([full(in_memory)], tmp_path / "a.ptxcap")
    path = tmp_path / "a.ptxcap" / "capture.json"
    manifest = json.loads(path.read_text())
    manifest["launches"][0][key] = value
    path.write_text(json.dumps(manifest))
    (bad,) = open_capture(tmp_path / "a.ptxcap").bad
    assert words in str(bad.error)


def test_a_binary_that_is_not_what_its_hash_says(in_memory, tmp_path: Path) -> None:
    write([full(in_memory)], tmp_path / "a.ptxcap")
    path = tmp_path / "a.ptxcap" / "capture.json"
    manifest = json.loads(path.read_text())
    manifest["launches"][0]["binary_hash"] = "0" * 64
    path.write_text(json.dumps(manifest))
    with pytest.raises(SourceError, match="not what its SHA-256 says"):
        _ = open_capture(tmp_path / "a.ptxcap").launches[0].binary


class Telling:
    """Contents that know their chunks' digests, and count what is read."""

    def __init__(self, data: np.ndarray, lie: bool = False) -> None:
        self.data, self.read = data, 0
        self.size, self.chunk_bytes = data.nbytes, CHUNK_BYTES
        pieces = [data[at : at + CHUNK_BYTES].tobytes() for at in range(0, data.nbytes, CHUNK_BYTES)]
        self.digests = tuple(hashlib.sha256(p + b"!" * lie).hexdigest() for p in pieces)

    def load(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        part = self.data[start:stop]
        self.read += part.nbytes
        return part


def test_chunks_that_are_there_are_not_read_again(in_memory, tmp_path: Path) -> None:
    data = np.random.default_rng(3).integers(0, 256, 5 * CHUNK_BYTES + 100, np.uint8)
    data[CHUNK_BYTES : 2 * CHUNK_BYTES] = data[:CHUNK_BYTES]
    once, again = Telling(data), Telling(data)
    with package_writer(tmp_path / "a.ptxcap") as writer:
        for seq, contents in enumerate((once, again)):
            launch = in_memory(seq=seq)
            launch.allocations[0].size = data.nbytes
            launch.allocations[0].before, launch.allocations[0].after = contents, None
            writer.add(launch)
    assert (once.read, again.read) == (data.nbytes - CHUNK_BYTES, 0)
    assert all(np.array_equal(x.before(0), data) for x in open_capture(tmp_path / "a.ptxcap").launches)


def test_a_wrong_digest_is_refused(in_memory, tmp_path: Path) -> None:
    launch = in_memory()
    launch.allocations[0].size = 6 * CHUNK_BYTES
    launch.allocations[0].before, launch.allocations[0].after = Telling(np.zeros(6 * CHUNK_BYTES, np.uint8), lie=True), None
    with pytest.raises(SourceError, match="is not what its SHA-256 says"):
        write([launch], tmp_path / "a.ptxcap")
    assert list(tmp_path.iterdir()) == []
