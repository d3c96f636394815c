"""Recorded launches on a GPU: replay, verify and bench, against what was recorded and against the CPU."""

from __future__ import annotations

import json
from dataclasses import replace

import gpu_kernels as kernels
import numpy as np
import pytest
from small_layer import OUT, edited, layer_document

from ptxgraft import verify
from ptxgraft.cli.app import app
from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import cut
from ptxgraft.run import Module, capture_of, execute, snapshot
from ptxgraft.text import Document
from ptxgraft.verify import bench, compare, recorded_outputs, replay

WRONG = ("max.f16x2 \t%r34, %r30, %r24;", "min.f16x2 \t%r34, %r30, %r24;")


@pytest.fixture
def command(capsys):
    """Run a verb: (exit code, standard output, standard error)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = app([str(a) for a in arguments], prog_name="ptxgraft", standalone_mode=False)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_recorded_launch_leaves_the_same_bytes_on_a_gpu(gpu, recorded):
    ran = replay(recorded, on="cuda")
    verdict = compare(recorded_outputs(recorded), ran.outputs)
    assert verdict.verdict == "same" and verdict.bytes_compared == sum(o.data.size for o in ran.outputs) > 0
    assert ran.result.executor == "cuda" and ran.launch is None and any("ran on" in n for n in ran.notes)


def test_machine_code_without_ptx_runs_on_a_gpu_alone(fake_for_all, recorded):
    bare = replace(
        recorded, module=None, module_hash=None, binary=np.frombuffer(layer_document().data, np.uint8)
    )  # our driver's machine code is PTX
    ran = replay(bare, on="cuda")
    assert ran.document is None and compare(recorded_outputs(recorded), ran.outputs).verdict == "same"
    assert "the capture holds no PTX: its own machine code runs" in ran.notes


def test_the_captures_machine_code_comes_before_its_ptx(fake_for_all, recorded):
    other = edited(layer_document(), WRONG)
    both = replace(recorded, binary=np.frombuffer(other.data, np.uint8))
    assert compare(recorded_outputs(recorded), replay(both, on="cuda").outputs).verdict == "differs"
    assert compare(recorded_outputs(recorded), replay(both, layer_document(), on="cuda").outputs).verdict == "same"


@pytest.mark.parametrize("on", ["cpu", "cuda"])
@pytest.mark.parametrize("against", ["original", "cpu", "cuda", "recorded"])
def test_original_on_one_graft_on_the_other(gpu, recorded, on, against):
    graft = cut(layer_document(), "layer", body="identity").document
    verdict = verify(recorded, graft, on=on, against=against)
    assert verdict.verdict == "same", verdict
    sides = [n.split(":")[0] for n in verdict.notes]
    assert set(sides) == (set() if "cuda" not in (on, against) else {"graft"} if against == "recorded" else {"original", "graft"})
    wrong = verify(recorded, edited(layer_document(), WRONG), on=on, against=against)
    assert wrong.verdict == "differs" and wrong.first is not None and wrong.first.writer is not None


def test_what_the_gpu_computes_otherwise_is_explained_by_the_cpu(fake, recorded):
    fake.behave("swap=max.f16x2,min.f16x2")
    verdict = verify(recorded, layer_document(), on="cuda", against="cpu")
    assert verdict.verdict == "differs" and verdict.first is not None and verdict.first.output == OUT
    assert verdict.first.writer is not None and verdict.first.writer.statement.startswith("st.global")
    assert verify(recorded, layer_document(), on="cuda").verdict == "same"  # both on that GPU


def test_a_module_variable_that_differs_is_explained(gpu):
    document = Document.parse(kernels.COUNTER)
    prepared = Module(document).kernel("k").prepare(1, 1, [np.zeros(3, np.uint32)])
    before = snapshot(prepared.launch)
    execute(prepared.launch)
    recorded = capture_of(prepared.launch, before)
    assert verify(recorded, document, on="cuda", against="cpu").verdict == "same"
    graft = Document.parse(kernels.COUNTER.replace("[%rd2], 1;", "[%rd2], 2;"))
    verdict = verify(recorded, graft, on="cuda", against="cpu", outputs=("variable 'counter'",))
    assert verdict.verdict == "differs" and verdict.first is not None and verdict.first.writer is not None
    assert verdict.first.writer.statement.startswith("atom.global.add")


def test_replay_and_verify_as_verbs(fake, package, tmp_path, command):
    code, out, err = command("replay", package, "--on", "cuda")
    assert code == 0 and "on cuda (sm_90)" in out and "same: " in out and "ran on Fake GPU" in err
    code, out, _ = command("replay", package, "--on", "cuda", "--json")
    assert json.loads(out)["result"]["engine"] == "cuda" and json.loads(out)["against_recorded"]["verdict"] == "same"
    graft = tmp_path / "wrong.ptx"
    graft.write_bytes(edited(layer_document(), WRONG).data)
    code, out, _ = command("verify", package, "--graft", graft, "--on", "cuda", "--against", "cpu")
    assert (
        code == 1
        and "stored by block" in out
        and "note: graft: cuda: ran on Fake GPU" in out
        and "note: original: cpu, warp (sm_90)" in out
    )
    code, out, err = command("replay", package, "--on", "cuda", "--step-budget", 5)
    assert code == 3 and "step_budget" in err
    written = tmp_path / "after.ptxcap"
    assert command("replay", package, "--on", "cuda", "-o", written)[0] == 0
    assert command("diff", package, written)[0] == 0


def test_run_as_a_verb(fake, tmp_path, command):
    module = tmp_path / "squares.ptx"
    module.write_text(kernels.SQUARES)
    recording = tmp_path / "one.ptxcap"
    code, out, err = command("run", module, "--grid", 1, "--block", 32, "-a", "u32[8]", "-a", 8, "--on", "cuda", "--record", recording)
    assert code == 0 and "0 1 4 9 16" in out and "on cuda (sm_90)" in out and "note: ran on Fake GPU" in err
    assert "recorded on cuda (sm_90)" in command("show", recording, "--launch", 0)[1]
    module.write_text(kernels.ENDLESS)
    code, _, err = command("run", module, "--grid", 1, "--block", 1, "-a", "u32[8]", "--on", "cuda", "--timeout", 1)
    assert code == 2 and "did not end within 1 s" in err


# -- bench ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["cpu", "cuda"])
def test_modules_are_timed_in_turns_on_restored_inputs(gpu, recorded, on):
    graft = cut(layer_document(), "layer", body="identity").document
    turns: list[str] = []
    timed = bench(recorded, [("own", None), ("graft", graft)], on=on, repeats=3, warmups=2, progress=turns.append)
    assert turns == ["own", "graft"] * 5
    own, other = timed.timings
    assert len(own.samples_us) == len(other.samples_us) == 3 and own.outputs is None
    assert other.outputs is not None and other.outputs.verdict == "same" and timed.exit_code == 0
    low, high = own.quartiles_us
    assert 0 < own.fastest_us <= low <= own.median_us <= high <= own.slowest_us
    assert timed.flushed == (on == "cuda")


def test_a_launch_that_changes_its_inputs_starts_from_them_each_time(gpu):
    """A kernel that adds to a buffer: what the first run leaves is what one run leaves, and so is what every later one does."""
    import struct

    import gpu_kernels as kernels

    from ptxgraft.isa import bind
    from ptxgraft.run import Launch, allocate, cuda

    head, target = 0x7F20_0000_0000, 0x7F20_0100_0000
    memory = [allocate(head, struct.pack("<Q", target)), allocate(target, struct.pack("<I", 7))]
    launch = Launch(bind(Document.parse(kernels.FOLLOW), "k"), (1, 1, 1), (1, 1, 1), struct.pack("<Q", head), allocations=memory)
    before = snapshot(launch)
    execute(launch)
    recorded = capture_of(launch, before)
    again = Document.parse(kernels.FOLLOW.replace("add.u32 %r2, %r1, 1", "sub.u32 %r2, %r1, -1"))
    timed = bench(recorded, [("one", None), ("other", again)], on="cuda", repeats=2, warmups=1)
    assert timed.exit_code == 0 and timed.timings[1].outputs is not None and timed.timings[1].outputs.verdict == "same"
    work, code = cuda.work_of(launch), cuda.Code(Document.parse(kernels.FOLLOW).data, "k")
    with cuda.borrow() as worker:
        worker.ask("open", work, True)
        for _ in range(3):
            worker.ask("repeat", code, True, False)
            assert worker.ask("fetch", code)[0].spans[1].tobytes() == struct.pack("<I", 9)
        worker.ask("close")


def test_modules_that_leave_other_bytes_are_told(fake_for_all, recorded, package, tmp_path, command):
    wrong = tmp_path / "wrong.ptx"
    wrong.write_bytes(edited(layer_document(), WRONG).data)
    right = tmp_path / "right.ptx"
    right.write_bytes(layer_document().data)
    code, out, _ = command("bench", package, "--ptx", right, "--ptx", wrong, "--on", "cuda", "--repeats", 2, "--warmup", 1, "--no-flush-l2")
    assert code == 1 and "differs" in out and "median us" in out and "emptied" not in out
    code, out, _ = command("bench", package, "--ptx", right, "--repeats", 2, "--json")
    made = json.loads(out)
    assert (
        code == 0
        and made["where"] == "cpu, warp (sm_90)"
        and len(made["modules"][0]["samples_us"]) == 2
        and made["modules"][0]["median_us"] > 0
    )


def test_what_cannot_be_timed(recorded):
    with pytest.raises(UsageError, match="nothing to time"):
        bench(recorded, [])
    with pytest.raises(UsageError, match="at least one of each"):
        bench(recorded, [("own", None)], warmups=0)
    with pytest.raises(UnsupportedError, match="L2 cache can be emptied on a GPU only"):
        bench(recorded, [("own", None)], flush_l2=True)


# -- bisect ---------------------------------------------------------------------------------------------------------------


def test_one_module_differs_nowhere_between_a_gpu_and_the_cpu(gpu, recorded):
    found = verify.bisect(recorded, layer_document(), on="cuda", against="cpu")
    assert found.exit_code == 0 and found.checked == ["a", "p0", "p1", "p2", "out"], found
    assert [n.split(":")[0] for n in found.notes][:2] == ["original", "graft"]


def test_where_a_gpu_and_the_cpu_part_is_found(fake, recorded, package, tmp_path, command):
    fake.behave("swap=max.f16x2,min.f16x2")
    document = layer_document()
    found = verify.bisect(recorded, document, on="cuda", against="cpu")
    assert found.stage == "p1" and found.statement is not None
    assert found.statement.line == document.line(document.text.index("max.f16x2 \t%r34"))
    module = tmp_path / "layer.ptx"
    module.write_bytes(document.data)
    code, out, _ = command("bisect", package, "--graft", module, "--on", "cuda", "--against", "cpu")
    assert code == 1 and "first differs at stage p1" in out and "max.f16x2" in out and "note: graft: cuda: ran on Fake GPU" in out
