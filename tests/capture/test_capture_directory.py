"""The directory form: read as formats.md section 1 says, written so that reading gives the same back."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.capture import Allocation, Capture, Image, Pointer, convert, open_capture, write_directory
from ptxgraft.errors import SourceError, SourceErrors, UsageError

ENC4 = "replay/replay-000012-enc4"
A, B = 0x7F32_0000_0000, 0x7F32_4000_0000


def the_problem(cap: Path) -> str:
    capture = open_capture(cap)
    assert len(capture.problems) == 1
    assert [launch.kernel for launch in capture.launches] == ["dec0"], "one bad launch must not hide the others"
    with pytest.raises(SourceError) as raised:
        capture.launch(12)
    assert raised.value is capture.problems[0]
    text = str(capture.problems[0])
    assert "\n" not in text
    return text


def edit(cap: Path, old: bytes, new: bytes) -> None:
    path = cap / ENC4 / "manifest.txt"
    text = path.read_bytes()
    assert old in text
    path.write_bytes(text.replace(old, new))


def test_every_part_of_a_launch(by_hand: Path) -> None:
    capture = open_capture(by_hand)
    assert (capture.form, capture.problems, [launch.seq for launch in capture.launches]) == ("directory", [], [12, 13])
    launch = capture.launch(12)
    assert (launch.kernel, launch.grid, launch.block, launch.shared_bytes) == ("enc4", (11, 7, 1), (32, 1, 4), 49152)
    assert [(a.index, a.base, a.size) for a in launch.allocations] == [(0, A, 1024), (3, B, 32)]
    assert launch.pointers == [Pointer(8, 0, 256), Pointer(40, 3, 0)]
    assert launch.before(0).tobytes() == bytes(range(256)) * 4
    assert launch.after(0).tobytes() == b"\x55" * 1024
    assert launch.after(3).tobytes() == b"\x66" * 32, "the dump's base may be in capitals, other text stands around it"
    assert launch.before(0).dtype == np.uint8 and not launch.before(0).flags.writeable
    texture, surface = launch.images
    assert (texture.kind, texture.arg_offset, texture.handle, texture.filter) == ("texture", 16, 0x1000_0000_2A, "linear")
    assert texture.texels("before")[1, 2].tolist() == [20, 21, 22, 23] and texture.after is not None
    assert (surface.kind, surface.width, surface.height, surface.channels, surface.format) == ("surface", 2, 2, 4, 194)
    assert surface.before is None and surface.texels("after")[1, 1].tolist() == [192, 208, 224, 240]
    assert launch.module is None and launch.module_hash is None and launch.variables == []


def test_tabs_carriage_returns_no_arguments(by_hand: Path) -> None:
    launch = open_capture(by_hand).launch("dec0")
    assert (launch.grid, launch.block, launch.shared_bytes, launch.args) == ((161, 93, 1), (32, 1, 1), 0, b"")


def test_unknown_lines_are_reported_once(by_hand: Path) -> None:
    notes = [note for note in open_capture(by_hand).notes if "stream" in note]
    assert len(notes) == 1 and f"{by_hand}/{ENC4}/manifest.txt:6:1" in notes[0]


def test_pointer_lines_may_precede_their_allocation(by_hand: Path) -> None:
    edit(by_hand, b"pointer 40 3 0\n", b"")
    edit(by_hand, b"\n\nalloc", b"\npointer 40 3 0\nalloc")
    assert open_capture(by_hand).launch(12).pointer(40) == Pointer(40, 3, 0)


@pytest.mark.parametrize("word", [b"0x7f3240000000", b"7f3240000000", b"0X7F3240000000", b"00007f3240000000"])
def test_bases_in_hexadecimal(by_hand: Path, word: bytes) -> None:
    edit(by_hand, b"7f3240000000", word)
    assert open_capture(by_hand).launch(12).allocation(3).base == B


def test_textures_before_surfaces_each_by_offset(by_hand: Path) -> None:
    for name in ("arg032-texture-1x1x1-fmt32", "arg000-texture-1x1x1-fmt32", "arg008-surface-1x1x1-fmt32"):
        (by_hand / f"dump/launch-012-enc4-{name}.bin").write_bytes(b"\0\0\x80\x3f")
    images = open_capture(by_hand).launch(12).images
    assert [(i.kind, i.arg_offset) for i in images] == [("texture", 0), ("texture", 16), ("texture", 32), ("surface", 8), ("surface", 24)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (b"", None),
        (b"cuTexObjectCreate filter=1 object=0x100000002a\nlaunch[12] enc4\n", "linear"),
        (b"cuTexObjectCreate filter=1 object=0x100000002a\nlaunch[012] enc4\n", "linear"),
        (b"launch[12] enc4\ncuTexObjectCreate filter=1 object=0x100000002a\n", None),
        (b"cuTexObjectCreate filter=1 object=0x100000002a\ncuTexObjectCreate filter=0 object=0x100000002a\nlaunch[12] enc4\n", "point"),
        (b"cuTexObjectCreate filter=1 object=0x100000002a\nlaunch[12] enc4\ncuTexObjectCreate filter=0 object=0x100000002a\n", "linear"),
        (b"cuTexObjectCreate filter=1 object=0x100000002a\nlaunch[12] enc4\nlaunch[12] enc4 again\n", "linear"),
        # No line of its own: the end of the log. The launch lines of other numbers and of other kernels are not its own.
        (b"launch[2] enc4\nlaunch[112] enc4\nlaunch[12] enc4_2\ncuTexObjectCreate filter=1 object=0x100000002a\n", "linear"),
        (b"cuTexObjectCreate filter=1 object=0x100000002a\ncuTexObjectCreate filter=0 object=0x100000002b\n", "linear"),
        (b"cuTexObjectCreate filter=1 object=0x100000002a0\n", None),
        (b"cuTexObjectCreate filter=1 object=0x100000002a\ncuTexObjectCreate object=0x100000002a\nlaunch[12] enc4\n", None),
        (b"cuTexObjectCreate mipfilter=1 filter=0 object=0x100000002a\n", "point"),
        (b"cuTexObjectCreate filter=7 object=0x100000002a\n", None),
    ],
)
def test_filter_is_that_of_the_last_creation_before_the_launch(by_hand: Path, log: bytes, expected: str | None) -> None:
    (by_hand / "run/run.log").write_bytes(log)
    assert open_capture(by_hand).launch(12).image(16).filter == expected


def test_without_a_log_the_filter_is_unknown(by_hand: Path) -> None:
    (by_hand / "run/run.log").unlink()
    (by_hand / "run").rmdir()
    assert open_capture(by_hand).launch(12).image(16).filter is None


def test_missing_post_dump_names_allocation_and_launch_when_asked(by_hand: Path) -> None:
    (by_hand / "dump/launch-012-enc4-arg040-buffer-out-size32-base0x7F3240000000+0-of-2.bin").unlink()
    launch = open_capture(by_hand).launch(12)
    assert launch.after(0).size == 1024 and not launch.allocation(3).after_recorded
    with pytest.raises(SourceError, match=r"no dump of allocation 3 \(base 0x7f3240000000\) after launch 12 \(enc4\)"):
        _ = launch.allocation(3).after


def test_no_dump_folder(by_hand: Path) -> None:
    for path in (by_hand / "dump").iterdir():
        path.unlink()
    (by_hand / "dump").rmdir()
    launch = open_capture(by_hand).launch(12)
    assert launch.images == []
    with pytest.raises(SourceError, match="no dump of allocation 0"):
        launch.after(0)


def test_short_dump_is_an_error_when_asked(by_hand: Path) -> None:
    path = by_hand / "dump/launch-012-enc4-arg008-buffer-0004-base0x7f3200000000+256.bin"
    path.write_bytes(b"\x55" * 1000)
    (by_hand / "dump/launch-012-enc4-arg016-texture-3x2x4-fmt16.bin").write_bytes(b"\0" * 47)
    launch = open_capture(by_hand).launch(12)
    with pytest.raises(SourceError, match=rf"{re.escape(str(path))}.*has 1000 bytes, 1024 expected"):
        launch.after(0)
    with pytest.raises(SourceError, match="has 47 bytes, 48 expected"):
        launch.image(16).pixels()


def test_an_allocation_dumped_for_two_arguments(by_hand: Path) -> None:
    (by_hand / "dump/launch-012-enc4-arg000-buffer-part-base0x7f3200000000+0.bin").write_bytes(b"\x44" * 10)
    (by_hand / "dump/launch-012-enc4-arg048-buffer-whole-base0x7f3200000000+9.bin").write_bytes(b"\x44" * 1024)
    assert open_capture(by_hand).launch(12).after(0)[0] == 0x55, "the lowest offset of those with the right size"


def test_a_kernel_name_too_long_for_a_file(by_hand: Path) -> None:
    edit(by_hand, b"kernel enc4", b"kernel enc4" + b"x" * 300)
    launch = open_capture(by_hand).launch(12)
    assert launch.kernel == "enc4" + "x" * 300 and launch.after(0)[0] == 0x55, "the folder's name is also the files'"


def test_unknown_format_is_raw_bytes_and_reported(by_hand: Path) -> None:
    (by_hand / "dump/launch-012-enc4-arg000-texture-5x5x1-fmt176.bin").write_bytes(b"raw bytes")
    capture = open_capture(by_hand)
    image = capture.launch(12).image(0)
    assert image.size is None and image.contents().tobytes() == b"raw bytes"
    assert sum("image format 176 is unknown" in note for note in capture.notes) == 1
    with pytest.raises(UsageError, match="image format 176 is unknown"):
        image.pixels()


def test_a_pointer_that_is_not_what_the_manifest_says_is_noted(by_hand: Path) -> None:
    edit(by_hand, b"pointer 8 0 256", b"pointer 8 0 128")
    capture = open_capture(by_hand)
    assert any("pointer at argument offset 8" in note for note in capture.notes)
    assert capture.launch(12).relocated_args({0: 0x1000})[8:16] == (0x1080).to_bytes(8, "little")


# ---- bad input: each one line, naming file and place ----


@pytest.mark.parametrize(
    ("old", "new", "place", "says"),
    [
        (b"kernel enc4\n", b"kernel\n", "1:7", "kernel's name"),
        (b"kernel enc4\n", b"\n", "1:1", "kernel's name"),
        (b"dims 11 7 1 32 1 4 49152 0", b"dims 11 7 1 32 1", "2:17", "block dimension z"),
        (b"dims 11", b"dims x", "2:6", "grid dimension x"),
        (b"dims 11", b"dims 0", "2:6", "from 1 to"),
        (b"dims 11", b"dims \xd9\xa1", "2:6", "grid dimension x"),  # an Arabic digit is a digit to int()
        (b"dims 11", b"dims 1_1", "2:6", "grid dimension x"),
        (b"49152", b"-1", "2:20", "dynamic shared size"),
        (b"alloc 3", b"alloc 0", "7:1", "allocation 0 is given twice"),
        (b"alloc 3", b"alloc three", "7:7", "allocation's number"),
        (b"alloc 3", b"alloc ../../3", "7:7", "allocation's number"),
        (b"7f3240000000 32", b"nowhere 32", "7:9", "base in hexadecimal"),
        (b"7f3240000000 32", b"7f3240000000", "7:21", "found the end of the line"),
        (b"7f3240000000 32", b"7f3240000000 33", "7:1", "has 33 bytes, its file alloc-3.bin only 32"),
        (b"7f3240000000 32", b"7f3240000000 " + b"9" * 5000, "7:22", "allocation's size"),
        (b"7f3240000000 32", b"fffffffffffffff0 32", "7:26", "allocation's size"),
        (b"alloc 3", b"alloc 4", "7:1", "no file alloc-4.bin"),
        (b"pointer 8 0 256", b"pointer 57 0 256", "5:1", "needs 65 bytes of arguments, args.bin has 64"),
        (b"pointer 8 0 256", b"pointer 8 9 256", "5:1", "into allocation 9, which the manifest does not list"),
        (b"pointer 8 0 256", b"pointer 40 0 256", "8:1", "another pointer at argument offset 40"),
        (b"pointer 8 0 256", b"pointer -8 0 256", "5:9", "byte offset"),
        (b"pointer 8 0 256", b"pointer 8 0", "5:12", "distance from the base"),
        (b"pointer 8 0 256", b"pointer 8 0 18446744073709551615", "5:1", "no 64-bit address"),
        (b"stream", b"\xff\xfe", "6:1", "not UTF-8"),
    ],
)
def test_manifest_errors(by_hand: Path, old: bytes, new: bytes, place: str, says: str) -> None:
    edit(by_hand, old, new)
    if b"pointer 40" not in new:
        edit(by_hand, b"pointer 40 3 0\n", b"")  # allocation 3 alone is to blame
    text = the_problem(by_hand)
    assert text.startswith(f"{by_hand}/{ENC4}/manifest.txt:{place}: ") and says in text


def test_all_errors_of_a_manifest_come_out_together(by_hand: Path) -> None:
    edit(by_hand, b"dims 11", b"dims x")
    edit(by_hand, b"alloc 3", b"alloc x")
    (error,) = open_capture(by_hand).problems
    assert isinstance(error, SourceErrors) and len(error.errors) == 2 and len(str(error).splitlines()) == 2


@pytest.mark.parametrize("name", ["manifest.txt", "args.bin", "alloc-0.bin"])
def test_a_missing_file(by_hand: Path, name: str) -> None:
    (by_hand / ENC4 / name).unlink()
    text = the_problem(by_hand)
    assert f"{by_hand}/{ENC4}" in text and name in text


@pytest.mark.parametrize("length", [0, 11, 13, 20])
def test_a_truncated_manifest(by_hand: Path, length: int) -> None:
    path = by_hand / ENC4 / "manifest.txt"
    path.write_bytes(path.read_bytes()[:length])
    assert str(path) in the_problem(by_hand)


def test_argument_block_too_short_for_a_pointer_and_for_an_image(by_hand: Path) -> None:
    args = by_hand / ENC4 / "args.bin"
    args.write_bytes(args.read_bytes()[:44])
    assert "manifest.txt:8:1: pointer at argument offset 40 needs 48 bytes of arguments, args.bin has 44" in the_problem(by_hand)
    edit(by_hand, b"pointer 40 3 0\n", b"")
    edit(by_hand, b"pointer 8 0 256\n", b"")
    args.write_bytes(args.read_bytes()[:20])
    assert "argument offset 16 is past the end of args.bin (20 bytes)" in the_problem(by_hand)


@pytest.mark.parametrize("name", ["manifest.txt", "args.bin", "alloc-0.bin"])
def test_neither_pipes_nor_folders_nor_loops_hang_or_crash(by_hand: Path, name: str) -> None:
    path = by_hand / ENC4 / name
    path.unlink()
    os.mkfifo(path)
    the_problem(by_hand)
    path.unlink()
    path.mkdir()
    the_problem(by_hand)
    path.rmdir()
    path.symlink_to(path)
    the_problem(by_hand)


def test_a_bad_launch_keeps_its_number_among_frames(by_hand: Path) -> None:
    (by_hand / ENC4 / "args.bin").unlink()
    again = by_hand / "replay/replay-000020-enc4"
    again.mkdir()
    (again / "manifest.txt").write_bytes(b"kernel enc4\ndims 1 1 1 1 1 1\n")
    (again / "args.bin").write_bytes(b"")
    capture = open_capture(by_hand)
    assert capture.nth("enc", 2).seq == 20
    with pytest.raises(SourceError, match=r"args\.bin"):
        capture.nth("enc", 1)


def test_two_folders_with_one_number(by_hand: Path) -> None:
    again = by_hand / "replay/replay-00012-zzz"
    again.mkdir()
    (again / "manifest.txt").write_bytes(b"kernel zzz\ndims 1 1 1 1 1 1\n")
    (again / "args.bin").write_bytes(b"")
    capture = open_capture(by_hand)
    assert len(capture.launches) == 2 and "has the sequence number 12 already" in str(capture.problems[0])


def test_names_that_are_not_utf8(by_hand: Path) -> None:
    os.mkdir(os.fsencode(by_hand) + b"/replay/replay-000099-\xff\n")
    text = str(open_capture(by_hand).problems[0])
    text.encode()  # can be printed
    assert "\n" not in text


@pytest.mark.parametrize("path", ["nothing/here", "a\0b"])
def test_no_capture_there(tmp_path: Path, path: str) -> None:
    with pytest.raises(SourceError, match="no such capture"):
        open_capture(str(tmp_path / path))


def test_not_a_capture(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(SourceError, match="not a capture"):
            open_capture(path)
    (tmp_path / "replay").mkdir()
    with pytest.raises(SourceError, match="holds no launch"):
        open_capture(tmp_path)


def test_nothing_is_opened_before_it_is_asked_for(by_hand: Path) -> None:
    launch = open_capture(by_hand).launch(12)
    (by_hand / ENC4 / "alloc-0.bin").unlink()
    assert launch.allocation(0).size == 1024
    with pytest.raises(SourceError, match=r"alloc-0\.bin: cannot read allocation 0"):
        launch.before(0)


# ---- writing ----


def test_write_read_equal(tmp_path: Path, in_memory, described) -> None:
    launches = [in_memory(5), in_memory(1234567, "_ZN3foo3barE$x"), in_memory(7, "k" * 400)]
    launches[0].textures[0].filter = "point"
    launches[2].textures[0].filter = None  # the same handle had a filter before
    launches[2].allocations[1].after = None
    notes = write_directory(launches, tmp_path / "out")
    back = open_capture(tmp_path / "out")
    assert back.problems == [] and back.notes == []
    assert [described(b, shared=True) for b in back.launches] == [described(a, shared=True) for a in sorted(launches, key=lambda a: a.seq)]
    assert len(notes) == len(set(notes))
    for word in ("modules", "variables", "address modes", "surfaces before", "allocation 2 has no contents"):
        assert any(word in note for note in notes), word


def test_writing_what_was_read_loses_nothing(tmp_path: Path, by_hand: Path, described) -> None:
    first = open_capture(by_hand)
    assert write_directory(first, tmp_path / "again") == []
    again = open_capture(tmp_path / "again")
    assert [described(x) for x in again.launches] == [described(x) for x in first.launches]


def test_through_our_own_form_and_back(tmp_path: Path, by_hand: Path, described) -> None:
    (by_hand / "dump/launch-012-enc4-arg040-buffer-out-size32-base0x7F3240000000+0-of-2.bin").unlink()
    notes = convert(by_hand, tmp_path / "a.ptxcap")
    assert len(notes) == 1 and "no dump of allocation 3" in notes[0]
    assert len(convert(tmp_path / "a.ptxcap", tmp_path / "b", form="directory")) == 1
    first, last = open_capture(by_hand), open_capture(tmp_path / "b")
    assert [described(x) for x in last.launches] == [described(x) for x in first.launches]


def test_names_written_are_the_described_ones(tmp_path: Path, in_memory) -> None:
    write_directory([in_memory(5)], tmp_path / "out")
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert found == [
        "dump/launch-005-enc4-arg008-buffer-0-5000-base0x7f3200000000+256.bin",
        "dump/launch-005-enc4-arg016-texture-3x2x4-fmt16.bin",
        "dump/launch-005-enc4-arg024-surface-2x2x4-fmt194.bin",
        "dump/launch-005-enc4-arg040-buffer-2-64-base0x7f3240000000+0.bin",
        "replay/replay-000005-enc4/alloc-0.bin",
        "replay/replay-000005-enc4/alloc-2.bin",
        "replay/replay-000005-enc4/args.bin",
        "replay/replay-000005-enc4/manifest.txt",
        "run/run.log",
    ]
    manifest = (tmp_path / "out/replay/replay-000005-enc4/manifest.txt").read_text().splitlines()
    assert manifest[1:] == [
        "launch 11 7 1 32 1 4 49152",
        "alloc 0 0x7f3200000000 5000",
        "alloc 2 0x7f3240000000 64",
        "pointer 8 0 256",
        "pointer 40 2 0",
    ]


@pytest.mark.parametrize("kernel", ["../../evil", "/etc/evil", "..", "a/b"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, in_memory, kernel: str) -> None:
    write_directory([in_memory(1, kernel)], tmp_path / "in" / ".." / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert open_capture(tmp_path / "out").launch(1).kernel == kernel


def test_nothing_is_left_of_a_failed_write(tmp_path: Path, by_hand: Path) -> None:
    capture = open_capture(by_hand)
    (by_hand / ENC4 / "alloc-3.bin").unlink()
    with pytest.raises(SourceError):
        write_directory(capture, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["CAP"]


def test_what_is_not_a_capture_is_left_alone(tmp_path: Path, by_hand: Path, in_memory) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("x")
    (by_hand / "my notes.txt").write_text("x")
    for target in ("mine", "file", "CAP"):
        for overwrite in (False, True):
            with pytest.raises(UsageError, match="not a capture"):
                write_directory([in_memory()], tmp_path / target, overwrite=overwrite)
    (by_hand / "my notes.txt").unlink()
    with pytest.raises(UsageError, match="there is a capture already"):
        write_directory([in_memory()], by_hand)
    write_directory([in_memory()], by_hand, overwrite=True)
    assert [launch.seq for launch in open_capture(by_hand).launches] == [5]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["CAP", "file", "mine"]


def test_a_handle_that_is_not_in_the_arguments_cannot_be_written(tmp_path: Path, in_memory) -> None:
    launch = in_memory(textures=[Image("texture", 16, 0xBAD, 1, 1, 1, 32, before=b"\0\0\0\0")])
    with pytest.raises(UsageError, match="has the handle 0xbad"):
        write_directory([launch], tmp_path / "out")


def test_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no launch to write"):
        write_directory(Capture(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_not_there(tmp_path: Path, in_memory) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write_directory([in_memory()], tmp_path / "no/out")


def test_contradictions_are_refused(tmp_path: Path, in_memory) -> None:
    launch = in_memory(allocations=[Allocation(0, A, 8, before=b"seven b"), Allocation(2, B, 4, b"four")])
    with pytest.raises(UsageError, match="allocation 0 before the launch has 7 bytes, 8 expected"):
        write_directory([launch], tmp_path / "out")
