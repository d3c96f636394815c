"""Replay, compare, explain, bisect.

Invariant: a verdict rests on bytes that were compared, and says on how many.
"""

import sys
from types import ModuleType
from typing import Any

from ptxgraft.verify.bench import Benchmark, Timing, bench
from ptxgraft.verify.bisect import bisect
from ptxgraft.verify.compare import VALUES, compare, describe
from ptxgraft.verify.explain import explain, writer_of
from ptxgraft.verify.jobs import Job, Lost, make_job, run_job, run_jobs
from ptxgraft.verify.model import NOT_COMPARABLE, SAME, Bisection, Difference, OutputResult, Verdict, Writer
from ptxgraft.verify.oracle import Oracle, Readings, consult, make_oracle
from ptxgraft.verify.poison import poisoned
from ptxgraft.verify.replay import ASSEMBLERS, Output, Replay, document_of, outputs_of, recorded_outputs, replay, unrecorded
from ptxgraft.verify.verifying import AGAINST, Options, assumed, verify
from ptxgraft.verify.weights import Sample, WeightProof, prove_weights
from ptxgraft.verify.workers import Cluster, Processes

__all__ = [
    "AGAINST",
    "ASSEMBLERS",
    "NOT_COMPARABLE",
    "SAME",
    "VALUES",
    "Benchmark",
    "Bisection",
    "Cluster",
    "Difference",
    "Job",
    "Lost",
    "Options",
    "Oracle",
    "Output",
    "OutputResult",
    "Processes",
    "Readings",
    "Replay",
    "Sample",
    "Timing",
    "Verdict",
    "WeightProof",
    "Writer",
    "assumed",
    "bench",
    "bisect",
    "compare",
    "consult",
    "describe",
    "document_of",
    "explain",
    "make_job",
    "make_oracle",
    "outputs_of",
    "poisoned",
    "prove_weights",
    "recorded_outputs",
    "replay",
    "run_job",
    "run_jobs",
    "unrecorded",
    "verify",
    "writer_of",
]  # fmt: skip


class _Front(ModuleType):
    """Lets ``ptxgraft.verify(...)``, which the Python API promises, work although a package has the same name."""

    def __call__(self, *args: Any, **options: Any) -> Verdict:
        return verify(*args, **options)


sys.modules[__name__].__class__ = _Front
