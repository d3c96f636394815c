"""A CUDA of our own: driver, CUPTI and a program, compiled by the system's C compiler."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

NATIVE = Path(__file__).parent / "native"


@dataclass(frozen=True, slots=True)
class Fake:
    """``program`` takes commands (``native/program.c``); ``home`` is a CUDA_HOME with our CUPTI; ``libraries`` holds our driver."""

    program: Path
    home: Path
    libraries: Path

    def build(self, name: str, *options: str) -> None:
        """Compile ``NAME.c`` into its place."""
        targets = {"driver": self.libraries / "libcuda.so.1", "cupti": self.home / "lib64" / "libcupti.so", "program": self.program}
        target = targets[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        shared = (
            [] if name == "program" else ["-shared", "-fPIC", f"-Wl,-soname,{'libcuda.so.1' if name == 'driver' else 'libfakecupti.so'}"]
        )
        needs = [] if name == "driver" else [str(self.libraries / "libcuda.so.1")]
        command = [
            "cc",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            *options,
            *shared,
            str(NATIVE / f"{name}.c"),
            "-o",
            str(target),
            *needs,
            "-pthread",
            "-ldl",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def fake_in(folder: Path, *driver_options: str) -> Fake:
    """Compile all three into ``folder``."""
    made = Fake(folder / "program", folder / "home", folder / "libraries")
    made.build("driver", *driver_options)
    made.build("cupti")
    made.build("program")
    return made
