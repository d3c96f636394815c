"""The text of a device-side ``printf``.

Invariant: what comes out is what C's ``printf`` of the host gives for the same values; a conversion that is none of C's is copied as it stands.
Source: CUDA C++ Programming Guide, "Formatted Output"; C17, 7.21.6.1.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

_CONVERSION = re.compile(rb"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|L|q|j|z|t)?([diouxXeEfFgGaAcsp%])")
_WIDE = frozenset([b"l", b"ll", b"q", b"j", b"z", b"t"])


class Arguments:
    """The argument buffer: each argument at the next multiple of its size. ``read(offset, size)`` gives bytes of it."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self.read, self.at, self.count = read, 0, 0

    def take(self, size: int) -> int:
        """The next argument's bits."""
        self.at = (self.at + size - 1) // size * size
        raw = self.read(self.at, size)
        self.at += size
        self.count += 1
        return int.from_bytes(raw, "little")

    def signed(self, size: int) -> int:
        return _signed(self.take(size), 8 * size)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def formatted(template: bytes, arguments: Arguments, string: Callable[[int], bytes]) -> bytes:
    """The text. ``string`` gives the bytes of the C string at an address."""

    def one(match: re.Match[bytes]) -> bytes:
        flags, width, precision, size, kind = match.groups()
        if kind == b"%":
            return b"%"
        if width == b"*":
            number = arguments.signed(4)
            flags += b"-" if number < 0 else b""
            width = str(abs(number)).encode()
        if precision == b"*":
            number = arguments.signed(4)
            precision = None if number < 0 else str(number).encode()
        digits = None if precision is None else int(precision or b"0")
        text = _converted(flags, digits, size or b"", kind.decode(), arguments, string)
        return _padded(text, flags, int(width or b"0"), _zeros(flags, digits, kind, text))

    return _CONVERSION.sub(one, template)


def _zeros(flags: bytes, digits: int | None, kind: bytes, text: bytes) -> bool:
    """Does the flag 0 count? Not beside ``-``, for whole numbers with a precision, for what is no finite number."""
    if b"0" not in flags or b"-" in flags or kind in b"csp":
        return False
    return digits is None if kind in b"diouxX" else text[-1:] not in b"fFnN"


def _padded(text: bytes, flags: bytes, width: int, zeros: bool) -> bytes:
    if b"-" in flags:
        return text.ljust(width)
    if not zeros:
        return text.rjust(width)
    head = re.match(rb"[-+ ]?(0[xX])?", text)
    assert head is not None
    start = head.end()
    return text[:start] + text[start:].rjust(width - start, b"0")


def _converted(flags: bytes, digits: int | None, size: bytes, kind: str, arguments: Arguments, string: Callable[[int], bytes]) -> bytes:
    wide = 8 if size in _WIDE else 4
    if kind == "c":
        return bytes([arguments.take(4) & 0xFF])
    if kind == "s":
        address = arguments.take(8)
        text = string(address) if address else b"(null)"
        return text if digits is None else text[:digits]
    if kind == "p":
        address = arguments.take(8)
        return b"%#x" % address if address else b"(nil)"
    if kind in "eEfFgGaA":
        (value,) = struct.unpack("<d", arguments.take(8).to_bytes(8, "little"))
        return (_sign(flags, math.copysign(1.0, value) < 0) + _float(abs(value), b"#" in flags, digits, kind)).encode()
    bits = {b"h": 16, b"hh": 8}.get(size, 8 * wide)
    value = _signed(arguments.take(wide), bits) if kind in "di" else arguments.take(wide) & ((1 << bits) - 1)
    sign = _sign(flags, value < 0) if kind in "di" else ""
    return (sign + _whole(abs(value), b"#" in flags, digits, kind)).encode()


def _sign(flags: bytes, negative: bool) -> str:
    return "-" if negative else "+" if b"+" in flags else " " if b" " in flags else ""


def _whole(value: int, alternate: bool, digits: int | None, kind: str) -> str:
    text = format(value, {"o": "o", "x": "x", "X": "X"}.get(kind, "d"))
    if value == 0 and digits == 0:
        text = ""
    text = text.rjust(digits or 0, "0")
    if alternate and kind == "o" and not text.startswith("0"):
        return "0" + text
    return f"0{kind}{text}" if alternate and kind in "xX" and value else text


def _float(value: float, alternate: bool, digits: int | None, kind: str) -> str:
    if not math.isfinite(value):
        text = "nan" if math.isnan(value) else "inf"
    elif kind in "aA":
        text = _hexadecimal(value, alternate, digits)
    else:
        text = f"%{'#' if alternate else ''}.{6 if digits is None else digits}{kind}" % value
    return text.upper() if kind.isupper() else text


def _hexadecimal(value: float, alternate: bool, digits: int | None) -> str:
    """``0x1.8p+1``, as few digits as are exact or as many as are wanted, rounded to even."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    exponent, fraction = bits >> 52, bits & ((1 << 52) - 1)
    whole = (1 << 52 if exponent else 0) | fraction
    power = (exponent or 1) - 1023 if whole else 0
    if digits is not None and digits < 13:
        shift = 52 - 4 * digits
        whole, rest = whole >> shift << shift, whole & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        if rest > half or (rest == half and whole >> shift & 1):
            whole += 1 << shift
    text = f"{whole & ((1 << 52) - 1):013x}"
    text = text.rstrip("0") if digits is None else text.ljust(digits, "0")[:digits]
    return f"0x{whole >> 52}{'.' if text or alternate else ''}{text}p{power:+d}"
