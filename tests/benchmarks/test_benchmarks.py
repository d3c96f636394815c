"""The benchmarks import, their texts are legal PTX, and the kernels of the device comparison compute what it expects. No timing is asserted."""

from __future__ import annotations

import importlib
import json
import struct
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import bench_scale, device, device_examples, device_layers, device_probes, example_cases, recording, synthetic
from ptxgraft.errors import DeviceError
from ptxgraft.graft import assemble, find_ptxas
from ptxgraft.isa import bind, form_of
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.run.reference import reference_launch
from ptxgraft.spec import spec
from ptxgraft.text import Document

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas")


def test_every_benchmark_imports_and_has_a_run() -> None:
    assert {"parse", "spec", "scale", "memory"} <= set(command.NAMES)
    for name in command.NAMES:
        assert callable(importlib.import_module(f"benchmarks.bench_{name}").run)


# -- generated layers -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("lines", [60, 157, 600])
def test_a_synthetic_layer_has_its_length_and_is_known_throughout(lines: int, marked: bool) -> None:
    text = synthetic.module(lines, marked)
    assert text == synthetic.module(lines, marked)
    assert text.count(b"\n") == lines
    assert not bind(Document.parse(text), synthetic.ENTRY).unknown


@needs_ptxas
@pytest.mark.parametrize("marked", [True, False])
def test_a_synthetic_layer_assembles(marked: bool) -> None:
    result = assemble(synthetic.module(1500, marked))
    assert result.ok, result.log


def test_a_synthetic_layer_looks_like_a_layer() -> None:
    found = spec(synthetic.module(3000))
    assert len(found.phases) >= 10 and found.weight_param == 0
    assert found.phases[3].weight_ranges == [(3 * 2048, 4 * 2048)]
    assert found.phases[3].tiles == (1, 4, 2)
    assert {f.provenance.kind for f in found.phases[3].a} == {"shared"}
    idioms = " ".join(found.phases[3].epilogue.idioms)
    assert all(word in idioms for word in ("row RMS norm", "activation", "requantisation to e4m3", "staging", "shuffle"))


def test_probes_of_a_loop_agree_and_count_what_they_lose() -> None:
    for kept, lost in ((0, 0), (3, 540), (8, 0)):
        found = device_probes.loop(kept, "cpu")
        assert found["differing"] == found["passages_differing"] == 0
        assert (found["passages_lost"], found["other_outputs"], found["outputs"]) == (lost, "same", "same")


# -- tables and records -----------------------------------------------------------------------------------------------
def test_scale_gives_a_row_for_each_size(tmp_path: Path) -> None:
    result = bench_scale.run(sizes=(600, 1200, 2400), repeats=1)
    assert [row["lines"] for row in result["as_nvcc_writes"]] == [600, 1200, 2400]
    assert all(row["statements"] > 0 and row["seconds"] > 0 for row in result["bare"])
    text = "\n".join(command.lines_of(result))
    assert "as_nvcc_writes:" in text and " 1,200 " in text and "goals:" in text
    assert all(row["with_cut_seconds"] > row["seconds"] for row in result["bare"])
    bench_scale.picture(result, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("power", [1, 2])
def test_growth_is_the_exponent(power: int) -> None:
    rows = [{"lines": n, "seconds": 1e-6 * n**power} for n in (5_000, 20_000, 200_000)]
    assert bench_scale.growth(rows, "seconds") == pytest.approx(power)


def test_a_result_is_written_only_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXGRAFT_COMMIT", "abc1234")
    recording.record("x", {"rows": 1}, Namespace(record=False, to=tmp_path))
    assert not list(tmp_path.iterdir())
    recording.record("x", {"rows": 1}, Namespace(record=True, to=tmp_path))
    noted = json.loads((tmp_path / "x.json").read_text())
    assert noted["rows"] == 1 and noted["commit"] == "abc1234" and noted["cpu"] and len(noted["date"]) == 10


def test_recorded_results_say_where_they_come_from() -> None:
    for path in sorted(recording.RESULTS.glob("*.json")):
        noted = json.loads(path.read_text())
        assert noted["benchmark"] == path.stem and noted["date"] and noted["cpu"] and noted["commit"] not in ("", "unknown"), path
        if path.stem.startswith("device_"):
            assert noted["card"] and noted["driver"], path


def test_recorded_device_runs_agree_with_the_cpu() -> None:
    layers = json.loads((recording.RESULTS / "device_layers.json").read_text())
    assert layers["bytes_compared"] > 1_000_000 and layers["bytes_differing"] == 0
    table = json.loads((recording.RESULTS / "device_examples.json").read_text())
    assert table["compared"] > 10_000_000 and not table["not_computed"] and not table["faults"]
    recorded = json.loads((recording.RESULTS / "device_record.json").read_text())
    assert all(r["compared"] > 1_000_000 and r["differing"] == 0 for r in recorded["replayed"].values())
    assert all(row["output_unchanged"] for row in recorded["programs"] if "failed" not in row)


# -- the device host, without a device --------------------------------------------------------------------------------
def test_without_a_gpu_the_error_says_so() -> None:
    try:
        with device.Device() as card:
            pytest.skip(f"there is a GPU: {card.card.name}")
    except DeviceError as error:
        assert "cuda-bindings" in str(error) or "driver" in str(error) or "GPU" in str(error)


def test_pointers_and_handles_are_exchanged_and_nothing_else() -> None:
    launch = reference_launch("dec0")
    moved = {a.base: 0x1234_0000 + i * 0x10_0000 for i, a in enumerate(launch.memory.allocations)}
    handles = {h: 0x77_0000_0000 + i for i, h in enumerate([*launch.textures, *launch.surfaces])}
    before, after = launch.args, device.relocated(launch, moved, handles)
    assert struct.unpack_from("<4Q", after) == tuple(handles.values())
    assert struct.unpack_from("<Q", after, 40) == (0x1234_0000,)
    assert after[32:40] == before[32:40] and after[48:] == before[48:]


def test_a_pointer_into_an_allocation_keeps_its_distance() -> None:
    text = b".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }"
    memory = [allocate(0x7F00_0000_0000, bytes(64))]
    words = (0x7F00_0000_0010, 0x7F00_0000_0040, 0x7F00_0000_0041)
    launch = Launch(bind(Document.parse(text), "k"), (1, 1, 1), (1, 1, 1), struct.pack("<3Q", *words), allocations=memory)
    assert struct.unpack("<3Q", device.relocated(launch, {memory[0].base: 0x5000}, {})) == (0x5010, 0x5040, words[2])


def test_what_differs_is_counted_by_name() -> None:
    a = {"x": np.zeros(4, np.uint8), "y": np.arange(4, dtype=np.uint8)}
    b = {"x": np.zeros(4, np.uint8), "y": np.array([0, 1, 9, 9], np.uint8)}
    assert device_layers.differing(a, b) == {"x": 0, "y": 2}


def test_contents_are_all_bytes_of_a_layer() -> None:
    found = device_layers.contents(reference_launch("enc4"))
    assert {n: a.size for n, a in found.items()}["surface merged"] == 28 * 88 * 4 * 2


# -- the instruction table's kernels ----------------------------------------------------------------------------------
OPCODES = (
    "add.u32", "rem.s32", "add.cc.u64", "subc.cc.u32", "madc.hi.cc.s32", "setp.lt.and.ftz.f32", "set.gt.or.u32.f16", "lop3.b32", "lop3.or.b32", "mov.b128",
    "cvt.rni.sat.s8.f64", "cvt.u32.s8", "cvt.rn.bf16.s8", "cvt.rn.f16x2.f32", "prmt.b32.f4e", "bfi.b64", "ex2.approx.ftz.f32", "fma.rn.relu.bf16x2",
    "shfl.sync.bfly.b32", "match.all.sync.b64", "redux.sync.min.s32", "movmatrix.sync.aligned.m8n8.trans.b16",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16",
)  # fmt: skip


def few(opcode: str, rows: int = 64) -> list[example_cases.Case]:
    """The cases of a form, cut to some rows; of those for many literals, two."""
    form = form_of(opcode)
    assert form is not None
    found = list(example_cases.cases(form))
    found = found if found[0].literal is None else found[-2:]
    for case in found:
        case.inputs = case.inputs[:, :rows].copy()
    return found


@pytest.mark.parametrize("opcode", OPCODES)
def test_a_kernel_computes_its_rows(opcode: str) -> None:
    """The text that the GPU gets, on the CPU's executor: the same bits as the form's meaning on arrays."""
    for case in few(opcode):
        text = example_cases.HEADER + "\n".join(example_cases.kernel(case, "k"))
        memory = [allocate(1 << 40, case.inputs), allocate(2 << 40, np.full(case.out_words * case.rows, 0xCC, np.uint64))]
        args = struct.pack("<QQI", 1 << 40, 2 << 40, case.rows)
        launch = Launch(bind(Document.parse(text), "k"), (1, 1, 1), (128, 1, 1), args, allocations=memory)
        execute(launch, engine="numpy")
        got = memory[1].data.view(np.uint64).reshape(case.out_words, case.rows)
        assert np.array_equal(got, device_examples.expected(case)), case.key


def test_every_family_of_values_has_forms() -> None:
    families = {f.family for f in example_cases.forms()}
    assert {
        "integer",
        "extended",
        "bits",
        "logic",
        "float",
        "half",
        "approximate",
        "convert",
        "compare",
        "move",
        "warp",
        "tensor",
    } <= families


def test_hostile_values_are_tried() -> None:
    case = few("div.s32", rows=1 << 13)[0]
    pairs = set(zip(case.inputs[0].tolist(), case.inputs[1].tolist(), strict=True))
    assert {(0x80000000, 0xFFFFFFFF), (0, 0), (1, 0), (0xFFFFFFFF, 0x80000000)} <= pairs
    assert {0x7FFFFFFF, 0x7F800001, 0xFF800000, 0x80000000, 1, 0x007FFFFF, 0x00800000} <= set(example_cases.float_values("f32"))
    assert {0, 31, 32, 33, 64, 0x80000000, 0xFFFFFFFF} <= set(example_cases.integer_values(32))


@needs_ptxas
def test_one_illegal_instruction_does_not_spoil_the_others() -> None:
    ptxas = device_examples.find_ptxas()
    entries = [("k0", example_cases.kernel(few("add.u32")[0], "k0")), ("k1", example_cases.kernel(few("sub.u32")[0], "k1"))]
    entries[0][1][-4] = "nonsense.u32 %o0, %i0;"
    cubin, refused = device_examples.assemble(entries, ptxas)
    assert cubin.startswith(b"\x7fELF") and list(refused) == ["k0"]


@needs_ptxas
def test_chosen_kernels_assemble() -> None:
    made = device_examples.prepare(OPCODES, device_examples.find_ptxas())
    assert not made.refused and not made.failed
    assert len(made.expected) == len(made.names) > len(OPCODES)


def test_a_difference_is_reported_with_its_operands() -> None:
    case = few("add.u32", rows=8)[0]
    want = device_examples.expected(case)
    got = want.copy()
    got[0, 5] ^= 1
    report = device_examples.Report()
    report.add(case, want, got)
    assert report.totals["integer/add"] == {"cases": 1, "compared": 8, "differing": 1}
    row = report.differing["add.u32"]
    assert row["differing"] == 1 and f"{int(case.inputs[0, 5]):#x}" in row["first"][0] and "GPU" in row["first"][0]


def test_an_example_that_the_gpu_contradicts_is_reported() -> None:
    case = few("add.u32")[0]
    got = device_examples.expected(case)
    report = device_examples.Report()
    report.add(case, got, got)
    assert report.examples["compared"] == len(case.examples) > 0 and not report.examples["differing"]
    wrong = got.copy()
    wrong[0, case.examples[0][0]] ^= 4
    report.add(case, got, wrong)
    assert len(report.examples["differing"]) == 1
