"""joblib's files: the raw bytes of arrays are stepped over, and nothing else is."""

from __future__ import annotations

import gzip
import lzma

import pytest

from distcheck.checks.pickles.files import read_file

#: ``joblib.dump([numpy.arange(3, dtype="u1"), "x"])`` of joblib 1.6, up to the bytes of the array, and what follows.
FRONT = (
    b"\x80\x04\x95\xd4\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x13joblib.numpy_pickle\x94\x8c\x11NumpyArrayWrapper\x94"
    b"\x93\x94)\x81\x94}\x94(\x8c\x08subclass\x94\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\x94\x8c\x05shape\x94K\x03\x85"
    b"\x94\x8c\x05order\x94\x8c\x01C\x94\x8c\x05dtype\x94h\x07\x8c\x05dtype\x94\x93\x94\x8c\x02u1\x94\x89\x88\x87\x94R"
    b"\x94(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b\x8c\nallow_mmap\x94\x88\x8c\x1b"
    b"numpy_array_alignment_bytes\x94K\x10ub"
)
PADDING = b"\x10" + b"\xff" * 16
BEHIND = b"\x95\x06\x00\x00\x00\x00\x00\x00\x00\x8c\x01x\x94e."
WHOLE = FRONT + PADDING + b"\x00\x01\x02" + BEHIND
#: The same in protocol 2, where nothing is framed.
FRONT_2 = (
    b"\x80\x02]q\x00(cjoblib.numpy_pickle\nNumpyArrayWrapper\nq\x01)\x81q\x02}q\x03(X\x08\x00\x00\x00subclassq\x04cnumpy\n"
    b"ndarray\nq\x05X\x05\x00\x00\x00shapeq\x06K\x03\x85q\x07X\x05\x00\x00\x00orderq\x08X\x01\x00\x00\x00Cq\tX\x05\x00\x00"
    b"\x00dtypeq\ncnumpy\ndtype\nq\x0bX\x02\x00\x00\x00u1q\x0c\x89\x88\x87q\rRq\x0e(K\x03X\x01\x00\x00\x00|q\x0fNNNJ"
    b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x10bX\n\x00\x00\x00allow_mmapq\x11\x88X\x1b\x00\x00\x00"
    b"numpy_array_alignment_bytesq\x12K\x10ub"
)
BEHIND_2 = b"X\x01\x00\x00\x00xq\x13e."
PAYLOAD = b"cos\nsystem\nX\x04\x00\x00\x00true\x85R"


def of_size(front: bytes, size: int) -> bytes:
    """The front with another number of elements."""
    return front.replace(b"K\x03\x85", b"K" + bytes([size]) + b"\x85")


@pytest.mark.parametrize(
    "content",
    [
        WHOLE,
        FRONT_2 + b"\x01\xff\x00\x01\x02" + BEHIND_2,
        FRONT_2 + b"\x00...\x58\x01\x00\x00\x00xq\x13e.",
        of_size(FRONT_2, 0) + b"\x00" + BEHIND_2,
        gzip.compress(WHOLE),
        lzma.compress(WHOLE),
        lzma.compress(WHOLE, lzma.FORMAT_ALONE),
    ],
    ids=["protocol 4", "protocol 2", "opcodes for numbers", "empty", "gzip", "xz", "lzma"],
)
def test_arrays_are_stepped_over(content: bytes) -> None:
    file = read_file(content)
    assert file.format.partition(" in ")[0] == "joblib"
    (stream,) = file.streams
    assert (stream.reader, stream.trace.ended, stream.trace.result) == ("joblib", "stop", "list")
    assert file.anomalies == ()
    assert file.complete


def test_offsets_are_those_of_the_file() -> None:
    content = FRONT_2 + b"\x01\xff\x00\x01\x02" + b"(" + PAYLOAD + b"e."
    (stream,) = read_file(content).streams
    (call,) = [call for call in stream.trace.calls if call.function and call.function.path == "os.system"]
    assert content[call.offset : call.offset + 1] == b"R"
    assert stream.trace.end == len(content)


def test_what_stands_behind_an_array_is_followed() -> None:
    content = FRONT_2 + b"\x01\xff\x00\x01\x02" + PAYLOAD + b"e."
    names = {naming.what.path for stream in read_file(content).streams for naming in stream.trace.globals}
    assert "os.system" in names


def test_numbers_that_pickle_load_would_run_are_said() -> None:
    raw = b"0" + PAYLOAD + b"."
    file = read_file(of_size(FRONT_2, len(raw)) + b"\x00" + raw + BEHIND_2)
    names = {naming.what.path for stream in file.streams for naming in stream.trace.globals}
    # with the byte of padding in front, an unpickler without joblib stops at an opcode that there is not
    assert "os.system" not in names
    without = of_size(FRONT_2, len(raw)).replace(b"X\x1b\x00\x00\x00numpy_array_alignment_bytesq\x12K\x10", b"")
    file = read_file(without + raw + BEHIND_2)
    assert {anomaly.kind for anomaly in file.anomalies} == {"disagree"}
    assert [stream.role for stream in file.streams] == ["object", "hidden"]


def test_arrays_of_objects_are_pickles_of_their_own() -> None:
    front = FRONT_2.replace(b"u1", b"O8").replace(b"K\x00tq\x10b", b"K\x3ftq\x10b")
    file = read_file(front + b"\x80\x02" + PAYLOAD + b"." + BEHIND_2)
    assert [(stream.reader, stream.trace.ended) for stream in file.streams] == [("joblib", "stop"), ("joblib", "stop")]
    assert "os.system" in {naming.what.path for naming in file.streams[0].trace.globals}
    assert file.anomalies == ()


@pytest.mark.parametrize(
    "content",
    [
        FRONT + PADDING,
        WHOLE[:-12],
        of_size(FRONT_2, 200) + b"\x00" + BEHIND_2,
        FRONT_2.replace(b"K\x03\x85q\x07", b"Nq\x07") + b"\x00..." + BEHIND_2,
        FRONT_2.replace(b"cnumpy\ndtype\n", b"cother\ndtype\n") + b"\x00..." + BEHIND_2,
        FRONT_2.replace(b"u1", b"V1").replace(b"NNNJ\xff\xff\xff\xff", b"NNNJ\xff\x00\x00\x00") + b"\x00..." + BEHIND_2,
        FRONT_2.replace(b"NumpyArrayWrapper", b"NDArrayWrapper") + BEHIND_2,
        FRONT_2.replace(b")\x81q\x02", b"\x85cbuiltins\nmap\n\x86Rq\x02") + b"\x00..." + BEHIND_2,
    ],
    ids=["ends before", "cut", "too large", "no shape", "other type", "other size", "old", "made by another"],
)
def test_what_can_not_be_stepped_over_is_not_complete(content: bytes) -> None:
    file = read_file(content)
    assert not file.complete or any(stream.trace.ended != "stop" for stream in file.streams)


def test_an_array_is_read_once() -> None:
    """joblib replaces what it filled: a second BUILD on the stack meets the array, not its description."""
    content = FRONT_2 + b"\x01\xff\x00\x01\x02" + b"}b" + PAYLOAD + b"e."
    names = {naming.what.path for stream in read_file(content).streams for naming in stream.trace.globals}
    assert "os.system" in names
