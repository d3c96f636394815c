"""The compiled layers: phases, counts, control flow, and that ptxas accepts them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from build import find_nvcc
from ptxgraft import data

NVCC = find_nvcc()
PTXAS = NVCC.parent / "ptxas" if NVCC and (NVCC.parent / "ptxas").is_file() else None
MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"


def opcodes(layer: str) -> list[str]:
    """Opcodes of the entry's instructions in order; labels, directives, braces and comments left out."""
    text = re.sub(r"//[^\n]*", "", data.ptx(layer).decode())
    body = text[text.index("{", text.index(".entry")) + 1 :]
    names = []
    for statement in re.split(r"[;]|(?<=\n)\{|(?<=\n)\}", body):
        found = re.match(r"[\s{}]*(?:[$\w]+:\s*)*(?:@!?%?\w+\s+)?([a-z][\w.:]*)", statement)
        if found:
            names.append(found[1])
    return names


def phases(names: list[str]) -> list[int]:
    """Lengths of the maximal runs of tensor-core instructions."""
    runs, current = [], 0
    for name in [*names, "end"]:
        if name.startswith("mma."):
            current += 1
        elif current:
            runs.append(current)
            current = 0
    return runs


def test_enc4_phases_are_those_of_its_source():
    stem, products, head, projection = [32] * 5, [16] * 12, [8] * 8, [16] * 4
    mlp, merge = [32, 32] * 2 * 4, [16] * 4
    runs = phases(opcodes("enc4"))
    assert runs == stem + products + head + projection + mlp + merge
    assert len(runs) >= 40 and sum(runs) >= 1000


def test_dec0_phases_are_those_of_its_source():
    runs = phases(opcodes("dec0"))
    assert runs == [16, 8, 32, 32, 4] * 4
    assert len(runs) >= 15


@pytest.mark.parametrize("layer", data.LAYERS)
def test_a_layer_is_straight_line_code_for_one_kind_of_mma(layer: str):
    names = opcodes(layer)
    assert {name for name in names if "mma" in name.split(".")[0]} == {MMA}
    assert not [name for name in names if name.split(".")[0] in ("bra", "brx", "call", "exit")]
    assert names.count("ret") == 1 and names[-1] == "ret"


@pytest.mark.parametrize("layer", data.LAYERS)
def test_no_operation_is_left_to_ptxas_to_fuse(layer: str):
    """Without .rn, ptxas may contract a multiplication and an addition, and the bits would be its choice."""
    free = [name for name in opcodes(layer) if re.fullmatch(r"(add|sub|mul)\.(f32|f16x2)", name)]
    assert free == []


def test_staging_is_one_shared_array():
    assert re.findall(r"\.shared\b[^;]*\.b8 (\w+)\[(\d+)\]", data.ptx("enc4").decode()) == [("_ZZ4enc4E7staging", "24576")]
    assert ".shared" not in data.ptx("dec0").decode()
    assert opcodes("enc4").count("bar.sync") == 9


@pytest.mark.skipif(PTXAS is None, reason="no ptxas beside nvcc: install the dev extra")
@pytest.mark.parametrize("target", ["sm_89", "sm_90"])
@pytest.mark.parametrize("layer", data.LAYERS)
def test_ptxas_accepts(layer: str, target: str, tmp_path: Path):
    (tmp_path / "layer.ptx").write_bytes(data.ptx(layer))
    assert PTXAS is not None
    done = subprocess.run([PTXAS, f"-arch={target}", "-v", "layer.ptx", "-o", "layer.cubin"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"Used (\d+) registers", done.stderr + done.stdout)
    assert found and int(found[1]) <= 255
    spilled = re.search(r"(\d+) bytes spill stores", done.stderr + done.stdout)
    assert spilled and int(spilled[1]) < 1024
