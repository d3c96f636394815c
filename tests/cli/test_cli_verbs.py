"""Every verb on good input: its exit code, the keys of its JSON that other programs rely on, and the files it writes."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import contents, small_layer

from ptxgraft import __version__, capture, cli
from ptxgraft.cli.app import app, exit_code
from ptxgraft.errors import DeviceError, SourceError, SourceErrors, UnsupportedError
from ptxgraft.text import Document
from ptxgraft.verify import weights

VERBS = [
    "demo", "extract", "ls", "spec", "cut", "probe", "apply", "run", "record", "show", "convert", "replay", "diff", "verify", "bisect", "bench",
    "doctor",
]  # fmt: skip
STORE = small_layer.STORE


@pytest.fixture
def wrong(tmp_path):
    """A graft that leaves the buffer unwritten."""
    path = tmp_path / "wrong.ptx"
    path.write_bytes(small_layer.edited(small_layer.layer_document(), (STORE, "")).data)
    return path


# -- help ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VERBS)
def test_help_says_what_a_verb_does_and_shows_an_example(verb, name):
    ended = verb(name, "--help")
    said = " ".join(ended.out.replace("│", " ").split())
    assert ended.code == 0 and ended.err == ""
    assert f"Usage: ptxgraft {name}" in said and f"Example: ptxgraft {name}" in said and "--json" in said


def test_help_loses_nothing_in_square_brackets(verb):
    """Rich takes a bracketed word for a style unless it is escaped."""
    assert "[block, warp, lane] by register" in " ".join(verb("probe", "--help").out.replace("│", " ").split())
    assert "f32[1024]=random" in verb("run", "--help").out


def test_help_lists_the_verbs_and_the_exit_codes(verb):
    ended = verb("--help")
    said = " ".join(ended.out.replace("│", " ").split())
    assert ended.code == 0 and [c.name or c.callback.__name__ for c in app.registered_commands] == VERBS
    assert all(f" {name} " in said for name in VERBS)
    assert "0 same or done, 1 differs, 2 bad input or usage, 3 known but unsupported, 4 device or driver" in said


def test_no_verb_shows_the_help(verb):
    ended = verb()
    assert ended.code == 2 and "Usage: ptxgraft" in ended.out + ended.err


def test_the_version(verb):
    assert verb("--version").out == f"ptxgraft {__version__}\n"


# -- modules ------------------------------------------------------------------------------------------------------------------


def test_ls(verb, layer):
    found = verb("ls", layer, "--json")
    (entry,) = found.json["entries"]
    assert found.code == 0 and found.err == ""
    assert (entry["name"], entry["statements"], entry["mma"], entry["unknown"]) == ("layer", 58, 4, [])
    assert entry["params"][1] == {"name": "layer_weights", "type": "u64", "offset": 8, "size": 8}
    assert verb("ls", layer).out.splitlines()[1].split()[-1] == "layer"


def test_ls_lists_good_entries_beside_a_wrong_one(verb, tmp_path):
    path = tmp_path / "mixed.ptx"
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    path.write_text(head + ".visible .entry good()\n{\n\tret;\n}\n.visible .entry wrong()\n{\n\tbra NOWHERE;\n}\n")
    ended = verb("ls", path, "--json")
    assert ended.code == SourceError.exit_code and [e["name"] for e in ended.json["entries"]] == ["good"]
    assert ended.json["errors"] == [f"{path}:10:2: label 'NOWHERE' is not in reach here"] and "mixed.ptx:10:2" in ended.err


def test_spec(verb, layer, tmp_path):
    ended = verb("spec", layer, "--block", "32x2", "--json", "--md", tmp_path / "layer.md")
    made = ended.json
    assert ended.code == 0 and ended.err == f"wrote {tmp_path}/layer.md\n" and "# `layer`" in (tmp_path / "layer.md").read_text()
    assert made["entry"] == "layer" and [p["use"] for p in made["params"]] == ["buffer", "weights", "buffer", "surface", "value"]
    assert [s["name"] for s in made["shared"]] == ["staged"]
    assert {k: made["region"][k] for k in ("first_line", "last_line", "statements")} == {
        "first_line": 56,
        "last_line": 71,
        "statements": 16,
    }
    assert [p["index"] for p in made["phases"]] == [0, 1, 2]
    for phase in made["phases"]:
        assert {"index", "first_line", "last_line", "shape", "types", "mma", "a", "b", "c", "d"} <= phase.keys()
    first = made["phases"][0]
    assert (first["shape"], first["mma"], first["types"]) == ("m16n8k16", 2, {"d": "f16", "a": "f16", "b": "f16", "c": "f16"})
    assert [f["provenance"]["text"] for f in first["b"]] == ["weights+0x0", "weights+0x100"]
    assert len(made["abi"]["live_in"]) == 13 and [r["name"] for r in made["abi"]["live_out"]] == ["%r42", "%r43"]


def test_spec_of_an_entry_without_tensor_cores(verb, tmp_path):
    path = tmp_path / "plain.ptx"
    path.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry plain()\n{\n\tret;\n}\n")
    made = verb("spec", path, "--json").json
    assert (made["region"], made["phases"], made["abi"]) == (None, [], None)
    assert "no tensor-core instruction" in verb("spec", path).out


def test_spec_proves_the_weight_map(verb, layer, package):
    ended = verb("spec", layer, "--verify", package, "--engine", "numpy", "--json")
    assert ended.code == 0 and ended.json["holds"] is True and ended.json["proof"]["phases_seen"] == [0, 1, 2]
    assert verb("spec", layer, "--verify", package, "--engine", "numpy").out.startswith("weight map holds: ")


def test_spec_says_when_the_map_does_not_hold(verb, layer, package, monkeypatch):
    right = weights.layer_spec
    wrongly = {0: [(1152, 1280)]}
    monkeypatch.setattr(
        weights,
        "layer_spec",
        lambda *a: (
            (s := right(*a)) and replace(s, phases=[replace(p, weight_ranges=wrongly.get(p.index, p.weight_ranges)) for p in s.phases])
        ),
    )
    ended = verb("spec", layer, "--verify", package, "--engine", "numpy")
    assert ended.code == 1 and "weight map is not proved" in ended.out and "never seen to change: phases 0" in ended.out


@pytest.mark.parametrize("style", ["inline", "mirror"])
def test_cut(verb, layer, tmp_path, style):
    out = tmp_path / "new" / "cut"
    ended = verb("cut", layer, "--style", style, "--body", "identity", "--block", "32,2", "-o", out, "--json")
    made = ended.json
    assert ended.code == 0 and made["style"] == style and made["region"]["first_line"] == 56
    assert set(made["files"]) >= {"ptx", "spec_markdown", "spec_json", "skeleton_cuda", "skeleton_hip"}
    assert sorted(contents(out)) == sorted(p.rsplit("/", 1)[1] for p in made["files"].values())
    assert (
        Document.read(out / f"layer-{style}.ptx").entry("layer")
        and json.loads((out / f"layer-{style}-spec.json").read_text())["entry"] == "layer"
    )
    assert made["assembles"] in (True, None)


def test_cut_by_lines_and_phases_with_a_body_of_ones_own(verb, layer, tmp_path, package):
    body = tmp_path / "body.ptx"
    body.write_text("mov.b32 %r38, %r34;\nmov.b32 %r39, %r35;\n")
    for region in ("phase 1", "64-64", "64"):
        ended = verb("cut", layer, "--region", region, "--body", body, "-o", tmp_path / "out")
        assert ended.code == 0 and "layer: lines 64 to 64 cut, style inline" in ended.out
    assert verb("verify", package, "-g", tmp_path / "out" / "layer-inline-64-64.ptx", "--engine", "numpy").code == 1


def test_cut_with_a_function_of_another_module(verb, layer, tmp_path, package):
    verb("cut", layer, "--style", "mirror", "--body", "identity", "--block", "32,2", "-o", tmp_path / "first")
    mirror = tmp_path / "first" / "layer-mirror.ptx"
    ended = verb("cut", layer, "--style", "mirror", "--body", f"{mirror}:layer_region", "--block", "32,2", "-o", tmp_path / "second")
    assert ended.code == 0
    assert verb("verify", package, "-g", tmp_path / "second" / "layer-mirror.ptx", "--engine", "numpy").code == 0


def test_a_cut_that_ptxas_refuses_is_said(verb, layer, tmp_path, monkeypatch):
    module = importlib.import_module("ptxgraft.cli.cut")
    monkeypatch.setattr(module, "find_ptxas", lambda: "ptxas")
    monkeypatch.setattr(module, "assemble", lambda text: SimpleNamespace(ok=False, log="line 3; error: no", relocatable=False))
    ended = verb("cut", layer, "-o", tmp_path / "out")
    assert ended.code == 2 and "ptxas: refuses the result\nline 3; error: no\n" in ended.out
    ended = verb("cut", layer, "-o", tmp_path / "out", "--no-check", "--json")
    assert (ended.code, ended.json["ptxas"], ended.json["assembles"]) == (0, "not checked", None)


def test_long_kernel_names_make_short_file_names(verb, tmp_path):
    name = "_Z" + "9templates" * 60
    path = tmp_path / "long.ptx"
    path.write_text(small_layer.layer_document().text.replace("entry layer(", f"entry {name}("))
    ended = verb("cut", path, "-o", tmp_path / "out", "--no-check", "--json")
    assert ended.code == 0 and max(len(p.name) for p in (tmp_path / "out").iterdir()) < 160
    other = tmp_path / "other.ptx"
    other.write_text(path.read_text().replace(name, name + "x"))
    assert verb("cut", other, "-o", tmp_path / "out", "--no-check", "--json").json["files"]["ptx"] != ended.json["files"]["ptx"]


def test_probe(verb, layer, package, tmp_path):
    ended = verb(
        "probe",
        layer,
        "--at",
        "p2",
        "--run",
        package,
        "--save",
        tmp_path / "p2.npz",
        "-o",
        tmp_path / "p2.ptx",
        "--engine",
        "numpy",
        "--json",
    )
    made = ended.json
    assert ended.code == 0 and made["lines"] == [71] and made["registers"] == [["%r42", "b32"], ["%r43", "b32"]]
    assert made["other_outputs"]["verdict"] == "same" and made["values"]["%r42"]["shape"] == [2, 2, 32]
    saved = np.load(tmp_path / "p2.npz")
    assert saved["r42"].dtype == np.uint32
    recorded = capture.open_capture(package).launches[0]
    out = np.asarray(recorded.after(2)).view(np.uint32).reshape(2, 2, 32, 2)
    np.testing.assert_array_equal(saved["r42"], out[..., 0])
    np.testing.assert_array_equal(saved["r43"], out[..., 1])
    assert made["values"]["%r43"]["first_lanes"] == out[0, 0, :, 1].tolist()
    assert "other outputs: same" in verb("probe", layer, "--at", "71", "--run", package, "--engine", "numpy").out
    assert Document.read(tmp_path / "p2.ptx").entry("layer")


def test_probe_compares_with_the_file_it_was_given_not_with_the_captures_module(verb, wrong, package):
    ended = verb("probe", wrong, "--at", "p2", "--run", package, "--engine", "numpy", "--json")
    assert ended.code == 0 and ended.json["other_outputs"]["verdict"] == "same"


def test_probe_that_no_lane_comes_to(verb, tmp_path, package):
    path = tmp_path / "never.ptx"
    change = ("\tmov.u32 \t%r24, 0;\n", "\t.reg .pred %p<2>;\n\tsetp.eq.u32 %p1, %r1, 77;\n\t@%p1 mov.u32 %r60, 1;\n\tmov.u32 \t%r24, 0;\n")
    path.write_bytes(small_layer.edited(small_layer.layer_document(), change).data)
    line = path.read_text().split("\n").index("\t@%p1 mov.u32 %r60, 1;") + 1
    ended = verb("probe", path, "--at", line, "--run", package, "--engine", "numpy")
    assert ended.code == 2 and "read back nothing: no lane of launch 7 (layer) came there" in ended.err


# -- launches -----------------------------------------------------------------------------------------------------------------

SAXPY = (Path(__file__).parents[2] / "examples" / "saxpy.ptx").read_text()


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_run_and_record(verb, tmp_path, engine):
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    np.save(tmp_path / "y.npy", np.full(100, 0.5, np.float32))
    saved, recorded = tmp_path / "out.npz", tmp_path / "saxpy.ptxcap"
    arguments = [
        "--grid",
        "4",
        "--block",
        "32",
        "-a",
        "100",
        "-a",
        "2",
        "-a",
        "f32[100]=iota",
        "-a",
        tmp_path / "y.npy",
        "--engine",
        engine,
    ]
    ended = verb("run", path, *arguments, "--save", saved, "--record", recorded, "--json")
    assert ended.code == 0 and ended.err == f"wrote {recorded}\nwrote {saved}\n"
    assert ended.json["entry"] == "saxpy" and ended.json["buffers"]["arg3"]["first"][:3] == [0.5, 2.5, 4.5]
    np.testing.assert_array_equal(np.load(saved)["arg3"], np.arange(100, dtype=np.float32) * 2 + np.float32(0.5))
    assert verb("replay", recorded, "--engine", engine).code == 0
    assert verb("verify", recorded, "-g", path, "--engine", engine, "--json").json["verdict"] == "same"
    assert "arg3      float32       100  0.5 2.5 4.5" in verb("run", path, *arguments).out
    assert verb("run", path, *arguments, "--record", recorded).code == 0  # a capture may be replaced


def test_run_shows_nan_and_infinity_as_json_strings(verb, tmp_path):
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    np.save(tmp_path / "y.npy", np.float32([np.nan, np.inf, -np.inf, 1]))
    ended = verb(
        "run", path, "--grid", 1, "--block", 32, "-a", 4, "-a", 0, "-a", "f32[4]", "-a", tmp_path / "y.npy", "--engine", "numpy", "--json"
    )
    assert ended.json["buffers"]["arg3"]["first"] == ["nan", "inf", "-inf", 1.0]


def test_run_passes_by_value_parameters_and_raw_files(verb, tmp_path):
    path = tmp_path / "pair.ptx"
    path.write_text(""".version 7.0
.target sm_70
.address_size 64
.visible .entry pair(.param .u64 out, .param .align 4 .b8 both[8])
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [out];
	ld.param.v2.u32 {%r1, %r2}, [both];
	st.global.u32 [%rd1], %r2;
	ret;
}
""")
    (tmp_path / "raw.bin").write_bytes(bytes(8))
    ended = verb(
        "run", path, "--grid", 1, "--block", 1, "-a", f"@{tmp_path}/raw.bin", "-a", "bytes:01000000 02030405", "--engine", "numpy", "--json"
    )
    assert ended.json["buffers"]["arg0"] == {"dtype": "uint8", "size": 8, "first": [2, 3, 4, 5, 0, 0, 0, 0]}


def test_show(verb, package, tmp_path):
    ended = verb("show", package, "--json")
    (launch,) = ended.json["launches"]
    assert ended.code == 0 and (launch["seq"], launch["kernel"], launch["grid"], launch["block"]) == (7, "layer", [2, 1, 1], [32, 2, 1])
    assert [a["size"] for a in launch["allocations"]] == [2048, 2560, 1024] and launch["images"][0]["kind"] == "surface"
    assert ended.json["form"] == "package" and ended.json["problems"] == []
    ended = verb("show", package, "--launch", "7", "--png", tmp_path / "planes", "--json")
    assert ended.json["pictures"] == [str(tmp_path / "planes" / "layer-surface-24.png")] and "black is" in ended.err
    assert "launch 7 (layer): grid (2, 1, 1)" in verb("show", package, "--launch", "layer").out


def test_show_lists_good_launches_beside_bad_ones(verb, package, tmp_path):
    capture.convert(package, tmp_path / "cap", form="directory")
    other = tmp_path / "cap" / "replay" / "replay-000009-broken"
    other.mkdir()
    ended = verb("show", tmp_path / "cap", "--json")
    assert ended.code == 0 and [x["seq"] for x in ended.json["launches"]] == [7] and len(ended.json["problems"]) == 1
    assert "cannot be read" in verb("show", tmp_path / "cap").out
    assert verb("replay", tmp_path / "cap").code == 2  # which of the two was meant is not guessed


def test_a_kernels_name_is_never_a_path(verb, package, tmp_path):
    launch = capture.open_capture(package).launches[0]
    launch.kernel, launch.module, launch.module_hash = "../../layer/../x", None, None
    capture.write([launch], tmp_path / "odd.ptxcap")
    ended = verb("show", tmp_path / "odd.ptxcap", "--png", tmp_path / "a" / "b", "--json")
    assert ended.code == 0 and [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["_.._layer_.._x-surface-24.png"]


def test_replay(verb, package, wrong, tmp_path):
    ended = verb("replay", package, "--json")
    assert ended.code == 0 and ended.json["against_recorded"]["verdict"] == "same" and ended.json["kernel"] == "layer"
    ended = verb("replay", package, "--ptx", wrong, "-o", tmp_path / "again.ptxcap", "--engine", "numpy", "--json")
    assert ended.code == 1 and ended.json["against_recorded"]["verdict"] == "differs"
    assert "nothing was stored there" in ended.json["against_recorded"]["text"]
    again = capture.open_capture(tmp_path / "again.ptxcap").launches[0]
    assert again.module == wrong.read_bytes()
    np.testing.assert_array_equal(again.after(2), again.before(2))


def test_replay_of_a_launch_without_a_state_after_it(verb, package, tmp_path):
    launch = capture.open_capture(package).launches[0]
    for part in (*launch.allocations, *launch.surfaces):
        part.after = None
    capture.write([launch], tmp_path / "before.ptxcap")
    ended = verb("replay", tmp_path / "before.ptxcap", "--engine", "numpy", "--json")
    assert ended.code == 0 and ended.json["against_recorded"] is None
    assert "no state after the launch to compare with" in verb("replay", tmp_path / "before.ptxcap", "--engine", "numpy").out


def test_diff(verb, package, wrong, tmp_path):
    assert verb("diff", package, package).code == 0
    verb("replay", package, "--ptx", wrong, "-o", tmp_path / "again.ptxcap", "--engine", "numpy")
    ended = verb("diff", package, tmp_path / "again.ptxcap", "--json")
    assert ended.code == 1 and ended.json["first"]["output"] == "allocation 2" and ended.json["bytes_compared"] == 6656
    ended = verb("diff", package, tmp_path / "again.ptxcap", "--tolerance", "1e6", "--values", "f16")
    assert (
        ended.code == 0
        and "same within a tolerance of 1e+06 (buffers read as f16)" in ended.out
        and "the comparison says nothing" in ended.out
    )
    launch = capture.open_capture(package).launches[0]
    launch.allocations.pop()
    launch.pointers.pop()
    capture.write([launch], tmp_path / "part.ptxcap")
    ended = verb("diff", package, tmp_path / "part.ptxcap", "--json")
    assert (ended.code, ended.json["verdict"], ended.json["bytes_compared"]) == (2, "not comparable", 0)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_verify(verb, package, layer, wrong, engine):
    ended = verb("verify", package, "-g", layer, "--engine", engine, "--json")
    assert ended.code == 0 and ended.err == ""
    judged = {k: ended.json[k] for k in ("capture", "launch", "kernel", "graft", "original", "against", "engine", "profile")}
    assert judged == {
        "capture": str(package), "launch": 7, "kernel": "layer", "graft": str(layer), "original": None, "against": "original",
        "engine": engine, "profile": "sm_90",
    }  # fmt: skip
    assert {k: ended.json[k] for k in ("verdict", "bytes_compared", "bytes_differing", "first")} == {
        "verdict": "same", "bytes_compared": 6656, "bytes_differing": 0, "first": None,
    }  # fmt: skip
    ended = verb("verify", package, "--launch", "layer", "--graft", wrong, "--engine", engine, "--json")
    first = ended.json["first"]
    assert ended.code == 1 and ended.json["verdict"] == "differs" and ended.json["bytes_differing"] == 1022
    assert (first["output"], first["offset"], first["writer"], first["found"]) == ("allocation 2", 0, None, "a5a5a5a5")
    assert first["expected_writer"]["statement"] == "st.global.v2.u32 [%rd12], {%r42, %r43}"
    assert verb("verify", package, "-g", wrong, "--against", "recorded", "--engine", engine, "--json").json["first"]["found"] == "80488048"


def test_verify_says_when_the_original_is_another_module(verb, package, layer, wrong):
    ended = verb("verify", package, "-g", layer, "--original", wrong, "--engine", "numpy")
    assert ended.code == 1 and "is not the module that launch 7 (layer) was recorded with" in ended.out


def test_bisect(verb, package, layer, wrong, tmp_path):
    assert verb("bisect", package, "-g", layer, "--engine", "numpy").out == "no stage differs (5 compared: a, p0, p1, ..., out)\n"
    ended = verb("bisect", package, "-g", wrong, "--engine", "numpy", "--stages", "p1, p2")
    assert ended.code == 1 and "but the outputs do" in ended.out
    late = tmp_path / "late.ptx"
    late.write_bytes(small_layer.edited(small_layer.layer_document(), ("[%rd10+1024];", "[%rd10+1020];")).data)
    ended = verb("bisect", package, "-g", late, "--engine", "numpy", "--json")
    assert ended.code == 1 and (ended.json["stage"], ended.json["line"]) == ("p2", 71)
    assert (ended.json["launch"], ended.json["kernel"], ended.json["graft"], ended.json["engine"]) == (7, "layer", str(late), "numpy")
    assert ended.json["text"].startswith("first differs at stage p2 (line 71): register %r42, block (0, 0, 0) warp 0 lane 0: expected 0x")


def test_doctor(verb):
    ended = verb("doctor", "--json")
    assert ended.code == 0
    for part in ("executors", "targets", "profiles"):
        assert ended.json[part] and all(set(row) >= {"available", "why"} and row["why"] for row in ended.json[part].values())
    assert ended.json["executors"]["cpu/warp"]["available"] is True and "sm_90" in ended.json["profiles"]
    assert "executors\nname" in verb("doctor").out


def test_nothing_from_an_input_reaches_the_terminal_as_a_command(verb, package, tmp_path):
    """A statement with an escape sequence in it is quoted in the explanation of a difference."""
    odd = tmp_path / "odd.ptx"
    change = (STORE, STORE.replace("{%r42, %r43}", "{%r42, %r41} /* \x1b[2J */"))
    odd.write_bytes(small_layer.edited(small_layer.layer_document(), change).data)
    ended = verb("verify", package, "-g", odd, "--engine", "numpy")
    assert ended.code == 1 and "{%r42, %r41} /* \\x1b[2J */" in ended.out and "\x1b" not in ended.out


def test_how_a_verb_ends(capsys):
    def raising(error: BaseException):
        def verb():
            raise error

        return verb

    assert [exit_code(lambda code=code: code) for code in (None, 0, 1, 2)] == [0, 0, 1, 2] and capsys.readouterr().err == ""
    for error, code, said in (
        (UnsupportedError("not yet", hint="wait"), 3, "ptxgraft: not yet; wait\n"),
        (DeviceError("gone"), 4, "ptxgraft: gone\n"),
        (KeyboardInterrupt(), 130, "ptxgraft: stopped\n"),
        (OSError(28, "No space left on device", "some/place"), 2, "ptxgraft: some/place: No space left on device\n"),
        (MemoryError("1 TiB"), 2, "ptxgraft: not enough memory: 1 TiB\n"),
        (MemoryError(), 2, "ptxgraft: not enough memory\n"),
        (SourceErrors([SourceError(f"e{n}") for n in range(50)]), 2, "ptxgraft: and 30 more errors\n"),
    ):
        assert exit_code(raising(error)) == code
        assert capsys.readouterr().err.endswith(said)
    with pytest.raises(AssertionError, match="ours"):  # a bug of our own is shown as one
        exit_code(raising(AssertionError("ours")))


def test_the_process_runs_the_same_command_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ptxgraft", "ls", str(small_layer.PTX)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0 and "layer" in capsys.readouterr().out
