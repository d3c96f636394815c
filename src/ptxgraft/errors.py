"""The error classes, the only module that everything may import.

Invariant: every error a user can cause is one of these, its first line says where and what, and it carries the exit code of
the command line (0 same or done, 1 differs, 2 bad input or usage, 3 known but unsupported, 4 device or driver). A bug of our own
is an ``AssertionError``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A place in a text file. ``line`` and ``column`` are 1-based; ``source`` is the source line without its line end."""

    file: str
    line: int
    column: int = 1
    source: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def caret(self) -> str:
        """The source line with a caret under the column, or an empty string when the source line is not known."""
        if not self.source:
            return ""
        lead = "".join("\t" if c == "\t" else " " for c in self.source[: self.column - 1])
        return f"  {self.source}\n  {lead}^"


class PtxgraftError(Exception):
    """Root of all errors of the product. ``hint`` is the next step, shown after the message."""

    exit_code = 2

    def __init__(self, message: str, *, place: Place | None = None, hint: str = "") -> None:
        self.message, self.place, self.hint = message, place, hint
        super().__init__(message)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}; {self.hint}" if self.hint else text


class SourceError(PtxgraftError):
    """The PTX, capture, recipe or other input file is wrong. Mend the file at the place named."""


class SourceErrors(SourceError):
    """Several errors of one input, reported together. ``errors`` lists them in file order."""

    def __init__(self, errors: list[SourceError]) -> None:
        self.errors = errors
        super().__init__("\n".join(str(e) for e in errors))


class UsageError(PtxgraftError):
    """The call or command line is wrong. Change the arguments."""


class KernelFault(PtxgraftError):
    """A kernel did what no kernel may: a bad access, an endless loop, a barrier that cannot be met. Mend the kernel or its launch.

    ``output`` is what the kernel had printed until then."""

    output: str = ""


class UnsupportedError(PtxgraftError):
    """Known, but not supported here. The message names the instruction and the line, and says what would still work."""

    exit_code = 3


class DeviceError(PtxgraftError):
    """A device or its driver failed or is missing."""

    exit_code = 4


class UnconfirmedWarning(UserWarning):
    """A kernel uses instructions whose bits are not confirmed on the numerics profile asked for. Given once a process for each profile and kind of knowledge."""
