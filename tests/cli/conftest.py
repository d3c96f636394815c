"""Verbs run in this process, and the inputs they are given: the small layer of tests/verify and a launch of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Ended, Verb, small_layer

from ptxgraft import capture
from ptxgraft.cli.app import app


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
