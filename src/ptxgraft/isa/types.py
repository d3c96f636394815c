"""PTX's fundamental types.

Invariant: a value is its bits. A type says how wide they are and how an operation reads them, nothing more.
Source: PTX ISA manual, "Fundamental Types" and "Packed Floating Point Data Types".
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from ptxgraft.errors import SourceError


@dataclass(frozen=True, slots=True)
class Type:
    """``kind`` is one of ``b`` (untyped), ``u``, ``s``, ``f`` (float), ``x`` (packed), ``p`` (predicate); ``width`` is in bits."""

    name: str
    kind: str
    width: int

    @property
    def signed(self) -> bool:
        return self.kind == "s"

    @property
    def bytes(self) -> int:
        return max(1, self.width // 8)


class Types(dict[str, Type]):
    """Types by name. Asking for one that PTX has not is the text's fault: a ``SourceError``."""

    def __missing__(self, name: str) -> Type:
        near = get_close_matches(name, self, 3)
        raise SourceError(f"'.{name}' is no type of PTX", hint=f"did you mean {', '.join(f'.{n}' for n in near)}?" if near else "")


def _types() -> Types:
    rows = [Type(f"{kind}{width}", kind, width) for kind in "bus" for width in (8, 16, 32, 64, 128)]
    rows += [Type("pred", "p", 1)]
    rows += [Type(name, "f", width) for name, width in (("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64), ("tf32", 32))]
    rows += [Type(name, "f", 8) for name in ("e4m3", "e5m2", "ue8m0", "ue4m3", "ue5m3")]
    packed = (("f16x2", 32), ("bf16x2", 32), ("u16x2", 32), ("s16x2", 32), ("u8x4", 32), ("s8x4", 32), ("f32x2", 64))
    packed += tuple((f"{name}x{count}", width * count) for name, width in (("e4m3", 8), ("e5m2", 8)) for count in (2, 4))
    # Six-bit elements take a byte each, four-bit ones half of one, those with padding (p4) the lower half of one each.
    packed += (
        ("e2m3x2", 16),
        ("e3m2x2", 16),
        ("e2m1x2", 8),
        ("ue8m0x2", 16),
        ("s2f6x2", 16),
        ("e2m3x4", 32),
        ("e3m2x4", 32),
        ("e2m1x4", 16),
        ("e2m1p4x4", 32),
        ("ue8m0x4", 32),
        ("ue5m3x2", 16),
    )
    rows += [Type(name, "x", width) for name, width in packed]
    # Elements of less than a byte exist only inside tensor-core fragments.
    rows += [Type(name, kind, width) for name, kind, width in (("s4", "s", 4), ("u4", "u", 4), ("b1", "b", 1))]
    rows += [Type(name, "f", width) for name, width in (("e2m3", 6), ("e3m2", 6), ("e2m1", 4))]
    rows += [Type(name, "b", 64) for name in ("texref", "samplerref", "surfref")]
    return Types((row.name, row) for row in rows)


TYPES: Types = _types()
"""Every type by its name without the leading dot."""


def type_of(name: str) -> Type:
    """The type called ``name`` (without the dot); SourceError when PTX has none of that name."""
    return TYPES[name]
