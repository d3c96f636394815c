"""What users ask of a launch and of a capture, on launches made in memory."""

from __future__ import annotations

import numpy as np
import pytest

from ptxgraft.capture import Allocation, Capture, Image, Launch, Pointer, Variable
from ptxgraft.errors import SourceError, UsageError


def test_scalars_at_argument_offsets(in_memory) -> None:
    launch = in_memory()
    assert (launch.u32(0), launch.f32(4), launch.u64(8), launch.u32(60)) == (7, 1.5, 0x7F32_0000_0100, 0xFFFF_FFFF)
    with pytest.raises(SourceError, match=r"launch 5 \(enc4\): the argument block has 64 bytes, 4 at offset 61 are past its end"):
        launch.u32(61)
    with pytest.raises(UsageError, match="negative"):
        launch.f32(-4)


def test_allocations_pointers_images(in_memory) -> None:
    launch = in_memory()
    assert launch.before(2).view(np.float32)[3] == 3.0 and not launch.after(2).any()
    assert launch.pointer(8) == Pointer(8, 0, 256) and launch.pointer(16) is None
    assert launch.allocation_at(0x7F32_4000_003F).index == 2 and launch.allocation_at(0x7F32_4000_0040) is None
    assert launch.image(24).kind == "surface"
    with pytest.raises(UsageError, match=r"no image at argument offset 25; it has: 16 \(texture\), 24 \(surface\)"):
        launch.image(25)
    with pytest.raises(UsageError, match="has no allocation 1; it has: 0, 2"):
        launch.before(1)
    launch.allocations[0].after = None
    with pytest.raises(SourceError, match="no contents recorded after the launch"):
        launch.after(0)
    with pytest.raises(SourceError, match="no texels recorded after the launch"):
        launch.image(16).pixels("after")


def test_weight_image(in_memory) -> None:
    launch = in_memory()
    assert launch.weight_image().view(np.float32)[15] == 15
    assert launch.weight_image(8).nbytes == 5000, "the allocation, not what lies past the pointer"
    none = launch.weight_image(48)
    assert (none.dtype, none.tolist()) == (np.uint8, [0] * 16)


def test_arena_is_the_largest_that_an_argument_points_into(in_memory) -> None:
    sizes = {4: 10, 1: 30, 2: 30, 0: 99}
    allocations = [Allocation(i, 0x1000 * (n + 1), size, np.zeros(size, np.uint8)) for n, (i, size) in enumerate(sizes.items())]
    launch = in_memory(allocations=allocations, pointers=[Pointer(40, 2, 0), Pointer(8, 1, 3), Pointer(0, 4, 0)])
    assert launch.arena().index == 1, "0 is larger, but nothing points into it; 2 is as large, but later"
    with pytest.raises(SourceError, match="no argument points into an allocation"):
        in_memory(pointers=[]).arena()


def test_relocated_args(in_memory) -> None:
    launch = in_memory()
    moved = launch.relocated_args({0: 0xAAAA_0000})
    assert moved[8:16] == (0xAAAA_0100).to_bytes(8, "little") and moved[:8] + moved[16:] == launch.args[:8] + launch.args[16:]


def test_find_and_nth(in_memory) -> None:
    capture = Capture([in_memory(n, kernel) for n, kernel in ((9, "dec0"), (2, "enc4"), (4, "pre_enc4"), (3, "enc0"))])
    assert [launch.seq for launch in capture.launches] == [2, 3, 4, 9]
    assert [launch.seq for launch in capture.find("enc4")] == [2, 4] and capture.find("nothing") == []
    assert capture.nth("enc", 3).seq == 4 and capture.kernels() == ["enc4", "enc0", "pre_enc4", "dec0"]
    for n in (0, -1, 4):
        with pytest.raises(UsageError, match="there are 3, counted from 1"):
            capture.nth("enc", n)
    with pytest.raises(UsageError, match="no launch has a kernel containing 'xyz'"):
        capture.nth("xyz", 1)


def test_launch_by_number_and_by_exact_name(in_memory) -> None:
    capture = Capture([in_memory(1, "foo_bar"), in_memory(2, "foo"), in_memory(3, "twice"), in_memory(4, "twice")])
    assert capture.launch(2).seq == capture.launch("foo").seq == 2
    with pytest.raises(UsageError, match=r"no launch has the kernel fooo; did you mean: foo\b"):
        capture.launch("fooo")
    with pytest.raises(UsageError, match="no launch has sequence number 7"):
        capture.launch(7)
    with pytest.raises(UsageError, match="2 launches have the kernel twice; choose by sequence number: 3, 4"):
        capture.launch("twice")


def test_arrays_are_taken_as_they_are() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    allocation = Allocation(0, 0x1000, 24, before=array)
    assert allocation.before.shape == (24,) and np.shares_memory(allocation.before, array)
    allocation.after = array[:, ::-1]
    after = allocation.after
    assert after is not None and after.view(np.float32).tolist() == [2, 1, 0, 5, 4, 3]
    assert Variable("v", bytearray(b"\x01")).before.tolist() == [1]
    for wrong in (None, "text", [1, 2], 7, np.array([object()]), np.array(["text"])):
        with pytest.raises(UsageError, match="contents must be an array of numbers or bytes"):
            Allocation(0, 0, 0, before=wrong)


def test_the_module_gives_its_hash(in_memory) -> None:
    assert in_memory(module=b"abc").module_hash == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert Launch(0, "k", (1, 1, 1), (1, 1, 1), b"").module_hash is None
    with pytest.raises(UsageError, match="hash is not that of the module"):
        in_memory(module=b"abc", module_hash="0" * 64).check()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kernel": "a b"}, "blanks"),
        ({"kernel": ""}, "not a name"),
        ({"kernel": "a\nb"}, "control"),
        ({"grid": (1, 1)}, "grid"),
        ({"block": (0, 1, 1)}, "block"),
        ({"shared_bytes": -1}, "shared size"),
        ({"pointers": [Pointer(57, 0, 0)]}, "does not fit the argument block"),
        ({"pointers": [Pointer(8, 1, 0)]}, "allocation 1, which is not there"),
        ({"pointers": [Pointer(8, 0, 0), Pointer(8, 2, 0)]}, "two pointers"),
        ({"args": b""}, "does not fit the argument block"),
        ({"allocations": [Allocation(0, (1 << 64) - 4, 8, b"12345678")]}, "does not fit 64-bit addresses"),
        ({"allocations": [Allocation(0, 0, 1, b"1"), Allocation(0, 4, 1, b"1")], "pointers": []}, "allocation 0 is given twice"),
        ({"variables": [Variable("v", b"12", b"1")]}, "variable v after the launch has 1 bytes, 2 expected"),
        (
            {"textures": [Image("texture", 0, 1, 1, 1, 1, 1), Image("texture", 8, 1, 1, 1, 1, 1, "point")]},
            "two filters, None and point",
        ),
        ({"module": None, "module_hash": "xyz"}, "64 hexadecimal digits"),
    ],
)
def test_contradictions(in_memory, changes: dict[str, object], says: str) -> None:
    in_memory().check()
    with pytest.raises(UsageError, match=says):
        in_memory(**changes).check()
