"""The PTX behind a cubin that Triton made: its cache keeps both side by side.

Invariant: PTX is only taken from beside a cubin of exactly the same bytes.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$TRITON_CACHE_DIR``, else what Triton uses without it."""
    given = os.environ.get("TRITON_CACHE_DIR")
    return Path(given) if given else Path.home() / ".triton" / "cache"


def ptx_beside(cubin: bytes) -> list[bytes]:
    """The PTX files of the cache that lie beside this cubin, each text once; none when there is no such cache."""
    found: list[bytes] = []
    for path in sorted(cache_folder().glob("*/*.cubin")):
        text = path.with_suffix(".ptx")
        try:
            same = path.stat().st_size == len(cubin) and path.read_bytes() == cubin
            if same and (ptx := text.read_bytes()) not in found:
                found.append(ptx)
        except OSError:
            continue  # another process tidies the cache
    return found
