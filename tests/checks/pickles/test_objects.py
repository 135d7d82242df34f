"""Paths, aliases, hooks that misbehave, depth, size and limits of the walk over live objects."""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import copy
import copyreg
import ctypes
import dataclasses
import enum
import functools
import gc
import logging
import mmap
import os
import pickle
import queue
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import pytest

from distcheck.checks.pickles import objects
from distcheck.checks.pickles import time_limit as watches
from distcheck.checks.pickles.objects import find_unpicklable
from distcheck.checks.pickles.picklability import Offender, PickleReport, UnpicklableError, cut


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def method(self) -> None:
        pass


class Slotted:
    __slots__ = ("__private", "content")

    def __init__(self, content: Any) -> None:
        self.content = content
        self.__private = content


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    number: int
    content: Any


class Pair(NamedTuple):
    first: Any
    second: Any


class Numbers(list):
    pass


class Table(dict):
    pass


class Members(set):
    pass


class Guarded:
    """Has a property of the name of an attribute."""

    def __init__(self, content: Any) -> None:
        self.__dict__["content"] = content

    @property
    def content(self) -> Any:
        raise AssertionError("pickling asks no property")

    @content.setter
    def content(self, value: Any) -> None:
        raise AssertionError("pickling asks no property")


class Copied(dict):  # type: ignore[type-arg]
    """As Counter reduces itself."""

    def __reduce__(self) -> Any:
        return Copied, (dict(self),)


class Mode(enum.Enum):
    """A choice whose value can't be pickled."""

    LOCKED = threading.Lock()


class FailingError(Exception):
    pass


class Reduced:
    """Reduces to something that it does not hold."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __reduce__(self) -> Any:
        return self.make()


class Stateful:
    """Its state is made by a function of its class."""

    def __init__(self, make: Callable[[Any], Any], **attributes: Any) -> None:
        self.__dict__.update(attributes)
        self._make = make

    def __getstate__(self) -> Any:
        return self._make(self)


def lock() -> Any:
    return threading.Lock()


def paths(value: Any, **options: Any) -> list[str]:
    return [offender.place for offender in find_unpicklable(value, name="it", **options).offenders]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (lock(), "it"),
        (Thing(a=Thing(b=lock())), "it.a.b"),
        (Thing(loader=Thing(workers=[1, {"iter": (each for each in ())}])), "it.loader.workers[1]['iter']"),
        ({"state": {"lock": lock()}}, "it['state']['lock']"),
        ([0, (1, [lock()])], "it[1][1][0]"),
        ({1.5: lock()}, "it[1.5]"),
        ({b"x": lock()}, "it[b'x']"),
        ({(1, "a"): lock()}, "it[(1, 'a')]"),
        ({None: lock()}, "it[None]"),
        ({Pair: lock()}, "list(it.values())[0]"),
        ({1: 2, lock(): 3}, "list(it)[1]"),
        ({lock()}, "list(it)[0]"),
        (frozenset([Thing(fn=lambda: 0)]), "list(it)[0].fn"),
        (Thing(seen={(1, lock())}), "list(it.seen)[0][1]"),
        (Thing(hook=Thing(inner=lock()).method), "it.hook.__self__.inner"),
        (Thing(hook=lock().acquire), "it.hook.__self__"),
        (functools.partial(lambda: 0, 1), "it.func"),
        (functools.partial(print, 1, lock()), "it.args[1]"),
        (functools.partial(print, end=lock()), "it.keywords['end']"),
        (collections.defaultdict(lambda: 0, a=1), "it.default_factory"),
        (collections.defaultdict(list, a=lock()), "it['a']"),
        (collections.OrderedDict(a=[lock()]), "it['a'][0]"),
        (collections.deque([1, lock()]), "it[1]"),
        (Numbers([1, lock()]), "it[1]"),
        (Table(a=lock()), "it['a']"),
        (Members([lock()]), "list(it)[0]"),
        (Pair(1, lock()), "it.second"),
        (Thing(pair=Pair([lock()], 1)), "it.pair.first[0]"),
        (FailingError(1, lock()), "it.args[1]"),
        (Frozen(1, lock()), "it.content"),
        (Guarded(lock()), "it.__dict__['content']"),
        (Thing(**{"a b": lock()}), "it.__dict__['a b']"),
        (Thing(**{"class": lock()}), "it.__dict__['class']"),
        (Reduced(lambda: (print, (1, lock()))), "it, in argument 1 of what its __reduce__ returns"),
        (Reduced(lambda: (print, ([lock()],))), "it, in argument 0 of what its __reduce__ returns[0]"),
        (Reduced(lambda: (lambda: 0, ())), "it, in the callable that its __reduce__ returns"),
        (Reduced(lambda: (print, (), {"a": lock()})), "it, in what its __getstate__ returns['a']"),
        (Reduced(lambda: (print, (), None, iter([1, lock()]))), "it, in item 1 of what its __reduce__ returns"),
        (Reduced(lambda: (print, (), None, None, iter([(1, lock())]))), "it, in the value of 1 in what its __reduce__ returns"),
        (Stateful(lambda self: {"lock": self.lock}, lock=lock()), "it.lock"),
        (Stateful(lambda self: {"other": lock()}), "it, in what its __getstate__ returns['other']"),
        (Stateful(lambda self: [self.lock], lock=lock()), "it.lock"),
        (collections.OrderedDict({1: 2, lock(): 3}), "list(it)[1]"),
        (collections.defaultdict(list, {1: 2, Pair: lock()}), "list(it.values())[1]"),
        ({1: 2, float("inf"): lock()}, "list(it.values())[1]"),
        (collections.Counter(a=lock()), "it['a']"),
        (Copied({Pair: lock()}), "it, in argument 0 of what its __reduce__ returns[<type>]"),
        (Reduced(lambda: (print, (), None, None, iter([(lock(), 1)]))), "it, in key 0 of what its __reduce__ returns"),
        (Reduced(lambda: (print, (), None, None, iter([(Pair, lock())]))), "it, in the value of <type> in what its __reduce__ returns"),
        (Reduced(lambda: (print, (), {"a": Thing(x=lock())})), "it, in what its __getstate__ returns['a'].x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_path_can_be_typed_after_the_variable(value: Any, path: str) -> None:
    assert paths(value) == [path]
    eval(path.partition(", in ")[0], {"it": value})


def test_the_value_of_an_enumeration_has_a_path() -> None:
    by_value = Mode.LOCKED.__reduce_ex__(4)[0] is Mode  # a few versions of Python have it by name
    assert paths(Thing(mode=Mode.LOCKED)) == (["it.mode.value"] if by_value else [])


def test_slots_have_paths_private_ones_too() -> None:
    inner = lock()
    assert set(paths(Slotted(inner))) == {"it.content", "it._Slotted__private"}


def test_names_with_control_characters_stay_on_their_line() -> None:
    report = find_unpicklable({"a\x1b[31m\nb": lock()})
    assert report.offenders[0].path == "obj['a\\x1b[31m\\nb']"
    assert "\x1b" not in str(report)


def test_all_places_of_one_thing_are_told_and_each_knows_the_others() -> None:
    inner = lock()
    report = find_unpicklable(Thing(a=inner, b=[inner], c=lock()))
    assert [(offender.path, offender.aliases) for offender in report.offenders] == [
        ("obj.a", ("obj.b[0]",)),
        ("obj.b[0]", ("obj.a",)),
        ("obj.c", ()),
    ]


def test_a_shared_parent_is_told_once_with_its_other_paths() -> None:
    shared = Thing(lock=lock())
    report = find_unpicklable(Thing(model=shared, parts=[shared, {"again": shared}]))
    (offender,) = report.offenders
    assert offender.path == "obj.model.lock"
    assert offender.aliases == ("obj.parts[0].lock", "obj.parts[1]['again'].lock")


class Gives:
    """Reduces to what it was given as an argument."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __reduce__(self) -> object:
        return Gives, self.values


def test_what_a_hook_gave_out_first_is_told_where_it_is_reachable_without_it() -> None:
    @contextlib.contextmanager
    def managed() -> Iterator[None]:
        yield

    manager = managed()
    report = find_unpicklable([Gives(manager), manager])
    assert [offender.path for offender in report.offenders] == ["obj[0]", "obj[1]"]
    # what holds it is part of it, and was seen there first
    circle: list[object] = []
    again = Gives(lock(), circle)
    circle.append(again)
    assert [offender.path for offender in find_unpicklable([again, circle]).offenders] == ["obj[0]", "obj[1][0]"]


def test_ways_through_several_shared_parents_are_told_together() -> None:
    inner = [lock()]
    middle = [inner, inner]
    (offender,) = find_unpicklable([middle, [middle]]).offenders
    assert [offender.path, *offender.aliases] == ["obj[0][0][0]", "obj[0][1][0]", "obj[1][0][0][0]", "obj[1][0][1][0]"]


def test_at_most_ten_aliases_and_none_through_a_circle() -> None:
    shared = Thing(lock=lock())
    root = Thing(shared=shared, many=[shared] * 50)
    shared.root = root
    (offender,) = find_unpicklable(root).offenders
    assert len(offender.aliases) == 10
    assert not [alias for alias in offender.aliases if ".root." in alias]


def test_the_owner_is_the_nearest_instance_of_a_class_of_the_user() -> None:
    (offender,) = find_unpicklable(Thing(cfg={"opt": [lock()]})).offenders
    assert offender.owner == f"{__name__}.Thing"
    assert (offender.attribute, offender.owner_path) == ("cfg", "obj")
    assert "__dict__" in offender.owner_has
    assert "__getstate__" not in offender.owner_has
    (offender,) = find_unpicklable(Stateful(lambda self: {"lock": self.lock}, lock=lock())).offenders
    assert (offender.attribute, "__getstate__" in offender.owner_has) == ("lock", True)
    (offender,) = find_unpicklable([lock()]).offenders
    assert offender.owner is None


def unlisted() -> Any:
    named = logging.Logger("not registered")
    named.addHandler(logging.StreamHandler())
    return named


def local_instance() -> Any:
    class Local:
        pass

    return Local()


def frame() -> Any:
    return sys._getframe()


def trace() -> Any:
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__


async def coroutine() -> None:
    pass


def an_open_file() -> Any:
    return open(__file__, encoding="utf-8")


def waiting() -> Any:
    made = coroutine()
    made.close()
    return made


class Pointer(ctypes.Structure):
    _fields_ = [("pointer", ctypes.POINTER(ctypes.c_int))]


OBJECTS: dict[str, Callable[[], Any]] = {
    "lock": threading.Lock,
    "rlock": threading.RLock,
    "condition": threading.Condition,
    "event": threading.Event,
    "thread": lambda: threading.Thread(target=print),
    "timer": lambda: threading.Timer(1, print),
    "local": threading.local,
    "queue": queue.Queue,
    "simple queue": queue.SimpleQueue,
    "future": Future,
    "executor": lambda: ThreadPoolExecutor(1),
    "handler": logging.StreamHandler,
    "logger": lambda: logging.getLogger("distcheck.tests"),
    "unlisted logger": unlisted,
    "generator": lambda: (each for each in ()),
    "coroutine": waiting,
    "frame": frame,
    "traceback": trace,
    "socket": socket.socket,
    "database": lambda: sqlite3.connect(":memory:"),
    "mmap": lambda: mmap.mmap(-1, 10),
    "context variable": lambda: contextvars.ContextVar("x"),
    "lambda": lambda: lambda: 0,
    "local instance": local_instance,
    "local class": lambda: type(local_instance()),
    "environment": lambda: os.environ,
    "library": lambda: ctypes.CDLL(None) if os.name == "posix" else lock(),
    "weak": lambda: weakref.WeakValueDictionary(),
    "file": an_open_file,
    "module": lambda: os,
    "code": lambda: frame.__code__,
    "property": lambda: Guarded.__dict__["content"],
    "mapping proxy": lambda: types.MappingProxyType({}),
    "keys": lambda: {}.keys(),
    "memory": lambda: memoryview(b""),
    "cell": lambda: types.CellType(1),
    "match": lambda: re.match("", ""),
    "pattern": lambda: re.compile("x"),
    "weakref": lambda: weakref.ref(Thing),
    "pointer": Pointer,
    "number of ctypes": lambda: ctypes.c_int(3),
    "system random": random.SystemRandom,
    "random": random.Random,
    "array": lambda: array.array("i", [1, 2]),
    "buffer": lambda: pickle.PickleBuffer(b"x"),
    "slice": lambda: slice(1),
    "namespace": lambda: types.SimpleNamespace(a=lock()),
    "chain map": lambda: collections.ChainMap({"a": lock()}),
    "exception": lambda: KeyError("x"),
    "static method": lambda: Guarded.__dict__,
    "method of a class": lambda: Thing.method,
    "class method": lambda: dict.fromkeys,
    "generic": lambda: dict[str, int],
    "union": lambda: int | str,
}  # fmt: skip


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Iterator[Any]:
    value = OBJECTS[request.param]()
    yield value
    if type(value).__module__ in ("_io", "socket", "sqlite3", "mmap"):
        value.close()


def succeeds(function: Callable[[Any], Any], value: Any) -> bool:
    try:
        function(value)
    except Exception:  # noqa: BLE001 - whatever it is
        return False
    return True


def spawned(value: Any) -> None:
    from multiprocessing.reduction import ForkingPickler

    from distcheck.checks.pickles.modes import as_if_spawning

    with as_if_spawning("spawn"):
        ForkingPickler.dumps(value)


TRUTHS: dict[str, Callable[[Any], Any]] = {
    "pickle": pickle.dumps,
    "collective": pickle.dumps,
    "deepcopy": copy.deepcopy,
    "spawn": spawned,
    "torch.save": lambda value: pickle.dumps(value, 2),
}


@pytest.mark.parametrize("mode", TRUTHS)
@pytest.mark.parametrize("made", OBJECTS, indirect=True)
def test_each_kind_of_object_is_judged_as_by_the_real_thing(made: Any, mode: str) -> None:
    for value in (made, Thing(member=[made])):
        report = find_unpicklable(value, mode=mode)
        assert report.complete
        assert report.ok == succeeds(TRUTHS[mode], value), str(report)


@pytest.mark.parametrize(
    "make", ["Lock", "Semaphore", "Queue", "Value", "Event", "Pipe"]
)  # fmt: skip
def test_what_spawned_processes_share_may_be_sent_to_them_only(make: str) -> None:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    value = getattr(context, make)(*["i", 1] if make == "Value" else [])
    before = threading.active_count()
    assert find_unpicklable([value], mode="spawn").ok
    assert not find_unpicklable([value], mode="pickle").ok or succeeds(pickle.dumps, [value])
    assert threading.active_count() == before  # no server was started to hand over descriptors
    assert multiprocessing.context.get_spawning_popen() is None


def test_names_beyond_ascii_are_too_much_for_old_protocols() -> None:
    Größe = type("Größe", (), {"__module__": __name__})  # noqa: N806
    globals()["Größe"] = Größe
    try:
        assert find_unpicklable(Größe()).ok
        report = find_unpicklable(Größe(), mode="torch.save")
        assert not report.ok
        assert not succeeds(TRUTHS["torch.save"], Größe())
    finally:
        del globals()["Größe"]


# hooks


def test_each_hook_is_called_once_and_no_other_code_at_all() -> None:
    calls: list[str] = []

    class Spy:
        def __getstate__(self) -> Any:
            calls.append("__getstate__")
            return {"lock": self.__dict__["lock"]}

        def __forbidden(self, *_: Any) -> Any:
            calls.append("forbidden")
            return 0

        __repr__ = __str__ = __eq__ = __len__ = __iter__ = __bool__ = __getitem__ = __contains__ = __forbidden
        __hash__ = None  # type: ignore[assignment]
        anything = property(__forbidden)

        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            raise AttributeError(name)

    Spy.__qualname__ = "Spy"
    globals()["Spy"] = Spy
    try:
        spy = Spy()
        spy.__dict__["lock"] = lock()
        report = find_unpicklable([spy, {"again": spy}])
        real: list[str] = []
        first, calls[:] = calls[:], real
        with pytest.raises(TypeError):
            pickle.dumps(spy)
        assert first == calls
        assert [offender.path for offender in report.offenders] == ["obj[0].lock"]
        assert report.offenders[0].aliases == ("obj[1]['again'].lock",)
    finally:
        del globals()["Spy"]


def raising(error: BaseException) -> Callable[[Any], Any]:
    def make(_: Any) -> Any:
        raise error

    return make


@pytest.mark.parametrize("error", [ValueError("no\x1b"), NotImplementedError(), RecursionError("deep"), MemoryError()])
def test_a_hook_that_raises_is_an_offender_with_what_it_says(error: Exception) -> None:
    report = find_unpicklable(Thing(member=Stateful(raising(error)), other=lock()))
    assert [offender.path for offender in report.offenders] == ["obj.member", "obj.other"]
    assert report.offenders[0].error.startswith(type(error).__name__)
    assert "\x1b" not in str(report)


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_an_exception_without_a_text_is_named() -> None:
    assert "Speechless" in find_unpicklable(Stateful(raising(SpeechlessError()))).offenders[0].error


def test_an_exit_is_contained_and_reported() -> None:
    report = find_unpicklable([Stateful(raising(SystemExit(3)))])
    assert [offender.path for offender in report.offenders] == ["obj[0]"]
    assert [(warning.path, warning.kind) for warning in report.warnings] == [("obj[0]", "side-effect")]
    assert "SystemExit" in report.warnings[0].why


def test_an_interrupt_of_the_user_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        find_unpicklable(Stateful(raising(KeyboardInterrupt())))
    assert gc.isenabled()


def change(self: Any) -> Any:
    self.counter = 1
    del self.kept
    self.items.append(1)
    return {}


def test_a_hook_that_changes_its_object_is_reported() -> None:
    report = find_unpicklable([Stateful(change, kept=1, items=[])])
    assert report.ok
    (warning,) = report.warnings
    assert (warning.path, warning.kind) == ("obj[0]", "side-effect")
    assert all(
        word in warning.why for word in ("removed kept", "added counter", "changed items", "Stateful.__getstate__")
    )


def test_a_hook_that_only_reads_is_not_reported() -> None:
    report = find_unpicklable([Stateful(lambda self: self.__dict__.copy(), items=[1]), Stateful(lambda self: 3)])
    assert not report.warnings


BLOCKING: dict[str, Callable[[Any], Any]] = {
    "sleep": lambda _: time.sleep(60),
    "lock": lambda self: self.held.acquire(),
    "loop": lambda _: next(iter(int, 1)) or [None for _ in iter(int, 1)],
    "stubborn": lambda _: stubborn(),
}


def stubborn() -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            time.sleep(0.01)
        except Exception:  # noqa: BLE001 - as careless code does
            continue


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "TimeLimit", functools.partial(watches.TimeLimit, 0.3))


@pytest.mark.parametrize("how", BLOCKING)
def test_a_hook_that_blocks_is_broken_off_and_reported(how: str, short: None) -> None:
    held = lock()
    held.acquire()
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    start = time.monotonic()
    report = find_unpicklable([Stateful(BLOCKING[how], held=held), lock()])
    assert time.monotonic() - start < 5
    assert [offender.path for offender in report.offenders] == ["obj[0]", "obj[1]"]
    assert [(warning.path, warning.kind) for warning in report.warnings] == [("obj[0]", "side-effect")]
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
    assert not [thread for thread in threading.enumerate() if thread.name == "distcheck-watch"]


@pytest.mark.parametrize("how", ["loop", "stubborn"])
def test_so_it_is_in_another_thread_where_it_is_not_in_a_c_function(how: str, short: None) -> None:
    reports: list[PickleReport] = []
    value = [Stateful(BLOCKING[how]), lock()]
    thread = threading.Thread(target=lambda: reports.append(find_unpicklable(value)))
    thread.start()
    thread.join(10)
    assert [offender.path for offender in reports[0].offenders] == ["obj[0]", "obj[1]"]


def test_a_slow_hook_that_comes_back_in_time_is_fine(short: None) -> None:
    report = find_unpicklable([Stateful(lambda _: time.sleep(0.05)) for _ in range(8)])
    assert report.ok
    assert not report.warnings


def test_a_hook_that_answers_differently_each_time_is_found_out_by_the_real_thing() -> None:
    answers = iter([{"a": 1}, {"a": lock()}, {"a": lock()}])
    report = find_unpicklable(Stateful(lambda _: next(answers)), confirm=True)
    assert not report.offenders
    assert report.confirmation
    assert not report.ok
    assert "disagrees" in str(report)
    answers = iter([{"a": lock()}, {"a": 1}])
    report = find_unpicklable(Stateful(lambda _: next(answers)), confirm=True)
    assert report.confirmation


@pytest.mark.parametrize("mode", TRUTHS)
@pytest.mark.parametrize("value", [[1, Thing(a=2)], [lock()], Stateful(raising(ValueError()))])
def test_the_real_thing_agrees_otherwise(value: Any, mode: str) -> None:
    assert find_unpicklable(value, mode=mode, confirm=True).confirmation == ""
    assert find_unpicklable(value, mode=mode).confirmation is None


def test_what_changes_while_it_is_walked_is_not_called_complete() -> None:
    table: dict[str, Any] = {}

    def grow(_: Any) -> Any:
        for number in range(1000):
            table[f"new{number}"] = lock()
        return {}

    table["first"] = Stateful(grow)
    table["second"] = lock()
    report = find_unpicklable({"table": table, "after": lock()})
    assert not report.complete
    assert not report.ok
    assert any("changed" in why for why in report.unfinished)
    assert "obj['after']" in [offender.path for offender in report.offenders]


@pytest.mark.slow
def test_objects_that_make_new_ones_for_ever_come_to_an_end() -> None:
    report = find_unpicklable([Endless(0)])
    assert not report.ok
    assert not succeeds(pickle.dumps, [Endless(0)])
    assert any(offender.kind == "too-deep" for offender in report.offenders)


class Endless:
    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return Endless, (Endless(self.number + 1), Endless(-1))


def test_an_endless_iterator_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distcheck.checks.pickles.modes.MOST_ITEMS", 1000)
    report = find_unpicklable([Reduced(lambda: (list, (), None, iter(int, 1)))])
    assert not report.complete
    assert not report.offenders


@pytest.mark.parametrize("value", [[1], (2,), {"a": 1}, Thing(a=1), {1, 2}])
def test_the_garbage_collector_is_left_as_it_was(value: Any) -> None:
    for state in (True, False):
        (gc.enable if state else gc.disable)()
        try:
            find_unpicklable(value)
            assert gc.isenabled() is state
        finally:
            gc.enable()


# circles


class MadeOf:
    def __init__(self, part: Any = None) -> None:
        self.part = part

    def __reduce__(self) -> Any:
        return MadeOf, (self.part,)


def circle(kind: str) -> Any:
    first = MadeOf()
    if kind == "itself":
        first.part = first
    elif kind == "list":
        first.part = [first]
    elif kind == "tuple":
        first.part = (first,)
    elif kind == "two":
        first.part = MadeOf(first)
    elif kind == "set":
        first.part = {first}
    elif kind == "frozenset":
        first.part = frozenset([first])
    elif kind == "instance":
        first.part = Thing(back=first)
    elif kind == "tuple and list":
        first.part = ([(first,)],)
    return first


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("kind", ["itself", "list", "tuple", "two", "set", "frozenset", "instance", "tuple and list"])
def test_circles_end_where_pickle_ends_them(kind: str, protocol: int) -> None:
    value = circle(kind)
    report = find_unpicklable([value], protocol=protocol)
    assert report.complete
    assert report.ok == succeeds(lambda each: pickle.dumps(each, protocol), [value])
    mode = find_unpicklable([value], mode="deepcopy")
    assert mode.ok == succeeds(copy.deepcopy, [value])


# depth and size


def nested(wrap: Callable[[Any], Any], levels: int, inner: Any = 0) -> Any:
    value = inner
    for _ in range(levels):
        value = wrap(value)
    return value


WRAPS: dict[str, Callable[[Any], Any]] = {
    "list": lambda inner: [inner],
    "dict": lambda inner: {"k": inner},
    "tuple": lambda inner: (inner,),
    "frozenset": lambda inner: frozenset([inner]),
    "instance": lambda inner: Thing(a=inner),
    "deque": lambda inner: collections.deque([inner]),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("mode", ["pickle", "deepcopy"])
@pytest.mark.parametrize("kind", WRAPS)
def test_depth_is_judged_as_this_interpreter_does(kind: str, mode: str) -> None:
    low, high = 1, 200_000
    while high - low > 1:
        middle = (low + high) // 2
        value = nested(WRAPS[kind], middle)
        try:
            TRUTHS[mode](value)
            low = middle
        except RecursionError:
            high = middle
        if high - low < max(4, low // 50):
            break
    margin = max(4, low // 20)
    assert find_unpicklable(nested(WRAPS[kind], max(1, low - margin)), mode=mode).ok
    if high < 200_000:
        report = find_unpicklable(nested(WRAPS[kind], high + margin), mode=mode)
        assert [offender.kind for offender in report.offenders] == ["too-deep"]


@pytest.mark.slow
def test_what_is_nested_too_deep_is_walked_to_its_end() -> None:
    inner = lock()
    for wrap, step in ((WRAPS["list"], "[0]"), (WRAPS["dict"], "['k']"), (WRAPS["instance"], ".a")):
        report = find_unpicklable(nested(wrap, 100_000, inner))
        assert report.complete
        path = [offender.path for offender in report.offenders if offender.kind != "too-deep"]
        assert path == [f"obj{step * 100_000}"]
        assert len(str(report)) < 5000


@pytest.mark.slow
def test_a_million_small_members() -> None:
    report = find_unpicklable([[number] for number in range(1_000_000)])
    assert report.ok
    assert report.objects == 1_000_001


def test_ten_thousand_offenders_make_one_group() -> None:
    report = find_unpicklable(Thing(callbacks=[Thing(fn=lambda: 0) for _ in range(10_000)]))
    assert len(report.offenders) == 10_000
    (group,) = report.groups()
    assert (group.pattern, group.places) == ("obj.callbacks[*].fn", 10_000)
    assert "10,000 times" in str(report)
    assert len(str(report)) < 2000


def test_shared_data_is_looked_at_once() -> None:
    shared = [Thing(part=[number]) for number in range(1000)]
    report = find_unpicklable([list(shared) for _ in range(200)])
    assert report.ok
    assert report.objects < 5000
    one = {f"name{number}": [[number]] for number in range(100)}
    borg = []
    for _ in range(100):
        borg.append(Thing())
        borg[-1].__dict__ = one
    assert find_unpicklable(borg).objects < 5000


@pytest.mark.parametrize(
    "make", [lambda number: [number], lambda number: Thing(a=number), lambda number: {1: [number]}]
)
def test_a_limit_that_is_reached_is_never_clean(make: Callable[[int], Any]) -> None:
    value = [make(number) for number in range(1000)]
    report = find_unpicklable(value, limit=50)
    assert not report.complete
    assert not report.ok
    assert "50" in report.unfinished[0]
    assert find_unpicklable(value, limit=5000).ok
    with pytest.raises(UnpicklableError):
        report.raise_if_any()


# what comes out


def test_the_text_names_place_reason_and_cure() -> None:
    report = find_unpicklable(Thing(a=lock()), name="trainer")
    text = str(report)
    assert text.startswith("trainer can't be pickled: 1 member stops it\n  trainer.a (_thread.lock)\n    why: ")
    assert "\n    fix: " in text
    with pytest.raises(UnpicklableError, match=r"trainer\.a") as caught:
        report.raise_if_any()
    assert caught.value.report is report
    fine = find_unpicklable(Thing(a=1), name="trainer")
    fine.raise_if_any()
    assert str(fine).startswith("trainer can be pickled")


def test_a_long_path_loses_its_middle_in_the_text_only() -> None:
    path = "obj" + "['key']" * 100
    assert len(cut(path)) <= 120
    assert cut(path).startswith("obj['key']")
    assert cut(path).endswith("['key']")
    report = PickleReport("obj", "pickle", (Offender(path, "t", "why", "fix"),))
    assert path not in str(report)
    assert report.offenders[0].path == path


@pytest.mark.parametrize("wrong", [{"mode": "marshal"}, {"protocol": 9}, {"protocol": 2, "mode": "spawn"}])
def test_a_wrong_question_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"mode|protocol"):
        find_unpicklable(1, **wrong)


def test_parts_that_are_refused_with_their_holder_stand_before_it() -> None:
    holder = local_instance()
    holder.part = lock()
    assert paths([holder]) == ["it[0].part", "it[0]"]


def test_registered_reducers_count() -> None:
    class Special:
        pass

    copyreg.pickle(Special, lambda value: (Thing, ()))
    try:
        assert find_unpicklable(Special()).ok
    finally:
        del copyreg.dispatch_table[Special]
    assert not find_unpicklable(Special()).ok


def test_deepcopy_fails_where_the_copy_can_not_be_made() -> None:
    assert find_unpicklable([TwoArgumentsError(1, 2)]).ok
    report = find_unpicklable([TwoArgumentsError(1, 2)], mode="deepcopy")
    assert [offender.path for offender in report.offenders] == ["obj[0]"]
    holder = CopiesItself(lock())
    report = find_unpicklable([holder], mode="deepcopy")
    assert [offender.path for offender in report.offenders] == ["obj[0].content"]


def test_deepcopy_does_not_try_what_could_do_harm_later() -> None:
    value = [TwoArgumentsError(1, 2), WithEnd()]
    report = find_unpicklable(value, mode="deepcopy")
    assert not report.complete
    report = find_unpicklable(value, mode="deepcopy", confirm=True)
    assert report.confirmation
    assert find_unpicklable([WithEnd()], mode="deepcopy").ok


class TwoArgumentsError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(first)


class CopiesItself:
    def __init__(self, content: Any) -> None:
        self.content = content

    def __deepcopy__(self, memo: Any) -> Any:
        return CopiesItself(copy.deepcopy(self.content, memo))


class WithEnd:
    def __del__(self) -> None:
        pass


@pytest.mark.numpy
def test_arrays_of_numbers_are_leaves_and_arrays_of_objects_are_not() -> None:
    numpy = pytest.importorskip("numpy")
    assert find_unpicklable(numpy.zeros(10)).ok
    found = numpy.array([[1, None], [lock(), "x"]], dtype=object)
    assert paths({"table": found}) == ["it['table'][1, 0]"]
    assert paths({"table": found}, mode="deepcopy") == ["it['table'][1, 0]"]


def test_nothing_is_imported_for_it() -> None:
    program = (
        "import sys; from distcheck.checks.pickles.objects import find_unpicklable as find\n"
        "import threading; assert not find([threading.Lock()]).ok\n"
        "assert not {'torch', 'numpy', 'ctypes', 'inspect', 'multiprocessing.reduction'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


class OtherItems(list):  # type: ignore[type-arg]
    """Holds plain data, and is pickled by what it says that it holds."""

    def __init__(self, items: list[Any], said: list[Any]) -> None:
        super().__init__(items)
        self.said = said

    def __iter__(self) -> Iterator[Any]:
        return iter(type(self).told)

    told: ClassVar[list[Any]] = []


class OtherPairs(dict):  # type: ignore[type-arg]
    told: ClassVar[list[Any]] = []

    def items(self) -> Any:
        return iter(type(self).told)


class OtherReduction(list):  # type: ignore[type-arg]
    told: ClassVar[list[Any]] = []

    def __reduce__(self) -> Any:
        return list, (), None, iter(type(self).told)


@pytest.mark.parametrize("mode", ["pickle", "deepcopy"])
@pytest.mark.parametrize("kind", [OtherItems, OtherPairs, OtherReduction])
def test_what_a_container_says_that_it_holds_counts(kind: type, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = OtherItems([1, 2], []) if kind is OtherItems else kind()
    bad = ("key", threading.Lock()) if kind is OtherPairs else threading.Lock()
    monkeypatch.setattr(kind, "told", [bad])
    with pytest.raises(TypeError):
        pickle.dumps(value) if mode == "pickle" else copy.deepcopy(value)
    assert [item.type for item in find_unpicklable(value, mode=mode).offenders] == ["_thread.lock"]
    monkeypatch.setattr(kind, "told", [("key", 1)])
    assert find_unpicklable(value, mode=mode).ok


class NoItems(list):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("not today")


def test_a_container_that_does_not_give_its_items_is_told_so() -> None:
    (offender,) = find_unpicklable([NoItems([1])]).offenders
    assert offender.path == "obj[0]"
    assert "NoItems pickles itself by __iter__" in offender.why
    assert "not today" in offender.why


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (functools.partial(print, 1, threading.Lock()), "it.args[1]"),
        (functools.partial(print, end=threading.Lock()), "it.keywords['end']"),
        (functools.partial(lambda: 0, 1), "it.func"),
    ],
)
def test_parts_of_a_partial_have_paths_for_processes_too(made: Any, path: str) -> None:
    (offender,) = find_unpicklable(made, mode="spawn", name="it").offenders
    assert (offender.path, offender.inside) == (path, "")
    assert eval(path, {"it": made}) is not None


class Reducing:
    def __init__(self, lock: Any = None) -> None:
        self.lock = lock

    def __reduce__(self) -> Any:
        return Reducing, (self.lock,)


class Arguments:
    def __new__(cls, lock: Any) -> Arguments:
        made = object.__new__(cls)
        made.lock = lock
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.lock,)

    lock: Any


class TroubleError(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class FrozenConfig:
    lock: Any


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Reducing(threading.Lock()), "drop lock from what Reducing.__reduce__ returns"),
        (Arguments(threading.Lock()), "drop lock from what Arguments.__getnewargs__ returns"),
        (TroubleError("x"), "TroubleError.__reduce__ (pickle calls no __getstate__ of an exception)"),
        (FrozenConfig(threading.Lock()), 'object.__setattr__(self, "lock", threading.Lock())'),
        (collections.namedtuple("Pair", "lock")(threading.Lock()), "value._replace(lock=None)"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_the_fix_fits_to_how_the_class_is_pickled(value: Any, words: str) -> None:
    offender = next(item for item in find_unpicklable(value).offenders if item.type == "_thread.lock")
    assert offender.path == "obj.lock"
    assert words in offender.fix
    assert "self.lock =" not in offender.fix


def test_what_can_not_be_pickled_at_all_is_not_said_to_break_later() -> None:
    report = find_unpicklable({"random": random.SystemRandom()})
    assert [item.path for item in report.offenders] == ["obj['random']"]
    assert not report.warnings


def test_members_of_a_namespace_have_names() -> None:
    made = types.SimpleNamespace(lock=threading.Lock(), inner=[types.SimpleNamespace(lock=threading.Lock())])
    assert [item.path for item in find_unpicklable(made).offenders] == ["obj.lock", "obj.inner[0].lock"]


def test_nobody_is_told_to_write_a_method_into_a_class_of_python() -> None:
    (offender,) = find_unpicklable(types.SimpleNamespace(lock=threading.Lock())).offenders
    assert offender.fix == "set lock to None before pickling, and to a new one after: threading.Lock()"
