"""A body written in CUDA C++: compiled by nvcc for the module's target, ready to be merged.

Invariant: the file is compiled where it lies, so that its includes are those beside it; what nvcc says of a file that it refuses is shown whole, and nothing of
its output stays behind.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.graft.bodies import Body, function_body
from ptxgraft.graft.check import find_nvcc
from ptxgraft.text import Document

_TARGET = re.compile(r"sm_(\d+[af]?)")


def compile_body(
    source: str | os.PathLike[str],
    document: Document,
    name: str = "",
    usual: str = "",
    flags: Sequence[str] = (),
    timeout: float = 300,
) -> Body:
    """The function ``name`` of a ``.cu`` file as a body for cuts of ``document``.

    Without a name it is the file's function ``usual`` (as the skeleton calls it) if there is one, else its only function. ``flags`` go to nvcc behind
    ``--ptx -rdc=true -arch=...``. UsageError when there is no nvcc, or no such function; SourceError with nvcc's log when it refuses the file.
    """
    path = Path(source)
    module = compile_cuda(path, document, flags, timeout)
    defined = [f.name for f in module.functions if f.kind == "func" and f.body is not None]
    if not defined:
        raise UsageError(
            f"{path} defines no function that a linker could find", hint='write extern "C" __device__ void NAME(...), not static or inline'
        )
    chosen = name or (usual if usual in defined else defined[0] if len(defined) == 1 else "")
    if chosen not in defined:
        what = f"does not define {chosen!r}" if chosen else f"defines {len(defined)} functions"
        raise UsageError(f"{path} {what}", hint=f"name one as {path}:NAME: {', '.join(defined[:8])}")
    return function_body(module, chosen)


def compile_cuda(path: Path, document: Document, flags: Sequence[str] = (), timeout: float = 300) -> Document:
    """A ``.cu`` file as PTX for the target of ``document``. Errors as ``compile_body``."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise UsageError(
            f"no nvcc found to compile {path}",
            hint="install the PyPI package nvidia-cuda-nvcc, or put nvcc on PATH; `ptxgraft doctor` looks for it",
        )
    if not path.is_file():
        raise SourceError(f"{path}: {'is no file' if path.exists() else 'no such file'}", hint="name a .cu file")
    with tempfile.TemporaryDirectory(prefix="ptxgraft-") as folder:
        output = Path(folder, "body.ptx")
        command = [str(nvcc), "--ptx", "-rdc=true", f"-arch={architecture(document)}", *flags]
        command += [f"-I{path.resolve().parent}", str(path.resolve()), "-o", str(output)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise UsageError(f"{path}: nvcc did not finish in {timeout:g} seconds", hint="give it more time") from None
        if done.returncode or not output.is_file():
            log = (done.stdout + done.stderr).replace(str(path.resolve()), str(path)).strip()
            raise SourceError(f"nvcc refuses {path}:\n{log}")
        return Document.parse(output.read_bytes(), f"{path} (compiled)")


def architecture(document: Document) -> str:
    """The virtual architecture of a module's target, ``compute_89`` for ``sm_89``. UsageError when its ``.target`` names none."""
    found = next((m for t in document.target if (m := _TARGET.fullmatch(t))), None)
    if found is None:
        raise UsageError(f"{document.name}: its .target names no sm_NN", hint="compile the body yourself and give FILE.ptx:NAME")
    return f"compute_{found[1]}"
