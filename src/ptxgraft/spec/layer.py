"""The layer spec of an entry: phases, fragments, weight map, epilogues, ABI.

Invariant: a spec is a function of the program and a block shape alone; two runs give equal specs.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np

from ptxgraft.collector import collector_paused
from ptxgraft.flow import Flow
from ptxgraft.isa import TYPES, Address, Form, Instruction, Operand, Reg, Resource, Special, Vector, registers_of
from ptxgraft.spec.epilogue import describe
from ptxgraft.spec.model import (
    Epilogue,
    FragmentSpec,
    LayerSpec,
    ParamSpec,
    Phase,
    Provenance,
    SharedSpec,
)
from ptxgraft.spec.provenance import Source, Tracer, shared_variable
from ptxgraft.spec.regions import mma_region, region_abi
from ptxgraft.text import extents

_SHAPE = re.compile(r"m\d+n\d+k\d+")

OPERANDS = ("d", "a", "b", "c")
"""Order of a tensor-core instruction's fragment operands."""


@collector_paused()
def layer_spec(flow: Flow, block: tuple[int, int, int] | None = None) -> LayerSpec:
    """The spec of ``flow.program``. ``block`` is the block shape for thread-dependent offsets; None: taken from the entry's directives."""
    program = flow.program
    shape, source = (block, "given") if block is not None else block_shape(flow)
    runs = phase_runs(flow)
    tracer = Tracer(flow, shape)
    for number, run in enumerate(runs):
        for position, index in enumerate(run):
            tracer.mma_of[index] = (number, position)
    tracer.weight_param = weight_parameter(tracer, runs)
    notes = (
        [f"{len(program.unknown)} unknown instructions, first: line {program.line(program.unknown[0].index)}"] if program.unknown else []
    )
    if source == "assumed":
        notes.append(
            f"the entry does not state its block shape; {shape} was assumed for offsets that depend on the thread (--block sets it)"
        )
    region = mma_region(flow)
    stop = len(program.instructions) - 1  # the last instruction is the end of the body, which no statement spells
    ends = [*(run[0] for run in runs[1:]), stop][: len(runs)]
    live = flow.liveness.before([i for run in runs for i in (run[0], run[-1] + 1)])
    phases = [
        _phase(flow, tracer, number, run, live[run[0]], live[run[-1] + 1], describe(flow, run[-1] + 1, end))
        for number, (run, end) in enumerate(zip(runs, ends, strict=True))
    ]
    return LayerSpec(
        file=program.document.name,
        entry=program.name,
        params=parameters(flow, tracer),
        shared=shared_arrays(flow),
        region=region,
        phases=phases,
        prologue=describe(flow, 0, runs[0][0] if runs else stop),
        abi=region_abi(flow, region) if region is not None else None,
        weight_param=tracer.weight_param,
        block=shape,
        block_source=source,
        notes=notes,
    )


def block_shape(flow: Flow) -> tuple[tuple[int, int, int], str]:
    """The block shape an entry states, or a guess that is named as one: (32, 1, warps) when it reads tid.z, (32, warps, 1) for tid.y."""
    directives = dict(flow.program.entry.directives)
    if ".reqntid" in directives:
        return extents(directives[".reqntid"]) or (32, 1, 1), "reqntid"
    x, y, z = extents(directives.get(".maxntid", "32")) or (32, 1, 1)
    threads = x * y * z
    used = {o.name for i in flow.program.instructions for o in i.operands if type(o) is Special}
    if threads > 32 and threads % 32 == 0:
        if "tid.z" in used:
            return (32, 1, threads // 32), "assumed"
        if "tid.y" in used:
            return (32, threads // 32, 1), "assumed"
    return (threads, 1, 1), "maxntid" if ".maxntid" in directives else "assumed"


def phase_runs(flow: Flow) -> list[list[int]]:
    """Maximal runs of neighbouring tensor-core instructions, as instruction indices."""
    runs: list[list[int]] = []
    for instruction in flow.program.instructions:
        if instruction.form is not None and instruction.form.tensor:
            if runs and runs[-1][-1] == instruction.index - 1:
                runs[-1].append(instruction.index)
            else:
                runs.append([instruction.index])
    return runs


def weight_parameter(tracer: Tracer, runs: list[list[int]]) -> int | None:
    """The parameter offset of the weight image: the pointer that most B fragments are read through."""
    votes: Counter[int] = Counter()
    for run in runs:
        for index in run:
            _, sources = tracer.fragment(_operand(tracer.program.instructions[index], "b"), index)
            votes.update(s.param for s in sources if s.kind == "memory" and s.param is not None)
    return votes.most_common(1)[0][0] if votes else None


def _operand(instruction: Instruction, name: str) -> Operand:
    form = instruction.form
    assert form is not None
    for role, operand in zip(form.roles, instruction.operands, strict=True):
        if role.name == name:
            assert operand is not None
            return operand
    raise AssertionError(f"{form.opcode} has no operand {name}")


def _phase(
    flow: Flow, tracer: Tracer, number: int, run: list[int], before: frozenset[int], after: frozenset[int], epilogue: Epilogue
) -> Phase:
    program = flow.program
    form = program.instructions[run[0]].form
    assert form is not None
    fragments: dict[str, list[FragmentSpec]] = {name: [] for name in OPERANDS}
    seen: dict[str, dict[object, FragmentSpec]] = {name: {} for name in OPERANDS}
    weights: list[Source] = []
    computed: set[tuple[int, int]] = set()
    chained: set[object] = set()
    for position, index in enumerate(run):
        instruction = program.instructions[index]
        for name in OPERANDS:
            operand = _operand(instruction, name)
            key = _fragment_key(flow, instruction, name)
            found = seen[name].get(key)
            if found is not None:
                found.uses += 1
                continue
            if name == "d":
                provenance = Provenance("chain", phase=number, mma=position)
            else:
                provenance, sources = tracer.fragment(operand, index)
                weights += [s for s in sources if s.kind == "memory" and s.param == tracer.weight_param]
                if provenance.kind == "computed" and tracer.weight_param is not None:
                    computed.update(*(tracer.weight_loads(r, index) for r in registers_of(operand)))
            if name == "c" and provenance.kind == "chain" and provenance.phase == number:
                chained.add(position)
            fragment = FragmentSpec(_names(flow, operand), provenance, position, 1, program.line(index))
            seen[name][key] = fragment
            fragments[name].append(fragment)
    across = _across(flow, run, before, after)
    width = sum(max(program.registers[r].type.width, 8) // 8 for r in across)
    types = _types(form)
    through = [tracer.traced(register, load) for load, register in computed]
    return Phase(
        index=number,
        first=run[0],
        last=run[-1],
        first_line=program.line(run[0]),
        last_line=program.line(run[-1]),
        shape=next((word for word in form.opcode.split(".") if _SHAPE.fullmatch(word)), ""),
        types=types,
        mma=len(run),
        tiles=_tiles(len(run), len(run) - len(chained), len(fragments["a"]), len(fragments["b"])),
        a=fragments["a"],
        b=fragments["b"],
        c=fragments["c"],
        d=fragments["d"],
        weight_ranges=_ranges(tracer, weights),
        computed_ranges=_ranges(tracer, through),
        unplaced_loads=len({s.instruction for s in (*weights, *through) if tracer.offsets(s) is None}),
        live_across_registers=len(across),
        live_across_bytes=width,
        epilogue=epilogue,
    )


def _types(form: Form) -> dict[str, str]:
    """Element types by operand. ``wmma`` writes those of A and B only where they are not f16, and has no names for them."""
    types = {name: form.slots.get(f"{name}t", "") for name in OPERANDS}
    if form.root == "wmma":
        written = [word for word in form.opcode.split(".") if word in TYPES]
        types["a"], types["b"] = written[1:3] if len(written) == 4 else ("f16", "f16")
    return {name: word for name, word in types.items() if word}


def _fragment_key(flow: Flow, instruction: Instruction, name: str) -> object:
    """What makes an operand a fragment of its own: its registers and, of an input, the values in them."""
    operand = _operand(instruction, name)
    if name == "d":
        return operand
    registers = [i.id for i in getattr(operand, "items", (operand,)) if isinstance(i, Reg)]
    return operand, tuple(flow.defuse.single(r, instruction.index) for r in registers)


def phase_steps(flow: Flow, phase: Phase) -> list[dict[str, int]]:
    """For each tensor-core instruction of a phase, in order, the numbers of its fragments in ``phase.d``, ``.a``, ``.b`` and ``.c``."""
    numbers: dict[str, dict[object, int]] = {name: {} for name in OPERANDS}
    steps: list[dict[str, int]] = []
    for instruction in flow.program.instructions[phase.first : phase.last + 1]:
        keys = {name: _fragment_key(flow, instruction, name) for name in OPERANDS}
        steps.append({name: numbers[name].setdefault(key, len(numbers[name])) for name, key in keys.items()})
    return steps


def _across(flow: Flow, run: list[int], before: frozenset[int], after: frozenset[int]) -> frozenset[int]:
    written = {r for index in run for r in flow.program.instructions[index].writes}
    return before & after - written


def _tiles(mma: int, chains: int, a: int, b: int) -> tuple[int, int, int] | None:
    """m x n x k tile counts from the numbers of chains and of distinct A and B fragments; None when they make no full product."""
    if not chains or mma % chains:
        return None
    k = mma // chains
    if a % k or b % k:
        return None
    m, n = a // k, b // k
    return (m, n, k) if m * n == chains else None


def _names(flow: Flow, operand: object) -> tuple[str, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    registers = flow.program.registers
    return tuple(registers[i.id].name if isinstance(i, Reg) else str(getattr(i, "value", "_")) for i in items)


def _ranges(tracer: Tracer, sources: list[Source]) -> list[tuple[int, int]]:
    """The bytes that sources cover over all threads of the block, as merged half-open ranges."""
    by_width: dict[int, list[np.ndarray]] = {}
    for source in sources:
        offsets = tracer.offsets(source)
        if offsets is not None:
            by_width.setdefault(source.width, []).append(offsets)
    if not by_width:
        return []
    groups = [(width, np.concatenate(offsets)) for width, offsets in by_width.items()]
    starts = np.concatenate([offsets for _, offsets in groups])
    ends = np.concatenate([offsets + np.uint64(width) for width, offsets in groups])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    # A range begins where all before have ended.
    first = np.flatnonzero(np.concatenate([[True], starts[1:] > ends[:-1]]))
    last = np.append(first[1:], len(starts)) - 1
    return list(zip(starts[first].tolist(), ends[last].tolist(), strict=True))


def parameters(flow: Flow, tracer: Tracer) -> list[ParamSpec]:
    """The entry's parameters and what they are used for, from the instructions that their values reach as addresses and handles."""
    program = flow.program
    uses: dict[int, str] = {}
    bracketed: dict[str, bool] = {}
    order = ("unused", "value", "buffer", "texture", "surface")
    for instruction in program.instructions:
        form = instruction.form
        if form is None:
            continue
        if form.loads == "param":
            address = flow.symbols.address(instruction.index)
            if address is not None and address.is_constant:
                for parameter in program.params:
                    if parameter.offset <= address.constant < parameter.offset + parameter.size:
                        uses.setdefault(parameter.offset, "value")
        addresses = bracketed.get(form.opcode)
        if addresses is None:
            addresses = bracketed[form.opcode] = any(role.kind in ("addr", "resource") for role in form.roles)
        if not addresses:
            continue
        for operand in instruction.operands:
            if isinstance(operand, Resource) and isinstance(operand.handle, Reg):
                value, use = (
                    flow.symbols.register(operand.handle.id, instruction.index),
                    "surface" if form.root in ("sust", "suld", "sured") else "texture",
                )
            elif isinstance(operand, Address) and form.loads != "param" and (form.loads or form.stores):
                value, use = flow.symbols.operand(operand, None, instruction.index), "buffer"
            else:
                continue
            for atom, _ in value.terms:
                if atom.key[0] == "param" and atom.width == 64:
                    current = uses.get(atom.key[1], "unused")
                    uses[atom.key[1]] = max(current, use, key=order.index)
    result = []
    for parameter in program.params:
        inside = {o: u for o, u in uses.items() if parameter.offset <= o < parameter.offset + parameter.size}
        if tracer.weight_param in inside:
            inside[tracer.weight_param] = "weights"  # pyright: ignore[reportArgumentType]
        if parameter.size > 8:
            text = ", ".join(f"{u}+{o - parameter.offset}" for o, u in sorted(inside.items()) if u != "value") or (
                "value" if inside else "unused"
            )
        else:
            text = max(inside.values(), key=lambda u: (*order, "weights").index(u), default="unused")
        type_name = parameter.type if parameter.size <= 8 else f"{parameter.type}[{parameter.size}]"
        result.append(ParamSpec(parameter.name, type_name, parameter.offset, parameter.size, text))
    return result


def shared_arrays(flow: Flow) -> list[SharedSpec]:
    """Shared arrays with the lines of their first and last stores and loads."""
    program = flow.program
    found: dict[int, SharedSpec] = {
        v.id: SharedSpec(v.name, v.offset, v.size, v.align, dynamic=v.dynamic) for v in program.variables if v.space == "shared"
    }
    for instruction in program.instructions:
        form = instruction.form
        if form is None or "shared" not in (form.loads, form.stores):
            continue
        address = flow.symbols.address(instruction.index)
        variable = shared_variable(program, address) if address is not None else None
        if variable is None:
            continue
        spec, line = found[variable], program.line(instruction.index)
        if form.stores == "shared":
            found[variable] = spec = replace(spec, first_store=spec.first_store or line, last_store=line)
        if form.loads == "shared":
            found[variable] = replace(spec, first_load=spec.first_load or line, last_load=line)
    return list(found.values())


def _runs_before(flow: Flow, index: int) -> set[int]:
    """Instructions that can have run when ``index`` does, loops taken into account."""
    blocks, start = flow.cfg.blocks, flow.cfg.block_of(index)
    found = set(range(start.start, index))
    seen: set[int] = set()
    waiting = list(start.predecessors)
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            found.update(range(blocks[number].start, blocks[number].stop))
            waiting.extend(blocks[number].predecessors)
    return found


def descends_from(flow: Flow, spec: LayerSpec, index: int) -> list[int]:
    """The phases whose D values flow into instruction ``index``: its operands' writes, followed back through registers, sorted.

    A value read from memory ends the search there, but for shared arrays, where the stores to the same array are followed on.
    """
    program = flow.program
    phase_of = {i: p.index for p in spec.phases for i in range(p.first, p.last + 1)}
    stores: dict[int, list[int]] = {}
    for instruction in program.instructions:
        if instruction.form is not None and instruction.form.stores == "shared":
            address = flow.symbols.address(instruction.index)
            variable = shared_variable(program, address) if address is not None else None
            if variable is not None:
                stores.setdefault(variable, []).append(instruction.index)
    found: set[int] = set()
    seen = {index}
    waiting = [index]
    while waiting:
        here = waiting.pop()
        instruction = program.instructions[here]
        if here in phase_of and here != index:
            found.add(phase_of[here])
            continue
        reaching = [w for r in instruction.reads for w in flow.defuse.reaching(r, here)]
        if instruction.form is not None and instruction.form.loads == "shared":
            address = flow.symbols.address(here)
            variable = shared_variable(program, address) if address is not None else None
            held = stores.get(variable, []) if variable is not None else []
            before = _runs_before(flow, here) if held else set()
            reaching += [s for s in held if s in before]
        for write in reaching:
            if write >= 0 and write not in seen:
                seen.add(write)
                waiting.append(write)
    return sorted(found)
