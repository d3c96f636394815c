"""Running a program with the injected library, and turning what it wrote into a capture.

Invariant: the program's own exit code and output are passed on; until the capture is written whole, what was recorded lies in one folder beside it, which
is removed at the end.
"""

from __future__ import annotations

import os
import signal
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ptxgraft.capture.blobs import CHUNK_BYTES
from ptxgraft.capture.contents import path_text
from ptxgraft.capture.package import package_writer
from ptxgraft.containers import variables_of
from ptxgraft.errors import DeviceError, PtxgraftError, SourceError, UsageError
from ptxgraft.run.recorder.building import build_library, find_cupti, pattern_fault
from ptxgraft.run.recorder.journal import IMAGE_NAME, Seen, read_journals

MAX_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Choice:
    """Which launches are recorded. ``kernel`` is searched in kernel names (POSIX extended regular expression); of the matching launches of a process, those
    whose numbers, from 1, are in ``nth``, all when it is empty. ``max_bytes`` bounds the memory that is recorded of one launch."""

    kernel: str = ""
    nth: tuple[int, ...] = ()
    max_bytes: int = MAX_BYTES


@dataclass(slots=True)
class Recording:
    """What came of it. ``exit_code`` is the program's own (128 + n when signal n ended it); ``incomplete`` launches are among ``recorded``."""

    exit_code: int
    recorded: int
    incomplete: int
    seen: Seen
    path: Path
    notes: list[str] = field(default_factory=list)


def record(command: Sequence[str], target: Path, choice: Choice | None = None, *, quiet_output: bool = False) -> Recording:
    """Run ``command`` and write a capture of its launches at ``target`` (an old capture there is replaced). ``quiet_output``: its standard
    output goes to standard error.

    Raises ``DeviceError`` when there is no CUPTI or it could not be used, ``UsageError`` when the command cannot be started, the library cannot be compiled or
    no launch was recorded (the message says what was seen).
    """
    choice = choice or Choice()
    if other := os.environ.get("CUDA_INJECTION64_PATH"):
        raise UsageError(f"another tool is to be loaded into the program: CUDA_INJECTION64_PATH is {other}", hint="unset it")
    cupti, library = find_cupti(), build_library()
    if (fault := pattern_fault(library, choice.kernel)) is not None:
        raise UsageError(f"{choice.kernel!r} is no regular expression: {fault}", hint="POSIX extended syntax, searched in kernel names")
    try:
        aside = tempfile.TemporaryDirectory(prefix=f".{target.name[:40]}.recording-", dir=target.parent)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
    with aside as folder, answering(Path(folder)) as asks:
        given = {
            "CUDA_INJECTION64_PATH": str(library),
            "PTXGRAFT_RECORD_DIR": os.path.abspath(folder),
            "PTXGRAFT_RECORD_CUPTI": str(cupti),
            "PTXGRAFT_RECORD_KERNEL": choice.kernel,
            "PTXGRAFT_RECORD_NTH": ",".join(map(str, choice.nth)),
            "PTXGRAFT_RECORD_MAX_BYTES": str(choice.max_bytes),
            "PTXGRAFT_RECORD_CHUNK_BYTES": str(CHUNK_BYTES),
            "PTXGRAFT_RECORD_ASKS": asks,
        }
        exit_code = _run(command, os.environ | given, quiet_output)
        launches, seen = read_journals(Path(folder))
        if not launches:
            raise _nothing(seen, choice, exit_code)
        with package_writer(target, overwrite=True) as writer:
            for launch in launches:
                try:
                    writer.add(launch)
                except PtxgraftError as error:  # one launch that cannot be kept does not take the others with it
                    seen.remarks.append(f"{path_text(launch.label)} was recorded and could not be kept: {error}")
            writer.remarks += seen.remarks
        launches = [launch for launch in launches if launch.seq in writer.launches]
        incomplete = sum(bool(launch.notes) for launch in launches)
        return Recording(exit_code, len(launches), incomplete, seen, target, list(dict.fromkeys(writer.notes)))


def _run(command: Sequence[str], environment: dict[str, str], quiet_output: bool) -> int:
    """The program's exit code. An interrupt from the terminal reaches the program itself; we wait for what it makes of it."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda number, frame: None) if main else None
    try:
        done = subprocess.Popen(command, env=environment, stdout=2 if quiet_output else None).wait()
    except OSError as error:
        raise UsageError(f"cannot start {command[0]}: {error.strerror}") from None
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
    return 128 - done if done < 0 else done


def _nothing(seen: Seen, choice: Choice, exit_code: int) -> PtxgraftError:
    """Why there is no capture: what the program did."""
    ended = f" (the program ended with exit code {exit_code})" if exit_code else ""
    if not seen.processes:
        return UsageError(
            f"nothing was recorded: the program did not use the CUDA driver{ended}",
            hint="it must be a 64-bit program that loads libcuda.so.1",
        )
    if seen.complaints:
        return DeviceError(f"nothing was recorded: {seen.complaints[0]}{ended}")
    if seen.refused:
        why = "; ".join(f"{count} of {kernel}: {reason}" for (kernel, reason), count in list(seen.refused.items())[:5])
        return UsageError(f"nothing was recorded: what was launched was refused: {why}{ended}")
    if not seen.launches:
        return UsageError(f"nothing was recorded: the program launched no kernel{ended}")
    shown = ", ".join(seen.kernels[:20]) + (f", and {len(seen.kernels) - 20} more" if len(seen.kernels) > 20 else "")
    what = f" of a kernel matching {choice.kernel!r}" if choice.kernel else ""
    number = f" number {', '.join(map(str, choice.nth))}" if choice.nth else ""
    return UsageError(
        f"nothing was recorded: there was no launch{number}{what} among {seen.launches} launches ({seen.matches} match){ended}",
        hint=f"kernels seen: {shown}",
    )


# -- answering the injected library ---------------------------------------------------------------------------------------------


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def answering(folder: Path) -> Iterator[str]:
    """A socket that answers with the names of an image's module variables; gives its path. A question is a line with the image's SHA-256 and the
    card's architecture, an answer a line for each name, and a point."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            digest, _, architecture = self.rfile.readline(200).decode("ascii", "replace").strip().partition(" ")
            if not IMAGE_NAME.fullmatch(digest):
                return
            try:
                image = (folder / f"image-{digest}").read_bytes()
                names = variables_of(image, int(architecture) if architecture.isdigit() else None)
            except (OSError, SourceError):
                return  # an answer without its point says that the names are not known
            self.wfile.write("".join(f"{name}\n" for name in names).encode("latin-1", "replace") + b".\n")

    # Not in the capture's folder: a socket's path may have a hundred bytes at most.
    with tempfile.TemporaryDirectory(prefix="ptxgraft-") as short:
        path = os.path.join(short, "asks")
        with _Server(path, Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
            thread.start()
            try:
                yield path
            finally:
                server.shutdown()
                thread.join()
