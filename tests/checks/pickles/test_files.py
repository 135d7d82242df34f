"""What a file is, by content; what can't be read; folders of a distributed checkpoint."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import socket
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from distcheck.checks.pickles.files import looks_like_pickle, read_file, read_source
from distcheck.checks.pickles.source_bytes import BytesSource, ScanLimits
from distcheck.checks.pickles.verdict import judge

from .zips import Entry, checkpoint, make_zip

PLAIN = pickle.dumps({"a": [1, 2]}, 2)


def in_tar(name: str, content: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    with io.BytesIO() as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(member, io.BytesIO(content))
        return packed.getvalue()


HOSTILE = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."


@pytest.mark.parametrize(
    ("content", "form", "says"),
    [
        (b"", "empty", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "git LFS pointer", "LFS"),
        (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "HTML page", "login"),
        (b"  <html>", "HTML page", "login"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML", "refused"),
        (b'{"architectures": ["GPT"]}', "JSON", "JSON"),
        (b"# README\n\nSome words.\n", "text", "text"),
        (b"common\nwords\nin\na\nlist\n", "text", "text"),
        (b"(a remark)\n", "text", "text"),
        (b"N. America\n", "text", "text"),
        (b"\x00\x01\x02\xff\xfe", "unknown", "00 01 02 ff fe"),
        (b"\x7fELF" + bytes(60), "executable", "executable"),
    ],
)
def test_what_is_no_pickle_is_named(content: bytes, form: str, says: str) -> None:
    file = read_file(content)
    assert file.format == form
    (anomaly,) = file.anomalies
    assert anomaly.kind == "malformed"
    assert says in anomaly.what
    assert anomaly.fix
    assert file.streams == ()


def test_other_formats_of_models_hold_no_pickle() -> None:
    gguf = read_file(b"GGUF\x03\0\0\0" + bytes(16))
    assert (gguf.format, gguf.executes_nothing, {anomaly.kind for anomaly in gguf.anomalies}) == (
        "GGUF",
        True,
        {"note"},
    )
    keras = read_file(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert (keras.format, keras.complete) == ("HDF5", False)


@pytest.mark.parametrize(
    ("start", "what"), [(b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07\x01\x00", "rar"), (b"\x04\x22\x4d\x18", "lz4")]
)
def test_archives_that_are_not_opened_are_incomplete(start: bytes, what: str) -> None:
    file = read_file(start + bytes(50))
    assert not file.complete
    assert what in file.unopened[0]


def test_a_file_may_be_two_things() -> None:
    """A format whose first bytes an unpickler follows too: GGUF begins with the opcode of a float."""
    file = read_file(b"GGUF\x03\x00\x00\x00\x00" + HOSTILE[2:])
    assert {anomaly.kind for anomaly in file.anomalies} >= {"disagree"}
    assert [naming.what.path for stream in file.streams for naming in stream.trace.globals] == ["os.system"]
    assert not file.executes_nothing


def test_the_name_decides_nothing(tmp_path: Path) -> None:
    for name in ("model.safetensors", "README.md", "x.npy"):
        path = tmp_path / name
        path.write_bytes(PLAIN)
        assert read_file(path).format == "pickle"
        assert read_file(path).path == str(path)


def test_bytes_sources_and_names() -> None:
    assert read_file(PLAIN).path == "<bytes>"
    assert read_file(PLAIN, name="-").path == "-"
    file = read_source(BytesSource(PLAIN), "-")
    assert (file.path, file.size, file.format) == ("-", len(PLAIN), "pickle")


def test_what_is_no_regular_file_is_an_error_and_never_waited_for(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none.pt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.pt")
        with pytest.raises(OSError, match="named pipe"):
            read_file(tmp_path / "pipe.pt")
        with pytest.raises(OSError, match="device"):
            read_file("/dev/zero")
        with socket.socket(socket.AF_UNIX) as server:
            os.chdir(tmp_path)
            server.bind("s.pt")
            with pytest.raises(OSError, match="socket"):
                read_file("s.pt")


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("model.pt", b"anything", True),
        ("model.ckpt", b"", True),
        (".metadata", b"", True),
        ("data", PLAIN, True),
        ("data.bin", PLAIN, True),
        ("old.dat", b"(dp0\nS'a'\np1\nI1\ns.", True),
        ("weights.bin", checkpoint(PLAIN), True),
        ("README.md", b"# words\n", False),
        ("config.json", b'{"a": 1}', False),
        ("train.py", b"import os\n", False),
        ("cover.png", b"\x89PNG\r\n\x1a\n", False),
        ("words.txt", b"copy\nfile\nname\n", False),
        ("vocabulary.bin", bytes(range(200)), False),
        ("thing-1.0.whl", make_zip(Entry("thing/x.py", b"1")), False),
        ("distutils-precedence.pth", b"import os\n", False),
        ("pytorch_model.bin", b"7z\xbc\xaf\x27\x1c" + bytes(50), True),
        ("photos.7z", b"7z\xbc\xaf\x27\x1c" + bytes(50), False),
        ("model.pth", b"version https://git-lfs.github.com/spec/v1\n", True),
    ],
)
def test_which_files_of_a_folder_are_worth_a_scan(tmp_path: Path, name: str, content: bytes, wanted: bool) -> None:
    (tmp_path / name).write_bytes(content)
    assert looks_like_pickle(tmp_path / name) is wanted


SYSTEM = b"cos\nsystem\n(S'id'\ntR."
#: What an unpickler goes through before the call; each is longer than the first piece that is read of a file.
PREAMBLES = {
    "numbers": b"I1\n0" * 3000,
    "more opcodes than are tried": b"I1\n0" * 30_000,
    "one long text": b"V" + b"x" * 9000 + b"\n0",
    "one long string": b"T" + (70_000).to_bytes(4, "little") + b"x" * 70_000 + b"0",
    "memo": b"N" + b"p0\n" * 3000 + b"0",
    "marks": b"(1" * 3000,
    "tuples": b")0" * 4000,
    "a pickle of plain data": b"I1\n." + b"I2\n0" * 2000,
    "an image by its first bytes": b"GIF89abcd0" + b"I1\n0" * 2000,
    "protocol 2": b"\x80\x02" + b"K\x010" * 3000,
}


@pytest.mark.parametrize("name", ["weights.bin", "data.dat", "config.json", "a.model", "noname"])
@pytest.mark.parametrize("preamble", PREAMBLES)
def test_what_stands_before_the_first_call_hides_nothing(tmp_path: Path, preamble: str, name: str) -> None:
    (tmp_path / name).write_bytes(PREAMBLES[preamble] + SYSTEM)
    assert looks_like_pickle(tmp_path / name)
    assert judge(read_file(tmp_path / name)).word == "dangerous"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zlib.compress])
@pytest.mark.parametrize("wrap", [bytes, lambda content: in_tar("x.json", content)], ids=["plain", "tar"])
def test_compressed_data_is_unpacked_as_far_as_an_unpickler_reads(
    tmp_path: Path, pack: Callable[[bytes], bytes], wrap: Callable[[bytes], bytes]
) -> None:
    """A decoder of bz2 gives nothing before it has a whole block; a text may be longer than any head."""
    text = random.Random(1).randbytes(300_000).hex().encode()
    path = tmp_path / "data.dat"
    path.write_bytes(pack(wrap(b"S'" + text + b"'\n0" + SYSTEM)))
    assert looks_like_pickle(path)
    assert judge(read_file(path)).word == "dangerous"
    path.write_bytes(pack(text))
    assert not looks_like_pickle(path)


def test_a_checkpoint_counts_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "letter.docx").write_bytes(checkpoint(HOSTILE))
    assert looks_like_pickle(tmp_path / "letter.docx")
    (tmp_path / "other.docx").write_bytes(make_zip(Entry(b"word/a.xml", b"<a/>")))
    assert not looks_like_pickle(tmp_path / "other.docx")


def test_what_was_not_followed_to_its_end_is_not_called_safe(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"I1\n0" * 30_000 + SYSTEM)
    assert judge(read_file(path, ScanLimits(opcodes=20_000))).word == "incomplete"


@pytest.mark.parametrize("module", ["my-mod", "1mod", "módulo-é", "a b", "my-mod.sub", "!!", "a, b"])
def test_a_module_whose_name_is_no_identifier_is_imported_all_the_same(tmp_path: Path, module: str) -> None:
    (tmp_path / "data.dat").write_bytes(b"c" + module.encode() + b"\nrun\n(tR.")
    assert looks_like_pickle(tmp_path / "data.dat")
    (stream,) = read_file(tmp_path / "data.dat").streams
    assert [naming.what.module for naming in stream.trace.globals] == [module]


def test_a_distributed_checkpoint_is_one_unit(tmp_path: Path) -> None:
    metadata = b"\x80\x04\x8c\x2atorch.distributed.checkpoint.metadata\x8c\x08Metadata\x93)\x81."
    metadata = metadata.replace(b"\x8c\x2a", b"\x8c" + bytes([len("torch.distributed.checkpoint.metadata")]))
    (tmp_path / ".metadata").write_bytes(metadata)
    (tmp_path / "__0_0.distcp").write_bytes(checkpoint(PLAIN) + checkpoint(HOSTILE))
    file = read_file(tmp_path)
    assert file.format == "distributed checkpoint"
    assert [(stream.member, stream.reader) for stream in file.streams] == [
        (".metadata", "pickle"),
        ("__0_0.distcp/@0/archive/data.pkl", "torch"),
        (f"__0_0.distcp/@{len(checkpoint(PLAIN))}/archive/data.pkl", "torch"),
    ]
    assert file.anomalies == ()
    assert read_file(tmp_path / ".metadata").format == "distributed checkpoint"
    assert read_file(tmp_path / "__0_0.distcp").format == "distributed checkpoint"
    (tmp_path / ".metadata").unlink()
    assert {anomaly.kind for anomaly in read_file(tmp_path).anomalies} == {"malformed"}


def test_limits_make_it_incomplete_never_fine() -> None:
    many = make_zip(*(Entry(f"x/{number}.pkl", PLAIN) for number in range(50)))
    assert not read_file(many, ScanLimits(members=10)).complete
    assert not read_file(many, ScanLimits(seconds=0.0)).complete
    nested = checkpoint(HOSTILE)
    for _ in range(6):
        nested = make_zip(Entry("in.zip", nested))
    assert not read_file(nested, ScanLimits(depth=3)).complete
    assert read_file(nested, ScanLimits(depth=9)).complete


def test_a_million_small_pickles_are_few_lines() -> None:
    file = read_file(PLAIN * 3000)
    assert len(file.streams) < 1000
    assert {anomaly.kind for anomaly in file.anomalies} == {"note"}
    assert file.complete
    hidden = read_file(PLAIN * 3000 + HOSTILE)
    assert any(stream.trace.globals for stream in hidden.streams)


def test_what_begins_like_another_format_is_followed_as_a_pickle_or_not_complete() -> None:
    head = b"GGUF\3\0\0\0\1"  # a number, for pickle
    payload = b"cos\nsystem\n(S'true'\ntR."
    assert read_file(head + payload[:-1] + b"0c!!\n!!\n.").streams[0].role == "hidden"
    file = read_file(head + b"N0" * 600_000 + payload)
    assert (file.streams, file.complete, file.executes_nothing) == ((), False, False)
