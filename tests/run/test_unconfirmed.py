"""A run says what it used whose bits are not confirmed: in its result, and once a process in a warning, which verbs show as a line."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import UnconfirmedWarning
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.run import ENGINES, execution

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .f32 %f<2>;
	.reg .b64 %a;
	ld.param.u64 %a, [p];
	ld.global.f32 %f0, [%a];
	ex2.approx.ftz.f32 %f1, %f0;
	st.global.f32 [%a], %f1;
	ret;
}
"""
SENTENCE = "profile sm_80: the bits of ex2.approx.ftz.f32 are assumed to be those of sm_90, not confirmed on such a GPU"


@pytest.mark.parametrize("engine", ENGINES)
def test_results_say_it_every_time_and_warnings_once(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_told", set())
    kernel = ptxgraft.load(PTX).kernel("k", profile="sm_80", engine=engine)
    with pytest.warns(UnconfirmedWarning) as caught:
        results = [kernel.launch(1, 1, [np.ones(1, np.float32)]) for _ in range(2)]
    assert [str(w.message) for w in caught] == [SENTENCE]
    assert Path(caught[0].filename) == Path(__file__)
    for result in results:
        assert (result.known, result.notes) == ("assumed", [SENTENCE])
        assert f"on {engine} (sm_80: assumed) in" in str(result)


@pytest.mark.parametrize("profile", ["sm_90", "manual"])
def test_nothing_is_said_of_what_is_known(profile: str) -> None:
    kernel = ptxgraft.load(PTX).kernel("k", profile=profile)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = kernel.launch(1, 1, [np.ones(1, np.float32)])
    assert (result.known, result.notes) == ("", [])
    assert f"({profile}) in" in str(result)


def test_verbs_say_it_once_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ptxgraft", *words, "--profile", "sm_80", "--json"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        )

    ran = call("run", "k.ptx", "--grid", "1", "--block", "1", "-a", "f32[1]=iota", "--record", "k.ptxcap")
    assert ran.stderr.splitlines().count(f"note: {SENTENCE}") == 1
    assert json.loads(ran.stdout)["result"]["known"] == "assumed"
    # Two runs, of the original and of the graft.
    verified = call("verify", "k.ptxcap", "--graft", "k.ptx")
    assert verified.stderr.splitlines().count(f"note: {SENTENCE}") == 1
    assert json.loads(verified.stdout)["notes"] == [SENTENCE]


def test_doctor_labels_every_profile() -> None:
    done = subprocess.run([sys.executable, "-m", "ptxgraft", "doctor", "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["profiles"]
    assert rows.keys() == PROFILES.keys()
    for name, row in rows.items():
        profile = PROFILES[name]
        assert row["available"] and (row["source"], row["functions"]) == (profile.source, profile.functions)
        assert row["why"].startswith(f"{profile.source}: {profile.what}")
        assert ("assumed to be those of sm_90" in row["why"]) == (profile.functions == "assumed")
