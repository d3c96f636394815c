"""Tensor cores (PTX ISA manual, "Warp Level Matrix Multiply-Accumulate Instructions").

Invariant: what ``mma`` computes is the numerics profile's business (``isa.numerics``), where its elements lie is ``isa.fragments``'; here stand spellings,
operand widths and who may use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import FragmentLayout, Sparsity
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.numerics import mma_plan
from ptxgraft.isa.operands import Imm
from ptxgraft.isa.table import instruction
from ptxgraft.isa.wmma import WMMA_SHAPES, wmma_layout, wmma_load, wmma_plans, wmma_product, wmma_store


@dataclass(frozen=True, slots=True)
class _Dense:
    """One row of the manual's table of dense ``mma.sync``: shapes, slot texts of the types, and who has it.

    ``before`` and ``after`` are the flag slots around the types; ``d``, ``c`` and ``a`` the types that the register counts follow from.
    """

    shapes: str
    types: str
    d: str
    c: str
    a: str
    since: tuple[int, int]
    sm: int
    layout: str = "row.col"
    before: str = ""
    after: str = ""


_ROWS = (
    _Dense("m8n8k4", "{dt:f32}.{at:f16}.{bt:f16}.{ct:f32}", "f32", "f32", "f16", (6, 4), 70, "{alayout:row|col}.{blayout:row|col}"),
    _Dense("m8n8k4", "{dt:f32}.{at:f16}.{bt:f16}.{ct:f16}", "f32", "f16", "f16", (6, 4), 70, "{alayout:row|col}.{blayout:row|col}"),
    _Dense("m8n8k4", "{dt:f16}.{at:f16}.{bt:f16}.{ct:f16}", "f16", "f16", "f16", (6, 4), 70, "{alayout:row|col}.{blayout:row|col}"),
    _Dense("m16n8k8", "{dt:f32}.{at:f16}.{bt:f16}.{ct:f32}", "f32", "f32", "f16", (6, 5), 75),
    _Dense("m16n8k8", "{dt:f16}.{at:f16}.{bt:f16}.{ct:f16}", "f16", "f16", "f16", (6, 5), 75),
    _Dense("m16n8k16", "{dt:f32}.{at:f16}.{bt:f16}.{ct:f32}", "f32", "f32", "f16", (7, 0), 80),
    _Dense("m16n8k16", "{dt:f16}.{at:f16}.{bt:f16}.{ct:f16}", "f16", "f16", "f16", (7, 0), 80),
    _Dense("m16n8k8|m16n8k16", "{dt:f32}.{at:bf16}.{bt:bf16}.{ct:f32}", "f32", "f32", "bf16", (7, 0), 80),
    _Dense("m16n8k4|m16n8k8", "{dt:f32}.{at:tf32}.{bt:tf32}.{ct:f32}", "f32", "f32", "tf32", (7, 0), 80),
    _Dense("m8n8k4", "{dt:f64}.{at:f64}.{bt:f64}.{ct:f64}", "f64", "f64", "f64", (7, 0), 80, before="{rounding:rn|rz|rm|rp}?."),
    _Dense(
        "m16n8k4|m16n8k8|m16n8k16",
        "{dt:f64}.{at:f64}.{bt:f64}.{ct:f64}",
        "f64",
        "f64",
        "f64",
        (7, 8),
        90,
        before="{rounding:rn|rz|rm|rp}?.",
    ),
    _Dense("m16n8k32", "{dt:f32}.{at:e4m3|e5m2}.{bt:e4m3|e5m2}.{ct:f32}", "f32", "f32", "e4m3", (8, 4), 89),
    _Dense("m16n8k32", "{dt:f16}.{at:e4m3|e5m2}.{bt:e4m3|e5m2}.{ct:f16}", "f16", "f16", "e4m3", (8, 7), 89),
    _Dense("m16n8k16", "{dt:f32}.{at:e4m3|e5m2}.{bt:e4m3|e5m2}.{ct:f32}", "f32", "f32", "e4m3", (8, 7), 89),
    _Dense("m16n8k16", "{dt:f16}.{at:e4m3|e5m2}.{bt:e4m3|e5m2}.{ct:f16}", "f16", "f16", "e4m3", (8, 7), 89),
    _Dense("m8n8k16", "{dt:s32}.{at:s8|u8}.{bt:s8|u8}.{ct:s32}", "s32", "s32", "s8", (6, 5), 75, before="{satfinite}?."),
    _Dense("m16n8k16|m16n8k32", "{dt:s32}.{at:s8|u8}.{bt:s8|u8}.{ct:s32}", "s32", "s32", "s8", (7, 0), 80, before="{satfinite}?."),
    _Dense("m8n8k32", "{dt:s32}.{at:s4|u4}.{bt:s4|u4}.{ct:s32}", "s32", "s32", "s4", (6, 5), 75, before="{satfinite}?."),
    _Dense("m16n8k32|m16n8k64", "{dt:s32}.{at:s4|u4}.{bt:s4|u4}.{ct:s32}", "s32", "s32", "s4", (7, 0), 80, before="{satfinite}?."),
    _Dense("m8n8k128", "{dt:s32}.{at:b1}.{bt:b1}.{ct:s32}", "s32", "s32", "b1", (7, 0), 75, after=".{op:xor}.popc"),
    _Dense("m16n8k128|m16n8k256", "{dt:s32}.{at:b1}.{bt:b1}.{ct:s32}", "s32", "s32", "b1", (7, 0), 80, after=".{op:xor}.popc"),
    _Dense("m8n8k128|m16n8k128|m16n8k256", "{dt:s32}.{at:b1}.{bt:b1}.{ct:s32}", "s32", "s32", "b1", (7, 1), 80, after=".{op:and}.popc"),
)


def _tuple(value: Value, count: int) -> tuple[Value, ...]:
    """A role's registers: a role of one register is given as the value itself."""
    return (value,) if count == 1 else tuple(value)


def _register_type(element: str) -> str:
    """The PTX type of a fragment register: packed elements are untyped words."""
    return element if element in ("f32", "f64", "s32") else "b32"


def _dense_meaning(counts: tuple[int, int, int]) -> Callable[..., tuple[Value, ...]]:
    def mma(
        lanes: Lanes,
        a: Value,
        b: Value,
        c: Value,
        *,
        shape: str,
        dt: str,
        at: str,
        bt: str,
        ct: str,
        alayout: str,
        blayout: str,
        rounding: str,
        satfinite: str,
        op: str,
    ) -> tuple[Value, ...]:
        """D = A*B + C by the warp, summed as the numerics profile says (``isa.numerics``)."""
        plan = mma_plan(
            shape,
            dt,
            at,
            bt,
            ct,
            lanes.profile,
            alayout=alayout or "row",
            blayout=blayout or "col",
            rounding=rounding,
            satfinite=bool(satfinite),
            bit_op=op,
        )
        return lanes.mma(plan, _tuple(a, counts[0]), _tuple(b, counts[1]), _tuple(c, counts[2]))

    return mma


def _declare_dense() -> None:
    for row in _ROWS:
        for shape in row.shapes.split("|"):
            d, a, b, c = (
                FragmentLayout.of(shape, element, operand).registers
                for operand, element in (("D", row.d), ("A", row.a), ("B", row.a), ("C", row.c))
            )
            instruction(
                f"mma.sync.aligned.{{shape:{shape}}}.{row.layout}.{row.before}{row.types}{row.after}",
                convergent=True,
                since=row.since,
                sm=row.sm,
                d=f"out {_register_type(row.d)} x{d}",
                a=f"in {_register_type(row.a)} x{a}",
                b=f"in {_register_type(row.a)} x{b}",
                c=f"in {_register_type(row.c)} x{c}",
            )(_dense_meaning((a, b, c)))


_declare_dense()


# -- sparse: 2:4 (tf32 1:2) A with metadata ---------------------------------------------------------------------------
# shapes, types, registers of A, B and C, flag slot
_SPARSE = (
    ("m16n8k16", "{dt:f32}.{at:f16|bf16}.{bt:f16|bf16}.{ct:f32}", 2, 2, 4, ""),
    ("m16n8k32", "{dt:f32}.{at:f16|bf16}.{bt:f16|bf16}.{ct:f32}", 4, 4, 4, ""),
    ("m16n8k16", "{dt:f16}.{at:f16}.{bt:f16}.{ct:f16}", 2, 2, 2, ""),
    ("m16n8k32", "{dt:f16}.{at:f16}.{bt:f16}.{ct:f16}", 4, 4, 2, ""),
    ("m16n8k8", "{dt:f32}.{at:tf32}.{bt:tf32}.{ct:f32}", 2, 2, 4, ""),
    ("m16n8k16", "{dt:f32}.{at:tf32}.{bt:tf32}.{ct:f32}", 4, 4, 4, ""),
    ("m16n8k64", "{dt:f32}.{at:e4m3|e5m2}.{bt:e4m3|e5m2}.{ct:f32}", 4, 4, 4, ""),
    ("m16n8k32", "{dt:s32}.{at:s8|u8}.{bt:s8|u8}.{ct:s32}", 2, 2, 4, "{satfinite}?."),
    ("m16n8k64", "{dt:s32}.{at:s8|u8}.{bt:s8|u8}.{ct:s32}", 4, 4, 4, "{satfinite}?."),
    ("m16n8k64", "{dt:s32}.{at:s4|u4}.{bt:s4|u4}.{ct:s32}", 2, 2, 4, "{satfinite}?."),
    ("m16n8k128", "{dt:s32}.{at:s4|u4}.{bt:s4|u4}.{ct:s32}", 4, 4, 4, "{satfinite}?."),
)


def _sparse_legal(at: str, bt: str, **rest: str) -> bool:
    """Only 8- and 4-bit types may differ between A and B."""
    return at == bt or "f16" not in at + bt


def metadata_words(lanes: Lanes, found: Sparsity, e: Value, selector: int) -> Value:
    """The metadata words in the lanes where selector 0 has them."""
    if not 0 <= selector < found.selectors:
        raise UnsupportedError(
            f"sparsity selector {selector} does not exist for this shape and type", hint=f"there are {found.selectors}, counted from 0"
        )
    if selector == 0:
        return e
    source = lanes.add(lanes.special("laneid"), lanes.const(found.step * selector, 32))
    return lanes.read_lane(e, lanes.and_(source, lanes.const(31, 32)))


def _sparse_meaning(counts: tuple[int, int, int]) -> Callable[..., tuple[Value, ...]]:
    def mma_sp(
        lanes: Lanes, a: Value, b: Value, c: Value, e: Value, f: Imm, *, shape: str, dt: str, at: str, bt: str, ct: str, satfinite: str
    ) -> tuple[Value, ...]:
        """D = A*B + C with half of A's elements left out; ``e`` says which, ``f`` selects the lanes that supply ``e``."""
        plan = mma_plan(shape, dt, at, bt, ct, lanes.profile, satfinite=bool(satfinite), sparse=True)
        metadata = metadata_words(lanes, Sparsity.of(shape, at), e, int(f.value))
        return lanes.mma(plan, _tuple(a, counts[0]), _tuple(b, counts[1]), _tuple(c, counts[2]), metadata)

    return mma_sp


def _declare_sparse() -> None:
    for (shape, types, a, b, c, flags), sparse in product(_SPARSE, ("sp", "sp::ordered_metadata")):
        fp8 = "e4m3" in types
        accumulator = types[4:7]
        instruction(
            f"mma.{sparse}.sync.aligned.{{shape:{shape}}}.row.col.{flags}{types}",
            convergent=True,
            since=(8, 5) if sparse != "sp" else (8, 4) if fp8 else (7, 1),
            sm=89 if fp8 else 80,
            legal=_sparse_legal,
            d=f"out {_register_type(accumulator)} x{c}",
            a=f"in b32 x{a}",
            b=f"in b32 x{b}",
            c=f"in {_register_type(accumulator)} x{c}",
            e="in b32",
            f="text",
        )(_sparse_meaning((a, b, c)))


_declare_sparse()


# -- matrices of 8x8 b16 through shared memory ------------------------------------------------------------------------
def _space(space: str) -> str:
    return space.partition("::")[0] or "generic"


def _row_address(lanes: Lanes, p: Value, matrix: int, row: Value) -> Value:
    """The address of ``row`` (b32, one a lane) of an 8x8 matrix: lane 8 * matrix + row holds it. Rows are aligned to 16 bytes."""
    address = lanes.read_lane(p, lanes.add(row, lanes.const(8 * matrix, 32)))
    low = lanes.and_(address, lanes.const(15, lanes.width(address)))
    lanes.fault(lanes.compare("ne", low, lanes.const(0, lanes.width(address))), "a matrix row's address is no multiple of 16")
    return address


def _offset(lanes: Lanes, address: Value, bytes_: Value) -> Value:
    return lanes.add(address, lanes.resize(bytes_, lanes.width(address)))


def _places(lanes: Lanes) -> tuple[Value, Value]:
    """Each lane's row, lane / 4, and pair of columns, lane % 4, of an 8x8 b16 fragment."""
    lane = lanes.special("laneid")
    return lanes.shift_right(lane, lanes.const(2, 32)), lanes.and_(lane, lanes.const(3, 32))


def _twice(lanes: Lanes, a: Value) -> Value:
    return lanes.add(a, a)


_MATRICES = "{num:x1|x2|x4}"


@instruction(
    f"ldmatrix.sync.aligned.m8n8.{_MATRICES}.{{trans}}?.{{space:shared|shared::cta}}?.b16",
    convergent=True,
    loads="{space}",
    since=(6, 5),
    sm=75,
    r="out b32 {num}",
    p="addr",
)
def ldmatrix(lanes: Lanes, p: Value, *, num: str, trans: str, space: str) -> Value | tuple[Value, ...]:
    """Load 8x8 matrices of b16, row r of matrix i at lane 8i + r's address; each lane gets two neighbours of row lane / 4 (``trans``: of column lane / 4)."""
    group, pair = _places(lanes)
    registers: list[Value] = []
    for matrix in range(int(num[1:])):
        if not trans:
            address = _offset(lanes, _row_address(lanes, p, matrix, group), lanes.shift_left(pair, lanes.const(2, 32)))
            registers += lanes.load(_space(space), address, 32)
            continue
        halves: list[Value] = []
        for half in (0, 1):
            row = lanes.add(_twice(lanes, pair), lanes.const(half, 32))
            halves += lanes.load(_space(space), _offset(lanes, _row_address(lanes, p, matrix, row), _twice(lanes, group)), 16)
        registers.append(lanes.concat(halves))
    return registers[0] if num == "x1" else tuple(registers)


@instruction(
    f"stmatrix.sync.aligned.m8n8.{_MATRICES}.{{trans}}?.{{space:shared|shared::cta}}?.b16",
    convergent=True,
    stores="{space}",
    since=(7, 8),
    sm=90,
    p="addr",
    r="in b32 {num}",
)
def stmatrix(lanes: Lanes, p: Value, r: Value, *, num: str, trans: str, space: str) -> None:
    """Store 8x8 matrices of b16, the reverse of ``ldmatrix``."""
    group, pair = _places(lanes)
    for matrix, register in enumerate(_tuple(r, int(num[1:]))):
        if not trans:
            address = _offset(lanes, _row_address(lanes, p, matrix, group), lanes.shift_left(pair, lanes.const(2, 32)))
            lanes.store(_space(space), address, [register])
            continue
        for half in (0, 1):
            row = lanes.add(_twice(lanes, pair), lanes.const(half, 32))
            address = _offset(lanes, _row_address(lanes, p, matrix, row), _twice(lanes, group))
            lanes.store(_space(space), address, [lanes.extract(register, 16 * half, 16)])


@instruction("movmatrix.sync.aligned.m8n8.trans.b16", convergent=True, since=(7, 8), sm=75, d="out b32", a="in b32")
def movmatrix(lanes: Lanes, a: Value) -> Value:
    """Transpose an 8x8 matrix of b16 across the warp."""
    group, pair = _places(lanes)
    # Element (row, column) sits in lane 4 * row + column / 2, half column % 2.
    odd = lanes.compare("ne", lanes.and_(group, lanes.const(1, 32)), lanes.const(0, 32))
    halves: list[Value] = []
    for half in (0, 1):
        row = lanes.add(_twice(lanes, pair), lanes.const(half, 32))
        source = lanes.add(lanes.shift_left(row, lanes.const(2, 32)), lanes.shift_right(group, lanes.const(1, 32)))
        word = lanes.read_lane(a, source)
        halves.append(lanes.select(odd, lanes.extract(word, 16, 16), lanes.extract(word, 0, 16)))
    return lanes.concat(halves)


# -- wmma ----------------------------------------------------------------------------------------------------------------
_WMMA_MINIMUM = {
    "f16": ((6, 0), 70), "bf16": ((7, 0), 80), "tf32": ((7, 0), 80), "f64": ((7, 0), 80), "s8": ((6, 3), 72), "u8": ((6, 3), 72),
    "s4": ((6, 3), 75), "u4": ((6, 3), 75), "b1": ((6, 3), 75),
}  # fmt: skip
_SPACES = "{space:global|shared|shared::cta}?"


def _wmma_types(element: str) -> Iterator[tuple[str, str, str]]:
    """(type slots of ``wmma.mma``, D's type, C's type) by the element type of A."""
    if element == "f16":
        for d, c in product(("f16", "f32"), repeat=2):
            yield f"{{dt:{d}}}.{{ct:{c}}}", d, c
    elif element in ("bf16", "tf32"):
        yield f"{{dt:f32}}.{element}.{element}.{{ct:f32}}", "f32", "f32"
    elif element == "f64":
        yield "{rounding:rn|rz|rm|rp}?.{dt:f64}.f64.f64.{ct:f64}", "f64", "f64"
    else:
        flags = ".{satfinite}?" if element != "b1" else ""
        yield f"{{dt:s32}}.{element}.{element}.{{ct:s32}}{flags}", "s32", "s32"


def _declare_wmma_load(shape: str, element: str, operand: str, layouts: str, minimum: tuple[tuple[int, int], int]) -> None:
    found = wmma_layout(shape, element, operand.upper())
    register = _register_type(element) if operand == "c" or element == "f64" else "b32"

    def wmma_load_fragment(lanes: Lanes, p: Value, stride: Value | None, *, layout: str, space: str) -> Value | tuple[Value, ...]:
        """Load a fragment of A, B or C from the matrix at ``p``, whose rows (``col``: columns) lie ``stride`` elements apart, or side by side."""
        return wmma_load(lanes, found, layout == "row", _space(space), p, stride)

    instruction(
        f"wmma.load.{operand}.sync.aligned.{{layout:{layouts}}}.{shape}.{_SPACES}.{element}",
        convergent=True,
        loads="{space}",
        since=minimum[0],
        sm=minimum[1],
        d=f"out {register} x{found.registers}",
        p="addr",
        stride="in b32 ?",
    )(wmma_load_fragment)


def _declare_wmma_store(shape: str, element: str, minimum: tuple[tuple[int, int], int]) -> None:
    found = wmma_layout(shape, element, "D")

    def wmma_store_fragment(lanes: Lanes, p: Value, d: Value, stride: Value | None, *, layout: str, space: str) -> None:
        """Store a fragment of D to the matrix at ``p``; ``stride`` as in ``wmma.load``."""
        wmma_store(lanes, found, layout == "row", _space(space), p, _tuple(d, found.registers), stride)

    instruction(
        f"wmma.store.d.sync.aligned.{{layout:row|col}}.{shape}.{_SPACES}.{element}",
        convergent=True,
        stores="{space}",
        since=minimum[0],
        sm=minimum[1],
        p="addr",
        d=f"in {_register_type(element)} x{found.registers}",
        stride="in b32 ?",
    )(wmma_store_fragment)


def _declare_wmma_product(shape: str, element: str, types: str, d: str, c: str, layouts: tuple[str, str]) -> None:
    counts = {o: wmma_layout(shape, t, o).registers for o, t in (("A", element), ("B", element), ("C", c), ("D", d))}
    register = "f64" if element == "f64" else "b32"
    popc = "{op:xor|and}.popc." if element == "b1" else ""

    def wmma_mma(
        lanes: Lanes, a: Value, b: Value, c: Value, *, dt: str, ct: str, rounding: str, satfinite: str, op: str
    ) -> tuple[Value, ...]:
        """D = A*B + C on fragments that ``wmma.load`` made (the layouts named say how), as products of ``mma.sync``."""
        plans = wmma_plans(shape, dt, element, ct, lanes.profile, rounding, bool(satfinite), op)
        return wmma_product(lanes, shape, plans, dt, ct, *(_tuple(v, counts[o]) for v, o in zip((a, b, c), "ABC", strict=True)))

    since, sm = _WMMA_MINIMUM[element]
    instruction(
        f"wmma.mma.{popc}sync.aligned.{{alayout:{layouts[0]}}}.{{blayout:{layouts[1]}}}.{shape}.{types}",
        convergent=True,
        since=since,
        sm=sm,
        needs={"and": ((7, 1), 80)},
        d=f"out {_register_type(d)} x{counts['D']}",
        a=f"in {register} x{counts['A']}",
        b=f"in {register} x{counts['B']}",
        c=f"in {_register_type(c)} x{counts['C']}",
    )(wmma_mma)


def _declare_wmma() -> None:
    accumulators: dict[tuple[str, str], tuple[tuple[int, int], int]] = {}
    for element, shapes in WMMA_SHAPES.items():
        # Elements of less than a byte: A by row, B by column only.
        layouts = ("row", "col") if element in ("s4", "u4", "b1") else ("row|col", "row|col")
        for shape in shapes:
            for operand, choices in zip("ab", layouts, strict=True):
                _declare_wmma_load(shape, element, operand, choices, _WMMA_MINIMUM[element])
            for types, d, c in _wmma_types(element):
                _declare_wmma_product(shape, element, types, d, c, layouts)
                for kind in (d, c):
                    least = _WMMA_MINIMUM[element]
                    accumulators[shape, kind] = min(accumulators.get((shape, kind), least), least)
    for (shape, kind), minimum in sorted(accumulators.items()):
        _declare_wmma_load(shape, kind, "c", "row|col", minimum)
        _declare_wmma_store(shape, kind, minimum)


_declare_wmma()
