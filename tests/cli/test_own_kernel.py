"""The README's way of a kernel of one's own, as it is written there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ptxgraft.graft import find_nvcc

ROOT = Path(__file__).parents[2]
NVCC = find_nvcc()


def commands() -> list[list[str]]:
    """The commands of the README's section, without their comments."""
    section = re.search(r"## On a kernel of your own\n.*?```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert section is not None
    return [shlex.split(line, comments=True) for line in section.group(1).splitlines()]


@pytest.mark.skipif(NVCC is None, reason="no nvcc: install the PyPI package nvidia-cuda-nvcc")
def test_the_readmes_commands(verb, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    said = {}
    for program, *arguments in commands():
        if program == "nvcc":
            subprocess.run([str(NVCC), *arguments], check=True, capture_output=True, timeout=300)
            continue
        ended = verb(*arguments)
        said[arguments[0]] = ended.out
        assert ended.code == (1 if arguments[0] in ("verify", "bisect") else 0), ended.err
    assert "3 mma in" in said["spec"] and "found 00 00 00 00; " in said["verify"]
    assert said["bisect"].startswith("first differs at stage out")
