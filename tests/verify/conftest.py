"""The small layer and a launch of it, recorded once."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_layer import layer_document, record

from ptxgraft import capture
from ptxgraft.text import Document


@pytest.fixture(scope="session")
def document() -> Document:
    return layer_document()


@pytest.fixture(scope="session")
def recorded(document) -> capture.Launch:
    """Launch 7 of the small layer, as recorded on the reference engine. Tests must not change it."""
    return record(document)


@pytest.fixture(scope="session")
def package(recorded, tmp_path_factory) -> Path:
    """The same as a capture on disk."""
    path = tmp_path_factory.mktemp("capture") / "layer.ptxcap"
    capture.write([recorded], path)
    return path


@pytest.fixture(params=["numpy", "warp"])
def engine(request) -> str:
    return request.param
