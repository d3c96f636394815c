"""Device-side printf: texts against the C library's own."""

from __future__ import annotations

import ctypes
import struct
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptxgraft.run.printf import Arguments, formatted

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library's printf is asked on Linux alone")
FLAGS = st.text("-+ #0", max_size=3)
WIDTH = st.one_of(st.just(""), st.integers(1, 24).map(str), st.just("*"))
PRECISION = st.one_of(st.just(""), st.just("."), st.integers(0, 20).map(lambda n: f".{n}"), st.just(".*"))
STAR = st.integers(-20, 20)


def ours(template: bytes, *values: tuple[int, int], strings: dict[int, bytes] | None = None) -> tuple[bytes, int]:
    """The text of values given as (bits, bytes), and how many it took."""
    buffer = bytearray()
    for bits, size in values:
        buffer += bytes(-len(buffer) % size) + (bits & (1 << 8 * size) - 1).to_bytes(size, "little")
    arguments = Arguments(lambda offset, size: bytes(buffer[offset : offset + size]))
    return formatted(template, arguments, lambda address: (strings or {})[address]), arguments.count


def libc(template: bytes, *values: object) -> bytes:
    space = ctypes.create_string_buffer(4096)
    length = ctypes.CDLL(None).snprintf(space, ctypes.c_size_t(4096), template, *values)
    return space.raw[:length]


def bits_of(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


@linux
@settings(max_examples=400, deadline=None)
@given(
    FLAGS,
    WIDTH,
    PRECISION,
    st.sampled_from(["", "hh", "h", "l", "ll", "z", "j"]),
    st.sampled_from("diouxX"),
    STAR,
    STAR,
    st.integers(-(2**63), 2**63 - 1),
)
@example("#0", "8", "", "", "x", 0, 0, 0)
@example("+", "", ".", "", "d", 0, 0, 0)
@example("#", "", ".", "", "o", 0, 0, 0)
def test_whole_numbers(flags: str, width: str, precision: str, size: str, kind: str, star: int, stars: int, value: int) -> None:
    template = f"<%{flags}{width}{precision}{size}{kind}>".encode()
    wide = size in ("l", "ll", "z", "j")
    given_: list[tuple[int, int]] = [(star, 4)] * (width == "*") + [(stars, 4)] * (precision == ".*") + [(value, 8 if wide else 4)]
    theirs = [ctypes.c_int(star)] * (width == "*") + [ctypes.c_int(stars)] * (precision == ".*")
    text, count = ours(template, *given_)
    assert text == libc(template, *theirs, ctypes.c_int64(value) if wide else ctypes.c_int32(value & 0xFFFFFFFF))
    assert count == len(given_)


@linux
@settings(max_examples=400, deadline=None)
@given(FLAGS, WIDTH, PRECISION, st.sampled_from("eEfFgGaA"), STAR, STAR, st.floats(allow_nan=False))
@example("0", "12", "", "f", 0, 0, float("inf"))
@example("-0", "12", "", "g", 0, 0, float("-inf"))
@example("", "", "", "a", 0, 0, 5e-324)
@example("", "", ".1", "a", 0, 0, 1.96875)
@example("#", "", ".0", "a", 0, 0, 0.0)
def test_floats(flags: str, width: str, precision: str, kind: str, star: int, stars: int, value: float) -> None:
    if width == "*" and star < 0:
        flags = flags.replace("0", "")  # glibc pads with zeros behind the number, which C forbids
    template = f"<%{flags}{width}{precision}{kind}>".encode()
    given_ = [(star, 4)] * (width == "*") + [(stars, 4)] * (precision == ".*") + [(bits_of(value), 8)]
    theirs = [ctypes.c_int(star)] * (width == "*") + [ctypes.c_int(stars)] * (precision == ".*")
    assert ours(template, *given_)[0] == libc(template, *theirs, ctypes.c_double(value))


@linux
@pytest.mark.parametrize("bits", [0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000])
def test_nan(bits: int) -> None:
    value = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    for template in (b"%f", b"%08.3G", b"%+a|"):
        assert ours(template, (bits, 8))[0] == libc(template, ctypes.c_double(value))


@linux
@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["", "-"]),
    WIDTH.filter(lambda w: w != "*"),
    PRECISION.filter(lambda p: p != ".*"),
    st.binary(max_size=12).filter(lambda b: 0 not in b),
)
def test_strings(flags: str, width: str, precision: str, text: bytes) -> None:
    template = f"<%{flags}{width}{precision}s>".encode()
    assert ours(template, (64, 8), strings={64: text})[0] == libc(template, text)


@linux
def test_several_arguments_and_what_stands_between() -> None:
    template = b"100%% of %s: %c %5d, %p %-6.2f|%lld \xc3\xa9\n"
    values = [(64, 8), (ord("x") | 0x100, 4), (-3, 4), (0xABC, 8), (bits_of(2.5), 8), (-(2**40), 8)]
    text, count = ours(template, *values, strings={64: b"it"})
    wanted = libc(
        template, b"it", ctypes.c_int(ord("x")), ctypes.c_int(-3), ctypes.c_void_p(0xABC), ctypes.c_double(2.5), ctypes.c_longlong(-(2**40))
    )
    assert (text, count) == (wanted, 6)


def test_null_pointers() -> None:
    assert ours(b"%s %p", (0, 8), (0, 8))[0] == b"(null) (nil)"


def test_what_is_no_conversion_is_copied() -> None:
    assert ours(b"%y at 50%", (7, 4)) == (b"%y at 50%", 0)
