"""The host threads of the warp executor: they stay, they stop when they must, and a forked process has its own."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time

import numpy as np
import pytest

from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, execute, warp_threads
from ptxgraft.text import Document

TEXT = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %ctaid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r0;
    ret;
}
"""
OUT = 0x7F0000000000


class Worker:
    """Runs ``body`` until it ends."""

    def __init__(self, body=lambda worker: None) -> None:
        self.body, self.stopped, self.thread, self.done = body, threading.Event(), 0, False

    def run(self) -> None:
        self.thread = threading.get_ident()
        self.body(self)
        self.done = True

    def stop(self) -> None:
        self.stopped.set()


def ran() -> bool:
    memory = allocate(OUT, 400)
    execute(Launch(bind(Document.parse(TEXT), "k"), 100, 32, OUT.to_bytes(8, "little"), allocations=[memory]), "warp", threads=2)
    return np.array_equal(memory.data.view(np.uint32), np.arange(100))


def in_a_child(answer) -> None:
    answer.send(ran())


def test_workers_run_side_by_side_on_threads_that_stay() -> None:
    meeting = threading.Barrier(3, timeout=30)
    workers = [Worker(lambda worker: meeting.wait()) for _ in range(3)]
    warp_threads.run_all(workers)
    assert len({w.thread for w in workers}) == 3 and threading.get_ident() not in {w.thread for w in workers}
    again = Worker()
    warp_threads.run_all([again])
    assert again.thread != threading.get_ident()


def test_a_call_from_another_thread_than_the_main_one_stays_on_it() -> None:
    worker = Worker()
    thread = threading.Thread(target=warp_threads.run_all, args=([worker],))
    thread.start()
    thread.join()
    assert worker.thread == thread.ident


def test_what_a_worker_raises_is_raised_when_all_are_done() -> None:
    def fail(worker: Worker) -> None:
        raise ZeroDivisionError

    other = Worker()
    with pytest.raises(ZeroDivisionError):
        warp_threads.run_all([Worker(fail), other])
    assert other.done


def interrupt_while_running(workers: list[Worker]) -> None:
    """A keyboard interrupt for the main thread as soon as the first worker runs."""

    def send() -> None:
        while not workers[0].thread:
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=send).start()
    with pytest.raises(KeyboardInterrupt):
        warp_threads.run_all(workers)


def test_an_interrupt_stops_the_workers_and_waits_for_them() -> None:
    workers = [Worker(lambda worker: worker.stopped.wait(30)) for _ in range(2)]
    interrupt_while_running(workers)
    assert all(w.done and w.stopped.is_set() for w in workers) and not warp_threads.abandoned()


def test_a_worker_that_does_not_stop_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_threads, "PATIENCE", 0.05)
    end = threading.Event()
    worker = Worker(lambda worker: end.wait(30))
    interrupt_while_running([worker])
    assert not worker.done and warp_threads.abandoned()
    end.set()
    while warp_threads.abandoned():
        time.sleep(0.001)
    assert worker.done


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    assert ran()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=in_a_child, args=(there,))
    child.start()
    try:
        assert here.poll(60) and here.recv()
    finally:
        child.join(10)
        child.kill()
