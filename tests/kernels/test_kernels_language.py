"""What CUDA C++ offers beside arithmetic on floats: structures, arrays, switches, wide integers, bits, constants, globals, unions, vectors."""

from __future__ import annotations

import numpy as np
import pytest
from bit_models import ALL32, BITS, WIDE, signed
from both_engines import both, launch
from compiling import Compiler

import ptxgraft

WAYS = ("sm_80", "debug")
ITEM = np.dtype(
    [("sign", "i1"), ("count", "u2"), ("weight", "f8"), ("parts", "f4", 3), ("colour", "u1", 3)], align=True
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_structures_by_value(compiler: Compiler, way: str):
    rng = np.random.default_rng(1)
    items = np.zeros(48, ITEM)
    items["sign"], items["count"] = rng.integers(-11, 12, 48), rng.integers(0, 65536, 48)
    items["weight"], items["parts"] = rng.integers(-50, 50, 48) / 8, rng.integers(-50, 50, (48, 3)) / 4
    items["colour"] = rng.integers(0, 256, (48, 3))
    bias = np.zeros(1, ITEM)
    bias["sign"], bias["weight"], bias["parts"] = -5, 0.5, [1, -2, 3]
    got = both(compiler.ptx("language", way), "structures", 2, 24, [items.view("u1"), np.zeros(48 * 32, "u1"), bias.tobytes()])[1].view(
        ITEM
    )
    wanted, which = items.copy(), np.arange(48) % 3
    wanted["parts"][np.arange(48), which] *= 2
    wanted["count"] += 1
    wanted["colour"][:, 1] ^= 0xFF
    wanted["weight"] += 0.5 * bias["parts"][0][which]
    wanted["sign"] = (items["sign"].astype(np.int32) * -5).astype(np.int8)
    for name in ITEM.fields or {}:
        assert np.array_equal(got[name], wanted[name]), name


@pytest.mark.parametrize("way", WAYS)
def test_local_arrays(compiler: Compiler, way: str):
    order = np.random.default_rng(2).integers(-100, 100, 17, dtype=np.int32)
    out = both(compiler.ptx("language", way), "local_arrays", 1, 64, [order, np.zeros(64, np.int32), order.size], compiled=way != "debug")[
        1
    ]
    for thread in range(64):
        table = [i * i + thread for i in range(24)]
        at = thread % 24
        for step in order.tolist():
            at = (table[at] + step) % 24  # what C's remainder and the correction after it give
            table[at] -= step * 3
        total = 0
        for value in table:
            total = total * 31 + value & ALL32
        assert int(out[thread]) & ALL32 == total, thread


@pytest.mark.parametrize("way", WAYS)
def test_switches(compiler: Compiler, way: str):
    rng = np.random.default_rng(3)
    code = rng.permutation(np.r_[np.arange(-2, 22).repeat(4), [100] * 4, [-(2**31)] * 4, [2**31 - 1] * 4]).astype(np.int32)[:96]
    x, y = rng.integers(-(2**31), 2**31, 96, dtype=np.int32), rng.integers(-(2**31), 2**31, 96, dtype=np.int32)
    x[::5], y[::3] = rng.integers(-9, 9, x[::5].size), rng.integers(-9, 9, y[::3].size)
    out = both(compiler.ptx("language", way), "switches", 3, 32, [code, x, y, np.full(96, 5, np.int32)], compiled=way != "debug")[3]
    by_code = {
        0: lambda a, b: a + b, 1: lambda a, b: a - b, 2: lambda a, b: a * b, 3: lambda a, b: a & b, 4: lambda a, b: a | b,
        5: lambda a, b: ~(a ^ b), 6: lambda a, b: -1, 7: lambda a, b: a << (b & 31), 8: lambda a, b: a >> (b & 31),
        9: lambda a, b: sum(a ^ k for k in range(b & 7)), 10: lambda a, b: -a if a < b else -b, 11: lambda a, b: 5,
        12: lambda a, b: a + 3 * b, 13: lambda a, b: a // 8 if a >= 0 else -(-a // 8), 14: lambda a, b: max(a, b), 15: lambda a, b: min(a, b),
        16: lambda a, b: a % 65536, 17: lambda a, b: b ^ 0x55555555, 18: lambda a, b: abs(b), 100: lambda a, b: 100,
    }  # fmt: skip
    for i in range(96):
        wanted = by_code.get(int(code[i]), lambda a, b: -7)(int(x[i]), int(y[i]))
        assert int(out[i]) & ALL32 == wanted & ALL32, (code[i], x[i], y[i])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_division(compiler: Compiler, kind: str, way: str):
    rng, type = np.random.default_rng(4), np.dtype(kind)
    low, high = np.iinfo(type).min, np.iinfo(type).max
    x, y = (rng.integers(low, high, 96, dtype=type, endpoint=True) for _ in range(2))
    y[:48] = rng.integers(1, 90, 48)
    x[:5], y[:5] = [high, low, high, 0, low], [high, high, 1, 3, 1]
    y[y == 0] = 1
    y[(y == y.dtype.type(-1) if low < 0 else y == 0) & (x == low)] = 2  # the one quotient that does not fit
    out = both(compiler.ptx("language", way), f"divide_{kind}", 1, 32, [x, y, np.zeros((96, 4), type), 96])[2]

    def quotient(a: int, b: int) -> int:
        return a // b if (a < 0) == (b < 0) else -(-a // b)

    for a, b, got in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        assert got == [quotient(a, b), a - b * quotient(a, b), quotient(a, 7), a - 10 * quotient(a, 10)], (a, b)


@pytest.mark.parametrize("way", WAYS)
def test_wide_integers(compiler: Compiler, way: str):
    rng = np.random.default_rng(5)
    x, y = (rng.integers(0, 2**64, 64, dtype=np.uint64) >> rng.integers(0, 64, 64, dtype=np.uint64) for _ in range(2))
    x[:3], y[:3] = [0, 2**64 - 1, 1 << 63], [0, 2**64 - 1, 1 << 63]
    out = both(compiler.ptx("language", way), "wide", 1, 64, [x, y, np.zeros((64, 8), np.uint64)])[2]
    for a, b, row in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        assert row == [f(a, b) & (2**64 - 1) for f in WIDE], (a, b)


@pytest.mark.parametrize("way", WAYS)
def test_bits(compiler: Compiler, way: str):
    rng = np.random.default_rng(6)
    x, y = (rng.integers(0, 2**32, 64, dtype=np.uint32) >> rng.integers(0, 32, 64, dtype=np.uint32) for _ in range(2))
    x[:4], y[:4] = [0, ALL32, 1 << 31, ALL32], [0, ALL32, 1 << 31, 1]
    out = both(compiler.ptx("language", way), "bits", 1, 64, [x, y, np.zeros((64, len(BITS)), np.uint32)])[2]
    for a, b, row in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        for column, (got, model) in enumerate(zip(row, BITS, strict=True)):
            assert got == model(a, b) & ALL32, f"o[{column}] of {a:#x}, {b:#x}"


@pytest.mark.parametrize("way", WAYS)
def test_constants_and_globals(compiler: Compiler, way: str):
    ptx = compiler.ptx("language", way)
    out, floats = both(ptx, "tables", 1, 32, [np.zeros((4, 32), np.int32), np.zeros(32)], compiled=True)
    i = np.arange(32)
    primes = np.array([2, 3, 5, 7, 11, 13, 17, 19])
    cells = np.array([[1, 2, 3], [4, 0, 0], [0, 0, 0], [10, 11, 12]])
    assert np.array_equal(out[0], primes[i % 8] * 1000 + np.frombuffer(b"granite\0", np.uint8)[i % 8])
    assert np.array_equal(out[1], cells[i % 4, i % 3] + 1100)
    assert np.array_equal(out[2], primes[3 + i % 4] + np.array([1, -10, 100, -1000])[i % 4])
    assert np.array_equal(out[3], [(b"chert\0"[k % 4] + 1) if k % 2 else b"lint\0"[k % 4] for k in i])
    weights = np.array([0.5, -1.25, 3.0, 1e-3, -0.0], np.float32)
    assert np.array_equal(floats, weights[i % 5].astype(np.float64) + np.where(i % 2, 2.5, -1.5))


@pytest.mark.parametrize("engine", ["warp", "numpy"])
def test_globals_keep_their_contents_between_launches(compiler: Compiler, engine: str):
    module = ptxgraft.load(compiler.ptx("language", "sm_90"))
    module.kernel("tables", engine=engine).launch(1, 32, [np.zeros((4, 32), np.int32), np.zeros(32)])
    out = np.zeros(6, np.uint64)
    module.kernel("read_globals", engine=engine).launch(1, 1, [out])
    assert out.tolist() == [41 + 32, 5 + 11 * 2**33, 6 + 11 * 2**33, 7 + 10 * 2**33, 3, 41 + 32]
    fresh = launch(compiler.ptx("language", "sm_90"), "read_globals", 1, 1, [out], engine=engine)[0][0]
    assert fresh.tolist() == [41, 5, 6, 7, 11, 0]


@pytest.mark.parametrize("way", WAYS)
def test_unions_and_fields(compiler: Compiler, way: str):
    x = np.random.default_rng(7).standard_normal(48) * 10.0 ** np.arange(-24, 24)
    out = both(compiler.ptx("language", way), "unions", 1, 48, [x, np.zeros((48, 2), np.uint64)])[1]
    for i, (q, row) in enumerate(zip(x.view(np.uint64).tolist(), out.tolist(), strict=True)):
        high = signed(q >> 27 & 31, 5)
        found = (q & 0xFFFFF) ^ (high << 20) ^ (q >> 20 & 127) << 3
        found ^= q ^ i ^ signed(q >> 32, 32)
        bytes_ = bytearray(q.to_bytes(8, "little"))
        bytes_[i % 8] = (bytes_[i % 8] + 1) & 255
        word = int.from_bytes(bytes_, "little") & ~(127 << 20) | i << 20
        assert row == [(word >> 32 | word << 32) & (2**64 - 1), found & (2**64 - 1)], i


@pytest.mark.parametrize("way", WAYS)
def test_vectors_of_every_width(compiler: Compiler, way: str):
    size = 240
    data = np.random.default_rng(8).integers(0, 256, size, dtype=np.uint8)
    out = both(compiler.ptx("language", way), "vectors", 1, 32, [data, np.zeros((8, size), np.uint8), size], compiled=way != "debug")[1]
    for row, item in zip(out, (4, 4, 8, 8, 16, 16, 3), strict=False):
        assert np.array_equal(row, data.reshape(-1, item)[::-1].reshape(-1)), item
    words = data.view(np.uint32)
    assert np.array_equal(out[7].view(np.uint32), words ^ words[0])


@pytest.mark.parametrize("way", WAYS)
def test_volatile_shared_memory(compiler: Compiler, way: str):
    data = np.random.default_rng(9).integers(-(2**31), 2**31, 64, dtype=np.int32)
    out = both(compiler.ptx("language", way), "volatiles", 1, 64, [data, 5], compiled=way != "debug")[0]
    row = data.copy()
    for _ in range(5):
        row = np.roll(row, 1) ^ row << 1
    assert np.array_equal(out, row)
