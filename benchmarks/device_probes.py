"""Probes on a GPU and on the reference engine: every stage of the reference layers, loops with passages, cuts from recipes, and the long layer's cut.

Invariant: values are compared as bits, stage by stage; what differs and is no texture's or surface's handle (each executor has its own) is counted apart. Run
``python -m benchmarks.device_probes``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import recording
from ptxgraft import capture, data
from ptxgraft.graft import Reading, apply, cut
from ptxgraft.run import Launch, Module, Texture, capture_of, cuda, execute, snapshot
from ptxgraft.run.reference import reference_document, reference_launch
from ptxgraft.text import Document
from ptxgraft.verify import compare, consult, make_oracle, replay

ROOT = Path(__file__).parents[1]
RECIPES = ("dec0_head_mirror", "dec0_head_phase")
LOOP = """\
.version 7.8
.target sm_80
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 extra)
{
	.reg .pred %p<2>;
	.reg .b32 %r<10>;
	.reg .b64 %rd<4>;
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r2, [extra];
	and.b32 %r3, %r1, 3;
	add.u32 %r3, %r3, %r2;
	mov.u32 %r4, 0;
	mov.u32 %r5, 7;
$more:
	mad.lo.u32 %r5, %r5, 5, %r1;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p1, %r4, %r3;
	@%p1 bra $more;
	ld.param.u64 %rd1, [out];
	mov.u32 %r6, %tid.y;
	mov.u32 %r7, %ntid.x;
	mad.lo.u32 %r6, %r6, %r7, %r1;
	mul.wide.u32 %rd2, %r6, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r5;
	ret;
}
"""
LOOP_LINE = 1 + LOOP.splitlines().index("\tmad.lo.u32 %r5, %r5, 5, %r1;")


def recorded(launch: Launch, seq: int) -> capture.Launch:
    """A launch with what it leaves on the reference engine."""
    before = snapshot(launch)
    execute(launch, engine="numpy")
    return capture_of(launch, before, seq)


def handle_values(launch: capture.Launch) -> frozenset[int]:
    """What the launch's arguments hold as handles."""
    return frozenset(int.from_bytes(launch.args[i.arg_offset : i.arg_offset + 8], "little") for i in (*launch.textures, *launch.surfaces))


def of_handles(mine: Reading, register: str, handles: frozenset[int]) -> bool:
    """Does a 64-bit register hold a handle wherever it was stored?"""
    values = mine.bits[register]
    return values.dtype == np.uint64 and set(np.unique(values[mine.stored]).tolist()) <= handles


def stages(
    launch: capture.Launch, document: Document, entry: str, on: str, wanted: Sequence[str | int] | None = None, iterations: int = 0
) -> dict[str, Any]:
    """All stages of an entry (or those ``wanted``), read on the reference engine and on ``on``."""
    oracle = make_oracle(document, entry, wanted, iterations=iterations)
    mine, theirs = consult(oracle, launch, engine="numpy", check=False), consult(oracle, launch, engine="numpy", on=on)
    handles = handle_values(launch)
    result = dict.fromkeys(("values_compared", "handles", "differing", "passages_differing", "passages_lost"), 0)
    for probe in oracle.probes:
        a, b = mine.readings[str(probe.where)], theirs.readings[str(probe.where)]
        found = probe.diff(a, b)
        own = sum(n for register, n in found.registers.items() if of_handles(a, register, handles))
        result["values_compared"] += found.compared
        result["handles"] += own
        result["differing"] += found.differing - own
        result["passages_differing"] += int((a.passages != b.passages).sum())
        result["passages_lost"] += b.lost
    untouched = theirs.untouched
    return {
        "stages": len(oracle.probes),
        "buffer_bytes": int(theirs.buffer.size),
        **result,
        "other_outputs": None if untouched is None else untouched.verdict,
        "outputs": compare(mine.outputs, theirs.outputs).verdict,
    }


def loop(iterations: int, on: str) -> dict[str, Any]:
    """Lanes that pass a line two to five times each."""
    document = Document.parse(LOOP, "loop.ptx")
    prepared = Module(document).kernel("loop").prepare((5,), (48, 3), [np.zeros(144, np.uint32), 2])
    return stages(recorded(prepared.launch, 1), document, "loop", on, [LOOP_LINE], iterations)


def recipes(launch: capture.Launch, document: Document, on: str) -> dict[str, str]:
    """Whether the shipped recipes' cuts of ``dec0``, with their bodies, leave the same bytes."""
    expected = replay(launch, document, entry="dec0", engine="numpy", on=on).outputs
    os.environ["GRAFT_BODY"] = "1"
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "dec0.ptx").write_bytes(document.data)
        for name in RECIPES:
            made = apply(ROOT / "examples" / "recipes" / f"{name}.py", folder)
            found[name] = compare(expected, replay(launch, made.document, entry="dec0", engine="numpy", on=on).outputs).verdict
    return found


def long_layer(on: str) -> dict[str, Any]:
    """Whether the inline cut of ``denoiser/unrolled.cu`` leaves the same bytes."""
    sys.path.insert(0, str(ROOT / "denoiser"))
    build, weight_image = importlib.import_module("build"), importlib.import_module("weight_image")
    nvcc = build.find_nvcc()
    if nvcc is None:
        return {"skipped": "no nvcc"}
    document = Document.parse(build.unrolled(nvcc), "unrolled.ptx")
    image = np.frombuffer(bytes(weight_image.unrolled_slice().data), np.uint8).copy()
    arguments = [Texture(data.frame()["enc4_plane"]), np.zeros((77, 32, 4), np.uint32), image, 1.0, 1e-5]
    launch = Module(document).kernel("unrolled").prepare((11, 7), (32,), arguments).launch
    taken = capture_of(launch, snapshot(launch), 3)
    original, graft = (
        replay(taken, d, entry="unrolled", engine="numpy", on=on).outputs for d in (document, cut(document, "unrolled").document)
    )
    return {
        "lines": len(document.data.splitlines()),
        "bytes": sum(int(o.data.size) for o in original),
        "cut": compare(original, graft).verdict,
    }


def run(on: str) -> dict[str, Any]:
    """Everything, on one executor against the reference engine."""
    layers = {name: (reference_document(name), recorded(reference_launch(name), 1)) for name in data.LAYERS}
    result: dict[str, Any] = {"layers": {name: stages(launch, document, name, on) for name, (document, launch) in layers.items()}}
    result["loop"] = {f"{n} passages kept": loop(n, on) for n in (0, 3, 8)}
    document, launch = layers["dec0"]
    return result | {"recipes": recipes(launch, document, on), "unrolled": long_layer(on)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare probes on a GPU with the reference engine.")
    recording.add_options(parser)
    options = parser.parse_args()
    result = recording.card(SimpleNamespace(card=cuda.card())) | run("cuda")
    for name, part in result.items():
        print(f"{name}: {part}")
    recording.record("device_probes", result, options)


if __name__ == "__main__":
    main()
