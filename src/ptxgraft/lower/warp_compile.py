"""Compiled functions of operations, in this process: from memory, from the cache, or made now.

Invariant: a function's name says all that its code depends on, together with ``code_version``; what is loaded stays loaded. Thread-safe.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Protocol

import ptxgraft.isa
import ptxgraft.lower
from ptxgraft.errors import UnsupportedError
from ptxgraft.isa import Form
from ptxgraft.lower import jit
from ptxgraft.lower.warp_native import NAME
from ptxgraft.lower.warp_operations import Operation, function_text
from ptxgraft.lower.warp_runtime import runtime_text
from ptxgraft.lower.warp_state import RUNTIME

ENTRY, TURN = "run_grid", "run_turn"


class Store(Protocol):
    """Where objects are kept between processes."""

    def get(self, key: str) -> bytes | None: ...
    def put(self, key: str, data: bytes) -> None: ...


@cache
def code_version() -> str:
    """What compiled code depends on besides an operation: the sources of this package and of ``isa``, LLVM, the CPU."""
    digest = hashlib.sha256(jit.cache_key_part().encode())
    for package in (ptxgraft.isa, ptxgraft.lower):
        for directory in package.__path__:
            for path in sorted(Path(directory).rglob("*.py")):
                digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _library() -> dict[str, int]:
    library = ctypes.CDLL(None)
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in ("memset", "memcpy", "memmove")}


class Functions:
    """Addresses of compiled functions by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: dict[str, int] = {}
        self._engines: list[jit.Engine] = []

    def runtime(self, store: Store) -> Mapping[str, int]:
        """The runtime module's functions: the grid loop, ``RUNTIME`` and the control operations."""
        with self._lock:
            if ENTRY not in self._addresses:
                key = _key("runtime")
                found = store.get(key)
                if found is None:
                    found = jit.compile_ir(runtime_text(), 2, passes="O2")
                    store.put(key, found)
                names = sorted(jit.object_symbols(found)[0])
                self._load([found], names)
                assert {ENTRY, TURN, *RUNTIME} <= self._addresses.keys()
            return self._addresses

    def native(self, key: str, make: Callable[[], str], store: Store, passes: str) -> int:
        """The address of a program's function. ``key`` names the program and all that it depends on; ``make`` gives its module's text."""
        with self._lock:
            found = self._addresses.get(key)
            if found is None:
                data = store.get(_key(key))
                if data is None:
                    data = jit.compile_ir(make(), 2, passes=passes)
                    store.put(_key(key), data)
                engine = jit.load_objects([data], _library())
                self._engines.append(engine)
                found = self._addresses[key] = engine.address(NAME)
            return found

    def operations(
        self, wanted: Mapping[str, tuple[Operation, Form]], store: Store
    ) -> tuple[Mapping[str, int], dict[str, UnsupportedError]]:
        """(addresses of at least those of the wanted operations' functions that can be had, errors by name of those that cannot)."""
        with self._lock:
            missing = [name for name in wanted if name not in self._addresses]
            objects: dict[str, bytes] = {}
            refused: dict[str, UnsupportedError] = {}
            for name in missing:
                found = store.get(_key(name))
                if found is None:
                    try:
                        found = compile_operation(*wanted[name])
                    except UnsupportedError as error:
                        refused[name] = error
                        continue
                    store.put(_key(name), found)
                objects[name] = found
            if objects:
                self._load(list(objects.values()), list(objects))
            return self._addresses, refused

    def _load(self, objects: list[bytes], names: list[str]) -> None:
        engine = jit.load_objects(objects, _library())
        self._engines.append(engine)
        self._addresses.update((name, engine.address(name)) for name in names)


def _key(name: str) -> str:
    return hashlib.sha256(f"{code_version()} {name}".encode()).hexdigest()


def compile_operation(operation: Operation, form: Form) -> bytes:
    """The object of one operation."""
    # Tensor-core operations are loops in which all the time goes; the others are too short to gain from more than registers.
    passes = "O1" if form.family == "tensor" else "sroa"
    return jit.compile_ir(function_text(operation, form, jit.host().names), 2, passes=passes)


FUNCTIONS = Functions()
"""This process's functions."""
