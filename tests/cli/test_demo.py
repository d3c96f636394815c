"""The demo, once from end to end: what it promises, what it leaves, and that the commands it prints can be repeated."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from command_line import Ended, Verb
from PIL import Image

from ptxgraft import capture, data
from ptxgraft.cli.app import app
from ptxgraft.text import Document


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> tuple[Path, Ended]:
    """The demo's folder and how it ended."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    capturing = pytest.MonkeyPatch()
    written: list[str] = []
    capturing.setattr("ptxgraft.cli.console._write", lambda text, stream: written.append(text))
    capturing.setattr("sys.argv", ["ptxgraft"])
    try:
        code = app(["demo", "-o", str(folder)], prog_name="ptxgraft", standalone_mode=False)
    finally:
        capturing.undo()
    return folder, Ended(code, "".join(written), "")


@pytest.fixture(scope="session")
def summary(demo) -> dict:
    return json.loads((demo[0] / "summary.json").read_text())


def test_it_ends_well_and_says_so(demo):
    _, ended = demo
    assert ended.code == 0
    for layer in ("enc4", "dec0"):
        for style in ("inline", "mirror"):
            assert f"{layer} {style}: same: " in ended.out
    assert "first differs at stage p7" in ended.out and "wrong on purpose: B fragment" in ended.out


def test_the_summary_holds_the_verdicts(summary):
    assert set(summary["layers"]) == set(data.LAYERS)
    assert summary["layers"]["enc4"]["phases"] >= 40 and summary["layers"]["enc4"]["mma"] >= 1000
    assert summary["layers"]["dec0"]["phases"] >= 15
    assert set(summary["grafts"]) == {f"{layer}-{style}" for layer in data.LAYERS for style in ("inline", "mirror")}
    for verdict in summary["grafts"].values():
        assert verdict["verdict"] == "same" and verdict["bytes_differing"] == 0 and verdict["bytes_compared"] > 200_000


def test_the_wrong_graft_is_found_where_it_is_wrong(summary):
    wrong = summary["wrong"]
    assert wrong["verdict"]["verdict"] == "differs" and 0 < wrong["verdict"]["bytes_differing"] < wrong["verdict"]["bytes_compared"]
    first = wrong["verdict"]["first"]
    assert first["writer"]["statement"].endswith("}") and first["writer"]["phases"] and first["writer"]["line"] > 1000
    found = wrong["bisection"]
    assert found["stage"] == "p7" and found["expected"] != found["found"] and found["checked"][-1] == "p7"


def test_the_files_are_there_and_whole(demo, summary):
    folder, _ = demo
    opened = capture.open_capture(folder / "frame.ptxcap")
    assert opened.kernels() == list(data.LAYERS) and not opened.bad
    for layer in data.LAYERS:
        assert (folder / f"{layer}.ptx").read_bytes() == data.ptx(layer)
        for style in ("inline", "mirror"):
            assert Document.read(folder / f"{layer}-{style}.ptx").entry(layer)
            assert (folder / f"{layer}-{style}-skeleton.cu").stat().st_size and (
                folder / f"{layer}-{style}-skeleton.hip.cpp"
            ).stat().st_size
        assert json.loads((folder / f"{layer}-inline-spec.json").read_text())["entry"] == layer
    assert Document.read(folder / "enc4-wrong.ptx").entry("enc4")
    assert not [p.name for p in folder.iterdir() if p.name.startswith(".")]


def test_the_pictures_show_something(demo, summary):
    folder, _ = demo
    names = sorted(Path(p).name for p in summary["pictures"])
    assert (
        sum("texture" in n for n in names) == 3 and sum("surface" in n for n in names) == 4 and sum("difference" in n for n in names) == 2
    )
    for name in names:
        with Image.open(folder / name) as image:
            image.load()
            assert image.width >= 160
            pixels = np.asarray(image)
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 2, name


def test_the_printed_commands_can_be_repeated(demo, summary, verb: Verb):
    folder, ended = demo
    commands = [shlex.split(c) for c in summary["commands"]]
    assert all(c in ended.out for c in summary["commands"]) and all(c[0] == "ptxgraft" for c in commands)
    expected = {"show": 0, "ls": 0, "spec": 0, "cut": 0, "replay": 0}
    done = set()
    for command in commands:
        if command[1] in expected:
            assert verb(*command[1:]).code == expected[command[1]], command
            done.add(command[1])
    assert done == set(expected) and (folder / "by-hand").is_dir()
    wrong = next(c for c in commands if c[1] == "verify" and "wrong" in c[-1])
    found = verb(*wrong[1:], "--json")
    assert found.code == 1 and found.json["first"] == summary["wrong"]["verdict"]["first"]
