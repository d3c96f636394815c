"""Original against graft on a recorded launch.

Invariant: a verdict depends on the launch, the two modules and the options, and on nothing else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from ptxgraft import capture
from ptxgraft.errors import KernelFault, UnsupportedError, UsageError
from ptxgraft.graft import Cut
from ptxgraft.isa import bind
from ptxgraft.run import EXECUTORS
from ptxgraft.run.execution import check_choice
from ptxgraft.text import Document
from ptxgraft.verify.compare import compare
from ptxgraft.verify.explain import explain
from ptxgraft.verify.model import Verdict
from ptxgraft.verify.poison import poisoned
from ptxgraft.verify.replay import Replay, document_of, ran_where, recorded_outputs, replay, unrecorded

AGAINST = ("original", "recorded", *EXECUTORS)


@dataclass(frozen=True, slots=True)
class Options:
    """How to run and judge.

    ``on`` is the executor of the judged run. ``against`` is what that is compared with: ``original`` (the original, run on the same executor), ``cpu`` or
    ``cuda`` (the original, run there), or ``recorded`` (the capture's state after the launch). On ``cpu``, ``engine`` runs with the bits of ``profile``; on
    ``cuda``, ``timeout`` is the seconds that a kernel may run and ``assembler`` what makes machine code of PTX (``driver``, ``ptxas``).
    ``tolerance`` and ``values`` as in ``compare``; ``outputs`` restricts the comparison to outputs of these names. ``poison``: fill outputs that the
    original never reads before both runs; it goes with ``original`` only, what was recorded stands on the recorded contents.
    """

    engine: str = "warp"
    profile: str = "sm_90"
    tolerance: float | None = None
    values: str = "f32"
    against: str = "original"
    explain: bool = True
    poison: bool = True
    outputs: tuple[str, ...] = ()
    on: str = "cpu"
    timeout: float | None = None
    assembler: str = "driver"

    def __post_init__(self) -> None:
        check_choice("executor", self.on, EXECUTORS)
        if self.against not in AGAINST:
            raise UsageError(f"cannot compare against {self.against!r}", hint=f"one of {', '.join(AGAINST)}")

    @property
    def reference(self) -> str:
        """The executor that the original runs on."""
        return self.against if self.against in EXECUTORS else self.on

    def run(self, recorded: capture.Launch, document: Document | None, on: str) -> Replay:
        """One run on an executor."""
        return replay(
            recorded, document, engine=self.engine, profile=self.profile, on=on, timeout=self.timeout, assembler=self.assembler
        )  # fmt: skip


def verify(
    recorded: capture.Launch, graft: Document | Cut, original: Document | None = None, options: Options | None = None, **changes: Any
) -> Verdict:
    """Run ``graft`` on a recorded launch and judge what it leaves, against the original run here or against the capture.

    The module in the capture is taken when ``original`` is None. ``changes`` are single options by name, as in ``tolerance=1e-3``. Raises ``UsageError`` when there is nothing to compare, ``SourceError`` when the
    capture lacks what is needed, ``KernelFault`` when one of the two runs does what no kernel may.
    """
    options = replace(options or Options(), **changes)
    judge = _against_recorded if options.against == "recorded" else _against_original
    return judge(recorded, graft.document if isinstance(graft, Cut) else graft, original, options)


def _against_original(recorded: capture.Launch, graft: Document, original: Document | None, options: Options) -> Verdict:
    reference = original
    if reference is None and (recorded.module is not None or recorded.binary is None):
        reference = document_of(recorded)
    launch, names = recorded, []
    if options.poison and reference is not None:  # of machine code nobody knows what it reads
        launch, names = poisoned(recorded, bind(reference, recorded.kernel))
    own = original is None and options.reference == "cuda"  # machine code of the capture runs there, if it has any
    expected = options.run(launch, None if own else reference, options.reference)
    judged = options.run(launch, graft, options.on)
    verdict = compare(expected.outputs, judged.outputs, tolerance=options.tolerance, values=options.values, names=options.outputs)
    _explain(verdict, launch, reference, graft, judged, options)
    verdict.poisoned = [*names, *(n for n in unrecorded(launch) if n not in names)]
    verdict.warnings += [*_other_module(recorded, original), *assumed(judged)]
    if "cuda" in (options.on, options.reference):
        verdict.notes += [*ran_where("original", expected), *ran_where("graft", judged)]
    verdict.notes += _unconfirmed(expected, judged)
    return verdict


def _against_recorded(recorded: capture.Launch, graft: Document, original: Document | None, options: Options) -> Verdict:
    expected = recorded_outputs(recorded)
    if not expected:
        raise UsageError(
            f"nothing to compare: {recorded.label} has no state recorded after it", hint="compare against the original, run here"
        )
    judged = options.run(recorded, graft, options.on)
    names = options.outputs or tuple(o.name for o in expected)
    verdict = compare(expected, judged.outputs, tolerance=options.tolerance, values=options.values, names=names)
    reference = original if original is not None else document_of(recorded) if recorded.module is not None else None
    _explain(verdict, recorded, reference, graft, judged, options)
    verdict.poisoned = unrecorded(recorded)
    verdict.warnings += [*_other_module(recorded, original), *assumed(judged)]
    if options.on == "cuda":
        verdict.notes += ran_where("graft", judged)
    verdict.notes += _unconfirmed(judged)
    return verdict


def _explain(
    verdict: Verdict, launch: capture.Launch, reference: Document | None, graft: Document, judged: Replay, options: Options
) -> None:
    """Explain the first difference, if one is wanted. On a GPU's difference the CPU is asked who stores there; when it cannot run the kernel, it says why."""
    if verdict.first is None or not options.explain:
        return
    try:
        verdict.first = explain(verdict.first, launch, reference, graft, judged.outputs, engine=options.engine, profile=options.profile)
    except (KernelFault, UnsupportedError) as error:
        if options.on == "cpu":
            raise
        verdict.notes.append(f"the difference is not explained: on cpu, {error}")


def assumed(ran: Replay) -> list[str]:
    """What had to be assumed for a run."""
    return [n for n in ran.notes if n not in ran.result.notes]


def _unconfirmed(*runs: Replay) -> list[str]:
    """What runs on the CPU used whose bits are not confirmed on their profile."""
    return list(dict.fromkeys(n for ran in runs if ran.result.known for n in ran.result.notes))


def _other_module(recorded: capture.Launch, original: Document | None) -> list[str]:
    """A warning when an original was given that is not the module which the launch was recorded with: only the kernel's name is the same."""
    if original is None or recorded.module_hash in (None, hashlib.sha256(original.data).hexdigest()):
        return []
    return [f"{original.name} is not the module that {recorded.label} was recorded with; only the kernel's name is the same"]
