"""Small programs for the tests of flow: one entry with a given body, and random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from ptxgraft.flow import Flow
from ptxgraft.isa import Program, bind
from ptxgraft.text import Document

HEAD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .u32 m)
{
	.reg .pred %p<10>;
	.reg .b16 %h<10>;
	.reg .b32 %r<40>;
	.reg .b64 %rd<40>;
	.shared .align 16 .b8 tile[256];
"""


def program(body: str) -> Program:
    """The entry ``k`` with these statements, one a line."""
    rows = [row.strip() for row in body.strip().splitlines()]
    return bind(Document.parse(HEAD + "\n".join(rows) + "\n}\n"), "k")


def flow(body: str) -> Flow:
    return Flow(program(body))


@st.composite
def bodies(draw: st.DrawFn, statements: int = 14) -> str:
    """A body of moves, additions, guarded ones, branches (guarded or not) to any of its labels, and returns."""
    count = draw(st.integers(2, statements))
    rows: list[str] = []
    register = st.integers(1, 4)
    for i in range(count):
        rows.append(f"L{i}:")
        a, b, c = draw(register), draw(register), draw(register)
        guard = draw(st.sampled_from(["", "", "@%p1 ", "@!%p2 "]))
        kind = draw(st.sampled_from(["add", "mov", "set", "branch", "store", "return"]))
        target = draw(st.integers(0, count - 1))
        rows.append(
            {
                "add": f"{guard}add.u32 %r{a}, %r{b}, %r{c};",
                "mov": f"{guard}mov.u32 %r{a}, {i};",
                "set": f"setp.lt.u32 %p{1 + a % 2}, %r{b}, %r{c};",
                "branch": f"{guard}bra L{target};",
                "store": f"st.shared.u32 [tile], %r{a};",
                "return": f"{guard}ret;",
            }[kind]
        )
    return "\n".join(rows)


def successors(program: Program) -> list[list[int]]:
    """Where control can go after each instruction, straight from the instructions: the reference for the graph."""
    result: list[list[int]] = []
    for i in program.instructions:
        control = i.form.control if i.form is not None else ""
        leaves = control in ("return", "exit", "trap") or bool(i.targets)
        following = list(i.targets)
        if (not leaves or i.guard is not None) and i.index + 1 < len(program.instructions):
            following.append(i.index + 1)
        result.append(following)
    return result


def reach(edges: list[list[int]], start: int, without: int = -1) -> set[int]:
    """Nodes that paths from ``start`` come to, not through ``without``."""
    seen: set[int] = set()
    waiting = [start] if start != without else []
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [n for n in edges[node] if n != without]
    return seen
