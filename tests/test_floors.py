"""The house's floors: imports go strictly down, and parts of one floor do not import each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ptxgraft

ROOT = Path(ptxgraft.__file__).parent
FLOORS = {
    "errors": 0,
    "collector": 0,
    "text": 1,
    "capture": 1,
    "data": 1,
    "containers": 2,
    "isa": 2,
    "flow": 3,
    "lower": 3,
    "spec": 4,
    "run": 4,
    "graft": 5,
    "verify": 6,
    "report": 7,
    "cli": 8,
}


def part_of(module: str) -> str | None:
    """The part a dotted module name belongs to; None outside the package, '' for the package's own front door."""
    words = module.split(".")
    if words[0] != "ptxgraft":
        return None
    return words[1] if len(words) > 1 else ""


def imports(path: Path) -> list[tuple[int, str]]:
    """Every part that a file imports, with the line: at the top, inside functions, and for types alone."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" if node.module == "ptxgraft" else str(node.module) for alias in node.names]
        else:
            continue
        found += [(node.lineno, part) for name in names if (part := part_of(name)) is not None]
    return found


def violations(part: str, found: list[tuple[int, str]]) -> list[str]:
    """What a file of ``part`` imports that it may not."""
    wrong = []
    for line, other in found:
        if other in (part, "errors", "__version__"):
            continue
        if other not in FLOORS or FLOORS[other] >= FLOORS[part]:
            wrong.append(f"line {line}: {part} (floor {FLOORS[part]}) imports {other or 'the front door'}")
    return wrong


FILES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.name == "errors.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert part in FLOORS, f"{part} has no floor"
    assert violations(part, imports(path)) == []


def test_a_wrong_import_is_seen() -> None:
    assert violations("flow", [(3, "lower")])
    assert violations("isa", [(3, "spec")])
    assert not violations("spec", [(3, "flow"), (4, "errors"), (5, "spec")])
