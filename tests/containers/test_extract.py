"""PTX out of programs and fat binaries that nvcc makes here, and out of bytes that lie."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.containers import extract, fat_binaries, module_hashes
from ptxgraft.graft import find_nvcc
from ptxgraft.text import Document

PTX = b"""\
//
// a comment that belongs to the text
//
.version 8.0
.target sm_90
.address_size 64

.visible .entry first(.param .u64 p)
{
    ret;
}
"""
CUDA = """
extern "C" __global__ void first(float *p) { p[threadIdx.x] += 1.0f; }
extern "C" __global__ void second(int *p) { p[threadIdx.x] *= 3; }
#ifdef HOST
int main() { return 0; }
#endif
"""
LZ4, ZSTD = 0x2000, 0x8000


def member(payload: bytes, size: int, flags: int = 0, kind: int = 1, padded: int | None = None) -> bytes:
    """A member of a fat binary as nvcc lays it out."""
    filled = payload + bytes(-len(payload) % 8)
    length = len(filled) if padded is None else padded
    packed = len(payload) if flags else 0
    head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, length, packed, 0, 0, 8, 90, 64, 0, flags | 1, 0, size if flags else 0)
    return head + filled


def fat_binary(*members: bytes) -> bytes:
    body = b"".join(members)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(body)) + body


def found_in(tmp_path: Path, data: bytes):
    path = tmp_path / "input.bin"
    path.write_bytes(data)
    return extract(path)


# -- what nvcc makes ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def nvcc() -> str:
    found = find_nvcc()
    if found is None:
        pytest.skip("nvcc is not here")
    return str(found)


def compiled(nvcc: str, folder: Path, *options: str) -> Path:
    (folder / "two.cu").write_text(CUDA)
    output = folder / "out.bin"
    subprocess.run([nvcc, *options, "-o", str(output), "two.cu"], cwd=folder, check=True, capture_output=True)
    return output


def wanted(nvcc: str, folder: Path) -> list[tuple[str, str]]:
    text = compiled(nvcc, folder, "--ptx", "-arch=compute_80").read_bytes()
    return [(s.opcode, s.operands) for s in Document.parse(text).statements]


@pytest.mark.parametrize("mode", ["none", "speed", "size", "balance", "default"])
def test_fat_binary(nvcc: str, tmp_path: Path, mode: str) -> None:
    want = wanted(nvcc, tmp_path)
    gencode = ["-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90,code=compute_90"]
    found = extract(compiled(nvcc, tmp_path, "-fatbin", f"--compress-mode={mode}", *gencode))
    assert (found.kind, found.cubins, found.problems) == ("fat binary", 1, ())
    assert [m.target for m in found.modules] == ["sm_80", "sm_90"]
    for module in found.modules:
        assert (module.where, module.problem) == ("fat binary", "")
        assert set(module.entries) == {"first", "second"}
    assert [(s.opcode, s.operands) for s in Document.parse(found.modules[0].data).statements] == want
    assert {m.compression for m in found.modules} == ({""} if mode == "none" else {found.modules[0].compression})


def test_object_file(nvcc: str, tmp_path: Path) -> None:
    found = extract(compiled(nvcc, tmp_path, "-c", "-arch=compute_80"))
    assert found.kind == "ELF"
    assert [set(m.entries) for m in found.modules] == [{"first", "second"}]
    assert found.problems == ()


# -- texts ----------------------------------------------------------------------------------------------------------------
def test_texts_among_other_bytes(tmp_path: Path) -> None:
    data = b"MZ\0\1\2\xff" + bytes(100) + PTX + b"\0\0" + b".version %d.%d\0" + b"junk .version 1.0 of a thing\0" + PTX + b"\0"
    found = found_in(tmp_path, data)
    assert found.kind == "PE"
    assert [m.data for m in found.modules] == [PTX, PTX]
    assert [m.offset for m in found.modules] == [data.index(PTX), data.rindex(PTX)]
    assert found.modules[0].entries == ("first",)
    assert (found.modules[0].version, found.modules[0].target) == ("8.0", "sm_90")


def test_a_text_file_is_itself(tmp_path: Path) -> None:
    found = found_in(tmp_path, PTX)
    assert found.kind == "text"
    assert [m.data for m in found.modules] == [PTX]


def test_a_text_that_is_broken_is_a_problem(tmp_path: Path) -> None:
    found = found_in(tmp_path, b"\0\0" + PTX.replace(b"ret;\n}", b"ret;") + b"\0")
    assert found.modules == ()
    assert "looks like PTX" in found.problems[0].text


# -- members --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("payload", "flags", "name"),
    [(PTX, 0, ""), (lz4.block.compress(PTX, store_size=False), LZ4, "lz4"), (zstandard.compress(PTX), ZSTD, "zstd")],
    ids=["plain", "lz4", "zstd"],
)
def test_members(tmp_path: Path, payload: bytes, flags: int, name: str) -> None:
    found = found_in(tmp_path, b"some bytes " + fat_binary(member(b"cubin", 0, kind=2), member(payload, len(PTX), flags)) + b"more")
    assert [(m.data, m.compression, m.problem) for m in found.modules] == [(PTX, name, "")]
    assert (found.cubins, found.problems) == (1, ())


LIES = {
    "lz4 bomb": (member(lz4.block.compress(bytes(1 << 16), store_size=False), 1 << 29, LZ4), "more than they can"),
    "too large": (member(b"x" * 64, 1 << 40, ZSTD), "at most"),
    "zstd bomb": (member(zstandard.compress(bytes(1 << 24)), 100, ZSTD), "more than 100 bytes"),
    "lz4 short": (member(lz4.block.compress(PTX, store_size=False), len(PTX) + 1, LZ4), "bytes, it says"),
    "no lz4": (member(b"\xff" * 64, 640, LZ4), "no LZ4 block"),
    "no zstd": (member(b"\xff" * 64, 640, ZSTD), "no Zstandard frame"),
    "member too long": (member(PTX, 0, padded=1 << 50), "bytes, "),
    "header cut": (member(PTX, 0) + b"\1" * 20, "no member"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_lies_is_a_problem(tmp_path: Path, lie: str) -> None:
    broken, message = LIES[lie]
    found = found_in(tmp_path, fat_binary(broken) + b"\0" + PTX)
    assert message in found.problems[0].text, found.problems
    # What follows is found all the same.
    assert found.modules[-1].data == PTX


def test_a_fat_binary_that_is_cut_off(tmp_path: Path) -> None:
    whole = fat_binary(member(PTX, 0), member(PTX + b" ", 0))
    found = found_in(tmp_path, whole[:-20])
    assert "the file ends before them" in found.problems[0].text


@given(st.data())
def test_no_bytes_break_it(data: st.DataObject) -> None:
    whole = bytearray(b"ab" + fat_binary(member(lz4.block.compress(PTX, store_size=False), len(PTX), LZ4), member(PTX, 0)) + PTX)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, 160))
        whole[at] = data.draw(st.integers(0, 255))
    list(fat_binaries(bytes(whole), 0, len(whole)))


# -- the verb -------------------------------------------------------------------------------------------------------------
def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ptxgraft", "extract", *arguments], capture_output=True, text=True, check=False)


def test_verb(tmp_path: Path) -> None:
    one, two, out = tmp_path / "..strange name;.exe", tmp_path / "two", tmp_path / "out"
    one.write_bytes(b"MZ" + fat_binary(member(PTX, 0)))
    two.write_bytes(PTX.replace(b"first", b"other") + b"\0" + PTX)
    done = run(str(one), str(two), "-o", str(out), "--json")
    assert done.returncode == 0, done.stderr
    index = json.loads(done.stdout)
    assert index == json.loads((out / "index.json").read_text())
    assert sorted(p.name for p in out.iterdir()) == sorted([*(m["file"] for m in index["modules"]), "index.json"])
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([one.name, "out", "two"])
    first, second = index["modules"]
    assert ((out / first["file"]).read_bytes(), first["entries"]) == (PTX, ["first"])
    assert [f["file"] for f in first["found"]] == [str(one), str(two)]
    assert (first["sha256"], first["fnv1a64"]) == module_hashes(PTX)
    assert second["entries"] == ["other"]


def test_nothing_found(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF nothing")
    (tmp_path / "b").write_bytes(b"")
    done = run(str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "no PTX in" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_what_cannot_be_read(tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    done = run(str(tmp_path / what))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert what in done.stderr


def test_fnv_is_the_published_function() -> None:
    # Test vectors of the FNV authors' own page for FNV-1a 64.
    assert module_hashes(b"")[1] == "cbf29ce484222325"
    assert module_hashes(b"a")[1] == "af63dc4c8601ec8c"
    assert module_hashes(b"foobar")[1] == "85944171f73967e8"
