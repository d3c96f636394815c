"""Running a recipe file: a user's Python that says how to edit one entry of one module.

Invariant: whatever the recipe's code does ends here as a dictionary or as one ``SourceError`` that names its file and line; the interpreter's module
table, import path and byte code settings are afterwards what they were.
"""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from ptxgraft.errors import Place, PtxgraftError, SourceError

SHOWN_ATTRIBUTES = (
    "FILE", "MODULE", "CALLEE", "A_REGS", "C_REGS", "RET_REGS", "SCRATCH", "DEBUG_BASE", "DEBUG_BLOCKS", "PLANE_ARG",
)  # fmt: skip
"""Attributes of a recipe that say what it is about; nothing depends on them."""


@dataclass(slots=True)
class RecipeFile:
    """What a recipe file gave: the entry's name, ``recipe()``'s dictionary, its shown attributes."""

    path: Path
    entry: str
    steps: Mapping[Any, Any]
    attributes: dict[str, Any]

    def error(self, message: str, hint: str = "") -> SourceError:
        """An error of this recipe."""
        return SourceError(f"{self.path}: {message}", hint=hint)


@contextmanager
def recipe_file(path: Path) -> Iterator[RecipeFile]:
    """Run a recipe file and its ``recipe()``. Inside the block the recipe's own functions can be called with ``called``; it can import its siblings.

    SourceError when the file cannot be read or run, defines no ``ENTRY`` or ``recipe``, or stops with ``SystemExit``, whose message is shown.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})", hint="name a recipe file") from None
    with _siblings(path.resolve().parent):
        module = ModuleType(f"recipe_{path.stem}")
        module.__file__ = str(path)
        sys.modules[module.__name__] = module
        try:
            called(path, _execute, source, module)
            entry, function = getattr(module, "ENTRY", None), getattr(module, "recipe", None)
            if not isinstance(entry, str) or not entry:
                raise SourceError(f"{path}: it has no ENTRY", hint="set ENTRY to the exact name of the entry that it edits")
            if not callable(function):
                raise SourceError(f"{path}: it has no function recipe()", hint="define recipe(), which returns a dictionary")
            steps = called(path, function)
            if not isinstance(steps, Mapping):
                raise SourceError(f"{path}: recipe() returned {_kind(steps)}", hint="it returns a dictionary")
            attributes = {name: shown(value) for name in SHOWN_ATTRIBUTES if (value := getattr(module, name, None)) is not None}
            yield RecipeFile(path, entry, dict(steps), attributes)
        finally:
            sys.modules.pop(module.__name__, None)


def _execute(source: bytes, module: ModuleType) -> None:
    exec(compile(source, str(module.__file__), "exec", dont_inherit=True), module.__dict__)


def called(path: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    """A function of the recipe's, called; what it raises becomes a SourceError."""
    try:
        return function(*arguments)
    except (KeyboardInterrupt, PtxgraftError):
        raise
    except SystemExit as error:
        said = error.code if isinstance(error.code, str) else "it gave no message" if error.code is None else f"exit code {error.code}"
        raise SourceError(f"{path}: the recipe stopped: {said}") from None
    except SyntaxError as error:
        # An import of a sibling that is no Python names that file.
        place = Place(error.filename or str(path), error.lineno or 1, error.offset or 1, (error.text or "").rstrip("\n"))
        raise SourceError(f"this is no Python: {error.msg}", place=place) from None
    except BaseException as error:
        message = f"the recipe failed with {type(error).__name__}: {_message(error)}".rstrip(": ")
        raise SourceError(message, place=_place(path, error.__traceback__), hint="mend the recipe") from None


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:
        return f"its message failed with {type(second).__name__}"


def _place(path: Path, traceback: TracebackType | None) -> Place:
    """The innermost line that the traceback has in the recipe; of one that only its siblings know, in them; else the file's first."""
    found = Place(str(path), 1)
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file == str(path) or (found.file == str(path) and found.line == 1 and Path(file).parent == path.resolve().parent):
            linecache.checkcache(file)
            source = linecache.getline(file, traceback.tb_lineno).rstrip("\n")
            found = Place(file, traceback.tb_lineno, len(source) - len(source.lstrip()) + 1, source)
        traceback = traceback.tb_next
    return found


def shown(value: Any) -> Any:
    """A value of the recipe's as plain data, for a report: texts, numbers and lists as they are, anything else as its Python text."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        return [shown(v) for v in value]
    if isinstance(value, dict):
        return {str(k): shown(v) for k, v in value.items()}
    return f"<{type(value).__name__}>"


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


@contextmanager
def _siblings(folder: Path) -> Iterator[None]:
    """Imports find the files of ``folder`` first, as when Python runs a file there, whatever modules of their names are loaded already."""
    names = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
    hidden = {name: sys.modules.pop(name) for name in names - sys.stdlib_module_names if name in sys.modules}
    before, path, writes = set(sys.modules), [*sys.path], sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, writes
        for name in [n for n in sys.modules if n not in before and n.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(hidden)
