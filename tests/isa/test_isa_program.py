"""Binding: names to numbers, calls put inline, layout of memory, and errors that say where."""

from __future__ import annotations

import pytest

from ptxgraft import data
from ptxgraft.errors import SourceError, SourceErrors, UsageError
from ptxgraft.isa import Address, Imm, Program, Reg, Var, Vector, bind, parameter_layout
from ptxgraft.isa.binding import Binder
from ptxgraft.text import Document

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def program(text: str, entry: str = "k") -> Program:
    return bind(Document.parse(HEAD + text, "test.ptx"), entry)


def body(text: str, params: str = "", before: str = "") -> Program:
    return program(
        f"{before}.visible .entry k({params})\n{{\n.reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n{text}\n}}\n"
    )


def names(bound: Program, numbers: tuple[int, ...]) -> list[str]:
    return [bound.registers[n].name for n in numbers]


def test_reads_and_writes() -> None:
    bound = body("@!%p1 add.u32 %r1, %r2, 5;\nsetp.eq.u32 %p2|%p3, %r1, 0;\nst.global.v2.u32 [%rd1+8], {%r1, %r2};")
    add, setp, store, end = bound.instructions
    assert (names(bound, add.reads), names(bound, add.writes)) == (["%r2", "%p1"], ["%r1"])
    assert add.guard is not None and add.guard.negated
    assert names(bound, setp.writes) == ["%p2", "%p3"]
    assert (names(bound, store.reads), store.writes) == (["%rd1", "%r1", "%r2"], ())
    assert store.operands[0] == Address(Reg(store.reads[0]), 8) and isinstance(store.operands[1], Vector)
    assert end.form is not None and end.form.control == "exit"
    assert bound.line(0) == 11 and bound.source(1).startswith("setp.eq.u32")


def test_registers_are_made_when_used() -> None:
    bound = body("mov.u32 %r7, %r8;")
    assert [r.name for r in bound.registers] == ["%r7", "%r8"]


def test_ranges_whose_base_ends_in_digits() -> None:
    bound = program(".entry k()\n{\n.reg .b32 %r1<5>;\n.reg .b64 %r<3>;\nmov.b32 %r10, %r14;\nmov.b64 %r1, %r2;\n}\n")
    assert {r.name: r.type.name for r in bound.registers} == {"%r10": "b32", "%r14": "b32", "%r1": "b64", "%r2": "b64"}
    with pytest.raises(SourceError, match="'%r15' is neither"):
        program(".entry k()\n{\n.reg .b32 %r1<5>;\nmov.b32 %r10, %r15;\n}\n")


def test_nested_scopes_have_their_own_names() -> None:
    bound = body("{ .reg .b32 t; mov.b32 t, %r1; { .reg .b32 t; mov.b32 t, 7; } add.u32 %r2, t, 1; }")
    outer, inner, add, _ = bound.instructions
    assert outer.writes != inner.writes and add.reads == outer.writes
    assert names(bound, inner.writes) == ["t"]


def test_labels_belong_to_scopes() -> None:
    bound = body(
        "{ L: add.u32 %r1, %r1, 1; @%p1 bra L; }\n{ L: add.u32 %r2, %r2, 1; @%p1 bra L; bra OUT; }\nmov.u32 %r3, 1;\nOUT: mov.u32 %r4, 1;"
    )
    assert [i.targets for i in bound.instructions] == [(), (0,), (), (2,), (6,), (), (), ()]
    assert bound.labels == {"L": 0, "OUT": 6}


def test_a_branch_cannot_reach_into_a_scope() -> None:
    with pytest.raises(SourceError, match=r"test\.ptx:11:1: label 'IN' is not in reach here"):
        body("bra IN;\n{ IN: mov.u32 %r1, 1; }")


def test_branch_targets() -> None:
    bound = body("brx.idx %r1, list;\nA: mov.u32 %r2, 1;\nB: mov.u32 %r3, 1;\nlist: .branchtargets B, A, B;")
    assert bound.instructions[0].targets == (2, 1, 2)
    with pytest.raises(SourceError, match="'A' is no list of branch targets"):
        body("brx.idx %r1, A;\nA: mov.u32 %r2, 1;")


def test_parameters_and_variables() -> None:
    bound = body(
        "mov.u32 %r1, module_shared;\nmov.u64 %rd1, table;\nmov.u32 %r2, pool;\nld.param.u32 %r3, [b];\nld.global.u32 %r4, [table+4];",
        params=".param .u64 .ptr .align 1 a, .param .u32 b, .param .align 16 .b8 c[20], .param .u8 d",
        before=".global .u32 table[2] = {1, 2};\n.extern .shared .align 32 .b8 pool[];\n.shared .u32 module_shared;\n",
    )
    assert [(p.name, p.offset, p.size) for p in bound.params] == [("a", 0, 8), ("b", 8, 4), ("c", 16, 20), ("d", 36, 1)]
    assert bound.param_bytes == 37
    operands = [i.operands[1] for i in bound.instructions[:5]]
    variables = [o.base if isinstance(o, Address) else o for o in operands]
    spaces = [bound.variables[v.id].space for v in variables if isinstance(v, Var)]
    assert spaces == ["shared", "global", "shared", "param", "global"]


def test_shared_and_local_layout() -> None:
    bound = program(
        ".extern .shared .align 32 .b8 pool[];\n.entry k()\n{\n.reg .b32 %r<4>;\n.shared .u8 one;\n.shared .align 8 .b8 eight[12];\n.local .u64 l;\n"
        "mov.u32 %r1, pool;\nmov.u32 %r2, eight;\nmov.u32 %r3, one;\n}\n"
    )
    place = {v.name: (v.space, v.offset, v.size) for v in bound.variables}
    assert place["one"] == ("shared", 0, 1) and place["eight"] == ("shared", 8, 12) and place["l"] == ("local", 0, 8)
    # The unsized array begins behind all others, aligned as the segment is.
    assert (bound.shared_bytes, bound.shared_align, place["pool"][1]) == (32, 32, 32)
    assert bound.local_bytes == 16


CALLEE = """.func (.param .b32 out) twice(.param .b32 in)
{
.reg .b32 %r<3>;
.shared .b32 kept;
ld.param.b32 %r1, [in];
setp_free: add.u32 %r2, %r1, %r1;
st.shared.b32 [kept], %r2;
st.param.b32 [out], %r2;
ret;
}
.func (.reg .b32 d) plus(.reg .b32 a, .reg .b32 b)
{
add.u32 d, a, b;
ret;
}
"""


def test_calls_are_inlined() -> None:
    call = "{ .param .b32 a; .param .b32 o; st.param.b32 [a], %r1; call (o), twice, (a); ld.param.b32 %r2, [o]; }"
    bound = body(f"{call}\n@%p1 call (%r4), plus, (%r2, 3);\n{call}", before=CALLEE)
    opcodes = [i.form.opcode for i in bound.instructions if i.form]
    once = ["st.local.b32", "ld.local.b32", "add.u32", "st.shared.b32", "st.local.b32", "bra", "ld.local.b32"]
    assert opcodes == [*once, "bra", "mov.b32", "mov.b32", "add.u32", "bra", "mov.b32", *once, "exit"]
    # The callee's registers are fresh at each call, its shared variable is one and the same.
    adds = [i for i in bound.instructions if i.form and i.form.opcode == "add.u32"]
    assert adds[0].writes != adds[2].writes and names(bound, adds[0].writes) == names(bound, adds[2].writes) == ["%r2"]
    assert sum(v.name == "kept" for v in bound.variables) == 1
    skip = bound.instructions[7]
    assert skip.guard is not None and skip.guard.negated and skip.targets == (13,)
    # A callee's return goes behind its body.
    assert bound.instructions[5].targets == (6,)
    assert bound.registers[adds[0].writes[0]].inline == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("call (%r1), plus, (%r2);", SourceError, "'plus' has 2 arguments, the call gives 1"),
        ("call plus, (%r2, %r2);", SourceError, "'plus' has 1 results, the call gives 0"),
        ("call (%r1), nowhere, (%r2);", SourceError, "function 'nowhere' is not declared"),
        ("call (%r1), %rd1, (%r2), proto;", SourceError, "'proto' is neither a prototype nor a list of functions"),
        ("call (%r1), %rd1, (%r2);", SourceError, "an indirect call needs a prototype or a list of functions"),
        (
            "p: .callprototype (.reg .b32 _) _ (.reg .b32 _);\ncall (%r1), %rd1, (%r2, %r3), p;",
            SourceError,
            "'p' has 1 arguments, the call gives 2",
        ),
        ("call [%rd1], (%r2);", SourceError, "a call needs the name of a function, or a register that holds its address"),
        ("@%p1 call again, (5);", SourceError, "'again' has 0 arguments, the call gives 1"),
    ],
)
def test_calls_refused(call: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        body(call, before=CALLEE + ".func again() { call again; ret; }\n")


def test_a_recursive_function_is_bound_once() -> None:
    again = ".func again(.reg .b32 n)\n{\n.reg .pred p;\nsetp.eq.u32 p, n, 0;\n@p ret;\nsub.u32 n, n, 1;\ncall again, (n);\nret;\n}\n"
    bound = body("call again, (%r1);\nL: call again, (%r2);\nadd.u32 %r3, %r1, %r2;", before=again)
    assert [i.statement.opcode for i in bound.instructions].count("setp.eq.u32") == 1
    # It stands before the entry, which begins with a jump over it and ends the program.
    jump = next(i for i in bound.instructions if i.form is not None and i.form.opcode == "bra")
    assert jump.targets[0] > jump.index + 1 and bound.instructions[-1].form is not None and bound.instructions[-1].form.opcode == "exit"
    assert [i.index for i in bound.instructions] == list(range(len(bound.instructions)))
    # Both calls of the entry and its own return to the places behind them.
    returns = [i for i in bound.instructions if i.form is not None and i.form.control == "indirect-branch"]
    assert len(returns) == 3 and len({i.targets for i in returns}) == 1 and len(returns[0].targets) == 3
    calls = [i for i in bound.instructions if i.statement.opcode == "call" and i.form is not None and i.form.control == "branch"]
    assert [c.index + 1 for c in calls] == list(returns[0].targets)
    assert bound.stack_need is None and calls[1].index < bound.labels["L"] < calls[2].index


def test_the_stack_that_calls_through_pointers_need_is_known() -> None:
    leaf = ".func leaf(.param .b64 a)\n{\n.local .b32 mine[30];\nret;\n}\n.func mid(.param .b32 a)\n{\n.reg .b64 q;\nmov.b64 q, leaf;\np: .callprototype () _ (.param .b64 _);\n"
    leaf += ".param .b64 x;\nst.param.b64 [x], 5;\ncall q, (x), p;\nret;\n}\n"
    bound = body("mov.u64 %rd1, mid;\np: .callprototype () _ (.param .b32 _);\ncall %rd1, (%r1), p;", before=leaf)
    # Header, parameter and locals of each: 16 + 8 + 120 and 16 + 4 + (aligned) 8.
    assert bound.stack_need == 144 + 32
    assert bound.local_bytes == 0


def test_an_extern_function_stays_a_call() -> None:
    bound = body("call (%r1), outside, (%r2, %r3);", before=".extern .func (.param .b32 o) outside(.param .b32 a, .param .b32 b);\n")
    call = bound.instructions[0]
    assert call.callee == "outside"
    assert (names(bound, call.reads), names(bound, call.writes)) == (["%r2", "%r3"], ["%r1"])


def test_carry_is_one_register() -> None:
    bound = body("add.cc.u32 %r1, %r2, %r3;\naddc.cc.u32 %r4, %r5, %r6;\naddc.u32 %r7, %r8, 0;")
    first, second, third, _ = bound.instructions
    (carry,) = set(first.writes) & set(second.reads)
    assert bound.registers[carry].name == ".cc" and bound.registers[carry].type.name == "pred"
    assert carry in second.writes and carry in third.reads and carry not in third.writes
    assert len(first.operands) == 4


def test_unknown_instructions_are_kept() -> None:
    bound = body("frobnicate.sync.b32 %r2, %r1, {};\nfrob [%rd1], %r3;")
    first, second, _ = bound.instructions
    assert bound.unknown == [first, second]
    assert (names(bound, first.writes), names(bound, first.reads)) == (["%r2"], ["%r1"])
    assert (second.writes, names(bound, second.reads)) == ((), ["%rd1", "%r3"])


def test_parts_of_registers_count_as_registers() -> None:
    bound = body("vmad.u32.u32.s32.sat %r1, %r2.b0, -%r3.h1, %r8;\nvadd4.u32.u32.u32.add %r4, %r5, %r6, %r7;\nmystery %r1, %r2.b1;")
    first, second, third, _ = bound.instructions
    assert first.form is not None and first.form.parts == {"a": "b0", "b": "-h1"}
    assert all(isinstance(o, Reg) for o in first.operands)
    assert (names(bound, first.writes), names(bound, first.reads)) == (["%r1"], ["%r2", "%r3", "%r8"])
    assert names(bound, second.reads) == ["%r5", "%r6", "%r7"]
    assert third.form is None and names(bound, third.reads) == ["%r2"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("add.u32 %r1, %r2;", "add.u32 needs 3 operands, found 2"),
        ("add.u32 %r1, %r2, %r3, %r4;", "add.u32 takes at most 3 operands, found 4"),
        ("add.u32 %r1, %r2, %r99;", "'%r99' is neither a declared register nor a special register"),
        ("add.u32 %r1, %r2, other;", "'other' is not declared"),
        ("add.u32 5, %r1, %r2;", "operand d of add.u32 must be a register"),
        ("add.u32 %r1, [%rd1], %r2;", "operand a of add.u32 must be a value, not something in brackets"),
        ("add.u64 %rd1, %rd2, %r2;", "operand b of add.u64 has 64 bits, its register has 32"),
        ("add.u32 %r1, %p1, %p2|%p3;", "cannot read operand|neither a declared register"),
        ("selp.b32 %r1, %r2, %r3, %r4;", "operand c of selp.b32 must be a predicate, not a register of type b32"),
        ("add.u32 %r1, %r2, %p1;", "operand b of add.u32 must be of type u32, not a register of type pred"),
        ("ld.global.b32 %r1, [%p1];", "operand a of ld.global.b32 is an address of 32 or 64 bits, its register has 1"),
        ("@%r1 add.u32 %r1, %r2, 1;", "guard '%r1' is no predicate: its register's type is b32"),
        ("ld.global.u32 %r1, %rd1;", "operand a of ld.global.u32 must be an address in brackets"),
        ("ld.global.u32 %r1, [nowhere];", "'nowhere' is not declared"),
        ("ld.global.v4.u32 {%r1, %r2}, [%rd1];", "has 4 elements, found 2"),
        ("ld.global.v4.u32 %r1, [%rd1];", "must be a vector of 4 elements in braces"),
        ("mov.b32 %r1, {%h1, %r2};", "has 32 bits, the registers in braces have 48"),
        ("setp.eq.u32 %p1|%p2|%p3, %r1, 0;", "cannot read operand|neither a declared register"),
        ("selp.b32 %r1|%r2, %r1, %r2, %p1;", "neither a declared register|no second result"),
        ("setp.eq.f16x2 %p1, %r1, %r2;", r"setp.eq.f16x2 has two results, written p\|q"),
        ("mov.b32 %r1, 1.5;", "1.5 cannot be an operand of type b32"),
        ("bra nowhere;", "label 'nowhere' is not in reach here"),
        ("bra %r1;", "bra needs a label"),
        ("add.u32 %r1, %r2.b0, 1;", "operand a of add.u32 must be a whole register"),
        ("vadd.u32.u32.u32 %r1, %r2.h2, 1;", "operand a of vadd.u32.u32.u32 must be a whole register, not its part 'h2'"),
        ("vadd.u32.u32.u32 %r1.b0, %r2, 1;", "operand d of vadd.u32.u32.u32 must be a whole register, not its part 'b0'"),
        ("@5 mov.u32 %r1, 1;", "guard '5' is not a register"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1];", "must be a handle and coordinates in brackets"),
    ],
)
def test_errors_say_where(statement: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        body(f"mov.u32 %r1, 1;\n{statement}")
    place = caught.value.place
    assert place is not None and (place.file, place.line) == ("test.ptx", 12)


def test_all_errors_come_out_together() -> None:
    with pytest.raises(SourceErrors) as caught:
        body("add.u32 %r1, %r2;\nmov.u32 %r1, 5;\nbra nowhere;\nL: mov.u32 %r99, 1;\nL: ret;")
    assert sorted(e.place.line for e in caught.value.errors if e.place) == [11, 13, 14, 15]


def test_things_declared_twice() -> None:
    with pytest.raises(SourceError, match="register '%r' is declared twice in this scope"):
        body(".reg .b64 %r<4>;")
    with pytest.raises(SourceError, match="label 'L' stands twice in this scope"):
        body("L: mov.u32 %r1, 1;\nL: ret;")


def test_vector_registers_are_their_elements() -> None:
    bound = program(
        ".entry k(.param .u64 p)\n{\n.reg .v4 .f32 v, %w<3>; .reg .v2 .b32 pair; .reg .b64 a;\nld.param.u64 a, [p];\n"
        "ld.global.v4.f32 v, [a];\nadd.f32 %w2.w, v.x, v.a;\n{ .reg .f32 v; mov.f32 v, %w2.w; }\nmov.b64 a, pair;\n"
        "st.global.v4.f32 [a], {v.y, v.g, %w2.w, v.z};\nret;\n}\n"
    )
    names = [[bound.registers[r].name for r in (*i.writes, *i.reads)] for i in bound.instructions[1:6]]
    assert names == [
        ["v.x", "v.y", "v.z", "v.w", "a"],
        ["%w2.w", "v.x", "v.w"],
        ["v", "%w2.w"],
        ["a", "pair.x", "pair.y"],
        ["a", "v.y", "v.y", "%w2.w", "v.z"],
    ]
    assert {r.name: r.type.name for r in bound.registers}["pair.y"] == "b32"


@pytest.mark.parametrize(
    ("operand", "message"), [("pair.z", "no vector register|not declared"), ("%w3.x", "neither"), ("v.q", "not declared")]
)
def test_elements_that_vector_registers_do_not_have(operand: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        program(f".entry k()\n{{\n.reg .v4 .f32 v, %w<3>; .reg .v2 .b32 pair; .reg .f32 f;\nmov.f32 f, {operand};\nret;\n}}\n")


def test_parameters_may_have_a_percent_sign() -> None:
    bound = program(".entry k(.param.u64 %in)\n{\n.reg.u64 %a;\nld.param.u64 %a, [%in];\nret;\n}\n")
    assert [v.name for v in bound.params] == ["%in"] and bound.instructions[0].writes


def test_an_unknown_entry() -> None:
    with pytest.raises(UsageError):
        program(".entry foo_bar() { ret; }\n", "foo")


def test_entries_that_share_a_prefix() -> None:
    bound = program(".entry k_more() { ret; }\n.entry k() { exit; }\n")
    assert bound.name == "k" and bound.instructions[0].statement.opcode == "exit"


def test_literals_keep_their_bits() -> None:
    bound = body("mov.b32 %r1, 0f44400000;\nmov.f32 %f1, -1.5;\nadd.u32 %r2, %r1, -(1 << 4);")
    words = []
    for instruction in bound.instructions[:3]:
        literal, form = instruction.operands[-1], instruction.form
        assert isinstance(literal, Imm) and form is not None and form.roles[-1].type is not None
        words.append(literal.bits(form.roles[-1].type))
    assert words == [0x44400000, 0xBFC00000, 0xFFFFFFF0]


def test_parameter_layout_is_the_manuals() -> None:
    document = Document.parse(HEAD + ".entry k(.param .u8 a, .param .u64 b, .param .align 4 .b8 c[3], .param .f32 d) { ret; }\n", "t")
    layout = [(name, offset, size, align) for name, _, offset, size, align, _ in parameter_layout(document.entry("k"))]
    assert layout == [("a", 0, 1, 1), ("b", 8, 8, 8), ("c", 16, 3, 4), ("d", 20, 4, 4)]


def test_bound_programs_are_kept() -> None:
    document = Document.parse(HEAD + ".entry k() { ret; }\n", "t")
    assert bind(document, "k") is bind(document, "k")


def test_a_function_argument_in_memory() -> None:
    """A call parameter given to a function is the function's own variable: no copy is made."""
    bound = body("{ .param .b32 a; .param .b32 o; st.param.b32 [a], %r1; call (o), twice, (a); ld.param.b32 %r2, [o]; }", before=CALLEE)
    store, load = bound.instructions[:2]
    written, read = store.operands[0], load.operands[1]
    assert isinstance(written, Address) and isinstance(read, Address)
    assert isinstance(written.base, Var) and written.base == read.base


@pytest.mark.parametrize("layer", data.LAYERS)
def test_the_short_way_of_binding_gives_what_the_long_way_gives(layer, monkeypatch):
    text, entry = data.ptx(layer), data.launch_arguments(layer).entry
    short = bind(Document.parse(text), entry)
    monkeypatch.setattr(Binder, "bind_usual", lambda *given: False)
    long = bind(Document.parse(text), entry)

    def facts(program):
        return [(i.form, i.guard, i.operands, i.reads, i.writes, i.targets) for i in program.instructions]

    assert facts(short) == facts(long) and len(facts(long)) > 5000
    assert [(r.name, r.type, r.scope) for r in short.registers] == [(r.name, r.type, r.scope) for r in long.registers]
