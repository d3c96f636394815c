"""`verify` over many launches and grafts: lines as they come, one document, results that stay, and going on with them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Verb, small_layer

from ptxgraft import capture
from ptxgraft.verify import workers

SEQS = list(range(3, 13))
MANY = ["--launch", "all", "--engine", "numpy"]


@pytest.fixture(scope="module")
def frame(tmp_path_factory) -> Path:
    """Launches 3 to 12 of the layer, and launch 20 of another kernel. Tests must not change it."""
    path = tmp_path_factory.mktemp("frame") / "frame.ptxcap"
    recorded = small_layer.record(small_layer.layer_document())
    other = replace(recorded, seq=20, kernel="other", module=recorded.module.replace(b"layer", b"other"), module_hash=None)
    capture.write([*(replace(recorded, seq=seq) for seq in SEQS), other], path)
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.ptx"
    path.write_bytes(small_layer.edited(small_layer.layer_document(), (small_layer.STORE, "")).data)
    return path


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def jobs_of(path: Path) -> Counter:
    return Counter((r["job"]["launch"], Path(r["job"]["graft"]).name) for r in lines(path))


def test_every_launch_of_the_grafted_kernel(verb: Verb, frame: Path, layer: Path, wrong: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    ended = verb("verify", frame, "-g", layer, "-g", wrong, *MANY, "--results", results)
    assert ended.code == 1
    *each, summary = ended.out.splitlines()
    assert summary == "20 jobs: 10 same, 10 differs"
    assert [line.split(" ")[0] for line in each] == [f"{n}/20" for n in range(1, 21)]
    assert sum(", layer.ptx: same: " in line for line in each) == sum(", wrong.ptx: differs: " in line for line in each) == 10
    assert ended.err == "note: 1 launches of other are left out: no graft is for it\n"
    assert jobs_of(results) == Counter({(seq, name): 1 for seq in SEQS for name in ("layer.ptx", "wrong.ptx")})
    first = lines(results)[0]
    assert (
        first["result"]["verdict"] == first["verdict"]
        and len(first["job"]["launch_sha256"]) == 64
        and first["job"]["options"]["engine"] == "numpy"
    )


def test_one_document(verb: Verb, frame: Path, layer: Path) -> None:
    ended = verb("verify", frame, "-g", layer, "--launch", "5", "--launch", "4", "--engine", "numpy", "--jobs", "1", "--json")
    assert ended.code == 0 and ended.json["verdict"] == "same" and ended.json["counts"] == {"same": 2}
    assert [row["job"]["launch"] for row in ended.json["jobs"]] == [4, 5]
    single = verb("verify", frame, "-g", layer, "--launch", "4", "--engine", "numpy", "--json").json
    assert {k: single[k] for k in ended.json["jobs"][0]["result"]} == ended.json["jobs"][0]["result"]
    assert len(ended.err.splitlines()) == 2


def test_a_folder_of_grafts(verb: Verb, frame: Path, layer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "grafts"
    for style in ("inline", "call"):
        assert verb("cut", layer, "-o", folder, "--style", style, "--no-check").code == 0
    ended = verb("verify", frame, "-g", folder, "--launch", "layer", "--launch", "20", "--engine", "numpy", "--json")
    assert ended.code == 0 and ended.json["counts"] == {"same": 20}
    assert {Path(row["job"]["graft"]).name for row in ended.json["jobs"]} == {"layer-inline.ptx", "layer-call.ptx"}
    one = verb("verify", frame, "-g", folder, "--style", "call", "--launch", "3", "--launch", "4", "--engine", "numpy", "--json")
    assert one.json["counts"] == {"same": 2}


def test_a_launch_of_another_module_is_not_comparable(verb: Verb, frame: Path, layer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "grafts"
    assert verb("cut", layer, "-o", folder, "--no-check").code == 0
    two = capture.open_capture(frame).launches[:2]
    two[1].module, two[1].module_hash = two[1].module + b"// built again\n", None
    capture.write(two, tmp_path / "two.ptxcap")
    ended = verb("verify", tmp_path / "two.ptxcap", "-g", folder, *MANY)
    assert ended.code == 2 and "launch 4 (layer), grafts: not comparable: " in ended.out and "was made for another module" in ended.out
    assert ended.out.splitlines()[-1] == "2 jobs: 1 same, 0 differs, 1 not comparable"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--launch", "3", "--resume"], 2, "name it with --results"),
        (["--launch", "3", "--jobs", "2", "--workers", "tcp://127.0.0.1:1"], 2, "do not go together"),
        (["--launch", "20", "--jobs", "1"], 2, "the grafts are for layer"),
        (["--launch", "3"], 2, "there is no folder"),
        (["--launch", "99", "--jobs", "1"], 2, "no launch has sequence number 99"),
        (["--launch", "3", "--workers", "tcp://127.0.0.1:1"], 4, "no Dask scheduler answers"),
    ],
)
def test_what_cannot_be_done_is_said(
    verb: Verb, frame: Path, layer: Path, words: list[str], code: int, says: str, tmp_path: Path, monkeypatch
) -> None:
    if code == 4:
        pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "REACH_SECONDS", 1)
    results = tmp_path / "none" / "results.jsonl" if "folder" in says else tmp_path / "results.jsonl"
    ended = verb("verify", frame, "-g", layer, *words, *([] if "--resume" in words else ["--results", results]))
    assert ended.code == code and says in ended.err and "Traceback" not in ended.err and not results.exists()


# -- stopped, and gone on with ------------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_is_done_and_resume_goes_on(verb: Verb, frame: Path, layer: Path, wrong: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    arguments = [str(a) for a in ("verify", frame, "-g", layer, "-g", wrong, *MANY, "--jobs", 1, "--results", results)]
    command = [sys.executable, "-c", "from ptxgraft.cli import main; main()", *arguments]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert started.stdout is not None and started.stdout.readline().startswith("1/20 ")
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does: workers get it too
    _, err = started.communicate(timeout=60)
    done = jobs_of(results)
    assert started.returncode == 130 and 1 <= len(done) < 20 and set(done.values()) == {1}
    assert err.splitlines()[-2:] == [f"{len(done)} of 20 jobs are done; {results} keeps them, --resume goes on", "ptxgraft: stopped"]
    assert "Traceback" not in err
    _gone(started.pid)

    with results.open("ab") as file:  # a line that was being written when the machine went down
        file.write(b'{"format": "ptxgraft jo')
    ended = verb(*arguments, "--resume")
    assert ended.code == 1 and ended.out.splitlines()[-1] == "20 jobs: 10 same, 10 differs"
    assert f"{len(done)} of 20 jobs are done in {results}" in ended.err
    assert len(jobs_of(results)) == 20 and set(jobs_of(results).values()) == {1}
    before = results.read_bytes()
    again = verb(*arguments, "--resume")
    assert again.code == 1 and results.read_bytes() == before and not multiprocessing.active_children()


def _gone(group: int) -> None:
    """No process of the group is left, soon."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("workers outlive the command")


def test_resume_refuses_changed_inputs(verb: Verb, frame: Path, layer: Path, tmp_path: Path) -> None:
    results, words = tmp_path / "results.jsonl", ["--launch", "3", "--launch", "4", "--engine", "numpy"]
    assert verb("verify", frame, "-g", layer, *words, "--results", results).code == 0
    ended = verb("verify", frame, "-g", layer, *words, "--results", results)
    assert ended.code == 2 and "--resume goes on with it" in ended.err
    before = results.read_bytes()
    layer.write_bytes(layer.read_bytes() + b"// edited\n")
    ended = verb("verify", frame, "-g", layer, *words, "--results", results, "--resume")
    assert ended.code == 2 and f"{results}:1: the graft has changed since" in ended.err and results.read_bytes() == before
    # Other options are other jobs: they are done, and go behind.
    layer.write_bytes(small_layer.PTX.read_bytes())
    assert verb("verify", frame, "-g", layer, *words, "--no-poison", "--results", results, "--resume").code == 0
    assert results.read_bytes().startswith(before) and len(lines(results)) == 4


def test_resume_refuses_a_changed_capture(verb: Verb, frame: Path, layer: Path, tmp_path: Path) -> None:
    results, cap = tmp_path / "results.jsonl", tmp_path / "cap.ptxcap"
    recorded = capture.open_capture(frame).launches[0]
    capture.write([recorded], cap)
    assert verb("verify", cap, "-g", layer, *MANY, "--results", results).code == 0
    capture.write([replace(recorded, args=recorded.args[:-4] + b"\2\0\0\0")], cap, overwrite=True)
    ended = verb("verify", cap, "-g", layer, *MANY, "--results", results, "--resume")
    assert ended.code == 2 and "the launch in the capture has changed since" in ended.err


def test_what_could_not_be_compared_is_tried_again(verb: Verb, frame: Path, layer: Path, tmp_path: Path) -> None:
    results, words = tmp_path / "results.jsonl", ["--launch", "3", "--engine", "numpy"]
    assert verb("verify", frame, "-g", layer, *words, "--results", results).code == 0
    line = results.read_text()
    results.write_text(line.replace('"verdict": "same"', '"verdict": "not comparable"'))
    assert verb("verify", frame, "-g", layer, *words, "--results", results, "--resume").code == 0
    assert [r["verdict"] for r in lines(results)] == ["not comparable", "same"]


@pytest.mark.parametrize(
    "text", ["text", "[]\n", "{}\n", "\xff\n", "[" * 100_000 + "\n", '{"format": "ptxgraft job", "version": 1, "job": 3}\n']
)
def test_a_file_of_something_else_is_refused(verb: Verb, frame: Path, layer: Path, tmp_path: Path, text: str) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text(text, encoding="latin-1")
    ended = verb("verify", frame, "-g", layer, "--launch", "3", "--engine", "numpy", "--results", results, "--resume")
    assert ended.code == 2 and f"{results}:1: this line is " in ended.err and results.read_text(encoding="latin-1") == text


def test_on_a_cluster(verb: Verb, frame: Path, layer: Path, wrong: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        ended = verb("verify", frame, "-g", layer, "-g", wrong, *MANY, "--workers", cluster.scheduler_address, "--json")
    assert ended.code == 1 and ended.json["counts"] == {"same": 10, "differs": 10}
    assert "by the same paths" in ended.err


def test_a_bisection_by_jobs(verb: Verb, frame: Path, wrong: Path) -> None:
    words = ["bisect", frame, "-g", wrong, "--launch", "4", "--engine", "numpy", "--json"]
    one, many = verb(*words), verb(*words, "--jobs", "2")
    assert one.code == many.code == 1 and one.json == many.json and one.json["outputs"]["verdict"] == "differs"
