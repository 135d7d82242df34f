"""The cache: what is kept comes back, and nothing that is wrong with it matters."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.source import cache as module
from distcheck.source.cache import Cache


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=20).digest()


def kept(folder: Path, *texts: str, version: str = "1") -> list[bytes | None]:
    cache = Cache(str(folder), version)
    return [cache.get(digest(text)) for text in texts]


def keep(folder: Path, *texts: str, version: str = "1") -> None:
    cache = Cache(str(folder), version)
    for text in texts:
        cache.put(digest(text), text.encode() * 3)
    assert cache.save() is None


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("*.cache")
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.cache"))


def test_what_is_kept_comes_back_in_the_next_run(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "cache"
    cache = Cache(str(folder), "1")
    assert cache.get(digest("a")) is None
    cache.put(digest("a"), b"one")
    assert cache.get(digest("a")) == b"one"
    assert not folder.exists()
    assert cache.save() is None
    keep(folder, "b", "")
    assert kept(folder, "a", "b", "", "c") == [b"one", b"bbb", b"", None]


def test_another_version_is_another_cache(tmp_path: Path) -> None:
    keep(tmp_path, "a")
    assert kept(tmp_path, "a", version="2") == [None]
    keep(tmp_path, "b", version="2/../3")
    assert kept(tmp_path, "a", "b") == [b"aaa", None]
    assert len(list(tmp_path.glob("*.cache"))) == 2


def test_a_run_that_finds_nothing_new_writes_nothing(tmp_path: Path) -> None:
    keep(tmp_path, "a")
    before = the_file(tmp_path).stat().st_mtime_ns
    cache = Cache(str(tmp_path), "1")
    assert cache.get(digest("a")) == b"aaa"
    assert cache.save() is None
    assert the_file(tmp_path).stat().st_mtime_ns == before


def test_the_folder_says_what_it_is(tmp_path: Path) -> None:
    keep(tmp_path / "c", "a")
    assert (tmp_path / "c" / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert (tmp_path / "c" / ".gitignore").read_text() == "*\n"
    assert len(os.listdir(tmp_path / "c")) == 3


@settings(deadline=None)
@given(st.data())
def test_a_torn_or_foreign_file_loses_entries_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    texts = ["a", "b" * 50, "c"]
    keep(folder, *texts)
    path = the_file(folder)
    blob = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(blob) - 1), max_size=3)):
        blob[place] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(blob[: data.draw(st.integers(0, len(blob)))]) + data.draw(st.binary(max_size=5)))
    for text, value in zip(texts, kept(folder, *texts), strict=True):
        assert value in (None, text.encode() * 3)
    keep(folder, *texts)
    assert kept(folder, *texts) == [text.encode() * 3 for text in texts]


def test_of_two_runs_at_once_both_keep_what_they_found(tmp_path: Path) -> None:
    keep(tmp_path, "old")
    one, two = Cache(str(tmp_path), "1"), Cache(str(tmp_path), "1")
    assert one.get(digest("old")) == two.get(digest("old")) == b"oldoldold"
    one.put(digest("one"), b"1")
    two.put(digest("two"), b"2")
    assert one.save() is None
    assert two.save() is None
    assert kept(tmp_path, "old", "one", "two") == [b"oldoldold", b"1", b"2"]


def test_a_folder_that_can_not_be_written_is_told_and_harmless(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(str(tmp_path / "file"), "1")
    assert cache.get(digest("a")) is None
    cache.put(digest("a"), b"1")
    assert "file" in str(cache.save())
    assert cache.get(digest("a")) == b"1"


def test_what_was_not_asked_for_goes_first_when_it_grows_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, "a" * 100, "b" * 100)
    monkeypatch.setattr(module, "LARGEST", 900)
    cache = Cache(str(tmp_path), "1")
    assert cache.get(digest("a" * 100)) is not None
    cache.put(digest("c"), b"c" * 400)
    assert cache.save() is None
    values = kept(tmp_path, "a" * 100, "b" * 100, "c")
    assert [value is not None for value in values] == [True, False, True]


def test_few_files_are_left_and_large_ones_are_not_copied(tmp_path: Path) -> None:
    keep(tmp_path, *(f"{number}" * 1000 for number in range(10, 60)))
    (large,) = names(tmp_path)
    texts = [f"text {number}" for number in range(40)]
    for text in texts:
        keep(tmp_path, text)
    assert large in names(tmp_path)
    assert len(names(tmp_path)) <= 8
    assert kept(tmp_path, *texts) == [text.encode() * 3 for text in texts]
    assert kept(tmp_path, "10" * 1000) == [b"10" * 3000]


def test_what_is_kept_twice_is_the_newer_one(tmp_path: Path) -> None:
    keep(tmp_path, "x" * 1000)
    for value in (b"old", b"new"):
        cache = Cache(str(tmp_path), "1")
        cache.put(digest("a"), value)
        assert cache.save() is None
    assert kept(tmp_path, "a") == [b"new"]


def test_files_of_versions_that_are_long_gone_are_taken_away(tmp_path: Path) -> None:
    keep(tmp_path, "a", version="old")
    keep(tmp_path, "a", version="recent")
    (draft := tmp_path / "x.cache.draft").write_text("")
    (foreign := tmp_path / "notes.txt").write_text("")
    old = next(tmp_path.glob("old-*"))
    long_ago = time.time() - 40 * 24 * 3600
    for path in (old, draft, foreign):
        os.utime(path, (long_ago, long_ago))
    keep(tmp_path, "b")
    assert not old.exists()
    assert not draft.exists()
    assert foreign.exists()
    assert len(list(tmp_path.glob("*.cache"))) == 2


def test_a_digest_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        Cache(str(tmp_path), "1").put(b"short", b"")
