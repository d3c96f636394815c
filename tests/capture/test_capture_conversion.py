"""Property: converting keeps all that both forms hold, whatever a recorder has put into a launch, and a note says what the directory form lost.
Captures open without opening what they hold."""

from __future__ import annotations

import importlib
import shutil
import struct
import tempfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft import capture
from ptxgraft.capture import Allocation, Capture, Contents, Image, Launch, Mipmaps, Pointer, Variable, convert, image_bytes, open_capture
from ptxgraft.capture.identity import identity
from ptxgraft.errors import UsageError

SHAPES: list[dict[str, Any]] = [
    {"width": 5, "height": 3},
    {"width": 7, "height": 1, "dimensions": 1},
    {"width": 9, "height": 1, "dimensions": 1, "linear": True},
    {"width": 4, "height": 3, "depth": 2, "dimensions": 3},
    {"width": 4, "height": 3, "depth": 5, "dimensions": 3, "layered": True},
    {"width": 4, "height": 6, "dimensions": 2, "layered": True},
    {"width": 2, "height": 2, "depth": 6, "dimensions": 3, "cube": True},
    {"width": 2, "height": 2, "depth": 12, "dimensions": 3, "cube": True, "layered": True, "seamless": True},
]
USUAL = {"depth": 1, "dimensions": 2, "integers": False, "layered": False, "cube": False, "seamless": False, "linear": False}


def everything(value: Any) -> Any:
    """All that a part of a capture says and holds, as plain values; where it lies is left out."""
    if is_dataclass(value):
        return {f.name: everything(getattr(value, f.name)) for f in fields(value) if f.name != "source"}
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return [everything(v) for v in value] if isinstance(value, list | tuple) else value


@st.composite
def images(draw: st.DrawFn, kind: Any, offset: int, handle: int) -> Image:
    shape = draw(st.sampled_from([s for s in SHAPES if kind == "texture" or not s.keys() & {"linear", "cube"}]))
    channels, code = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 9, 16, 32]))
    size = image_bytes(shape["width"], shape["height"] * shape.get("depth", 1), channels, code)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    before, after = (rng.integers(0, 256, size, np.uint8) for _ in range(2))
    return Image(
        kind, offset, handle, channels=channels, format=code, filter=draw(st.sampled_from([None, "point", "linear"])) if kind == "texture" else None,
        address=draw(st.sampled_from([None, ("wrap", "clamp", "mirror")])), normalized=draw(st.sampled_from([None, False, True])),
        integers=draw(st.booleans()) and code < 16, before=before if kind == "texture" else draw(st.sampled_from([None, before])),
        after=before if kind == "texture" else after, **shape,
    )  # fmt: skip


@st.composite
def recorded_launches(draw: st.DrawFn, seq: int) -> Launch:
    """What a recorder writes."""
    args = bytearray(draw(st.binary(min_size=40, max_size=40)))
    data = draw(st.binary(min_size=1, max_size=30))
    base = draw(st.integers(1, 1 << 46))
    struct.pack_into("<QQQ", args, 0, base, 0x100, 0x200)
    texture, surface = draw(images("texture", 8, 0x100)), draw(images("surface", 16, 0x200))
    return Launch(
        seq, draw(st.sampled_from(["k", "_ZN3fooE", "triton_poi_fused_0"])), (3, 2, 1), (32, 4, 1), bytes(args), draw(st.integers(0, 1 << 16)),
        [Allocation(0, base, len(data), data, draw(st.sampled_from([None, data[::-1]])))], [Pointer(0, 0, 0)], [texture], [surface],
        draw(st.sampled_from([[], [Variable("table", b"\1\2", b"\3\4")]])), module=draw(st.sampled_from([None, b".version 8.0\n"])),
        binary=draw(st.sampled_from([None, b"\x7fELF" + bytes(60)])), cooperative=draw(st.booleans()),
        cluster=draw(st.sampled_from([None, (2, 1, 1)])), notes=draw(st.sampled_from([[], ["allocation 7 was left out"]])),
        engine=draw(st.sampled_from(["", "cuda"])), profile="sm_90",
    )  # fmt: skip


def shared_part(launch: Launch) -> Launch:
    """What the directory form holds of a launch, as it reads it back."""

    def plain(image: Image) -> Image:
        contents = {"before": image.before, "after": image.before} if image.kind == "texture" else {"before": None, "after": image.after}
        return replace(image, **(USUAL | {"height": image.height * image.depth, "address": None, "normalized": None} | contents))

    return replace(
        launch, textures=[plain(t) for t in launch.textures], surfaces=[plain(s) for s in launch.surfaces], variables=[], module=None,
        module_hash=None, binary=None, binary_hash=None, cooperative=False, cluster=None, notes=[], engine="", profile="",
        allocations=[replace(a, after=a.after) for a in launch.allocations],
    )  # fmt: skip


def lost(launch: Launch) -> dict[str, bool]:
    """Words of the notes that must come, and those that must not, when the launch is written as a directory."""
    kinds = launch.textures + launch.surfaces
    return {
        "modules and their hashes": launch.module is not None,
        "module binaries": launch.binary is not None or launch.cooperative or launch.cluster is not None or bool(launch.notes),
        "what ran a launch": bool(launch.engine),
        "module variables": bool(launch.variables),
        "how many dimensions": any(getattr(i, name) != usual for i in kinds for name, usual in USUAL.items()),
        "address modes": any(i.address is not None or i.normalized is not None for i in kinds),
        "texels of surfaces before": any(s.before is not None for s in launch.surfaces),
        "no contents recorded after": any(a.after is None for a in launch.allocations),
    }


@settings(max_examples=40, deadline=None)
@given(recorded_launches(seq=3), recorded_launches(seq=12))
def test_conversion_keeps_what_both_forms_hold(first: Launch, second: Launch) -> None:
    launches = [first, second]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        capture.write(Capture(launches, remarks=["2 launches seen"]), root / "own")
        convert(root / "own", root / "copy")
        assert everything(open_capture(root / "copy").launches) == everything(open_capture(root / "own").launches) == everything(launches)
        assert [identity(x) for x in open_capture(root / "copy").launches] == [identity(x) for x in open_capture(root / "own").launches]
        notes = convert(root / "own", root / "folder", form="directory")
        for words in lost(first):
            assert any(words in note for note in notes) == (lost(first)[words] or lost(second)[words]), words
        assert any("remarks" in note for note in notes) and len(notes) == len(set(notes))
        convert(root / "folder", root / "back")
        for form in ("folder", "back"):
            opened = open_capture(root / form)
            assert not opened.problems
            for mine, found in zip(launches, opened.launches, strict=True):
                if not mine.allocations[0].after_recorded:
                    found.allocations[0].after = None  # asking for it names the file that is not there
                assert everything(shared_part(mine)) == everything(found)


@pytest.mark.parametrize("what", ["mipmaps", "reference"])
def test_what_would_be_another_texture_is_refused(tmp_path: Path, in_memory, what: str) -> None:
    texture = Image("texture", 16, 0x100, 4, 4, 1, 1, before=bytes(16))
    changed = {
        "mipmaps": replace(texture, mipmaps=Mipmaps(2, "point", 0.0, 0.0, 1.0), before=bytes(20)),
        "reference": replace(texture, reference="tex", arg_offset=-1),
    }[what]
    capture.write([replace(in_memory(), textures=[changed])], tmp_path / "own")
    with pytest.raises(UsageError, match=r"has mipmaps|is bound to a reference"):
        convert(tmp_path / "own", tmp_path / "folder", form="directory")
    assert not (tmp_path / "folder").exists()
    convert(tmp_path / "own", tmp_path / "copy")
    assert everything(open_capture(tmp_path / "copy").launches) == everything(open_capture(tmp_path / "own").launches)


# -- nothing is read before it is asked for -----------------------------------------------------------------------------------


def test_a_package_opens_without_its_blobs(tmp_path: Path, in_memory) -> None:
    capture.write([in_memory()], tmp_path / "own")
    mine = everything(open_capture(tmp_path / "own").launches[0])
    shutil.move(tmp_path / "own" / "blobs", tmp_path / "elsewhere")
    launch = open_capture(tmp_path / "own").launches[0]
    launch.check()
    assert identity(launch) and [a.size for a in launch.allocations] and launch.allocations[0].after_recorded
    shutil.move(tmp_path / "elsewhere", tmp_path / "own" / "blobs")
    assert everything(launch) == mine


def test_a_part_is_read_by_its_blobs_alone(tmp_path: Path, in_memory, monkeypatch) -> None:
    blobs = importlib.import_module("ptxgraft.capture.blobs")
    data = np.random.default_rng(1).integers(0, 256, 5 * blobs.CHUNK_BYTES + 9, np.uint8)
    capture.write([replace(in_memory(), allocations=[Allocation(0, 0x1000, data.size, data)], pointers=[])], tmp_path / "own")
    read: list[str] = []
    real = blobs.BlobContents._read
    monkeypatch.setattr(blobs.BlobContents, "_read", lambda self, digest, length: (read.append(digest), real(self, digest, length))[1])
    contents = open_capture(tmp_path / "own").launches[0].allocations[0].contents("before")
    assert isinstance(contents, Contents) and read == []
    start = 2 * blobs.CHUNK_BYTES - 3
    assert np.array_equal(contents.load(start, start + 6), data[start : start + 6]) and len(read) == 2


def test_a_directory_opens_its_words_alone(tmp_path: Path, in_memory, monkeypatch) -> None:
    capture.write_directory([in_memory()], tmp_path / "folder")
    contents = importlib.import_module("ptxgraft.capture.contents")
    opened: list[str] = []
    real = contents.open_regular
    monkeypatch.setattr(contents, "open_regular", lambda path, what: (opened.append(Path(path).name), real(path, what))[1])
    launch = open_capture(tmp_path / "folder").launches[0]
    launch.check()
    assert identity(launch) and opened and not [name for name in opened if name.startswith(("alloc-", "launch-"))]
    assert launch.before(0).size and [name for name in opened if name.startswith("alloc-")] == ["alloc-0.bin"]
