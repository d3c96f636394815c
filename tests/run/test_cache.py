"""The cache of compiled code: whole entries or none, bounded, whatever other processes do."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from ptxgraft.isa import bind
from ptxgraft.run import warp_engine
from ptxgraft.run.cache import Cache, default_directory
from ptxgraft.text import Document

KEY = "ab" * 32


def test_what_was_put_comes_back(tmp_path):
    cache = Cache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, b"code")
    assert Cache(tmp_path).get(KEY) == b"code"
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


@pytest.mark.parametrize(
    "damage", [b"", b"ptxgraft-cache-2", lambda raw: raw[:-1], lambda raw: raw[:-1] + b"x", lambda raw: b"y" + raw[1:]]
)
def test_a_damaged_entry_is_discarded(tmp_path, damage):
    cache = Cache(tmp_path)
    cache.put(KEY, b"some code")
    path = cache.path(KEY)
    path.write_bytes(damage if isinstance(damage, bytes) else damage(path.read_bytes()))
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, b"some code")
    assert cache.get(KEY) == b"some code"


def test_an_entry_under_the_name_of_another_is_discarded(tmp_path):
    cache = Cache(tmp_path)
    other = "cd" * 32
    cache.put(KEY, b"some code")
    cache.put(other, b"other code")
    os.replace(cache.path(other), cache.path(KEY))
    assert cache.get(KEY) is None
    assert not cache.path(KEY).exists()


def test_the_least_recently_used_entries_go_first(tmp_path):
    cache = Cache(tmp_path, limit_bytes=10_000)
    keys = [f"{i:02x}" * 32 for i in range(20)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(900))
        os.utime(cache.path(key), (1000 + age, 1000 + age))
    os.utime(cache.path(keys[0]), (5000, 5000))
    cache.trim()
    kept = [i for i, key in enumerate(keys) if cache.get(key) is not None]
    assert kept[0] == 0 and kept[1:] == list(range(21 - len(kept), 20))
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) <= 8_000


def test_reading_makes_an_entry_young(tmp_path):
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    os.utime(cache.path(KEY), (1000, 1000))
    cache.get(KEY)
    assert cache.path(KEY).stat().st_mtime > 2000


def test_leftovers_of_dead_processes_are_removed(tmp_path):
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    old, new = cache.path(KEY).with_name(".aside-old"), cache.path(KEY).with_name(".aside-new")
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    cache.trim()
    assert not old.exists() and new.exists() and cache.get(KEY) == b"x"


def test_where_it_lies(monkeypatch, tmp_path):
    for name in ("PTXGRAFT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / ".cache" / "ptxgraft"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_directory() == Path("/x/ptxgraft")
    monkeypatch.setenv("PTXGRAFT_CACHE_DIR", "/own")
    assert default_directory() == Path("/own")


def test_a_directory_that_cannot_be_written_costs_a_warning_only(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    with pytest.warns(UserWarning, match="cannot be written"):
        cache.put(KEY, b"x")
    cache.put(KEY, b"x")  # and no second warning: pytest would make it an error below
    assert cache.get(KEY) is None


def _hammer(directory: str, seed: int) -> int:
    cache = Cache(Path(directory), limit_bytes=20_000)
    wrong = 0
    for i in range(150):
        key = f"{(i * 7 + seed) % 40:02x}" * 32
        found = cache.get(key)
        wrong += found is not None and found != key.encode() * 20
        cache.put(key, key.encode() * 20)
        if i % 20 == 0:
            cache.trim()
    return wrong


def test_many_processes_at_once(tmp_path):
    with ProcessPoolExecutor(3) as pool:
        assert sum(pool.map(_hammer, [str(tmp_path)] * 3, range(3))) == 0


def test_code_made_from_other_facts_about_a_program_is_not_taken(tmp_path, monkeypatch):
    text = Path(__file__).parents[2].joinpath("examples/saxpy.ptx").read_bytes()
    monkeypatch.setenv("PTXGRAFT_CACHE_DIR", str(tmp_path))
    keys = []
    native = warp_engine.FUNCTIONS.native
    monkeypatch.setattr(warp_engine.FUNCTIONS, "native", lambda key, *rest: keys.append(key) or native(key, *rest))
    warp_engine.prepare(bind(Document.parse(text), "saxpy"), "sm_90")
    monkeypatch.setattr(warp_engine, "uniform_registers", lambda program, flow: frozenset())
    warp_engine.prepare(bind(Document.parse(text), "saxpy"), "sm_90")
    assert len(set(keys)) == 2
