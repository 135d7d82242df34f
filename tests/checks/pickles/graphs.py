"""Object graphs for property tests: containers, instances of every make, reducers that work, lie and raise; any cycles."""

from __future__ import annotations

import abc
import array
import ast
import collections
import contextlib
import copyreg
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import io
import logging
import operator
import os
import pathlib
import pickle
import random
import re
import string
import sys
import threading
import time
import types
import typing
import unittest.mock
import uuid
import weakref
from typing import Any, NamedTuple

from hypothesis import strategies as st


class Plain:
    pass


class Outer:
    class Inner:
        pass


class Attributes:
    """Answers any name that is not there, as torch's modules do; or refuses."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Grumbler:
    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


class Slots:
    __slots__ = ("left", "right")


class SlotsAndMore(Slots):
    __slots__ = ("__hidden", "more")

    def hide(self, value: Any) -> None:
        self.__hidden = value


class SlotsAndDict(Slots):
    pass


@dataclasses.dataclass
class Data:
    left: Any = None
    right: Any = None


@dataclasses.dataclass(slots=True, eq=False)
class SlotData:
    left: Any = None
    right: Any = None


@dataclasses.dataclass(slots=True, frozen=True, eq=False)
class FrozenData:
    left: Any = None
    right: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


class MyTuple(tuple):
    pass


class MyList(list):
    pass


class MyDict(dict):
    pass


class MySet(set):
    __hash__ = object.__hash__


class MyInt(int):
    pass


class MyString(str):
    pass


class FailureError(Exception):
    pass


class Colour(enum.Enum):
    RED = 1


class Meta(type):
    pass


class WithMeta(metaclass=Meta):
    pass


class ReducesTo:
    """What ``__reduce__`` gives is what it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __reduce__(self) -> Any:
        return self.answer


class ReducesAnew:
    """The same, made for each call: an iterator can be used up once only."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __reduce__(self) -> Any:
        return self.make()


class Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __getstate__(self) -> Any:
        raise self.error


class GivesState:
    def __init__(self, state: Any) -> None:
        self.state = state

    def __getstate__(self) -> Any:
        return self.state

    def __setstate__(self, state: Any) -> None:
        self.state = state


class NewArguments:
    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments

    def __new__(cls, *_: Any) -> NewArguments:
        return super().__new__(cls)

    def __getnewargs__(self) -> Any:
        return self.arguments


class NamedNewArguments:
    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __new__(cls, *_: Any, **__: Any) -> NamedNewArguments:
        return super().__new__(cls)

    def __getnewargs_ex__(self) -> Any:
        return (), {"value": self.value}


class Registered:
    def __init__(self, value: Any = None) -> None:
        self.value = value


def _reduce_registered(value: Registered) -> Any:
    return Registered, (value.value,)


copyreg.pickle(Registered, _reduce_registered)


class RegisteredMeta(type):
    pass


class OfRegisteredMeta(metaclass=RegisteredMeta):
    pass


class OfRefusingMeta(metaclass=type("RefusingMeta", (type,), {})):
    pass


def _reduce_class(kind: Any) -> Any:
    return (getattr, (Outer, "Inner")) if kind is OfRegisteredMeta else "nothing"


copyreg.pickle(RegisteredMeta, _reduce_class)  # type: ignore[arg-type]


class OddDict(dict):
    """What takes the place of an instance's ``__dict__``."""


class HiddenDict:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return {"lock": threading.Lock()}


class SlotDict:
    __slots__ = ("__dict__", "__weakref__", "own")


class NoReduceEx:
    __reduce_ex__ = None  # type: ignore[assignment]


class NoReduce:
    __reduce__ = None  # type: ignore[assignment]


class NoState:
    __getstate__ = None  # type: ignore[assignment]


class NoneModule:
    __module__ = None  # type: ignore[assignment]


class WrongModule:
    __module__ = "no.such.module"


class WrongName:
    pass


WrongName.__qualname__ = "Outer.Nowhere"


class Dotted:
    pass


Dotted.__qualname__ = "Outer.Dotted"
Outer.Dotted = Dotted  # type: ignore[attr-defined]


class AllAttributes:
    def __getattribute__(self, name: str) -> Any:
        if name == "__reduce_ex__":
            raise AttributeError(name)
        return object.__getattribute__(self, name)


class NoAttributes:
    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


class Floating(float):
    pass


class Raw(bytes):
    pass


class Abstract(abc.ABC):
    @abc.abstractmethod
    def method(self) -> None: ...


class Flags(enum.Flag):
    A = 1
    B = 2


class LocalMeta(abc.ABCMeta):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__reduce_ex__":
            raise AttributeError(name)
        return super().__getattribute__(name)


class OfLocalMeta(metaclass=LocalMeta):
    pass


@functools.lru_cache
def cached() -> None:
    pass


@functools.singledispatch
def dispatched(value: Any) -> None:
    pass


@contextlib.contextmanager
def managed() -> Any:
    yield


def odd(make: Any, **attributes: Any) -> Any:
    value = make()
    value.__dict__ = OddDict(attributes)
    return value


def moved_function() -> Any:
    def inner() -> None:
        pass

    inner.__module__, inner.__qualname__ = "no.such.module", "inner"
    return inner


class Liar:
    @property
    def __class__(self) -> Any:
        return dict


class OwnReducer:
    """The instance itself says how it is pickled."""

    def __init__(self, value: Any) -> None:
        self.__reduce_ex__ = lambda protocol: (OwnReducer, (value,))


class HasMethod:
    def method(self) -> None:
        pass


def function() -> None:
    pass


def give(*values: Any) -> Any:
    return object.__new__(Plain)


def set_state(value: Any, state: Any) -> None:
    value.__dict__["given"] = state


moved = function  # its name leads to another place, which is well
replaced = Plain
named_lambda = lambda: None  # noqa: E731
lost = type("Lost", (), {})


def local_class() -> type:
    class Local:
        pass

    return Local


LOCAL = local_class()
LOCAL_TUPLE = collections.namedtuple("LOCAL_TUPLES", "left right")  # its name leads nowhere
GLOBAL_STRING = "not a global"

#: Leaves, each made anew: some can be pickled, some can't.
LEAVES = (
    lambda: 1,
    lambda: "text",
    lambda: b"\xff" * 3,
    lambda: 1.5,
    lambda: 2j,
    lambda: None,
    lambda: ...,
    lambda: NotImplemented,
    lambda: range(3),
    lambda: slice(1, 2),
    lambda: bytearray(b"x"),
    lambda: "\ud800",
    lambda: MyInt(3),
    lambda: MyString("x"),
    lambda: Colour.RED,
    lambda: Colour,
    lambda: WithMeta,
    lambda: Outer.Inner,
    lambda: Outer.Inner(),
    lambda: function,
    lambda: moved,
    lambda: len,
    lambda: [].append,
    lambda: dict.fromkeys,
    lambda: str.upper,
    lambda: list[int],
    lambda: type(None),
    lambda: type(...),
    lambda: Grumbler(),
    lambda: threading.Lock(),
    lambda: named_lambda,
    lambda: lost,
    lambda: LOCAL,
    lambda: LOCAL(),
    lambda: LOCAL_TUPLE(1, 2),
    lambda: (each for each in ()),
    lambda: iter([1]),
    lambda: {}.keys(),
    lambda: memoryview(b"x"),
    lambda: collections,
    lambda: property(function),
    lambda: object(),
    lambda: Liar(),
    lambda: Raises(ValueError("no")),
    lambda: Raises(SystemExit(3)),
    lambda: ReducesTo("function"),
    lambda: ReducesTo("nowhere.at_all"),
    lambda: ReducesTo("GLOBAL_STRING"),
    lambda: ReducesTo(None),
    lambda: ReducesTo(()),
    lambda: ReducesTo((give,)),
    lambda: ReducesTo((1, ())),
    lambda: ReducesTo((give, [])),
    lambda: ReducesTo((give, (), None, [1])),
    lambda: ReducesTo((give, (), None, None, {})),
    lambda: ReducesAnew(lambda: (give, (), None, None, iter([1]))),
    lambda: ReducesAnew(lambda: (give, (), None, None, iter([[1, 2]]))),
    lambda: ReducesTo((give, (), None, None, None, 1)),
    lambda: ReducesTo((give, (), None, None, None, None, None)),
    lambda: ReducesTo((copyreg.__newobj__, ())),  # type: ignore[attr-defined]
    lambda: ReducesTo((copyreg.__newobj__, (1,))),  # type: ignore[attr-defined]
    lambda: ReducesTo((copyreg.__newobj__, (Plain,))),  # type: ignore[attr-defined]
    lambda: ReducesTo((copyreg.__newobj__, (ReducesTo,))),  # type: ignore[attr-defined]
    lambda: ReducesTo((copyreg.__newobj_ex__, (ReducesTo, (), {}))),  # type: ignore[attr-defined]
    lambda: ReducesTo((copyreg.__newobj_ex__, (ReducesTo, ()))),  # type: ignore[attr-defined]
    lambda: ReducesTo((copyreg.__newobj_ex__, (ReducesTo, [], {}))),  # type: ignore[attr-defined]
    lambda: ReducesTo((lambda: None, ())),
    lambda: NewArguments(()),
    lambda: NewArguments([]),
    lambda: OfRegisteredMeta,
    lambda: OfRegisteredMeta(),
    lambda: OfRefusingMeta,
    lambda: OfRefusingMeta(),
    lambda: RegisteredMeta,
    lambda: odd(Plain, a=1),
    lambda: odd(Plain, a=threading.Lock()),
    HiddenDict,
    SlotDict,
    NoReduceEx,
    NoReduce,
    NoState,
    NoneModule,
    lambda: NoneModule,
    WrongModule,
    lambda: WrongName,
    WrongName,
    Dotted,
    lambda: Dotted,
    AllAttributes,
    NoAttributes,
    lambda: Floating(1.5),
    lambda: Raw(b"x"),
    lambda: Abstract,
    lambda: Flags.A | Flags.B,
    lambda: OfLocalMeta,
    OfLocalMeta,
    lambda: cached,
    lambda: dispatched,
    lambda: managed,
    managed,
    moved_function,
    lambda: functools.partialmethod(function),
    lambda: operator.itemgetter(1, "a"),
    lambda: operator.attrgetter("a"),
    lambda: staticmethod(function),
    lambda: classmethod(function),
    lambda: super(Plain, Plain()),
    lambda: [].__len__,
    lambda: list.__len__,
    lambda: int.__add__,
    lambda: Slots.left,
    lambda: Plain.__dict__,
    lambda: typing.TypeVar("T"),
    lambda: typing.Any,
    lambda: typing.ClassVar[int],
    lambda: typing.NewType("Named", int),
    lambda: map(function, [1]),
    lambda: zip([1], [2], strict=False),
    lambda: enumerate([threading.Lock()]),
    lambda: reversed([1]),
    lambda: iter([threading.Lock()]),
    lambda: iter({1: 2}.values()),
    lambda: iter(collections.deque([1])),
    lambda: time.gmtime(0),
    lambda: os.stat("/"),
    lambda: sys.flags,
    lambda: sys.version_info,
    lambda: types.ModuleType("made"),
    lambda: types.SimpleNamespace(a=threading.Lock()),
    lambda: datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
    lambda: decimal.Decimal("1.5"),
    lambda: fractions.Fraction(1, 2),
    lambda: uuid.UUID(int=1),
    lambda: pathlib.Path("x"),
    lambda: pickle.PickleBuffer(b"x"),
    lambda: pickle.PickleBuffer(bytearray(b"x")),
    lambda: io.BytesIO(b"x"),
    lambda: io.StringIO("x"),
    lambda: logging.getLogger("x"),
    lambda: string.Template("x"),
    lambda: inspect.signature(function),
    lambda: dataclasses.field(),
    lambda: random.Random(1),
    lambda: weakref.WeakSet(),
    lambda: weakref.ref(Plain),
    lambda: ast.parse("x"),
    lambda: unittest.mock.Mock(),
    lambda: unittest.mock.sentinel.x,
    lambda: re.compile("x"),
    lambda: array.array("i", [1]),
    lambda: ctypes.c_int(1),
    lambda: BaseException(1),
    lambda: OSError(2, "x"),
    lambda: UnicodeDecodeError("utf-8", b"x", 0, 1, "y"),
)


def _with_attributes(make: Any) -> Any:
    def build(children: list[Any]) -> Any:
        value = make()
        for name, child in zip(("left", "right", "more"), children, strict=False):
            try:
                object.__setattr__(value, name, child)
            except AttributeError:
                break
        return value

    return build


def _dictionary(children: list[Any]) -> Any:
    return {f"key{number}": child for number, child in enumerate(children)}


def _keyed(children: list[Any]) -> Any:
    return {child: number for number, child in enumerate(children) if _hashable(child)}


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except (TypeError, KeyError):
        return False
    return True


def _borg(children: list[Any]) -> Any:
    first, second = Plain(), Plain()
    first.__dict__ = second.__dict__
    first.__dict__.update(_dictionary(children))
    return [first, second]


def _first(children: list[Any]) -> Any:
    return children[0] if children else None


def _hidden(children: list[Any]) -> Any:
    value = SlotsAndMore()
    value.hide(_first(children))
    return value


def _local(children: list[Any]) -> Any:
    value = LOCAL()
    value.__dict__.update(_dictionary(children))
    return value


def _failure(children: list[Any]) -> Any:
    error = FailureError(*children)
    error.note = _first(children)  # type: ignore[attr-defined]
    return error


def _method(children: list[Any]) -> Any:
    value = HasMethod()
    value.__dict__.update(_dictionary(children))
    return value.method


def _subclass(make: Any) -> Any:
    def build(children: list[Any]) -> Any:
        value = make(children)
        value.extra = _first(children)
        return value

    return build


#: From children that are made already to an object that holds them.
HOLDERS = (
    list,
    tuple,
    _dictionary,
    _keyed,
    lambda children: {child for child in children if _hashable(child)},
    lambda children: frozenset(child for child in children if _hashable(child)),
    _with_attributes(Plain),
    _with_attributes(Attributes),
    _with_attributes(Slots),
    _with_attributes(SlotsAndMore),
    _with_attributes(SlotsAndDict),
    _with_attributes(Data),
    _with_attributes(SlotData),
    _with_attributes(FrozenData),
    _with_attributes(Registered),
    _hidden,
    _borg,
    _local,
    _failure,
    _method,
    lambda children: Pair(_first(children), 1),
    _subclass(MyTuple),
    _subclass(MyList),
    _subclass(lambda children: MyDict(_dictionary(children))),
    _subclass(lambda children: MySet(child for child in children if _hashable(child))),
    lambda children: collections.deque(children, 9),
    lambda children: collections.OrderedDict(_dictionary(children)),
    lambda children: collections.defaultdict(list, _dictionary(children)),
    lambda children: collections.defaultdict(lambda: 1, _dictionary(children)),
    lambda children: collections.Counter(_keyed(children)),
    lambda children: functools.partial(function, *children, key=_first(children)),
    lambda children: ReducesTo((give, tuple(children))),
    lambda children: ReducesTo((give, (), _first(children))),
    lambda children: ReducesTo((give, (), _dictionary(children), None, None, set_state)),
    lambda children: ReducesAnew(lambda: (collections.deque, (), None, iter(children))),
    lambda children: ReducesAnew(lambda: (dict, (), None, None, iter(list(_dictionary(children).items())))),
    lambda children: ReducesTo((give, MyTuple(children))),
    lambda children: GivesState(_dictionary(children)),
    lambda children: GivesState(children),
    lambda children: NewArguments(tuple(children)),
    lambda children: NamedNewArguments(_first(children)),
    lambda children: OwnReducer(_first(children)),
)


#: Those of which any part can be replaced.
FIXABLE = (
    list,
    _dictionary,
    _with_attributes(Plain),
    _with_attributes(Attributes),
    _with_attributes(Slots),
    _with_attributes(SlotsAndDict),
    _with_attributes(Data),
    _with_attributes(SlotData),
    _with_attributes(Registered),
    _hidden,
    _local,
    _subclass(MyList),
    _subclass(lambda children: MyDict(_dictionary(children))),
    lambda children: collections.deque(children, 9),
    lambda children: collections.OrderedDict(_dictionary(children)),
    lambda children: collections.defaultdict(list, _dictionary(children)),
    lambda children: ReducesTo((give, tuple(children))),
    lambda children: GivesState(_dictionary(children)),
    lambda children: NamedNewArguments(_first(children)),
)


@st.composite
def graphs(draw: st.DrawFn, fixable: bool = False) -> Any:
    """A graph of up to ten holders over some leaves, with any sharing, and with cycles through what can change."""
    # half of them of leaves that can be pickled, or nearly none could
    leaves = LEAVES if fixable or draw(st.booleans()) else LEAVES[:29]
    holders = FIXABLE if fixable else HOLDERS
    nodes = [draw(st.sampled_from(leaves))() for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(1, 10))):
        build = draw(st.sampled_from(holders))
        chosen = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=3))
        nodes.append(build([nodes[number] for number in chosen]))
    for _ in range(draw(st.integers(0, 4))):
        holder, child = draw(st.integers(0, len(nodes) - 1)), draw(st.integers(0, len(nodes) - 1))
        _tie(nodes[holder], nodes[child])
    return [nodes[-1]] if fixable else nodes[-1]


def _tie(holder: Any, child: Any) -> None:
    """Put something into a holder that is there already: this makes circles."""
    if type(holder) in (list, MyList):
        holder.append(child)
    elif type(holder) in (dict, MyDict, collections.OrderedDict):
        holder["tied"] = child
    elif type(holder) in (Plain, Data, SlotData, Slots, LOCAL, GivesState, Registered):
        object.__setattr__(holder, "state" if type(holder) is GivesState else "left", child)
    elif type(holder) is ReducesTo and type(holder.answer) is tuple and len(holder.answer) == 2:
        holder.answer = (holder.answer[0], (child,))
