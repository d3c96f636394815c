"""Functions of values, compiled and called on arrays: how a meaning is checked, timed or used outside a kernel.

Invariant: a function sees its inputs 32 lanes at a time and touches nothing but the arrays it is given, which are checked first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError
from ptxgraft.lower import jit
from ptxgraft.lower.ir import VECTOR, Emitter, IrModule, Val
from ptxgraft.lower.warp_lanes import Machine, WarpLanes

Body = Callable[[WarpLanes, list[Val]], Sequence[Val]]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Shape:
    """One input or output: its width, and whether one value holds for 32 lanes."""

    width: int
    uniform: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.width == 128:
            return np.dtype([("lo", "<u8"), ("hi", "<u8")])
        return np.dtype("u1") if self.width == 1 else np.dtype(f"<u{self.width // 8}")

    @property
    def bytes(self) -> int:
        """Bytes for 32 lanes. Predicates are masks of 32 bits; a uniform one is a byte."""
        if self.uniform:
            return max(1, self.width // 8)
        return 4 if self.width == 1 else 4 * self.width


class WarpFunctions:
    """Add functions, ``compile`` once, then ``call`` them. ``machine`` serves meanings that need one (its mask, special registers)."""

    def __init__(self, profile: str = "sm_90", host: jit.Host | None = None, machine: object = None) -> None:
        self.profile = profile
        self.host = host or jit.host()
        self.module = IrModule()
        self._machine = machine
        self._functions: dict[str, tuple[list[_Shape], list[_Shape]]] = {}
        self._engine: jit.Engine | None = None

    def add(self, name: str, widths: Sequence[int], body: Body, uniform: Sequence[bool] = ()) -> None:
        """``body`` gets a lanes object and one value per width (a scalar where ``uniform`` says so) and returns the results."""
        inputs = [_Shape(w, u) for w, u in zip(widths, uniform or [False] * len(widths), strict=True)]
        out = Emitter(self.module)
        lanes = WarpLanes(out, self.profile, cast(Machine, self._machine), self.host.names)
        out.emit("br label %next")
        out.label("next")
        out.emit("%turn = phi i64 [ 0, %entry ], [ %following, %again ]")
        values = [_read(out, i, shape) for i, shape in enumerate(inputs)]
        lanes.statement()
        results = list(body(lanes, values))
        outputs = [_Shape(v.width, v.uniform) for v in results]
        for i, v in enumerate(results):
            _write(out, i, v, outputs[i])
        out.emit("br label %again")
        out.label("again")
        out.emit("%following = add i64 %turn, 1")
        out.emit("%more = icmp ult i64 %following, %turns")
        out.emit("br i1 %more, label %next, label %end")
        out.label("end")
        out.emit("ret void")
        pointers = [f"ptr %{kind}{i}" for kind, shapes in (("o", outputs), ("i", inputs)) for i in range(len(shapes))]
        head = f"define void @{name}({', '.join(['i64 %turns', *pointers])}) nounwind"
        self.module.functions[name] = f"{head} {{\n{out.body()}\n}}"
        self._functions[name] = (inputs, outputs)

    def compile(self, opt_level: int = 1, passes: str = "sroa") -> None:
        self._engine = jit.load_objects([jit.compile_ir(self.module.text(), opt_level, self.host, passes)])

    def call(self, name: str, *arrays: Array) -> list[Array]:
        """Results for inputs of 32 * n elements (booleans for predicates; n elements for a uniform input), in the same form."""
        assert self._engine is not None, "compile() comes before call()"
        inputs, outputs = self._functions[name]
        if len(arrays) != len(inputs):
            raise UsageError(f"{name} takes {len(inputs)} arrays, {len(arrays)} were given")
        packed = [_pack(a, shape) for a, shape in zip(arrays, inputs, strict=True)]
        counts = {p.nbytes // shape.bytes for p, shape in zip(packed, inputs, strict=True)} or {1}
        if len(counts) != 1 or 0 in counts or any(p.nbytes % s.bytes for p, s in zip(packed, inputs, strict=True)):
            raise UsageError(f"{name} takes arrays of 32 * n elements, all of one n")
        (turns,) = counts
        # 64 bytes to spare, for the alignment of vectors.
        space = [_aligned(turns * shape.bytes) for shape in outputs]
        places = [ctypes.c_void_p(a.ctypes.data) for a in (*space, *packed)]
        function = ctypes.CFUNCTYPE(None, ctypes.c_uint64, *[ctypes.c_void_p] * len(places))(self._engine.address(name))
        function(turns, *places)
        return [_unpack(a, shape) for a, shape in zip(space, outputs, strict=True)]


def _aligned(size: int) -> Array:
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def _pack(a: Array, shape: _Shape) -> Array:
    flat = np.ascontiguousarray(a).ravel()
    if shape.width == 1 and not shape.uniform:
        flat = np.packbits(flat.astype(bool), bitorder="little")
    raw = flat.astype(shape.dtype, copy=False).view(np.uint8)
    space = _aligned(raw.nbytes)
    space[:] = raw
    return space


def _unpack(raw: Array, shape: _Shape) -> Array:
    if shape.width == 1:
        return raw.astype(bool) if shape.uniform else np.unpackbits(raw, bitorder="little").astype(bool)
    return raw.view(shape.dtype)


def _read(out: Emitter, i: int, shape: _Shape) -> Val:
    at = out.value(f"getelementptr [{shape.bytes} x i8], ptr %i{i}, i64 %turn")
    if shape.uniform:
        if shape.width == 1:
            return Val(out.value(f"trunc i8 {out.value(f'load i8, ptr {at}')} to i1"), 1, True)
        return Val(out.value(f"load i{shape.width}, ptr {at}, align 1"), shape.width, True)
    if shape.width == 1:
        return Val(out.value(f"bitcast i32 {out.value(f'load i32, ptr {at}, align 4')} to <{VECTOR} x i1>"), 1)
    return Val(out.value(f"load <{VECTOR} x i{shape.width}>, ptr {at}, align 16"), shape.width)


def _write(out: Emitter, i: int, v: Val, shape: _Shape) -> None:
    at = out.value(f"getelementptr [{shape.bytes} x i8], ptr %o{i}, i64 %turn")
    if shape.uniform and shape.width == 1:
        out.emit(f"store i8 {out.value(f'zext {v.typed} to i8')}, ptr {at}, align 1")
    elif shape.width == 1:
        out.emit(f"store i32 {out.value(f'bitcast {v.typed} to i32')}, ptr {at}, align 4")
    else:
        out.emit(f"store {v.typed}, ptr {at}, align 1")
