"""The benchmark of styles on a GPU: its launches, its reading of machine code, its variants. No timing is asserted."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import device_styles
from ptxgraft.graft import STYLES, assemble, cut, find_ptxas
from ptxgraft.run import execute
from ptxgraft.run.reference import reference_document, reference_launch

SHIPPED = {"enc4": (22, 14), "dec0": (39, 46)}
"""The shipped frame's token grids."""
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas")


@pytest.mark.parametrize("layer", SHIPPED)
def test_a_launch_of_the_shipped_size_is_the_shipped_one(layer: str) -> None:
    document = reference_document(layer)
    made, wanted = device_styles.full_size(layer, document, SHIPPED[layer]), reference_launch(layer, document)
    assert (made.grid, made.block, made.args) == (wanted.grid, wanted.block, wanted.args)
    assert [s.array.shape for s in made.surfaces.values()] == [s.array.shape for s in wanted.surfaces.values()]
    assert all((a.array == b.array).all() for a, b in zip(made.textures.values(), wanted.textures.values(), strict=True))


def test_the_full_sizes_are_the_fields() -> None:
    grids = [device_styles.full_size(n, reference_document(n), device_styles.TOKENS[n]).grid for n in ("enc4", "dec0")]
    assert grids == [(10, 6, 1), (161, 93, 1)]


def test_a_larger_frame_runs_and_writes_all_of_its_surfaces() -> None:
    launch = device_styles.full_size("dec0", reference_document("dec0"), (48, 16))
    for surface in launch.surfaces.values():
        surface.array.view(np.uint8)[...] = 0xA5
    execute(launch, engine="warp")
    rows, columns = 16 * 2, 48 * 4
    for surface in launch.surfaces.values():
        inside = surface.array[2 : 2 + rows, 2 : 2 + columns]
        assert inside.shape[:2] == (rows, columns)
        assert (inside.view(np.uint8) != 0xA5).any(axis=-1).all()


@needs_ptxas
def test_a_section_of_a_cubin_is_found_by_name() -> None:
    document = reference_document("dec0")
    result = assemble(cut(document, "dec0", "p0", style="call").document)
    assert result.cubin is not None
    code = device_styles.section(result.cubin, ".text.dec0")
    assert len(code) > 1000 and len(code) % 16 == 0 and code in result.cubin
    assert device_styles.section(result.cubin, ".text.none") == b""


def test_the_cut_without_spills_gives_the_same_bytes_and_spills_nothing() -> None:
    document = reference_document("dec0")
    made = device_styles.without_spills("dec0", document)
    assert made.plan is not None and made.plan.spill_words == 0 and not any(c.across for c in made.plan.calls)
    launches = [reference_launch("dec0", d) for d in (document, made.document)]
    for launch in launches:
        execute(launch, engine="warp")
    first, second = ([s.array.tobytes() for s in launch.surfaces.values()] for launch in launches)
    assert first == second
    again = cut(document, "dec0", style="phases", block=(32, 1, 1))
    assert again.plan is not None and again.plan.spill_words > 0
    assert "phases" in STYLES
