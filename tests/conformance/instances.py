"""The instances of ``Lanes`` behind one face: evaluate many forms on arrays, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxgraft.isa import Form
from ptxgraft.lower.numpy_lanes import DTYPES, NumpyLanes
from ptxgraft.lower.warp_function import WarpFunctions

Job = tuple[Form, list[np.ndarray]]
"""A form and its inputs, arrays of (warps, 32)."""


def flat(result: Any) -> list[Any]:
    """A meaning's results in role order."""
    if isinstance(result, tuple | list):
        return [v for r in result for v in flat(r)]
    return [result]


def numpy_instance(jobs: list[Job], profile: str = "sm_90") -> list[list[np.ndarray]]:
    lanes = NumpyLanes(profile)
    results = []
    for form, inputs in jobs:
        assert form.meaning is not None
        outputs = flat(form.meaning(lanes, *inputs, **form.options))
        results.append([np.broadcast_to(o, inputs[0].shape) for o in outputs])
    return results


def warp_instance(jobs: list[Job], profile: str = "sm_90") -> list[list[np.ndarray]]:
    """Compiled in one go; a job's function is shared by all jobs of its form."""
    functions = WarpFunctions(profile)
    names: dict[tuple[str, int], str] = {}
    for form, inputs in jobs:
        if (form.opcode, len(inputs)) not in names:
            names[form.opcode, len(inputs)] = f"f{len(names)}"
            widths = [_width(a) for a in inputs]
            functions.add(names[form.opcode, len(inputs)], widths, _body(form))
    functions.compile()
    results = []
    for form, inputs in jobs:
        outputs = functions.call(names[form.opcode, len(inputs)], *(a.reshape(-1) for a in inputs))
        results.append([np.broadcast_to(np.asarray(o).reshape(len(inputs[0]), -1), inputs[0].shape) for o in outputs])
    return results


def _width(a: np.ndarray) -> int:
    return next(width for width, dtype in DTYPES.items() if dtype == a.dtype)


def _body(form: Form) -> Callable[..., list[Any]]:
    return lambda lanes, values: flat(form.meaning(lanes, *values, **form.options)) if form.meaning else []


INSTANCES: dict[str, Callable[..., list[list[np.ndarray]]]] = {"numpy": numpy_instance, "warp": warp_instance}
