"""``show --launch`` says what every byte of the argument block is."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptxgraft
from ptxgraft import capture
from ptxgraft.report import arguments_of
from ptxgraft.run import capture_of, execute, snapshot

PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n, .param .s32 shift, .param .f32 a, .param .align 4 .b8 box[12], .param .b64 tail)
{ .reg .b64 %rd<2>; .reg .b32 %r<2>; ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; st.global.u32 [%rd1], %r1; ret; }
"""


@pytest.fixture(scope="module")
def launch() -> capture.Launch:
    values = [np.zeros(4, np.uint32), 7, -3, 0.5, bytes(range(12)), 1 << 40]
    prepared = ptxgraft.load(PTX).kernel("k").prepare(1, 1, values)
    before = snapshot(prepared.launch)
    return capture_of(prepared.launch, before, 3, execute(prepared.launch, engine="numpy"))


def test_arguments_by_name_type_and_value(launch):
    assert [(a.offset, a.size, a.name, a.type, a.value) for a in arguments_of(launch)] == [
        (0, 8, "out", "u64", "allocation 0 + 0"),
        (8, 4, "n", "u32", "7"),
        (12, 4, "shift", "s32", "-3"),
        (16, 4, "a", "f32", "0.5"),
        (20, 12, "box", "b8[12]", "0x03020100, 0x07060504, 0x0b0a0908"),
        (32, 8, "tail", "b64", "0x10000000000"),
    ]


def test_a_pointer_inside_a_struct_is_named(launch):
    args = launch.args[:24] + struct.pack("<Q", launch.allocations[0].base + 4) + launch.args[32:]
    held = replace(launch, args=args, pointers=[*launch.pointers, capture.Pointer(24, 0, 4)])
    assert arguments_of(held)[4].value == "0x03020100, allocation 0 + 4"


def test_words_of_a_struct_are_shown_as_what_they_look_like(launch):
    words = struct.pack("<ifI", -5, 0.02, 0xDEADBEEF)
    held = replace(launch, args=launch.args[:20] + words + launch.args[32:])
    assert arguments_of(held)[4].value == "-5, 0.02, 0xdeadbeef"


@given(st.binary(max_size=60))
def test_every_byte_is_in_one_row(args):
    for module in (None, PTX.encode(), b"no ptx", PTX.replace("k(", "other(").encode()):
        rows = arguments_of(capture.Launch(0, "k", (1, 1, 1), (1, 1, 1), args, module=module))
        covered = [o for r in rows for o in range(r.offset, r.offset + r.size)]
        assert covered == sorted(set(covered)) and all(o < len(args) for o in covered)
        assert not any(args[o] for o in set(range(len(args))) - set(covered))


def test_the_verb_shows_them(launch, tmp_path, verb):
    capture.write([launch], tmp_path / "one.ptxcap")
    ended = verb("show", tmp_path / "one.ptxcap", "--launch", 3)
    assert "box" in ended.out and "allocation 0 + 0" in ended.out and "recorded on numpy (sm_90)" in ended.out
    made = verb("show", tmp_path / "one.ptxcap", "--launch", 3, "--json").json
    assert made["arguments"][1] == {"offset": 8, "size": 4, "name": "n", "type": "u32", "value": "7"}
    assert (made["engine"], made["profile"]) == ("numpy", "sm_90")


def test_replay_says_when_other_bits_were_recorded(launch, tmp_path, verb):
    capture.write([launch], tmp_path / "one.ptxcap")
    assert "what was recorded" not in verb("replay", tmp_path / "one.ptxcap").err
    ended = verb("replay", tmp_path / "one.ptxcap", "--profile", "sm_80")
    assert "note: what was recorded came from numpy (sm_90), this run gives the bits of sm_80" in ended.err
