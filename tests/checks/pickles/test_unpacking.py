"""Compressed bytes as a source: any offset, in any order, within bounds."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import zlib

import pytest

from distcheck.checks.pickles import unpacking
from distcheck.checks.pickles.source_bytes import BytesSource, ScanLimits
from distcheck.checks.pickles.stream_collector import Collector
from distcheck.checks.pickles.unpacking import UnpackedSource


def notes(**limits: int) -> Collector:
    return Collector(ScanLimits(**limits), lambda *_: "")  # type: ignore[arg-type]


def deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


PACKERS = {"deflate": deflated, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zlib": zlib.compress}


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("known", [False, True])
def test_any_stretch_is_what_was_packed(kind: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little kept, so that steps back really unpack again."""
    monkeypatch.setattr(unpacking, "KEPT", 1 << 16)
    monkeypatch.setattr(unpacking, "BEHIND", 1 << 12)
    monkeypatch.setattr(unpacking, "WINDOW", 1 << 12)
    monkeypatch.setattr(unpacking, "SNAPSHOTS", 4)
    choices = random.Random(7)
    content = b"".join(choices.randbytes(50) * 9 for _ in range(2000))
    source = UnpackedSource(BytesSource(PACKERS[kind](content)), kind, notes(), size=len(content) if known else None)
    assert source.size == len(content)
    for _ in range(25):
        offset, size = choices.randrange(len(content)), choices.choice((1, 100, 9000))
        assert source.read(offset, size) == content[offset : offset + size]
    assert source.check() == (zlib.crc32(content), len(content))
    assert source.problem is None
    assert source.read(len(content), 5) == b""


@pytest.mark.parametrize("kind", PACKERS)
def test_what_comes_before_the_damage_is_given(kind: str) -> None:
    content = random.Random(8).randbytes(600_000)
    packed = PACKERS[kind](content)
    cut = UnpackedSource(BytesSource(packed[:-1000]), kind, notes())
    assert cut.problem is not None
    assert content.startswith(cut.read(0, len(content)))
    if kind == "bz2":
        assert cut.size >= 0  # it comes in blocks of 900,000 bytes
    else:
        assert cut.size > 500_000


def test_the_bound_holds_for_all_sources_of_a_file_together() -> None:
    book = notes(unpacked_bytes=1_000_000)
    packed = gzip.compress(bytes(900_000))
    assert UnpackedSource(BytesSource(packed), "gzip", book).size == 900_000
    assert book.unopened == []
    second = UnpackedSource(BytesSource(packed), "gzip", book)
    assert second.exhausted
    assert second.size < 900_000
    assert len(book.unopened) == 1


def test_a_dictionary_of_gigabytes_is_not_made() -> None:
    packed = bytearray(lzma.compress(b"x" * 100, lzma.FORMAT_ALONE))
    packed[1:5] = (0xFFFFFFFF).to_bytes(4, "little")
    book = notes()
    source = UnpackedSource(BytesSource(bytes(packed)), "lzma", book)
    assert source.exhausted
    assert source.problem is None
    assert len(book.unopened) == 1
