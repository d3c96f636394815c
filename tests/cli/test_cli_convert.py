"""``ptxgraft convert``: either form into the other, with a note for what is lost."""

from __future__ import annotations

from pathlib import Path

from command_line import Verb, contents

from ptxgraft import capture


def shared(path: Path) -> list:
    """What both forms hold of each launch."""
    return [
        (
            x.seq, x.kernel, tuple(x.grid), tuple(x.block), x.args, x.shared_bytes, x.pointers,
            [(a.index, a.base, bytes(a.before), a.after is not None and bytes(a.after)) for a in x.allocations],
            [(i.kind, i.arg_offset, i.handle, i.width, i.height, i.channels, i.format, i.after is not None and bytes(i.after)) for i in x.images],
        )
        for x in capture.open_capture(path).launches
    ]  # fmt: skip


def test_there_and_back(verb: Verb, package: Path, tmp_path: Path) -> None:
    first = verb("convert", package, "-o", tmp_path / "folder", "--json")
    assert first.code == 0 and first.json["form"] == "directory" and first.json["launches"] == 1
    said = first.json["notes"]
    assert [n for n in said if "modules" in n] and [n for n in said if "surfaces before" in n]
    assert first.err == "".join(f"note: {n}\n" for n in said)
    second = verb("convert", tmp_path / "folder", "-o", tmp_path / "again.ptxcap")
    assert second.code == 0 and "form package" in second.out
    assert (
        capture.open_capture(tmp_path / "folder").form == "directory" and capture.open_capture(tmp_path / "again.ptxcap").form == "package"
    )
    assert shared(package) == shared(tmp_path / "folder") == shared(tmp_path / "again.ptxcap")


def test_the_same_form_is_a_copy(verb: Verb, package: Path, tmp_path: Path) -> None:
    assert verb("convert", package, "-o", tmp_path / "copy.ptxcap", "--form", "package").code == 0
    assert contents(tmp_path / "copy.ptxcap") == contents(package)


def test_what_is_there_stays(verb: Verb, package: Path, tmp_path: Path) -> None:
    assert verb("convert", package, "-o", tmp_path / "copy.ptxcap", "--form", "package").code == 0
    before = contents(tmp_path)
    for words in ([tmp_path / "copy.ptxcap"], [tmp_path / "none" / "x"], [tmp_path / "x", "--form", "zip"]):
        ended = verb("convert", package, "-o", *words)
        assert ended.code == 2 and ended.err.startswith("ptxgraft: ") and contents(tmp_path) == before
