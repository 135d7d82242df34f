"""``.npy`` and ``.npz``: the header is a literal, only arrays of objects hold a pickle."""

from __future__ import annotations

import struct

import pytest

from distcheck.checks.pickles.files import read_file
from distcheck.checks.pickles.numpy_arrays import element_size, holds_objects, literal

from .zips import Entry, make_zip

HOSTILE = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."


def npy(descr: str, shape: str, data: bytes, version: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


@pytest.mark.parametrize(
    ("descr", "shape", "size"),
    [
        ("'<f8'", "(3,)", 24),
        ("'|u1'", "(2, 5)", 10),
        ("'<U4'", "(2,)", 32),
        ("'|b1'", "()", 1),
        ("'<M8[ns]'", "(2,)", 16),
        ("'|S3'", "(0, 4)", 0),
        ("[('x', '<i4'), ('y', '<f8', (2,))]", "(3,)", 60),
        ("[('a', [('b', '<i2')])]", "(2,)", 4),
        ("('<f4', (2,))", "(2,)", 16),
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_plain_arrays_hold_nothing_that_runs(descr: str, shape: str, size: int, version: int) -> None:
    file = read_file(npy(descr, shape, bytes(size), version))
    assert (file.format, file.executes_nothing, file.streams, file.anomalies) == ("numpy array", True, (), ())
    if size:
        (cut,) = read_file(npy(descr, shape, bytes(size - 1), version)).anomalies
        assert cut.kind == "malformed"
        assert f"{size:,} byte" in cut.what


@pytest.mark.parametrize(
    "descr",
    ["'|O'", "'O'", "'object'", "[('a', '<i4'), ('b', '|O')]", "'i4,O'", "('|O', (2,))", "[('a', [('b', 'O')])]", "5"],
)
def test_arrays_of_objects_are_pickles(descr: str) -> None:
    file = read_file(npy(descr, "(1,)", HOSTILE))
    (stream,) = file.streams
    assert (stream.reader, stream.role) == ("numpy", "object")
    assert stream.trace.globals[0].what.path == "os.system"
    assert not file.executes_nothing


def test_several_arrays_in_a_file_are_all_looked_at() -> None:
    file = read_file(npy("'<f8'", "(1,)", bytes(8)) + npy("'|O'", "(1,)", HOSTILE))
    assert len(file.streams) == 1


@pytest.mark.parametrize(
    "header",
    [
        b"__import__('os').system('true')",
        b"{'descr': '<f8'}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': 3}",
        b"[" * 5000,
        b"-" * 5000 + b"1",
        b"(" * 5000 + b")" * 5000,
        b"",
    ],
)
def test_a_header_that_is_no_literal_is_malformed_and_never_evaluated(header: bytes) -> None:
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    assert {anomaly.kind for anomaly in read_file(content).anomalies} == {"malformed"}
    followed = read_file(content + HOSTILE)
    assert any(stream.trace.globals for stream in followed.streams)


def test_a_file_that_is_cut_in_its_header_is_malformed() -> None:
    whole = npy("'<f8'", "(1,)", bytes(8))
    for size in (7, 9, 20):
        assert {anomaly.kind for anomaly in read_file(whole[:size]).anomalies} == {"malformed"}, size


@pytest.mark.parametrize("deflate", [False, True])
def test_archives_of_arrays(deflate: bool) -> None:
    plain = Entry("a.npy", npy("'<f8'", "(100,)", bytes(800)), deflate=deflate)
    assert read_file(make_zip(plain)).executes_nothing
    assert read_file(make_zip(plain)).format == "numpy archive"
    objects = read_file(make_zip(plain, Entry("b.npy", npy("'|O'", "(1,)", HOSTILE), deflate=deflate)))
    assert [(stream.member, stream.reader) for stream in objects.streams] == [("b.npy", "numpy")]
    twice = read_file(make_zip(plain, plain))
    assert {anomaly.kind for anomaly in twice.anomalies} == {"disagree"}


def test_literals() -> None:
    assert literal("{'a': (1, 2), \"b\": [True, None], 'c': 3L}") == {"a": (1, 2), "b": [True, None], "c": 3}
    assert literal(" ( ) ") == ()
    assert literal("(1,)") == (1,)
    assert literal("(1)") == 1
    for wrong in ("", "a", "1 2", "(1 2)", "{1: 2}", "{'a' 1}", "(1,,2)", "open('x')", "1e5", "(" * 40 + ")" * 40):
        with pytest.raises(ValueError, match=r".+"):
            literal(wrong)


def test_types() -> None:
    assert element_size("<f4") == 4
    assert element_size("U3") == 12
    assert element_size([("a", "<f4"), ("b", "|O")]) is None
    assert not holds_objects("<c16")
    assert holds_objects([("a",)])
    assert holds_objects(None)


@pytest.mark.numpy
def test_what_numpy_writes() -> None:
    numpy = pytest.importorskip("numpy")
    import io

    for value, plain in (
        (numpy.zeros((2, 3)), True),
        (numpy.array(["ab", "c"]), True),
        (numpy.zeros(2, dtype=[("x", "i4"), ("y", "f8", (2,))]), True),
        (numpy.array(["2020-01-01"], "M8[D]"), True),
        (numpy.array([1, "x"], dtype=object), False),
    ):
        target = io.BytesIO()
        numpy.save(target, value, allow_pickle=True)
        file = read_file(target.getvalue())
        assert file.executes_nothing is plain
        assert file.anomalies == ()
        target = io.BytesIO()
        numpy.savez_compressed(target, value=value)
        assert read_file(target.getvalue()).executes_nothing is plain
