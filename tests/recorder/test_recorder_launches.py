"""What is recorded of a launch: arguments, memory before and after, images, variables, module."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from ptxgraft import capture
from ptxgraft.run.recorder import Choice
from ptxgraft.run.recorder.triton import ptx_beside

BYTES_A = 2 << 20
START = np.arange(1024, dtype=np.uint32)


def words(contents: np.ndarray | None) -> np.ndarray:
    assert contents is not None
    return contents.view(np.uint32)


def test_a_launch_before_and_after(recorded) -> None:
    opened, made = recorded("fill")
    (launch,) = opened.launches
    assert (launch.kernel, launch.grid, launch.block, launch.shared_bytes) == ("fill", (2, 3, 4), (32, 1, 1), 128)
    (memory,) = launch.allocations
    assert launch.args == struct.pack("<QII", memory.base + 16, 3, 0x11223344)
    assert launch.pointers == [capture.Pointer(0, 0, 16)]
    assert memory.size == BYTES_A
    before = np.zeros(BYTES_A // 4, np.uint32)
    before[:1024] = START
    after = before.copy()
    after[4:7] = 0x11223344
    assert np.array_equal(words(memory.before), before) and np.array_equal(words(memory.after), after)
    assert not launch.cooperative and launch.cluster is None
    assert (made.exit_code, made.recorded, made.seen.launches, made.seen.kernels) == (0, 1, 1, ["fill"])


def test_all_ways_to_launch(recorded) -> None:
    opened, _ = recorded("add", "packed", "cooperative", "library")
    add, packed, cooperative, library = opened.launches
    a, b = add.allocations
    assert (add.cluster, add.cooperative, add.grid, add.block) == ((2, 1, 1), True, (2, 1, 1), (64, 1, 1))
    assert np.array_equal(words(a.after)[:1000], 2 * START[:1000]) and np.array_equal(words(b.after), START)
    assert add.pointers == [capture.Pointer(0, 0, 0), capture.Pointer(8, 1, 0)]
    assert packed.args == struct.pack("<QII", a.base, 2, 0x55)
    assert words(packed.after(0))[:3].tolist() == [0x55, 0x55, 4]
    assert cooperative.cooperative and cooperative.cluster is None
    assert library.allocations[0].base == b.base and words(library.after(0))[:2].tolist() == [6, 1]
    assert library.module != add.module and library.module is not None and b".entry fill(" in library.module


def test_the_module_is_the_text_that_was_loaded(recorded) -> None:
    launch = recorded("fill")[0].launches[0]
    assert (
        launch.module is not None
        and launch.module.startswith(b".version 9.0\n.target sm_90")
        and launch.module.endswith(b"slow() { ret; }\n")
    )
    assert launch.module_hash == hashlib.sha256(launch.module).hexdigest()
    assert launch.binary is None


def test_ptx_that_went_through_the_linker(recorded) -> None:
    launch = recorded("linked")[0].launches[0]
    assert launch.module is not None and b".entry fill(" in launch.module and b".entry shade" not in launch.module
    assert launch.binary is not None and launch.binary.tobytes()[:4] == b"\x7fELF" and launch.binary.nbytes == 64
    assert not launch.notes


def test_ptx_from_beside_tritons_cubin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Taken only when the cubin is the same, byte for byte."""
    entry = tmp_path / "triton" / "KEY"
    entry.mkdir(parents=True)
    text, cubin = b".version 8.0\n.visible .entry fill() { ret; }\n", bytes(range(64))
    (entry / "k.ptx").write_bytes(text)
    assert ptx_beside(cubin) == []
    (entry / "k.cubin").write_bytes(cubin)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    assert ptx_beside(cubin) == [text]
    assert ptx_beside(cubin[:-1] + b"x") == [] == ptx_beside(cubin[:-1])


def test_module_variables(recorded) -> None:
    opened, _ = recorded("count", "count")
    values = [(int(words(v.before)[0]), int(words(v.after)[0])) for launch in opened.launches for v in launch.variables]
    assert values == [(0, 1), (1, 2)]
    assert {v.name for launch in opened.launches for v in launch.variables} == {"counter"}
    assert all("the module variable lost is not recorded" in note for launch in opened.launches for note in launch.notes)


def test_textures_and_surfaces(recorded) -> None:
    launch = recorded("shade")[0].launches[0]
    texels = (3 * np.arange(60)).astype(np.uint8)
    (texture,), (surface,) = launch.textures, launch.surfaces
    assert (texture.arg_offset, texture.width, texture.height, texture.channels, texture.format, texture.dimensions) == (0, 5, 3, 4, 1, 2)
    assert (texture.filter, texture.address, texture.normalized, texture.integers) == ("linear", ("clamp", "border", "wrap"), True, False)
    assert (surface.arg_offset, surface.width, surface.height, surface.channels) == (8, 5, 3, 4)
    assert np.array_equal(texture.contents(), texels)
    assert not surface.contents().any() and np.array_equal(surface.contents("after"), texels + 1)
    assert launch.u64(0) == texture.handle and launch.u64(8) == surface.handle


def test_a_pointer_behind_the_end_and_one_in_mapped_memory(recorded) -> None:
    opened, _ = recorded("end-pointer", "mapped")
    end, mapped = opened.launches
    assert end.pointers == [capture.Pointer(0, 0, 4096)] and end.allocations[0].size == 4096
    assert (mapped.allocations[0].base, mapped.allocations[0].size) == (0x210000000000, 3 * 4096)
    assert words(mapped.after(0))[0x1010 // 4 :][:3].tolist() == [5, 5, 0]


def test_two_pointers_into_one_allocation(recorded) -> None:
    launch = recorded("add-itself")[0].launches[0]
    assert launch.pointers == [capture.Pointer(0, 0, 0), capture.Pointer(8, 0, 64)] and len(launch.allocations) == 1
    assert words(launch.after(0))[:6].tolist() == [16, 18, 20, 22, 4, 5]


def test_pointers_inside_memory_are_reported_not_followed(recorded) -> None:
    launch = recorded("hide-pointer", "fill")[0].launches[0]
    assert len(launch.allocations) == 1
    (note,) = [n for n in launch.notes if "look like pointers" in n]
    assert "holds 1 words" in note and "byte 24: 0x2000" in note


def test_names_come_from_the_driver_when_cupti_has_none(recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NO_SYMBOLS", "1")
    assert [x.kernel for x in recorded("fill", "add")[0].launches] == ["fill", "add"]


def test_equal_contents_are_stored_once(recorded, tmp_path) -> None:
    def blobs() -> int:
        return len(list((tmp_path / "made.ptxcap" / "blobs").iterdir()))

    recorded("fill")
    once = blobs()
    recorded(*["fill"] * 10)
    assert blobs() == once


@pytest.mark.parametrize(
    ("choice", "kernels"),
    [
        (Choice("^a.d$"), ["add", "add"]),
        (Choice("fill|add", (2, 3)), ["add", "add"]),
        (Choice(nth=(1,)), ["fill"]),
        (Choice("add", (2,)), ["add"]),
    ],
)
def test_choosing_launches(recorded, choice: Choice, kernels: list[str]) -> None:
    opened, made = recorded("fill", "add", "add", "count", choice=choice)
    assert [x.kernel for x in opened.launches] == kernels
    assert made.seen.launches == 4


def test_the_sequence_number_is_the_launch_in_the_program(recorded) -> None:
    assert [x.seq for x in recorded("fill", "add", "fill", choice=Choice("fill"))[0].launches] == [0, 2]


def test_what_is_beyond_max_bytes_is_left_out_and_said(recorded) -> None:
    launch = recorded("add", choice=Choice(max_bytes=10_000))[0].launches[0]
    assert [a.size for a in launch.allocations] == [4096]
    assert launch.pointers == [capture.Pointer(8, 0, 0)]
    assert any("was left out" in n and "--max-bytes" in n and str(BYTES_A) in n for n in launch.notes)


def test_threads_do_not_mix(recorded) -> None:
    """Each launch makes two stores with a pause between them: had another thread's launch run meanwhile, its memory would show half of it."""
    opened, made = recorded("threads")
    assert made.recorded == 80
    by_memory: dict[int, list[tuple[int, int]]] = {}
    for launch in opened.launches:
        (memory,) = launch.allocations
        by_memory.setdefault(memory.base, []).append((int(words(memory.before)[0]), int(words(memory.after)[0])))
    assert len(by_memory) == 4
    assert all(steps == [(2 * i, 2 * i + 2) for i in range(20)] for steps in by_memory.values())


def test_all_kinds_of_textures(recorded) -> None:
    opened = recorded("kinds")[0]
    line, box, lines, layers, cube, levels, linear, plane = [x.textures[0] for x in opened.launches[:8]]
    assert (line.dimensions, line.width, line.height, line.layered) == (1, 7, 1, False)
    assert np.array_equal(line.arrays()[0], np.arange(14, dtype=np.uint8).reshape(7, 2))
    assert (box.dimensions, box.arrays()[0].shape, box.arrays()[0].dtype) == (3, (2, 3, 4, 2), np.float32)
    assert (lines.layered, lines.arrays()[0].shape) == (True, (3, 5, 2))
    assert (layers.layered, layers.cube, layers.arrays()[0].shape) == (True, False, (5, 3, 4, 2))
    assert (cube.cube, cube.seamless, cube.layered, cube.arrays()[0].shape) == (True, True, False, (6, 4, 4, 2))
    assert levels.mipmaps == capture.Mipmaps(3, "linear", 0.5, 0.25, float("inf"))
    assert [a.shape for a in levels.arrays()] == [(4, 8, 1), (2, 4, 1), (1, 2, 1)]
    assert [set(a.ravel().tolist()) for a in levels.arrays()] == [{1}, {2}, {3}]
    assert (linear.dimensions, linear.integers, linear.linear) == (1, True, True) and np.array_equal(linear.arrays()[0].ravel(), START[:10])
    rows = [START.view(np.uint8)[at : at + 8] for at in (0, 512, 1024)]
    assert np.array_equal(plane.contents(), np.concatenate(rows)) and (plane.width, plane.height, plane.channels) == (2, 3, 4)
    assert any("a resource view" in note for note in opened.launches[7].notes)
    unknown = opened.launches[8]
    assert not unknown.textures and any("format 153" in note for note in unknown.notes)


def test_a_number_is_no_texture_where_the_module_reads_none(recorded) -> None:
    shade, number = recorded("shade", "number")[0].launches
    assert [t.handle for t in shade.textures] == [1] and number.u64(0) == 1
    assert not number.images


def test_a_large_allocation(recorded) -> None:
    launch = recorded("large")[0].launches[0]
    before = np.arange(10 << 20, dtype=np.uint32) >> 16
    after = before.copy()
    after[: 1 << 19] = 5
    assert np.array_equal(words(launch.before(0)), before) and np.array_equal(words(launch.after(0)), after)
