"""What tests of this folder share."""

from __future__ import annotations

import pytest

from ptxgraft.run import warp_engine


@pytest.fixture(params=["function", "threaded"])
def form(request, monkeypatch):
    """Both forms of compiled code: a program as one function, and as a stream of operations (as programs that are too long for the first)."""
    if request.param == "threaded":
        monkeypatch.setattr(warp_engine, "eligible", lambda program: False)
    return request.param
