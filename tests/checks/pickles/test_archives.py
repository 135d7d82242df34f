"""Archives and compressed files: each member by its content, within bounds, never on disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import random
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from distcheck.checks.pickles.files import read_file
from distcheck.checks.pickles.picklefile import PickleFile
from distcheck.checks.pickles.source_bytes import ScanLimits

from .zips import Entry, checkpoint, make_zip

PLAIN = pickle.dumps({"a": [1, 2]}, 4)
HOSTILE = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
SAFETENSORS = (30).to_bytes(8, "little") + b'{"a":{"data_offsets":[0,4]}}  ' + bytes(4)


def named(file: PickleFile) -> set[str]:
    return {naming.what.path for stream in file.streams for naming in stream.trace.globals}


def tar(members: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


PACKERS = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda content: lzma.compress(content, lzma.FORMAT_ALONE),
    "zlib": zlib.compress,
}


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize(
    ("content", "form"),
    [
        (PLAIN, "compressed pickle"),
        (checkpoint(PLAIN), "torch zip in {kind}"),
        (tar({"a.pkl": PLAIN}), "tar archive in {kind}"),
    ],
)
def test_compressed_files_are_looked_into(kind: str, content: bytes, form: str) -> None:
    file = read_file(PACKERS[kind](content))
    assert (file.format, file.anomalies, file.complete) == (form.format(kind=kind), (), True)
    assert [stream.trace.ended for stream in file.streams] == ["stop"]


@pytest.mark.parametrize("kind", PACKERS)
def test_a_payload_in_front_of_broken_data_counts(kind: str) -> None:
    whole = PACKERS[kind](HOSTILE + random.Random(1).randbytes(2_000_000))
    for broken in (whole[: len(whole) // 2], whole[:1_000_000] + bytes(9) + whole[1_000_009:]):
        file = read_file(broken)
        assert "malformed" in {anomaly.kind for anomaly in file.anomalies}
        assert named(file) == {"os.system"}


def test_joined_files_are_read_to_their_end() -> None:
    for pack in (gzip.compress, bz2.compress, lzma.compress):
        file = read_file(pack(PLAIN[:10]) + pack(PLAIN[10:]))
        assert [stream.trace.ended for stream in file.streams] == ["stop"]
        assert file.anomalies == ()
        behind = read_file(pack(PLAIN) + b"behind it")
        assert {anomaly.kind for anomaly in behind.anomalies} == {"note"}


def test_compressed_text_is_no_pickle() -> None:
    file = read_file(gzip.compress(b"some log\n" * 9))
    assert {anomaly.kind for anomaly in file.anomalies} == {"malformed"}
    assert file.streams == ()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_archives_of_all_formats(form: int) -> None:
    long = "folder/" + "x" * 90 + "/" + ("y" * 40 if form == tarfile.USTAR_FORMAT else "y" * 200) + ".pt"
    file = read_file(tar({"README": b"text", long: checkpoint(HOSTILE), "b.npy": b"none", "ü.pkl": PLAIN}, form))
    assert file.format == "tar archive"
    assert [stream.role for stream in file.streams] == ["object", "object"]
    assert named(file) == {"os.system"}
    first = file.streams[0].member
    assert first is not None
    assert first.endswith("archive/data.pkl")


def test_links_devices_and_folders_of_a_tar_are_passed_over() -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"thing{kind!r}")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        member = tarfile.TarInfo("last.pkl")
        member.size = len(HOSTILE)
        archive.addfile(member, io.BytesIO(HOSTILE))
    assert named(read_file(target.getvalue())) == {"os.system"}


def test_a_tar_that_is_cut_or_damaged_is_said_to_be() -> None:
    whole = tar({"a.pkl": PLAIN, "b.pkl": HOSTILE})
    assert {anomaly.kind for anomaly in read_file(whole[:1100]).anomalies} == {"malformed"}
    damaged = read_file(whole[:1024] + b"X" + whole[1025:])
    assert {anomaly.kind for anomaly in damaged.anomalies} == {"malformed"}


def test_a_tar_that_is_a_pickle_too() -> None:
    """The first bytes of a tar are a name, which can be opcodes."""
    name = "cos\nsystem\n(S'true'\ntR."
    file = read_file(tar({name: b"nothing"}))
    assert file.format == "tar archive"
    assert "disagree" in {anomaly.kind for anomaly in file.anomalies}
    assert named(file) == {"os.system"}


def test_archives_within_archives() -> None:
    file = read_file(tar({"models.zip": make_zip(Entry("a/b.pt.gz", gzip.compress(checkpoint(HOSTILE))))}))
    assert named(file) == {"os.system"}
    assert file.streams[0].member == "models.zip/a/b.pt.gz/archive/data.pkl"


def test_archives_of_what_can_not_run_hold_nothing_that_runs() -> None:
    assert read_file(make_zip(Entry("a.safetensors", SAFETENSORS))).executes_nothing
    assert read_file(tar({"a.safetensors": SAFETENSORS})).executes_nothing
    assert not read_file(tar({"a.safetensors": SAFETENSORS, "b.pkl": PLAIN})).executes_nothing


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_zipfile_writes_is_read(method: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x/a.pkl", HOSTILE)
        archive.writestr("ü.txt", b"text")
        archive.mkdir("empty") if hasattr(archive, "mkdir") else None
    file = read_file(path)
    assert (file.format, file.anomalies, file.complete) == ("zip archive", (), True)
    assert named(file) == {"os.system"}


def test_methods_that_are_not_read_and_encryption_are_not_complete() -> None:
    assert not read_file(make_zip(Entry("a.pkl", PLAIN, method=97))).complete
    assert not read_file(make_zip(Entry("a.pkl", random.Random(2).randbytes(200), flags=1))).complete


@pytest.mark.slow
def test_bombs_end_at_their_limit() -> None:
    limits = ScanLimits(unpacked_bytes=4 << 20)
    bomb = gzip.compress(b"\x80\x02]" + b"N0" * 4_000_000)
    assert not read_file(bomb, limits).complete
    string = b"\x80\x04\x8e" + (64 << 20).to_bytes(8, "little") + bytes(64 << 20) + b"."
    packed = make_zip(Entry("archive/data.pkl", string, deflate=True), Entry("archive/version", b"3\n"))
    assert len(packed) < 200_000
    assert not read_file(packed, limits).complete
    lying = make_zip(Entry("a.pkl", PLAIN, deflate=True, size=1 << 31))
    assert "disagree" in {anomaly.kind for anomaly in read_file(lying).anomalies}


def test_an_export_archive_is_named() -> None:
    members = [Entry("m/archive_format", b"pt2"), Entry("m/data/weights/w0", checkpoint(HOSTILE))]
    file = read_file(make_zip(*members))
    assert (file.format, named(file), file.complete) == ("torch.export archive", {"os.system"}, True)
    compiled = read_file(make_zip(*members, Entry("m/data/aotinductor/a.so", b"\x7fELF")))
    assert not compiled.complete


@pytest.mark.parametrize("seed", range(3))
def test_damage_never_raises(seed: int) -> None:
    choices = random.Random(seed)
    whole = [tar({"a.pkl": PLAIN, "b" * 150: checkpoint(PLAIN)}), tar({"ü": PLAIN}, tarfile.PAX_FORMAT), SAFETENSORS]
    whole += [pack(tar({"a": PLAIN})) for pack in PACKERS.values()]
    limits = ScanLimits(seconds=5, unpacked_bytes=1 << 24)
    for _ in range(300):
        data = bytearray(choices.choice(whole))
        for _ in range(choices.choice((1, 3))):
            at = choices.randrange(len(data))
            data[at : at + choices.choice((0, 1, 9))] = choices.randbytes(choices.choice((0, 1, 9)))
        read_file(bytes(data), limits)


def test_a_bare_pickle_below_the_deepest_archive_is_not_passed_over() -> None:
    for content, complete in ((b"cos\nsystem\n(S'true'\ntR.", False), (b"some notes, no pickle at all", True)):
        nested = make_zip(Entry("inner", content))
        for _ in range(ScanLimits().depth):
            nested = make_zip(Entry("a.pkl", pickle.dumps(1)), Entry("nested", nested))
        assert read_file(nested).complete is complete


def test_a_member_that_is_marked_as_a_folder_and_has_bytes_is_read() -> None:
    hidden = Entry("archive/more.pkl", b"\x80\x02cos\nsystem\n.", external=0x10)
    file = read_file(checkpoint(b"\x80\x02}.", hidden))
    assert named(file) >= {"os.system"}


@pytest.mark.parametrize(
    ("form", "headers"), [("global", {"size": "700"}), ("global", {"path": "pickle"}), ("own", {"size": "+5"})]
)
def test_headers_that_change_what_a_tar_member_is_are_not_passed_over(form: str, headers: dict[str, str]) -> None:
    buffer = io.BytesIO()
    info = tarfile.TarInfo("a.pkl")
    info.size = 4
    with tarfile.open(
        fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers if form == "global" else {}
    ) as archive:
        if form == "own":
            info.pax_headers = headers
        archive.addfile(info, io.BytesIO(b"\x80\x02N."))
    file = read_file(buffer.getvalue())
    assert file.unopened or [anomaly.kind for anomaly in file.anomalies] == ["malformed"]


def member(size: bytes = b"", kind: bytes = b"0", records: dict[str, str] | None = None) -> bytes:
    """A tar archive with one member; its size is stated as it is given, or by a record in front of it."""
    info = tarfile.TarInfo("a.pkl")
    info.type, info.pax_headers = kind, records or {}
    info.size = 0 if size or "size" in info.pax_headers else len(HOSTILE)
    whole = bytearray(info.tobuf(tarfile.PAX_FORMAT))
    header = memoryview(whole)[-512:]
    header[124 : 124 + len(size)] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(whole) + HOSTILE.ljust(512, b"\0") + bytes(1024)


@pytest.mark.parametrize(
    "content",
    [member(), member(b"\x80" + len(HOSTILE).to_bytes(11, "big")), member(records={"size": str(len(HOSTILE))})],
    ids=["octal", "binary", "record"],
)
def test_the_size_of_a_tar_member_may_be_stated_in_three_ways(content: bytes) -> None:
    """Members of 8 GiB and more have no other way than the last two."""
    file = read_file(content)
    assert (file.format, named(file), file.anomalies, file.complete) == ("tar archive", {"os.system"}, (), True)


@pytest.mark.parametrize("size", [b"\xff" * 12, b"12x4"])
def test_a_tar_member_without_a_readable_size_is_malformed(size: bytes) -> None:
    (anomaly,) = read_file(member(size)).anomalies
    assert anomaly.kind == "malformed"
    assert "no readable size" in anomaly.what


@pytest.mark.parametrize(
    "content",
    [member(kind=b"S"), member(records={"GNU.sparse.major": "1"}), tar({"x" * 70_000: HOSTILE})],
    ids=["sparse", "sparse by a record", "long name"],
)
def test_a_tar_member_that_is_not_read_makes_it_incomplete(content: bytes) -> None:
    file = read_file(content)
    assert (file.format, file.complete, len(file.unopened)) == ("tar archive", False, 1)


def test_a_tar_with_more_members_than_may_be_read_is_not_complete() -> None:
    whole = tar({"a.pkl": PLAIN, "b.pkl": HOSTILE})
    assert [read_file(whole, ScanLimits(members=number)).complete for number in (1, 2)] == [False, True]


def test_a_tar_with_one_member_that_is_called_pickle_is_a_tar_like_others() -> None:
    file = read_file(tar({"notes.txt": b"text", "./pickle": HOSTILE}))
    assert (file.format, named(file), file.complete) == ("tar archive", {"os.system"}, True)


@pytest.mark.parametrize("form", [lzma.FORMAT_XZ, lzma.FORMAT_ALONE])
def test_sound_data_that_takes_too_much_memory_is_not_said_to_be_broken(form: int) -> None:
    content = lzma.compress(pickle.dumps(1), form, preset=9)
    for file in (read_file(content), read_file(make_zip(Entry("a.pkl", pickle.dumps(1)), Entry("b.pkl.xz", content)))):
        assert (file.complete, [anomaly.kind for anomaly in file.anomalies]) == (False, [])


@pytest.mark.parametrize("content", [b"cos\nsystem\n(S'true'\ntR.", b"cos\nsystem\nU\x04true\x85R."])
def test_a_payload_among_the_tensors_counts(content: bytes) -> None:
    file = read_file(checkpoint(b"\x80\x02}.", Entry("archive/data/0", content)))
    assert named(file) == {"os.system"}
