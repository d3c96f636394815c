"""The global memory of each block, which no launch has: a program that asks for it is refused, one that does not runs."""

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import UnsupportedError

TEXT = """.version 9.5
.target sm_107
.address_size 64
.visible .entry k(.param .u64 k_param_0) .minperctamemory 1024
{
.reg .b64 %d<3>; .reg .b32 %r<3>;
ld.param.u64 %d1, [k_param_0];
mov.u32 %r1, %nctaid.x;
st.global.u32 [%d1], %r1;
ret;
}
"""


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_a_program_that_asks_for_it_is_refused(engine: str) -> None:
    for name, asks in (("size", "mov.u32 %r1, %perctamemorysize;"), ("offset", "mov.u64 %d2, %perctamemoryoffset;")):
        kernel = ptxgraft.load(TEXT.replace("mov.u32 %r1, %nctaid.x;", asks)).kernel("k", engine=engine)
        with pytest.raises(UnsupportedError, match=f"reads %perctamemory{name}") as caught:
            kernel.launch(1, 32, [np.zeros(1, np.uint32)])
        assert caught.value.place is not None and caught.value.place.line == 8


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_the_directive_alone_changes_nothing(engine: str) -> None:
    data = np.zeros(1, np.uint32)
    ptxgraft.load(TEXT).kernel("k", engine=engine).launch(3, 32, [data])
    assert data[0] == 3
