"""Coverage-guided fuzzing of what reads captures and programs: ``python -m benchmarks.fuzz_captures [--seconds N]`` (extra ``fuzz``: atheris).

An input is a folder as text: ``\\n@@ NAME\\n`` opens a file. Invariant tested: opening it in either form, asking everything, converting it and extracting PTX
from its files gives answers or errors of ``ptxgraft.errors``, and nothing outside the folders given appears.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import atheris

with atheris.instrument_imports(include=["ptxgraft.capture", "ptxgraft.containers"]):
    from ptxgraft import capture, containers
from ptxgraft.errors import PtxgraftError

MARK = b"\n@@ "
ROOT = Path(tempfile.mkdtemp(prefix="fuzz-captures-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
INSIDE = ROOT / "inside"
TARGETS: dict[str, Literal["package", "directory"]] = {"out.ptxcap": "package", "out-directory": "directory"}


def packed(folder: Path) -> bytes:
    """A folder's files in the form of an input."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return b"".join(MARK + str(p.relative_to(folder)).encode() + b"\n" + p.read_bytes() for p in files)


def unpacked(data: bytes, folder: Path) -> None:
    """Lay an input out as a folder; names that leave it are made plain, so that only the readers could."""
    for part in data.split(MARK)[1:]:
        name, _, contents = part.partition(b"\n")
        words = [w for w in name.decode("latin-1").replace("\0", "").split("/") if w not in ("", ".", "..")]
        path = folder.joinpath(*[w[:80] for w in words[:4]]) if words else folder / "unnamed"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)
        except OSError:
            continue


def ask(opened: capture.Capture) -> None:
    """Every question that a capture answers."""
    for launch in opened.launches:
        questions = (
            lambda launch=launch: [(a.before, a.after) for a in launch.allocations],
            lambda launch=launch: [(i.contents("after"), i.pixels("before")) for i in launch.images],
            lambda launch=launch: (launch.weight_image(8), launch.arena(), launch.u32(0), launch.module),
            lambda launch=launch: [v.before for v in launch.variables],
        )
        for question in questions:
            try:
                question()
            except PtxgraftError:
                continue


def one(data: bytes) -> None:
    shutil.rmtree(ROOT)
    INSIDE.mkdir(parents=True)
    unpacked(data, INSIDE / "cap")
    for target, form in TARGETS.items():
        try:
            ask(capture.open_capture(INSIDE / "cap"))
            capture.convert(INSIDE / "cap", INSIDE / target, form=form)
        except PtxgraftError:
            pass
    for path in (p for p in (INSIDE / "cap").rglob("*") if p.is_file()):
        containers.extract(path)
    assert os.listdir(ROOT) == ["inside"], os.listdir(ROOT)
    assert set(os.listdir(INSIDE)) <= {"cap", *TARGETS}, os.listdir(INSIDE)


def seeds(corpus: Path) -> None:
    """A small launch in both forms, and a fat binary."""
    launch = capture.Launch(
        seq=1, kernel="k", grid=(1, 1, 1), block=(32, 1, 1), args=bytes(8) + (0x7000).to_bytes(8, "little"),
        allocations=[capture.Allocation(0, 0x7000, 16, bytes(16), bytes(range(16)))], pointers=[capture.Pointer(8, 0, 0)],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        capture.write([launch], Path(folder) / "a.ptxcap")
        capture.write_directory([launch], Path(folder) / "b")
        for name in ("a.ptxcap", "b"):
            (corpus / name).write_bytes(packed(Path(folder) / name))
    (corpus / "fat").write_bytes(MARK + b"x\n" + b"\x50\xed\x55\xba\1\0\x10\0" + (80).to_bytes(8, "little") + bytes(80))
    (corpus / "text").write_bytes(MARK + b"x\n.version 8.0\n.target sm_90\n.visible .entry k() { ret; }\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="kept from run to run; default: a new one")
    chosen = parser.parse_args()
    corpus = chosen.corpus or Path(tempfile.mkdtemp(prefix="corpus-"))
    corpus.mkdir(exist_ok=True)
    seeds(corpus)
    print(f"corpus {corpus}, until {time.ctime(time.time() + chosen.seconds)}", flush=True)
    atheris.Setup(
        [sys.argv[0], str(corpus), f"-max_total_time={chosen.seconds}", "-max_len=8192", "-timeout=20", "-rss_limit_mb=4096"], one
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
