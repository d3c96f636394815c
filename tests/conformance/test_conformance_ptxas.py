"""The table's spellings against ptxas: what we call legal assembles, what we refuse it refuses. Scalar families, target sm_90."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from forms import candidate, entries, spellings

from ptxgraft.isa import Entry, Role, form_of
from ptxgraft.isa.table import resolve_roles

FAMILIES = {"integer", "bits", "logic", "move", "compare", "float", "half", "convert", "extended", "approximate"}
VERSION = (9, 0)
HEAD = f""".version {VERSION[0]}.{VERSION[1]}
.target sm_90
.address_size 64
.visible .entry k()
{{
.reg .pred %p<9>; .reg .b8 %b<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b128 %q<9>; .reg .f32 %f<9>; .reg .f64 %g<9>;
"""
REGISTERS = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}


def _ptxas() -> str | None:
    nvidia = Path(pytest.__file__).parents[1] / "nvidia"
    wheel = next(iter(sorted(nvidia.glob("*/bin/ptxas"))), None)
    return str(wheel) if wheel else shutil.which("ptxas")


PTXAS = _ptxas()
pytestmark = pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (dev extra: nvidia-cuda-nvcc)")


def _operand(role: Role, number: int) -> str:
    assert role.type is not None
    if role.name == "table":
        return "0x96"
    if role.type.name in ("f32", "f64"):
        return f"{'%f' if role.type.name == 'f32' else '%g'}{number}"
    return f"{REGISTERS[role.type.width]}{number}"


def statement(opcode: str, entry: Entry, slots: dict[str, str]) -> str:
    """The opcode with registers of the declared types."""
    operands: list[str] = []
    for number, role in enumerate(resolve_roles(entry, slots)):
        if role.implicit:
            continue
        text = _operand(role, number)
        if role.pair:
            operands[-1] += f"|{text}"
        else:
            operands.append(text)
    return f"{opcode} {', '.join(operands)};"


@cache
def rows() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(opcode, statement) of everything legal, and of everything that ``legal`` refuses and no other entry allows."""
    good, bad = {}, {}
    for entry in entries():
        if entry.family in FAMILIES and candidate(entry) and entry.since <= VERSION:
            for opcode, slots, legal in spellings(entry):
                (good if legal else bad)[opcode] = statement(opcode, entry, slots)
    return list(good.items()), [(o, s) for o, s in bad.items() if form_of(o) is None]


def refused(statements: list[str], tmp_path: Path) -> dict[int, str]:
    """The messages of ptxas by statement index."""
    source = tmp_path / "k.ptx"
    source.write_text(HEAD + "\n".join(statements) + "\nret;\n}\n")
    assert PTXAS is not None
    done = subprocess.run([PTXAS, "-arch=sm_90", str(source), "-o", str(tmp_path / "k.o")], capture_output=True, text=True, check=False)
    found = {}
    for line, message in re.findall(r"line (\d+); error\s*: (.*)", done.stdout + done.stderr):
        found.setdefault(int(line) - HEAD.count("\n") - 1, message)
    assert found or done.returncode == 0, done.stderr[-500:]
    return found


def test_legal_spellings_assemble(tmp_path: Path) -> None:
    good, _ = rows()
    assert len(good) > 5000
    # An error beside them keeps ptxas from generating code for thousands of statements: it stops after checking all.
    statements = [s for _, s in good] + ["frobnicate.b32 %r0, %r1;"]
    errors = refused(statements, tmp_path)
    assert errors.pop(len(good), None), "ptxas did not look at the last statement"
    assert not errors, "\n".join(f"{statements[i]} {message}" for i, message in list(errors.items())[:40])


def test_refused_spellings_do_not_assemble(tmp_path: Path) -> None:
    _, bad = rows()
    assert len(bad) > 3000
    errors = refused([s for _, s in bad], tmp_path)
    accepted = [s for i, (_, s) in enumerate(bad) if i not in errors]
    assert not accepted, "\n".join(accepted[:40])
