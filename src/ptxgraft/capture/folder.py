"""A folder that appears whole or not at all.

Invariant: until the work on it has ended without an exception nothing exists under the target's name but what was there before; afterwards no
temporary name is left beside it. Only an existing capture with nothing else in it is ever replaced, and only when asked.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptxgraft.errors import UsageError


def _beside(target: str, what: str) -> str:
    parent, name = os.path.split(target)
    return os.path.join(parent, f".{name[:40]}.{os.getpid()}-{secrets.token_hex(4)}.{what}")


def _refuse(target: str, overwrite: bool, is_capture: Callable[[str], bool]) -> None:
    if not os.path.lexists(target):
        return
    if os.path.isdir(target) and not os.path.islink(target):
        if not os.listdir(target):
            return
        if is_capture(target):
            if overwrite:
                return
            raise UsageError(f"{target}: there is a capture already", hint="choose another name, or ask for it to be overwritten")
    raise UsageError(f"{target}: exists and is not a capture (or holds other files too), so it is left alone", hint="choose another name")


def sync(path: str) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writing(target: str) -> Iterator[None]:
    """Turns what the file system refuses into a ``UsageError`` that names ``target``."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{target}: cannot write the capture: {error.strerror}") from None


@contextmanager
def whole_folder(path: str | os.PathLike[str], overwrite: bool, is_capture: Callable[[str], bool]) -> Iterator[str]:
    """Gives the path of a new empty folder beside ``path``; it takes that name when the block ends well and is removed when it does not.

    ``is_capture`` says whether an existing folder is a capture and nothing else. Raises ``UsageError`` when the name is taken by anything but a
    capture that may be overwritten, or when the file system refuses.
    """
    target = os.path.abspath(os.fspath(path))
    if "\0" in target:
        raise UsageError(f"{target!r} cannot be a file's name")
    partial = _beside(target, "partial")
    with writing(target):
        _refuse(target, overwrite, is_capture)
        os.mkdir(partial)
    try:
        yield partial
        with writing(target):
            sync(partial)
            _refuse(target, overwrite, is_capture)  # someone else may have been there meanwhile
            _swap(partial, target)
            sync(os.path.dirname(target))
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # gone already when all went well


def _swap(partial: str, target: str) -> None:
    if not os.path.lexists(target) or not os.listdir(target):
        os.rename(partial, target)  # over an empty folder this is one step
        return
    replaced = _beside(target, "replaced")
    os.rename(target, replaced)
    try:
        os.rename(partial, target)
    except BaseException:
        os.rename(replaced, target)
        raise
    shutil.rmtree(replaced, ignore_errors=True)
