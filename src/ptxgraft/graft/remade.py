"""Values that an entry can make again for itself behind a call: arguments, constants, special registers.

Invariant: the statement gives the register the bits it has at the point, for every thread. What came back from memory would be the same bits, but a
compiler no longer knew that all threads have one value: surface stores through such a handle become loops over the lanes.
"""

from __future__ import annotations

from ptxgraft.flow import Flow
from ptxgraft.isa import Register

_SPECIALS = frozenset(f"{base}.{axis}" for base in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz")


def remade(flow: Flow, register: Register, point: int) -> str:
    """A statement that sets the register to its value just before instruction ``point``; '' when there is none."""
    width = register.type.width
    if width not in (16, 32, 64) or register.scope < 0:
        return ""
    value = flow.symbols.register(register.id, point)
    if value.width != width:
        return ""
    if value.is_constant:
        return f"mov.b{width} {register.name}, {value.constant:#x};"
    if len(value.terms) != 1 or value.constant or value.terms[0][1] != 1:
        return ""
    key = value.terms[0][0].key
    if key[0] == "special" and key[1] in _SPECIALS and width == 32:
        return f"mov.u32 {register.name}, %{key[1]};"
    if key[0] == "param" and key[2] == width and width > 16:
        holder = next((p for p in flow.program.params if p.offset <= key[1] and key[1] + width // 8 <= p.offset + p.size), None)
        if holder is not None:
            inner = key[1] - holder.offset
            return f"ld.param.b{width} {register.name}, [{holder.name}{f'+{inner}' if inner else ''}];"
    return ""
