"""Puts denoiser/ on the import path: its modules are scripts beside the package, not part of it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "denoiser"))
