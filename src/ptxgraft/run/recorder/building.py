"""The injected library: compiling it with the system's C compiler at first use, and finding the CUPTI it listens through.

Invariant: a compiled library is kept by the hash of its sources and command, and appears whole. No vendor's header is needed: ``native/abi.h``
declares what is called.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ptxgraft.errors import DeviceError, UsageError
from ptxgraft.run.cache import default_directory

SOURCES = Path(__file__).parent / "native"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
LIBRARIES = ("-ldl",)


def build_library() -> Path:
    """The injected library, compiled if it is not there yet. Raises ``UsageError`` when it cannot be compiled."""
    compiler = find_compiler()
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(repr((compiler, FLAGS, LIBRARIES)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    library = default_directory() / "recorder" / digest.hexdigest()[:32] / "libptxgraft_record.so"
    if not library.is_file():
        try:
            library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".aside-", dir=library.parent) as folder:
                made = Path(folder, library.name)
                _compile(compiler, [s for s in sources if s.suffix == ".c"], made)
                made.replace(library)
        except OSError as error:
            raise UsageError(f"the recorder's library cannot be kept in {library.parent}: {error.strerror}") from None
    return library


def find_compiler() -> str:
    """The C compiler: ``$CC``, else the first of cc, gcc and clang on PATH. Raises ``UsageError`` when there is none."""
    given = os.environ.get("CC", "")
    for name in [given] if given else ["cc", "gcc", "clang"]:
        if found := shutil.which(name):
            return found
    raise UsageError(
        f"no C compiler found ({given or 'cc, gcc, clang'}): recording compiles a small library at its first use",
        hint="install one, or name it in CC",
    )


def _compile(compiler: str, sources: list[Path], target: Path) -> None:
    command = [compiler, *FLAGS, *map(str, sources), "-o", str(target), *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{compiler} cannot compile the recorder's library:\n{(done.stderr or done.stdout).strip()[:2000]}")


def pattern_fault(library: Path, pattern: str) -> str | None:
    """What is wrong with a regular expression (POSIX, extended), None when nothing is."""
    check = ctypes.CDLL(str(library)).ptxgraft_pattern_fault
    check.restype, check.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    fault = check(pattern.encode())
    return None if fault is None else fault.decode(errors="replace")


def cupti_places() -> Iterator[Path]:
    """Folders where a CUPTI may lie, in the order in which they are looked at: toolkits, then installed packages."""
    nvcc = shutil.which("nvcc")
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", nvcc and Path(nvcc).resolve().parents[1]]
    for home in homes:
        if home:
            for inside in ("extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"):
                yield Path(home, inside)
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        for inside in ("cu14/lib", "cu13/lib", "cuda_cupti/lib"):
            yield Path(root, inside)


def find_cupti() -> Path:
    """The CUPTI library. Raises ``DeviceError`` when there is none."""
    looked: list[str] = []
    for folder in dict.fromkeys(cupti_places()):
        found = sorted(folder.glob("libcupti.so*"), key=lambda path: (len(path.name), path.name))
        if found:
            return found[0].resolve()
        looked.append(str(folder))
    raise DeviceError(
        "recording needs CUPTI, and no libcupti.so was found",
        hint="install the CUDA toolkit or the PyPI package nvidia-cuda-cupti, or set CUDA_HOME",
    )
