"""How fast the lossless parser is, and that it stays as fast per line on larger files.

Invariant: every text is generated here, the same each time; what is timed is ``Document.parse`` from bytes to statement objects.
Run ``python -m benchmarks.bench_parse``.
"""

from __future__ import annotations

import time
import tracemalloc

from ptxgraft.text import Document, Kind, split_operands

SIZES = (1_000, 5_000, 20_000, 50_000, 100_000, 200_000)
_UNIT = (
    "\tmma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {{%r{a}, %r{b}}}, {{%r{c}, %r{d}, %r{a}, %r{b}}}, {{%r{c}, %r{d}}}, {{%r{a}, %r{b}}};",
    "\tld.global.nc.v4.u32 \t{{%r{a}, %r{b}, %r{c}, %r{d}}}, [%rd{a}+{b}];",
    "\tadd.s32 \t%r{a}, %r{b}, {c};",
    "\t// begin inline asm",
    "\t{{ .reg .b16 lo; mov.b32 {{lo, %rs{a}}}, %r{b}; }}",
    "\t// end inline asm",
    "\t@%p{a} bra \t$L__BB0_{a};",
    "$L__BB0_{a}:",
    "\t.loc\t1 {a} 3",
    "\tst.shared.v2.f32 \t[%r{a}+16], {{%f{b}, 0f3F800000}}; // spill }}",
)


def entry(lines: int) -> bytes:
    """A module with one entry and exactly this many lines: mma, loads, arithmetic, inline-asm blocks, branches, labels and ``.loc``."""
    head = ".version 8.4\n.target sm_89\n.address_size 64\n\n.visible .entry bench(\n\t.param .u64 bench_param_0\n)\n{\n\t.reg .b32 %r<99999>;\n"
    tail = "\tret;\n}\n"
    body = lines - head.count("\n") - tail.count("\n")
    made = (_UNIT[i % len(_UNIT)].format(a=i, b=i * 7 % 9973, c=i * 3 % 9967, d=i % 97) for i in range(body))
    return (head + "\n".join(made) + "\n" + tail).encode()


def measure(lines: int) -> dict[str, float]:
    """CPU seconds of the best of several parses of one text and of splitting all its operands, and the memory that the document keeps and peaks at."""
    data = entry(lines)
    best = float("inf")
    for _ in range(7 if lines <= 50_000 else 4):
        start = time.process_time()
        document = Document.parse(data)
        best = min(best, time.process_time() - start)
    assert document.print() == data and len(document.lines.starts) == lines + 1
    start = time.process_time()
    for statement in document.statements:
        if statement.kind is Kind.INSTRUCTION:
            split_operands(statement.operands)
    split = time.process_time() - start
    count = len(document.statements)
    tracemalloc.start()
    document = Document.parse(data)
    kept, peak = tracemalloc.get_traced_memory()
    assert len(document.statements) == count
    tracemalloc.stop()
    return {
        "lines": lines,
        "bytes": len(data),
        "statements": count,
        "seconds": best,
        "lines_per_second": lines / best,
        "split_seconds": split,
        "kept_bytes": kept,
        "peak_bytes": peak,
    }


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, object]:
    """Measure every size. ``growth`` is the seconds per line of the largest text over those of the 50,000-line one (linear: about 1)."""
    rows = [measure(lines) for lines in sizes]
    base = next((r for r in rows if r["lines"] == 50_000), rows[0])
    growth = (rows[-1]["seconds"] / rows[-1]["lines"]) / (base["seconds"] / base["lines"])
    return {"parse": rows, "growth": growth}


def main() -> None:
    """Print the table."""
    result = run()
    print(
        f"{'lines':>8} {'bytes':>11} {'statements':>10} {'seconds':>8} {'lines/s':>10} {'+ split s':>9} {'kept MiB':>8} {'peak MiB':>8} {'bytes/line':>10}"
    )
    rows = result["parse"]
    assert isinstance(rows, list)
    for r in rows:
        print(
            f"{r['lines']:8,} {r['bytes']:11,} {r['statements']:10,} {r['seconds']:8.4f} {r['lines_per_second']:10,.0f} {r['split_seconds']:9.4f}"
            f" {r['kept_bytes'] / 2**20:8.1f} {r['peak_bytes'] / 2**20:8.1f} {r['kept_bytes'] / r['lines']:10.0f}"
        )
    print(f"seconds per line, largest over 50,000 lines: {result['growth']:.2f}")


if __name__ == "__main__":
    main()
