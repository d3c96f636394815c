"""Results of jobs as lines of a file: what is done stays done, whatever happens next.

Invariant: a line says by itself which job it is of (paths, hashes, options) and how that ended; it is on disk before the next result is taken. Nothing of a job
whose inputs have changed since is taken for its result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.report.files import check_target
from ptxgraft.report.plain import plain
from ptxgraft.verify import SAME, Bisection, Job, Lost, Verdict

FORMAT, VERSION = "ptxgraft job", 1
BEGINNING, NEWLINE = f'{{"format": "{FORMAT}"'.encode(), b"\n"
FAILED = "failed"
HASHES = {"launch_sha256": "the launch in the capture", "graft_sha256": "the graft", "original_sha256": "the original"}
SETTLED = ("same", "differs")
"""What is not done again. A job that could not be compared or whose worker was lost is: what was missing may be there now."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended: ``verdict`` is ``same``, ``differs``, ``not comparable`` or ``failed``, ``text`` the sentence for people, ``result`` all of it as plain data."""

    job: dict[str, Any]
    verdict: str
    text: str
    result: dict[str, Any]

    @property
    def line(self) -> str:
        """One line of JSON."""
        whole = {"format": FORMAT, "version": VERSION, "job": self.job, "verdict": self.verdict, "text": self.text, "result": self.result}
        return json.dumps(whole, allow_nan=False) + "\n"


def ended(job: Job, result: Verdict | Bisection | Lost) -> Ended:
    """A job's result for people and for files."""
    verdict = FAILED if isinstance(result, Lost) else result.verdict if isinstance(result, Verdict) else (SAME, "differs")[result.exit_code]
    return Ended(plain(job), verdict, f"failed: {result.why}" if isinstance(result, Lost) else str(result), plain(result))


def check_results(path: Path, resume: bool) -> None:
    """Raise ``UsageError`` when there is a file already that is not to be gone on with, or none can be made: to be asked before any work."""
    if path.exists() and not resume:
        raise UsageError(f"{path} is there already", hint="--resume goes on with it; or name another file")
    check_target(path)


class ResultsFile:
    """A file that results are appended to, line by line."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it. ``UsageError`` when it cannot be written.

        A last line that was never finished is cut off, so that the next one begins a line."""
        self.path = path
        try:
            self._stream = path.open("ab")
            whole = path.read_bytes().rfind(b"\n") + 1
            self._stream.truncate(whole)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror or error}") from None

    def append(self, result: Ended) -> None:
        """Write one line and see it to the disk."""
        self._stream.write(result.line.encode())
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def settled(path: Path, jobs: Sequence[Job]) -> dict[int, Ended]:
    """Which of ``jobs`` a results file has the result of, by position. Lines of other jobs are left alone; so is a last line that was never finished.

    ``UsageError`` when a line is of one of the jobs as it was with other inputs, ``SourceError`` when a line is no result.
    """
    places = {_place(plain(job)): (number, plain(job)) for number, job in enumerate(jobs)}
    found: dict[int, Ended] = {}
    for number, line in _lines(path):
        result = _read(line, f"{path}:{number}")
        if (known := places.get(_place(result.job))) is None:
            continue
        position, job = known
        for key, what in HASHES.items():
            if result.job.get(key) != job[key]:
                raise UsageError(
                    f"{path}:{number}: {what} has changed since ({_short(result.job.get(key))} then, {_short(job[key])} now): {jobs[position]}",
                    hint="start again with another file, or put the old input back",
                )
        if result.verdict in SETTLED:
            found[position] = result
    return found


def _place(job: dict[str, Any]) -> str:
    """What a job is, but for its inputs' contents."""
    return json.dumps({key: value for key, value in job.items() if key not in HASHES}, sort_keys=True)


def _short(digest: object) -> str:
    return f"{digest[:16]}..." if isinstance(digest, str) else "none"


def _lines(path: Path) -> Iterable[tuple[int, bytes]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    whole, rest = data[: data.rfind(b"\n") + 1], data[data.rfind(b"\n") + 1 :]
    if not (rest.startswith(BEGINNING) or BEGINNING.startswith(rest)):  # it would be cut off
        raise SourceError(f"{path}:{whole.count(NEWLINE) + 1}: this line is no result of a job", hint="name a file that --results wrote")
    return ((n, line) for n, line in enumerate(whole.split(b"\n"), 1) if line)


def _read(line: bytes, where: str) -> Ended:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise SourceError(f"{where}: this line is not JSON", hint="name a file that --results wrote") from None
    parts = {"job": dict, "verdict": str, "text": str, "result": dict}
    good = isinstance(value, dict) and (value.get("format"), value.get("version")) == (FORMAT, VERSION)
    if not good or not all(isinstance(value.get(key), kind) for key, kind in parts.items()):
        raise SourceError(f"{where}: this line is no result of a job of version {VERSION}", hint="name a file that --results wrote")
    return Ended(**{key: value[key] for key in parts})
