"""LZ4 and Zstandard, against what nvcc's own tools compress, and on damaged input."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.binary import decompress_lz4, decompress_zstd, fatbin_entries
from ptxgraft.errors import SourceError
from ptxgraft.graft.check import find_tool

FATBINARY = find_tool("fatbinary")
HEAD = b".version 8.0\n.target sm_90\n.address_size 64\n"


def texts() -> dict[str, bytes]:
    """PTX of shapes that make an encoder use different means: repetition, chance, many symbols, hardly any, long matches far back. Without comments and
    tabs: fatbinary takes those out."""
    rng = np.random.default_rng(7)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$", np.uint8)

    def word(length: int, weights: list[float] | None = None) -> bytes:
        return b"x" + bytes(rng.choice(letters[: len(weights)] if weights else letters, length, p=weights)) + b";"

    names = [f"%r{i}" for i in range(3000)]
    noise = word(150_000)
    return {
        "head": HEAD,
        "code": HEAD + "\n".join(f"add.s32 {a}, {b}, {c};" for a, b, c in rng.choice(names, (20_000, 3))).encode(),
        "noise": HEAD + noise,
        "one byte": HEAD + b"\n" * 400_000,
        "far back": HEAD + noise + word(100_000) + noise,
        "skewed": HEAD + word(200_000, [0.9, 0.05, 0.02, 0.01, 0.01, 0.005, 0.004, 0.001]),
        "two letters": HEAD + word(100_000, [0.5, 0.5]),
    }


def packed(text: bytes, how: str, folder: Path) -> bytes:
    """The fat binary that nvcc's ``fatbinary`` makes of PTX text."""
    if FATBINARY is None:
        pytest.skip("no fatbinary: install the PyPI package nvidia-cuda-nvcc")
    source, target = folder / "a.ptx", folder / "a.fatbin"
    source.write_bytes(text)
    command = [str(FATBINARY), "-64", f"--compress-mode={how}", f"--create={target}", f"--image3=kind=ptx,sm=90,file={source}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return target.read_bytes()


@pytest.mark.parametrize("how", ["none", "speed", "balance", "size"])
@pytest.mark.parametrize("name", list(texts()))
def test_what_fatbinary_compresses(name: str, how: str, tmp_path: Path) -> None:
    text = texts()[name]
    (entry,) = fatbin_entries(packed(text, how, tmp_path))
    assert (entry.kind, entry.architecture) == ("ptx", 90)
    assert entry.contents() == text


def test_all_ways_are_met(tmp_path: Path) -> None:
    text = texts()["code"]
    ways = {next(iter(fatbin_entries(packed(text, how, tmp_path)))).compression for how in ("none", "speed", "balance", "size")}
    assert ways == {"none", "LZ4", "Zstandard"}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, int]]:
    folder, text = tmp_path_factory.mktemp("good"), texts()["code"][:30_000]
    found = {how: next(iter(fatbin_entries(packed(text, how, folder)))) for how in ("speed", "balance")}
    return {entry.compression: (entry.packed, entry.size) for entry in found.values()}


@pytest.mark.parametrize(("kind", "decompress"), [("LZ4", decompress_lz4), ("Zstandard", decompress_zstd)])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_is_an_error_or_other_bytes_of_the_same_size(kind: str, decompress, good, data: st.DataObject) -> None:
    packed_bytes, size = good[kind]
    damaged = bytearray(packed_bytes)
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    try:
        assert len(decompress(bytes(damaged[:cut]), size)) == size
    except SourceError:
        pass


@pytest.mark.parametrize("decompress", [decompress_lz4, decompress_zstd])
@given(junk=st.binary(max_size=200), size=st.integers(0, 5000), magic=st.booleans())
def test_junk(decompress, junk: bytes, size: int, magic: bool) -> None:
    try:
        assert len(decompress((b"\x28\xb5\x2f\xfd" if magic else b"") + junk, size)) == size
    except SourceError:
        pass


@pytest.mark.parametrize(("kind", "decompress"), [("LZ4", decompress_lz4), ("Zstandard", decompress_zstd)])
@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_wrong_size_is_an_error(kind: str, decompress, good, wrong: int) -> None:
    packed_bytes, size = good[kind]
    assert len(decompress(packed_bytes, size)) == size
    with pytest.raises(SourceError):
        decompress(packed_bytes, size + wrong)
