"""Compiles the layers to PTX and writes the shipped files: ``python denoiser/build.py [--check]``; ``--unrolled FILE`` generates a long one instead.

Invariant: the same sources and the same compiler give the same files; with ``--check`` nothing is written and a difference is an error.
"""

from __future__ import annotations

import argparse
import io
import lzma
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from scene import frame
from weight_image import image, slices, unrolled_slice

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "src" / "ptxgraft" / "data"
LAYERS = ("enc4", "dec0")
NVCC_VERSION = "V13.0.88"  # the one in pyproject.toml's dev extra
FLAGS = (
    "--ptx",
    "-O3",
    "-arch=compute_89",
    # Without this, ptxas may fuse multiplications and additions, and the bits would depend on its choice.
    "-fmad=false",
)


class BuildError(Exception):
    """The build cannot go on; the message says why and what to do."""


def find_nvcc() -> Path | None:
    """nvcc of the Python environment's nvidia-cuda-nvcc package, else of PATH, else None."""
    for scheme in ("purelib", "platlib"):
        packaged = Path(sysconfig.get_path(scheme)) / "nvidia" / "cu13" / "bin" / "nvcc"
        if packaged.is_file():
            return packaged
    found = shutil.which("nvcc")
    return Path(found) if found else None


def nvcc_version(nvcc: Path) -> str:
    """The compiler's version, such as ``V13.0.88``."""
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return next((word for word in text.split() if word.startswith("V") and word[1:2].isdigit()), "unknown")


def compile_layer(nvcc: Path, layer: str, slice_bytes: int) -> bytes:
    """PTX of ``denoiser/LAYER.cu``. Raises BuildError with the compiler's words when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"{layer}.ptx"
        command = [nvcc, *FLAGS, f"-DSLICE_BYTES={slice_bytes}", f"-I{nvcc.parent.parent / 'include'}", f"{layer}.cu", "-o", out]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        if done.returncode:
            raise BuildError(f"nvcc failed on denoiser/{layer}.cu:\n{done.stderr or done.stdout}")
        return out.read_bytes()


def unrolled(nvcc: Path) -> bytes:
    """PTX of the generated layer ``unrolled``, as long as those that vendors ship: at least 52,000 lines, 1,386 mma in 62 phases (seconds)."""
    return compile_layer(nvcc, "unrolled", len(unrolled_slice().data))


def archive(arrays: dict[str, np.ndarray]) -> bytes:
    """An .npz file of the arrays in the given order, with fixed time stamps."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            file.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def build(nvcc: Path) -> dict[str, bytes]:
    """Every shipped file by name."""
    layers = slices()
    files = {}
    for layer in LAYERS:
        ptx = compile_layer(nvcc, layer, len(layers[layer][0].data))
        files[f"{layer}.ptx.xz"] = lzma.compress(ptx, preset=9 | lzma.PRESET_EXTREME)
    files["weights.npz"] = archive({layer: image(layers[layer]) for layer in LAYERS})
    files["frame.npz"] = archive(frame())
    return files


def write_unrolled(nvcc: Path, path: Path) -> int:
    """Generate the long layer at ``path``; the exit code."""
    try:
        ptx = unrolled(nvcc)
        path.write_bytes(ptx)
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path}: {len(ptx.splitlines())} lines")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the reference layers and write the shipped files.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a shipped file differs")
    parser.add_argument("--unrolled", metavar="FILE", type=Path, help="write only the long layer's PTX, to FILE")
    options = parser.parse_args()
    check = options.check
    nvcc = find_nvcc()
    if nvcc is None:
        print("no nvcc: install the dev extra (pip install -e '.[dev]') or put nvcc on PATH", file=sys.stderr)
        return 2
    if options.unrolled is not None:
        return write_unrolled(nvcc, options.unrolled)
    version = nvcc_version(nvcc)
    if version != NVCC_VERSION:
        print(f"nvcc is {version}, the shipped PTX is from {NVCC_VERSION}: the files will differ", file=sys.stderr)
    try:
        files = build(nvcc)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    different = [name for name, data in files.items() if not (DATA / name).is_file() or (DATA / name).read_bytes() != data]
    for name, data in files.items():
        print(f"{name}: {len(data)} bytes, {'differs' if name in different else 'same'}")
        if not check and name in different:
            DATA.mkdir(parents=True, exist_ok=True)
            (DATA / name).write_bytes(data)
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
