"""Asking ptxas."""

from __future__ import annotations

import pytest
from graft_kernels import MMA, document

from ptxgraft.errors import UsageError
from ptxgraft.graft import assemble, check, find_ptxas
from ptxgraft.graft.check import architecture_for, has_externs

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")


@needs_ptxas
def test_a_legal_module():
    result = assemble(MMA)
    assert result.ok and result.cubin is not None and result.cubin.startswith(b"\x7fELF")
    usage = result.usage()["product"]
    assert usage.registers > 10 and usage.spill_stores == usage.spill_loads == 0
    assert not result.relocatable


@needs_ptxas
def test_a_refused_module_shows_the_log():
    result = assemble(document(MMA.replace("add.u64 %rd5, %rd1, %rd4", "add.u64 %rd5, %rd1, %r1"), "bad.ptx"))
    assert not result.ok and result.cubin is None
    assert "bad.ptx, line 18; error" in result.log


@needs_ptxas
def test_a_target_that_ptxas_no_longer_has_is_assembled_for_the_next():
    ptxas = find_ptxas()
    assert ptxas is not None
    module = document(MMA.replace(".target sm_80", ".target sm_52").replace("mma.sync", "// mma.sync"))
    assert architecture_for(module, ptxas) in check.architectures(ptxas)
    assert architecture_for(document(MMA.replace("sm_80", "sm_90a")), ptxas) == "sm_90a"
    assert architecture_for(document(MMA), ptxas) == "sm_80"
    assert assemble(MMA, target="sm_90").command[2] == "-arch=sm_90"


@needs_ptxas
def test_time_runs_out():
    with pytest.raises(UsageError, match=r"ptxas did not finish in 1e-06 seconds; give it more time"):
        assemble(MMA, timeout=1e-6)


def test_no_ptxas(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(check, "find_ptxas", lambda: None)
    with pytest.raises(UsageError, match="no ptxas found; install the PyPI package nvidia-cuda-nvcc, or put ptxas on PATH"):
        assemble(MMA)


@pytest.mark.parametrize(
    ("scope", "body", "open_names"),
    [
        (".extern .func f();", "call.uni f;", True),
        (".extern .func f();", "", False),
        (".func f();\n.func f() { ret; }", "call.uni f;", False),
        (".extern .global .u32 g;", "", True),
        (".extern .shared .align 16 .b8 s[];", "", False),
    ],
)
def test_what_a_linker_must_find(scope: str, body: str, open_names: bool):
    text = f".version 7.0\n.target sm_80\n.address_size 64\n{scope}\n.visible .entry k()\n{{\n{body}\nret;\n}}\n"
    assert has_externs(document(text)) == open_names
