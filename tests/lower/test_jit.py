"""Text to machine code: what is refused before it could kill the process."""

from __future__ import annotations

import ctypes

import pytest

from ptxgraft.errors import UnsupportedError
from ptxgraft.lower import jit
from ptxgraft.lower.ir import Emitter, IrModule, Val, lane_constants, literal

ADD = "define i32 @add(i32 %a, i32 %b) {\n  %c = add i32 %a, %b\n  ret i32 %c\n}\n"
CALLS = "declare i32 @other(i32)\ndefine i32 @calls(i32 %a) {\n  %b = call i32 @other(i32 %a)\n  ret i32 %b\n}\n"
OTHER = "define i32 @other(i32 %a) {\n  %b = mul i32 %a, 3\n  ret i32 %b\n}\n"


@pytest.mark.parametrize("passes", ["none", "sroa", "O1", "O2", "O3"])
def test_code_runs(passes: str) -> None:
    engine = jit.load_objects([jit.compile_ir(ADD, passes=passes)])
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)(engine.address("add"))(40, 2) == 42
    with pytest.raises(KeyError):
        engine.address("subtract")


def test_objects_call_each_other_and_given_symbols() -> None:
    calls = jit.compile_ir(CALLS)
    assert jit.object_symbols(calls) == ({"calls"}, {"other"})
    linked = jit.load_objects([calls, jit.compile_ir(OTHER)])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
    assert function(linked.address("calls"))(5) == 15
    callback = function(lambda a: a + 1)
    place = ctypes.cast(callback, ctypes.c_void_p).value
    assert place is not None
    given = jit.load_objects([jit.compile_ir(CALLS.replace("other", "given_by_test"))], {"given_by_test": place})
    assert function(given.address("calls"))(5) == 6


def test_memory_functions_of_the_c_library_are_known() -> None:
    text = "declare ptr @memset(ptr, i32, i64)\ndefine void @clear(ptr %a, i64 %n) {\n  %b = call ptr @memset(ptr %a, i32 0, i64 %n)\n  ret void\n}\n"
    engine = jit.load_objects([jit.compile_ir(text)])
    data = ctypes.create_string_buffer(b"abcdef")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(engine.address("clear"))(ctypes.addressof(data), 3)
    assert data.raw == b"\0\0\0def\0"


def test_an_unknown_symbol_is_refused() -> None:
    with pytest.raises(AssertionError, match="'nobody_has_this'"):
        jit.load_objects([jit.compile_ir(CALLS.replace("other", "nobody_has_this"))])


def test_arithmetic_of_the_c_library_is_refused() -> None:
    """A conversion that the CPU lacks becomes a call; its bits would not be ours."""
    text = "define half @f(double %a) {\n  %b = fptrunc double %a to half\n  ret half %b\n}\n"
    machine = jit.host().without("avx512fp16", "avx10.1")
    with pytest.raises(AssertionError, match="__truncdfhf2"):
        jit.load_objects([jit.compile_ir(text, machine=machine)])


def test_bad_text_is_an_assertion_with_the_line() -> None:
    with pytest.raises(AssertionError, match="%b = nonsense"):
        jit.compile_ir(ADD.replace("%c = add", "%b = nonsense"))


def test_only_elf_objects() -> None:
    with pytest.raises(UnsupportedError, match="ELF"):
        jit.object_symbols(b"MZ" + bytes(100))


def test_a_cpu_without_fused_multiply_add_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.llvm, "get_host_cpu_features", lambda: {"avx2": True, "bmi2": True, "f16c": True, "fma": False})
    with pytest.raises(UnsupportedError, match="CPU with fma"):
        jit.host.__wrapped__()


def test_the_cache_key_names_llvm_and_the_cpu() -> None:
    key = jit.cache_key_part()
    assert jit.host().cpu in key and set(jit.host().features) <= set(key.split())


# -- text -------------------------------------------------------------------------------------------------------------
def test_a_line_that_nobody_uses_is_not_written() -> None:
    out = Emitter(IrModule())
    unused = Val(out.deferred(lambda: "add i32 1, 2"), 32, True)
    used = Val(out.deferred(lambda: "add i32 3, 4"), 32, True)
    out.emit(f"ret {used.typed}")
    assert unused.uniform and repr(unused) == "<i32>"
    assert out.body() == f"entry:\n  {used.name} = add i32 3, 4\n  ret i32 {used.name}"


def test_allocations_stand_in_the_entry_block() -> None:
    out = Emitter(IrModule())
    out.emit("br label %next")
    out.label("next")
    place = out.alloca("i64")
    assert out.slot("scratch", "i32") == out.slot("scratch", "i32") != place
    lines = out.body().splitlines()
    assert lines[0] == "entry:" and f"{place} = alloca i64" in lines[1] and "alloca i32" in lines[2] and out.block == "next"


def test_equal_tables_are_one() -> None:
    module = IrModule()
    assert module.table([1, 2, 3], 32) == module.table((1, 2, 3), 32) != module.table([1, 2, 3], 64)
    assert len(module.globals) == 2


def test_constants() -> None:
    assert literal(-1, 8).typed == "i8 255" and literal(1, 1).typed == "i1 true" and literal(5, 32).uniform
    lanes = lane_constants([-1, *range(31)], 16)
    assert lanes.type == "<32 x i16>" and lanes.const is not None and lanes.name.startswith("<i16 65535, i16 0,")
