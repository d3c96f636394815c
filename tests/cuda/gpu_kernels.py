"""Small kernels for the GPU's tests, as PTX."""

from __future__ import annotations

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def entry(parameters: str, body: str, variables: str = "", name: str = "k") -> str:
    """A module with one kernel."""
    registers = ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .f32 %f<9>;"
    return f"{HEAD}{variables}\n.visible .entry {name}({parameters})\n{{\n{registers}\n{body}\nret;\n}}\n"


INDEX = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;"

SQUARES = entry(
    ".param .u64 out, .param .u32 n",
    f"""{INDEX}
ld.param.u64 %rd1, [out]; ld.param.u32 %r5, [n];
setp.ge.u32 %p1, %r4, %r5;
@%p1 bra DONE;
mul.lo.u32 %r6, %r4, %r4;
mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r6;
DONE:""",
)
"""out[i] = i * i for i < n."""

ADDRESS = entry(".param .u64 out", "ld.param.u64 %rd1, [out]; st.global.u64 [%rd1+8], %rd1;")
"""Stores the address of its buffer at byte 8 of it."""

FOLLOW = entry(
    ".param .u64 head",
    "ld.param.u64 %rd1, [head]; ld.global.u64 %rd2, [%rd1]; ld.global.u32 %r1, [%rd2]; add.u32 %r2, %r1, 1; st.global.u32 [%rd2], %r2;",
)
"""Adds one to the word that the pointer in its buffer points to."""

ENDLESS = entry(".param .u64 out", "ld.param.u64 %rd1, [out]; L: ld.volatile.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 77; @%p1 bra L;")
"""Waits for a 77 that never comes."""

WILD = entry(".param .u64 out", "ld.param.u64 %rd1, [out]; mov.u64 %rd2, 0x123450000000; st.global.u32 [%rd2], 1;")
"""Stores where nothing is."""

TRAP = entry(".param .u64 out", "trap;")

COUNTER = entry(
    ".param .u64 out",
    """mov.u64 %rd2, counter; ld.param.u64 %rd1, [out];
atom.global.add.u32 %r1, [%rd2], 1; st.global.u32 [%rd1], %r1;
mov.u64 %rd3, table; ld.global.u64 %rd4, [%rd3+8]; ld.global.u32 %r2, [%rd4]; st.global.u32 [%rd1+4], %r2;
mov.u64 %rd5, scale; ld.const.u32 %r3, [%rd5]; st.global.u32 [%rd1+8], %r3;""",
    ".visible .global .align 4 .u32 counter = 5;\n.visible .global .align 8 .u64 table[2] = {7, generic(counter)};\n.visible .const .align 4 .u32 scale = 31;",
)
"""out = [counter before, counter through a pointer that the module initialises, a constant]; counter goes up."""

SHARED = entry(
    ".param .u64 out, .param .u32 last",
    """mov.u32 %r3, %tid.x; ld.param.u32 %r4, [last]; ld.param.u64 %rd1, [out];
mov.u32 %r5, memory; add.u32 %r6, %r5, %r4;
setp.eq.u32 %p1, %r3, 0;
@%p1 st.shared.u32 [%r6], 4711;
bar.sync 0;
ld.shared.u32 %r7, [%r6]; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7;""",
    ".extern .shared .align 16 .b8 memory[];",
)
"""Passes a number through the word at byte ``last`` of dynamic shared memory."""

PRINTS = entry(
    ".param .u32 n",
    """.local .align 8 .b8 buffer[8];
ld.param.u32 %r1, [n]; st.local.u32 [buffer], %r1;
mov.u64 %rd1, text; cvta.global.u64 %rd2, %rd1; mov.u64 %rd3, buffer; cvta.local.u64 %rd4, %rd3;
{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd2; st.param.b64 [b], %rd4; call.uni (r), vprintf, (a, b); }""",
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.global .align 1 .b8 text[9] = {110, 32, 105, 115, 32, 37, 100, 10, 0};",
)
"""Prints ``n is %d``."""

IMAGES = entry(
    ".param .u64 texture, .param .u64 surface, .param .u64 one",
    """mov.u32 %r3, %tid.x; ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [surface];
mov.u32 %r4, %ctaid.x; cvt.rn.f32.u32 %f1, %r3; cvt.rn.f32.u32 %f2, %r4;
tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];
add.f32 %f3, %f3, %f3;
shl.b32 %r5, %r3, 2;
mov.b32 %r6, %f3;
sust.b.2d.b32.trap [%rd2, {%r5, %r4}], {%r6};""",
)
"""surface[y, x] = 2 * texture[y, x], one thread a texel; the last argument is not looked at."""


def fetches(opcode: str, coordinates: str) -> str:
    """A module that stores what one ``tex`` gives for each thread, four words each."""
    return entry(
        ".param .u64 texture, .param .u64 out",
        f"""mov.u32 %r3, %tid.x; ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [out];
cvt.rn.f32.u32 %f1, %r3; mul.f32 %f1, %f1, 0f3D800000; mov.f32 %f2, 0f3E99999A; mov.f32 %f7, 0f3F19999A; and.b32 %r4, %r3, 1;
{opcode} {{%f3, %f4, %f5, %f6}}, [%rd1, {coordinates};
mul.wide.u32 %rd3, %r3, 16; add.u64 %rd4, %rd2, %rd3; st.global.v4.f32 [%rd4], {{%f3, %f4, %f5, %f6}};""",
    )


WORKSPACE = entry(
    ".param .u64 out",
    """mov.b32 %r1, %envreg1; mov.b32 %r2, %envreg2; mov.b64 %rd2, {%r2, %r1}; ld.param.u64 %rd1, [out];
setp.ne.u64 %p1, %rd2, 0; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%rd1], %r3;""",
)
"""Stores whether the grid has a workspace, as grids of cooperative launches have."""

CLUSTER = entry(".param .u64 out", "ld.param.u64 %rd1, [out]; mov.u32 %r1, %cluster_nctaid.x; st.global.u32 [%rd1], %r1;").replace(
    "sm_80", "sm_90"
)
"""Stores how many blocks a cluster has along x."""
