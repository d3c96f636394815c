"""``ptxgraft probe`` at many stages and in loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import Verb, contents

from ptxgraft.text import Document

STAGES = ["a", "p0", "p1", "p2", "out"]


def test_all_stages_in_one_build(verb: Verb, layer: Path, package: Path, tmp_path: Path):
    out, saved = tmp_path / "all.ptx", tmp_path / "all.npz"
    ended = verb("probe", layer, "--stages", "all", "--run", package, "--engine", "numpy", "-o", out, "--save", saved, "--json")
    assert ended.code == 0, ended.err
    found = ended.json
    assert [s["where"] for s in found["stages"]] == STAGES
    assert found["other_outputs"]["verdict"] == "same"
    assert found["missing"] == {}
    assert Document.read(out).data.count(b"st.global.v4.b32") >= len(STAGES)
    with np.load(saved) as file:
        arrays = {k: file[k] for k in file.files}
    assert {k.partition(".")[0] for k in arrays} == set(STAGES)
    # The same, stage by stage.
    for stage in STAGES:
        alone = tmp_path / f"{stage}.npz"
        assert verb("probe", layer, "--at", stage, "--run", package, "--engine", "numpy", "--save", alone).code == 0
        with np.load(alone) as file:
            assert {f"{stage}.{k}" for k in file.files} == {k for k in arrays if k.startswith(f"{stage}.")}
            assert all(np.array_equal(file[k], arrays[f"{stage}.{k}"]) for k in file.files)


def test_a_list_of_stages_each_in_a_module_of_its_own(verb: Verb, layer: Path, package: Path, tmp_path: Path):
    folder = tmp_path / "probed"
    ended = verb("probe", layer, "--stages", "p0, 71,out", "--each", "--run", package, "--engine", "numpy", "-o", folder, "--json")
    assert ended.code == 0, ended.err
    assert sorted(contents(folder)) == ["layer-71.ptx", "layer-out.ptx", "layer-p0.ptx"]
    together = verb("probe", layer, "--stages", "p0,71,out", "--run", package, "--engine", "numpy", "--json").json
    assert [s["values"] for s in ended.json["stages"]] == [s["values"] for s in together["stages"]]
    shown = verb("probe", layer, "--stages", "p0,out", "--run", package, "--engine", "numpy").out
    assert "other outputs: same" in shown
    assert "layer: probe at p0" in shown and "layer: probe at out" in shown


def test_passages_are_kept_and_those_lost_are_told(verb: Verb, layer: Path, package: Path, tmp_path: Path):
    loop = "\t.reg .pred %again;\n\t.reg .b32 %turn;\n\tmov.u32 %turn, 0;\n$turn:\n\tadd.u32 %turn, %turn, 1;\n"
    loop += "\tsetp.lt.u32 %again, %turn, 5;\n\t@%again bra $turn;\n"
    mark = "\tmov.u32 \t%r24, 0;\n"
    text = layer.read_text()
    assert text.count(mark) == 1
    path = tmp_path / "loop.ptx"
    path.write_text(text.replace(mark, loop + mark))
    line = path.read_text().splitlines().index("\tadd.u32 %turn, %turn, 1;") + 1
    plain = verb("probe", path, "--at", line, "--run", package, "--engine", "numpy")
    assert f"line {line} stands in a loop: the last passage is what is stored" in plain.out
    saved = tmp_path / "turns.npz"
    ended = verb("probe", path, "--at", line, "--iterations", 3, "--run", package, "--engine", "numpy", "--save", saved)
    assert ended.code == 0, ended.err
    assert f"{line}: 256 passages were not kept; --iterations 5 keeps all" in ended.out
    assert "other outputs: same" in ended.out
    with np.load(saved) as file:
        assert file["turn"].shape == (2, 2, 32, 3)
        assert (file["turn"] == [1, 2, 3]).all()
        assert (file["passages"] == 5).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "a probe needs a place; name one with --at, or several with --stages"),
        (("--at", "p0", "--stages", "all"), "a probe needs a place"),
        (("--at", "p0", "--each"), "--each is for --stages"),
        (("--stages", "p0,p9"), "has no phase 9"),
        (("--stages", "p0,p0"), "names a stage twice"),
        (("--at", "p0", "--iterations", "-1"), "is no number of passages"),
    ],
)
def test_wrong_options(options: tuple[str, ...], message: str, verb: Verb, layer: Path, tmp_path: Path):
    before = contents(tmp_path)
    ended = verb("probe", layer, *options, "-o", tmp_path / "out.ptx")
    assert ended.code == 2
    assert message in ended.err
    assert contents(tmp_path) == before
