"""Torch's zip files by torch's rules: what torch reads, what it refuses, what other readers would see."""

from __future__ import annotations

import io
import pickle
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from distcheck.checks.pickles.files import read_file
from distcheck.checks.pickles.picklefile import PickleFile

from .zips import Entry, checkpoint, make_zip

A = pickle.dumps({"a": 1}, 2)
B = pickle.dumps({"longer": [1, 2, 3]}, 2)
#: Imported and called by whoever unpickles it; never unpickled here.
HOSTILE = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
V = Entry("archive/version", b"3\n")
_packer = zlib.compressobj(9, zlib.DEFLATED, -15)
#: Packed bytes of ``A``, then a block of a type that there is not.
BROKEN = _packer.compress(A) + _packer.flush(zlib.Z_FULL_FLUSH) + b"\x07"
P = Entry("archive/data.pkl", A)


def kinds(file: PickleFile) -> set[str]:
    return {anomaly.kind for anomaly in file.anomalies}


def roles(file: PickleFile) -> list[tuple[str | None, str]]:
    return [(stream.member, stream.role) for stream in file.streams]


def twice(first: bytes, second: bytes, *, other: str = "archive/data.pkl", tensors: int = 0) -> bytes:
    more = [Entry(f"archive/data/{number}", b"\0\0\0\0") for number in range(tensors)]
    return make_zip(Entry("archive/data.pkl", first), V, *more, Entry(other, second))


#: name → (archive, whether torch loads it, the pickle that it unpickles)
ODD: dict[str, tuple[bytes, bool, bytes]] = {
    "plain": (checkpoint(A), True, A),
    "zip64": (checkpoint(A, zip64=True), True, A),
    "deflated": (make_zip(Entry("archive/data.pkl", A, deflate=True), V), True, A),
    "wrong checksum": (make_zip(P._replace(crc=7), V), True, A),
    "wrong checksum deflated": (make_zip(P._replace(crc=7, deflate=True), V), True, A),
    "other name in front": (make_zip(P._replace(local_name="archive/readme.t"), V), True, A),
    "other method in front": (make_zip(P._replace(local_method=8), V), True, A),
    "other size in front": (make_zip(P._replace(local_size=3), V), True, A),
    "other flags in front": (make_zip(P._replace(local_flags=1), V), True, A),
    "upper case": (make_zip(Entry("archive/DATA.PKL", A), V), True, A),
    "upper case folder": (make_zip(Entry("ARCHIVE/data.pkl", A), V), False, A),
    "twice": (twice(A, B), True, B),
    "twice, 7 tensors": (twice(A, B, tensors=7), True, A),
    "twice by case": (twice(A, B, other="archive/Data.pkl"), True, B),
    "encrypted": (make_zip(P._replace(flags=1), V), False, A),
    "strong encryption": (make_zip(P._replace(flags=0x41), V), False, A),
    "masked": (make_zip(P, V._replace(flags=0x2000)), False, A),
    "patched": (make_zip(P._replace(flags=0x20), V), False, A),
    "unused flag": (make_zip(P._replace(flags=0x10), V), True, A),
    "two folders": (make_zip(P, V, Entry("other/x", b"x")), False, A),
    "at the root": (make_zip(Entry("data.pkl", A), Entry("version", b"3\n")), False, A),
    "backslash": (make_zip(Entry("archive\\data.pkl", A), Entry("archive\\version", b"3\n")), False, A),
    "no version": (make_zip(P), False, A),
    "version 1": (checkpoint(A, version=b"1"), True, A),
    "version 10": (checkpoint(A, version=b"10\n"), True, A),
    "version 11": (checkpoint(A, version=b"11\n"), False, A),
    "version 0": (checkpoint(A, version=b"0\n"), False, A),
    "version +3x": (checkpoint(A, version=b" +3x"), True, A),
    "version word": (checkpoint(A, version=b"three"), False, A),
    "version empty": (checkpoint(A, version=b""), False, A),
    "comment": (checkpoint(A, comment=b"hello"), True, A),
    "comment length wrong": (checkpoint(A, comment=b"hello") + b"more", True, A),
    "count too small": (make_zip(P, V, Entry("archive/x", b"x"), count=2), True, A),
    "count too large": (make_zip(P, V, count=3), False, A),
    "method 12": (make_zip(P._replace(method=12), V), False, A),
    "no data.pkl": (make_zip(Entry("archive/other.pkl", A), V), False, A),
    "folder entry": (make_zip(Entry("archive/", b""), P, V), True, A),
    "no local header": (make_zip(P, V).replace(b"PK\x03\x04", b"PK\x03\x05", 1).replace(b"PK\x03\x05", b"PK\x03\x04", 1), True, A),
    "directory in the second half": (make_zip(P, V, between=b"\0" * 50), True, A),
    "bytes in front of the first": (make_zip(Entry("archive/gone.pkl", A, listed=False), P, V), True, A),
    "stored with two sizes": (make_zip(P._replace(size=len(A) - 1, crc=0), V), False, A),
    "deflated to more": (make_zip(P._replace(deflate=True, size=len(A) + 5), V), False, A),
    "deflated to less": (make_zip(Entry("archive/data.pkl", A + b"junk" * 9, deflate=True, size=len(A)), V), True, A),
    "deflated and broken behind the pickle": (make_zip(Entry("archive/data.pkl", BROKEN, method=8, size=len(A) + 50), V), True, A),
    "deflated and broken, as long as said": (make_zip(Entry("archive/data.pkl", BROKEN, method=8, size=len(A)), V), True, A),
    "on disk 1": (make_zip(P._replace(disk=1), V), True, A),
    "on disk 2": (make_zip(P._replace(disk=2), V), False, A),
    "zero in a name": (make_zip(P, V, Entry(b"archive/x\0y", b"x")), True, A),
    "name before the folder": (make_zip(P, V, Entry("../archive/x", b"x")), False, A),
    "nested folder": (make_zip(Entry("archive/sub/data.pkl", A), V), False, A),
    "byteorder": (make_zip(P, V, Entry("archive/byteorder", b"middle")), False, A),
    "byteorder big": (make_zip(P, V, Entry("archive/byteorder", b"big")), True, A),
    "alignment": (make_zip(P, V, Entry("archive/.storage_alignment", b"64x")), False, A),
    "alignment blank": (make_zip(P, V, Entry("archive/.storage_alignment", b" 6_4 ")), True, A),
    "format version encrypted": (make_zip(P, V, Entry("archive/.format_version", b"1", flags=1)), False, A),
    "serial encrypted": (make_zip(P, V, Entry("archive/.data/serialization_id", b"1", flags=1)), False, A),
    "serial that is no text": (make_zip(P, V, Entry("archive/.data/serialization_id", b"\xff")), False, A),
    "name that is no text": (make_zip(P, V, Entry(b"archive/\xff", b"1")), False, A),
    "name that is none behind a zero": (make_zip(P, V, Entry(b"archive/a\0\xff", b"1")), True, A),
    "script behind a zero": (make_zip(P, V, Entry(b"archive/constants.pkl\0", A)), False, A),
    "data.pkl marked as a folder": (make_zip(P._replace(external=0x10), V), False, A),
    "version marked as a folder": (make_zip(P, V._replace(external=0x10)), False, A),
    "script": (make_zip(P, V, Entry("archive/constants.pkl", A)), False, A),
    "script upper case": (make_zip(P, V, Entry("archive/CONSTANTS.PKL", A)), True, A),
}  # fmt: skip


def agrees(name: str) -> PickleFile:
    content, loads, pickled = ODD[name]
    file = read_file(content)
    refused = bool(kinds(file) & {"refused", "malformed"}) or not any(
        stream.reader == "torch" for stream in file.streams
    )
    assert refused is not loads, (name, file.anomalies)
    if loads:
        (stream,) = [stream for stream in file.streams if stream.role == "object"]
        assert stream.reader == "torch"
        assert stream.trace.end == len(pickled)
    return file


@pytest.mark.parametrize("name", ODD)
def test_reads_and_refuses_as_torch_does(name: str) -> None:
    agrees(name)


#: Of these torch takes the size, has nothing written, and reads what lies in the memory: anything may come of it.
UNWRITTEN = {"data.pkl marked as a folder", "version marked as a folder"}


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name in ODD if name not in UNWRITTEN])
def test_the_table_is_what_torch_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    content, loads, pickled = ODD[name]
    try:
        value = torch.load(io.BytesIO(content), weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, ValueError, EOFError):
        assert not loads
    else:
        assert loads
        assert value == pickle.loads(pickled)


@pytest.mark.torch
def test_of_two_equal_names_the_same_one_is_taken_as_by_torch() -> None:
    torch = pytest.importorskip("torch")
    choices = random.Random(5)
    for _ in range(60):
        tensors = choices.randrange(12)
        pool = [Entry(f"archive/{choices.choice('aezDX')}{number}", b"x") for number in range(tensors)]
        pickles = [pickle.dumps(list(range(number)), 2) for number in range(choices.choice((2, 2, 3, 4)))]
        pool += [Entry(choices.choice(("archive/data.pkl", "archive/DATA.pkl")), one) for one in pickles] + [V]
        choices.shuffle(pool)
        content = make_zip(*pool)
        (stream,) = [stream for stream in read_file(content).streams if stream.role == "object"]
        value = torch.load(io.BytesIO(content), weights_only=True)
        assert stream.trace.end == len(pickle.dumps(value, 2))


HIDING: dict[str, tuple[bytes, str]] = {
    "in the second of two": (twice(A, HOSTILE), "disagree"),
    "in the first of two": (twice(HOSTILE, A), "disagree"),
    "under another name": (make_zip(P, V, Entry("archive/notes.txt", HOSTILE)), ""),
    "outside of the folder": (make_zip(P, V, Entry("x", HOSTILE)), "malformed"),
    "among the tensors": (make_zip(P, V, Entry("archive/data/7", HOSTILE)), ""),
    "in a zip within": (make_zip(P, V, Entry("archive/extra/in.pt", checkpoint(HOSTILE))), ""),
    "in a zip among the tensors": (make_zip(P, V, Entry("archive/data/1", checkpoint(HOSTILE))), ""),
    "behind the pickle": (make_zip(Entry("archive/data.pkl", A + HOSTILE), V), ""),
    "not in the directory": (make_zip(Entry("archive/data.pkl", HOSTILE, listed=False), P, V), "disagree"),
    "said to be encrypted": (make_zip(Entry("archive/data.pkl", HOSTILE, flags=1), V), "disagree"),
    "said to be a patch": (make_zip(P, V, Entry("archive/x", HOSTILE, flags=0x20)), "disagree"),
    "beyond the promised members": (make_zip(P, V, Entry("archive/x", HOSTILE), count=2), "disagree"),
    "behind a wrong checksum": (make_zip(Entry("archive/data.pkl", HOSTILE, crc=1), V), "disagree"),
    "at the root": (make_zip(Entry("data.pkl", HOSTILE)), "malformed"),
    "in a script": (make_zip(P, V, Entry("archive/constants.pkl", A), Entry("archive/x.pkl", HOSTILE)), "refused"),
    "in a file that was cut": (checkpoint(HOSTILE)[:-60], "malformed"),
    "with nothing behind it": (checkpoint(HOSTILE) + b"\0" * 70_000, "malformed"),
    "behind junk": (b"\xffjunk" + checkpoint(HOSTILE), "malformed"),
    "behind a pickle": (A + checkpoint(HOSTILE), "disagree"),
    "in front of a zip": (HOSTILE + checkpoint(A), "disagree"),
    "in an archive in a comment": (checkpoint(A, comment=make_zip(Entry("x", HOSTILE))), "disagree"),
    "in a deflated member": (make_zip(Entry("archive/data.pkl", HOSTILE, deflate=True), V), ""),
}


@pytest.mark.parametrize("name", HIDING)
def test_what_only_another_reader_sees_is_looked_at_too(name: str) -> None:
    content, kind = HIDING[name]
    file = read_file(content)
    named = {naming.what.path for stream in file.streams for naming in stream.trace.globals}
    assert "os.system" in named, file
    assert not kind or kind in kinds(file), file.anomalies


def test_a_sound_file_gives_no_word() -> None:
    assert read_file(checkpoint(A)).anomalies == ()
    assert read_file(checkpoint(A)).complete
    assert roles(read_file(checkpoint(A))) == [("archive/data.pkl", "object")]


def test_flags_and_checksums_as_torch_itself_writes_them_are_no_finding() -> None:
    content = make_zip(P._replace(flags=0x808, local_crc=0, local_size=0), V._replace(flags=0x808))
    assert read_file(content).anomalies == ()
    without = make_zip(P._replace(flags=0x808, crc=0), V._replace(flags=0x808, crc=0))
    assert kinds(read_file(without)) == {"note"}


TENSOR = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x03tQK\x00K\x03\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR."
)


def test_storages_that_are_asked_for_must_be_there_and_large_enough() -> None:
    whole = read_file(checkpoint(TENSOR, Entry("archive/data/0", b"\0" * 12)))
    assert (whole.storages_absent, whole.anomalies) == ((), ())
    assert read_file(checkpoint(TENSOR)).storages_absent == ("0",)
    (short,) = read_file(checkpoint(TENSOR, Entry("archive/data/0", b"\0" * 8))).anomalies
    assert short.kind == "malformed"
    assert "8 bytes" in short.what
    assert "12" in short.what
    assert kinds(read_file(checkpoint(TENSOR, Entry("archive/data/0", b"\0" * 16)))) == {"malformed"}


def test_tensors_are_never_taken_for_pickles() -> None:
    """Numbers that happen to read as PROTO, a zip or gzip: the pickle asks for them, so they are numbers."""
    for start in (b"\x80\x02}.", b"PK\x03\x04", b"\x1f\x8b\x08\x00"):
        file = read_file(checkpoint(TENSOR, Entry("archive/data/0", start + b"\0" * 8)))
        assert len(file.streams) == 1
        assert file.anomalies == ()
        assert file.complete


def test_torchscript_is_named_and_refused() -> None:
    file = read_file(make_zip(P, V, Entry("archive/constants.pkl", A)))
    assert file.format == "TorchScript archive"
    assert {stream.reader for stream in file.streams} == {"torchscript"}
    (refused,) = file.anomalies
    assert refused.kind == "refused"
    assert refused.fix is not None
    assert "torch.jit.load" in refused.fix


def test_an_archive_of_torch_package_is_not_complete() -> None:
    file = read_file(
        make_zip(Entry("p/.data/extern_modules", b"torch\n"), Entry("p/m/m.pkl", HOSTILE), Entry("p/m/m.py", b"1"))
    )
    assert file.format == "torch package"
    assert not file.complete
    assert kinds(file) == {"refused"}
    assert [stream.member for stream in file.streams] == ["p/m/m.pkl"]


def test_only_the_ends_and_the_pickle_are_read() -> None:
    """Ten gigabytes of tensors cost nothing: they are never asked for."""

    size = 10 << 30
    wide = struct.pack("<2H2Q", 1, 16, size, size)
    tensor = Entry("archive/data/0", size=0xFFFFFFFF, packed=0xFFFFFFFF, extra=wide)
    elements = b"\x8a\x05" + (size // 4).to_bytes(5, "little")
    pickled = TENSOR.replace(b"K\x03tQ", elements + b"tQ")
    content = make_zip(Entry("archive/data.pkl", pickled), V, tensor, hole=size, zip64=True)

    class Sparse:
        """The archive with its tensor of zeros."""

        def __init__(self) -> None:
            self.size = len(content) + size
            self.hole = content.index(b"PK\x01\x02")
            self.given = 0

        def read(self, offset: int, size: int) -> bytes:
            size = max(0, min(size, self.size - offset))
            self.given += size
            assert self.given < 1 << 20, "the tensor is read"
            front = content[: self.hole][offset : offset + size]
            after = max(0, offset + size - (self.size - len(content) + self.hole))
            start = max(self.hole, offset - (self.size - len(content)))
            behind = content[start : start + min(after, size)]
            return front + b"\0" * (size - len(front) - len(behind)) + behind

    source = Sparse()
    file = read_file(source)
    assert file.format == "torch zip"
    assert (file.storages_absent, file.anomalies, file.complete) == ((), (), True)


def test_names_are_printed_escaped_and_cut() -> None:
    file = read_file(make_zip(P, V, Entry(b"archive/\x1b[31m" + b"x" * 900, HOSTILE)))
    member = next(stream.member for stream in file.streams if stream.role == "hidden")
    assert member is not None
    assert member.isprintable()
    assert len(member) < 320


def read_anything(content: bytes) -> None:
    read_file(content)


@pytest.mark.parametrize("seed", range(4))
def test_damage_never_raises(seed: int) -> None:
    choices = random.Random(seed)
    whole = [content for content, _, _ in ODD.values()] + [content for content, _ in HIDING.values()]
    damages: list[Callable[[bytearray, int], None]] = [
        lambda data, at: data.__setitem__(at, choices.choice((0, 1, 0x80, 0xFF))),
        lambda data, at: data.__delitem__(slice(at, None)),
        lambda data, at: data.__delitem__(slice(at, at + choices.randrange(30))),
        lambda data, at: data.__setitem__(slice(at, at + 8), choices.randbytes(8)),
    ]
    for _ in range(400):
        data = bytearray(choices.choice(whole)[:5000])
        for _ in range(choices.choice((1, 2, 8))):
            if data:
                choices.choice(damages)(data, choices.randrange(len(data)))
        read_anything(bytes(data))


@pytest.mark.torch
def test_what_torch_writes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    value = {"a": torch.ones(3), "b": torch.zeros(4)[1:], "c": torch.ones(2, 2, dtype=torch.bfloat16), "n": 5}
    torch.save(value, tmp_path / "a.pt")
    file = read_file(tmp_path / "a.pt")
    assert (file.format, file.anomalies, file.storages_absent, file.complete) == ("torch zip", (), (), True)
    whole = (tmp_path / "a.pt").read_bytes()
    assert "malformed" in kinds(read_file(whole[:-30]))
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(value, tmp_path / "b.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert kinds(read_file(tmp_path / "b.pt")) == {"note"}
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "c.pt")
    script = read_file(tmp_path / "c.pt")
    assert (script.format, kinds(script), script.complete) == ("TorchScript archive", {"refused"}, True)
