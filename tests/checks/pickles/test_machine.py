"""The symbolic machine: every opcode, what it writes down, where it stops, and that it agrees with the real unpickler."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import enum
import fractions
import functools
import gc
import io
import os
import pathlib
import pickle
import pickletools
import struct
import subprocess
import sys
import uuid
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distcheck.checks.pickles import opcodes, values
from distcheck.checks.pickles.machine import follow, run
from distcheck.checks.pickles.source_bytes import BytesSource, FileSource, PartSource, ScanLimits
from distcheck.checks.pickles.trace import Global, Nested, Trace


def trace_of(stream: bytes, limits: ScanLimits | None = None) -> Trace:
    return run(BytesSource(stream), 0, limits or ScanLimits())


def named(trace: Trace) -> set[str]:
    return {naming.what.path for naming in trace.globals}


def written(trace: Trace) -> set[str]:
    """Names as they stand in the stream, which is how an unpickler looks them up."""
    return {naming.written or naming.what.path for naming in trace.globals if naming.opcode != "getattr"}


def texts(trace: Trace) -> list[str]:
    return [call.text for call in trace.calls]


def unresolved(trace: Trace) -> str:
    return "; ".join(unresolved.why for unresolved in trace.unresolved)


def length(value: bytes, width: int = 4) -> bytes:
    return len(value).to_bytes(width, "little") + value


# Opcodes.


def test_the_table_of_opcodes_is_that_of_pickletools() -> None:
    assert {ord(one.code): one.name for one in pickletools.opcodes} == opcodes.NAMES
    assert len(opcodes.NAMES) == 68
    for one in pickletools.opcodes:
        if ord(one.code) in opcodes.PLAIN:
            assert opcodes.PLAIN[ord(one.code)] == 1 + (one.arg.n if one.arg is not None else 0), one.name


#: stream, what it gives
STREAMS: list[tuple[bytes, str]] = [
    (b"N.", "constant"),
    (b"\x88.", "constant"),
    (b"\x89.", "constant"),
    (b"I7\n.", "constant"),
    (b"I01\n.", "constant"),
    (b"L7L\n.", "constant"),
    (b"F1.5\n.", "constant"),
    (b"Fnan\n.", "constant"),
    (b"K\x01.", "constant"),
    (b"M\x01\x02.", "constant"),
    (b"J\xff\xff\xff\xff.", "constant"),
    (b"G?\xf0\0\0\0\0\0\0.", "constant"),
    (b"\x8a\x02\xff\x00.", "constant"),
    (b"\x8b\x02\0\0\0\xff\x00.", "constant"),
    (b"S'a'\n.", "constant"),
    (b'S"a\\n"\n.', "constant"),
    (b"T" + length(b"ab") + b".", "constant"),
    (b"U\x02ab.", "constant"),
    (b"V\\u20ac\n.", "constant"),
    (b"X" + length(b"ab") + b".", "constant"),
    (b"\x8c\x02ab.", "constant"),
    (b"\x8d" + length(b"ab", 8) + b".", "constant"),
    (b"B" + length(b"ab") + b".", "constant"),
    (b"C\x02ab.", "constant"),
    (b"\x8e" + length(b"ab", 8) + b".", "constant"),
    (b"\x80\x05\x96" + length(b"ab", 8) + b"\x98.", "constant"),
    (b").", "tuple"),
    (b"(t.", "tuple"),
    (b"(K\x01K\x02t.", "tuple"),
    (b"N\x85.", "tuple"),
    (b"NN\x86.", "tuple"),
    (b"NNN\x87.", "tuple"),
    (b"].", "list"),
    (b"(l.", "list"),
    (b"(NNl.", "list"),
    (b"]Na.", "list"),
    (b"](NNe.", "list"),
    (b"](e.", "list"),
    (b"}.", "dict"),
    (b"(d.", "dict"),
    (b"(NNd.", "dict"),
    (b"}NNs.", "dict"),
    (b"}(NNNNu.", "dict"),
    (b"\x8f.", "set"),
    (b"\x8f(NK\x01\x90.", "set"),
    (b"(N\x91.", "frozenset"),
    (b"N0N.", "constant"),
    (b"N(NN1.", "constant"),
    (b"N(0.", "constant"),
    (b"]2.", "list"),
    (b"]q\x050h\x05.", "list"),
    (b"]r\x05\0\0\x010j\x05\0\0\x01.", "list"),
    (b"]p07\n0g7\n.", "list"),
    (b"]\x940h\0.", "list"),
    (b"}\x94]q\x09\x94h\x02.", "list"),
    (b"(Nq\0N\x94t0h\x01.", "constant"),
    (b"\x80\x04\x95\x03\0\0\0\0\0\0\0KkN.", "constant"),
    (b"]N\x80\x02.", "constant"),
    (b"(N].", "list"),
    (b"cm\nf\n.", "global"),
    (b"\x8c\x01m\x8c\x01f\x93.", "global"),
    (b"\x82\x01.", "unknown"),
    (b"\x83\x01\x00.", "unknown"),
    (b"\x84\x01\0\0\0.", "unknown"),
    (b"Pid\n.", "persistent"),
    (b"K\x01Q.", "persistent"),
]  # fmt: skip
#: stream, what was called to give it, with which opcode, as text
CALLS: list[tuple[bytes, str, str, str]] = [
    (b"cm\nf\n)R.", "m.f", "REDUCE", "m.f()"),
    (b"cm\nf\nK\x01\x85R.", "m.f", "REDUCE", "m.f(1)"),
    (b"cm\nf\n]R.", "m.f", "REDUCE", "m.f(*[])"),
    (b"cm\nC\n(I5\nt\x81.", "m.C", "NEWOBJ", "m.C(5)"),
    (b"cm\nC\n)}X\x01\0\0\0kK\x02s\x92.", "m.C", "NEWOBJ_EX", "m.C(**{'k': 2})"),
    (b"cm\nC\nN\x85}\x92.", "m.C", "NEWOBJ_EX", "m.C(None, **{})"),
    (b"(NI3\nim\nC\n.", "m.C", "INST", "m.C(None, 3)"),
    (b"(im\nC\n.", "m.C", "INST", "m.C()"),
    (b"(cm\nC\nNI3\no.", "m.C", "OBJ", "m.C(None, 3)"),
    (b"(cm\nC\no.", "m.C", "OBJ", "m.C()"),
]


@pytest.mark.parametrize(("stream", "result"), STREAMS, ids=lambda value: repr(value)[:40])
def test_each_opcode(stream: bytes, result: str) -> None:
    trace = trace_of(stream)
    assert (trace.ended, trace.problem, trace.end, trace.result) == ("stop", None, len(stream), result)
    first: dict[str, int] = {}
    for opcode, _, place in pickletools.genops(stream):
        first.setdefault(opcode.name, place or 0)
    assert trace.opcodes == first


@pytest.mark.parametrize(("stream", "function", "opcode", "text"), CALLS, ids=lambda value: repr(value)[:40])
def test_each_opcode_that_calls(stream: bytes, function: str, opcode: str, text: str) -> None:
    trace = trace_of(stream)
    assert (trace.ended, trace.end) == ("stop", len(stream))
    assert isinstance(trace.result, Global) and trace.result.path == function
    (call,) = trace.calls
    assert (call.function, call.opcode, call.text, call.count) == (trace.result, opcode, text, 1)
    assert named(trace) == {function}
    assert not trace.unresolved


def test_every_opcode_was_tried() -> None:
    seen = {name for stream, *_ in (*STREAMS, *CALLS) for name in trace_of(stream).opcodes}
    elsewhere = {"BUILD", "NEXT_BUFFER"}
    assert seen | elsewhere == set(opcodes.CODES)


#: stream, how it ended, what the trouble says, where
BROKEN: list[tuple[bytes, str, str, int]] = [
    (b"", "cut", "without STOP", 0),
    (b"N", "cut", "without STOP", 1),
    (b"NK", "cut", "middle of BININT1", 1),
    (b"NG1234567", "cut", "middle of BINFLOAT", 1),
    (b"Nh", "cut", "middle of BINGET", 1),
    (b"Nj\0\0\0", "cut", "middle of LONG_BINGET", 1),
    (b"Nr\0\0\0", "cut", "middle of LONG_BINPUT", 1),
    (b"X\x05\0\0\0abc", "cut", "middle of BINUNICODE", 0),
    (b"X\x05\0", "cut", "middle of BINUNICODE", 0),
    (b"\x8c\x05abc", "cut", "middle of SHORT_BINUNICODE", 0),
    (b"\x8e" + (1 << 62).to_bytes(8, "little") + b"abc.", "cut", "middle of BINBYTES8", 0),
    (b"N\xff.", "broken", "opcode 0xff at offset 1 does not exist", 1),
    (b".", "broken", "the stack is empty where STOP", 0),
    (b"(.", "broken", "nothing is left above the last mark where STOP", 1),
    (b"0.", "broken", "the stack is empty where POP", 0),
    (b"N1.", "broken", "POP_MARK at offset 1 needs a mark", 1),
    (b"Nt.", "broken", "TUPLE at offset 1 needs a mark", 1),
    (b"2.", "broken", "where DUP", 0),
    (b"\x85.", "broken", "where TUPLE1", 0),
    (b"N\x86.", "broken", "where TUPLE2", 1),
    (b"N(N\x86.", "broken", "nothing is left above the last mark where TUPLE2", 3),
    (b"NN\x87.", "broken", "where TUPLE3", 2),
    (b"\x86.", "broken", "the stack is empty where TUPLE2", 0),
    (b"s.", "broken", "the stack is empty where SETITEM", 0),
    (b"a.", "broken", "the stack is empty where APPEND", 0),
    (b"Na.", "broken", "where APPEND", 1),
    (b"]NNNs(s.", "broken", "where SETITEM", 6),
    (b"}Ns.", "broken", "where SETITEM", 2),
    (b"(Ne.", "broken", "where APPENDS", 2),
    (b"}(Nu.", "broken", "SETITEMS at offset 3 has a key without a value", 3),
    (b"(Nd.", "broken", "DICT at offset 2 has a key without a value", 2),
    (b"NR.", "broken", "where REDUCE", 1),
    (b"Nb.", "broken", "where BUILD", 1),
    (b"Q.", "broken", "where BINPERSID", 0),
    (b"(o.", "broken", "where OBJ", 1),
    (b"No.", "broken", "OBJ at offset 1 needs a mark", 1),
    (b"im\nC\n.", "broken", "INST at offset 0 needs a mark", 0),
    (b"h\x07.", "broken", "memo entry 7 is fetched but was never stored", 0),
    (b"j\x07\0\0\0.", "broken", "memo entry 7 is fetched but was never stored", 0),
    (b"g7\n.", "broken", "memo entry 7 is fetched but was never stored", 0),
    (b"Nq\x05h\x04.", "broken", "memo entry 4", 3),
    (b"q\0.", "broken", "where BINPUT", 0),
    (b"(q\0.", "broken", "nothing is left above the last mark where BINPUT", 1),
    (b"(\x94.", "broken", "where MEMOIZE", 1),
    (b"Np-1\n.", "broken", "no index of the memo", 1),
    (b"Npx\n.", "broken", "no index of the memo", 1),
    (b"\x80\x06N.", "broken", "announces protocol 6", 0),
    (b"T\xff\xff\xff\xffab.", "broken", "has a length of -1 bytes", 0),
    (b"\x8b\xff\xff\xff\xff.", "broken", "has a length of -1 bytes", 0),
    (b"\x8d\0\0\0\0\0\0\0\xff.", "broken", "has a length of", 0),
    (b"Sabc\n.", "broken", "without quotes", 0),
    (b"S'\n.", "broken", "without quotes", 0),
    (b"V\\u20\n.", "broken", "broken escape", 0),
    (b"\x8c\x02\xff\xfe.", "broken", "no UTF-8", 0),
    (b"c\nf\n.", "broken", "empty name", 0),
    (b"cm\n\n.", "broken", "empty name", 0),
    (b"c\xff\nf\n.", "broken", "can't be decoded", 0),
    (b"(i\xc3\xa4\nf\n.", "broken", "can't be decoded", 1),
    (b"NN\x93.", "broken", "takes a constant for a name", 2),
    (b"\x82\0.", "broken", "extension code 0", 0),
    (b"\x84\xff\xff\xff\xff.", "broken", "extension code -1", 0),
    (b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", "broken", "announces", 0),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "ended", "why", "offset"), BROKEN, ids=lambda value: repr(value)[:40])
def test_where_a_stream_breaks(stream: bytes, ended: str, why: str, offset: int) -> None:
    trace = trace_of(stream)
    assert trace.ended == ended
    assert trace.problem is not None and why in trace.problem.why
    assert (trace.problem.offset, trace.end) == (offset, offset)
    with pytest.raises(Exception):  # noqa: B017 (whatever it is)
        Recorder(stream).load()


#: read by one unpickler and not by another: followed to the end, and said to be unsound all the same
UNSOUND = [
    (b"\x80\x04\x95\x09\0\0\0\0\0\0\0cm\nf\n.", "cut", "announces 9 bytes"),
    (b"F1\0\n0cm\nf\n.", "broken", "no number"),
    (b"I1\0x\n0cm\nf\n.", "broken", "no number"),
    (b"Lx\n0cm\nf\n.", "broken", "no number"),
    (b"Iabc\n0cm\nf\n.", "broken", "no number"),
    (b"I7L\n0cm\nf\n.", "broken", "no number"),
    (b"I" + b"7" * 5000 + b"\n0cm\nf\n.", "broken", "no number"),
    (b"L" + b"7" * 500_000 + b"L\n0cm\nf\n.", "broken", "no number"),
    (b"Np7\0\n0cm\nf\n.", "broken", "no number"),
    (b"\x80\x05\x970cm\nf\n.", "broken", "requests a buffer"),
]


@pytest.mark.parametrize(("stream", "ended", "why"), UNSOUND, ids=lambda value: repr(value)[:40])
def test_what_unpicklers_disagree_about_is_followed_and_said(stream: bytes, ended: str, why: str) -> None:
    trace = trace_of(stream)
    assert (trace.ended, trace.end) == (ended, len(stream))
    assert trace.problem is not None and why in trace.problem.why
    assert named(trace) == {"m.f"}


def test_what_stands_before_the_break_is_kept() -> None:
    trace = trace_of(b"cos\nsystem\n(S'id'\ntR\xff.")
    assert trace.ended == "broken"
    assert texts(trace) == ["os.system('id')"]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"cm\nfX", {"m."}),
        (b"cmX", {"m."}),
        (b"cmX\n", {"mX."}),
        (b"(S'id'\nios\nsystemX", {"os.system"}),
    ],
)
def test_a_last_line_without_an_end_is_read_all_the_same(stream: bytes, expected: set[str]) -> None:
    """INST calls what it reads, without the last byte; of GLOBAL, only the import of the module is sure."""
    looked_up = set()

    class InPython(pickle._Unpickler):  # type: ignore[name-defined,misc]
        def find_class(self, module: str, name: str) -> Any:
            looked_up.add(f"{module}.{name}")
            return collections.OrderedDict

    with pytest.raises(Exception):  # noqa: B017 (the bytes end, however that is said)
        InPython(io.BytesIO(stream)).load()
    trace = trace_of(stream)
    assert trace.ended == "cut"
    assert named(trace) == expected
    assert {name.split(".")[0] for name in looked_up} == {name.split(".")[0] for name in expected}


# Frames.


def framed(size: int, content: bytes) -> bytes:
    return b"\x80\x04\x95" + size.to_bytes(8, "little") + content


def test_an_opcode_that_crosses_the_end_of_its_frame_is_a_doubt() -> None:
    for content, ends in (
        (b"cm\nf\n0N.", (1, 3)),
        (b"K\x01.", (1,)),
        (b"\x8c\x05hello.", (1, 4)),
        (b"B\x05\0\0\0hello.", (3, 6)),
        (b"]r\x05\0\0\0.", (3,)),
    ):
        for end in ends:
            trace = trace_of(framed(end, content))
            assert trace.ended == "stop" and "crosses the end of its FRAME" in unresolved(trace), (content, end)
        assert not trace_of(framed(len(content), content)).unresolved
    assert not trace_of(framed(1, b"N0K\x01.")).unresolved, "what follows a frame need not be in one"


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (b"\x8c\x02\xff\xfe.", 3),
        (b"c\xff\xff\nf\n.", 2),
        (b"h\x07.", 1),
        (b"j\x07\0\0\0.", 2),
        (b"g77\n.", 2),
        (b"NpX\n.", 2),
        (b"Sabc\n.", 3),
        (b"\x80\x07.", 1),
    ],
)
def test_where_a_frame_ends_within_what_breaks_is_a_doubt_as_well(content: bytes, end: int) -> None:
    """Another unpickler reads other bytes there, which may break nothing."""
    trace = trace_of(framed(end, content))
    assert trace.ended == "broken" and "FRAME" in unresolved(trace)
    assert not trace_of(framed(len(content), content)).unresolved


def test_frames_in_frames() -> None:
    inner = b"\x95\x03\0\0\0\0\0\0\0K\x01."
    assert not trace_of(framed(len(inner), inner)).unresolved
    assert "FRAME" in unresolved(trace_of(framed(len(inner) - 1, inner)))


def test_frames_of_a_pickler_are_sound() -> None:
    big = [os.urandom(100_000), "x" * 70_000, *(str(number) for number in range(40_000)), b"y" * 300_000]
    for protocol in (4, 5):
        stream = pickle.dumps(big, protocol)
        assert pickle.loads(stream) == big
        trace = trace_of(stream)
        assert (trace.ended, trace.end, trace.unresolved) == ("stop", len(stream), ())


# Names.


def test_names_of_python_2_are_mapped_as_pickle_does() -> None:
    trace = trace_of(b"\x80\x02c__builtin__\nset\n0ccopy_reg\n_reconstructor\n0cexceptions\nValueError\n0cm\nf\n.")
    assert {naming.written: naming.what.path for naming in trace.globals} == {
        "__builtin__.set": "builtins.set",
        "copy_reg._reconstructor": "copyreg._reconstructor",
        "exceptions.ValueError": "builtins.ValueError",
        None: "m.f",
    }
    trace = trace_of(b"\x80\x03c__builtin__\nset\n.")
    assert trace.globals[0].what == ("__builtin__", "set") and trace.globals[0].written is None
    trace = trace_of(b"\x80\x04c__builtin__\nset\n0\x80\x02c__builtin__\nset\n.")
    assert [naming.what.module for naming in trace.globals] == ["__builtin__", "builtins"]
    assert trace_of(b"\x8c\x0b__builtin__\x8c\x03set\x93.").globals[0].what == ("builtins", "set")


def test_names_of_stack_global_come_from_anywhere() -> None:
    for stream in (
        b"\x8c\x02os\x94\x8c\x06system\x9400h\0h\x01\x93.",
        b"X\x02\0\0\0osp5\n0X\x06\0\0\0systemr\0\0\1\0g5\nj\0\0\1\0\x93.",
        b"\x8d\x02\0\0\0\0\0\0\0osU\x06system\x93.",
        b"S'os'\nS'sys\\x74em'\n\x93.",
        b"T\x02\0\0\0osV\\u0073ystem\n\x93.",
        b"(\x8c\x02os2t0\x8c\x02os2\x9400h\0\x8c\x06system\x93.",
    ):
        trace = trace_of(stream)
        assert trace.ended == "stop", stream
        assert named(trace) == {"os.system"}, stream
        assert not trace.unresolved


def test_a_computed_name_is_a_doubt() -> None:
    trace = trace_of(b"\x8c\x02oscbuiltins\nstr\n)R\x93)R.")
    assert "computed" in unresolved(trace)
    assert trace.calls[-1].function is None
    assert "computed" in unresolved(trace_of(b"\x8c\x02os" + b"\x8d" + length(b"s" * 5000, 8) + b"\x93."))


def test_a_global_with_an_endless_name_is_a_doubt() -> None:
    trace = trace_of(b"c" + b"a" * 1_000_000 + b"\nf\n.")
    assert trace.ended == "stop"
    assert "1000000 bytes" in unresolved(trace)
    assert len(trace.globals[0].what.module) < 10_000


def test_every_use_of_a_global_is_counted() -> None:
    trace = trace_of(b"cm\nf\ncm\nf\n\x8c\x01m\x8c\x01f\x93.")
    assert [(naming.opcode, naming.count, naming.offset) for naming in trace.globals] == [
        ("GLOBAL", 2, 0),
        ("STACK_GLOBAL", 1, 16),
    ]


# getattr.


class Outer:
    class Inner:
        class Deep:
            pass


@pytest.mark.parametrize("protocol", range(6))
def test_a_nested_class_is_a_dotted_global(protocol: int) -> None:
    trace = trace_of(pickle.dumps([Outer.Inner(), Outer.Inner.Deep()], protocol))
    inner = [naming for naming in trace.globals if naming.what.name == "Outer.Inner"]
    deep = [naming for naming in trace.globals if naming.what.name == "Outer.Inner.Deep"]
    assert {one.what.module for one in (*inner, *deep)} == {__name__} and inner and deep
    assert {one.opcode for one in inner} == {"STACK_GLOBAL" if protocol >= 4 else "getattr"}
    assert not trace.unresolved
    assert "getattr" not in " ".join(texts(trace))
    assert isinstance(trace.result, str)


class Hooked:
    def __init__(self) -> None:
        self.hooks = [self.hook]

    def hook(self) -> None:
        pass


@pytest.mark.parametrize("protocol", range(6))
def test_a_bound_method_is_a_dotted_global(protocol: int) -> None:
    trace = trace_of(pickle.dumps(Hooked(), protocol))
    assert f"{__name__}.Hooked.hook" in named(trace)
    assert not trace.unresolved and "getattr" not in " ".join(texts(trace))


def test_getattr_of_what_is_no_instance_of_a_class_is_a_doubt() -> None:
    getter = b"cbuiltins\ngetattr\n(cm\n%s\n)RS'%s'\ntR."
    assert not trace_of(getter % (b"Class", b"method")).unresolved
    for name, attribute in ((b"function", b"method"), (b"Class", b"__globals__"), (b"Class.__init__", b"x")):
        assert "can't be known" in unresolved(trace_of(getter % (name, attribute)))


def test_getattr_that_is_no_nested_name_is_a_doubt() -> None:
    for stream in (
        b"cbuiltins\ngetattr\n(cm\nf\ncm\nn\n)RtR.",  # a computed name
        b"cbuiltins\ngetattr\n(c__builtin__\n__import__\n(S'os'\ntRS'system'\ntR(S'id'\ntR.",  # of a result
        b"cbuiltins\ngetattr\n(cm\nf\nS'x'\nNtR.",  # with a default, which could be given instead
        b"cbuiltins\ngetattr\n(cm\nf\nS'x'\ncm\ng\ntR.",
    ):
        trace = trace_of(stream)
        assert trace.ended == "stop"
        assert "builtins.getattr is called with what can't be known" in unresolved(trace), stream
        assert any(call.function == ("builtins", "getattr") for call in trace.calls)


def test_getattr_that_is_handed_on_is_a_doubt() -> None:
    getter = b"c__builtin__\ngetattr\n"
    for stream in (
        getter + b".",
        getter + b"\x85.",
        getter + b"N\x86.",
        getter + b"NN\x87.",
        b"(" + getter + b"t.",
        b"(" + getter + b"l.",
        b"(N" + getter + b"d.",
        b"]" + getter + b"a.",
        b"](" + getter + b"e.",
        b"}N" + getter + b"s.",
        b"}(N" + getter + b"u.",
        b"(" + getter + b"\x91.",
        b"\x8f(" + getter + b"\x90.",
        b"cm\nf\n" + getter + b"R.",
        b"cm\nf\n)R" + getter + b"b.",
        b"(cm\nf\n" + getter + b"o.",
        b"(" + getter + b"im\nf\n.",
        getter + b"Q.",
        getter + b"}b.",
    ):
        trace = trace_of(stream)
        assert trace.ended == "stop"
        assert "getattr" in unresolved(trace), stream


def test_a_folded_name_can_be_called_and_written() -> None:
    getter = b"cbuiltins\ngetattr\n(cm\nOuter\nS'Inner'\ntR"
    assert texts(trace_of(getter + b")R.")) == ["m.Outer.Inner()"]
    trace = trace_of(getter + b"}S'x'\nNsb.")
    assert "BUILD sets attributes of m.Outer.Inner (x)" in unresolved(trace)
    assert trace.writes[-1].target == "global" and trace.writes[-1].names == ("x",)


# Calls.


def test_equal_calls_are_one_entry() -> None:
    trace = trace_of(b"](cm\nf\n(K\x01tRcm\nf\n(K\x02tRcm\nf\n)\x81e.")
    assert [(call.opcode, call.count, call.text) for call in trace.calls] == [
        ("REDUCE", 2, "m.f(1)"),
        ("NEWOBJ", 1, "m.f()"),
    ]


@pytest.mark.parametrize(
    ("callee", "words"),
    [
        (b"cm\nf\n)R", "the result of m.f"),
        (b"\x82\x07", "an unknown object"),
        (b"N", "a constant"),
        (b"]", "a list"),
        (b"K\x01Q", "a persistent object"),
        (b"S'f'\n", "a constant"),
    ],
)
def test_a_call_of_what_is_no_global_is_a_doubt(callee: bytes, words: str) -> None:
    for stream, opcode in (
        (callee + b")R.", "REDUCE"),
        (callee + b")\x81.", "NEWOBJ"),
        (callee + b")}\x92.", "NEWOBJ_EX"),
        (b"(" + callee + b"o.", "OBJ"),
    ):
        trace = trace_of(stream)
        assert f"{opcode} calls {words}" in unresolved(trace)
        assert [call.opcode for call in trace.calls if call.function is None] == [opcode]
        assert trace.result == "unknown"


def call_text(*arguments: Any, protocol: int = 4) -> str:
    body = pickle.dumps(arguments, protocol)[:-1]
    return trace_of(b"cos\nsystem\n" + body + b"R.").calls[0].text


def test_a_call_of_a_partial_is_a_call_of_its_function() -> None:
    for protocol in (2, 3):
        trace = trace_of(pickle.dumps(Keyed(), protocol))
        assert isinstance(trace.result, Global) and trace.result.name == "Keyed" and not trace.unresolved
        assert trace.calls[-1].function == Global(__name__, "Keyed.__new__")
    partial = b"cfunctools\npartial\n"
    assert texts(trace_of(partial + b"cm\nf\n\x85RK\x01\x85R."))[-1] == "functools.partial(m.f)(1)"
    trace = trace_of(partial + b"cm\nf\n\x85R(cm\ng\n)}Ntb)R.")
    assert trace.calls[-1].function == Global("m", "g") and not trace.unresolved, "its state names another function"
    assert trace_of(partial + b"cm\nf\n\x85R(cm\ng\n)R)}Ntb)R.").unresolved
    assert trace_of(partial + partial + b"cm\nf\n\x85R\x85R)R.").unresolved
    assert trace_of(partial + b"cbuiltins\ngetattr\n\x85R)R.").unresolved


def test_arguments_read_as_python() -> None:
    shown = (None, True, 3, -70_000, 1 << 40, 1.5, "a'b", b"\x00x", (1,), [1, [2]], {"k": (2, 3)}, "\u202e")
    for protocol in range(6):
        if protocol < 3:
            assert call_text(*shown[:7], *shown[8:], protocol=protocol) == (
                "os.system(None, True, 3, -70000, 1099511627776, 1.5, \"a'b\", (1,), [1, [2]], {'k': (2, 3)}, '\\u202e')"
            )
        else:
            assert call_text(*shown, protocol=protocol) == (
                "os.system(None, True, 3, -70000, 1099511627776, 1.5, \"a'b\", b'\\x00x', (1,), [1, [2]], {'k': (2, 3)}, '\\u202e')"
            )
    assert call_text(set(), frozenset({1}), {2}) == "os.system(set(), frozenset({1}), {2})"
    assert call_text(bytearray(b"x"), protocol=5) == "os.system(bytearray(b'x'))"


def test_texts_of_calls_are_bounded_and_printable() -> None:
    for argument in (
        "x" * 10_000,
        "\x1b[31m" * 100,
        ["y"] * 5000,
        {str(number): number for number in range(5000)},
        "\n" * 99,
    ):
        text = call_text(argument)
        assert len(text) <= 200 and text.isprintable() and "…" in text
    deep: Any = ()
    for _ in range(100):
        deep = (deep, "x")
    assert len(call_text(deep)) <= 200
    trace = trace_of(b"cos\nsys\x1btem\n)R.")
    assert texts(trace) == ["os.sys\\x1btem()"]
    assert trace.globals[0].what.name == "sys\x1btem", "names stay as they are written"


def test_texts_of_towers_of_calls_are_made_without_recursion() -> None:
    tower = b"cm\nf\n" * 50_000 + b"N" + b"\x85R" * 50_000 + b"."
    trace = trace_of(tower)
    assert trace.ended == "stop"
    (call,) = trace.calls
    assert call.count == 50_000 and len(call.text) <= 200
    tower = b"N" + b"\x85" * 200_000 + b"q\0cos\nsystem\nh\0R."
    assert len(texts(trace_of(tower))[0]) <= 200


def test_a_list_that_holds_itself_can_be_shown() -> None:
    knot: list[Any] = []
    knot.append(knot)
    assert len(call_text(knot)) <= 200


def test_nested_calls_are_shown() -> None:
    trace = trace_of(b"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(S'os'\ntRS'system'\ntR(S'id'\ntR.")
    assert texts(trace)[-1] == "builtins.getattr(builtins.__import__('os'), 'system')('id')"


def test_costly_constructors_are_told_apart() -> None:
    stream = b"]"
    for size in (3, 2_000_000_000):
        stream += b"cbuiltins\nbytearray\nJ" + struct.pack("<i", size) + b"\x85Ra"
        stream += b"cbuiltins\nlist\ncbuiltins\nrange\nJ" + struct.pack("<i", size) + b"\x85R\x85Ra"
        stream += b"cm\nf\nJ" + struct.pack("<i", size) + b"\x85Ra"
    shown = texts(trace_of(stream + b"."))
    assert "builtins.bytearray(3)" in shown and "builtins.bytearray(2000000000)" in shown
    assert "m.f(3)" in shown and "m.f(2000000000)" not in shown
    many = b"".join(b"cbuiltins\nlist\ncm\nf\nJ" + struct.pack("<i", one) + b"\x85R\x85R0" for one in range(100))
    assert "more than 64 different calls of builtins.list" in unresolved(trace_of(many + b"N."))


# What is filled.


@pytest.mark.parametrize(
    ("target", "words", "of"),
    [
        (b"]", "list", None),
        (b"}", "dict", None),
        (b"\x8f", "set", None),
        (b")", "tuple", None),
        (b"N", "constant", None),
        (b"cm\nf\n", "global", "m.f"),
        (b"cm\nf\n)R", "instance", "m.f"),
        (b"ccopy_reg\n_reconstructor\n(cm\nC\nc__builtin__\nobject\nNtR", "instance", "m.C"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(cm\nC\nK\0\x85U\x01btR", "instance", "m.C"),
        (b"N)R", "unknown", None),
        (b"NQ", "persistent", None),
        (b"\x82\x01", "unknown", None),
    ],
)
def test_what_is_filled_is_written_down(target: bytes, words: str, of: str | None) -> None:
    for filling, opcode in (
        (b"Na", "APPEND"),
        (b"(Ne", "APPENDS"),
        (b"NNs", "SETITEM"),
        (b"(NNu", "SETITEMS"),
        (b"(N\x90", "ADDITEMS"),
        (b"}S'x'\nNsb", "BUILD"),
    ):
        trace = trace_of(target + filling * 2 + b".")
        assert trace.ended == "stop"
        (write,) = [one for one in trace.writes if one.opcode == opcode and one.target != "dict"] or [
            one for one in trace.writes if one.opcode == opcode
        ]
        assert (write.target, write.of.path if write.of else None) == (words, of)
        assert write.count == 2 or (words, opcode) == ("dict", "SETITEM")
        assert write.names == (("x",) if opcode == "BUILD" else ())
        if words == "global" or words == "persistent":
            assert opcode in unresolved(trace)
        elif words in ("list", "dict", "set", "instance"):
            assert not trace.unresolved


def test_build_calls_setstate_of_the_class() -> None:
    trace = trace_of(pickle.dumps(argparse.Namespace(a=1, b=[2]), 2))
    call = trace.calls[-1]
    assert (call.function, call.opcode) == (Global("argparse", "Namespace"), "BUILD")
    assert call.text == "argparse.Namespace().__setstate__({'a': 1, 'b': [2]})"
    assert trace.writes[-1].names == ("a", "b")


def test_attributes_of_slots_are_named() -> None:
    trace = trace_of(b"cm\nC\n)\x81(}S'a'\nNs}S'b'\nNstb.")
    assert trace.writes[-1].names == ("a", "b")


# Persistent ids and torch.


def storage_id(key: bytes, location: bytes = b"cpu", kind: bytes = b"FloatStorage", size: int = 4) -> bytes:
    return (
        b"(X\x07\0\0\0storagectorch\n"
        + kind
        + b"\nX"
        + length(key)
        + b"X"
        + length(location)
        + b"K"
        + bytes([size])
        + b"tQ"
    )


def test_storages_are_counted_by_location() -> None:
    stream = b"](" + storage_id(b"0") + storage_id(b"1", b"cuda:3", b"HalfStorage") + storage_id(b"0", size=9) + b"e."
    trace = trace_of(stream)
    assert {one.location: (one.count, one.offset) for one in trace.storages} == {
        "cpu": (2, stream.index(b"Q")),
        "cuda:3": (1, stream.index(b"Q", stream.index(b"Q") + 1)),
    }
    assert trace.storage_keys == {"0", "1"}
    assert trace.storage_bytes == {"0": 36, "1": 8}
    assert not trace.foreign_ids and not trace.unresolved


def test_other_persistent_ids_are_foreign() -> None:
    for stream, words in (
        (b"Pabc\n.", "the text 'abc'"),
        (b"K\x07Q.", "7"),
        (storage_id(b"0", kind=b"Size") + b".", "('storage', torch.Size, '0', 'cpu', 4)"),
        (b"cm\nf\n)RQ.", "m.f()"),
    ):
        trace = trace_of(stream)
        assert [unresolved.why for unresolved in trace.foreign_ids] == [words]
        assert trace.result == "persistent"


def test_classes_with_their_source_are_the_classes() -> None:
    """torch before 1.6 wrote the classes of modules so."""
    trace = trace_of(b"(S'module'\ncm\nC\nS'f.py'\nS'source'\ntQ)\x81.")
    assert [unresolved.why for unresolved in trace.foreign_ids] == ["('module', m.C, 'f.py', 'source')"]
    assert (texts(trace), trace.unresolved) == (["m.C()"], ())


def state_dict(keys: list[str], protocol: int = 2) -> bytes:
    """As ``torch.save`` writes it: an OrderedDict of tensors."""
    stream = b"\x80\x02ccollections\nOrderedDict\n)Rq\0("
    for number, key in enumerate(keys):
        stream += b"X" + length(key.encode()) + b"ctorch._utils\n_rebuild_tensor_v2\n("
        stream += storage_id(str(number).encode()) + b"K\0K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR"
    return stream + b"u."


def test_prefixes_of_keys_that_name_tensors() -> None:
    keys = ["module.a.weight", "module.b", "c", "x.module.d", "layers.0._fsdp_wrapped_module.w", "_orig_mod.module.e"]
    trace = trace_of(state_dict(keys))
    assert trace.ended == "stop"
    assert trace.keys.total == 6
    assert trace.keys.prefixes == {"module.": 2, "_fsdp_wrapped_module.": 1, "_orig_mod.": 1}
    assert trace.keys.examples["module."] == "module.a.weight"
    assert trace.result == Global("collections", "OrderedDict")
    assert trace_of(pickle.dumps({"module.a": 1, "module.b": "x"})).keys.total == 0


def test_thousands_of_tensors_across_windows() -> None:
    keys = [f"module.layer.{number}.weight" for number in range(3000)]
    stream = state_dict(keys)
    for limits in (ScanLimits(), ScanLimits(entries=20_000)):
        trace = trace_of(stream, limits)
        assert trace.ended == "stop"
        assert trace.keys.prefixes == {"module.": 3000} and trace.keys.total == 3000
        assert trace.storages[0].count == 3000 and len(trace.storage_keys) == 3000


def test_files_within_a_stream_are_found() -> None:
    loader = b"ctorch.storage\n_load_from_bytes\n"
    where = Global("torch.storage", "_load_from_bytes")
    stream = loader + b"B\x05\0\0\0hello\x85R."
    (nested,) = trace_of(stream).nested
    assert nested == Nested(where, stream.index(b"hello"), 5)
    stream = b"\x80\x02" + loader + b"c_codecs\nencode\nX\x06\0\0\0h\xc3\xa4lloX\x06\0\0\0latin1\x86R\x85R."
    (nested,) = trace_of(stream).nested
    assert nested == Nested(where, stream.index(b"h\xc3"), 6, "latin-1")
    stream = b"ctorch.storage\n_load_from_bytes\n(c_codecs\nencode\n(Vh\\u0000llo\nVlatin1\ntRtR."
    (nested,) = trace_of(stream).nested
    assert nested == Nested(where, stream.index(b"h\\"), 10, "raw-unicode-escape")
    for computed in (b"cm\nf\n)R\x85R.", b"N\x85R.", b")R.", b"C\x01aC\x01b\x86R.", b"\x85."):
        trace = trace_of(loader + computed)
        assert "_load_from_bytes" in unresolved(trace) and not trace.nested, computed


# numpy.


def dtype_stream(name: bytes, flags: int, fields: bytes = b"N", names: bytes = b"N") -> bytes:
    state = b"(K\x03U\x01|N" + names + fields + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK" + bytes([flags]) + b"t"
    return b"cnumpy\ndtype\n(U" + length(name, 1) + b"\x89\x88tR" + state + b"b"


@pytest.mark.parametrize(
    ("stream", "sound"),
    [
        (dtype_stream(b"f8", 0), True),
        (dtype_stream(b"U5", 8), True),
        (dtype_stream(b"O8", 63), True),
        (dtype_stream(b"O8", 0), False),
        (dtype_stream(b"O", 1), False),
        (dtype_stream(b"f8", 63), False),
        (dtype_stream(b"f8,O", 0), False),
        (dtype_stream(b"V8", 0), True),
        (dtype_stream(b"V8", 63), False),
        (dtype_stream(b"V8", 16, b"}U\x01a" + dtype_stream(b"f8", 0) + b"K\0\x86s"), True),
        (dtype_stream(b"V8", 27, b"}U\x01a" + dtype_stream(b"O8", 63) + b"K\0\x86s"), True),
        (dtype_stream(b"V8", 16, b"}U\x01a" + dtype_stream(b"O8", 63) + b"K\0\x86s"), False),
        (dtype_stream(b"V8", 27, b"}U\x01a" + dtype_stream(b"f8", 0) + b"K\0\x86s"), False),
    ],
)
def test_flags_of_dtypes_must_fit_their_names(stream: bytes, sound: bool) -> None:
    trace = trace_of(stream + b".")
    assert trace.ended == "stop"
    assert ("numpy.dtype" not in unresolved(trace)) == sound


@pytest.mark.numpy
def test_dtypes_that_numpy_writes_are_sound() -> None:
    numpy = pytest.importorskip("numpy")
    record = [("a", "f8"), ("b", "O"), ("c", "U3"), ("d", "M8[ns]"), ("e", [("x", "O")]), ("f", "f4", (2, 2))]
    for spelled in (
        "f8",
        ">i2",
        "?",
        "O",
        "S5",
        "U5",
        "M8[ns]",
        "c16",
        "V8",
        "g",
        ("f4", (2, 2)),
        record,
        record[:1],
        record[2:4],
    ):
        for protocol in range(6):
            array = numpy.zeros(2, dtype=spelled)
            trace = trace_of(pickle.dumps([array, array.dtype], protocol))
            assert (trace.ended, trace.unresolved) == ("stop", ()), (spelled, protocol)


def test_calls_of_type_are_told_apart() -> None:
    trace = trace_of(b"cbuiltins\ntype\nN\x85R0cbuiltins\ntype\n(S'X'\n)}tR.")
    assert texts(trace) == ["builtins.type(None)", "builtins.type('X', (), {})"]


def test_calls_of_dtype_are_told_apart() -> None:
    stream = b"(" + dtype_stream(b"f8", 0) + dtype_stream(b"i4", 0) + dtype_stream(b"f8", 0) + b"t."
    made = {call.text: call.count for call in trace_of(stream).calls if call.opcode == "REDUCE"}
    assert made == {"numpy.dtype('f8', False, True)": 2, "numpy.dtype('i4', False, True)": 1}


def test_towers_of_tuples_as_keys_are_doubts() -> None:
    tower = b"N\x85\x94" + b"2\x86\x94" * 60
    for stream in (
        b"}" + tower + b"Ns.",
        b"}(" + tower + b"Nu.",
        b"\x8f(" + tower + b"\x90.",
        b"(" + tower + b"\x91.",
        b"(" + tower + b"Nd.",
    ):
        trace = trace_of(stream)
        assert trace.ended == "stop" and "tower" in unresolved(trace), stream
    for hasher in (b"builtins\nset", b"builtins\nfrozenset", b"collections\nCounter"):
        assert "tower" in unresolved(trace_of(b"c" + hasher + b"\n]" + tower + b"a\x85R."))
    assert "tower" in unresolved(trace_of(b"ccollections\nOrderedDict\n]]" + tower + b"aNaa\x85R."))
    assert not trace_of(b"}(N\x85N\x86Nu.").unresolved
    assert not trace_of(tower + b".").unresolved


# Pickles after pickles, sources, limits.


def test_pickles_that_follow() -> None:
    parts = [pickle.dumps(1), pickle.dumps({"a": [2]}, 2), b"cos\nsystem\n(S'id'\ntR."]
    traces = follow(BytesSource(b"".join(parts) + b"\0\0\0"), 0, ScanLimits())
    assert [trace.start for trace in traces] == [0, len(parts[0]), len(parts[0] + parts[1])]
    assert [trace.ended for trace in traces] == ["stop"] * 3
    assert texts(traces[2]) == ["os.system('id')"] and not traces[1].calls
    traces = follow(BytesSource(parts[0] + b"cos\nsystem\n("), 0, ScanLimits())
    assert [trace.ended for trace in traces] == ["stop", "cut"]
    assert named(traces[1]) == {"os.system"}
    assert len(follow(BytesSource(b"N"), 0, ScanLimits())) == 1


def test_very_many_pickles_share_a_trace() -> None:
    stream = b"N." * 5000 + b"cos\nsystem\n(S'id'\ntR." + b"N." * 5000
    traces = follow(BytesSource(stream), 0, ScanLimits())
    assert len(traces) < 100
    assert traces[-1].end == len(stream) and traces[-1].ended == "stop"
    assert texts(traces[-1]) == ["os.system('id')"]
    assert sum(trace.steps for trace in traces) >= 20_000


def test_a_pickle_in_the_middle_of_a_source(tmp_path: Any) -> None:
    stream = pickle.dumps(["x" * 1000, Outer.Inner()], 4)
    alone = trace_of(stream)
    path = tmp_path / "file"
    path.write_bytes(b"?" * 77 + stream + b"?" * 5)
    with path.open("rb") as file:
        source = FileSource(file.fileno())
        trace = run(source, 77, ScanLimits())
        assert (trace.start, trace.end) == (77, 77 + len(stream))
        assert [naming.offset - 77 for naming in trace.globals] == [naming.offset for naming in alone.globals]
        assert run(PartSource(source, 77, len(stream)), 0, ScanLimits()) == alone


class Liar:
    """A source that promises more than it has."""

    size = 100_000

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, offset: int, size: int) -> bytes:
        return self._content[offset : offset + size]


@pytest.mark.parametrize(
    "stream", [b"\x80\x02}", b"", b"X\0\0\1\0a", b"\x8c\x09a", b"ca\n", b"cabc", b"I12", b"\x95", b"B\0\1\0\0aa"]
)
def test_a_source_that_ends_before_its_time(stream: bytes) -> None:
    trace = run(Liar(stream), 0, ScanLimits())
    assert trace.ended == "cut" and trace.problem is not None


@pytest.mark.parametrize(
    ("limits", "stream", "why"),
    [
        (ScanLimits(opcodes=50), b"N" * 100 + b".", "more than 50 opcodes"),
        (ScanLimits(entries=100), b"N" * 5000 + b".", "more than 100 entries"),
        (ScanLimits(entries=100), b"N" + b"\x94" * 5000 + b".", "more than 100 entries"),
        (ScanLimits(entries=100), b"(" * 5000 + b".", "more than 100 entries"),
        (
            ScanLimits(entries=100),
            b"N" + b"".join(b"r" + struct.pack("<I", n * 5000) for n in range(1000)) + b".",
            "entries",
        ),
        (ScanLimits(seconds=-1.0), b"N" * 100 + b".", "seconds"),
        (
            ScanLimits(),
            b"".join(b"c" + b"m" * 3000 + b"\nf%d\n0" % number for number in range(3000)) + b"N.",
            "characters",
        ),
        (ScanLimits(), b"".join(b"cm\nf%d\n0" % number for number in range(10_100)) + b"N.", "10000 different globals"),
    ],
)
def test_a_spent_budget_is_said(limits: ScanLimits, stream: bytes, why: str) -> None:
    trace = trace_of(stream, limits)
    assert trace.ended == "budget"
    assert trace.problem is not None and why in trace.problem.why


def test_the_budget_is_shared_by_all_pickles_of_a_source() -> None:
    traces = follow(BytesSource(b"(NNNNt." * 100), 0, ScanLimits(opcodes=200))
    assert traces[-1].ended == "budget" and 10 < len(traces) < 50


def test_large_strings_are_not_read() -> None:
    class Counting(BytesSource):
        bytes_read = 0

        def read(self, offset: int, size: int) -> bytes:
            content = super().read(offset, size)
            Counting.bytes_read += len(content)
            return content

    stream = b"](" + b"B" + length(bytes(20_000_000)) + b"X" + length(b" " * 20_000_000) + b"e."
    trace = run(Counting(stream), 0, ScanLimits())
    assert (trace.ended, trace.end) == ("stop", len(stream))
    assert Counting.bytes_read < 1_500_000


# Agreement with the unpickler that there is.


class Recorder(pickle.Unpickler):
    """The real unpickler, on pickles that the test made itself; it notes what is looked up and gives stand-ins."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(io.BytesIO(stream))
        self.named: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.named.add(f"{module}.{name}")
        return collections.OrderedDict

    def persistent_load(self, identity: Any) -> Any:
        return None


class Truthful(Recorder):
    """The same, with the real things: for benign data only."""

    def find_class(self, module: str, name: str) -> Any:
        self.named.add(f"{module}.{name}")
        return pickle.Unpickler.find_class(self, module, name)


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: Any
    y: Any


class Slotted:
    __slots__ = ("a", "b")

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        return None, {"a": self.a, "b": self.b}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted)

    def __hash__(self) -> int:
        return 1


class Keyed:
    """Asks for NEWOBJ_EX."""

    def __new__(cls, *, key: Any = None) -> Keyed:
        return super().__new__(cls)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), {"key": 1}


class Listed(list):  # type: ignore[type-arg]
    pass


def slotted() -> Slotted:
    made = Slotted()
    made.a, made.b = 1, [2]
    return made


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.sampled_from(
        [
            Colour.RED,
            Outer.Inner,
            Outer.Inner.Deep(),
            int,
            len,
            os.path.join,
            datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc),
            decimal.Decimal("1.5"),
            fractions.Fraction(1, 3),
            uuid.UUID(int=5),
            pathlib.PurePosixPath("a/b"),
            range(3),
            slice(1, 2),
            complex(1, 2),
            functools.partial(int, base=2),
            Keyed(),
            slotted(),
            ValueError("x"),
            "os.system",
            "cos\nsystem\n",
            collections.deque([1, 2], 3),
            collections.defaultdict(list, {1: [2]}),
            collections.Counter("aab"),
            bytearray(b"abc"),
            "\ud800",
        ]
    ),
)
OBJECTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.lists(inner, max_size=8).map(tuple),
        st.lists(inner, max_size=8).map(Listed),
        st.dictionaries(st.one_of(st.text(max_size=8), st.integers()), inner, max_size=8),
        st.dictionaries(st.text(max_size=8), inner, max_size=8).map(collections.OrderedDict),
        st.dictionaries(st.sampled_from("abcdef"), inner, max_size=4).map(lambda given: argparse.Namespace(**given)),
        st.sets(st.one_of(st.integers(), st.text(max_size=8)), max_size=8),
        st.frozensets(st.integers(), max_size=8),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
        inner.map(lambda one: [one, one, (one, one)]),
    ),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(OBJECTS, st.integers(0, 5))
def test_the_machine_agrees_with_the_unpickler(made: Any, protocol: int) -> None:
    stream = pickle.dumps(made, protocol)
    recorder = Truthful(stream + b"more")
    recorder.load()
    trace = trace_of(stream + b"more")
    assert (trace.ended, trace.end, trace.problem) == ("stop", len(stream), None)
    assert written(trace) == recorder.named
    assert not trace.unresolved
    assert trace.protocol == (protocol if protocol >= 2 else 0)
    assert {opcode.name for opcode, *_ in pickletools.genops(stream)} == set(trace.opcodes)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(OBJECTS, st.integers(0, 5))
def test_windows_make_no_difference(made: Any, protocol: int) -> None:
    stream = pickle.dumps([made, ["x" * 700, list(range(300)), made, [1.5] * 200], "y" * 2000, made], protocol)
    whole = trace_of(stream)
    for entries in (4000, 5000):  # windows of as many bytes
        assert trace_of(stream, ScanLimits(entries=entries))._replace(steps=0) == whole._replace(steps=0)


@pytest.mark.parametrize("protocol", range(6))
def test_long_containers_are_followed_in_batches(protocol: int) -> None:
    """Runs of plain constants are skipped as a whole; that must not be seen."""
    numbers = [*range(300), 70_000, -1, 1.5, None, True] * 100
    made = [
        numbers,
        dict(enumerate(numbers)),
        Outer,
        tuple(numbers),
        set(range(5000)),
        [*numbers[:7], "x", *numbers],
        Point(1, 2),
    ] * 2
    stream = pickle.dumps(made, protocol)
    trace = trace_of(stream)
    assert (trace.ended, trace.end, trace.unresolved) == ("stop", len(stream), ())
    recorder = Truthful(stream)
    recorder.load()
    assert written(trace) == recorder.named
    appends = sum(opcode.name == "APPENDS" for opcode, *_ in pickletools.genops(stream))
    assert sum(write.count for write in trace.writes if write.opcode == "APPENDS") == appends
    # a single opcode that a batch may not hide
    hidden = stream[:-1] + b"(" + b"K\x01" * 400 + b"cos\nsystem\n" + b"K\x01" * 400 + b"e."
    assert "os.system" in named(trace_of(hidden))


@pytest.mark.parametrize("protocol", range(6))
def test_memos_are_those_of_the_unpickler(protocol: int) -> None:
    texts_ = [f"text {number}" for number in range(1000)]
    made = [texts_, texts_, [texts_[::-1], Outer.Inner, Point(*texts_[:2])], texts_[500:] * 3]
    trace = trace_of(pickle.dumps(made, protocol))
    assert trace.ended == "stop" and not trace.unresolved


def test_sparse_and_overwritten_memos() -> None:
    for indexes in (
        (5, 3, 9, 0),
        (0, 2000, 1),
        (70_000, 3, 70_001),
        (1, 1, 1),
        (3, 2, 1, 0),
        (4_000_000_000 % 2**31, 0),
    ):
        stream = b"".join(
            b"X\x03\0\0\0%3dr" % place + struct.pack("<I", index) + b"0" for place, index in enumerate(indexes)
        )
        last = {index: place for place, index in enumerate(indexes)}
        for index, place in last.items():
            name = b"%3d" % place
            trace = trace_of(stream + b"X\x01\0\0\0mj" + struct.pack("<I", index) + b"\x93.")
            assert [naming.what.name for naming in trace.globals] == [name.decode()], indexes
        # MEMOIZE stores where as many entries are as were stored
        after = trace_of(stream + b"X\x01\0\0\0mX\x01\0\0\0z\x940j" + struct.pack("<I", len(last)) + b"\x93.")
        assert [naming.what.name for naming in after.globals] == ["z"], indexes


def test_entries_of_the_memo_far_out_are_doubts() -> None:
    for put in (b"r\xff\xff\xff\xff", b"r\0\0\0\2", b"p99999999\n"):
        assert "far out" in unresolved(trace_of(b"N" + put + b"."))
    for put in (b"r\xff\xff\0\0", b"p1000\n"):
        assert not trace_of(b"N" + put + b".").unresolved


# Memory and time: fresh processes, because the peak of this one is known already.


HOSTILE = {
    "memoize": "b'N' + b'\\x94' * 5_000_000",
    "marks": "b'(' * 4_000_000",
    "stack of texts": "b'\\x8c\\x01a' * 3_200_000",
    "memo of texts": "b'\\x8c\\x03abc\\x94' * 1_600_000",
    "memo of tuples": "b'\\x8c\\x03abcN\\x86\\x94' * 800_000",
    "sparse memo": "b'N' + b''.join(b'r' + (n * 4099).to_bytes(4, 'little') for n in range(1_000_000))",
    "memo with gaps": "b'N' + b''.join(b'r' + (n * 1000).to_bytes(4, 'little') for n in range(1_000_000))",
    "globals": "b''.join(b'cm%d\\nf%d\\n0' % (n, n) for n in range(50_000))",
    "long globals": "(b'c' + b'x' * 4000 + b'%d\\nf\\n0') * 5_000",
    "names of attributes": "b''.join(b'(cm\\nf%d\\no}(' % n + b''.join(b'V%s%d\\nN' % (b'a' * 100, m) for m in range(25)) + b'ub0' for n in range(9_000))",
    "calls": "b'cm\\nf\\n\\x94' + b'(h\\0)R2\\x85t\\x94' * 300_000",
    "unknown calls": "b'N' + b')R' * 1_000_000",
    "storages": "b''.join(b'(X\\x07\\0\\0\\0storagectorch\\nFloatStorage\\nX\\x08\\0\\0\\0%08dX\\x08\\0\\0\\0%08dK\\1tQ0' % (n, n) for n in range(120_000))",
    "persistent": "b''.join(b'P%d\\n0' % n for n in range(400_000))",
    "a line without end": "b'c' + b'x' * 30_000_000",
    "lists in lists": "b']' * 2_500_000 + b'a' * 2_499_999",
    "keys": "b'}(' + b''.join(b'X\\x08\\0\\0\\0%08dN' % n for n in range(1_000_000)) + b'u.'",
    "pickles": "b'N.' * 200_000",
}


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.slow
@pytest.mark.sampled(every=3)
def test_memory_is_bounded(name: str, tmp_path: Any) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(eval(HOSTILE[name]))  # a table of this file
    program = (
        "import os, sys\n"
        "from distcheck.checks.pickles.machine import follow\n"
        "from distcheck.checks.pickles.source_bytes import FileSource, ScanLimits\n"
        "file = os.open(sys.argv[1], os.O_RDONLY)\n"
        "traces = follow(FileSource(file), 0, ScanLimits(seconds=60))\n"
        "print(traces[-1].ended, [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    ended, peak = done.stdout.split()
    assert ended in ("budget", "cut", "stop", "broken")
    assert int(peak) < 64 << 10, f"{int(peak) / 1024:.0f} MiB"


def test_nothing_is_left_behind() -> None:
    """The memory of one stream is free before the next one is followed, without waiting for a collection."""
    gc.collect()
    gc.disable()
    try:
        trace_of(STREAMS[0][0])
        follow(BytesSource(pickle.dumps(Outer.Inner()) * 3), 0, ScanLimits())
        ours = [one for one in gc.get_objects() if str(type(one).__module__).startswith("distcheck.")]
        assert not [one for one in ours if type(one).__name__ in ("_Machine", "Values")]
    finally:
        gc.enable()


def test_detail_that_was_given_up_fails_closed() -> None:
    """What is fetched long after it was made may have lost its content; then nothing about it is taken for granted."""
    far = b"\x8c\x01m\x8c\x05Outer\x93\x8c\x05Inner\x86q\x01" + b"0NN\x86" * (2 * values.REMEMBERED)
    trace = trace_of(far + b"cbuiltins\ngetattr\nh\x01R)R.")
    assert trace.ended == "stop"
    assert "builtins.getattr is called with what can't be known" in unresolved(trace)
    deep = b"\x8c\x01m" + b"N" * 600_000 + b"0" * 600_000 + b"\x8c\x01f\x93."
    assert "computed or too long" in unresolved(trace_of(deep))
