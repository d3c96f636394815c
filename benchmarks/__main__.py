"""``python -m benchmarks [NAME...]``: run the CPU benchmarks and print their tables.

Invariant: a benchmark is a module ``bench_NAME`` with ``run() -> dict``; what is printed is what is recorded, and drawn where it has a ``picture``.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from benchmarks import recording

NAMES = sorted(p.stem.removeprefix("bench_") for p in Path(__file__).parent.glob("bench_*.py"))


def lines_of(result: dict[str, Any], indent: str = "") -> list[str]:
    """A result as text: lists of rows become tables, dictionaries are indented, numbers are rounded for reading."""
    lines = []
    for key, value in result.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            lines += [f"{indent}{key}:", *(f"{indent}  {line}" for line in _table(value))]
        elif isinstance(value, dict):
            lines += [f"{indent}{key}:", *lines_of(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {_text(value)}")
    return lines


def _table(rows: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [names, *cells]]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the CPU benchmarks and print their tables.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)}; all by default")
    recording.add_options(parser)
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
    for name in options.names or NAMES:
        benchmark = importlib.import_module(f"benchmarks.bench_{name}")
        result = benchmark.run()
        print(f"== {name} ({recording.cpu()})")
        print("\n".join(lines_of(result)))
        recorded = getattr(benchmark, "RECORD", name)
        recording.record(recorded, result, options)
        if options.record and hasattr(benchmark, "picture"):
            benchmark.picture(result, options.to / f"{recorded}.png")


if __name__ == "__main__":
    main()
