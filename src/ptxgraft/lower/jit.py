"""LLVM text to machine code, and machine code into this process.

Invariant: nothing is loaded whose external symbols are not all known, because a call to an unresolved one kills the process without
a word. Objects are plain bytes, so that they can be compiled elsewhere and kept on disk; ``cache_key_part`` says what they depend on
besides their text.
"""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import llvmlite
from llvmlite import binding as llvm

from ptxgraft.errors import UnsupportedError

REQUIRED = ("avx2", "bmi2", "f16c", "fma")
"""CPU features without which some operation would become a library call with other bits, or none at all."""

REVISION = "2"
"""Of how text becomes code: raised when the same text becomes other code, so that code kept on disk is made again."""

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Host:
    """A CPU to compile for: LLVM's name for it and its features, sorted, each ``+name`` or ``-name``."""

    cpu: str
    features: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the features that the CPU has."""
        return frozenset(f[1:] for f in self.features if f[0] == "+")

    def without(self, *names: str) -> Host:
        """The same CPU with features switched off (tests of the other code paths)."""
        return Host(self.cpu, tuple(sorted({f for f in self.features if f[1:] not in names} | {f"-{n}" for n in names})))


@cache
def host() -> Host:
    """This machine's CPU. UnsupportedError when it lacks what exact arithmetic needs."""
    features = llvm.get_host_cpu_features()
    missing = [name for name in REQUIRED if not features.get(name)]
    if missing:
        raise UnsupportedError(f"the warp executor needs a CPU with {', '.join(missing)}", hint="engine='numpy' runs anywhere")
    return Host(llvm.get_host_cpu_name(), tuple(sorted(("+" if on else "-") + name for name, on in features.items())))


def cache_key_part() -> str:
    """What an object depends on besides its text: LLVM, the bindings and the CPU."""
    machine = host()
    return " ".join((REVISION, llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info)), machine.cpu, *machine.features))


# LLVM 22.1's x86 code generator miscompiles ``select(k, (x & C) | (y & ~C), x)`` with a constant C: it makes one masked vpternlog of it and permutes the
# operands without the table (found by the differential fuzzer; tests/lower/test_jit_merges.py has all forms). Nothing in the text says where that happens,
# but a masked vpternlog in the machine code does. Such a module is compiled again with its constants hidden, so that the fold is never tried.
def _bytes_where(keep: Callable[[int], bool]) -> bytes:
    return b"[" + b"".join(re.escape(bytes([b])) for b in range(256) if keep(b)) + b"]"


_MASKED_MERGE = re.compile(
    b"\x62" + _bytes_where(lambda b: b & 0x0F == 3) + _bytes_where(lambda b: b & 7 == 5) + _bytes_where(lambda b: b & 7 != 0) + b"\x25",
    re.S,
)
"""An EVEX vpternlogd or vpternlogq with a mask (Intel's manual, volume 2, "EVEX encoding"); other bytes may look like one, which costs a second compilation."""
_CONSTANT = re.compile(r"(?m)^(\s*)(%\S+ = (?:and|or|xor|shl|lshr|ashr) (<(\d+) x (i\d+)>) \S+, )(splat \(i\d+ (-?\d+)\))$")


def merges_bits(data: bytes) -> bool:
    """May an object hold a masked vpternlog?"""
    return _MASKED_MERGE.search(data) is not None


def hidden_masks(text: str) -> str:
    """The text with the constants of bitwise operations and shifts loaded from memory whose contents LLVM must not assume."""
    places: dict[str, str] = {}

    def load(found: re.Match[str]) -> str:
        indent, head, shape, count, element, constant, value = found.groups()
        if value == "-1":  # a complement
            return found[0]
        place = f"@hidden.{count}.{element}.{value.replace('-', 'm')}"
        places[place] = f"{place} = internal externally_initialized global {shape} {constant}, align 64"
        name = f"%hidden{found.start()}"
        return f"{indent}{name} = load {shape}, ptr {place}, align 64\n{indent}{head}{name}"

    changed = _CONSTANT.sub(load, text)
    return "\n".join([changed, *places.values(), ""])


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _target_machine(machine: Host, level: int) -> llvm.TargetMachine:
    _initialise()
    target = llvm.Target.from_default_triple()
    # No contraction: llvmlite's default leaves fp-fusion to the text, and the text never allows it.
    return target.create_target_machine(
        cpu=machine.cpu, features=",".join(machine.features), opt=level, reloc="default", codemodel="jitdefault"
    )


def compile_ir(text: str, opt_level: int = 1, machine: Host | None = None, passes: str = "sroa") -> bytes:
    """Machine code (an ELF object) of a module's text.

    ``opt_level``: the code generator's, 0 to 3. ``passes`` run before it: ``none``, ``sroa``, ``quick`` (also values that are there already, and what
    branches leave over; all linear in the text's length), or a whole pipeline ``O1`` to ``O3`` (wanted where addresses are affine in a loop). Text that LLVM refuses is a bug of ours: AssertionError with LLVM's message.
    """
    data = _object(text, opt_level, machine or host(), passes)
    return _object(hidden_masks(text), opt_level, machine or host(), passes) if merges_bits(data) else data


def _object(text: str, opt_level: int, machine: Host, passes: str) -> bytes:
    with _lock:
        tm = _target_machine(machine, opt_level)
        try:
            module = llvm.parse_assembly(text)
        except RuntimeError as error:
            raise AssertionError(f"LLVM refuses the text: {error}") from error
        module.triple = tm.triple
        module.data_layout = str(tm.target_data)
        module.verify()
        _optimise(module, tm, passes)
        return tm.emit_object(module)


def _optimise(module: llvm.ModuleRef, tm: llvm.TargetMachine, passes: str) -> None:
    if passes == "none":
        return
    tuning = llvm.create_pipeline_tuning_options(speed_level=int(passes[1]) if passes[0] == "O" else 1)
    # Values are vectors already: these two would only cost time.
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(tm, tuning)
    if passes in ("sroa", "quick"):
        manager = llvm.create_new_module_pass_manager()
        manager.add_sroa_pass()
        if passes == "quick":
            manager.add_new_gvn_pass()
            manager.add_simplify_cfg_pass()
    else:
        manager = builder.getModulePassManager()
    manager.run(module, builder)


class Engine:
    """Loaded machine code. Keep it for as long as an address taken from it may be called."""

    def __init__(self, compiler: llvm.ExecutionEngine) -> None:
        self._compiler = compiler

    def address(self, name: str) -> int:
        """The address of a function; KeyError when no object defines it."""
        with _lock:
            found = self._compiler.get_function_address(name)
        if not found:
            raise KeyError(name)
        return found


def load_objects(objects: Sequence[bytes], symbols: Mapping[str, int] | None = None) -> Engine:
    """Link objects with each other, with ``symbols`` (name to address) and with the C library, and load them.

    A symbol that none of these has is a bug of ours: AssertionError naming it, before anything can be called.
    """
    given = {**_c_library(), **(symbols or {})}
    defined: set[str] = set()
    wanted: set[str] = set()
    for data in objects:
        has, needs = object_symbols(data)
        defined |= has
        wanted |= needs
    with _lock:
        for name in sorted(wanted - defined):
            if name not in given:
                raise AssertionError(f"compiled code calls {name!r}, which nothing defines")
            llvm.add_symbol(name, given[name])
        _initialise()
        backing = llvm.parse_assembly("")
        target = _target_machine_for_engine()
        compiler = llvm.create_mcjit_compiler(backing, target)
        for data in objects:
            compiler.add_object_file(llvm.ObjectFileRef.from_data(data))
        compiler.finalize_object()
    return Engine(compiler)


@cache
def _c_library() -> dict[str, int]:
    """What the code generator may call on its own. Arithmetic functions are left out: their bits are not ours."""
    library = ctypes.CDLL(None)
    found = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in ("memcpy", "memmove", "memset")}
    return {name: place for name, place in found.items() if place}


def _target_machine_for_engine() -> llvm.TargetMachine:
    # An engine takes its target machine over, so it must have one of its own.
    return llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault")


def object_symbols(data: bytes) -> tuple[set[str], set[str]]:
    """Names that an ELF64 object defines for others, and names that it needs. UnsupportedError for any other kind of object."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise UnsupportedError("the warp executor loads ELF objects only", hint="engine='numpy' runs anywhere")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    defined: set[str] = set()
    needed: set[str] = set()
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        names = sections[section[6]][4]
        for offset in range(section[4], section[4] + section[5], 24):
            name, info, _, where, _, _ = struct.unpack_from("<IBBHQQ", data, offset)
            if name and info >> 4:  # not a local symbol
                text = data[names + name : data.index(b"\0", names + name)].decode()
                (defined if where else needed).add(text)
    return defined, needed - defined
