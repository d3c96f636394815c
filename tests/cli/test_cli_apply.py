"""``ptxgraft apply``: what it writes, shows and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Verb, contents

from ptxgraft.graft import find_ptxas

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""
RECIPE = """\
ENTRY = "k"
CALLEE = "f"
print("hello from the recipe")
def recipe():
    return {"file": "k.ptx", "cut_call": (9, 10), "call": "TEXT"}
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "k.ptx").write_text(PTX)
    return folder


def recipe(folder: Path, call: str) -> Path:
    path = folder / "r.py"
    path.write_text(RECIPE.replace("TEXT", call))
    return path


def test_apply_writes_the_module_and_says_that_it_runs_python(corpus: Path, tmp_path: Path, verb: Verb):
    path, out = recipe(tmp_path, "mov.u32 %r1, %tid.y;"), tmp_path / "out.ptx"
    ended = verb("apply", path, "--corpus", corpus, "-o", out, "--json")
    assert ended.code == 0, ended.err
    assert out.read_text() == PTX.replace("\tmov.u32 %r1, %tid.x;\n", "mov.u32 %r1, %tid.y;\n")
    assert f"running the Python of {path}" in ended.err
    assert "hello from the recipe" in ended.err
    found = ended.json
    assert (found["entry"], found["kind"], found["lines"], found["output"]) == ("k", "cut", [9, 9], str(out))
    assert found["attributes"] == {"CALLEE": "f"}
    assert found["assembles"] is (None if find_ptxas() is None else True)
    shown = verb("apply", path, "--corpus", corpus, "-o", tmp_path)
    assert "lines 9 to 9 replaced" in shown.out
    assert (tmp_path / "k.ptx").read_bytes() == out.read_bytes()


@needs_ptxas
def test_what_ptxas_refuses_is_written_on_request_only(corpus: Path, tmp_path: Path, verb: Verb):
    path, out = recipe(tmp_path, "add.u32 %r1, %laneid, %tid.x;"), tmp_path / "out.ptx"
    ended = verb("apply", path, "--corpus", corpus, "-o", out)
    assert ended.code == 2
    assert "refuses the result" in ended.out
    assert not out.exists()
    anyway = verb("apply", path, "--corpus", corpus, "-o", out, "--anyway", "--json")
    assert anyway.code == 0
    assert anyway.json["assembles"] is False
    assert b"%laneid, %tid.x" in out.read_bytes()
    out.unlink()
    assert verb("apply", path, "--corpus", corpus, "-o", out, "--no-check").code == 0
    assert out.exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("mov.u32 %r9, 1;", "'%r9' is neither a declared register nor a special register"),
        ('" + str(1 // 0) + "', "r.py:5:"),
        ('" + exit("set STAGE") + "', "the recipe stopped: set STAGE"),
        ("}", "k.ptx"),
    ],
)
def test_a_wrong_recipe_leaves_nothing_behind(call: str, message: str, corpus: Path, tmp_path: Path, verb: Verb):
    path = recipe(tmp_path, call)
    before = contents(tmp_path)
    ended = verb("apply", path, "--corpus", corpus, "-o", tmp_path / "out.ptx")
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert contents(tmp_path) == before


def test_the_module_itself_is_never_overwritten(corpus: Path, tmp_path: Path, verb: Verb):
    path = recipe(tmp_path, "mov.u32 %r1, %tid.y;")
    for target in (corpus, corpus / "k.ptx"):
        ended = verb("apply", path, "--corpus", corpus, "-o", target)
        assert ended.code == 2
        assert "is the module itself" in ended.err
    assert (corpus / "k.ptx").read_text() == PTX
