"""Asking ptxas whether a text is legal.

Invariant: the text goes to ptxas as it is and its whole log comes back; without a ptxas nothing is claimed.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ptxgraft.errors import UsageError
from ptxgraft.text import Document, Kind, split_operands, variable_declarations

_ARCHITECTURE = re.compile(r"sm_(\d+)([af]?)\b")
_ENTRY = re.compile(r"Compiling entry function '(\w[\w$]*)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


@dataclass(slots=True)
class Usage:
    """What ptxas says an entry uses: registers a thread, bytes of spill stores and loads."""

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0


@dataclass(slots=True)
class AssembleResult:
    """``log`` is all that ptxas printed; ``cubin`` its output, None when it failed. ``relocatable``: it was told to leave externs open."""

    ok: bool
    log: str
    cubin: bytes | None
    relocatable: bool
    command: list[str]

    def usage(self) -> dict[str, Usage]:
        """Registers and spills by entry, as the log states them."""
        found: dict[str, Usage] = {}
        current = Usage()
        for line in self.log.splitlines():
            if m := _ENTRY.search(line):
                current = found[m[1]] = Usage()
            elif m := _SPILLS.search(line):
                current.spill_stores, current.spill_loads = int(m[1]), int(m[2])
            elif m := _REGISTERS.search(line):
                current.registers = int(m[1])
                current = Usage()  # what follows belongs to a function
        return found


def find_tool(name: str) -> Path | None:
    """A program of the CUDA toolkit: the one of the installed ``nvidia`` packages, else the one on PATH, else None."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    for root in roots:
        for folder in ("cu13", "cuda_nvcc", "cu12"):
            path = Path(root, folder, "bin", name)
            if path.is_file():
                return path
    found = shutil.which(name)
    return Path(found) if found else None


def find_ptxas() -> Path | None:
    """The ptxas to use, or None."""
    return find_tool("ptxas")


def find_nvcc() -> Path | None:
    """The nvcc to use, or None."""
    return find_tool("nvcc")


def has_externs(document: Document) -> bool:
    """Does the module leave functions or variables to a linker? (The unsized ``extern .shared`` array is the launch's, not a linker's.)"""
    defined = {f.name for f in document.functions if f.body is not None}
    open_names = {f.name for f in document.functions if f.body is None} - defined
    calls = (s for s in document.statements if s.kind == Kind.INSTRUCTION and s.opcode.startswith("call"))
    if open_names and any(t in open_names for s in calls for t in split_operands(s.operands)):
        return True
    return any(v.extern and v.space != "shared" for v in variable_declarations(document, document.scopes[0]))


@cache
def architectures(ptxas: Path) -> tuple[str, ...]:
    """The ``sm_NN`` that a ptxas can assemble for, as its help lists them."""
    text = subprocess.run([str(ptxas), "--help"], capture_output=True, text=True, check=False).stdout
    start = text.find("--gpu-name")
    return tuple(dict.fromkeys(m.group() for m in _ARCHITECTURE.finditer(text[start : text.find("Default value", start)])))


def architecture_for(document: Document, ptxas: Path) -> str:
    """The target to assemble for: the module's own, or the nearest later one that this ptxas still knows."""
    wanted = next((m for t in document.target if (m := _ARCHITECTURE.fullmatch(t))), None)
    if wanted is None:
        raise UsageError(f"{document.name}: its .target names no sm_NN", hint="name a target")
    known = architectures(ptxas)
    if wanted.group() in known or wanted[2] or not known:
        return wanted.group()
    later = [m.group() for name in known if (m := _ARCHITECTURE.fullmatch(name)) and not m[2] and int(m[1]) >= int(wanted[1])]
    return min(later, key=lambda name: int(name[3:]), default=wanted.group())


def assemble(text: bytes | str | Document, target: str | None = None, timeout: float = 300) -> AssembleResult:
    """Run ptxas on a module. ``target`` (``sm_89``) is the module's own by default; externs make the result relocatable (``-c``).

    A text that ptxas refuses is a result with ``ok`` False and its log. UsageError when there is no ptxas, or it takes longer than
    ``timeout`` seconds.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        raise UsageError("no ptxas found", hint="install the PyPI package nvidia-cuda-nvcc, or put ptxas on PATH")
    document = text if isinstance(text, Document) else Document.parse(text)
    relocatable = has_externs(document)
    with tempfile.TemporaryDirectory(prefix="ptxgraft-") as folder:
        source, output = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_bytes(document.data)
        command = [str(ptxas), "-v", f"-arch={target or architecture_for(document, ptxas)}", *(["-c"] if relocatable else [])]
        command += [str(source), "-o", str(output)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise UsageError(f"{document.name}: ptxas did not finish in {timeout:g} seconds", hint="give it more time") from None
        ok = done.returncode == 0 and output.is_file()
        log = (done.stdout + done.stderr).replace(str(source), document.name)
        return AssembleResult(ok, log, output.read_bytes() if ok else None, relocatable, command)
