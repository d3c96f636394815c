"""A bisection by jobs finds what one in one go finds."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import cast

import pytest
from small_layer import STORE, edited
from test_verify_bisect import EDITS

from ptxgraft import capture
from ptxgraft.errors import DeviceError, UsageError
from ptxgraft.graft import cut, text_body
from ptxgraft.text import Document
from ptxgraft.verify import Bisection, Job, Lost, Options, Processes, bisect, bisect_jobs
from ptxgraft.verify.bisect_jobs import bisect_on, common_stages

NUMPY = Options(engine="numpy")


class Here:
    """Workers and their executor in one, which runs each job at once in this process and keeps its stages."""

    slots, breaks, chances, lost = 2, False, 1, ()

    def __init__(self) -> None:
        self.stages: list[tuple[str, ...]] = []

    def start(self) -> Executor:
        return cast(Executor, self)

    def submit(self, run, job: Job) -> Future:
        self.stages.append(job.stages)
        future: Future = Future()
        future.set_result(run(job))
        return future

    def stop(self, executor: Executor) -> None:
        pass


def texts(document: Document) -> dict[str, bytes]:
    return {
        "same": document.data,
        "first stage": edited(document, EDITS["a"]).data,
        "phase": edited(document, EDITS["p2"]).data,
        "behind the last stage": edited(document, (STORE, "")).data,
        "phases replaced": cut(document, "layer", "p1", style="inline", body=text_body("// nothing at all\n")).text,
    }


@pytest.fixture(params=["same", "first stage", "phase", "behind the last stage", "phases replaced"])
def graft(request, document, tmp_path) -> Path:
    path = tmp_path / "graft.ptx"
    path.write_bytes(texts(document)[request.param])
    return path


@pytest.fixture
def there(package) -> capture.Launch:
    return capture.open_capture(package).launches[0]


def test_the_same_answer(graft, package, there):
    whole = bisect(there, Document.read(graft), engine="numpy")
    assert bisect_on(Here(), there, package, graft, options=NUMPY) == whole
    without = bisect(there, Document.read(graft), engine="numpy", statements=False)
    assert bisect_on(Here(), there, package, graft, options=NUMPY, statements=False) == without


def test_on_processes(document, package, there, tmp_path):
    (tmp_path / "graft.ptx").write_bytes(texts(document)["phase"])
    found = bisect_on(Processes(2), there, package, tmp_path / "graft.ptx", options=NUMPY)
    assert found.stage == "p2" and found == bisect(there, Document.read(tmp_path / "graft.ptx"), engine="numpy")


def test_stages_are_dealt_out_once_in_order(document, package, there, tmp_path):
    (tmp_path / "same.ptx").write_bytes(document.data)
    workers = Here()
    found = bisect_on(workers, there, package, tmp_path / "same.ptx", options=NUMPY)
    names, _ = common_stages(there, document)
    assert len(workers.stages) > 1 and [s for group in workers.stages for s in group] == names == found.checked


def test_stages_that_are_none(document, package, there, tmp_path):
    (tmp_path / "same.ptx").write_bytes(document.data)
    with pytest.raises(UsageError, match="no stage 'p99'"):
        bisect_on(Here(), there, package, tmp_path / "same.ptx", options=NUMPY, stages=["a", "p99"])
    chosen = bisect_on(Here(), there, package, tmp_path / "same.ptx", options=NUMPY, stages=["out", "a"])
    assert chosen.checked == ["a", "out"]


def test_a_lost_group_is_no_answer(document, package, there, tmp_path, monkeypatch):
    (tmp_path / "same.ptx").write_bytes(document.data)
    monkeypatch.setattr(bisect_jobs, "run_jobs", lambda jobs, workers: ((n, Lost("killed")) for n in range(len(jobs))))
    with pytest.raises(DeviceError, match=r"stages a to .*: killed"):
        bisect_on(Here(), there, package, tmp_path / "same.ptx", options=NUMPY)


def test_the_first_group_that_differs_decides_in_whatever_order_they_end(document, package, there, tmp_path, monkeypatch):
    (tmp_path / "same.ptx").write_bytes(document.data)
    asked: list[int] = []

    def ended(jobs, workers):
        for n in (1, 3, 0, 2):
            asked.append(n)
            yield n, Bisection(jobs[n].stages[0] if n % 2 else None, checked=list(jobs[n].stages[:1]))

    monkeypatch.setattr(bisect_jobs, "run_jobs", ended)
    found = bisect_on(Here(), there, package, tmp_path / "same.ptx", options=NUMPY, statements=False)
    names, _ = common_stages(there, document)
    assert found.stage == found.checked[1] == names[1] and len(found.checked) == 2 and asked == [1, 3, 0]
