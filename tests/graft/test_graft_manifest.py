"""A graft is given out for the module it was made for and for no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.graft.manifest import NAME, Binding, bind_graft, graft_for, manifest_text, module_id, read_manifest

MODULE, GRAFT = b".version 8.0\n.target sm_90\n", b".version 8.0\n.target sm_90\n// other\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k-inline.ptx").write_bytes(GRAFT)
    (tmp_path / "k-mirror.ptx").write_bytes(GRAFT + b"\n")
    bindings = [
        bind_graft("k", "inline", MODULE, "k-inline.ptx", GRAFT),
        bind_graft("k", "mirror", MODULE, "k-mirror.ptx", GRAFT + b"\n"),
        bind_graft("l", "inline", MODULE, "l-inline.ptx", GRAFT),
    ]
    (tmp_path / NAME).write_text(manifest_text(bindings))
    return tmp_path


def test_round_trip(folder: Path) -> None:
    bindings = read_manifest(folder)
    assert [type(b) for b in bindings] == [Binding] * 3
    assert manifest_text(bindings) == (folder / NAME).read_text()
    assert bindings == read_manifest(folder / NAME)


def test_the_right_module(folder: Path) -> None:
    binding, graft = graft_for(folder, "k", MODULE, "inline")
    assert (binding.file, graft) == ("k-inline.ptx", GRAFT)
    assert binding.module == module_id(MODULE)
    with pytest.raises(UsageError, match=r"2 grafts for k .*k-inline\.ptx \(inline\), k-mirror\.ptx"):
        graft_for(folder, "k", MODULE)


def test_any_other_module_is_refused(folder: Path) -> None:
    other = MODULE[:-1] + b" "
    with pytest.raises(UsageError, match="was made for another module") as refused:
        graft_for(folder, "k", other, "inline")
    for identity in (module_id(MODULE), module_id(other)):
        assert identity.fnv1a64 in str(refused.value)


def test_an_unknown_kernel(folder: Path) -> None:
    with pytest.raises(UsageError, match="no graft for K; it has grafts for k, l"):
        graft_for(folder, "K", MODULE)


def test_a_changed_or_missing_graft(folder: Path) -> None:
    (folder / "k-inline.ptx").write_bytes(GRAFT + b" ")
    with pytest.raises(SourceError, match="not the graft that was bound"):
        graft_for(folder, "k", MODULE, "inline")
    with pytest.raises(SourceError, match=r"cannot read the graft .*l-inline\.ptx"):
        graft_for(folder, "l", MODULE)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "other", "no manifest of grafts"),
        (("version",), 2, "no manifest of grafts"),
        (("grafts",), {}, "expected a list"),
        (("grafts", 0, "file"), "../k.ptx", "a file name without folders"),
        (("grafts", 0, "sha256"), "xyz", "64 hexadecimal digits"),
        (("grafts", 0, "module", "fnv1a64"), 7, "16 hexadecimal digits"),
        (("grafts", 0, "module", "bytes"), -1, "an integer"),
    ],
)
def test_a_manifest_that_is_wrong(folder: Path, path: tuple, value: object, message: str) -> None:
    data = json.loads((folder / NAME).read_text())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (folder / NAME).write_text(json.dumps(data))
    with pytest.raises(SourceError, match=message):
        read_manifest(folder)
