"""``ptxgraft cut`` with several regions, and with siblings."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Verb

from ptxgraft.graft import cut
from ptxgraft.text import Document

ENTRY = """\
.visible .entry {name}(.param .u64 p)
{{
	.reg .pred %q<3>;
	.reg .b32 %{r}<9>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %{r}1, %tid.x;
	add.u32 %{r}2, %{r}1, 41;
BACK:
	shl.b32 %{r}3, %{r}2, {n};
	add.u32 %{r}2, %{r}2, 1;
	setp.lt.u32 %q1, %{r}2, 60;
	@%q1 bra BACK;
	xor.b32 %{r}4, %{r}3, %{r}2;
	st.global.u32 [%rd1], %{r}4;
	ret;
}}
"""
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "two.ptx"
    path.write_text(HEAD + ENTRY.format(name="k", r="r", n=3) + ENTRY.format(name="kk", r="a", n=3))
    return path


def test_several_regions_are_one_module(kernels: Path, tmp_path: Path, verb: Verb):
    ended = verb(
        "cut", kernels, "-e", "k", "--style", "call", "--region", "label BACK", "--region", "10-11", "-o", tmp_path / "out", "--json"
    )
    assert ended.code == 0, ended.err
    assert [c["region"]["first_line"] for c in ended.json["cuts"]] == [13, 10]
    assert len({c["callee"] for c in ended.json["cuts"]}) == 2
    expected = cut(Document.read(kernels), "k", ["label BACK", (10, 11)], style="call")
    assert Path(ended.json["files"]["ptx"]).read_bytes() == expected.text
    assert {Path(p).name for p in ended.json["files"].values()} >= {
        "k-call-regions.ptx",
        "k-call-13-18-skeleton.cu",
        "k-call-10-11-spec.md",
    }


def test_siblings_of_one_module_and_of_another(kernels: Path, tmp_path: Path, verb: Verb):
    other = tmp_path / "other.ptx"
    other.write_text(HEAD + ENTRY.format(name="k", r="b", n=3))
    ended = verb(
        "cut", kernels, "-e", "k", "--region", "label BACK", "--sibling", "kk", "--sibling", f"{other}:k", "-o", tmp_path / "out", "--json"
    )
    assert ended.code == 0, ended.err
    assert [c["entry"] for c in ended.json["cuts"]] == ["k", "kk", "k"]
    assert ended.json["assembles"] in (True, None)
    modules = [Path(p).read_text() for kind, p in ended.json["files"].items() if kind.startswith("ptx")]
    assert [m.count(".entry") for m in modules] == [2, 1]
    assert len(set(ended.json["files"].values())) == len(ended.json["files"])


def test_a_sibling_that_differs_is_refused_with_its_statement(kernels: Path, tmp_path: Path, verb: Verb):
    kernels.write_text(HEAD + ENTRY.format(name="k", r="r", n=3) + ENTRY.format(name="kk", r="a", n=4))
    ended = verb("cut", kernels, "-e", "k", "--region", "label BACK", "--sibling", "kk", "-o", tmp_path / "out")
    assert ended.code == 3
    assert "'kk' has no statement like line 13, `shl.b32 %r3, %r2, 3;`" in " ".join(ended.err.split())
    assert not (tmp_path / "out").exists()


def test_regions_and_siblings_together_are_refused(kernels: Path, tmp_path: Path, verb: Verb):
    ended = verb("cut", kernels, "-e", "k", "--region", "10-11", "--region", "13-14", "--sibling", "kk", "-o", tmp_path / "out")
    assert ended.code == 2
    assert "several regions and siblings do not go together" in ended.err
