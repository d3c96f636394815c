"""The reference layers: all styles, both engines' bytes, ptxas's verdict, and the shared array that is or is not dead."""

from __future__ import annotations

import numpy as np
import pytest
from graft_kernels import MIXED, document, run_mixed

from ptxgraft.flow import Flow
from ptxgraft.graft import FILL, STYLES, assemble, cut, find_ptxas, probe, read_probe, wrong_fragment_body
from ptxgraft.graft.region_choice import choose_region
from ptxgraft.graft.shared_base import dead_array
from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.run.reference import reference_document, reference_launch
from ptxgraft.text import Document

LAYERS = ("enc4", "dec0")
WRONG = {"enc4": ("inline", "phases"), "dec0": ("call", "mirror")}
"""Styles in which a wrong body is tried, too."""
BLOCKS = {"enc4": (32, 1, 4), "dec0": (32, 1, 1)}
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")


@pytest.fixture(scope="module", params=LAYERS)
def layer(request: pytest.FixtureRequest) -> str:
    return request.param


def outputs(layer: str, module: Document) -> list[bytes]:
    launch = reference_launch(layer, module)
    execute(launch, engine="warp")
    return [s.array.tobytes() for s in launch.surfaces.values()]


def test_identity_cuts_give_the_layers_bytes(layer: str):
    module = reference_document(layer)
    expected = outputs(layer, module)
    wrong = wrong_fragment_body(module, layer, 3)
    for style in STYLES:
        made = cut(module, layer, style=style, body="identity", block=BLOCKS[layer])
        assert outputs(layer, made.document) == expected
        if style in WRONG[layer]:
            assert outputs(layer, cut(module, layer, style=style, body=wrong, block=BLOCKS[layer]).document) != expected


@needs_ptxas
def test_the_identity_graft_costs_nothing(layer: str):
    module = reference_document(layer)
    original = assemble(module)
    inline = assemble(cut(module, layer).document)
    mirror = assemble(cut(module, layer, style="mirror").document)
    assert original.ok and inline.ok and mirror.ok and mirror.relocatable
    assert inline.usage() == original.usage()


@pytest.mark.parametrize(("layer", "stage"), [("enc4", "p4"), ("dec0", "p4"), ("dec0", "out")])
def test_a_stage_of_a_layer_reads_alike_in_all_styles(layer: str, stage: str):
    module = reference_document(layer)
    found = []
    for target in (module, *(cut(module, layer, style=s, body="identity", block=BLOCKS[layer]) for s in STYLES)):
        made = probe(target, layer, stage)
        launch = reference_launch(layer, target if target is module else target.document)
        slots = made.slots_needed(launch.grid, launch.block)
        buffer = allocate(0x6_0000_0000, np.full(slots * made.slot_bytes, FILL, np.uint8), "probe")
        probed = Launch(
            bind(made.document, layer), launch.grid, launch.block, made.argument_bytes(launch.args, buffer.base, slots),
            allocations=[*launch.allocations, buffer], textures=launch.textures, surfaces=launch.surfaces,
        )  # fmt: skip
        execute(probed, engine="warp", blocks=[0, 1])
        found.append(read_probe(made, buffer.data, launch.grid, launch.block, bits=True))
    assert all(list(values) == list(found[0]) for values in found)
    assert all((values[n] == found[0][n]).all() for values in found for n in found[0])


# -- the array that results come back through -----------------------------------------------------------------------------------


DEAD = MIXED.replace("\tld.shared.u32 %r11, [staging+8];\n", "\tld.shared.u32 %r11, [staging+8];\n\tbar.sync 0;\n").replace(
    "staging[512]", "staging[1024]"
)
WINDOW = ("cvt.u64.u32 %rd10, %r22", "add.u64 %rd11")


def window(text: str) -> tuple[int, int]:
    rows = text.splitlines()
    first, last = (next(i for i, row in enumerate(rows, 1) if w in row) for w in WINDOW)
    return first, last


def found_dead(text: str) -> str | None:
    flow = Flow(bind(document(text), "mixed"))
    variable = dead_array(flow, choose_region(flow, window(text)), 768)
    return variable.name if variable is not None else None


def test_a_dead_array_is_used_again():
    text = DEAD.replace("\t.local .align 4 .b8 depot[16];\n", "").replace("\tmov.u64 %rd7, depot;\n", "")
    text = text.replace("\tst.local.u32 [depot+4], %r17;\n", "").replace("\tld.local.u32 %r18, [%rd7+4];\n", "\tmov.u32 %r18, %r17;\n")
    assert found_dead(text) == "staging"
    module = document(text)
    made = cut(module, "mixed", window(text), style="mirror", body="identity")
    assert "pg_mirror" not in made.text.decode()
    assert made.notes == ["results come back through staging (768 of its 1024 bytes), which is dead from the cut on"]
    assert (run_mixed(made.document) == run_mixed(module)).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("\tbar.sync 0;\n\tld.param.f32 %f1", "\tld.param.f32 %f1"), "no barrier after the last access"),
        (("\tbar.sync 0;\n\tld.param.f32 %f1", "\t@%p1 bar.sync 0;\n\tld.param.f32 %f1"), "a guarded barrier"),
        (("\tbar.sync 0;\n\tld.param.f32 %f1", "\tbar.sync 1;\n\tld.param.f32 %f1"), "two barriers of different numbers"),
        (("\tbar.sync 0;\n\tld.param.f32 %f1", "\tbar.sync 0, 96;\n\tld.param.f32 %f1"), "a barrier of some threads"),
        (("st.global.f64 [%rd11+24], %fd2;", "ld.shared.u32 %r11, [staging];\n\tst.global.f64 [%rd11+24], %fd2;"), "read after the region"),
        (("staging[1024]", "staging[512]"), "too small"),
        (("LOOP:\n", "LOOP:\n\tbar.sync 0;\n"), "a barrier in a loop"),
        (("\t@%p4 bra LOOP;\n", "\tbar.sync 0;\n\t@%p4 bra LOOP;\n\tbar.sync 0;\n"), "a barrier in a loop and one behind it"),
        (("mul.wide.u32 %rd9, %r4, 4;", "mul.wide.u32 %rd9, %r4, 4;\n\tld.u32 %r25, [%rd1];"), "a generic access"),
        (("mul.wide.u32 %rd9, %r4, 4;", "mul.wide.u32 %rd9, %r4, 4;\n\tld.shared.u32 %r25, [%r25];"), "an unknown shared address"),
    ],
)
def test_an_array_that_is_not_proved_dead_is_left_alone(change: tuple[str, str], reason: str):
    assert found_dead(DEAD) == "staging"
    assert change[0] in DEAD
    assert found_dead(DEAD.replace(*change)) is None, reason
