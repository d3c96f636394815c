"""Files are written together or not at all."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.errors import UsageError
from ptxgraft.report import arrays_file, file_stem, make_folder, write_files


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_all_or_none(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*/b: it is a folder; name a file"):
        write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert names(tmp_path) == ["b"]
    write_files({tmp_path / "a": b"1", tmp_path / "c": "größe"})
    assert names(tmp_path) == ["a", "b", "c"] and (tmp_path / "c").read_text() == "größe"
    write_files({tmp_path / "a": b"3"})
    assert (tmp_path / "a").read_bytes() == b"3" and (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_folder_is_made_with_its_parents_or_refused(tmp_path):
    assert make_folder(tmp_path / "x" / "y").is_dir() and make_folder(tmp_path / "x" / "y").is_dir()
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="cannot make the folder"):
            make_folder(path)


def test_arrays_come_back_by_name():
    back = np.load(io.BytesIO(arrays_file({"r1": np.arange(3)})))
    assert back.files == ["r1"] and back["r1"].tolist() == [0, 1, 2]


def test_stems_are_safe_short_and_distinct():
    assert file_stem("enc4") == "enc4" and file_stem("../x y") == "_x_y" and file_stem("..") == "_"
    long = file_stem("k" * 500), file_stem("k" * 501)
    assert long[0] != long[1] and all(len(s) == 100 for s in long)
