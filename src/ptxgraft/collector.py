"""Work that makes very many objects and no rubbish, spared from the garbage collector's rounds over them.

Invariant: the collector is on again afterwards if it was on before, whatever happens in between.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection runs inside; also a decorator."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
