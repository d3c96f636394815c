"""What stands between phases: instruction counts and the idioms they make up.

Invariant: an idiom is named only when all of its parts are there; counts always add up to the number of instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ptxgraft.flow import Flow
from ptxgraft.isa import Form, Imm, Instruction
from ptxgraft.spec.model import Epilogue

KINDS = {
    "integer": "integer", "extended": "integer", "bits": "integer", "logic": "integer", "video": "integer", "float": "float", "half": "half",
    "approximate": "approximation", "convert": "conversion", "move": "move", "compare": "compare", "warp": "shuffle", "barrier": "barrier",
    "control": "control", "texture": "texture", "address": "integer", "atomic": "atomic", "tensor": "matrix move",
}  # fmt: skip
"""Family file to the kind that notes show."""


def kind_of(form: Form | None) -> str:
    """What kind of work an instruction of this form is, for counting."""
    if form is None:
        return "unknown"
    if form.family in ("memory", "atomic"):
        space = form.stores or form.loads
        return f"{'store' if form.stores and not form.loads else 'load' if not form.stores else 'atomic'} {space}".strip()
    if form.family == "texture":
        return "surface store" if form.root == "sust" else "surface load" if form.root == "suld" else "texture"
    return KINDS.get(form.family, form.family)


def describe(flow: Flow, first: int, stop: int) -> Epilogue:
    """The note on instructions ``first`` .. ``stop - 1``."""
    body = flow.program.instructions[first:stop]
    tally = Counter(id(i.form) for i in body)
    forms = {id(i.form): i.form for i in body}
    kinds: Counter[str] = Counter()
    for key, number in tally.items():
        kinds[kind_of(forms[key])] += number
    return Epilogue(len(body), dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))), _idioms(flow, body, tally, forms))


def _idioms(flow: Flow, body: Sequence[Instruction], tally: Counter[int], forms: dict[int, Form | None]) -> list[str]:
    """``tally`` counts the instructions of each form, by the keys of ``forms``."""
    opcodes: Counter[str] = Counter()
    roots: Counter[str] = Counter()
    for key, number in tally.items():
        form = forms[key]
        if form is not None:
            opcodes[form.opcode] += number
            roots[form.root] += number

    def count(root: str, *parts: str) -> int:
        return sum(n for opcode, n in opcodes.items() if opcode.split(".")[0] == root and all(p in opcode.split(".") for p in parts))

    found: list[str] = []
    reductions = _shuffle_reductions(flow, body, roots["shfl"])
    reciprocals = count("rcp") + roots["div"]
    products = {key for key, form in forms.items() if form is not None and _multiplies(form)}
    squares = sum(1 for i in body if id(i.form) in products and _is_square(i)) if products else 0
    if (count("rsqrt") or (roots["sqrt"] and reciprocals)) and squares:
        found.append(f"row RMS norm ({squares} squares, {count('rsqrt') or roots['sqrt']} root)")
    exponential = _exponential(roots)
    if exponential and reciprocals and reductions:
        found.append(f"softmax with {exponential} exponential")
    elif roots["ex2"]:
        found.append(f"{'logistic (ex2 and a reciprocal)' if reciprocals else 'ex2 exponential'} ({roots['ex2']})")
    clamps = min(roots["min"], roots["max"])
    if clamps and not (exponential and reciprocals and reductions):
        cubic = roots["mul"] + roots["fma"] >= 2 * clamps
        found.append(f"activation: clamped{' cubic' if cubic else ''} ({clamps} clamps)")
    if roots["tanh"]:
        found.append(f"activation: tanh ({roots['tanh']})")
    for target in ("e4m3x2", "e5m2x2"):
        if count("cvt", target):
            found.append(f"requantisation to {target[:-2]} ({2 * count('cvt', target)} values a lane)")
    to_half = sum(
        n
        for opcode, n in opcodes.items()
        if opcode.startswith("cvt.") and opcode.split(".")[-2] in ("f16x2", "bf16x2") and opcode.endswith("f32")
    )
    if to_half:
        found.append(f"conversion to f16 ({2 * to_half} values a lane)")
    stored = sum(n * _stored_bytes(form) for key, n in tally.items() if (form := forms[key]) is not None and form.stores == "shared")
    if stored:
        found.append(f"staging to shared memory ({stored} bytes a lane)")
    if reductions:
        found.append(reductions)
    if roots["movmatrix"]:
        found.append(f"transposition by movmatrix ({roots['movmatrix']})")
    if roots["sust"]:
        found.append(f"surface epilogue ({roots['sust']} stores a lane)")
    return found


def _exponential(roots: Counter[str]) -> str:
    if roots["ex2"]:
        return "ex2"
    # A polynomial in Horner's form: products of three factors of one value with maxima around them.
    multiply = sum(n for r, n in roots.items() if r in ("fma", "mul", "mad"))
    if roots["max"] and (roots["rcp"] or roots["div"]) and multiply >= 3 * max(1, roots["rcp"] + roots["div"]):
        return "cubic"
    return ""


def _multiplies(form: Form) -> bool:
    return form.root in ("mul", "fma") and any(t in form.opcode for t in ("f16", "f32", "bf16"))


def _is_square(instruction: Instruction) -> bool:
    """Is this product one of a value with itself?"""
    a, b = instruction.operands[1], instruction.operands[2]
    return a == b and not isinstance(a, Imm)


def _shuffle_reductions(flow: Flow, body: Sequence[Instruction], shuffles: int) -> str:
    if not shuffles:
        return ""
    modes: Counter[str] = Counter()
    distances: dict[str, set[int]] = {}
    for instruction in body:
        form = instruction.form
        if form is not None and form.root == "shfl":
            mode = form.slots.get("mode", "")
            modes[mode] += 1
            role, operand = next((r, o) for r, o in zip(form.roles, instruction.operands, strict=True) if r.name == "b")
            distance = flow.symbols.operand(operand, role.type, instruction.index) if operand is not None else None
            if distance is not None and distance.is_constant:
                distances.setdefault(mode, set()).add(distance.constant)
    parts = [f"{n} {mode} over {', '.join(map(str, sorted(distances.get(mode, ())))) or 'unknown distances'}" for mode, n in modes.items()]
    return f"shuffle reductions ({'; '.join(parts)})" if parts else ""


def _stored_bytes(form: Form) -> int:
    role = next((r for r in form.roles if r.kind == "in" and r.type is not None), None)
    return 0 if role is None or role.type is None else role.type.bytes * role.count
