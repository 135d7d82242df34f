"""The cache: what is kept comes back, nothing that is wrong with it matters, and no other user decides what is in it."""

from __future__ import annotations

import hashlib
import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.source import cache as module
from distcheck.checks.source.cache import Cache


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
    assert len(os.listdir(tmp_path / "c")) == 4
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_there_gets_no_files_that_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    keep(tmp_path, "a")
    assert kept(tmp_path, "a") == [b"aaa"]
    assert not (tmp_path / ".gitignore").exists()
    assert not (tmp_path / "CACHEDIR.TAG").exists()


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


def test_old_files_of_other_versions_are_deleted_and_only_those(tmp_path: Path) -> None:
    keep(tmp_path, "a", version="old")
    keep(tmp_path, "a", version="recent")
    old = next(tmp_path.glob("distcheck-old-*"))
    (draft := tmp_path / "distcheck-0.draft").write_bytes(old.read_bytes()[:30])
    (link := tmp_path / "distcheck-link.cache").symlink_to(tmp_path / "notes.txt")
    os.mkfifo(tmp_path / "distcheck-pipe.cache")
    names = ("notes.txt", "render.cache", "render.cache.draft", "distcheck-mine.cache", "distcheck-mine.draft")
    for path in (foreign := [tmp_path / name for name in names]):
        path.write_bytes(b"mine")
    long_ago = time.time() - 40 * 24 * 3600
    for path in (old, draft, *foreign, tmp_path / "distcheck-pipe.cache"):
        os.utime(path, (long_ago, long_ago))
    keep(tmp_path, "b")
    assert not old.exists()
    assert not draft.exists()
    assert [path.read_bytes() for path in foreign] == [b"mine"] * len(foreign)
    assert link.is_symlink()
    assert (tmp_path / "distcheck-pipe.cache").exists()
    assert len(list(tmp_path.glob("distcheck-recent-*"))) == len(list(tmp_path.glob("distcheck-1-*"))) == 1


def test_a_file_with_our_name_that_is_not_ours_is_neither_read_nor_deleted(tmp_path: Path) -> None:
    keep(tmp_path, "a")
    ours = the_file(tmp_path)
    (mine := tmp_path / ours.name.replace("-0", "-1")).write_bytes(b"mine")
    (link := tmp_path / ours.name.replace("-0", "-2")).symlink_to(ours)
    keep(tmp_path, "b")
    assert kept(tmp_path, "a", "b") == [b"aaa", b"bbb"]
    assert mine.read_bytes() == b"mine"
    assert link.is_symlink()
    assert not ours.exists()


# what others can write


def brought(folder: Path, text: str, value: bytes) -> None:
    """A cache as another user writes it, in a folder that a checkout brings along."""
    cache = Cache(str(folder), "1")
    cache.put(digest(text), value)
    assert cache.save() is None


def test_a_cache_that_a_checkout_brings_is_not_read(tmp_path: Path) -> None:
    brought(tmp_path / "checkout" / "here", "a", b"theirs")
    checkout = str(tmp_path / "checkout")
    cache = Cache(f"{checkout}/here", "1", checkout=checkout)
    assert cache.get(digest("a")) is None
    cache.put(digest("a"), b"ours")
    assert cache.save() is None
    assert Cache(f"{checkout}/here", "1", checkout=checkout).get(digest("a")) == b"ours"


@pytest.mark.parametrize("own", [False, True], ids=["forged", "a length of the user's own file"])
def test_a_forged_file_of_1_gib_is_not_read(tmp_path: Path, own: bool) -> None:
    """It stated 20 million entries, which were read before their tag was checked."""
    folder = tmp_path / "here"
    keep(folder, "a")
    end = the_file(folder).read_bytes()[-module._TRAILER_SIZE :]
    size, entry = 2 * module.LARGEST, module._ENTRY.size
    number = (size - 1000) // entry
    with open(folder / f"{module.Cache(str(folder), '1')._prefix}9.1.cache", "wb") as file:
        file.write(module._MAGIC)
        file.truncate(size)
        file.seek(size - module._TRAILER_SIZE)
        start = size - module._TRAILER_SIZE - number * entry
        file.write(end if own else module._EXTENT.pack(start, number, b"\0" * 16) + b"\0" * 16)
    tracemalloc.start()
    try:
        assert kept(folder, "a", "b") == [b"aaa", None]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_cache_in_a_checkout_needs_the_key_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "user_folder", lambda: None)
    cache = Cache(str(tmp_path / "here"), "1", checkout=str(tmp_path))
    cache.put(digest("a"), b"1")
    assert "--cache-dir" in str(cache.save())
    assert not (tmp_path / "here").exists() or not list((tmp_path / "here").glob("*.cache"))


@pytest.mark.parametrize("inside", [True, False])
def test_a_link_is_not_used(tmp_path: Path, inside: bool) -> None:
    (target := tmp_path / "outside").mkdir()
    (checkout := tmp_path / "checkout").mkdir()
    (checkout / "link").symlink_to(target)
    folder = checkout / "link" / "cache" if inside else checkout / "link"
    cache = Cache(str(folder), "1", checkout=str(checkout) if inside else None)
    assert cache.get(digest("a")) is None
    cache.put(digest("a"), b"1")
    assert "link" in str(cache.save())
    assert cache.unsafe is not None
    assert os.listdir(target) == []


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o757])
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "c"
    keep(folder, "a")
    folder.chmod(mode)
    cache = Cache(str(folder), "1")
    assert cache.get(digest("a")) is None
    before = names(folder)
    cache.put(digest("b"), b"1")
    assert str(cache.save()).endswith(f"(mode {mode:04o}); fix: chmod go-w {folder}")
    assert names(folder) == before
    folder.chmod(0o755)
    assert kept(folder, "a") == [b"aaa"]


@pytest.mark.root
def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    keep(folder, "a")
    before = names(folder)
    os.chown(folder, 12345, 12345)
    cache = Cache(str(folder), "1")
    assert cache.get(digest("a")) is None
    cache.put(digest("b"), b"1")
    assert "another user (12345)" in str(cache.save())
    assert names(folder) == before


@pytest.mark.root
def test_root_makes_no_cache_in_the_home_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(tmp_path, 12345, 12345)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert module.user_folder() is None


@pytest.mark.parametrize("what", ["mode", "short", "long", "link", "missing"])
def test_a_key_that_others_know_is_replaced(tmp_path: Path, what: str) -> None:
    keep(tmp_path, "a")
    key = tmp_path / "distcheck-key"
    before = key.read_bytes()
    if what == "mode":
        key.chmod(0o644)
    elif what == "link":
        key.rename(tmp_path / "elsewhere")
        key.symlink_to(tmp_path / "elsewhere")
    elif what == "missing":
        key.unlink()
    else:
        key.write_bytes(before[:-1] if what == "short" else before + b"x")
    assert kept(tmp_path, "a") == [None]
    keep(tmp_path, "a", "b")
    assert kept(tmp_path, "a", "b") == [b"aaa", b"bbb"]
    assert not key.is_symlink()
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_bytes() != before


def test_where_the_cache_of_a_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert module.user_folder() == str(tmp_path / "x" / "distcheck")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert module.user_folder() == str(tmp_path / ".cache" / "distcheck")
    monkeypatch.setattr(module.sys, "platform", "darwin")
    assert module.user_folder() == str(tmp_path / "Library" / "Caches" / "distcheck")
    monkeypatch.setenv("HOME", "relative")
    assert module.user_folder() is None
    monkeypatch.setattr(module.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert module.user_folder() == str(tmp_path / "distcheck")


def test_a_digest_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        Cache(str(tmp_path), "1").put(b"short", b"")
