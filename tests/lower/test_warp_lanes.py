"""``WarpLanes`` gives the bits of ``NumpyLanes``: every operation, on awkward and random operands, for every kind of CPU that differs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warp_cases import WIDTHS, Case, awkward, cases, operands

from ptxgraft.lower import jit
from ptxgraft.lower.ir import Val, lane_constants, literal
from ptxgraft.lower.numpy_lanes import NumpyLanes
from ptxgraft.lower.warp_function import WarpFunctions
from ptxgraft.lower.warp_lanes import WarpLanes

CASES = cases()
GROUPS = sorted({case.group for case in CASES})
HALF = [name for name in jit.host().names if name in ("avx512fp16", "avx10.1")]
WIDE = [name for name in jit.host().names if name.startswith(("avx512", "avx10", "amx", "avxvnni", "evex512"))]
HOSTS = {
    "host": (jit.host(), "sroa", False),
    "optimised": (jit.host(), "O2", False),
    "no half arithmetic": (jit.host().without(*HALF), "sroa", False),
    "AVX2": (jit.Host("haswell", jit.host().without(*WIDE).features), "sroa", False),
    "uniform": (jit.host(), "sroa", True),
}


@cache
def expected(case: Case) -> np.ndarray:
    arrays = [a.reshape(-1, 32) for a in operands(case)]
    return np.broadcast_to(case.body(NumpyLanes(), *arrays), arrays[0].shape).ravel()


@pytest.fixture(scope="module", params=HOSTS)
def compiled(request: pytest.FixtureRequest) -> tuple[WarpFunctions, bool]:
    host, passes, uniform = HOSTS[request.param]
    functions = WarpFunctions(host=host)
    for i, case in enumerate(CASES):
        if not (uniform and case.group == "other lanes"):
            functions.add(
                f"f{i}",
                case.widths,
                lambda lanes, values, case=case: [case.body(lanes, *values)],
                [uniform] * len(case.kinds),
            )
    functions.compile(passes=passes)
    return functions, uniform


@pytest.mark.parametrize("group", GROUPS)
def test_every_operation_gives_the_bits_of_the_reference(compiled: tuple[WarpFunctions, bool], group: str) -> None:
    functions, uniform = compiled
    if uniform and group == "other lanes":
        return
    wrong = []
    compared = 0
    for i, case in enumerate(CASES):
        if case.group != group:
            continue
        (got,) = functions.call(f"f{i}", *operands(case))
        want = expected(case)
        got = np.repeat(got, len(want) // len(got))
        compared += len(want)
        for at in np.flatnonzero(got != want)[:1]:
            given = ", ".join(hex(int(a[at])) for a in operands(case))
            wrong.append(f"{case.name}({given}) = {int(got[at]):#x}, not {int(want[at]):#x}")
    assert not wrong, "\n".join(wrong)
    assert compared > 0


def bits_of(width: int) -> st.SearchStrategy[int]:
    boundaries = [0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    special = [int(v) for fmt, w in WIDTHS.items() if w == width for v in awkward(fmt)]
    return st.sampled_from(special + boundaries) | st.integers(0, (1 << width) - 1)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_operands_of_float_arithmetic(float_functions: WarpFunctions, data: st.DataObject) -> None:
    number = data.draw(st.sampled_from([i for i, case in enumerate(CASES) if case.group.endswith("arithmetic")]))
    case = CASES[number]
    rows = data.draw(st.lists(st.tuples(*map(bits_of, case.widths)), min_size=1, max_size=32))
    arrays = [np.resize(np.array([row[i] for row in rows], f"<u{w // 8}"), 32) for i, w in enumerate(case.widths)]
    (got,) = float_functions.call(f"f{number}", *arrays)
    want = case.body(NumpyLanes(), *(a.reshape(1, 32) for a in arrays))
    np.testing.assert_array_equal(got, want.ravel(), case.name)


@pytest.fixture(scope="module")
def float_functions() -> WarpFunctions:
    functions = WarpFunctions()
    for i, case in enumerate(CASES):
        if case.group.endswith("arithmetic"):
            functions.add(f"f{i}", case.widths, lambda lanes, values, case=case: [case.body(lanes, *values)])
    functions.compile()
    return functions


def numbers(count: int = 32) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 1 << 32, count, dtype=np.uint32)


def run(body, *arrays: np.ndarray, machine: object = None, uniform: tuple[bool, ...] = ()) -> list[np.ndarray]:
    functions = WarpFunctions(machine=machine)
    functions.add("f", [1 if a.dtype == bool else 8 * a.itemsize for a in arrays], body, uniform)
    functions.compile()
    return functions.call("f", *arrays)


def test_uniform_and_varying_operands_mix() -> None:
    a, b = numbers(), np.array([77], np.uint32)
    got = run(lambda l, v: [l.sub(*v), l.sub(v[1], v[0]), l.divide(*v, True), l.float_div("f32", *v, "rz")], a, b, uniform=(False, True))
    n, spread = NumpyLanes(), b.reshape(1, 1)
    row = a.reshape(1, 32)
    want = [n.sub(row, spread), n.sub(spread, row), n.divide(row, spread, True), n.float_div("f32", row, spread, "rz")]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w.ravel())


def test_uniform_operands_give_a_uniform_result() -> None:
    seen = []

    def body(lanes: WarpLanes, values: list[Val]) -> list[Val]:
        seen.append(lanes.float_fma("f32", values[0], values[0], lanes.const(1, 32)))
        seen.append(lanes.float_fma("f64", *[lanes.resize(values[0], 64)] * 3, "rm"))
        return seen

    run(body, np.array([3], np.uint32), uniform=(True,))
    assert [v.uniform for v in seen] == [True, True]


def test_constant_lanes_make_a_constant_shuffle() -> None:
    def body(lanes: WarpLanes, values: list[Val]) -> list[Val]:
        lane = lane_constants(range(32), 32)
        source = lanes.xor(lane, lanes.const(5, 32))
        inside = lanes.compare("le", source, lanes.const(31, 32), signed=True)
        chosen = lanes.select(inside, source, lane)
        assert type(chosen.const) is tuple and type(inside.const) is tuple
        return [lanes.read_lane(values[0], chosen)]

    a = numbers()
    np.testing.assert_array_equal(run(body, a)[0], a[np.arange(32) ^ 5])


class Masked:
    """A machine with a mask and nothing else."""

    def __init__(self, mask: Val) -> None:
        self.mask = mask


@pytest.mark.parametrize("active", [0xFFFFFFFF, 0x0F0F1234])
def test_ballot_counts_active_lanes_alone(active: int) -> None:
    machine = Masked(lane_constants([active >> i & 1 for i in range(32)], 1))
    p = np.random.default_rng(1).integers(0, 2, 32).astype(bool)
    votes = int(np.packbits(p, bitorder="little").view("<u4")[0])
    got = run(lambda l, v: [l.ballot(v[0]), l.ballot(l.const(1, 1)), l.ballot(l.const(0, 1))], p, machine=machine)
    assert [int(g[0]) for g in got] == [votes & active, active, 0]


def test_ballot_of_a_full_warp() -> None:
    p = np.arange(32) % 3 == 0
    got = run(lambda l, v: [l.ballot(v[0]), l.ballot(v[1])], p, np.array([True]), machine=Masked(literal(1, 1)), uniform=(False, True))
    assert int(got[0][0]) == int(np.packbits(p, bitorder="little").view("<u4")[0])
    assert int(got[1][0]) == 0xFFFFFFFF


def test_outlined_code_is_written_once_for_each_shape() -> None:
    functions = WarpFunctions()

    def body(lanes: WarpLanes, values: list[Val]) -> list[Val]:
        def work(l: WarpLanes, v: list[Val]) -> list[Val]:
            less = l.compare("lt", v[0], v[1])
            return [l.select(v[2], l.add(v[0], v[1]), l.sub(v[0], v[1])), less]

        first = lanes.outline("work", values, work)
        second = lanes.outline("work", [first[0], values[1], first[1]], work)
        third = lanes.outline("work", [lanes.const(5, 32), lanes.const(7, 32), lanes.const(1, 1)], work)
        return [*second, *third]

    functions.add("f", [32, 32, 1], body)
    assert sum(name.startswith("work") for name in functions.module.functions) == 2
    functions.compile()
    a, b, p = numbers(64), numbers(96)[32:], np.arange(64) % 3 == 0
    first, less = np.where(p, a + b, a - b), a < b
    got = functions.call("f", a, b, p)
    np.testing.assert_array_equal(got[0], np.where(less, first + b, first - b))
    np.testing.assert_array_equal(got[1], first < b)
    assert (int(got[2][0]), bool(got[3][0])) == (12, True)


def test_outlined_code_has_no_machine() -> None:
    with pytest.raises(AssertionError, match="pure function"):
        run(lambda l, v: l.outline("bad", v, lambda inner, w: [inner.ballot(w[0])]), np.zeros(32, bool), machine=Masked(literal(1, 1)))


def test_a_packed_operation_is_one_operation() -> None:
    """Both halves of three operands: one fused multiply-add over 64 elements, and none over 32."""
    functions = WarpFunctions(host=jit.Host("any", ("+avx512fp16",)))

    def body(lanes: WarpLanes, values: list[Val]) -> list[Val]:
        return [lanes.concat([lanes.float_fma("f16", *(lanes.extract(v, i, 16) for v in values)) for i in (0, 16)])]

    functions.add("f", [32, 32, 32], body)
    text = functions.module.text()
    assert text.count("call <64 x half> @llvm.fma.v64f16") == 1
    assert "trunc" not in text


def test_halves_are_forgotten_at_a_new_block() -> None:
    """A value computed in one block must not be taken for the same operation in another, which it may not dominate."""

    def body(lanes: WarpLanes, values: list[Val]) -> list[Val]:
        halves = [lanes.extract(values[0], i, 16) for i in (0, 16)]
        low = lanes.not_(halves[0])
        lanes.emitter.emit("br label %other")
        lanes.emitter.label("other")
        text = lanes.emitter.body()
        high = lanes.not_(halves[1])
        assert len(lanes.emitter.body()) > len(text)
        return [lanes.concat([low, high])]

    a = numbers()
    np.testing.assert_array_equal(run(body, a)[0], ~a)
