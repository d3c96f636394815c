"""Property: whatever launches there are, both forms give them back, and each through the other."""

from __future__ import annotations

import hashlib
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.capture import (
    FORMATS,
    Allocation,
    Image,
    Launch,
    Pointer,
    Variable,
    convert,
    image_bytes,
    open_capture,
    write,
    write_directory,
)

names = st.one_of(
    st.sampled_from(["enc4", "k-arg008-buffer-x-base0x1000+", "_ZN3fooE", "..", "a/b", "launch-001-k", "n" * 300, "\u00e9" * 200]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=12),
)
dims = st.tuples(*[st.integers(1, (1 << 32) - 1)] * 3)


@st.composite
def launches(draw: st.DrawFn, seq: int) -> Launch:
    args = bytearray(draw(st.binary(min_size=64, max_size=96)))
    allocations, address = [], draw(st.integers(0, 1 << 48))
    indices = draw(st.lists(st.integers(0, 1000), max_size=4, unique=True))
    for index in indices:
        before = draw(st.binary(max_size=20))
        after = draw(st.one_of(st.none(), st.just(before), st.binary(min_size=len(before), max_size=len(before))))
        allocations.append(Allocation(index, address, len(before), before, after))
        address += len(before) + draw(st.integers(1, 1 << 20))
    pointers = []
    for offset in draw(st.lists(st.sampled_from(range(0, 32, 8)), unique=True)) if allocations else []:
        target = draw(st.sampled_from(allocations))
        pointers.append(Pointer(offset, target.index, draw(st.integers(0, target.size))))
        struct.pack_into("<Q", args, offset, target.base + pointers[-1].delta)
    filters: dict[int, str | None] = {}
    images: dict[str, list[Image]] = {"texture": [], "surface": []}
    for offset in sorted(draw(st.lists(st.sampled_from(range(32, 64, 8)), unique=True))):
        kind: Any = draw(st.sampled_from(["texture", "surface"]))
        code = draw(st.sampled_from([*FORMATS, 176]))
        width, height, channels = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 4]))
        size = image_bytes(width, height, channels, code)
        data = np.random.default_rng(offset).integers(0, 256, 7 if size is None else size, np.uint8)
        states: dict[str, Any] = {"before": data, "after": data} if kind == "texture" else {"after": data}
        (handle,) = struct.unpack_from("<Q", args, offset)
        filters.setdefault(handle, draw(st.sampled_from([None, "point", "linear"])))
        filter_name: Any = filters[handle] if kind == "texture" else None
        images[kind].append(Image(kind, offset, handle, width, height, channels, code, filter_name, **states))
    return Launch(
        seq, draw(names), draw(dims), draw(dims), bytes(args), draw(st.integers(0, (1 << 32) - 1)), allocations, pointers,
        images["texture"], images["surface"],
    )  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.data(), st.lists(st.integers(0, 10**8), min_size=1, max_size=3, unique=True))
def test_both_forms_give_back_what_was_written(described, data: st.DataObject, seqs: list[int]) -> None:
    made = [data.draw(launches(seq)) for seq in sorted(seqs)]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_directory(made, root / "directory")
        convert(root / "directory", root / "package")
        convert(root / "package", root / "again", form="directory")
        for form in ("directory", "package", "again"):
            back = open_capture(root / form)
            assert back.problems == []
            assert [described(b) for b in back.launches] == [described(a) for a in made]
        # Own form only: what the directory form does not hold.
        made[0].variables.append(Variable("v", b"\x00\x01", None))
        made[0].module = b"// text"
        write(made, root / "whole")
        made[0].module_hash = hashlib.sha256(b"// text").hexdigest()
        assert described(open_capture(root / "whole").launches[0]) == described(made[0])
