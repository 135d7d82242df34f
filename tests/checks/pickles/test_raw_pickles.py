"""Pickles in files of their own: all protocols, several in a row, what is behind, what is none."""

from __future__ import annotations

import io
import pickle
import random
from pathlib import Path

import pytest

from distcheck.checks.pickles.files import read_file

VALUES = ({"a": [1, 2.5, None, True], "b": ("x", b"y")}, [], {}, (), "text", 7, 2**70, {1, 2}, bytearray(b"z"))
HOSTILE = b"cos\nsystem\n(S'true'\ntR."


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_protocol_is_a_pickle(value: object, protocol: int) -> None:
    file = read_file(pickle.dumps(value, protocol))
    assert file.format == "pickle"
    (stream,) = file.streams
    assert (stream.reader, stream.role, stream.trace.ended) == ("pickle", "object", "stop")
    assert file.anomalies == ()


@pytest.mark.parametrize("tail", ["", "\n", "R", "garbage", "\xff\xfe"])
def test_a_payload_counts_whatever_comes_after_it(tail: str) -> None:
    file = read_file(HOSTILE + tail.encode("latin-1"))
    assert file.format == "pickle"
    assert "os.system" in [naming.what.path for naming in file.streams[0].trace.globals]


def test_a_payload_that_breaks_off_counts() -> None:
    file = read_file(HOSTILE[:-1] + b"\xff\xff")
    (stream,) = file.streams
    assert stream.trace.ended == "broken"
    assert [call.function.path for call in stream.trace.calls if call.function] == ["os.system"]


def test_pickles_in_a_row_are_all_followed() -> None:
    file = read_file(pickle.dumps({"a": 1}, 2) + pickle.dumps([], 4) + HOSTILE)
    assert [stream.role for stream in file.streams] == ["object", "appended", "appended"]
    assert file.streams[2].trace.globals[0].what.path == "os.system"


def test_plain_data_in_front_does_not_make_it_text() -> None:
    file = read_file(b"N.I1\n." + HOSTILE)
    assert file.format == "pickle"
    assert any(stream.trace.globals for stream in file.streams)


def test_what_is_behind_is_said() -> None:
    padded = read_file(pickle.dumps({"a": 1}, 2) + bytes(5000))
    assert padded.anomalies == ()
    (anomaly,) = read_file(pickle.dumps({"a": 1}, 2) + b"\xff" * 10).anomalies
    assert anomaly.kind == "disagree"
    assert "10 bytes" in anomaly.what


def test_a_pickle_that_is_cut_off_is_one() -> None:
    whole = pickle.dumps({"key": list(range(100))}, 4)
    (stream,) = read_file(whole[:-20]).streams
    assert stream.trace.ended in ("cut", "broken")


def test_a_zip_within_a_pickle_is_its_own_business() -> None:
    """The record at a zip's end inside of a bytes object is no second file."""
    from .zips import checkpoint

    file = read_file(pickle.dumps({"saved": checkpoint(b"N.")}, 4))
    assert file.anomalies == ()
    assert len(file.streams) == 1


def test_bytes_that_torch_would_load_are_files_of_their_own() -> None:
    from .zips import checkpoint

    inner = checkpoint(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    outer = b"\x80\x04\x8c\x0dtorch.storage\x8c\x10_load_from_bytes\x93B" + len(inner).to_bytes(4, "little") + inner
    file = read_file(outer + b"\x85R.")
    nested = [stream for stream in file.streams if stream.role == "nested"]
    assert [naming.what.path for stream in nested for naming in stream.trace.globals] == ["os.system"]
    text = io.BytesIO()
    old = b"\x80\x02ctorch.storage\n_load_from_bytes\nc_codecs\nencode\nX"
    words = inner.decode("latin-1").encode("utf-8")
    text.write(old + len(words).to_bytes(4, "little") + words + b"X\x06\x00\x00\x00latin1\x86R\x85R.")
    nested = [stream for stream in read_file(text.getvalue()).streams if stream.role == "nested"]
    assert [naming.what.path for stream in nested for naming in stream.trace.globals] == ["os.system"]


def test_source_files_are_no_pickles() -> None:
    """False alarms over text: our own sources, which begin with all sorts of words."""
    for path in sorted(Path(__file__).parents[2].rglob("*.py"))[:150]:
        content = path.read_bytes()
        for start in range(0, min(len(content), 4000), 97):
            assert read_file(content[start : start + 400]).format != "pickle", (path, start)


def test_random_bytes_are_no_pickles() -> None:
    choices = random.Random(3)
    found = [read_file(choices.randbytes(200)) for _ in range(3000)]
    assert sum(bool(file.streams) for file in found) <= 1


#: What has torch load bytes that hold a payload, up to the result, which is dropped.
NESTED = b"ctorch.storage\n_load_from_bytes\nC" + bytes([len(HOSTILE) + 2]) + b"\x80\x02" + HOSTILE + b"\x85R0"


@pytest.mark.parametrize(
    "content", [HOSTILE[:-1] + b"0c!!\n!!\n.", b"I1\n." * 12 + HOSTILE], ids=["a name that is none", "data in front"]
)
def test_a_payload_counts_in_a_member_that_begins_like_text(content: bytes) -> None:
    from .zips import Entry, make_zip

    for file in (read_file(content), read_file(make_zip(Entry("a.pkl", pickle.dumps(1)), Entry("b", content)))):
        assert "os.system" in [naming.what.path for stream in file.streams for naming in stream.trace.globals]


@pytest.mark.parametrize("reader", ["pickle", "joblib", "numpy"])
def test_bytes_for_torch_are_judged_whoever_reads_the_stream(reader: str) -> None:
    """A stream that loads bytes is let pass for it only because these are streams of their own."""
    from distcheck.checks.pickles.verdict import judge

    head = {
        "pickle": b"\x80\x02",
        "joblib": b"\x80\x02cjoblib.numpy_pickle\nNumpyArrayWrapper\n0",
        "numpy": b"\x93NUMPY\1\0\x3d\0{'descr': '|O', 'fortran_order': False, 'shape': (1,), }    \n\x80\x02",
    }[reader]
    file = read_file(head + NESTED + b"N.")
    assert file.streams[0].reader == reader
    assert [stream.role for stream in file.streams] == ["object", "nested"]
    assert judge(file).word == "dangerous"


def test_names_of_members_are_printable_where_they_are_said_to_be_unread() -> None:
    from .zips import Entry, make_zip

    content = b"\x80\x02ctorch.storage\n_load_from_bytes\nC\x03abc\x85R."
    (line,) = read_file(make_zip(Entry("\x1b[31m", content))).unopened
    assert line.isprintable()
    assert "[31m" in line


def test_calls_of_registered_codes_count_in_a_member_that_breaks_off() -> None:
    from .zips import Entry, make_zip

    file = read_file(make_zip(Entry("a.pkl", pickle.dumps(1)), Entry("b", b"\x82\x01)R\xff\xff")))
    assert any(call.function is None for stream in file.streams for call in stream.trace.calls)
