"""What a kernel prints, as `run` and `replay` show it."""

from __future__ import annotations

import pytest

TEXT = ", ".join(str(b) for b in b"%d\x1b;\n\0")
KERNEL = f""".version 9.0
.target sm_90
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
.global .b8 text[6] = {{{TEXT}}};
.entry talk(.param .u32 n)
{{
.local .b32 buffer; .reg .b32 %r<5>; .reg .b64 %rd<5>; .reg .pred %p;
mov.u32 %r1, %tid.x; st.local.u32 [buffer], %r1; mov.u64 %rd1, text; mov.u64 %rd2, buffer; cvta.local.u64 %rd2, %rd2;
call (%r2), vprintf, (%rd1, %rd2);
ld.param.u32 %r3, [n]; setp.ge.u32 %p, %r1, %r3; @%p trap;
ret;
}}
"""


@pytest.fixture
def talk(tmp_path):
    path = tmp_path / "talk.ptx"
    path.write_text(KERNEL)
    return path


@pytest.mark.parametrize("engine", ["warp", "numpy"])
def test_run_shows_what_is_printed(verb, talk, engine):
    """Before the result; control characters that a terminal might obey are escaped."""
    options = ("--grid", 1, "--block", 2, "-a", 9, "--engine", engine)
    ended = verb("run", talk, *options)
    assert ended.code == 0 and ended.out.startswith("0\\x1b;\n1\\x1b;\ntalk: ") and ended.err == ""
    ended = verb("run", talk, *options, "--json")
    assert ended.err == "0\\x1b;\n1\\x1b;\n" and ended.json["result"]["output"] == "0\x1b;\n1\x1b;\n"


def test_a_fault_comes_after_what_was_printed(verb, talk):
    ended = verb("run", talk, "--grid", 1, "--block", 2, "-a", 1, "--engine", "numpy")
    assert ended.code == 2 and ended.out == "" and ended.err.startswith("0\\x1b;\n1\\x1b;\nptxgraft: ")
    assert "the kernel stopped itself" in ended.err


def test_replay_shows_it_too(verb, talk, tmp_path):
    recorded = tmp_path / "talk.ptxcap"
    assert verb("run", talk, "--grid", 1, "--block", 1, "-a", 9, "--record", recorded).code == 0
    assert verb("replay", recorded).out.startswith("0\\x1b;\n")


def test_run_takes_a_stack_size(verb, tmp_path):
    path = tmp_path / "deep.ptx"
    path.write_text(
        ".version 9.0\n.target sm_90\n.address_size 64\n.func f(.reg .b32 n) { .reg .pred p; setp.eq.u32 p, n, 0; @p ret; sub.u32 n, n, 1; call f, (n); }\n"
        ".entry deep(.param .u32 n) { .reg .b32 r; ld.param.u32 r, [n]; call f, (r); ret; }\n"
    )
    options = ("--grid", 1, "--block", 1, "-a", 20)
    assert verb("run", path, *options).code == 0
    ended = verb("run", path, *options, "--stack", 256)
    assert ended.code == 2 and "the stack overflows, 8 calls deep" in ended.err and "--stack" in ended.err
