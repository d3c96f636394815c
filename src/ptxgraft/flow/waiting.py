"""Programs whose threads wait in a loop for what others write.

Invariant: a program called waiting has a loop that can end, or go another way, by what an atomic operation, a barrier object or a load that sees other
threads' stores has given. Loads without such a promise do not count: what they give in a loop may be one value for ever.
"""

from __future__ import annotations

from ptxgraft.isa import Form, Instruction, Program

_OWN = ("local", "generic")
"""Spaces in which a thread's own memory lies."""

_SEEING = frozenset(["volatile", "relaxed", "acquire"])


def may_wait(program: Program) -> bool:
    """Can a thread wait for another in a loop of the program?"""
    loops = _loops(program)
    if not loops:
        return False
    shared = _shared(program)
    if not shared:
        return False
    return any(_decides(i, shared) and any(first <= i.index <= last for first, last in loops) for i in program.instructions)


def _loops(program: Program) -> list[tuple[int, int]]:
    """From where to where branches go back, instruction numbers inclusive; overlapping ones joined."""
    back = sorted((min(i.targets), i.index) for i in program.instructions if i.targets and min(i.targets) <= i.index)
    joined: list[tuple[int, int]] = []
    for first, last in back:
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _shared(program: Program) -> set[int]:
    """Registers whose values can come from another thread, by whatever computation; also by way of local memory, where code that was not optimised
    keeps everything."""
    found = {r for i in program.instructions if i.form is not None and _sees_others(i.form) for r in i.writes}
    kept = False
    changed = bool(found)
    while changed:
        changed = False
        for instruction in program.instructions:
            form, from_others = instruction.form, not found.isdisjoint(instruction.reads)
            if from_others and not kept and form is not None and form.stores in _OWN:
                kept = changed = True
            if (from_others or (kept and form is not None and form.loads in _OWN)) and not found.issuperset(instruction.writes):
                found.update(instruction.writes)
                changed = True
    return found


def _sees_others(form: Form) -> bool:
    """Does the instruction give what another thread may just have stored?"""
    if form.family == "atomic" or form.opcode.startswith(("mbarrier.test_wait", "mbarrier.try_wait")):
        return True
    seeing = form.slots.get("sem") in _SEEING or form.slots.get("cop") in ("cv", "cg") or bool(form.slots.get("mmio"))
    return bool(form.loads) and form.root == "ld" and seeing


def _decides(instruction: Instruction, registers: set[int]) -> bool:
    """Do the registers say where control goes?"""
    form = instruction.form
    return (
        form is not None and form.control in ("branch", "indirect-branch", "return", "exit") and not registers.isdisjoint(instruction.reads)
    )
