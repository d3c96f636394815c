"""Folders of grafts: `cut` binds what it writes, `verify`, `bisect` and `replay` take it for the module it was made for and for no other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Verb, contents, small_layer

from ptxgraft import capture
from ptxgraft.graft import cut
from ptxgraft.graft.manifest import NAME, module_id, read_manifest
from ptxgraft.text import Document


@pytest.fixture
def grafts(verb: Verb, layer: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "grafts"
    assert verb("cut", layer, "-o", folder, "--no-check").code == 0
    return folder


@pytest.fixture(scope="module")
def other_module(tmp_path_factory) -> Path:
    """The same launch, recorded with a module that has one comment more."""
    path = tmp_path_factory.mktemp("other") / "other.ptxcap"
    document = small_layer.layer_document()
    recorded = small_layer.record(document)
    capture.write([replace(recorded, module=document.data + b"// built again\n", module_hash=None)], path)
    return path


def test_cut_binds_what_it_writes(grafts: Path, layer: Path) -> None:
    (binding,) = read_manifest(grafts)
    assert (binding.kernel, binding.style, binding.module) == ("layer", "inline", module_id(layer.read_bytes()))
    assert binding.sha256 == hashlib.sha256((grafts / binding.file).read_bytes()).hexdigest()


def test_a_second_cut_keeps_the_other_bindings(verb: Verb, grafts: Path, layer: Path) -> None:
    before = read_manifest(grafts)
    assert verb("cut", layer, "-o", grafts, "--style", "call", "--no-check").code == 0
    both = read_manifest(grafts)
    assert both[:1] == before and [b.style for b in both] == ["inline", "call"]
    layer.write_bytes(layer.read_bytes() + b"// changed\n")
    assert verb("cut", layer, "-o", grafts, "--no-check").code == 0
    again = read_manifest(grafts)  # the file that was written anew has its new binding alone
    assert [b.style for b in again] == ["call", "inline"] and again[0] == both[1]
    assert again[1].module == module_id(layer.read_bytes())


def test_several_regions_and_siblings_share_a_file(verb: Verb, tmp_path: Path) -> None:
    from test_cli_cut_several import ENTRY

    path = tmp_path / "two.ptx"
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    path.write_text(head + ENTRY.format(name="a", r="r", n=2) + ENTRY.format(name="b", r="s", n=2))
    folder = tmp_path / "out"
    assert verb("cut", path, "-e", "a", "--region", "label BACK", "--sibling", "b", "-o", folder, "--no-check").code == 0
    bindings = read_manifest(folder)
    assert {b.kernel for b in bindings} == {"a", "b"} and len({b.file for b in bindings}) == 1
    assert bindings[0].sha256 == hashlib.sha256((folder / bindings[0].file).read_bytes()).hexdigest()


def test_a_manifest_that_cannot_be_read_is_left_alone(verb: Verb, layer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "grafts"
    folder.mkdir()
    (folder / NAME).write_text("{}")
    ended = verb("cut", layer, "-o", folder, "--no-check")
    assert ended.code == 2 and str(folder / NAME) in ended.err
    assert contents(folder) == {NAME: b"{}"}


@pytest.mark.parametrize("given", ["folder", "manifest", "file"])
def test_verify_replay_and_bisect_take_the_graft_of_the_kernel(verb: Verb, grafts: Path, package: Path, given: str) -> None:
    path = {"folder": grafts, "manifest": grafts / NAME, "file": grafts / "layer-inline.ptx"}[given]
    ended = verb("verify", package, "--graft", path, "--engine", "numpy", "--json")
    assert ended.code == 0 and ended.json["verdict"] == "same"
    assert verb("replay", package, "--ptx", path, "--engine", "numpy").code == 0
    assert verb("bisect", package, "--graft", path, "--engine", "numpy", "--stages", "a").code == 0


@pytest.mark.parametrize("words", [("verify", "--graft"), ("bisect", "--graft"), ("replay", "--ptx")])
def test_another_module_is_refused_with_both_hashes(
    verb: Verb, grafts: Path, other_module: Path, layer: Path, words: tuple[str, str]
) -> None:
    ended = verb(words[0], other_module, words[1], grafts, "--engine", "numpy")
    assert ended.code == 2 and "was made for another module" in ended.err
    other = capture.open_capture(other_module).launch(7).module
    for identity in (module_id(layer.read_bytes()), module_id(other)):
        assert identity.fnv1a64 in ended.err and identity.sha256[:16] in ended.err
    # A file that is named is the user's own choice.
    assert verb(words[0], other_module, words[1], grafts / "layer-inline.ptx", "--engine", "numpy").code == 0


def test_of_several_grafts_one_is_named_by_its_style(verb: Verb, grafts: Path, layer: Path, package: Path) -> None:
    assert verb("cut", layer, "-o", grafts, "--style", "call", "--no-check").code == 0
    ended = verb("replay", package, "--ptx", grafts, "--engine", "numpy")
    assert ended.code == 2 and "2 grafts for layer" in ended.err
    assert verb("replay", package, "--ptx", grafts, "--style", "call", "--engine", "numpy").code == 0
    ended = verb("replay", package, "--ptx", grafts, "--style", "mirror", "--engine", "numpy")
    assert ended.code == 2 and "no graft of style mirror for layer" in ended.err


def test_a_graft_that_was_edited_is_refused(verb: Verb, grafts: Path, package: Path) -> None:
    path = grafts / "layer-inline.ptx"
    path.write_bytes(path.read_bytes() + b"// by hand\n")
    ended = verb("verify", package, "--graft", grafts, "--engine", "numpy")
    assert ended.code == 2 and "is not the graft that was bound" in ended.err


def test_without_a_recorded_module_the_original_says_which_it_is(
    verb: Verb, grafts: Path, package: Path, layer: Path, tmp_path: Path
) -> None:
    capture.convert(package, tmp_path / "folder", form="directory")
    ended = verb("verify", tmp_path / "folder", "--graft", grafts, "--engine", "numpy")
    assert ended.code == 2 and "does not hold the kernel's module" in ended.err and "--original" in ended.err
    assert verb("verify", tmp_path / "folder", "--graft", grafts, "--original", layer, "--engine", "numpy").code == 0


def test_bind_says_what_cut_writes(grafts: Path, layer: Path) -> None:
    made = cut(Document.read(layer), "layer", style="inline")
    assert [made.bind("layer-inline.ptx")] == read_manifest(grafts)
    assert json.loads((grafts / NAME).read_text())["grafts"][0]["kernel"] == "layer"
