"""Captures made from runs and runs made from captures; watched stores; stopping at a statement."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from test_run_kernel import HEAD, SAXPY

import ptxgraft
from ptxgraft import capture, run
from ptxgraft.errors import SourceError, UnsupportedError, UsageError
from ptxgraft.isa import bind
from ptxgraft.run import interpreter
from ptxgraft.text import Document
from ptxgraft.verify import compare, recorded_outputs, replay

ENGINES = ("numpy", "warp")

PAINT = (
    HEAD
    + """
.global .align 4 .u32 runs = 5;
.visible .entry paint(.param .u64 from, .param .u64 to, .param .u64 weights, .param .u32 add)
{
    .reg .b32 %r<8>; .reg .b64 %rd<6>; .reg .f32 %f<7>;
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; ld.param.u64 %rd3, [weights]; ld.param.u32 %r4, [add];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; cvt.rn.f32.u32 %f5, %r1; cvt.rn.f32.u32 %f6, %r2;
    tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];
    cvt.rzi.u32.f32 %r5, %f1; add.u32 %r5, %r5, %r4;
    shl.b32 %r3, %r1, 2;
    sust.b.2d.b32.trap [%rd2, {%r3, %r2}], {%r5};
    atom.global.add.u32 %r6, [%rd3], %r5;
    atom.global.add.u32 %r7, [runs], 1;
    ret;
}
"""
)


def painted() -> tuple[run.Launch, capture.Launch]:
    """A launch that has run, and its record."""
    kernel = ptxgraft.load(PAINT).kernel("paint", engine="numpy")
    pixels = np.arange(2 * 5, dtype=np.float32).reshape(2, 5, 1)
    weights = np.full(8, 3, np.uint32)
    prepared = kernel.prepare(
        2, 5, [ptxgraft.Texture(pixels, filter="linear"), ptxgraft.Surface(np.zeros((2, 5, 1), np.uint32)), weights, 100]
    )
    before = run.snapshot(prepared.launch)
    run.execute(prepared.launch, engine="numpy")
    return prepared.launch, run.capture_of(prepared.launch, before, seq=7)


def test_a_run_becomes_a_capture() -> None:
    _, recorded = painted()
    assert recorded.label == "launch 7 (paint)" and recorded.grid == (2, 1, 1) and recorded.block == (5, 1, 1)
    assert recorded.module_hash == hashlib.sha256(PAINT.encode()).hexdigest() and recorded.module == PAINT.encode()
    assert [(p.offset, p.allocation, p.delta) for p in recorded.pointers] == [(16, 0, 0)]
    texture, surface = recorded.images
    assert (texture.kind, texture.arg_offset, texture.format) == ("texture", 0, 32)
    assert (texture.width, texture.height, texture.channels) == (5, 2, 1)
    assert (texture.filter, texture.address, texture.normalized) == ("linear", ("clamp",) * 3, False)
    assert not surface.texels("before").any()
    assert surface.texels("after")[1, 4, 0] == 106, "between four texels: (3 + 4 + 8 + 9) / 4"
    total = int(surface.texels("after").sum())
    assert recorded.before(0).view(np.uint32)[0] == 3 and recorded.after(0).view(np.uint32)[0] == 3 + total
    assert recorded.variables[0].name == "runs"
    assert (recorded.variables[0].before.view(np.uint32)[0], recorded.variables[0].after.view(np.uint32)[0]) == (5, 15)
    recorded.check()


@pytest.mark.parametrize("form", ["package", "directory"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_capture_runs_again_with_the_same_bytes(form: str, engine: str, tmp_path) -> None:
    _, recorded = painted()
    write = capture.write if form == "package" else capture.write_directory
    path = tmp_path / "made.ptxcap"
    write([recorded], path)
    read = capture.open_capture(path).launch("paint")
    program = bind(Document.parse(PAINT), "paint")
    launch = run.launch_from_capture(program, read, assume=run.Assume(filter="linear"))
    if form == "package":
        assert launch.notes == []
    else:
        assert len(launch.notes) == 1 and launch.notes[0].startswith(
            "launch 7 (paint): the texture at argument offset 0 does not say all; taken: "
        )
    held = read.before(0).copy()
    run.execute(launch, engine=engine)
    np.testing.assert_array_equal(launch.allocations[0].data, recorded.after(0))
    np.testing.assert_array_equal(launch.surfaces[read.surfaces[0].handle].array, recorded.surfaces[0].texels("after"))
    np.testing.assert_array_equal(read.before(0), held)
    if form == "package":
        np.testing.assert_array_equal(launch.variables["runs"].data, recorded.variables[0].after)


def test_a_surface_that_was_not_recorded_before_is_poisoned() -> None:
    _, recorded = painted()
    recorded.surfaces[0].before = None
    program = bind(Document.parse(PAINT), "paint")
    array = next(iter(run.launch_from_capture(program, recorded).surfaces.values())).array
    assert (array == 0xA5A5A5A5).all()
    assert not next(iter(run.launch_from_capture(program, recorded, poison=None).surfaces.values())).array.any()


def test_captures_that_cannot_run() -> None:
    _, recorded = painted()
    with pytest.raises(UsageError, match="argument block has 28 bytes, its parameters take only 12"):
        run.launch_from_capture(bind(Document.parse(HEAD + ".visible .entry k(.param .u64 a, .param .u32 b) { ret; }"), "k"), recorded)
    recorded.textures[0].format = 999
    with pytest.raises(
        SourceError, match="the texture at argument offset 0 has the unknown format 999; the launch can be shown but not run"
    ):
        run.launch_from_capture(bind(Document.parse(PAINT), "paint"), recorded)


# -- watching -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
def test_watched_stores_say_who_stored(engine: str) -> None:
    kernel = ptxgraft.load(SAXPY).kernel("saxpy", engine=engine)
    x, y = np.ones(300, np.float32), np.ones(300, np.float32)
    launch = kernel.prepare((3,), (128,), [300, 2.0, x, y]).launch
    base = launch.allocations[1].base
    result = run.execute(launch, engine=engine, watch=[run.Watch("memory", base, 4 * 200 + 3, 2), run.Watch("memory", base, 4 * 300, 4)])
    store = next(i.index for i in launch.program.instructions if i.statement.opcode == "st.global.f32")
    assert result.stores == [
        run.StoreRecord(store, (1, 0, 0), 2, lane, "memory", base, 4 * element, 4) for element, lane in ((200, 8), (201, 9))
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_watched_surfaces_and_atomics(engine: str) -> None:
    kernel = ptxgraft.load(PAINT).kernel("paint", engine=engine)
    args = [ptxgraft.Texture(np.zeros((2, 5, 1), np.float32)), ptxgraft.Surface(np.zeros((2, 5, 1), np.uint32)), np.zeros(1, np.uint32), 1]
    launch = kernel.prepare(2, 5, args).launch
    (handle,) = launch.surfaces
    base = launch.allocations[0].base
    result = run.execute(launch, engine=engine, watch=[run.Watch("surface", handle, 24, 4), run.Watch("memory", base, 0, 4)], threads=1)
    assert [(s.kind, s.block[0], s.lane, s.offset, s.size) for s in result.stores if s.kind == "surface"] == [("surface", 1, 1, 24, 4)]
    assert sorted((s.block[0], s.lane) for s in result.stores if s.kind == "memory") == [(b, i) for b in range(2) for i in range(5)]
    with pytest.raises(UsageError, match="0x5 is no surface of this launch"):
        run.execute(launch, engine=engine, watch=[run.Watch("surface", 5, 0, 4)])


# -- stopping -------------------------------------------------------------------------------------------------------------
def test_every_register_can_be_seen_at_every_statement() -> None:
    kernel = ptxgraft.load(SAXPY).kernel("saxpy", engine="numpy")
    y = np.ones(100, np.float32)
    prepared = kernel.prepare(1, 128, [100, 2.0, np.arange(100, dtype=np.float32), y])
    program = prepared.launch.program
    names = {r.name: r.id for r in program.registers}
    fma = next(i.index for i in program.instructions if i.statement.opcode.startswith("fma"))
    seen = []

    def before(state: interpreter.State, index: int) -> bool:
        if index == fma:
            seen.append((state.register(names["%f2"]).copy(), state.register(names["%f4"]).copy(), state.executing.copy(), state.blocks))
        return False

    def after(state: interpreter.State, index: int) -> bool:
        if index == fma:
            seen.append(state.register(names["%f4"]).copy())
        return index == fma

    interpreter.run(prepared.launch, "sm_90", before=before, after=after)
    (f2, f4_before, executing, blocks), f4 = seen
    assert f2.shape == (4, 32) and blocks == [(0, 0, 0)]
    np.testing.assert_array_equal(f2.view(np.float32).reshape(-1)[:100], np.arange(100))
    assert not f4_before.any()
    assert executing.reshape(-1).tolist() == [True] * 100 + [False] * 28
    np.testing.assert_array_equal(f4.view(np.float32).reshape(-1)[:100], 2 * np.arange(100) + 1)
    prepared.bring_back()
    assert y.tolist() == [1.0] * 100, "stopped before the store"


def test_every_statement_is_passed_once_for_each_warp_group() -> None:
    launch = (
        ptxgraft.load(SAXPY).kernel("saxpy", engine="numpy").prepare(1, 32, [5, 1.0, np.ones(5, np.float32), np.ones(5, np.float32)]).launch
    )
    passed: list[int] = []
    result = interpreter.run(launch, "sm_90", before=lambda state, index: passed.append(index))
    assert passed == list(range(18)) and result.statements == 18


def test_arguments_keep_their_bytes() -> None:
    launch, recorded = painted()
    assert recorded.args == launch.args and struct.unpack_from("<I", recorded.args, 24) == (100,)


def test_a_launch_recorded_with_clusters_is_refused_where_the_kernel_sees_them() -> None:
    text = HEAD + ".visible .entry k() { .reg .b32 %r<2>;\n mov.u32 %r1, %cluster_ctarank;\n ret; }\n"
    program = bind(Document.parse(text.replace(".version 7.0", ".version 8.0")), "k")
    for cluster in (None, (1, 1, 1)):
        run.launch_from_capture(program, capture.Launch(0, "k", (2, 1, 1), (32, 1, 1), b"", cluster=cluster))
    with pytest.raises(UnsupportedError, match="clusters of 2 blocks"):
        run.launch_from_capture(program, capture.Launch(0, "k", (2, 1, 1), (32, 1, 1), b"", cluster=(2, 1, 1)))


@pytest.mark.parametrize("shape", [(5, 2), (3, 5, 2), (4, 3, 5, 2)])
def test_images_keep_their_dimensions(shape: tuple[int, ...]) -> None:
    prepared = ptxgraft.load(PAINT).kernel("paint").prepare(1, 1, [ptxgraft.Texture(np.arange(np.prod(shape), dtype=np.uint8).reshape(shape), integers=True),
                                                                 ptxgraft.Surface(np.zeros((2, 2, 1), np.uint32)), np.zeros(1, np.uint32), 0])  # fmt: skip
    recorded = capture_of_launch(prepared.launch)
    (again,) = run.launch_from_capture(prepared.launch.program, recorded).textures.values()
    assert again.array.shape == shape and again.integers


def capture_of_launch(launch: run.Launch) -> capture.Launch:
    return run.capture_of(launch, run.snapshot(launch))


TABLE = """.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .global .align 8 .u64 table[2] = {7, generic(counter)};
.visible .entry k(.param .u64 out)
{ .reg .b64 %rd<4>; .reg .b32 %r<2>; ld.param.u64 %rd1, [out]; mov.u64 %rd2, table; ld.global.u64 %rd3, [%rd2+8];
  atom.global.add.u32 %r1, [%rd3], 1; st.global.u32 [%rd1], %r1; ret; }
"""


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_addresses_in_module_variables_are_those_of_the_launch(engine) -> None:
    """As recorded in another process, where the variables lay elsewhere."""
    prepared = ptxgraft.load(TABLE).kernel("k").prepare(1, 1, [np.zeros(1, np.uint32)])
    before = run.snapshot(prepared.launch)
    run.execute(prepared.launch, engine=engine)
    recorded = run.capture_of(prepared.launch, before)
    for variable in recorded.variables:
        if variable.name == "table":
            elsewhere = np.frombuffer(struct.pack("<QQ", 7, 0x7FFF_1234_5678), np.uint8)
            variable.before, variable.after = elsewhere, elsewhere
    ran = replay(recorded, engine=engine)
    assert compare(recorded_outputs(recorded), ran.outputs).verdict == "same"
    assert ran.outputs[0].data.tobytes() == struct.pack("<I", 5)
