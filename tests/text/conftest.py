"""What the tests of the text layer share: the nasty texts, the cover check, and ptxas where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from ptxgraft.text import Document


@pytest.fixture(scope="session")
def covers() -> Callable[[Document], None]:
    """The check that a document accounts for every byte of its text."""
    return _covers


def _covers(document: Document) -> None:
    """Every byte is in exactly one statement, or is a blank or part of a comment; scopes nest and hold what they say."""
    at = 0
    for i, s in enumerate(document.statements):
        assert s.index == i
        assert at <= s.start < s.end, s
        assert not document.masked[at : s.start].strip(), (s, document.masked[at : s.start])
        at = s.end
    assert not document.masked[at:].strip()
    assert document.print() == document.data
    for scope in document.scopes[1:]:
        outer = document.scopes[scope.parent]
        assert outer.first <= scope.first <= scope.last <= outer.last
    for s in document.statements:
        scope = document.scopes[s.scope]
        assert scope.first <= s.index <= scope.last


@pytest.fixture(scope="session")
def assemble() -> Callable[[bytes], None]:
    """Assembles a text with ptxas and fails with its log; skips where no ptxas is installed."""
    found = shutil.which("ptxas") or next(
        (str(p) for p in Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu*/bin/ptxas") if p.is_file()), None
    )
    if found is None:
        pytest.skip("no ptxas: install the 'dev' extra")

    def run(data: bytes) -> None:
        done = subprocess.run([found, "-arch=sm_80", "-o", "/dev/null", "-"], input=data, capture_output=True)
        assert done.returncode == 0, (done.stderr + done.stdout).decode() + "\n" + data.decode()

    return run
