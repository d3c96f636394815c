"""The Python API: load a module, take a kernel, launch it with Python values.

Invariant: an argument either fits its parameter exactly or is refused by name; an array that was passed holds afterwards what the kernel left there.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import KernelFault, UnsupportedError, UsageError
from ptxgraft.isa.binding import bind
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.isa.program import Program, Variable
from ptxgraft.isa.types import TYPES
from ptxgraft.run.execution import DEFAULT_PROFILE, ENGINES, EXECUTORS, check_choice, execute
from ptxgraft.run.heap import Heap
from ptxgraft.run.images import Surface, Texture
from ptxgraft.run.launch import STACK_BYTES, Launch, dim3
from ptxgraft.run.memory import FIRST_ADDRESS, Allocation, allocate, behind
from ptxgraft.run.overlaps import Shared, shared_bytes_of
from ptxgraft.run.references import Bound
from ptxgraft.run.result import RunResult
from ptxgraft.text import Document

PLACES = ("cpu", "cuda", "hip")
_ACCESS = re.compile(r"(?:reads|writes) \d+ bytes at (?:global address )?(0x[0-9a-f]+)")
_REACH = 1 << 36
"""Bytes behind a number up to which an address is thought to count from it."""
FIRST_HANDLE = 0x1_0000_0001
"""Handles of textures and surfaces count up from here: none looks like a small number or an address."""


def load(source: str | bytes | bytearray | os.PathLike[str]) -> Module:
    """A module from a file (a path) or from PTX text (``bytes``, or a ``str`` with a line end or a ``.version`` in it).

    Raises ``SourceError`` when it cannot be read or is no PTX.
    """
    if isinstance(source, (bytes, bytearray)):
        return Module(Document.parse(bytes(source)))
    if isinstance(source, str) and ("\n" in source or ".version" in source or not source):
        return Module(Document.parse(source))
    return Module(Document.read(Path(source)))


@dataclass(eq=False)
class Module:
    """A parsed module. Its variables and the heap of ``malloc`` keep their contents from launch to launch, for all its kernels."""

    document: Document
    variables: dict[str, Allocation] = field(default_factory=dict)
    heap: Heap | None = None

    @property
    def entries(self) -> list[str]:
        """The names of the kernels."""
        return [e.name for e in self.document.entries]

    def kernel(self, name: str, on: str = "cpu", profile: str = DEFAULT_PROFILE, engine: str = "warp") -> Kernel:
        """A kernel by its exact name, to run ``on`` the CPU (``cpu``) with the numerics of ``profile`` by ``engine`` (warp: fast; numpy: the reference), or on
        a GPU (``cuda``), whose numerics are its own."""
        check_choice("place", on, PLACES)
        check_choice("profile", profile, list(PROFILES))
        check_choice("engine", engine, list(ENGINES))
        if on not in EXECUTORS:
            raise UnsupportedError(f"kernels cannot be launched on {on!r} yet", hint=f"there are: {', '.join(EXECUTORS)}")
        return Kernel(self, bind(self.document, name), profile, engine, on)


@dataclass(eq=False)
class Kernel:
    """One kernel of a module, bound and ready to launch."""

    module: Module
    program: Program
    profile: str
    engine: str
    on: str = "cpu"

    @property
    def name(self) -> str:
        return self.program.name

    def launch(
        self,
        grid: SupportsIndex | Sequence[SupportsIndex],
        block: SupportsIndex | Sequence[SupportsIndex],
        args: Sequence[Any] = (),
        shared_bytes: int = 0,
        stack_bytes: int = STACK_BYTES,
        references: Mapping[str, Bound] | None = None,
        **options: Any,
    ) -> RunResult:
        """Run the kernel and bring back what it wrote.

        ``args`` go by position: a number becomes the parameter's type; an array a buffer whose pointer is passed and whose contents come back into the
        same array (the same array given twice is one buffer, and views that overlap lie in one); ``bytes`` fill a by-value parameter; a ``Texture`` or ``Surface`` becomes a handle.
        ``stack_bytes`` is what a thread may have of stack (recursion, calls through pointers, ``alloca``). ``references`` binds a ``Texture``, ``Surface`` or ``Sampler`` to each
        module variable ``.texref``, ``.surfref`` or ``.samplerref`` that the kernel reads through, by name. ``options`` go to ``run.execute``. Raises ``UsageError`` for arguments that do not fit.
        """
        prepared = self.prepare(grid, block, args, shared_bytes, stack_bytes, references)
        return prepared.run(engine=self.engine, profile=self.profile, on=self.on, **options)

    def prepare(
        self,
        grid: SupportsIndex | Sequence[SupportsIndex],
        block: SupportsIndex | Sequence[SupportsIndex],
        args: Sequence[Any] = (),
        shared_bytes: int = 0,
        stack_bytes: int = STACK_BYTES,
        references: Mapping[str, Bound] | None = None,
    ) -> Prepared:
        """The launch that ``launch`` would run, not run yet: to record it, watch it or run parts of it."""
        params = self.program.params
        if len(args) != len(params):
            names = ", ".join(f"{p.name} ({_type_of(p)})" for p in params) or "none"
            raise UsageError(f"{self.name} takes {len(params)} arguments, not {len(args)}", hint=f"its parameters: {names}")
        arrays = [(p.name, a) for p, a in zip(params, args, strict=True) if isinstance(a, np.ndarray) and not a.dtype.hasobject]
        packer = _Packer(self.program, shared_bytes_of(arrays))
        for param, value in zip(params, args, strict=True):
            packer.put(param, value)
        launch = Launch(
            self.program, dim3(grid, "grid"), dim3(block, "block"), bytes(packer.block), shared_bytes, packer.allocations, packer.textures,
            packer.surfaces, self.module.variables, stack_bytes=stack_bytes, heap=self.module.heap, handles_at=tuple(packer.handles_at), references=references or {},
        )  # fmt: skip
        self.module.heap = launch.heap
        return Prepared(launch, packer.arrays, packer.numbers)


@dataclass(eq=False)
class Prepared:
    """A launch and the arrays that its first allocations are copies of. ``numbers`` are those given for parameters that could be pointers, by name."""

    launch: Launch
    arrays: list[NDArray]
    numbers: dict[str, int] = field(default_factory=dict)

    def run(self, **options: Any) -> RunResult:
        """Run it once and bring back what it wrote. ``options`` go to ``run.execute``."""
        try:
            result = execute(self.launch, **options)
        except BaseException as error:
            self.bring_back(check=False)  # what went wrong first is what is raised
            if isinstance(error, KernelFault) and not error.hint:
                error.hint = self._number_taken_for_a_pointer(error)
            raise
        self.bring_back()
        return result

    def _number_taken_for_a_pointer(self, fault: KernelFault) -> str:
        """What to say of a bad access at or a little behind a number that was given for a parameter; '' when it is none."""
        match = _ACCESS.search(fault.message)
        near = [(n, v) for n, v in self.numbers.items() if match and v <= int(match[1], 16) < v + _REACH]
        return "; ".join(
            f"parameter {n} was given the number {v}, and this address counts from it: a pointer is passed as an array" for n, v in near[:1]
        )

    def bring_back(self, check: bool = True) -> None:
        """Copy the buffers back into the arrays. Raises ``UsageError`` when the kernel wrote to an array that is read-only (``check``)."""
        for allocation, array in zip(self.launch.allocations, self.arrays, strict=True):
            now = allocation.data.view(array.dtype).reshape(array.shape)
            if array.flags.writeable:
                array[...] = now
            elif check and not np.array_equal(np.ascontiguousarray(array).reshape(-1).view(np.uint8), allocation.data):
                raise UsageError(f"{self.launch.program.name} wrote to {allocation.name}, whose array is read-only")


def _type_of(param: Variable) -> str:
    count = param.size // TYPES[param.type].bytes
    return param.type if count == 1 else f"{param.type}[{count}]"


class _Packer:
    """Turns Python values into an argument block and the memory behind it."""

    def __init__(self, program: Program, overlaps: Mapping[int, tuple[Shared, int]]) -> None:
        self.overlaps = overlaps
        self.name = program.name
        self.block = bytearray(program.param_bytes)
        self.allocations: list[Allocation] = []
        self.arrays: list[NDArray] = []
        self.textures: dict[int, Texture] = {}
        self.surfaces: dict[int, Surface] = {}
        self.handles_at: list[int] = []
        self.numbers: dict[str, int] = {}
        self._address = FIRST_ADDRESS
        self._known: dict[int, int] = {}

    def put(self, param: Variable, value: Any) -> None:
        """Fill one parameter."""
        raw = self._raw(param, value)
        if len(raw) != param.size:
            raise self._refuse(param, value, f"{len(raw)} bytes for {param.size}")
        self.block[param.offset : param.offset + param.size] = raw

    def _refuse(self, param: Variable, value: Any, why: str) -> UsageError:
        return UsageError(f"{self.name}: parameter {param.name} is {_type_of(param)}; {type(value).__name__} does not fit: {why}")

    def _raw(self, param: Variable, value: Any) -> bytes:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, (Texture, Surface)):
            self.handles_at.append(param.offset)
            return self._pointer(param, value, self._handle(value))
        if isinstance(value, np.ndarray):
            return self._pointer(param, value, self._buffer(param, value))
        if isinstance(value, (bool, int, float, np.generic)):
            if param.size != TYPES[param.type].bytes:
                raise self._refuse(param, value, "give the bytes of the whole parameter")
            number = value.item() if isinstance(value, np.generic) else value
            if TYPES[param.type].kind in "ub" and param.size == 8 and isinstance(number, int):
                self.numbers[param.name] = number
            return self._number(param, number)
        raise self._refuse(param, value, "give a number, an array, bytes, a Texture or a Surface")

    def _pointer(self, param: Variable, value: Any, number: int) -> bytes:
        if param.size != 8:
            raise self._refuse(param, value, "a pointer or handle takes 8 bytes")
        return number.to_bytes(8, "little")

    def _handle(self, image: Texture | Surface) -> int:
        if id(image) not in self._known:
            handle = FIRST_HANDLE + len(self.textures) + len(self.surfaces)
            if isinstance(image, Texture):
                self.textures[handle] = image
            else:
                self.surfaces[handle] = image
            self._known[id(image)] = handle
        return self._known[id(image)]

    def _buffer(self, param: Variable, array: NDArray) -> int:
        if array.dtype.hasobject:
            raise self._refuse(param, array, "an array of Python objects has no bytes to pass")
        shared, offset = self.overlaps.get(id(array), (None, 0))
        whole, name = (array, f"argument {param.name}") if shared is None else (shared.whole, f"arguments {', '.join(shared.names)}")
        if id(whole) not in self._known:
            allocation = allocate(self._address, whole, name)
            self._known[id(whole)] = self._address
            self.allocations.append(allocation)
            self.arrays.append(whole)
            self._address = behind(allocation.end)
        return self._known[id(whole)] + offset

    def _number(self, param: Variable, value: Any) -> bytes:
        type = TYPES[param.type]
        if type.kind == "f" or (type.kind == "b" and isinstance(value, float)):
            code = {16: "<e", 32: "<f", 64: "<d"}.get(type.width)
            if code is None or type.name == "bf16":
                raise self._refuse(param, value, "give its bytes")
            try:
                return struct.pack(code, value)
            except (OverflowError, struct.error) as error:
                raise self._refuse(param, value, str(error)) from None
        if isinstance(value, float):
            if not value.is_integer():
                raise self._refuse(param, value, f"{value} is no whole number")
            value = int(value)
        low = -(1 << (type.width - 1))
        high = 1 << type.width
        if type.kind == "s":
            high >>= 1
        if not (low if type.kind != "u" else 0) <= value < high:
            raise self._refuse(param, value, f"{value} is out of range")
        return (int(value) & ((1 << type.width) - 1)).to_bytes(type.bytes, "little")
