"""What a user sees for bad input: the exact text and exit code, and nothing left behind.

The texts are in ``messages.txt``, one section a case; ``PTXGRAFT_UPDATE_MESSAGES=1 pytest tests/cli/test_cli_messages.py`` writes them anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import contents

from ptxgraft import capture

HERE = Path(__file__).parent
MESSAGES = HERE / "messages.txt"
LAUNCH = ["--grid", "1", "--block", "64", "-a", "u32[16]"]

Make = Callable[[Path, Path], list[object]]


def text(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def faulty(folder: Path, entry: str, *more: str) -> list[object]:
    """Run an entry of faults.ptx."""
    path = folder / "faults.ptx"
    path.write_bytes((HERE / "faults.ptx").read_bytes())
    return ["run", path, "-e", entry, *LAUNCH, *more]


def damaged(package: Path, folder: Path, change: Callable[[dict], None]) -> Path:
    """A copy of the capture with its manifest changed."""
    path = folder / "damaged.ptxcap"
    shutil.copytree(package, path)
    manifest = json.loads((path / "capture.json").read_text())
    change(manifest)
    (path / "capture.json").write_text(json.dumps(manifest))
    return path


def directory(package: Path, folder: Path) -> Path:
    """The capture in the directory form, and the folder of its launch."""
    capture.convert(package, folder / "cap", form="directory")
    return folder / "cap" / "replay" / "replay-000007-layer"


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def blob_gone(package: Path, folder: Path) -> list[object]:
    path = damaged(package, folder, lambda m: None)
    digest = json.loads((path / "capture.json").read_text())["launches"][0]["allocations"][0]["before"]["chunks"][0]
    (path / "blobs" / f"{digest}.z").unlink()
    return ["replay", path]


def cut_short(package: Path, folder: Path) -> list[object]:
    path = damaged(package, folder, lambda m: None)
    manifest = path / "capture.json"
    manifest.write_bytes(manifest.read_bytes()[:300])
    return ["show", path]


def short_arguments(package: Path, folder: Path) -> list[object]:
    # The last argument is gone; every pointer and handle still fits.
    return ["replay", damaged(package, folder, lambda m: m["launches"][0].update(args=m["launches"][0]["args"][:64]))]


def directory_with(change: Callable[[Path], None]) -> Make:
    def make(package: Path, folder: Path) -> list[object]:
        change(directory(package, folder))
        return ["replay", folder / "cap", "--ptx", text(folder, "layer.ptx", (HERE.parent / "verify" / "layer.ptx").read_bytes())]

    return make


def layer(folder: Path) -> Path:
    return text(folder, "layer.ptx", (HERE.parent / "verify" / "layer.ptx").read_bytes())


def two_launches(package: Path, folder: Path) -> Path:
    opened = capture.open_capture(package).launches[0]
    other = capture.Launch(8, "other", (1, 1, 1), (32, 1, 1), b"", module=opened.module)
    capture.write([opened, other], folder / "two.ptxcap")
    return folder / "two.ptxcap"


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
SYNTAX = (
    HEAD
    + """.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<4>;
	mov.u32 %r1, {1, 2;
	mov.u32 %r2 %r3 ]];
	ret;
}
"""
)
NAMES = (
    HEAD
    + """.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<4>;
	mov.u32 %r1, %q7;
	add.u32 %r2, %r9, 1;
	bra NOWHERE;
	ret;
}
"""
)

CASES: dict[str, Make] = {
    # -- files ----------------------------------------------------------------------------------------------------------------
    "a missing file": lambda p, d: ["ls", d / "nothing.ptx"],
    "a folder in place of a file": lambda p, d: ["spec", d],
    "an empty file": lambda p, d: ["ls", text(d, "empty.ptx", "")],
    "a file of blanks": lambda p, d: ["ls", text(d, "blank.ptx", " \n\t\r\n")],
    "an ELF file": lambda p, d: ["ls", text(d, "kernel.cubin", b"\x7fELF\2\1\1\0" + bytes(64))],
    "a binary file": lambda p, d: ["ls", text(d, "binary.ptx", bytes(range(256)) * 4)],
    "a text that is no PTX": lambda p, d: ["ls", text(d, "poem.ptx", "roses are red\n")],
    "a truncated file": lambda p, d: ["ls", text(d, "short.ptx", SYNTAX[:100])],
    "syntax errors, all together": lambda p, d: ["ls", text(d, "wrong.ptx", SYNTAX)],
    "names that are not declared, all together": lambda p, d: ["spec", text(d, "names.ptx", NAMES)],
    "a type that PTX has not": lambda p, d: ["ls", text(d, "type.ptx", HEAD + ".visible .entry k(.param .u33 n)\n{\n\tret;\n}\n")],
    "a module without an entry": lambda p, d: ["ls", text(d, "nothing.ptx", HEAD)],
    "an escape sequence in a source line": lambda p, d: ["ls", text(d, "escape.ptx", HEAD + ".entry k()\n{\n\t\x1b[31mmov.u32 ((;\n}\n")],
    # -- entries, regions, stages, styles -------------------------------------------------------------------------------------
    "an entry that is not there": lambda p, d: ["spec", layer(d), "-e", "layer2"],
    "an entry found by no prefix": lambda p, d: ["spec", layer(d), "-e", "lay"],
    "no entry named, several there": lambda p, d: ["spec", text(d, "faults.ptx", (HERE / "faults.ptx").read_bytes())],
    "a line outside the body": lambda p, d: ["cut", layer(d), "--region", "1-3", "-o", d / "out"],
    "lines without a statement": lambda p, d: ["cut", layer(d), "--region", "70-60", "-o", d / "out"],
    "a region that is none": lambda p, d: ["cut", layer(d), "--region", "6x-7", "-o", d / "out"],
    "a region in other words": lambda p, d: ["cut", layer(d), "--region", "the end", "-o", d / "out"],
    "a phase that is not there": lambda p, d: ["cut", layer(d), "--region", "phase 9", "-o", d / "out"],
    "a region that leaves the entry": lambda p, d: ["cut", layer(d), "--region", "60-77", "-o", d / "out"],
    "an unknown style": lambda p, d: ["cut", layer(d), "--style", "sideways", "-o", d / "out"],
    "a body that is not there": lambda p, d: ["cut", layer(d), "--body", d / "body.ptx", "-o", d / "out"],
    "a body that is no text": lambda p, d: ["cut", layer(d), "--body", text(d, "body.ptx", b"\xff\xfe\0"), "-o", d / "out"],
    "a body that is empty": lambda p, d: ["cut", layer(d), "--body", text(d, "body.ptx", "\n"), "-o", d / "out"],
    "a body of a function that is not there": lambda p, d: ["cut", layer(d), "--body", f"{layer(d)}:body", "-o", d / "out"],
    "a body that writes what is not its own": lambda p, d: ["cut", layer(d), "--body", text(d, "b.ptx", "mov.u32 %r1, 0;"), "-o", d / "out"],
    "a block that is none": lambda p, d: ["cut", layer(d), "--block", "32,0", "-o", d / "out"],
    "an unknown stage": lambda p, d: ["probe", layer(d), "--at", "later", "-o", d / "probe.ptx"],
    "a stage of a phase that is not there": lambda p, d: ["probe", layer(d), "--at", "p3", "-o", d / "probe.ptx"],
    "a probe at a line of the head": lambda p, d: ["probe", layer(d), "--at", "4", "-o", d / "probe.ptx"],
    "a probe at a line past the end": lambda p, d: ["probe", layer(d), "--at", "400", "-o", d / "probe.ptx"],
    "a probe of an unknown register": lambda p, d: ["probe", layer(d), "--at", "p0", "--registers", "%f1", "-o", d / "probe.ptx"],
    "a probe at returns without registers": lambda p, d: ["probe", layer(d), "--at", "ret", "-o", d / "probe.ptx"],
    "a probe that goes nowhere": lambda p, d: ["probe", layer(d), "--at", "p0"],
    "a probe through no argument": lambda p, d: ["probe", layer(d), "--at", "p0", "--argument", "x", "-o", d / "probe.ptx"],
    "values to save without a run": lambda p, d: ["probe", layer(d), "--at", "p0", "--save", d / "x.npz", "-o", d / "probe.ptx"],
    "an unknown stage to bisect": lambda p, d: ["bisect", p, "-g", layer(d), "--stages", "p0,p7"],
    # -- captures -------------------------------------------------------------------------------------------------------------
    "a missing capture": lambda p, d: ["show", d / "nothing.ptxcap"],
    "a file in place of a capture": lambda p, d: ["show", layer(d)],
    "a folder that is no capture": lambda p, d: ["replay", d],
    "a truncated manifest": cut_short,
    "a blob that is missing": blob_gone,
    "an argument block that is too short for the kernel": short_arguments,
    "a launch that is not there": lambda p, d: ["replay", p, "--launch", "12"],
    "a kernel that was not launched": lambda p, d: ["replay", p, "--launch", "layers"],
    "several launches, none named": lambda p, d: ["replay", two_launches(p, d)],
    "a directory capture's allocation that is missing": directory_with(lambda f: (f / "alloc-1.bin").unlink()),
    "a directory capture's allocation that is short": directory_with(lambda f: (f / "alloc-1.bin").write_bytes(bytes(100))),
    "a directory capture's pointer into nothing": directory_with(lambda f: edit(f / "manifest.txt", "pointer 8 1 0", "pointer 8 5 0")),
    "a directory capture's manifest line that is short": directory_with(lambda f: edit(f / "manifest.txt", "alloc 2 0x7f0000040000 1024", "alloc 2")),
    "a directory capture's argument block that is short, all pointers together": directory_with(lambda f: (f / "args.bin").write_bytes(bytes(12))),
    "a directory capture without a module": lambda p, d: ["replay", directory(p, d).parent.parent],
    "a graft without the kernel": lambda p, d: ["verify", p, "-g", text(d, "other.ptx", HEAD + ".visible .entry lay()\n{\n\tret;\n}\n")],
    "an unknown side to compare with": lambda p, d: ["verify", p, "-g", layer(d), "--against", "theirs"],
    "a tolerance that is none": lambda p, d: ["verify", p, "-g", layer(d), "--tolerance", "-1"],
    "values of an unknown type": lambda p, d: ["diff", p, p, "--tolerance", "1", "--values", "f8"],
    "a weight map of a kernel without weights": lambda p, d: ["spec", text(d, "l.ptx", HEAD + ".visible .entry layer()\n{\n\tret;\n}\n"), "--verify", p],
    # -- outputs --------------------------------------------------------------------------------------------------------------
    "an output folder that is a file": lambda p, d: ["cut", layer(d), "-o", text(d, "out", "")],
    "a picture folder that is a file": lambda p, d: ["show", p, "--png", text(d, "out", "")],
    "a demo folder that is a file": lambda p, d: ["demo", "-o", text(d, "out", "")],
    "an output in a folder that is not there": lambda p, d: ["spec", layer(d), "--md", d / "docs" / "layer.md"],
    "an output that is a folder": lambda p, d: ["probe", layer(d), "--at", "p0", "-o", d],
    "a saved array in no folder": lambda p, d: faulty(d, "takes", "--save", d / "no" / "x.npz"),
    "a recorded launch over something else": lambda p, d: faulty(d, "takes", "--record", text(d, "notes.txt", "keep me")),
    "a replayed launch over something else": lambda p, d: ["replay", p, "-o", text(d, "notes.txt", "keep me")],
    # -- launches -------------------------------------------------------------------------------------------------------------
    "an argument that cannot be read": lambda p, d: faulty(d, "takes", "-a", "many"),
    "an argument of an unknown type": lambda p, d: faulty(d, "takes", "-a", "f8[16]"),
    "an argument filled with nonsense": lambda p, d: faulty(d, "takes", "-a", "f32[16]=ones"),
    "an argument larger than memory": lambda p, d: faulty(d, "takes", "-a", "f64[999999999999999]"),
    "an argument file that is missing": lambda p, d: faulty(d, "takes", "-a", f"@{d}/no.bin"),
    "an argument file that is empty": lambda p, d: faulty(d, "takes", "-a", text(d, "no.npy", "")),
    "an argument file of objects": lambda p, d: faulty(d, "takes", "-a", text(d, "no.npy", b"\x93NUMPY\1\0")),
    "an argument in broken hexadecimal": lambda p, d: faulty(d, "takes", "-a", "bytes:0x"),
    "too few arguments": lambda p, d: faulty(d, "takes"),
    "an argument that does not fit": lambda p, d: faulty(d, "takes", "-a", "u32[4]", "-a", "bytes:0000000000000000"),
    "a by-value parameter of the wrong size": lambda p, d: faulty(d, "takes", "-a", "2.0", "-a", "bytes:00000000"),
    "a grid that is none": lambda p, d: ["run", faulty(d, "takes")[1], "-e", "takes", "--grid", "1x2x3x4", "--block", "32"],
    "a block that is too large": lambda p, d: ["run", layer(d), "--grid", "1", "--block", "32,64"],
    "an unknown engine": lambda p, d: ["replay", p, "--engine", "gpu"],
    "an unknown profile": lambda p, d: ["verify", p, "-g", layer(d), "--profile", "sm_91"],
    "a step budget of nothing": lambda p, d: faulty(d, "endless", "--step-budget", "0"),
    # -- kernels --------------------------------------------------------------------------------------------------------------
    "a store out of bounds": lambda p, d: faulty(d, "out_of_bounds"),
    "a kernel that never ends": lambda p, d: faulty(d, "endless", "--step-budget", "1000"),
    "a barrier that half the warps skip": lambda p, d: faulty(d, "half_barrier"),
    "an unknown instruction": lambda p, d: faulty(d, "strange"),
    "a function without a body": lambda p, d: faulty(d, "calls_away"),
    "a kernel that stops itself": lambda p, d: faulty(d, "stops"),
    # -- the command line itself ----------------------------------------------------------------------------------------------
    "an unknown verb": lambda p, d: ["replya", p],
    "an unknown option": lambda p, d: ["show", p, "--pictures"],
    "a missing argument": lambda p, d: ["show"],
    "a missing option": lambda p, d: ["verify", p],
    "an option that is no number": lambda p, d: ["verify", p, "-g", layer(d), "--tolerance", "small"],
}  # fmt: skip


def recorded_messages() -> dict[str, str]:
    if not MESSAGES.exists():
        return {}
    pieces = re.split(r"^## (.*)\n", MESSAGES.read_text(), flags=re.M)[1:]
    return {name: body.strip("\n") for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


def shown(code: int, text: str, folder: Path, package: Path) -> str:
    text = text.replace(str(package), "CAPTURE").replace(str(folder), "DIR")
    return f"exit {code}\n" + "\n".join(line.rstrip() for line in text.expandtabs(4).strip("\n").split("\n"))


@pytest.mark.parametrize("name", CASES)
def test_a_message_says_where_and_what_next_and_nothing_stays_behind(name, verb, package, tmp_path):
    arguments = CASES[name](package, tmp_path)
    before = contents(tmp_path)
    ended = verb(*arguments)
    found = shown(ended.code, ended.err, tmp_path, package)
    assert ended.code in (2, 3) and ended.out == ""
    assert contents(tmp_path) == before
    if os.environ.get("PTXGRAFT_UPDATE_MESSAGES"):
        texts = {**recorded_messages(), name: found}
        MESSAGES.write_text("".join(f"## {n}\n{texts[n]}\n\n" for n in CASES if n in texts))
    assert found == recorded_messages().get(name)


def test_every_recorded_message_belongs_to_a_case():
    assert list(recorded_messages()) == list(CASES)


def test_messages_are_one_line_with_a_caret_below_at_most():
    together = [n for n in CASES if n.endswith("together")] + ["an escape sequence in a source line"]
    for name, body in recorded_messages().items():
        lines = body.split("\n")[1:]
        heads = [line for line in lines if line.startswith("ptxgraft")]
        assert heads and len(lines) == len(heads) * (3 if len(lines) > len(heads) else 1), name
        assert len(heads) == 1 or name in together, name


def test_nothing_that_a_terminal_obeys_is_printed():
    assert "\x1b" not in MESSAGES.read_text() and "\\x1b[31m" in recorded_messages()["an escape sequence in a source line"]


def test_faults_are_the_same_on_both_engines(verb, tmp_path):
    for entry in ("out_of_bounds", "endless", "half_barrier", "strange", "calls_away", "stops"):
        arguments = faulty(tmp_path, entry, "--step-budget", "500")
        warp, numpy = verb(*arguments), verb(*arguments, "--engine", "numpy")
        assert (warp.code, warp.err) == (numpy.code, numpy.err)


def test_a_folder_that_cannot_be_written_to(verb, package, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    ended = verb("show", package, "--png", tmp_path)
    assert (ended.code, ended.err) == (2, f"ptxgraft: the folder {tmp_path} cannot be written to\n")
    ended = verb("spec", faulty(tmp_path, "takes")[1], "-e", "takes", "--md", tmp_path / "x.md")
    assert (ended.code, ended.err) == (2, f"ptxgraft: cannot write {tmp_path}/x.md: the folder {tmp_path} cannot be written to\n")


def test_a_disk_that_is_full_leaves_nothing(verb, package, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    ended = verb("show", package, "--png", tmp_path / "out")
    assert ended.code == 2 and "No space left on device" in ended.err and contents(tmp_path) == {"out": None}


def test_the_saved_array_of_a_faulting_run_is_not_written(verb, tmp_path):
    ended = verb(*faulty(tmp_path, "out_of_bounds", "--save", str(tmp_path / "x.npz"), "--record", str(tmp_path / "x.ptxcap")))
    assert ended.code == 2 and sorted(contents(tmp_path)) == ["faults.ptx"]


def test_a_buffer_given_as_a_file(verb, tmp_path):
    np.save(tmp_path / "big.npy", np.arange(64, dtype=">u4"))
    path = faulty(tmp_path, "out_of_bounds")[1]
    ended = verb("run", path, "-e", "out_of_bounds", "--grid", "1", "--block", "64", "-a", tmp_path / "big.npy", "--json")
    assert ended.code == 0 and ended.json["buffers"]["arg0"]["first"] == list(range(64))
