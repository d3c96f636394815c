"""What an H200 left in memory, byte for byte, on both engines; and on a GPU, where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from unit_kernels import BODIES, RECORDED, run

WHERE = [
    pytest.param({"engine": "numpy"}, id="numpy"),
    pytest.param({"engine": "warp"}, id="warp"),
    pytest.param({"on": "cuda"}, id="cuda", marks=pytest.mark.device),
]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", list(BODIES))
def test_the_bytes_are_those_of_an_h200(name: str, where: dict[str, str]) -> None:
    recorded = np.load(RECORDED)
    wanted = recorded[f"{name} results"]
    assert wanted.size > 4000
    np.testing.assert_array_equal(run(name, recorded, **where), wanted)
