"""The symbolic machine on random programs, random bytes and damaged pickles: it never fails, hangs, imports or calls.

An audit hook, which can't be removed and so is switched by a flag, makes sure of that. And where one of Python's own
unpicklers takes a program (with stand-ins for all that is named), the machine takes it as well and saw every name.
"""

from __future__ import annotations

import collections
import io
import pickle
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distcheck.checks.pickles.machine import follow, run
from distcheck.checks.pickles.source_bytes import BytesSource, ScanLimits
from distcheck.checks.pickles.trace import Global, Trace

#: 100,000 streams in all, in so many tests.
CHUNKS = 20
PROGRAMS, BYTES, DAMAGED = 3000, 1000, 1000
LIMITS = ScanLimits(opcodes=100_000, entries=20_000, seconds=5)

_watching = False
_seen: list[str] = []
_FORBIDDEN = (
    "import",
    "exec",
    "compile",
    "os.",
    "subprocess.",
    "socket.",
    "pickle.",
    "ctypes.",
    "shutil.",
    "webbrowser.",
    "pty.",
)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event.startswith(_FORBIDDEN) or event == "open":
        _seen.append(f"{event} {arguments!r}"[:200])
        raise RuntimeError(event)


sys.addaudithook(_hook)


class watched:  # noqa: N801 (reads as a function)
    """What runs in here may not import, call, open or start anything."""

    def __enter__(self) -> None:
        global _watching
        _seen.clear()
        _watching = True

    def __exit__(self, *_: object) -> None:
        global _watching
        _watching = False
        assert not _seen, _seen


def test_the_hook_sees_what_it_should() -> None:
    for forbidden in (
        lambda: __import__("this_module_does_not_exist"),
        lambda: open("/dev/null", "w"),  # noqa: SIM115
        lambda: pickle.loads(b"cthis_module_does_not_exist\nf\n."),
        lambda: eval("1"),
    ):
        with pytest.raises((RuntimeError, AssertionError)), watched():
            forbidden()


# Random programs.

NAMES = [
    (b"os", b"system"),
    (b"m", b"f"),
    (b"m", b"C.D"),
    (b"__builtin__", b"getattr"),
    (b"builtins", b"getattr"),
    (b"functools", b"partial"),
    (b"numpy", b"dtype"),
    (b"collections", b"OrderedDict"),
    (b"builtins", b"set"),
    (b"copy_reg", b"_reconstructor"),
    (b"torch._utils", b"_rebuild_tensor_v2"),
    (b"torch", b"FloatStorage"),
    (b"torch.storage", b"_load_from_bytes"),
    (b"_codecs", b"encode"),
]
TEXTS = [
    b"",
    b"a",
    b"os",
    b"system",
    b"m",
    b"storage",
    b"module",
    b"module.x",
    b"latin1",
    b"O8",
    "é".encode(),
    b"x" * 300,
]


def counted(width: int, content: bytes) -> bytes:
    return len(content).to_bytes(width, "little") + content


def plain(chance: random.Random) -> bytes:
    kind = chance.randrange(24)
    if kind < 9:
        text = chance.choice(TEXTS)
        if kind < 4:
            return b"\x8c" + counted(1, text[:255])
        if kind < 7:
            return b"X" + counted(4, text)
        return b"\x8d" + counted(8, text) if kind == 7 else b"V" + text.decode().encode("raw-unicode-escape") + b"\n"
    return (
        *(b"N", b"\x88", b"\x89", b"K" + bytes([chance.randrange(256)]), b"M\1\2", b"J\1\2\3\4", b"G?\xf0\0\0\0\0\0\0"),
        *(b"I5\n", b"I01\n", b"L5L\n", b"F1.5\n", b"\x8a\1\5", b"\x8b\1\0\0\0\5", b"S'a b'\n", b"U\1a"),
    )[kind - 9]


def bytes_like(chance: random.Random) -> bytes:
    content = chance.choice(TEXTS)
    return chance.choice(
        (
            b"B" + counted(4, content),
            b"C" + counted(1, content[:255]),
            b"\x8e" + counted(8, content),
            b"\x96" + counted(8, content),
            b"T" + counted(4, b"abc"),
        )
    )


def program(chance: random.Random) -> bytes:
    """Opcodes at random, most of which find on the stack what they need."""
    parts = [chance.choice((b"", b"\x80\x02", b"\x80\x04", b"\x80\x05", b"\x80\x00"))]
    above = [0]  # values above each mark, and above the bottom
    stored: list[int] = []
    memoized = 0
    for _ in range(chance.randrange(3, 40)):
        kind = chance.randrange(100)
        part, taken, given = b"", 0, 1
        if kind < 22:
            part = plain(chance)
        elif kind < 25:
            part = bytes_like(chance)
        elif kind < 33:
            part = chance.choice((b"]", b"}", b")", b"\x8f"))
        elif kind < 43:
            module, name = chance.choice(NAMES)
            if chance.random() < 0.6:
                part = b"c" + module + b"\n" + name + b"\n"
            else:
                part = b"\x8c" + counted(1, module) + b"\x8c" + counted(1, name) + b"\x93"
        elif kind < 49:
            part = b"("
        elif kind < 53 and len(above) > 1:
            part = chance.choice((b"t", b"l", b"\x91", b"d", b"1", b"o", b"im\nC\n"))
            if part == b"d" and above[-1] % 2:
                part = b"t"
            if part == b"o" and not above[-1]:
                part = b"l"
            above.pop()
            given = part != b"1"
        elif kind < 57 and len(above) > 1 and above[-2]:
            part = b"u" if above[-1] % 2 == 0 and chance.random() < 0.5 else chance.choice((b"e", b"\x90"))
            above.pop()
            given = 0
        elif kind < 62:
            part, taken = chance.choice(((b"\x85", 1), (b"\x86", 2), (b"\x87", 3)))
        elif kind < 66:
            part, taken = chance.choice(((b"a", 2), (b"s", 3)))
        elif kind < 74:
            part, taken = chance.choice(((b")R", 1), (b"\x85R", 2), (b"R", 2), (b")\x81", 1), (b")}\x92", 1)))
        elif kind < 77:
            part, taken = chance.choice(((b"}b", 1), (b"b", 2)))
        elif kind < 85:
            index = chance.choice((memoized, memoized, chance.randrange(5), chance.randrange(300)))
            part, taken = b"\x94", 1
            if chance.random() < 0.6:
                part = chance.choice((b"r" + struct.pack("<I", index), b"p%d\n" % index, b"q" + bytes([index & 255])))
                index = index & 255 if part[:1] == b"q" else index
            else:
                index = len(set(stored))
            stored.append(index)
            memoized = len(set(stored))
        elif kind < 92 and stored:
            index = chance.choice(stored)
            part = b"j" + struct.pack("<I", index) if index > 255 or chance.random() < 0.2 else b"h" + bytes([index])
            if chance.random() < 0.1:
                part = b"g%d\n" % index
        elif kind < 94:
            part, taken, given = chance.choice(((b"0", 1, 0), (b"2", 1, 2), (b"Q", 1, 1), (b"Pid\n", 0, 1)))
        elif kind < 96:
            part, taken = b"\x93", 2
        elif kind == 96:
            part, given = b"\x80" + bytes([chance.randrange(6)]), 0
        elif kind == 97:
            part, given = chance.choice((b"\x82\x01", b"\x84\1\0\0\0", b"\x97", b"\x98", b"\x95\2\0\0\0\0\0\0\0")), 0
        elif kind == 98:
            part = chance.choice(
                (b"(" + b"K\1" * 200 + b"t", b"](" + b"K\1" * 200 + b"e", b"}(" + b"M\1\2" * 100 + b"u")
            )
        if taken > above[-1] and chance.random() < 0.97:
            continue
        parts.append(part)
        if part == b"(":
            above.append(0)
        else:
            above[-1] = max(0, above[-1] - taken + given)
    if not above[-1]:
        parts.append(b"N")
    return b"".join(parts) + (b"." if chance.random() < 0.97 else b"")


def noise(chance: random.Random) -> bytes:
    """Bytes at random, or bytes that are opcodes."""
    size = chance.randrange(200)
    if chance.random() < 0.3:
        return chance.randbytes(size)
    return bytes(chance.choices(CODES, k=size))


CODES = sorted(
    {ord(code) for code in "(.012FIJKLMNPQRSTUVX]abcdeghijlopqrstu})GBC\n07'"}
    | set(range(0x80, 0x99))
    | {0, 1, 2, 3, 0xFF}
)
VALID = [
    pickle.dumps(one, protocol)
    for protocol in range(6)
    for one in (
        [1, 2.5, "text", b"bytes", None, True, 1 << 100, {"a": (1, 2), "b": [{3}, frozenset({4})]}],
        collections.OrderedDict(a=1, b=collections.Counter("ab")),
        [complex(1, 2), bytearray(b"x" * 50), Global("m", "f"), range(5), ValueError("x"), list(range(300))],
        {f"key {number}": number for number in range(50)},
    )
]


def damaged(chance: random.Random) -> bytes:
    stream = bytearray(chance.choice(VALID))
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(stream)) if stream else 0
        kind = chance.randrange(5)
        if kind == 0 and stream:
            stream[place] = chance.randrange(256)
        elif kind == 1:
            del stream[place : place + chance.randrange(1, 10)]
        elif kind == 2:
            stream[place:place] = chance.choice(VALID)[: chance.randrange(40)]
        elif kind == 3:
            stream[place:place] = bytes([chance.choice(CODES)])
        else:
            del stream[place:]
    return bytes(stream)


def check(stream: bytes) -> Trace:
    """What holds for every trace, whatever the stream."""
    source = BytesSource(stream)
    trace = run(source, 0, LIMITS)
    assert trace.ended in ("stop", "broken", "cut", "budget")
    assert 0 <= trace.end <= len(stream)
    assert (trace.problem is None) == (trace.ended == "stop")
    assert trace.ended != "stop" or stream[trace.end - 1 : trace.end] == b"."
    for call in trace.calls:
        assert len(call.text) <= 200 and call.text.isprintable() and call.count > 0
        assert stream[call.offset : call.offset + 1] in b"Rio\x81\x92b"
        assert call.function is not None or trace.unresolved
    for naming in trace.globals:
        assert 0 <= naming.offset < len(stream) and naming.count > 0
    for unresolved in (*trace.unresolved, *trace.foreign_ids):
        assert unresolved.why.isprintable() and len(unresolved.why) < 500 and 0 <= unresolved.offset <= len(stream)
    return trace


STREAMS: list[tuple[Callable[[random.Random], bytes], int]] = [(program, PROGRAMS), (noise, BYTES), (damaged, DAMAGED)]


def streams(seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    for make, number in STREAMS:
        for _ in range(number):
            yield make(chance)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("seed", range(CHUNKS))
def test_nothing_that_is_followed_fails_hangs_imports_or_calls(seed: int) -> None:
    run(BytesSource(VALID[0]), 0, LIMITS)
    slowest = 0.0
    for stream in streams(seed):
        start = time.process_time()
        try:
            with watched():
                check(stream)
        except Exception as error:
            raise AssertionError(f"{stream!r}: {error!r}") from error
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 3, f"{slowest:.1f} s for one small stream"


def test_it_is_a_hundred_thousand() -> None:
    assert CHUNKS * sum(number for _, number in STREAMS) >= 100_000


def test_programs_are_mostly_sound_and_use_every_opcode() -> None:
    """Else the fuzz above would only try how streams break."""
    chance = random.Random(1)
    traces = [run(BytesSource(program(chance)), 0, LIMITS) for _ in range(2000)]
    assert sum(trace.ended == "stop" for trace in traces) > 1000
    seen = {name for trace in traces for name in trace.opcodes}
    assert len(seen) >= 62, sorted(seen)
    assert sum(bool(trace.calls) for trace in traces) > 700
    assert sum(bool(trace.unresolved) for trace in traces) > 500


# Against the unpicklers that there are.


class Kind(type):
    def __setitem__(cls, key: object, value: object) -> None:
        pass


class Inert(metaclass=Kind):
    """Stands for everything that is named: it can be called, filled and built, and does nothing."""

    def __new__(cls, *_: object, **__: object) -> Inert:
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, *_: object, **__: object) -> Inert:
        return Inert()

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def nothing(*_: object) -> None:  # type: ignore[misc]
        pass

    append = extend = add = __setstate__ = nothing


def stand_in(base: Any) -> Any:
    class Unpickler(base):  # type: ignore[misc]
        def __init__(self, stream: bytes) -> None:
            super().__init__(io.BytesIO(stream))
            self.named: set[tuple[str, str]] = set()

        def find_class(self, module: str, name: str) -> Any:
            if module:  # which no import takes
                self.named.add((module, name))
            return Inert

        def persistent_load(self, identity: Any) -> Any:
            return Inert()

    return Unpickler


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("base", [pickle.Unpickler, pickle._Unpickler], ids=["C", "Python"])  # type: ignore[attr-defined]
def test_what_an_unpickler_takes_the_machine_takes(base: Any, seed: int) -> None:
    chance = random.Random(100 + seed)
    unpickler = stand_in(base)
    taken = names = 0
    for number in range(4000):
        stream = program(chance) if number % 4 else damaged(chance)
        if (
            any(code in stream for code in (b"\x8e", b"\x8d", b"\x96", b"\x8b", b"B", b"T", b"X", b"r"))
            and not number % 4
        ):
            continue  # a damaged length could have the real one take all memory
        real = unpickler(stream)
        try:
            real.load()
        except Exception:  # noqa: BLE001 (whatever it does not like)
            accepted = False
        else:
            accepted = True
            taken += 1
        trace = check(stream)
        if accepted:
            assert trace.ended == "stop" or "FRAME" in (trace.problem.why if trace.problem else ""), stream
        seen = {naming.written or naming.what.path for naming in trace.globals}
        # also where it broke in the end: the machine goes at least as far
        for module, name in real.named:
            known = f"{module}.{name}" in seen or (trace.ended == "cut" and f"{module}." in seen)
            assert known or trace.unresolved, (stream, module, name)
        names += len(real.named)
    assert taken > 400 and names > 1500


def test_follow_ends_on_noise() -> None:
    chance = random.Random(7)
    for _ in range(500):
        stream = b"".join(program(chance) for _ in range(5)) + noise(chance)
        with watched():
            traces = follow(BytesSource(stream), 0, LIMITS)
        assert [trace.start for trace in traces[1:]] == [trace.end for trace in traces[:-1]]
        assert all(trace.ended == "stop" for trace in traces[:-1])
