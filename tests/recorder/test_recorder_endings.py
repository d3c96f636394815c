"""Recordings that do not go smoothly: crashes, faults, graphs, nothing to record, tools that are missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_cuda import Fake, fake_in

from ptxgraft import capture
from ptxgraft.errors import DeviceError, UsageError
from ptxgraft.run.recorder import Choice, record
from ptxgraft.run.recorder.journal import NOT_DONE


def test_the_programs_exit_code_is_passed_on(recorded) -> None:
    assert recorded("fill", "exit7")[1].exit_code == 7


def test_a_crash_in_a_launch_leaves_what_was_there_before(recorded) -> None:
    opened, made = recorded("fill", "crash")
    fill, crash = opened.launches
    assert made.exit_code == 9
    assert fill.allocations[0].after_recorded and NOT_DONE not in fill.notes
    assert crash.kernel == "crash" and NOT_DONE in crash.notes
    assert "ended without saying so" in opened.remarks[0]


def test_a_crash_between_launches(recorded) -> None:
    opened, made = recorded("fill", "add", "die")
    assert made.exit_code == 134 and len(opened.launches) == 2
    assert all(a.after_recorded for launch in opened.launches for a in launch.allocations)
    assert "ended without saying so" in opened.remarks[0]


def test_a_journal_that_is_cut_off_is_read_up_to_there(recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    import ptxgraft.run.recorder.program as program

    reading = program.read_journals

    def cut(folder: Path):
        (journal,) = folder.glob("journal-*.jsonl")
        data = journal.read_bytes()
        journal.write_bytes(data[: data.rindex(b'"what": "after"') + 40])
        return reading(folder)

    monkeypatch.setattr(program, "read_journals", cut)
    opened, _ = recorded("fill", "fill")
    assert [NOT_DONE in x.notes for x in opened.launches] == [False, True]
    assert not opened.launches[1].allocations[0].after_recorded
    assert any("is cut off" in remark for remark in opened.remarks)


def test_a_kernel_that_fails(recorded) -> None:
    opened, _ = recorded("fill", "fail", "fill")
    fill, fail = opened.launches
    assert fill.allocations[0].after_recorded
    assert any("CUDA_ERROR_ILLEGAL_ADDRESS" in note for note in fail.notes)
    assert any("fill not recorded: CUDA_ERROR_ILLEGAL_ADDRESS" in remark for remark in opened.remarks)


def test_graphs_and_captured_streams_are_refused_loudly(recorded, capfd: pytest.CaptureFixture[str]) -> None:
    opened, made = recorded("fill", "graph", "capture")
    assert len(opened.launches) == 1
    told = capfd.readouterr().err
    for words in ("the launches of a graph", "its stream is being captured", "another stream is being captured"):
        assert words in told and any(words in remark for remark in opened.remarks)
    assert sum(made.seen.refused.values()) == 3


def test_only_graphs_is_an_error_that_says_so(recorded) -> None:
    with pytest.raises(UsageError, match=r"refused: 2 of \(graph\): the launches of a graph are not recorded"):
        recorded("graph", "graph")


def test_nothing_that_matches_says_what_was_seen(recorded, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"matching 'nope' among 3 launches \(0 match\); kernels seen: fill, add"):
        recorded("fill", "add", "add", choice=Choice("nope"))
    with pytest.raises(UsageError, match=r"no launch number 5 of a kernel matching 'add' among 3 launches \(2 match\)"):
        recorded("fill", "add", "add", choice=Choice("add", (5,)))
    assert list(tmp_path.iterdir()) == []


def test_a_program_without_cuda(recorded) -> None:
    with pytest.raises(UsageError, match="did not use the CUDA driver"):
        recorded("idle")
    with pytest.raises(UsageError, match="launched no kernel"):
        recorded()


def test_a_program_that_is_not_there(environment: Fake, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot start /nowhere/program: No such file"):
        record(["/nowhere/program"], tmp_path / "x.ptxcap")


def test_a_wrong_pattern(recorded) -> None:
    with pytest.raises(UsageError, match=r"'\(' is no regular expression"):
        recorded("fill", choice=Choice("("))


def test_without_cupti(environment: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import ptxgraft.run.recorder.building as building

    monkeypatch.setattr(building, "cupti_places", lambda: iter([tmp_path]))
    with pytest.raises(DeviceError, match=r"recording needs CUPTI, and no libcupti\.so was found") as caught:
        record([str(environment.program), "fill"], tmp_path / "x.ptxcap")
    assert "nvidia-cuda-cupti" in caught.value.hint


def test_a_cupti_that_does_not_load(environment: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libcupti.so").write_bytes(b"no library")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(DeviceError, match="nothing was recorded: CUPTI cannot be used"):
        record([str(environment.program), "fill"], tmp_path / "x.ptxcap")


def test_without_a_compiler(environment: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(UsageError, match=r"no C compiler found \(no-such-compiler\)"):
        record([str(environment.program), "fill"], tmp_path / "x.ptxcap")


def test_a_driver_that_does_not_know_parameters(environment: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = fake_in(tmp_path / "old", "-DOLD_DRIVER")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(old.libraries))
    with pytest.raises(UsageError, match=r"1 of fill: this driver does not say where a kernel's parameters lie: CUDA 12.4"):
        record([str(old.program), "fill"], tmp_path / "x.ptxcap")


def test_children_are_recorded_too(environment: Fake, tmp_path: Path) -> None:
    shell = f"{environment.program} fill; {environment.program} add fill"
    made = record(["sh", "-c", shell], tmp_path / "x.ptxcap")
    opened = capture.open_capture(tmp_path / "x.ptxcap")
    assert [(x.seq, x.kernel) for x in opened.launches] == [(0, "fill"), (1, "add"), (2, "fill")]
    assert made.seen.processes == 2


def test_a_process_that_becomes_another_program(environment: Fake, tmp_path: Path) -> None:
    made = record([str(environment.program), "fill", "become"], tmp_path / "x.ptxcap")
    opened = capture.open_capture(tmp_path / "x.ptxcap")
    assert [(x.seq, x.kernel) for x in opened.launches] == [(0, "fill"), (1, "add")] and made.seen.processes == 2


def test_a_forked_child_leaves_the_journal_alone(environment: Fake, tmp_path: Path) -> None:
    made = record([str(environment.program), "fill", "fork", "add"], tmp_path / "x.ptxcap")
    assert (made.seen.launches, made.recorded, made.seen.processes) == (2, 2, 1)


def test_another_tool_to_be_injected(environment: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/tools/other.so")
    with pytest.raises(UsageError, match=r"CUDA_INJECTION64_PATH is /tools/other\.so"):
        record([str(environment.program), "fill"], tmp_path / "x.ptxcap")


def command_line(environment: Fake, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ptxgraft", *words], capture_output=True, text=True)


def test_the_verb(environment: Fake, tmp_path: Path) -> None:
    target = str(tmp_path / "x.ptxcap")
    done = command_line(
        environment, "record", "-o", target, "--json", "--kernel", "add", "--", str(environment.program), "fill", "add", "show", "exit3"
    )
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert (found["recorded"], found["launches_seen"], found["exit_code"], found["kernels_seen"]) == (1, 2, 3, ["fill", "add"])
    assert "00000000 00000002" in done.stderr  # what the program printed
    shown = command_line(environment, "show", target)
    assert "add (incomplete)" in shown.stdout and re.search(r"process \d+ .*2 launches seen, 1 recorded", shown.stdout)
    assert "the module variable lost is not recorded" in command_line(environment, "show", target, "--launch", "1").stdout
    again = command_line(environment, "record", "-o", str(environment.program), "--", str(environment.program), "fill")
    assert again.returncode == 2 and "is no capture" in again.stderr
