"""Compiled code against results recorded on an H200: tensor-core primitives, and the approximate functions through the warp instance."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
from test_mma import Primitive

from ptxgraft.isa import form_of
from ptxgraft.isa.numerics import MmaPlan, mma_plan
from ptxgraft.lower.warp_function import WarpFunctions
from ptxgraft.lower.warp_mma import has_primitive

_SPEC = importlib.util.spec_from_file_location("recorded", Path(__file__).parents[1] / "goldens" / "recorded.py")
assert _SPEC is not None and _SPEC.loader is not None
recorded = importlib.util.module_from_spec(_SPEC)
sys.modules["recorded"] = recorded  # its dataclass looks itself up there
_SPEC.loader.exec_module(recorded)


def plan_of(opcode: str) -> MmaPlan:
    form = form_of(opcode)
    assert form is not None
    o = form.options
    types = (o["dt"], o["at"], o["bt"], o["ct"])
    return mma_plan(o["shape"], *types, "sm_90", rounding=o["rounding"], satfinite=bool(o["satfinite"]), bit_op=o["op"])


def test_primitives_give_the_recorded_bits() -> None:
    primitives: dict[str, Primitive] = {}
    compared, wrong = 0, []
    for item in recorded.selected_mma():
        plan = plan_of(item.opcode)
        if not has_primitive(plan):
            continue
        if item.opcode not in primitives:
            primitives[item.opcode] = Primitive(plan)
        got = primitives[item.opcode].run(*item.inputs)
        compared += item.size
        if any((g != w).any() for g, w in zip(got, item.outputs, strict=True)):
            wrong.append(f"{item.opcode} {item.operands}")
    assert not wrong, "\n".join(wrong)
    assert (len(primitives), compared) == (82, 42_560)


def test_approximations_give_the_recorded_bits() -> None:
    sets = list(recorded.selected_scalar())
    functions = WarpFunctions("sm_90")
    for name in dict.fromkeys(item.opcode for item in sets):
        form = form_of(name)
        assert form is not None
        widths = [role.type.width for role in form.roles if role.kind == "in" and role.type is not None]
        functions.add(name.replace(".", "_"), widths, lambda lanes, values, form=form: [form.meaning(lanes, *values, **form.options)])
    functions.compile()
    compared, wrong = 0, []
    for item in sets:
        (want,) = item.outputs
        for row in range(want.shape[0]):
            (got,) = functions.call(item.opcode.replace(".", "_"), *(registers[0][row] for registers in item.inputs))
            compared += 32
            if (np.asarray(got) != want[row]).any():
                wrong.append(f"{item.opcode} {item.operands}")
    assert not wrong, "\n".join(wrong)
    assert compared == 21_760
