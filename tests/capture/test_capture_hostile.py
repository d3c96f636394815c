"""Manifests that say anything: an error of the right class or a launch, never another exception, and never a write."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ptxgraft.capture import Allocation, Capture, Image, Launch, Pointer, open_capture, write
from ptxgraft.errors import SourceError, UsageError

ARGS = bytes(range(64))
GOOD = b"kernel k\ndims 1 2 3 4 5 6 7\nalloc 0 0x1000 16\nalloc 1 2000 0\npointer 8 0 4\npointer 16 1 0\n"
FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

numbers = st.one_of(
    st.integers(-3, 70).map(str),
    st.sampled_from(["0x10", "1e3", "1_0", "18446744073709551615", "18446744073709551616", "9" * 4400, "-0", "+7", "0x", "\u0661", "nan"]),
)
words = st.one_of(
    numbers,
    st.sampled_from(["alloc", "pointer", "kernel", "..", "/etc/passwd", "a/../b", "\x00", "\x85", "\u2028", "-"]),
    st.text(max_size=6),
)
lines = st.one_of(
    st.builds(
        lambda head, rest: " ".join([head, *rest]), st.sampled_from(["alloc", "pointer", "kernel k", "dims"]), st.lists(numbers, max_size=9)
    ),
    st.lists(words, max_size=5).map(" ".join),
)
manifests = st.one_of(
    st.binary(max_size=200),
    st.lists(lines, max_size=8).map(lambda found: "\n".join(found).encode("utf-8", "surrogatepass")),
    st.lists(lines, max_size=8).map(lambda found: GOOD + "\n".join(found).encode("utf-8", "surrogatepass")),
    st.builds(
        lambda at, new, cut: GOOD[: at % len(GOOD)] + new + GOOD[at % len(GOOD) + cut :],
        st.integers(0, 200), st.one_of(st.binary(max_size=4), words.map(lambda w: w.encode("utf-8", "surrogatepass"))), st.integers(0, 12),
    ),
)  # fmt: skip


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def contents(root: Path) -> dict[str, bytes | None]:
    return {os.path.relpath(p, root): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


def ask_everything(capture: Capture) -> None:
    for error in capture.problems:
        str(error).encode()
    for note in capture.notes:
        assert "\n" not in note and note.encode()
    questions = [
        lambda launch: [(a.before, a.after) for a in launch.allocations],
        lambda launch: [i.contents("after") for i in launch.images],
        lambda launch: [i.pixels("before") for i in launch.images],
        lambda launch: launch.weight_image(8),
        lambda launch: launch.arena(),
        lambda launch: launch.relocated_args({0: 1 << 60}),
        lambda launch: (launch.u32(0), launch.module, [v.before for v in launch.variables]),
    ]
    for launch in capture.launches:
        launch.check()
        for question in questions:
            try:
                question(launch)
            except (SourceError, UsageError) as error:
                assert "\n" not in str(error)


def try_all(path: Path) -> None:
    try:
        ask_everything(open_capture(path))
    except SourceError as error:
        assert str(error).encode()


@FEW
@given(manifests, st.sampled_from([0, 15, 23, 64]))
@example(GOOD, 64)
def test_directory_manifests(text: bytes, argument_bytes: int) -> None:
    with folder() as root:
        home = root / "CAP/replay/replay-000001-k"
        home.mkdir(parents=True)
        (home / "manifest.txt").write_bytes(text)
        (home / "args.bin").write_bytes(ARGS[:argument_bytes])
        (home / "alloc-0.bin").write_bytes(bytes(16))
        (home / "alloc-1.bin").write_bytes(b"")
        before = contents(root)
        try_all(root / "CAP")
        assert contents(root) == before
        if (text, argument_bytes) == (GOOD, 64):
            assert open_capture(root / "CAP").launch(1).shared_bytes == 7, "the starting point itself is right"


name_parts = st.one_of(
    st.sampled_from(
        ["001", "k", "arg008", "buffer", "texture", "2x1x1", "99999999999x1x1", "fmt32.bin", "fmt1.bin", "base0x1000+", "base0x+", ""]
    ),
    st.text("ab.\n\x7f\u00e9", max_size=3),
)


@FEW
@given(st.lists(st.lists(name_parts, max_size=5), max_size=4), st.binary(max_size=300))
def test_dump_names_and_logs(names: list[list[str]], log: bytes) -> None:
    with folder() as root:
        home = root / "CAP/replay/replay-000001-k"
        home.mkdir(parents=True)
        (root / "CAP/run").mkdir()
        (root / "CAP/dump").mkdir()
        (home / "manifest.txt").write_bytes(GOOD)
        (home / "args.bin").write_bytes(ARGS)
        (home / "alloc-0.bin").write_bytes(bytes(16))
        (home / "alloc-1.bin").write_bytes(b"")
        (root / "CAP/run/run.log").write_bytes(b"cuTexObjectCreate" + log + b"\nlaunch[1] " + log)
        for parts in names:
            (root / "CAP/dump" / "-".join(["launch-001-k", *parts])).write_bytes(bytes(8))
        try_all(root / "CAP")


def package() -> dict[str, bytes | None]:
    with folder() as root:
        launch = Launch(
            1, "k", (1, 2, 3), (4, 5, 6), ARGS, 7,
            allocations=[Allocation(0, 0x1000, 16, np.zeros(16, np.uint8), np.ones(16, np.uint8)), Allocation(1, 0x2000, 0, b"")],
            pointers=[Pointer(8, 0, 4)], module=b".version 8.0",
            textures=[Image("texture", 16, int.from_bytes(ARGS[16:24], "little"), 2, 1, 1, 1, "point", ("wrap",), False, before=b"\1\2", dimensions=1, linear=True)],
            binary=b"\x7fELF", cooperative=True, cluster=(2, 1, 1), notes=["allocation 2 was left out"],
        )  # fmt: skip
        write(Capture([launch], remarks=["process 1: 2 launches seen"]), root / "a")
        return contents(root / "a")


PACKAGE = package()
TREE = json.loads(PACKAGE["capture.json"] or b"")

values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-2, 70), st.sampled_from([1 << 63, 1 << 64, 10**400, -1.5, float("inf"), "0x1000", "..", "f" * 64, "\ud800", "\n"]),
        st.text(max_size=4),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["size", "chunks", "seq", "x"]), inner, max_size=3)),
    max_leaves=4,
)  # fmt: skip


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def lay_out(root: Path, manifest: bytes) -> Path:
    target = root / "a"
    (target / "blobs").mkdir(parents=True)
    for name, data in PACKAGE.items():
        if data is not None:
            (target / name).write_bytes(data)
    (target / "capture.json").write_bytes(manifest)
    return target


@FEW
@given(st.lists(st.tuples(st.sampled_from(list(places(TREE))), values, st.booleans()), min_size=1, max_size=3))
def test_package_manifests(edits: list[tuple[tuple[Any, ...], Any, bool]]) -> None:
    tree = copy.deepcopy(TREE)
    for path, value, remove in edits:
        holder = tree
        try:
            for key in path[:-1]:
                holder = holder[key]
            if remove:
                del holder[path[-1]]
            else:
                holder[path[-1]] = value
        except (LookupError, TypeError):
            continue  # an earlier edit took this place away
    with folder() as root:
        target = lay_out(root, json.dumps(tree).encode())
        before = contents(root)
        try_all(target)
        assert contents(root) == before


@FEW
@given(st.integers(0, 4000), st.binary(max_size=4), st.integers(0, 40))
def test_package_manifest_bytes(at: int, new: bytes, cut: int) -> None:
    text = PACKAGE["capture.json"] or b""
    at %= len(text)
    with folder() as root:
        try_all(lay_out(root, text[:at] + new + text[at + cut :]))


def test_the_unchanged_package_is_right() -> None:
    with folder() as root:
        capture = open_capture(lay_out(root, PACKAGE["capture.json"] or b""))
        ask_everything(capture)
        assert capture.problems == [] and capture.launch(1).after(0).all()


def test_folders_that_lead_back_to_themselves() -> None:
    with folder() as root:
        (root / "CAP/replay").mkdir(parents=True)
        (root / "CAP/replay/replay-000001-k").symlink_to(root / "CAP/replay/replay-000001-k")
        (root / "CAP/replay/replay-000002-k").symlink_to(root / "CAP")
        (root / "CAP/dump").symlink_to(root / "CAP/dump")
        try_all(root / "CAP")
        (root / "CAP/dump").unlink()
        capture = open_capture(root / "CAP")
        assert len(capture.problems) == 2 and capture.launches == []
        shutil.rmtree(root / "CAP/replay")
        (root / "CAP/replay").symlink_to(root / "CAP/replay")
        try_all(root / "CAP")
