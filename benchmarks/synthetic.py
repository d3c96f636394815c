"""PTX of any length in the style of unrolled tensor-core kernels.

Invariant: every text assembles, has exactly the number of lines asked for, and is the same each time. A phase loads weights, multiplies four
rows of tiles over two steps, normalises rows over shuffles, activates, requantises to e4m3 and stages the result in shared memory for the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"
ENTRY = "layer"
STAGING = 4 * 32 * 64
"""Bytes of shared memory: for each of four warps 64 bytes a lane."""

_HEAD = f"""//
// Unrolled tensor-core layer
//

.version 8.8
.target sm_89
.address_size 64

.visible .entry {ENTRY}(
\t.param .u64 {ENTRY}_param_0,
\t.param .u64 {ENTRY}_param_1,
\t.param .f32 {ENTRY}_param_2
)
.reqntid 32, 4, 1
{{
\t.reg .pred \t%p<REGS>;
\t.reg .b16 \t%rs<REGS>;
\t.reg .f32 \t%f<REGS>;
\t.reg .b32 \t%r<REGS>;
\t.reg .b64 \t%rd<REGS>;
\t// demoted variable
\t.shared .align 16 .b8 staging[{STAGING}];

\tld.param.u64 \t%rd1, [{ENTRY}_param_0];
\tld.param.u64 \t%rd2, [{ENTRY}_param_1];
\tld.param.f32 \t%f1, [{ENTRY}_param_2];
\tmov.u32 \t%r1, %tid.x;
\tmov.u32 \t%r2, %tid.y;
\tshl.b32 \t%r3, %r2, 5;
\tadd.s32 \t%r4, %r3, %r1;
\tshl.b32 \t%r5, %r4, 6;
\tmov.u32 \t%r6, staging;
\tadd.s32 \t%r7, %r6, %r5;
\tmul.wide.u32 \t%rd3, %r1, 16;
\tadd.s64 \t%rd4, %rd1, %rd3;
\tmul.wide.u32 \t%rd5, %r4, 16;
\tadd.s64 \t%rd6, %rd2, %rd5;
\tmov.u32 \t%r8, 31;
\tmov.u32 \t%r9, -1;
\tmov.u32 \t%r10, 0;
"""
_TAIL = "\tst.global.v2.u32 \t[%rd6], {RESULT, %r10};\n\tret;\n\n}\n"
_FIRST = 11
"""The lowest register number that the head does not use."""


class _Numbers:
    """Fresh registers by file, as a compiler numbers them."""

    def __init__(self) -> None:
        self.next = dict.fromkeys(("p", "rs", "f", "r", "rd"), _FIRST)

    def take(self, file: str, many: int = 1) -> list[str]:
        first = self.next[file]
        self.next[file] = first + many
        return [f"%{file}{n}" for n in range(first, first + many)]

    def one(self, file: str) -> str:
        return self.take(file)[0]


def _braced(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"


def _phase(numbers: _Numbers, number: int, last: list[str]) -> Iterator[tuple[bool, str]]:
    """The statements of one phase: (came from inline assembly, text). ``last`` gets the register that holds something of the result."""
    take, one = numbers.take, numbers.one
    a = [take("r", 4) for _ in range(2)]
    for i, fragment in enumerate(a):
        yield False, f"ld.shared.v4.u32 \t{_braced(fragment)}, [%r7+{16 * i}];"
    b = [take("r", 4) for _ in range(4)]
    for i, pair in enumerate(b):
        yield False, f"ld.global.nc.v4.u32 \t{_braced(pair)}, [%rd4+{2048 * number + 512 * i}];"
    rows: list[list[str]] = []
    for n in range(4):
        accumulator = ["%r10", "%r10"]
        for k in range(2):
            d = take("r", 2)
            pair = b[2 * k + n // 2][2 * (n % 2) : 2 * (n % 2) + 2]
            yield True, f"{MMA} {_braced(d)}, {_braced(a[k])}, {_braced(pair)}, {_braced(accumulator)};"
            accumulator = d
        rows.append(accumulator)
    packed: list[list[str]] = []
    for half in range(2):
        total = one("f")
        yield False, f"mov.f32 \t{total}, 0f00000000;"
        for row in rows:
            low, high = take("f", 2)
            yield True, f"{{ .reg .b16 low, high; mov.b32 {{low, high}}, {row[half]}; cvt.f32.f16 {low}, low; }}"
            yield True, f"{{ .reg .b16 low, high; mov.b32 {{low, high}}, {row[half]}; cvt.f32.f16 {high}, high; }}"
            for value in (low, high):
                sum_ = one("f")
                yield False, f"fma.rn.f32 \t{sum_}, {value}, {value}, {total};"
                total = sum_
        for distance in (2, 1):
            bits, other = take("r", 2)
            value, sum_ = take("f", 2)
            yield False, f"mov.b32 \t{bits}, {total};"
            yield False, f"shfl.sync.bfly.b32 \t{other}|{one('p')}, {bits}, {distance}, %r8, %r9;"
            yield False, f"mov.b32 \t{value}, {other};"
            yield False, f"add.rn.f32 \t{sum_}, {total}, {value};"
            total = sum_
        mean, root, scale = one("f"), one("f"), one("r")
        yield False, f"fma.rn.f32 \t{mean}, {total}, 0f3D000000, %f1;"
        yield True, f"rsqrt.approx.ftz.f32 {root}, {mean};"
        yield True, f"cvt.rn.f16x2.f32 {scale}, {root}, {root};"
        bytes_: list[str] = []
        for row in rows:
            scaled, low, high, square, curve = take("r", 5)
            eight = one("rs")
            yield True, f"mul.rn.f16x2 {scaled}, {row[half]}, {scale};"
            yield True, f"max.f16x2 {low}, {scaled}, %r10;"
            yield True, f"min.f16x2 {high}, {low}, {scale};"
            yield True, f"mul.rn.f16x2 {square}, {high}, {high};"
            yield True, f"fma.rn.f16x2 {curve}, {square}, {high}, {scaled};"
            yield True, f"cvt.rn.satfinite.e4m3x2.f16x2 {eight}, {curve};"
            bytes_.append(eight)
        words = take("r", 2)
        for word, pair in zip(words, (bytes_[:2], bytes_[2:]), strict=True):
            yield False, f"mov.b32 \t{word}, {_braced(pair)};"
        packed.append(words)
    yield False, "bar.sync \t0;"
    yield False, f"st.shared.v4.u32 \t[%r7+{32 * (number % 2)}], {_braced(packed[0] + packed[1])};"
    yield False, "bar.sync \t0;"
    last[:] = packed[1][1:]


def module(lines: int, marked: bool = True) -> bytes:
    """A module with one entry and exactly ``lines`` lines. ``marked``: statements from inline assembly stand between two comments, as nvcc writes
    them; otherwise nearly every line is a statement."""
    numbers = _Numbers()
    result = "%r10"
    last = [result]
    body: list[str] = []
    room = lines - _HEAD.count("\n") - _TAIL.count("\n")
    for number in count():
        phase = [line for inline, text in _phase(numbers, number, last) for line in _written(text, inline and marked)]
        if len(body) + len(phase) > room:
            break
        body += phase
        result = last[0]
    # What is left has no room for a phase: a chain of sums.
    for name in numbers.take("r", max(room - len(body), 0)):
        body.append(f"\tadd.s32 \t{name}, {result}, 1;")
        result = name
    text = _HEAD.replace("REGS", str(max(numbers.next.values()))) + "".join(f"{line}\n" for line in body) + _TAIL.replace("RESULT", result)
    return text.encode()


def _written(text: str, marked: bool) -> tuple[str, ...]:
    return ("\t// begin inline asm", f"\t{text}", "\t// end inline asm") if marked else (f"\t{text}",)
