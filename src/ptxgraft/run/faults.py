"""What a run says when a kernel does what no kernel may.

Invariant: every fault names the PTX line, the statement, the block, the warp and the lane or lanes; both CPU executors take their texts from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ptxgraft.errors import KernelFault, UnsupportedError
from ptxgraft.isa.families import stack
from ptxgraft.isa.program import Program
from ptxgraft.run.memory import Allocation, Memory


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction of a program as one lane of one warp of one block runs it. ``lane`` -1: the whole warp."""

    program: Program
    index: int
    block: tuple[int, int, int]
    warp: int
    lane: int = -1

    def __str__(self) -> str:
        lane = "" if self.lane < 0 else f", lane {self.lane}"
        return f"block {self.block}, warp {self.warp}{lane}"

    @property
    def statement(self) -> str:
        return statement(self.program, self.index)

    def fault(self, text: str, hint: str = "") -> KernelFault:
        return KernelFault(f"{text}: {self.statement} ({self})", place=self.program.place(self.index), hint=hint)


def statement(program: Program, index: int) -> str:
    """An instruction as written, blanks made one, in quotes."""
    return "`" + " ".join(program.source(index).split()) + "`"


def numbers(values: Iterable[int]) -> str:
    """``0-3, 7``: whole numbers as ranges."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _many(word: str, values: Sequence[int]) -> str:
    return f"{word} {numbers(values)}" if len(values) == 1 else f"{word}s {numbers(values)}"


def out_of_bounds(site: Site, memory: Memory, space: str, write: bool, address: int, size: int, limit: int = -1) -> KernelFault:
    """An access of ``size`` bytes that no allocation holds; ``limit`` is the size of the space when it is not global."""
    does = "writes" if write else "reads"
    if limit < 0:
        return site.fault(f"{does} {size} bytes at {address:#x}, {memory.describe(address)}")
    return site.fault(f"{does} {size} bytes at {space} address {address:#x}; {space} memory has {limit} bytes here")


def misaligned(site: Site, space: str, write: bool, address: int, size: int) -> KernelFault:
    """An access whose address is no multiple of its size."""
    does = "writes" if write else "reads"
    return site.fault(f"{does} {size} bytes at {space} address {address:#x}, which is no multiple of {size}")


def never_ends(site: Site, budget: int) -> KernelFault:
    """A warp has run more statements than it may. Engines look at different places of a loop: what is named is the branch that closes the innermost one."""
    around = [i.index for i in site.program.instructions if any(target <= site.index <= i.index for target in i.targets)]
    site = replace(site, index=min(around, key=lambda i: i - min(site.program.instructions[i].targets), default=site.index))
    return site.fault(f"never ends: still running after {budget} statements", hint="raise the step budget if the kernel is only slow")


def unknown_handle(site: Site, kind: str, handle: int, known: Iterable[int], variables: Mapping[str, Allocation]) -> KernelFault:
    """A texture or surface instruction got a handle that the launch does not have; that of a reference is its variable's address."""
    name = next((name for name, v in variables.items() if v.base == handle), None)
    if name is not None:
        made = f"ptxgraft.{kind.capitalize()}(...)"
        return site.fault(f"no {kind} is bound to the reference {name!r}", f"bind one: kernel.launch(..., references={{{name!r}: {made}}})")
    listed = ", ".join(f"{h:#x}" for h in sorted(known)) or "none"
    return site.fault(f"{handle:#x} is no {kind} of this launch (there are: {listed})")


HINTS = {stack.OVERFLOW: "give the launch more stack (stack_bytes, --stack), or call less deeply"}
"""What to do next, by the reason that a meaning gives."""


def reasoned(site: Site, reason: str, value: int | None) -> KernelFault:
    """A meaning stopped the launch; ``{}`` in its reason stands for the value."""
    return site.fault(reason if value is None else reason.format(value), HINTS.get(reason, ""))


def no_function(site: Site, address: int) -> KernelFault:
    """An indirect call got an address that is none of the functions that it can call."""
    return site.fault(f"calls {address:#x}, which is not the address of a function with these parameters")


def no_branch_target(site: Site, index: int, count: int) -> KernelFault:
    """An indirect branch got an index that its list of ``count`` targets does not have."""
    return site.fault(f"there is no branch target {index}, the list has {count}, numbered from 0")


def trapped(site: Site) -> KernelFault:
    """A ``trap`` or ``brkpt`` was run."""
    return site.fault("the kernel stopped itself")


def no_convergence(site: Site, lanes: Sequence[int], missing: Sequence[tuple[int, str]]) -> KernelFault:
    """``lanes`` wait at the site for lanes that cannot come; ``missing`` are (lane, where it is)."""
    places: dict[str, list[int]] = {}
    for lane, where in missing:
        places.setdefault(where, []).append(lane)
    elsewhere = ", ".join(f"{_many('lane', found)} {where}" for where, found in places.items())
    return site.fault(f"{_many('lane', lanes)} wait for lanes that cannot come ({elsewhere})")


def barrier_not_met(site: Site, barrier: int, waiting: Sequence[int], others: Sequence[tuple[int, str]], wanted: int) -> KernelFault:
    """``waiting`` warps stand at a barrier that needs ``wanted`` warps; ``others`` are (warp, where it is)."""
    places: dict[str, list[int]] = {}
    for warp, where in others:
        places.setdefault(where, []).append(warp)
    elsewhere = ", ".join(f"{_many('warp', found)} {where}" for where, found in places.items())
    needs = f"{wanted} warp{'s' * (wanted != 1)}"
    came = f"{_many('warp', waiting)} came" if waiting else "none came with all its lanes"
    return site.fault(f"barrier {barrier} is never met: it needs {needs}, {came}" + (f"; {elsewhere}" if elsewhere else ""))


def unknown_instruction(program: Program, index: int) -> UnsupportedError:
    """An instruction that the table does not know, or knows without a meaning, was reached."""
    instruction = program.instructions[index]
    known = "has no meaning here yet" if instruction.form is not None else "is not in the instruction table"
    instead = instruction.form.entry.instead if instruction.form is not None else ""
    return UnsupportedError(
        f"{instruction.statement.opcode!r} {known}: {statement(program, index)}",
        place=program.place(index),
        hint=instead or "the module's other entries run; `ptxgraft ls` names what each entry lacks",
    )


def extern_call(program: Program, index: int) -> UnsupportedError:
    """A call of a function without a body was reached."""
    name = program.instructions[index].callee
    return UnsupportedError(
        f"function {name!r} has no body in this module: {statement(program, index)}",
        place=program.place(index),
        hint="merge a module that defines it, or run the uncut entry",
    )
