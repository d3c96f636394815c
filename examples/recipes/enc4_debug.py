"""An oracle of ``enc4``: the D registers of one phase, stored behind the weight image.

STAGE is the phase's number (0 when it is not set); CORPUS is the folder with ``enc4.ptx``, from whose text the line and the registers are found.
The buffer lies DEBUG_BASE bytes behind the pointer at argument offset PLANE_ARG and must hold DEBUG_BLOCKS blocks of four warps.
"""

import os
import re
from pathlib import Path

ENTRY = "enc4"
FILE = "enc4.ptx"
PLANE_ARG = 40
DEBUG_BASE = 338_176
DEBUG_BLOCKS = 6
WARPS = 4


def phases(text):
    """(line of the last mma, D registers) of every unbroken run of mma."""
    found, last = [], ()
    for number, line in enumerate(text.splitlines(), 1):
        statement = line.split("//")[0].strip()
        if statement.startswith("mma.sync"):
            d = re.findall(r"%r\d+", statement)[:2]
            last = (number, [*(last[1] if last else []), *d])
        elif statement and last:
            found.append(last)
            last = ()
    return found


def block(registers):
    n = -(-len(registers) // 4) * 4  # 16-byte stores stay aligned
    slot = 1 << (128 * n - 1).bit_length()
    padded = [*registers, *["zero"] * (n - len(registers))]
    stores = [f"@inside st.global.v4.b32 [at+{4 * i}], {{{', '.join(padded[i : i + 4])}}};" for i in range(0, n, 4)]
    lines = [
        ".reg .b32 index, thread, size, zero;",
        ".reg .b64 at, offset;",
        ".reg .pred inside;",
        "mov.u32 zero, 0;",
        "mov.u32 index, %ctaid.y;",
        "mov.u32 size, %nctaid.x;",
        "mov.u32 thread, %ctaid.x;",
        "mad.lo.u32 index, index, size, thread;",
        f"setp.lt.u32 inside, index, {DEBUG_BLOCKS};",
        "mov.u32 thread, %tid.z;",
        f"mad.lo.u32 index, index, {WARPS}, thread;",
        "ld.param.u64 at, [enc4_param_7];",
        f"add.s64 at, at, {DEBUG_BASE};",
        f"mul.wide.u32 offset, index, {slot};",
        "add.s64 at, at, offset;",
        "mov.u32 thread, %tid.x;",
        f"mul.wide.u32 offset, thread, {4 * n};",
        "add.s64 at, at, offset;",
        *stores,
    ]
    return "\t{\n" + "".join(f"\t{line}\n" for line in lines) + "\t}\n"


def recipe():
    path = Path(os.environ.get("CORPUS", "."), FILE)
    if not path.is_file():
        raise SystemExit(f"no {path}: set CORPUS to the folder that holds {FILE}")
    found = phases(path.read_text())
    stage = int(os.environ.get("STAGE", "0"))
    if not 0 <= stage < len(found):
        raise SystemExit(f"{ENTRY} has the phases 0 to {len(found) - 1}, STAGE is {stage}")
    return {"file": FILE, "debug": found[stage], "debug_block": block}
