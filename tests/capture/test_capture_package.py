"""Our own form: everything comes back, equal bytes are stored once, damage is found, nothing half-written stays."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ptxgraft.capture import Allocation, Capture, Image, convert, open_capture, package_writer, write, write_directory
from ptxgraft.capture.blobs import CHUNK_BYTES, BlobContents
from ptxgraft.errors import SourceError, UsageError

BIG = 3 * CHUNK_BYTES + 12345


@pytest.fixture
def package(tmp_path: Path, in_memory) -> Path:
    write([in_memory(5), in_memory(6, "dec0")], tmp_path / "a.ptxcap")
    return tmp_path / "a.ptxcap"


def blobs(package: Path) -> list[Path]:
    return sorted((package / "blobs").iterdir())


def blob_of(package: Path, contents: dict[str, Any]) -> Path:
    return package / "blobs" / f"{contents['chunks'][0]}.z"


def manifest(package: Path) -> dict[str, Any]:
    return json.loads((package / "capture.json").read_text())


def put(package: Path, changed: object) -> None:
    (package / "capture.json").write_text(json.dumps(changed))


def test_everything_comes_back(tmp_path: Path, in_memory, described) -> None:
    launches = [in_memory(n, k) for n, k in ((900, "dec0"), (3, "enc4"), (4, "k/../../x"))]
    launches[0].allocations[0].after = None
    launches[1].textures.append(Image("texture", 48, 0, 7, 1, 2, 176, before=b"raw texels of an unknown format"))
    launches[1].module_hash, launches[1].module = "ab" * 32, None
    launches[2].surfaces[0].before = None
    assert write(launches, tmp_path / "a.ptxcap") == []
    back = open_capture(tmp_path / "a.ptxcap")
    assert (back.form, back.problems, back.notes) == ("package", [], [])
    assert [described(b) for b in back.launches] == [described(a) for a in sorted(launches, key=lambda a: a.seq)]


def test_no_arguments_no_resources(tmp_path: Path, in_memory) -> None:
    empty = in_memory(args=b"", allocations=[Allocation(0, 0, 0, b"")], pointers=[], textures=[], surfaces=[], variables=[], module=None)
    write([empty], tmp_path / "a.ptxcap")
    back = open_capture(tmp_path / "a.ptxcap").launch(5)
    assert back.args == b"" and back.before(0).size == 0


def test_equal_contents_are_stored_once(tmp_path: Path, in_memory) -> None:
    before = np.random.default_rng(1).integers(0, 256, BIG, np.uint8)
    after = before.copy()
    after[CHUNK_BYTES + 5] ^= 1
    launches = [in_memory(n, allocations=[Allocation(0, 0x10000, BIG, before, after)], pointers=[]) for n in (1, 2)]
    write(launches, tmp_path / "a.ptxcap")
    sizes = [path.stat().st_size for path in blobs(tmp_path / "a.ptxcap")]
    assert sum(size > 10_000 for size in sizes) == 5, "four chunks before, one that changed"
    back = open_capture(tmp_path / "a.ptxcap").launch(2)
    assert np.array_equal(back.before(0), before) and np.array_equal(back.after(0), after)


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, None),
        (0, 0),
        (5, 3),
        (10, 20),
        (CHUNK_BYTES - 1, CHUNK_BYTES + 1),
        (BIG - 1, None),
        (BIG, BIG + 9),
        (CHUNK_BYTES, 2 * CHUNK_BYTES),
        (-7, None),
    ],
)
def test_a_part_is_read_without_the_rest(tmp_path: Path, in_memory, start: int, stop: int | None) -> None:
    data = np.random.default_rng(1).integers(0, 256, BIG, np.uint8)
    write([in_memory(allocations=[Allocation(0, 0x10000, BIG, data)], pointers=[])], tmp_path / "a.ptxcap")
    source = open_capture(tmp_path / "a.ptxcap").launch(5).allocations[0].contents("before")
    assert isinstance(source, BlobContents)
    assert np.array_equal(source.load(start, stop), data[start:stop])
    if (start, stop) == (10, 20):
        for path in blobs(tmp_path / "a.ptxcap"):
            if path.stem not in source.digests[0]:
                path.unlink()
        assert np.array_equal(source.load(start, stop), data[start:stop]), "only the first blob was needed"


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped", "longer", "other", "bomb", "folder"])
def test_damaged_blobs_are_found(package: Path, damage: str) -> None:
    path = blob_of(package, manifest(package)["launches"][0]["allocations"][0]["before"])
    packed = path.read_bytes()
    says = {"missing": "cannot read", "folder": "cannot read", "empty": "truncated", "cut": "truncated"}.get(damage, "altered")
    changed = {
        "empty": b"",
        "cut": packed[:-10],
        "flipped": packed[:100] + bytes([packed[100] ^ 1]) + packed[101:],
        "longer": packed + b"x",
        "other": zlib.compress(b"z" * 5000),
        "bomb": zlib.compress(bytes(1 << 24)),
    }
    if damage in changed:
        path.write_bytes(changed[damage])
    else:
        path.unlink()
        if damage == "folder":
            path.mkdir()
    capture = open_capture(package)
    assert capture.problems == [], "blobs are read when asked for"
    assert capture.launch(5).after(2).size == 64
    with pytest.raises(SourceError) as raised:
        capture.launch(5).before(0)
    text = str(raised.value)
    assert text.startswith(f"{path}: ") and says in text and "allocation 0 before the launch" in text and "\n" not in text


def test_a_module_that_is_not_what_its_hash_says(package: Path) -> None:
    changed = manifest(package)
    changed["launches"][0]["module_hash"] = "0" * 64
    put(package, changed)
    with pytest.raises(SourceError, match="is not what its SHA-256 says"):
        _ = open_capture(package).launch(5).module


# ---- manifests ----


def entry(launch: Any, where: str, value: object) -> None:
    *path, last = (int(word) if word.isdigit() else word for word in where.split("."))
    for word in path:
        launch = launch[word]
    launch[last] = value


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("seq", -1), ("seq", "5"), ("seq", True), ("seq", 1 << 70), ("seq", 6.0), ("kernel", 5), ("kernel", "a b"), ("kernel", "\ud800"),
        ("kernel", "a\nb"), ("grid", [1, 2]), ("grid", [1, 2, 0]), ("grid", {"x": 1}), ("grid", [1, 2, 3, 4]), ("block", None),
        ("args", "0g"), ("args", "abc"), ("args", "AB"), ("args", None), ("shared_bytes", 1 << 32), ("module_hash", "../../etc"),
        ("module", 5), ("module.chunks.0", "../../../../etc/passwd"), ("module.size", 1 << 50), ("module.chunks", []),
        ("allocations", None), ("allocations", [[]]), ("allocations.0.before", None), ("allocations.0.size", 5001),
        ("allocations.0.size", 1 << 64), ("allocations.0.before.size", 4999), ("allocations.0.before.chunks.0", "A" * 64),
        ("allocations.0.base", "7f"), ("allocations.0.base", "0x1" + "0" * 16), ("allocations.0.base", 5),
        ("allocations.0.base", "0xffffffffffffffff"), ("allocations.0.index", 2), ("allocations.0.index", 7),
        ("pointers.0.offset", 57), ("pointers.0.offset", 40), ("pointers.0.allocation", 9), ("pointers.0.delta", (1 << 64) - 1),
        ("pointers.0.delta", -(1 << 62)), ("textures.0.filter", "cubic"), ("textures.0.address", []), ("textures.0.address", ["wrap"] * 4),
        ("textures.0.address", ["sideways"]), ("textures.0.normalized", 1), ("textures.0.width", 4), ("textures.0.format", 32),
        ("textures.0.channels", 0), ("textures.0.arg_offset", 57), ("textures.0.handle", 42), ("variables.0.name", ""),
        ("variables.0.after.size", 2),
    ],
)  # fmt: skip
def test_manifest_errors_name_the_place_and_hide_no_other_launch(package: Path, where: str, value: object) -> None:
    changed = manifest(package)
    entry(changed["launches"][0], where, value)
    put(package, changed)
    capture = open_capture(package)
    assert [launch.seq for launch in capture.launches] == [6]
    text = str(capture.problems[0])
    assert text.startswith(f"{package}/capture.json: launches[0]") and "\n" not in text
    text.encode()


@pytest.mark.parametrize(
    "key", ["seq", "kernel", "grid", "args", "allocations", "pointers", "textures", "module", "module_hash", "variables"]
)
def test_missing_keys(package: Path, key: str) -> None:
    changed = manifest(package)
    del changed["launches"][0][key]
    put(package, changed)
    assert f"launches[0]: {key} is missing" in str(open_capture(package).problems[0])


def test_two_launches_of_one_number(package: Path) -> None:
    changed = manifest(package)
    changed["launches"][1]["seq"] = 5
    put(package, changed)
    capture = open_capture(package)
    assert len(capture.launches) == 1 and "another launch 5" in str(capture.problems[0])


def test_unknown_keys_are_noted_once(package: Path) -> None:
    changed = manifest(package)
    for launch in changed["launches"]:
        launch["colour"] = "blue"
    put(package, changed)
    (note,) = open_capture(package).notes
    assert "'colour' is ignored" in note


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not JSON"),
        (b"{", ":1:2: the manifest is not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b"[]", "expected a manifest whose format"),
        (b"{}", "expected a manifest whose format"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"format": ' + b"9" * 10_000 + b"}", "cannot be read"),
        (b'{"format": "ptxgraft capture", "format": "ptxgraft capture"}', "'format' is given twice"),
        (b'{"format": "ptxgraft capture"}', "version is missing"),
        (b'{"format": "ptxgraft capture", "version": 2}', "install a newer one"),
        (b'{"format": "ptxgraft capture", "version": NaN}', "expected an integer"),
        (b'{"format": "ptxgraft capture", "version": 1, "chunk_bytes": 0, "launches": []}', "chunk_bytes: expected"),
        (b'{"format": "ptxgraft capture", "version": 1, "chunk_bytes": 9, "launches": {}}', "launches: expected a list"),
        (b'{"format": "ptxgraft capture", "version": 1, "chunk_bytes": 9, "launches": []}', "holds no launch"),
    ],
)
def test_manifests_that_are_none(package: Path, text: bytes, says: str) -> None:
    (package / "capture.json").write_bytes(text)
    with pytest.raises(SourceError) as raised:
        open_capture(package)
    message = str(raised.value)
    assert message.startswith(f"{package}/capture.json") and says in message and "\n" not in message and len(message) < 600


def test_a_truncated_manifest_is_never_a_shorter_capture(package: Path) -> None:
    whole = (package / "capture.json").read_bytes()
    for length in range(0, len(whole) - 1, 97):
        (package / "capture.json").write_bytes(whole[:length])
        with pytest.raises(SourceError):
            open_capture(package)


# ---- writing ----


def test_launches_are_recorded_one_at_a_time(tmp_path: Path, in_memory) -> None:
    with package_writer(tmp_path / "a.ptxcap") as writer:
        for seq in range(3):
            writer.add(in_memory(seq))
            assert not (tmp_path / "a.ptxcap").exists()
    assert len(open_capture(tmp_path / "a.ptxcap").launches) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.ptxcap"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, FileNotFoundError, SourceError])
def test_nothing_is_left_when_recording_fails(tmp_path: Path, in_memory, error: type[BaseException]) -> None:
    write([in_memory(1)], tmp_path / "a.ptxcap")
    with pytest.raises(error), package_writer(tmp_path / "a.ptxcap", overwrite=True) as writer:
        writer.add(in_memory(2))
        raise error("the kernel burned")
    assert [path.name for path in tmp_path.iterdir()] == ["a.ptxcap"]
    assert open_capture(tmp_path / "a.ptxcap").launches[0].seq == 1, "what was there is still there"


def test_nothing_is_left_when_the_disk_is_full(tmp_path: Path, in_memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"a\.ptxcap: cannot write the capture: No space left on device"):
        write([in_memory(1)], tmp_path / "a.ptxcap")
    assert list(tmp_path.iterdir()) == []


def test_overwriting(package: Path, in_memory) -> None:
    with pytest.raises(UsageError, match="there is a capture already"):
        write([in_memory(9)], package)
    assert len(open_capture(package).launches) == 2
    old = open_capture(package)
    write(old.launches[:1], package, overwrite=True)  # what is written may come from what is replaced
    assert [launch.seq for launch in open_capture(package).launches] == [5]
    assert [path.name for path in package.parent.iterdir()] == ["a.ptxcap"]


def test_what_is_not_a_capture_is_left_alone(tmp_path: Path, package: Path, in_memory) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "capture.json").write_text('{"screen": 1}')
    (package / "my notes.txt").write_text("x")
    (tmp_path / "link").symlink_to(package)
    for target in (mine, package, tmp_path / "link"):
        with pytest.raises(UsageError, match="not a capture"):
            write([in_memory()], target, overwrite=True)
    assert (mine / "capture.json").read_text() == '{"screen": 1}' and len(open_capture(package).launches) == 2


def test_an_empty_folder_may_become_a_capture(tmp_path: Path, in_memory) -> None:
    (tmp_path / "a.ptxcap").mkdir()
    write([in_memory()], tmp_path / "a.ptxcap")
    assert len(open_capture(tmp_path / "a.ptxcap").launches) == 1


def test_refusals(tmp_path: Path, in_memory) -> None:
    with pytest.raises(UsageError, match="no launch to write"):
        write(Capture(), tmp_path / "a.ptxcap")
    with pytest.raises(UsageError, match="there is a launch 5 in this capture already"):
        write([in_memory(5), in_memory(5)], tmp_path / "a.ptxcap")
    with pytest.raises(UsageError, match="no capture form"):
        convert(tmp_path, tmp_path / "b", form=cast(Any, "zip"))
    for name in ("no/a.ptxcap", "a\0b", "n" * 300):
        with pytest.raises(UsageError):
            write([in_memory()], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_capture_with_a_bad_launch_is_not_written_as_if_whole(tmp_path: Path, by_hand: Path) -> None:
    (by_hand / "replay/replay-000012-enc4/args.bin").unlink()
    capture = open_capture(by_hand)
    for writer in (write, write_directory):
        with pytest.raises(SourceError, match=r"args\.bin"):
            writer(capture, tmp_path / "out")
    write(capture.launches, tmp_path / "out")
    assert [launch.kernel for launch in open_capture(tmp_path / "out").launches] == ["dec0"]


def test_numpy_integers_are_integers(tmp_path: Path, in_memory, described) -> None:
    launch = in_memory(grid=tuple(np.array([2, 3, 4])), shared_bytes=np.int32(16))
    write([launch], tmp_path / "a.ptxcap")
    assert described(open_capture(tmp_path / "a.ptxcap").launch(5)) == described(launch)


def test_what_is_held_is_not_read_again(package: Path) -> None:
    launch = open_capture(package).launch(5)
    held = launch.before(0)[10:]
    for path in blobs(package):
        path.unlink()
    assert np.shares_memory(launch.before(0), held)
    del held
    with pytest.raises(SourceError):
        launch.before(0)


def test_a_bomb_is_not_unpacked(package: Path) -> None:
    path = blob_of(package, manifest(package)["launches"][0]["allocations"][0]["before"])
    path.write_bytes(zlib.compress(bytes(1 << 22)))
    launch = open_capture(package).launch(5)
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match="altered"):
            launch.before(0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_launches_travel_between_processes(package: Path, by_hand: Path, described, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(package.parent)
    for name in (package.name, by_hand.name):
        for launch in open_capture(name).launches:
            sent = pickle.dumps(launch)
            assert len(sent) < 5000, "contents are not sent, only where they are"
            monkeypatch.chdir("/")
            assert described(pickle.loads(sent)) == described(launch)
            monkeypatch.chdir(package.parent)


def test_a_process_that_dies_while_writing_leaves_no_capture(tmp_path: Path) -> None:
    program = """
import os, sys
from ptxgraft.capture import Allocation, Launch, package_writer
with package_writer(sys.argv[1]) as writer:
    for seq in range(9):
        if seq == 5:
            os._exit(7)
        writer.add(Launch(seq, "k", (1, 1, 1), (1, 1, 1), b"", allocations=[Allocation(0, 0, 3, b"abc")]))
"""
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.ptxcap")], check=False).returncode == 7
    assert not (tmp_path / "a.ptxcap").exists()
    for left in tmp_path.iterdir():
        with pytest.raises(SourceError, match="not a capture"):
            open_capture(left)
