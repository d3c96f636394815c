"""Typed LLVM operations on ``Val``: scalar when every operand is uniform, else vectors of one length.

Invariant: an operation's operands are brought to one length first (uniform ones are splatted, once a block), so that no line mixes
lengths. Elements are LLVM types (``i1`` .. ``i128``, ``half``, ``float``, ``double``); a bit cast is written once a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxgraft.lower.ir import Emitter, Val, element_width, integer_text, vector_type

_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


class Build:
    """Writes operations into ``out``. ``features`` are the names of the CPU features that the code may rely on."""

    def __init__(self, out: Emitter, features: frozenset[str]) -> None:
        self.out = out
        self.features = features

    # -- shapes -------------------------------------------------------------------------------------------------------
    def const(self, bits: int, elem: str) -> Val:
        """A uniform constant of any element type, by its bits."""
        width = element_width(elem)
        bits &= (1 << width) - 1
        return Val(_constant_text(bits, elem), width, elem=elem, count=1, const=bits)

    def spread(self, a: Val, count: int) -> Val:
        """``a`` with ``count`` elements."""
        if a.count == count:
            return a
        assert a.count == 1, f"{a} cannot become {count} elements"
        if type(a.const) is int:
            return Val(f"splat ({a.elem} {a.name})", a.width, elem=a.elem, count=count, const=a.const)
        key = ("spread", a, count)
        found = self.out.cache.get(key)
        if found is None:
            type_ = vector_type(a.elem, count)
            first = self.out.value(f"insertelement {type_} poison, {a.typed}, i32 0")
            name = self.out.value(f"shufflevector {type_} {first}, {type_} poison, <{count} x i32> zeroinitializer")
            found = self.out.cache[key] = Val(name, a.width, elem=a.elem, count=count)
        return found

    def join(self, *values: Val) -> list[Val]:
        """The values, all with the length of the longest."""
        count = max(v.count for v in values)
        return [self.spread(v, count) for v in values]

    def new(self, text: str, elem: str, count: int) -> Val:
        return Val(self.out.value(text), element_width(elem), elem=elem, count=count)

    # -- operations ---------------------------------------------------------------------------------------------------
    def op(self, opcode: str, a: Val, b: Val) -> Val:
        """A binary operation on equal types."""
        a, b = self.join(a, b)
        return self.new(f"{opcode} {a.typed}, {b.name}", a.elem, a.count)

    def compare(self, opcode: str, a: Val, b: Val) -> Val:
        """``icmp eq``, ``fcmp olt`` ...: a predicate."""
        a, b = self.join(a, b)
        return self.new(f"{opcode} {a.typed}, {b.name}", "i1", a.count)

    def select(self, p: Val, a: Val, b: Val) -> Val:
        if p.count == 1:
            a, b = self.join(a, b)
        else:
            p, a, b = self.join(p, a, b)
        return self.new(f"select {p.typed}, {a.typed}, {b.typed}", a.elem, a.count)

    def cast(self, opcode: str, a: Val, elem: str) -> Val:
        return self.new(f"{opcode} {a.typed} to {vector_type(elem, a.count)}", elem, a.count)

    def bits(self, a: Val, elem: str) -> Val:
        """The same bits read as another element type of the same width."""
        if a.elem == elem:
            return a
        if a.count == 1 and type(a.const) is int:
            return self.const(a.const, elem)
        key = ("bits", a, elem)
        found = self.out.cache.get(key)
        if found is None:
            found = self.out.cache[key] = self.cast("bitcast", a, elem)
            self.out.cache["bits", found, a.elem] = a
        return found

    def regroup(self, a: Val, elem: str) -> Val:
        """The same bits cut into elements of another width: element 0 is the lowest bits of the old element 0."""
        count = a.count * a.width // element_width(elem)
        return self.new(f"bitcast {a.typed} to {vector_type(elem, count)}", elem, count)

    def pick(self, a: Val, indices: Sequence[int]) -> Val:
        """The elements of ``a`` with these numbers."""
        return self.interleave(a, None, indices)

    def interleave(self, a: Val, b: Val | None, indices: Sequence[int]) -> Val:
        """Elements of ``a`` followed by ``b``, by their numbers."""
        order = ", ".join(f"i32 {i}" for i in indices)
        second = b.typed if b is not None else f"{a.type} poison"
        return self.new(f"shufflevector {a.typed}, {second}, <{len(indices)} x i32> <{order}>", a.elem, len(indices))

    def call(self, intrinsic: str, *args: Val, tail: str = "") -> Val:
        """An LLVM intrinsic overloaded on one type, that of its arguments and its result. ``tail``: further constant arguments."""
        joined = self.join(*args)
        a = joined[0]
        suffix = _SUFFIX.get(a.elem, a.elem)
        name = f"@{intrinsic}.{suffix if a.count == 1 else f'v{a.count}{suffix}'}"
        extra = [tail.split()[0]] if tail else []
        self.out.declare(f"declare {a.type} {name}({', '.join([a.type] * len(joined) + extra)})")
        arguments = ", ".join([v.typed for v in joined] + ([tail] if tail else []))
        return self.new(f"call {a.type} {name}({arguments})", a.elem, a.count)

    # -- what several operations need ---------------------------------------------------------------------------------
    def abs(self, a: Val) -> Val:
        return self.call("llvm.fabs", a)

    def negate(self, a: Val) -> Val:
        """The sign bit of a float flipped."""
        return self.new(f"fneg {a.typed}", a.elem, a.count)

    def is_negative(self, a: Val) -> Val:
        """The sign bit of an integer as a predicate."""
        return self.compare("icmp slt", a, self.const(0, a.elem))

    def masked(self, a: Val, mask: int) -> Val:
        return self.op("and", a, self.const(mask, a.elem))

    def plus(self, a: Val, number: int) -> Val:
        return self.op("add", a, self.const(number, a.elem))

    def shifted(self, opcode: str, a: Val, amount: int) -> Val:
        return self.op(opcode, a, self.const(amount, a.elem)) if amount else a

    # -- shared functions ---------------------------------------------------------------------------------------------
    def outline(self, name: str, inputs: Sequence[Val], body: Callable[[Emitter, list[Val]], Sequence[Val]]) -> list[Val]:
        """Call ``name``, which is ``body`` written once for these shapes: vectors by pointer, predicates as masks, uniforms by value."""
        full = ".".join((name, *(f"{v.elem}x{v.count}" for v in inputs)))
        module = self.out.module
        if full not in module.functions:
            module.functions[full] = ""  # taken: a body may not call itself
            module.functions[full], module.results[full] = _function(Emitter(module), full, inputs, body)
        arguments = []
        scratch = []
        for i, result in enumerate(module.results[full]):
            type_ = _memory_type(result)
            scratch.append(self.out.slot(("out", i, type_), type_))
            arguments.append(f"ptr {scratch[-1]}")
        for i, v in enumerate(inputs):
            if v.count == 1:
                arguments.append(v.typed)
            elif v.elem == "i1":
                arguments.append(f"i{v.count} {self.out.value(f'bitcast {v.typed} to i{v.count}')}")
            else:
                place = self.out.slot(("in", i, v.type), v.type)
                self.out.emit(f"store {v.typed}, ptr {place}, align 64")
                arguments.append(f"ptr {place}")
        module.calls[full] = module.calls.get(full, 0) + 1
        self.out.emit(f"call void @{full}({', '.join(arguments)})")
        return [_reload(self.out, result, place) for result, place in zip(module.results[full], scratch, strict=True)]


def _function(out: Emitter, name: str, inputs: Sequence[Val], body: Callable[[Emitter, list[Val]], Sequence[Val]]) -> tuple[str, list[Val]]:
    values, parameters = [], []
    for i, v in enumerate(inputs):
        if v.count == 1:
            values.append(Val(f"%i{i}", v.width, elem=v.elem, count=1))
            parameters.append(f"{v.type} %i{i}")
        elif v.elem == "i1":
            values.append(Val(out.value(f"bitcast i{v.count} %i{i} to {v.type}"), 1, count=v.count))
            parameters.append(f"i{v.count} %i{i}")
        else:
            values.append(Val(out.value(f"load {v.type}, ptr %i{i}, align 64"), v.width, elem=v.elem, count=v.count))
            parameters.append(f"ptr %i{i}")
    results = list(body(out, values))
    for i, v in enumerate(results):
        if v.elem == "i1" and v.count > 1:
            out.emit(f"store i{v.count} {out.value(f'bitcast {v.typed} to i{v.count}')}, ptr %o{i}, align 8")
        else:
            out.emit(f"store {v.typed}, ptr %o{i}, align {64 if v.count > 1 else 8}")
    out.emit("ret void")
    head = ", ".join([f"ptr noalias %o{i}" for i in range(len(results))] + parameters)
    shapes = [Val("", v.width, elem=v.elem, count=v.count) for v in results]
    return f"define internal void @{name}({head}) nounwind {{\n{out.body()}\n}}", shapes


def _memory_type(v: Val) -> str:
    return f"i{v.count}" if v.elem == "i1" and v.count > 1 else v.type


def _reload(out: Emitter, v: Val, place: str) -> Val:
    if v.elem == "i1" and v.count > 1:
        mask = out.value(f"load i{v.count}, ptr {place}, align 8")
        return Val(out.value(f"bitcast i{v.count} {mask} to {v.type}"), 1, count=v.count)
    name = out.value(f"load {v.type}, ptr {place}, align {64 if v.count > 1 else 8}")
    return Val(name, v.width, elem=v.elem, count=v.count)


def _constant_text(bits: int, elem: str) -> str:
    if elem == "half":
        return f"0xH{bits:04X}"
    if elem == "double":
        return f"0x{bits:016X}"
    if elem == "float":
        return f"0x{_float_as_double(bits):016X}"
    return integer_text(bits, element_width(elem))


def _float_as_double(bits: int) -> int:
    """LLVM writes an f32 constant as the f64 of the same value."""
    sign, exponent, fraction = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        wide = 0x7FF
    elif exponent:
        wide = exponent - 127 + 1023
    elif not fraction:
        wide = 0
    else:
        shift = 24 - fraction.bit_length()
        fraction = fraction << shift & 0x7FFFFF
        wide = 1 - shift - 127 + 1023
    return sign << 63 | wide << 52 | fraction << 29
