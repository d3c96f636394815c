"""Results as plain JSON values.

Invariant: every dataclass of the product turns into dictionaries, lists, strings and numbers, so that ``--json`` prints one valid document.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptxgraft.verify import Bisection, Difference, Verdict

SENTENCES = (Bisection, Difference, Verdict)
"""Results whose JSON carries, under ``text``, the sentence that people are shown."""


def plain(value: Any) -> Any:
    """``value`` with dataclasses as dictionaries, arrays as lists, paths as strings; bytes as hexadecimal; NaN and infinities, which JSON has not, as
    the strings ``nan``, ``inf`` and ``-inf``."""
    if is_dataclass(value) and not isinstance(value, type):
        made = {f.name: plain(getattr(value, f.name)) for f in fields(value)}
        return {**made, "text": str(value)} if isinstance(value, SENTENCES) else made
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(v) for v in value)
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Path):
        return str(value)
    assert value is None or isinstance(value, (bool, int, float, str)), f"{type(value).__name__} has no place in a JSON document"
    return value
