"""CONTRIBUTING's worked example works as it stands there: one declaration, and everything knows the instruction."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
PROGRAM = """
import numpy as np
import ptxgraft
from ptxgraft.isa import ENTRIES, form_of
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.listing import page
from ptxgraft.isa.table import instruction

assert "bswap" not in ENTRIES, "the example must be of an instruction that the table does not have"
{example}
form = form_of("bswap.b64")
assert [role.kind for role in form.roles] == ["out", "in"]
assert "`bswap.(b32 b64)`" in page()
module = ptxgraft.load('''
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data) {{
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r1, 4, %rd1;
    ld.global.b32 %r1, [%rd1];
    bswap.b32 %r2, %r1;
    st.global.b32 [%rd1], %r2;
    ret;
}}''')
opcode, inputs, outputs = form.entry.examples[0]
for engine in ("numpy", "warp"):
    data = np.arange(64, dtype=np.uint32) * 0x01234567
    data[0] = inputs[0]
    want = data.byteswap()
    assert want[0] == outputs[0]
    module.kernel("k", engine=engine).launch(1, 64, [data])
    assert np.array_equal(data, want), engine
print("both engines")
"""


def test_worked_example(tmp_path: Path) -> None:
    (block,) = re.findall(r"^ +```python\n(.*?)^ +```", PAGE.read_text(), re.M | re.S)
    # In a process of its own: a declaration stays declared.
    (tmp_path / "example.py").write_text(PROGRAM.format(example=textwrap.dedent(block)))
    run = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "both engines\n"
