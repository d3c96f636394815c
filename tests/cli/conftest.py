"""Verbs run in this process, and the inputs they are given: the small layer of tests/verify, a launch of it, and kernels that misbehave."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptxgraft import capture
from ptxgraft.cli.app import app

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "verify"))
small_layer = importlib.import_module("small_layer")


@dataclass
class Ended:
    """How a verb ended: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Verb = Callable[..., Ended]


@pytest.fixture
def verb(capsys) -> Verb:
    """``verb("ls", path)``: run a verb to its end."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        code = app([str(a) for a in arguments], prog_name="ptxgraft", standalone_mode=False)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Path:
    """A capture of the small layer, launch 7. Tests must not change it."""
    path = tmp_path_factory.mktemp("capture") / "layer.ptxcap"
    capture.write([small_layer.record(small_layer.layer_document())], path)
    return path


@pytest.fixture
def layer(tmp_path) -> Path:
    """The small layer as a file of one's own."""
    path = tmp_path / "layer.ptx"
    path.write_bytes(small_layer.PTX.read_bytes())
    return path


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: files with their bytes, folders with None."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}
