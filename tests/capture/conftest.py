"""Hand-made captures: the directory form written byte by byte from its description, never by the product's own writer."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxgraft.capture import Allocation, Image, Launch, Pointer, Variable

BASE_A, BASE_B = 0x7F32_0000_0000, 0x7F32_4000_0000
HANDLE = 0x1000_0000_2A


def argument_block() -> bytes:
    """64 bytes: u32 7 at 0, f32 1.5 at 4, a pointer into A at 8, a texture handle at 16, a surface handle at 24, a pointer to B at 40."""
    return struct.pack("<IfQQQQQQQ", 7, 1.5, BASE_A + 256, HANDLE, 0x77, 0, BASE_B, 0, 0xFFFF_FFFF_FFFF_FFFF)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """What fsync is for shows only when the power fails; waiting for it is most of these tests' time on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """CAP with launches 12 (enc4, everything right) and 13 (dec0), as another tool would have left it."""
    cap = tmp_path / "CAP"
    for folder in ("run", "replay/replay-000012-enc4", "replay/replay-000013-dec0", "dump"):
        (cap / folder).mkdir(parents=True)
    enc4, dec0, dump = cap / "replay/replay-000012-enc4", cap / "replay/replay-000013-dec0", cap / "dump"
    enc4.joinpath("manifest.txt").write_bytes(
        b"kernel enc4\n"
        b"dims 11 7 1 32 1 4 49152 0\n"
        b"\n"
        b"alloc 0 0x7f3200000000 1024\n"
        b"pointer 8 0 256\n"
        b"stream 0x0\n"
        b"alloc 3 7f3240000000 32\n"
        b"pointer 40 3 0\n"
    )
    enc4.joinpath("args.bin").write_bytes(argument_block())
    enc4.joinpath("alloc-0.bin").write_bytes(bytes(range(256)) * 4)
    enc4.joinpath("alloc-3.bin").write_bytes(b"\x11" * 32)
    dec0.joinpath("manifest.txt").write_bytes(b"kernel\tdec0\r\ndims\t161 93 1 \t32 1 1\r\nstream 0x1\r\n")
    dec0.joinpath("args.bin").write_bytes(b"")
    dump.joinpath("launch-012-enc4-arg008-buffer-0004-base0x7f3200000000+256.bin").write_bytes(b"\x55" * 1024)
    dump.joinpath("launch-012-enc4-arg040-buffer-out-size32-base0x7F3240000000+0-of-2.bin").write_bytes(b"\x66" * 32)
    dump.joinpath("launch-012-enc4-arg016-texture-3x2x4-fmt16.bin").write_bytes(np.arange(24, dtype="<f2").tobytes())
    dump.joinpath("launch-012-enc4-arg024-surface-2x2x4-fmt194.bin").write_bytes(bytes(range(0, 256, 16)))
    # The same base in another launch, another kernel of that number and another base must not be taken.
    dump.joinpath("launch-112-enc4-arg008-buffer-0004-base0x7f3200000000+256.bin").write_bytes(b"\x01" * 1024)
    dump.joinpath("launch-012-enc4_2-arg008-buffer-0004-base0x7f3200000000+256.bin").write_bytes(b"\x02" * 1024)
    dump.joinpath("launch-012-enc4-arg008-buffer-0004-base0x7f32000000000+256.bin").write_bytes(b"\x03" * 1024)
    (cap / "run/run.log").write_bytes(
        b"bridge 1.0 \xff\xfe\n"
        b"cuTexObjectCreate desc=1 filter=0 norm=1 object=0x100000002a\n"
        b"launch[11] enc4 grid 1 1 1\n"
        b"cuTexObjectCreate desc=1 filter=1 norm=1 object=0x100000002A\n"
        b"launch[12] enc4 grid 11 7 1\n"
        b"cuTexObjectCreate desc=1 filter=0 norm=1 object=0x100000002a\n"
        b"launch[13] dec0 grid 161 93 1\n"
    )
    return cap


@pytest.fixture
def in_memory() -> Callable[..., Launch]:
    """Makes a launch with one of everything."""

    def make(seq: int = 5, kernel: str = "enc4", **changes: Any) -> Launch:
        rng = np.random.default_rng(seq)
        before = rng.integers(0, 256, 5000, np.uint8)
        after = before.copy()
        after[1000:1004] ^= 0xFF
        parts: dict[str, Any] = {
            "seq": seq,
            "kernel": kernel,
            "grid": (11, 7, 1),
            "block": (32, 1, 4),
            "args": argument_block(),
            "shared_bytes": 49152,
            "allocations": [
                Allocation(0, BASE_A, 5000, before=before, after=after),
                Allocation(2, BASE_B, 64, before=np.arange(16, dtype=np.float32), after=np.zeros(64, np.uint8)),
            ],
            "pointers": [Pointer(8, 0, 256), Pointer(40, 2, 0)],
            "textures": [
                Image("texture", 16, HANDLE, 3, 2, 4, 16, "linear", ("clamp", "wrap"), True, before=np.arange(24, dtype=np.float16))
            ],
            "surfaces": [Image("surface", 24, 0x77, 2, 2, 4, 194, before=np.zeros(16, np.uint8), after=np.arange(16, dtype=np.uint8))],
            "variables": [Variable("table", before=b"\x01\x02\x03", after=b"\x01\x02\x04")],
            "module": b".version 8.7\n.target sm_89\n",
        }
        return Launch(**{**parts, **changes})

    return make


def _bytes(values: np.ndarray | None) -> bytes | None:
    return None if values is None else values.tobytes()


@pytest.fixture(scope="session")
def described() -> Callable[..., dict[str, object]]:
    """Everything a launch says, as plain values; ``shared=True`` leaves out what the directory form does not hold."""

    def describe(launch: Launch, *, shared: bool = False) -> dict[str, object]:
        found: dict[str, object] = {
            "what": (launch.seq, launch.kernel, tuple(launch.grid), tuple(launch.block), launch.args, launch.shared_bytes),
            "allocations": [
                (a.index, a.base, a.size, _bytes(a.before), _bytes(a.after) if a.after_recorded else None) for a in launch.allocations
            ],
            "pointers": launch.pointers,
            "images": [
                (i.kind, i.arg_offset, i.handle, i.width, i.height, i.channels, i.format, i.filter)
                + (() if shared else (i.address, i.normalized))
                + (_bytes(i.before) if i.kind == "texture" else _bytes(i.after),)
                for i in launch.images
            ],
        }
        if not shared:
            found["other states"] = [_bytes(i.after) if i.kind == "texture" else _bytes(i.before) for i in launch.images]
            found["variables"] = [(v.name, _bytes(v.before), _bytes(v.after)) for v in launch.variables]
            found["module"] = (launch.module, launch.module_hash)
        return found

    return describe
