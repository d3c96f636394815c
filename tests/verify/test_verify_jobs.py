"""Jobs: plain data, the same verdict wherever they run."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from small_layer import SURFACE_STORE, edited

from ptxgraft.verify import Job, Options, Verdict, run_job, verify, verify_jobs


@pytest.fixture(scope="module")
def jobs(package, document) -> list[Job]:
    wrong = edited(document, (SURFACE_STORE, ""))
    options = Options(engine="numpy")
    return [
        Job(str(package), 7, document.data, options=options),
        Job(str(package), 7, wrong.data, options=options),
        Job(str(package), 7, document.data, original=wrong.data, options=options),
        Job(str(package), 8, document.data, options=options),
        Job(str(package), 7, b"not PTX", options=options),
        Job(str(package.parent / "nothing.ptxcap"), 7, document.data, options=options),
    ]


@pytest.fixture(scope="module")
def serial(jobs) -> list[Verdict]:
    return verify_jobs(jobs)


def test_verdicts_come_in_the_order_of_the_jobs(serial, recorded, document):
    assert [v.verdict for v in serial] == ["same", "differs", "differs", "not comparable", "not comparable", "not comparable"]
    assert serial[0] == verify(recorded, document, options=Options(engine="numpy"))
    assert "no launch has sequence number 8" in serial[3].why and "graft" in serial[4].why and "no such capture" in serial[5].why


def test_processes_give_what_a_serial_run_gives(jobs, serial):
    done: list[int] = []
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        assert verify_jobs(jobs, pool, progress=lambda position, verdict: done.append(position)) == serial
    assert sorted(done) == list(range(len(jobs)))


def test_threads_do_too(jobs, serial):
    with ThreadPoolExecutor(2) as pool:
        assert verify_jobs(jobs, pool) == serial


def test_jobs_and_verdicts_are_plain_data(jobs, serial):
    assert pickle.loads(pickle.dumps(jobs)) == jobs
    assert pickle.loads(pickle.dumps(serial)) == serial
    assert verify_jobs([]) == []


def test_a_bug_of_ours_is_no_verdict(jobs, monkeypatch):
    import importlib

    def broken(*args, **options):
        raise AssertionError("ours")

    monkeypatch.setattr(importlib.import_module("ptxgraft.verify.verifying"), "replay", broken)
    with pytest.raises(AssertionError, match="ours"):
        run_job(jobs[0])
