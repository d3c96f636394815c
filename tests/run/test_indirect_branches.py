"""``brx.idx``: each lane goes where its own index says, on both engines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxgraft
from ptxgraft.errors import KernelFault

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
ENGINES = ["numpy", "warp"]


def kernel(engine: str, body: str) -> ptxgraft.Kernel:
    """Threads have their number in %r1, their word of ``data`` in %r2; %r9 goes to their word of ``out``."""
    text = f"""{HEAD}.entry k(.param .u64 out, .param .u64 data)
{{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [data];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
ld.global.u32 %r2, [%rd2]; mov.u32 %r9, 0;
{body}
st.global.u32 [%rd1], %r9;
ret;
}}
"""
    return ptxgraft.load(text).kernel("k", engine=engine)


def run(engine: str, body: str, data: list[int]) -> list[int]:
    out = np.zeros(len(data), np.uint32)
    kernel(engine, body).launch(1, len(data), [out, np.array(data, np.uint32)])
    return out.tolist()


SWITCH = """
list: .branchtargets A, B, C, B;
{guard} brx.idx %r2, list;
add.u32 %r9, %r9, 1000;
A: add.u32 %r9, %r9, 1;
bra END;
B: add.u32 %r9, %r9, 10;
C: add.u32 %r9, %r9, 100;
END: add.u32 %r9, %r9, %r1;
"""
WORTH = [1, 110, 100, 110]


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20, deadline=None)
@given(data=st.lists(st.integers(0, 3), min_size=1, max_size=70))
def test_lanes_go_their_own_ways(engine: str, data: list[int]) -> None:
    assert run(engine, SWITCH.format(guard=""), data) == [WORTH[d] + i for i, d in enumerate(data)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_guard_keeps_lanes_on_the_line(engine: str) -> None:
    data = [i % 4 for i in range(40)]
    body = "setp.lt.u32 %p1, %r1, 20;\n" + SWITCH.format(guard="@%p1")
    assert run(engine, body, data) == [(WORTH[d] if i < 20 else 1001) + i for i, d in enumerate(data)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_machine_of_states(engine: str) -> None:
    """A loop around the branch: lanes leave it at different times."""
    body = """
states: .branchtargets EVEN, ODD, STOP;
NEXT: setp.le.u32 %p1, %r2, 1;
and.b32 %r3, %r2, 1; selp.u32 %r3, 2, %r3, %p1;
brx.idx.uni %r3, states;
EVEN: shr.u32 %r2, %r2, 1; add.u32 %r9, %r9, 1; bra NEXT;
ODD: mad.lo.u32 %r2, %r2, 3, 1; add.u32 %r9, %r9, 1; bra NEXT;
STOP:
"""

    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
        return count

    assert run(engine, body.replace(".uni", ""), list(range(1, 65))) == [steps(n) for n in range(1, 65)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", ["2", "%rd3"])
def test_an_index_that_is_no_word_register(engine: str, index: str) -> None:
    body = f"list: .branchtargets A, B, C;\nmov.u64 %rd3, 0x500000002;\nbrx.idx {index}, list;\nA: add.u32 %r9, %r9, 1;\nB: add.u32 %r9, %r9, 2;\nC:"
    assert run(engine, body, [7]) == [0]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_index_out_of_range_is_a_fault(engine: str) -> None:
    data = np.array([0, 1, 2, 3] * 9 + [4, 5], np.uint32)
    with pytest.raises(KernelFault) as caught:
        kernel(engine, SWITCH.format(guard="")).launch(1, data.size, [np.zeros(data.size, np.uint32), data])
    fault = caught.value
    assert (
        fault.message
        == "there is no branch target 4, the list has 4, numbered from 0: `brx.idx %r2, list;` (block (0, 0, 0), warp 1, lane 4)"
    )
    assert fault.place is not None and fault.place.line == 12
