"""Launches on a GPU through ``execute``: every kind of memory, on the fake driver and, marked ``device``, on a real one."""

from __future__ import annotations

import struct
import tempfile
from multiprocessing import Pipe
from pathlib import Path

import gpu_kernels as kernels
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptxgraft
from ptxgraft import capture
from ptxgraft.errors import DeviceError, KernelFault, SourceError, UnsupportedError, UsageError
from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, cuda, execute
from ptxgraft.run.cuda import channel
from ptxgraft.run.cuda import worker as worker_module
from ptxgraft.run.images import Surface, Texture
from ptxgraft.text import Document
from ptxgraft.verify import replay

BASE = 0x7F10_0000_0000


def launch_of(text: str, args: bytes, memory, grid=(1, 1, 1), block=(32, 1, 1), **more) -> Launch:
    return Launch(bind(Document.parse(text), "k"), grid, block, args, allocations=list(memory), **more)


def test_a_kernel_launches_as_on_the_cpu(gpu: str) -> None:
    module = ptxgraft.load(kernels.SQUARES)
    found = {}
    for on in ("cpu", "cuda"):
        out = np.full(100, 0xDEADBEEF, np.uint32)
        result = module.kernel("k", on=on).launch((2,), (64,), [out, 90])
        assert result.executor == on and result.seconds > 0
        found[on] = out
    assert np.array_equal(found["cuda"], found["cpu"]) and np.array_equal(found["cpu"][:90], np.arange(90, dtype=np.uint32) ** 2)
    assert (found["cuda"][90:] == 0xDEADBEEF).all()


def test_memory_lies_at_the_launchs_addresses(gpu: str) -> None:
    odd = allocate(BASE + 0x1230, bytes(range(48)), "odd")
    launch = launch_of(
        kernels.ADDRESS, struct.pack("<Q", odd.base), [odd, allocate(BASE + 0x1290, bytes(32)), allocate(BASE + (9 << 20), 100)]
    )
    result = execute(launch, on="cuda")
    assert struct.unpack_from("<Q", odd.data.tobytes(), 8) == (odd.base,), result.notes
    assert bytes(odd.data[16:]) == bytes(range(16, 48)) and len(result.notes) == 1
    assert result.statements is None and result.engine == "cuda"


def test_pointers_inside_buffers_hold_at_the_launchs_addresses(gpu: str) -> None:
    target = allocate(BASE + 0x4000, struct.pack("<I", 41))
    head = allocate(BASE, struct.pack("<Q", target.base))
    execute(launch_of(kernels.FOLLOW, struct.pack("<Q", BASE), [head, target], block=(1, 1, 1)), on="cuda")
    assert bytes(target.data) == struct.pack("<I", 42)


def test_refused_addresses_are_relocated_and_told(fake) -> None:
    fake.behave(f"refuse={BASE + (3 << 30):x}")
    stays, moves = allocate(BASE, 64, "stays"), allocate(BASE + (3 << 30) + 512, 64, "moves")
    launch = launch_of(kernels.ADDRESS, struct.pack("<Q", moves.base), [stays, moves])
    result = execute(launch, on="cuda")
    (stored,) = struct.unpack_from("<Q", moves.data.tobytes(), 8)
    assert stored != moves.base
    told = [n for n in result.notes if n.startswith("moves")]
    assert told == [f"moves lies at {stored:#x} on the GPU, not at {moves.base:#x}: the driver gave no memory there"]
    assert not any(n.startswith("stays") for n in result.notes)


def test_without_virtual_memory_everything_moves_and_stray_pointers_are_told(fake) -> None:
    fake.behave("no-vmm")
    inner = allocate(BASE + 64, 64, "inner")
    outer = allocate(BASE + 4096, struct.pack("<QQ", inner.base + 8, 5), "outer")
    result = execute(launch_of(kernels.SQUARES, struct.pack("<QI", inner.base, 16), [inner, outer]), on="cuda")
    assert np.array_equal(inner.data.view(np.uint32), np.arange(16, dtype=np.uint32) ** 2)
    assert any("outer holds 1 words that look like pointers" in n for n in result.notes), result.notes
    assert sum("the driver gave no memory there" in n for n in result.notes) == 2


def test_module_variables_keep_their_contents_from_launch_to_launch(gpu: str) -> None:
    module = ptxgraft.load(kernels.COUNTER)
    got = []
    for on in ("cuda", "cpu", "cuda"):
        out = np.zeros(3, np.uint32)
        module.kernel("k", on=on).launch((1,), (1,), [out])
        got.append(out.tolist())
    assert got == [[5, 6, 31], [6, 7, 31], [7, 8, 31]]
    assert struct.unpack_from("<QQ", module.variables["table"].data.tobytes()) == (7, module.variables["counter"].base)


def test_a_pointer_that_a_kernel_puts_into_a_variable_stays_there(fake_for_all) -> None:
    module = ptxgraft.load(
        kernels.COUNTER + kernels.entry("", "mov.u64 %rd1, table; st.global.u64 [%rd1+8], 99;", name="spoil").split("64", 1)[1]
    )
    module.kernel("spoil", on="cuda").launch((1,), (1,), [])
    assert struct.unpack_from("<QQ", module.variables["table"].data.tobytes()) == (7, 99)
    module.kernel("spoil", on="cuda").launch((1,), (1,), [])
    cuda.close_all()
    with pytest.raises(KernelFault, match="ILLEGAL_ADDRESS"):  # it reads through the pointer
        module.kernel("k", on="cuda").launch((1,), (1,), [np.zeros(3, np.uint32)])


def test_a_kernel_without_parameters(gpu: str) -> None:
    module = ptxgraft.load(kernels.entry("", "mov.u64 %rd1, word; st.global.u32 [%rd1], 17;", ".visible .global .align 4 .u32 word;"))
    module.kernel("k", on="cuda").launch((1,), (1,), [])
    assert module.variables["word"].data.tobytes() == struct.pack("<I", 17)


@pytest.mark.parametrize("kib", [1, 48, 96, 227])
def test_dynamic_shared_memory(gpu: str, kib: int) -> None:
    out = np.zeros(64, np.uint32)
    ptxgraft.load(kernels.SHARED).kernel("k", on="cuda").launch((1,), (64,), [out, (kib << 10) - 4], shared_bytes=kib << 10)
    assert (out == 4711).all()


def test_what_a_kernel_prints_comes_back(gpu: str) -> None:
    kernel = ptxgraft.load(kernels.PRINTS).kernel("k", on="cuda")
    assert [kernel.launch((1,), (2,), [n]).output for n in (3, 40)] == ["n is 3\n" * 2, "n is 40\n" * 2]


def test_textures_and_surfaces(gpu: str) -> None:
    texels = np.random.default_rng(5).random((3, 8, 1), np.float32)
    surface = np.full((3, 8, 1), -1, np.float32)
    ptxgraft.load(kernels.IMAGES).kernel("k", on="cuda").launch((3,), (8,), [Texture(texels), Surface(surface), 1])
    assert np.array_equal(surface, 2 * texels)


IMAGES = {
    "1d": ("tex.1d.v4.f32.f32", "{%f1}]", (16, 1), {}),
    "2d linear": ("tex.2d.v4.f32.f32", "{%f1, %f2}]", (8, 16, 2), {"filter": "linear"}),
    "3d": ("tex.3d.v4.f32.f32", "{%f1, %f2, %f7, %f7}]", (4, 8, 16, 1), {}),
    "layers": ("tex.a2d.v4.f32.f32", "{%r4, %f1, %f2, %f2}]", (2, 8, 16, 4), {"layered": True}),
    "1d layers": ("tex.a1d.v4.f32.f32", "{%r4, %f1}]", (2, 16, 1), {"layered": True}),
    "cube": ("tex.cube.v4.f32.f32", "{%f1, %f2, %f7, %f7}]", (6, 8, 8, 1), {"cube": True}),
    "level": ("tex.level.2d.v4.f32.f32", "{%f1, %f2}], %f7", (8, 16, 1), {"levels": 4, "mip_filter": "linear", "filter": "linear"}),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_of_all_shapes_read_as_on_the_cpu(gpu: str, name: str) -> None:
    opcode, coordinates, shape, settings = IMAGES[name]
    settings = dict(settings)
    random = np.random.default_rng(9)
    levels = settings.pop("levels", 1)
    arrays = [random.random((*(max(1, s >> n) for s in shape[:-1]), shape[-1]), np.float32) for n in range(levels)]
    texture = Texture(arrays[0], normalized=True, address="wrap", mipmaps=arrays[1:], **settings)
    module = ptxgraft.load(kernels.fetches(opcode, coordinates))
    found = {}
    for on in ("cpu", "cuda"):
        found[on] = np.zeros((16, 4), np.float32)
        module.kernel("k", on=on).launch((1,), (16,), [texture, found[on]])
    assert found["cpu"].any() and found["cuda"].tobytes() == found["cpu"].tobytes()


def test_only_handles_are_exchanged_for_handles() -> None:
    args = struct.pack("<4Q", 1, 2, 1, 0x5008)
    spans = [(0x5000, 8, 0x9000), (0x5008, 8, 0xA000)]
    assert struct.unpack("<4Q", cuda.exchanged(args, spans, {1: 70, 2: 71}, (0, 8))) == (70, 71, 1, 0xA000)
    assert struct.unpack("<4Q", cuda.exchanged(args, spans, {1: 70, 2: 71})) == (70, 71, 70, 0xA000)
    assert struct.unpack("<4Q", cuda.exchanged(args, spans[:1], {}, ())) == (1, 2, 1, 0x9008)


def test_an_endless_kernel_is_stopped_and_the_next_one_runs(gpu: str) -> None:
    out = np.zeros(4, np.uint32)
    with pytest.raises(KernelFault, match=r"did not end within 2 s .*timeout"):
        ptxgraft.load(kernels.ENDLESS).kernel("k", on="cuda").launch((1,), (1,), [out], timeout=2)
    ptxgraft.load(kernels.SQUARES).kernel("k", on="cuda").launch((1,), (32,), [out, 4])
    assert out.tolist() == [0, 1, 4, 9]


@pytest.mark.parametrize(("text", "code"), [(kernels.WILD, "ILLEGAL_ADDRESS"), (kernels.TRAP, "")])
def test_a_faulting_kernel_is_told_and_the_next_one_runs(gpu: str, text: str, code: str) -> None:
    out = np.arange(4, dtype=np.uint32)
    with pytest.raises(KernelFault, match=rf"(?s)k on .*CUDA_ERROR_.*{code}.*replay it on cpu"):
        ptxgraft.load(text).kernel("k", on="cuda").launch((1,), (1,), [out])
    assert out.tolist() == [0, 1, 2, 3]
    ptxgraft.load(kernels.SQUARES).kernel("k", on="cuda").launch((1,), (32,), [out, 4])
    assert out.tolist() == [0, 1, 4, 9]


def test_a_child_that_dies_is_an_error_with_its_last_words(fake) -> None:
    fake.behave("die")
    kernel = ptxgraft.load(kernels.SQUARES).kernel("k", on="cuda")
    with pytest.raises(DeviceError, match=r"died \(exit code 3\): the fake GPU caught fire"):
        kernel.launch((1,), (32,), [np.zeros(4, np.uint32), 4])


def test_big_arrays_travel_whole(gpu: str) -> None:
    many = 3 << 18
    data = np.random.default_rng(1).integers(0, 1 << 32, many, dtype=np.uint32)
    out = data.copy()
    ptxgraft.load(kernels.SQUARES).kernel("k", on="cuda").launch((1,), (32,), [out, 7])
    assert np.array_equal(out[7:], data[7:]) and np.array_equal(out[:7], np.arange(7, dtype=np.uint32) ** 2)


def test_modules_that_the_driver_refuses(gpu: str) -> None:
    launch = launch_of(kernels.SQUARES, struct.pack("<QI", BASE, 4), [allocate(BASE, 16)])
    with pytest.raises(SourceError, match=r"(?s)the driver cannot load the module: CUDA_ERROR"):
        execute(launch, on="cuda", image=b".version 8.0\n.target sm_80\nnonsense;")


def test_options_of_the_cpu_are_refused(fake) -> None:
    launch = launch_of(kernels.SQUARES, struct.pack("<QI", BASE, 4), [allocate(BASE, 16)])
    for option in ({"step_budget": 5}, {"threads": 1}, {"blocks": [0]}):
        with pytest.raises(UnsupportedError, match=f"cannot be given {next(iter(option))}"):
            execute(launch, on="cuda", **option)
    with pytest.raises(UsageError, match="for a GPU"):
        execute(launch, timeout=3)
    with pytest.raises(UsageError, match="executor 'opencl' is unknown"):
        execute(launch, on="opencl")


def test_without_the_package_the_error_says_what_to_install(monkeypatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    cuda.close_all()
    available, why = cuda.availability()
    assert not available and "cuda-bindings" in why and "pip install" in why


def test_callers_at_the_same_time_have_children_of_their_own(gpu: str) -> None:
    with cuda.borrow() as one, cuda.borrow() as two:
        assert one is not two and one.process.pid != two.process.pid
        assert one.ask("card") == two.ask("card")
    with cuda.borrow() as again:
        assert again in (one, two)


def test_grids_that_wait_for_all_their_blocks_are_launched_cooperatively(gpu: str) -> None:
    for on in ("cpu", "cuda"):
        out = np.zeros(1, np.uint32)
        ptxgraft.load(kernels.WORKSPACE).kernel("k", on=on).launch((2,), (32,), [out])
        assert out[0] == 1, on


@pytest.mark.device
def test_a_recorded_cluster_is_launched_as_one() -> None:
    available, why = cuda.availability()
    if not available:
        pytest.skip(why)
    allocation = capture.Allocation(0, BASE, 4, np.zeros(4, np.uint8))
    recorded = capture.Launch(
        0, "k", (4, 1, 1), (32, 1, 1), struct.pack("<Q", BASE), allocations=[allocation], pointers=[capture.Pointer(0, 0, 0)],
        module=kernels.CLUSTER, cluster=(2, 1, 1),
    )  # fmt: skip
    assert struct.unpack("<I", replay(recorded, on="cuda").outputs[0].data.tobytes()) == (2,)


def test_a_session_that_stays_open_does_not_disturb_other_launches(gpu: str) -> None:
    launch = launch_of(kernels.SQUARES, struct.pack("<QI", BASE, 8), [allocate(BASE, bytes(64))])
    code = cuda.Code(launch.program.document.data, "k")
    with cuda.borrow() as worker:
        worker.ask("open", cuda.work_of(launch), True)
        left, *_ = worker.ask("run", cuda.work_of(launch), code, False)[0]
        worker.ask("repeat", code, False, False)
        again, _ = worker.ask("fetch", code)
        assert (
            left.spans[0].tobytes()
            == again.spans[0].tobytes()
            == (np.arange(16, dtype=np.uint32) ** 2 * (np.arange(16) < 8)).astype("<u4").tobytes()
        )
        worker.ask("close")


def test_a_process_that_was_forked_gets_children_of_its_own(fake_for_all) -> None:
    with cuda.borrow() as worker:
        mine = worker.process.pid
    pool = worker_module._POOL
    pool.owner = -1  # as after a fork
    with cuda.borrow() as other:
        assert other.process.pid != mine
    worker.close()


# -- messages between processes -------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3 * channel.INLINE_BYTES), max_size=4), st.integers(0, 1 << 40))
def test_messages_arrive_whole_and_as_their_own(sizes: list[int], number: int) -> None:
    arrays = [np.random.default_rng(n).integers(0, 256, size, np.uint8) for n, size in enumerate(sizes)]
    here, there = Pipe()
    with tempfile.TemporaryDirectory() as name, here, there:
        sender, receiver = channel.Channel(here, Path(name), "a"), channel.Channel(there, Path(name), "b")
        sender.send((number, arrays))
        again, received = receiver.receive()
        assert again == number and [a.tobytes() for a in received] == [a.tobytes() for a in arrays]
        assert not list(Path(name).iterdir())
        for array, copy in zip(arrays, received, strict=True):
            if copy.flags.writeable and copy.size:
                copy[0] ^= 255
                assert array[0] != copy[0]
