"""Jobs: plain data, the same result wherever they run, and a result each whatever becomes of the workers."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from small_layer import SURFACE_STORE, edited

from ptxgraft import capture
from ptxgraft.capture.identity import identity
from ptxgraft.errors import DeviceError, SourceError, UnsupportedError
from ptxgraft.verify import Bisection, Cluster, Job, Lost, Options, Processes, Verdict, make_job, run_job, run_jobs, verify, workers

NUMPY = Options(engine="numpy")


@pytest.fixture(scope="module")
def jobs(package, recorded, document, tmp_path_factory) -> list[Job]:
    folder = tmp_path_factory.mktemp("modules")
    texts = {"layer": document.data, "wrong": edited(document, (SURFACE_STORE, "")).data, "none": b"not PTX"}
    paths = {name: folder / f"{name}.ptx" for name in texts}
    for name, path in paths.items():
        path.write_bytes(texts[name])
    good = make_job(recorded_there(package), package, paths["layer"], options=NUMPY)
    return [
        good,
        make_job(recorded_there(package), package, paths["wrong"], options=NUMPY),
        make_job(recorded_there(package), package, paths["layer"], paths["wrong"], NUMPY),
        replace(good, launch=8),
        make_job(recorded_there(package), package, paths["none"], options=NUMPY),
        replace(good, capture=str(package.parent / "nothing.ptxcap")),
        make_job(recorded_there(package), package, paths["wrong"], options=NUMPY, stages=("a", "out")),
    ]


def recorded_there(package: Path) -> capture.Launch:
    return capture.open_capture(package).launches[0]


@pytest.fixture(scope="module")
def serial(jobs) -> list[Verdict | Bisection]:
    return [run_job(job) for job in jobs]


def in_order(found: list[tuple[int, object]]) -> list[object]:
    assert sorted(number for number, _ in found) == list(range(len(found)))
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def test_results_of_jobs(serial, recorded, document):
    verdicts = [r for r in serial if isinstance(r, Verdict)]
    assert [v.verdict for v in verdicts] == ["same", "differs", "differs", "not comparable", "not comparable", "not comparable"]
    assert verdicts[0] == verify(recorded, document, options=NUMPY)
    assert "no launch has sequence number 8" in verdicts[3].why and "none.ptx" in verdicts[4].why and "no such capture" in verdicts[5].why
    assert isinstance(serial[6], Bisection) and serial[6].checked == ["a", "out"] and serial[6].outputs.verdict == "differs"


def test_processes_give_what_a_serial_run_gives(jobs, serial):
    assert in_order(list(run_jobs(jobs, Processes(2)))) == serial
    assert list(run_jobs([], Processes(2))) == []
    assert not multiprocessing.active_children()


def test_jobs_and_results_are_plain_data(jobs, serial):
    assert pickle.loads(pickle.dumps(jobs)) == jobs
    assert pickle.loads(pickle.dumps(serial)) == serial
    assert max(len(pickle.dumps(job)) for job in jobs) < 2000  # paths and hashes, no contents


# -- inputs that change -------------------------------------------------------------------------------------------------------


def test_inputs_that_changed_are_refused(jobs, tmp_path, package, recorded, document):
    path = tmp_path / "graft.ptx"
    path.write_bytes(document.data)
    job = make_job(recorded_there(package), package, path, options=NUMPY)
    path.write_bytes(document.data + b"// edited\n")
    found = run_job(job)
    assert isinstance(found, Verdict) and found.verdict == "not comparable" and "graft.ptx is not what the job was made for" in found.why
    cap = tmp_path / "cap.ptxcap"
    capture.write([recorded], cap)
    job = make_job(recorded_there(cap), cap, jobs[0].graft, options=NUMPY)
    capture.write([replace(recorded, shared_bytes=16)], cap, overwrite=True)
    found = run_job(job)
    assert isinstance(found, Verdict) and "launch 7 (layer) is not what the job was made for" in found.why
    with pytest.raises(SourceError, match="cannot read the module"):
        make_job(recorded, cap, tmp_path / "no.ptx")


def changes(recorded: capture.Launch) -> dict[str, capture.Launch]:
    """The launch with one part changed each."""
    (first, *rest), surface = recorded.allocations, recorded.surfaces[0]
    flipped = bytes(first.before)[:-1] + bytes([first.before[-1] ^ 1])
    return {
        "arguments": replace(recorded, args=recorded.args[:-1] + b"\x7f"),
        "kernel": replace(recorded, kernel="other"),
        "before": replace(recorded, allocations=[replace(first, before=flipped), *rest]),
        "after": replace(recorded, allocations=[*recorded.allocations[:-1], replace(recorded.allocations[-1], after=None)]),
        "texels": replace(recorded, surfaces=[replace(surface, before=bytes(len(surface.before)))] if surface.before.any() else [replace(surface, after=None)]),
        "format": replace(recorded, surfaces=[replace(surface, address=("clamp", "clamp"))]),
        "module": replace(recorded, module=b"// none", module_hash=None),
        "variable": replace(recorded, variables=[capture.Variable("v", b"\0")]),
        "notes": replace(recorded, notes=["something was left out"]),
    }  # fmt: skip


@pytest.mark.parametrize("form", ["memory", "package", "directory"])
def test_identity_tells_every_part(recorded, tmp_path, form):
    def stored(launch: capture.Launch, name: str) -> capture.Launch:
        if form == "memory":
            return launch
        path = tmp_path / name
        {"package": capture.write, "directory": capture.write_directory}[form]([launch], path)
        return capture.open_capture(path).launches[0]

    mine = stored(recorded, "mine")
    assert identity(mine) == identity(mine)
    if form == "package":  # content-addressed: a copy is the same launch
        assert identity(stored(recorded, "copy")) == identity(mine)
    kept = {"arguments", "before", "after"} if form == "directory" else set(changes(recorded))
    for name in kept:
        assert identity(stored(changes(recorded)[name], name)) != identity(mine), name


def test_identity_opens_nothing(package, monkeypatch):
    opened = capture.open_capture(package).launches[0]
    blobs = importlib.import_module("ptxgraft.capture.blobs")
    monkeypatch.setattr(blobs.BlobContents, "load", lambda *_: pytest.fail("contents were loaded"))
    assert identity(opened)


def test_a_directory_capture_that_was_touched_is_another(recorded, tmp_path):
    path = tmp_path / "folder"
    capture.write_directory([recorded], path)
    before = identity(capture.open_capture(path).launches[0])
    os.utime(next(path.rglob("alloc-0.bin")), ns=(1, 1))
    assert identity(capture.open_capture(path).launches[0]) != before


# -- workers that end ---------------------------------------------------------------------------------------------------------


def test_the_jobs_of_killed_workers_are_done_by_others(jobs, serial):
    found, killed = [], 0
    for number, result in run_jobs(jobs * 2, Processes(2)):
        found.append((number, result))
        if len(found) in (1, 4):
            for worker in multiprocessing.active_children():
                os.kill(worker.pid, signal.SIGKILL)
                killed += 1
    assert killed >= 2 and in_order(found) == serial * 2


class Deadly(Processes):
    """Processes that end when they are given a job on this module."""

    module = ""

    def start(self):
        pool = super().start()
        submit = pool.submit
        pool.submit = lambda run, job: submit(os._exit, 9) if job.graft == self.module else submit(run, job)
        return pool


def test_a_job_that_ends_its_worker_twice_has_failed(jobs, serial):
    workers = Deadly(2)
    workers.module = jobs[1].graft
    results = in_order(list(run_jobs(jobs[:4], workers)))
    assert isinstance(results[1], Lost) and "twice" in results[1].why
    assert [results[0], *results[2:]] == [serial[0], *serial[2:4]]


class Breaking:
    """Workers of two slots whose first executor breaks: the first job's future says so, the second's never says anything."""

    slots, breaks, chances, lost = 2, True, 2, (BrokenExecutor,)

    def __init__(self) -> None:
        self.started: list[list[Job]] = []

    def start(self) -> Executor:
        self.started.append([])
        return cast(Executor, self)

    def submit(self, run, job: Job) -> Future:
        future: Future = Future()
        self.started[-1].append(job)
        if len(self.started) > 1:
            future.set_result(run(job))
        elif len(self.started[-1]) == 1:
            future.set_exception(BrokenExecutor())
        return future

    def stop(self, executor: Executor) -> None:
        pass


def test_jobs_of_a_broken_pool_run_again_one_at_a_time(jobs, serial):
    workers = Breaking()
    assert in_order(list(run_jobs(jobs[:4], workers))) == serial[:4]
    assert workers.started == [jobs[:2], jobs[:4]]


def test_processes_are_ended_with_what_they_do_and_leave_interrupts_alone():
    pool = Processes(1)
    executor = pool.start()
    assert executor.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    endless = executor.submit(time.sleep, 20)
    while not endless.running():  # before that it could be called off
        time.sleep(0.01)
    pool.stop(executor)
    with pytest.raises((BrokenExecutor, CancelledError)):
        endless.result()
    assert not multiprocessing.active_children()


def test_a_bug_of_ours_is_no_verdict(jobs, monkeypatch):
    def broken(*args, **options):
        raise AssertionError("ours")

    monkeypatch.setattr(importlib.import_module("ptxgraft.verify.verifying"), "replay", broken)
    with pytest.raises(AssertionError, match="ours"):
        run_job(jobs[0])


# -- a Dask cluster -----------------------------------------------------------------------------------------------------------


def test_a_cluster_whose_worker_is_killed(jobs, serial):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        found = []
        for number, result in run_jobs(jobs * 2, Cluster(local.scheduler_address)):
            found.append((number, result))
            if len(found) == 1:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert in_order(found) == serial * 2


def test_without_the_package_or_a_scheduler(monkeypatch):
    monkeypatch.setattr(workers, "REACH_SECONDS", 1)
    pytest.importorskip("distributed")
    for address in ("tcp://127.0.0.1:1", "nowhere", "ftp://127.0.0.1:1", ""):
        with pytest.raises(DeviceError, match="no Dask scheduler answers at"):
            Cluster(address)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'ptxgraft\[dask\]'"):
        Cluster("tcp://127.0.0.1:1")


def test_the_package_is_not_loaded_without_a_cluster():
    import subprocess

    text = "import ptxgraft.cli.app, ptxgraft.verify, sys; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
