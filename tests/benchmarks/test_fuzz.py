"""The fuzzer's kernels: made again from their seeds, legal, the same on both engines; and a difference is found, written down and counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.device_examples import find_ptxas
from benchmarks.fuzz_kernels import BLOCK, Block, Kernel, Out, Reg, program_of
from benchmarks.fuzz_tally import DIFFERING, NANS, OPTIMISER, Tally, case_of, rounding_of
from benchmarks.recording import RESULTS

from benchmarks import fuzz_device, fuzz_programs, fuzz_sweep, fuzz_values
from ptxgraft.errors import UsageError
from ptxgraft.graft import find_ptxas as ptxas_here
from ptxgraft.isa import form_of
from ptxgraft.run import execute

needs_ptxas = pytest.mark.skipif(ptxas_here() is None, reason="there is no ptxas")
KINDS = sorted(fuzz_device.KINDS)


def small(kind: str, number: int = 3) -> Kernel:
    """A kernel of few rows and few blocks."""
    made = fuzz_device.make(11, kind, number, BLOCK)
    return made.only(range(min(2, len(made.blocks))))


def answers(kernel: Kernel, engines: tuple[str, ...] = ("numpy",)) -> dict[str, np.ndarray]:
    program = program_of(kernel.text()[0])
    found = {}
    for engine in engines:
        launch = kernel.launch(program)
        execute(launch, engine=engine)
        found[engine] = kernel.results(launch).copy()
    return found


# -- kernels ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_follows_from_its_seed(kind: str) -> None:
    one, two, other = fuzz_device.make(5, kind, 1, BLOCK), fuzz_device.make(5, kind, 1, BLOCK), fuzz_device.make(6, kind, 1, BLOCK)
    assert one.text() == two.text() and np.array_equal(one.inputs, two.inputs)
    assert not np.array_equal(one.inputs, other.inputs) or one.text() != other.text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_runs_and_every_result_is_written(kind: str) -> None:
    kernel = small(kind)
    got = answers(kernel)["numpy"]
    assert got.shape == (kernel.words, BLOCK) and kernel.words > 0
    unwritten = np.uint64(0xCCCCCCCCCCCCCCCC)
    assert not (got == unwritten).all(axis=1).any()


@pytest.mark.parametrize("kind", ["chains", "memory"])
def test_both_engines_agree(kind: str) -> None:
    found = answers(small(kind), ("numpy", "warp"))
    assert np.array_equal(found["numpy"], found["warp"])


@needs_ptxas
@pytest.mark.parametrize("kind", KINDS)
def test_ptxas_takes_nearly_all_of_it(kind: str) -> None:
    kernel = fuzz_device.make(12, kind, 2, BLOCK)
    kept, text, cubin, refused = fuzz_device.assemble(kernel, find_ptxas())
    assert cubin.startswith(b"\x7fELF") and len(kept.blocks) >= 0.7 * len(kernel.blocks), refused
    assert kept.text()[0] == text


@needs_ptxas
def test_what_ptxas_refuses_is_left_out_and_named() -> None:
    kernel = fuzz_device.make(12, "chains", 2, BLOCK)
    kernel.blocks[1].lines.append("nonsense.u32 %t0, %t0;")
    kept, _, cubin, refused = fuzz_device.assemble(kernel, find_ptxas())
    assert cubin and len(kept.blocks) == len(kernel.blocks) - 1 and "nonsense" in refused[0]


def test_leaving_blocks_out_leaves_the_others_results() -> None:
    kernel = fuzz_device.make(13, "chains", 0, BLOCK)
    whole = answers(kernel)["numpy"]
    words = kernel.blocks[0].words, kernel.blocks[1].words
    assert np.array_equal(answers(kernel.only([1]))["numpy"], whole[words[0] : sum(words)])


def test_the_first_round_of_single_instructions_is_complete() -> None:
    groups = fuzz_programs.form_groups()
    opcodes = {f.opcode for group in groups for f in group}
    assert len(opcodes) > 5000 and {"fma.rz.ftz.f32", "cvt.rp.f16.f32", "div.rm.f64", "prmt.b32.ecl", "set.lt.and.u32.bf16x2"} <= opcodes
    first = fuzz_programs.forms_kernel((1, 0, 0), BLOCK)
    assert [b.label for b in first.blocks] == [f.opcode for f in groups[0]]


@pytest.mark.parametrize(
    ("opcode", "fuses"), [("add.f32", True), ("mul.rn.f32", False), ("add.s32", False), ("fma.rn.f64", False), ("sub.bf16x2", True)]
)
def test_chains_leave_out_what_may_be_contracted(opcode: str, fuses: bool) -> None:
    form = form_of(opcode)
    assert form is not None and fuzz_programs.contracts(form) == fuses
    assert not any(
        fuzz_programs.contracts(f) for t in fuzz_programs.THEMES for forms in fuzz_programs.theme_forms(t).values() for f in forms
    )


# -- operands ---------------------------------------------------------------------------------------------------------
def test_sequences_know_one_nan_of_f64() -> None:
    kernel = fuzz_device.make(3, "chains", list(fuzz_programs.THEMES).index("f64"), 1 << 12)
    columns = kernel.inputs[[i for i, hint in enumerate(kernel.hints) if hint == "f64"]]
    nans = columns[(columns & np.uint64((1 << 63) - 1)) > np.uint64(0x7FF << 52)]
    assert len(nans) and set(nans.tolist()) == {0xFFF8000000000000}


def test_operands_cross_what_breaks_things_and_come_close_to_ties() -> None:
    rng = np.random.default_rng(3)
    a, b, c = fuzz_values.operands(rng, ["f32", "f32", "f32"], 1 << 16)
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    assert {(0x7F800000, 0x80000000), (0x7FFFFFFF, 0x3F800000), (1, 0x007FFFFF)} <= pairs
    with np.errstate(all="ignore"):
        x, y, z = (v.astype(np.uint32).view(np.float32).astype(np.float64) for v in (a, b, c))
        cancelled = np.abs(x * y + z) < np.abs(z) * 2.0**-20
        tiny = (np.abs(x * y) > 0) & (np.abs(x * y) < 2.0**-125)
    assert cancelled.mean() > 0.02 and tiny.mean() > 0.02
    assert (a & np.uint64(0xFFF) == 0x800).mean() > 0.002


def test_integers_overflow_by_a_little() -> None:
    a, b = fuzz_values.operands(np.random.default_rng(3), ["u32", "u32"], 1 << 14)
    assert (np.abs((a + b).astype(np.int64) - (1 << 32)) < 3).mean() > 0.02


def test_fragments_have_one_style_in_a_warp() -> None:
    words = fuzz_values.fragments(np.random.default_rng(3), "f16", 32, 4, 1 << 12)
    exponents = ((words >> np.uint64(10)) & np.uint64(31)).reshape(4, -1, 32)
    spread = (exponents.max(axis=(0, 2)).astype(int) - exponents.min(axis=(0, 2)).astype(int)).tolist()
    assert min(spread) <= 4 and max(spread) >= 29


# -- counting ---------------------------------------------------------------------------------------------------------
def test_a_difference_is_counted_and_written_down() -> None:
    kernel = fuzz_device.make(11, "carry", 3, BLOCK).only([0, 1])
    numpy = answers(kernel)["numpy"]
    gpu = numpy.copy()
    word = kernel.blocks[0].words
    gpu[word, 70] ^= np.uint64(1)
    tally = Tally()
    (found,) = tally.add(kernel, {"gpu": gpu, "warp": numpy, "numpy": numpy})
    assert (found.block, found.unlike) == (1, "numpy+warp") and tally.total(DIFFERING) == 1
    assert tally.total() == sum(len(b.outs) for b in kernel.blocks) * BLOCK
    case = case_of(kernel, 1, {"gpu": gpu[word:], "warp": numpy[word:]})
    assert case["differing"] == 1 and case["shown"][0]["row"] == 70 and case["shown"][0]["gpu"] != case["shown"][0]["warp"]
    assert int(case["warp"][0][70 - 64], 16) == int(kernel.inputs[0, 70]) and case["block"] == kernel.blocks[1].lines
    tally.settle(kernel, found)
    assert (tally.total(DIFFERING), tally.total(OPTIMISER)) == (0, 1)
    assert tally.add(kernel, {"warp": numpy, "numpy": numpy}) == []


@pytest.mark.parametrize(
    ("hint", "gpu", "cpu", "counted"),
    [
        ("f64", 0xFFF8000000000000, 0x7FF8000000000001, NANS),
        ("f32", 0x7FFFFFFF, 0xFFFFFFFF, NANS),
        ("f32", 0x7F800000, 0x7FFFFFFF, DIFFERING),
        ("f16x2", 0x7FFF3C00, 0xFFFF3C00, NANS),
        ("f16x2", 0x7FFF3C00, 0xFFFF3C01, DIFFERING),
        ("s32", 0x7FFFFFFF, 0xFFFFFFFF, DIFFERING),
    ],
)
def test_unlike_nans_of_sequences_are_counted_apart(hint: str, gpu: int, cpu: int, counted: int) -> None:
    out = Out(Reg("%t0", 64 if hint == "f64" else 32, hint), "add")
    for kind, column in (("chains", counted), ("forms", DIFFERING)):
        kernel = Kernel(kind, (1,), np.zeros((1, BLOCK), np.uint64), [32], ["b32"], [Block("x", [], [out])])
        tally = Tally()
        tally.add(kernel, {"gpu": np.full((1, BLOCK), gpu, np.uint64), "warp": np.full((1, BLOCK), cpu, np.uint64)})
        assert tally.total(column) == BLOCK and tally.total(DIFFERING) + tally.total(NANS) == BLOCK


def test_tallies_add_up() -> None:
    kernel = small("forms")
    numpy = answers(kernel)["numpy"]
    one, total = Tally(), Tally()
    one.add(kernel, {"warp": numpy, "numpy": numpy})
    for _ in range(2):
        total.merge(json.loads(json.dumps(one.plain())))
    assert total.total() == 2 * one.total() and total.kernels["forms"] == 2
    assert sum(row[0] for row in total.by_root().values()) == total.total()


def test_results_are_counted_by_rounding() -> None:
    assert rounding_of("cvt.rz.ftz.sat.f16.f32") == "cvt.rz.f16.f32" and rounding_of("add.s32") == ""
    group = next(i for i, forms in enumerate(fuzz_programs.form_groups()) if any(f.opcode == "div.rz.f32" for f in forms))
    kernel = fuzz_programs.forms_kernel((1, 0, group), BLOCK)
    numpy = answers(kernel)["numpy"]
    tally = Tally()
    tally.add(kernel, {"warp": numpy, "numpy": numpy})
    assert tally.roundings["div.rz.f32"] >= BLOCK and tally.total(DIFFERING) == 0


def test_a_round_has_every_kind_by_its_share() -> None:
    order = fuzz_device.schedule(KINDS)
    assert {k: order.count(k) for k in KINDS} == {k: fuzz_device.KINDS[k].share for k in KINDS}
    taken = [fuzz_device.task(i, order) for i in range(3 * len(order))]
    assert len(set(taken)) == len(taken)
    assert [n for k, n in taken if k == "memory"] == list(range(3 * fuzz_device.KINDS["memory"].share))


@needs_ptxas
def test_the_command_compares_the_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "fuzz",
        "carry",
        "--check",
        "--count",
        "1",
        "--rows",
        "256",
        "--jobs",
        "1",
        "--record",
        "--to",
        str(tmp_path),
        "--cases",
        str(tmp_path / "c"),
    ]
    monkeypatch.setattr("sys.argv", words)
    fuzz_device.main()
    noted = json.loads((tmp_path / "fuzz_device.json").read_text())
    assert noted["results"] > 1000 and noted["differing"] == 0 and noted["by_kind"] == {"carry": 1} and noted["seed"] == 1
    assert "0 differ" in capsys.readouterr().out and json.loads((tmp_path / "c").read_text())["cases"] == []


# -- sweeps -----------------------------------------------------------------------------------------------------------
@needs_ptxas
@pytest.mark.parametrize("opcode", ["tanh.approx.f32", "cvt.rni.s8.f32", "cvt.rn.f16.f32", "cvt.rpi.ftz.u64.f32"])
def test_a_sweep_covers_a_chunk(opcode: str) -> None:
    runner = fuzz_sweep.Runner(None, find_ptxas())
    count = fuzz_sweep.Count()
    runner.chunk(opcode, 0x3F800000, 512, count)
    assert (count.compared, count.differing) == (512, 0)


def test_a_sweep_takes_one_operand_of_32_bits() -> None:
    for opcode in ("add.f32", "nonsense.f32", "sqrt.rn.f64"):
        with pytest.raises(UsageError):
            fuzz_sweep.text_of(opcode)


# -- records ----------------------------------------------------------------------------------------------------------
def test_a_thousand_million_results_agree() -> None:
    noted = json.loads((RESULTS / "fuzz_device.json").read_text())
    agreeing = noted["results"] - noted["differing"] - noted["only_optimised"] - noted["nans"]
    assert agreeing >= 10**9 and noted["engines"] == ["warp", "numpy"] and not noted["errors"] and noted["card"] and noted["driver"]
    open_ = {kind: sum(row[DIFFERING] for row in roots.values()) for kind, roots in noted["compared"].items()}
    assert {kind for kind, count in open_.items() if count} <= {"texture", "chains"} and sum(open_.values()) < 2000


def test_all_sweeps_agree() -> None:
    noted = json.loads((RESULTS / "fuzz_sweep.json").read_text())
    complete = [opcode for opcode, row in noted["sweeps"].items() if row["compared"] == 1 << 32]
    assert set(fuzz_sweep.APPROXIMATE) <= set(complete) and noted["differing"] == 0
