"""The compiler that all kernels of this folder share."""

from __future__ import annotations

import pytest
from compiling import Compiler


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Compiler:
    """nvcc with a folder of this session; worker processes of one run share the folder."""
    base = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        base = base.parent
    folder = base / "nvcc"
    folder.mkdir(exist_ok=True)
    return Compiler(folder)
