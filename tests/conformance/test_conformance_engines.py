"""The two CPU instances of ``Lanes`` give the same bits for every form, on random and on hostile operands."""

from __future__ import annotations

import numpy as np
import pytest
from forms import forms, operands
from instances import numpy_instance, warp_instance

WARPS = 6
FORMS = forms()
ROOTS = sorted({form.root for form in FORMS})


@pytest.mark.parametrize("part", range(4))
def test_same_bits(part: int) -> None:
    jobs = [(form, operands(form, WARPS)) for form in FORMS if ROOTS.index(form.root) % 4 == part]
    assert jobs
    wrong = []
    for (form, inputs), reference, compiled in zip(jobs, numpy_instance(jobs), warp_instance(jobs), strict=True):
        for i, (a, b) in enumerate(zip(reference, compiled, strict=True)):
            different = np.flatnonzero(a.reshape(-1) != b.reshape(-1))
            if len(different):
                lane = different[0]
                given = [hex(int(v.reshape(-1)[lane])) for v in inputs]
                wrong.append(
                    f"{form.opcode} output {i}: {len(different)} lanes; {given}: numpy {a.reshape(-1)[lane]:#x}, warp {b.reshape(-1)[lane]:#x}"
                )
    assert not wrong, f"{len(wrong)} of {len(jobs)} forms\n" + "\n".join(wrong[:40])


def test_every_root_is_there() -> None:
    assert len(FORMS) > 1000
    assert {"add", "setp", "cvt", "prmt", "fma", "lop3", "bfe"} <= set(ROOTS)
