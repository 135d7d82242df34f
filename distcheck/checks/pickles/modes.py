"""What each mode of pickling does with one object: which hooks it calls, what it continues with, what it refuses.

The five modes share one model: an object is a leaf, a container, saved by reference, or *reduced* to other objects.
:class:`Mode` decides that for one object, and :mod:`.walk` continues with the result. Nothing is written, and no
content of a tensor, an array or a buffer is copied.
"""

from __future__ import annotations

import array
import contextlib
import copy
import copyreg
import itertools
import pickle
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from . import object_layout

MODES = ("pickle", "torch.save", "deepcopy", "spawn", "collective")

#: What to do with the objects of a type.
LEAF, PLAIN, REFERENCE, REDUCED, HOOKED, TENSOR, STORAGE, ARRAY, COPIED, METHOD, BUFFER = range(11)

#: Names in an instance's own ``__dict__`` that change how it is pickled.
_HOOKS = frozenset(["__reduce_ex__", "__reduce__", "__getstate__", "__deepcopy__"])
#: Such names, and those by which a reduction reads what an instance contains.
_CHOOSING = _HOOKS | {"items", "__getnewargs_ex__", "__getnewargs__"}
#: What runs when an instance is reduced and made again, so that a deep copy may fail where pickling would not.
_MAKING = (
    "__reduce_ex__",
    "__reduce__",
    "__getstate__",
    "__setstate__",
    "__getnewargs_ex__",
    "__getnewargs__",
    "__new__",
    "__getattr__",
    "__getattribute__",
    "__setattr__",
    "__setitem__",
    "append",
)
#: Items that are taken from an iterator of unknown length: what gives more is taken for endless.
MOST_ITEMS = 5_000_000
#: Bytes of tensors that a ``__deepcopy__`` or ``__setstate__`` may be made to copy to see whether it works.
MOST_COPIED_BYTES = 64 << 20
#: Iterators of the interpreter: they run no code of the object.
_BUILTIN_ITERATORS = frozenset(map(type, (iter([]), iter({}.items()), iter(()), iter(set()))))

_OBJECT_GETSTATE = object.__dict__.get("__getstate__", object_layout.MISSING)  # since 3.11


class PicklingRefused(Exception):  # noqa: N818 - an outcome
    """Pickling ends here. The text is type and text of what pickling raises.

    :param failing: the object that fails, if it is not the object being expanded
    """

    def __init__(self, text: str, failing: Any = None) -> None:
        super().__init__(text)
        self.failing = failing


class TooMany(Exception):  # noqa: N818 - an outcome
    """An iterator gave more than :data:`MOST_ITEMS` items."""


class Expansion(NamedTuple):
    """What an object is reduced to, in the order in which it is pickled. Labels are steps of :mod:`.paths`."""

    #: what is pickled before the object is known: an object that contains itself here never ends
    before: list[tuple[Any, Any]]
    after: list[tuple[Any, Any]]
    #: why the object itself can't be pickled, though its parts may: its class has no import path
    refusal: str | None = None


_NOTHING = Expansion([], [])


def describe_error(error: BaseException) -> str:
    """Type and text of an exception."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - foreign code; its text is only shown
        text = "(its text can't be had)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def copied(value: Any, memo: dict[int, Any]) -> None:
    """Let an object copy itself, and throw the copy away.

    :raises PicklingRefused: it can't; with the innermost object whose copy failed as ``failing``
    """
    try:
        copy.deepcopy(value, memo)
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - it is the answer
        failing = value
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            if frame.f_code is copy.deepcopy.__code__:
                failing = frame.f_locals.get("x", failing)
            trace = trace.tb_next
        raise PicklingRefused(describe_error(error), failing) from None


class Mode:
    """One way of pickling, for one walk. Answers are remembered by type: it must not outlive the walk.

    :param name: one of :data:`MODES`
    :param protocol: of pickle; None for the default of the mode
    """

    def __init__(self, name: str, protocol: int | None = None) -> None:
        if name not in MODES:
            raise ValueError(f"mode is {name!r}, and must be one of {', '.join(MODES)}")
        self.name = name
        self.copying = name == "deepcopy"
        if protocol is None:
            protocol = {"torch.save": 2, "deepcopy": 4}.get(name, pickle.DEFAULT_PROTOCOL)
        elif name != "pickle":
            raise ValueError("a protocol can be given in mode 'pickle' only")
        elif not 0 <= protocol <= pickle.HIGHEST_PROTOCOL:
            raise ValueError(f"protocol is {protocol}, and must be from 0 to {pickle.HIGHEST_PROTOCOL}")
        self.protocol = protocol
        self.dispatch: dict[type, Callable[[Any], Any]] = dict(copyreg.dispatch_table)
        if name == "spawn":
            self.dispatch.update(_reducers_for_processes())
        self.atoms = self._find_atoms()
        #: whether sets are known to the pickler before their members (from protocol 4 on)
        self.sets_first = self.protocol >= 4 and not self.copying
        self._references: dict[int, tuple[object, str | None]] = {}
        self._honest: dict[type, bool] = {}
        self._storage_dtypes: dict[int, Any] = {}
        self._torch = _TorchTypes.find()
        self._numpy = _numpy_array()
        self.copied_bytes = 0
        self._loads: str | None = None

    def _find_atoms(self) -> frozenset[type]:
        """Exact types that are never refused and lead nowhere."""
        none = type(None)
        if not self.copying:
            atoms = {none, bool, int, float, str, bytes, bytearray}
            for kind in (complex, range):
                reducer = self.dispatch.get(kind)
                if reducer is None or getattr(reducer, "__module__", None) == "copyreg":
                    atoms.add(kind)
            return frozenset(atoms)
        known = getattr(copy, "_atomic_types", None)  # since 3.14
        if known is not None:
            return frozenset(known)
        table: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
        return frozenset(kind for kind, copier in table.items() if copier is copy._deepcopy_atomic)  # type: ignore[attr-defined]

    @property
    def storages(self) -> tuple[type, ...]:
        """torch's classes of storages, where torch is imported."""
        return () if self._torch is None else self._torch.storages

    @property
    def tensors(self) -> tuple[type, ...]:
        """torch's own classes of tensors, where torch is imported."""
        return () if self._torch is None else (self._torch.tensor, self._torch.parameter)

    # by type

    def plan(self, kind: type) -> int:
        """What to do with the objects of a type. Runs no code of the type."""
        if self.copying:
            if issubclass(kind, type):
                return LEAF
            if kind is MethodType:
                return METHOD
        elif kind is type or kind is FunctionType:
            return REFERENCE
        elif kind is pickle.PickleBuffer:
            return BUFFER
        if self._torch is not None:
            if issubclass(kind, self._torch.tensor):
                return TENSOR if kind in (self._torch.tensor, self._torch.parameter) else HOOKED
            if issubclass(kind, self._torch.storages):
                return STORAGE
        if kind is array.array and kind not in self.dispatch:
            return LEAF
        if self._numpy is not None and issubclass(kind, self._numpy) and _reduces_like(kind, self._numpy):
            return ARRAY
        if self.copying and object_layout.defined(kind, "__deepcopy__") is not object_layout.MISSING:
            return COPIED
        if kind in self.dispatch:
            return HOOKED
        if issubclass(kind, type):
            return REFERENCE
        old = self.protocol < 2 and not self.copying  # those call more hooks of an instance
        if (
            _is_plain(kind)
            and not old
            and not (self.copying and object_layout.defined(kind, "__getattr__") is not object_layout.MISSING)
        ):
            return PLAIN
        return REDUCED if _runs_no_python(kind) else HOOKED

    def runs_to_copy(self, kind: type, plan: int) -> bool:
        """Whether a deep copy of an instance is made by code of its class, which may fail where pickling would not."""
        if not self.copying or plan in (LEAF, TENSOR, STORAGE, ARRAY, METHOD, COPIED):
            return False
        reducer = self.dispatch.get(kind)
        if reducer is not None and not _is_trusted(getattr(reducer, "__module__", None)):
            return True
        names = _MAKING if not issubclass(kind, BaseException) else (*_MAKING, "__init__")
        for base in object_layout.bases(kind):
            if not _is_trusted(object_layout.module_of(base)):
                own = object_layout.names_of(base)
                if any(name in own for name in names if type(own.get(name)).__name__ != "member_descriptor"):
                    return True
        return False

    def ordinary_names(self, names: tuple[Any, ...]) -> bool:
        """Whether the keys of an instance's ``__dict__`` are plain names, none of which is a hook of pickling."""
        return all(type(name) is str for name in names) and _HOOKS.isdisjoint(names)

    def refers(self, value: object) -> str | None:
        """Why a class or function can't be pickled by reference; None where it can. Runs pickle itself."""
        if self.copying:
            return None
        known = self._references.get(id(value))
        if known is None:
            try:
                pickle.dumps(value, self.protocol)
                known = (value, None)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the search for a module runs what modules define
                known = (value, describe_error(error))
            self._references[id(value)] = known
        return known[1]

    # by object

    def expand(self, value: Any, kind: type, plan: int) -> Expansion:
        """What an object is reduced to. Raises :class:`PicklingRefused`, and whatever the hooks of the object raise."""
        if plan == REFERENCE:
            refusal = self.refers(value)
            if refusal is not None:
                raise PicklingRefused(refusal)
            return _NOTHING
        if plan == TENSOR:
            return self._expand_tensor(value, kind)
        if plan == STORAGE:
            return self._expand_storage(value)
        if plan == ARRAY:
            return self._expand_array(value, kind)
        if plan == METHOD:
            return Expansion([(("attribute", "__self__"), value.__self__)], [])
        if plan == BUFFER:
            if self.protocol < 5 or not memoryview(value).contiguous:
                raise PicklingRefused(
                    "PicklingError: PickleBuffer can be pickled with protocol 5, and in one piece only"
                )
            return _NOTHING
        if self.copying and getattr(value, "__deepcopy__", None) is not None:
            copied(value, {})
            return _NOTHING
        expansion = self._unpack(value, kind, self._reduce(value, kind))
        if (
            self.copying
            and not object_layout.made_at_run_time(kind)
            and self._is_data([part for _, part in (*expansion[0], *expansion[1])])
        ):
            copied(value, {})  # some types of the interpreter can't be made by anybody else: sys.flags
        return expansion

    def _is_data(self, parts: list[Any]) -> bool:
        """Whether all parts are plain data, or short tuples and dicts of it."""
        atoms = self.atoms
        return all(
            type(part) in atoms
            or (type(part) is tuple and len(part) < 100 and atoms.issuperset(map(type, part)))
            or (type(part) is dict and len(part) < 100 and atoms.issuperset(map(type, part.values())))
            for part in parts
        )

    def _reduce(self, value: Any, kind: type) -> Any:
        reducer = self.dispatch.get(kind)
        if reducer is not None:
            return reducer(value)
        missing: Any = None if self.copying else object_layout.MISSING
        reduce_ex: Any = getattr(value, "__reduce_ex__", missing)
        if reduce_ex is not missing:
            return reduce_ex(self.protocol)
        reduce: Any = getattr(value, "__reduce__", missing)
        if reduce is not missing:
            return reduce()
        raise PicklingRefused(f"PicklingError: can't pickle '{kind.__name__}' object")

    def _unpack(self, value: Any, kind: type, answer: Any) -> Expansion:
        """What follows from what ``__reduce_ex__`` gave, checked as pickle checks it."""
        if isinstance(answer, str):
            return _NOTHING if self.copying else self._named(value, answer)
        if not isinstance(answer, tuple):
            raise PicklingRefused(
                f"PicklingError: __reduce__ must return a string or tuple, not {type(answer).__name__}"
            )
        parts = list(tuple.__iter__(answer))
        most = 5 if self.copying else 6
        if not 2 <= len(parts) <= most:
            raise PicklingRefused(f"PicklingError: __reduce__ must return 2 to {most} elements, not {len(parts)}")
        function, arguments, state, items, pairs, setter = parts + [None] * (6 - len(parts))
        if not callable(function):
            raise PicklingRefused("PicklingError: first item of the tuple returned by __reduce__ must be callable")
        before: list[tuple[Any, Any]] = []
        refusal = None
        if self.copying:
            if arguments:
                before += [(("argument", number), each) for number, each in enumerate(arguments)]
        else:
            if not isinstance(arguments, tuple):
                raise PicklingRefused("PicklingError: second item of the tuple returned by __reduce__ must be a tuple")
            for content, ordinal in ((items, "fourth"), (pairs, "fifth")):
                if content is not None and not hasattr(type(content), "__next__"):
                    raise PicklingRefused(
                        f"PicklingError: {ordinal} item of what __reduce__ returned must be an iterator"
                    )
            if setter is not None and not callable(setter):
                raise PicklingRefused("PicklingError: sixth item of the tuple returned by __reduce__ must be callable")
            before, refusal = self._make(value, kind, function, arguments)
        after: list[tuple[Any, Any]] = []
        if items is not None:
            after += self._items(value, kind, items)
        if pairs is not None:
            after += self._pairs(value, kind, pairs)
        if state is not None:
            if setter is not None:
                after.append((("setter",), setter))
            after.append((("state",), state))
        return Expansion(before, after, refusal)

    def _make(
        self, value: Any, kind: type, function: Any, arguments: tuple[Any, ...]
    ) -> tuple[list[tuple[Any, Any]], str | None]:
        """The part of a reduction that makes the object: function and arguments."""
        name = getattr(function, "__name__", None) if self.protocol >= 2 else None
        parts = list(tuple.__iter__(arguments))
        if name == "__newobj_ex__":
            if len(parts) != 3:
                raise PicklingRefused(f"PicklingError: __newobj_ex__ needs 3 arguments, not {len(parts)}")
            made, positional, named = parts
            if not isinstance(made, type) or not isinstance(positional, tuple) or not isinstance(named, dict):
                raise PicklingRefused("PicklingError: __newobj_ex__ needs a class, a tuple and a dict")
            rest: list[tuple[Any, Any]] = [(("argument", 1), positional), (("argument", 2), named)]
        elif name == "__newobj__":
            if not parts:
                raise PicklingRefused("PicklingError: __newobj__ arglist is empty")
            made = parts[0]
            if not isinstance(made, type):
                raise PicklingRefused("PicklingError: args[0] from __newobj__ args must be a class")
            if made is not _class_of(value, kind):
                raise PicklingRefused("PicklingError: args[0] from __newobj__ args has the wrong class")
            rest = [(("argument", number), each) for number, each in enumerate(parts) if number]
        else:
            made = function
            if type(arguments) is tuple:
                rest = [(("argument", number), each) for number, each in enumerate(parts)]
            else:
                rest = [(("arguments",), arguments)]
        if made is kind:
            return rest, self.refers(kind) if self.plan(type(kind)) == REFERENCE else None
        return [(("function",), made), *rest], None

    def _items(self, value: Any, kind: type, items: Any) -> list[tuple[Any, Any]]:
        if (
            type(items) in _BUILTIN_ITERATORS
            and issubclass(kind, list)
            and self._gives_its_own(value, kind)
            and self.atoms.issuperset(map(type, list.__iter__(value)))
        ):
            return []
        return [(("listed", number), each) for number, each in enumerate(_taken(items))]

    def _gives_its_own(self, value: Any, kind: type) -> bool:
        """Whether the items of a reduction are what a list or dict holds: no code of the class chose other ones."""
        honest = self._honest.get(kind)
        if honest is None:
            honest = self._honest[kind] = kind not in self.dispatch and _runs_no_python(kind)
        own = object_layout.attributes(value) if honest else None
        return honest and (not own or _CHOOSING.isdisjoint(own))

    def _pairs(self, value: Any, kind: type, pairs: Any) -> list[tuple[Any, Any]]:
        atoms = self.atoms
        if (
            issubclass(kind, dict)
            and type(pairs).__module__ in ("builtins", "collections")
            and self._gives_its_own(value, kind)
            and atoms.issuperset(map(type, dict.values(value)))
            and atoms.issuperset(map(type, dict.__iter__(value)))
        ):
            return []
        found: list[tuple[Any, Any]] = []
        for number, pair in enumerate(_taken(pairs)):
            if self.copying:
                key, content = pair
            else:
                if not isinstance(pair, tuple) or tuple.__len__(pair) != 2:
                    raise PicklingRefused("TypeError: dict items iterator must return 2-tuples")
                key, content = tuple.__iter__(pair)
            if type(key) not in atoms:
                found.append((("key", number), key))
            if type(content) not in atoms:
                found.append((("paired", key, number), content))
        return found

    def _named(self, value: Any, name: str) -> Expansion:
        """An object that pickles itself as the name of a global."""
        module_name = pickle.whichmodule(value, name)  # type: ignore[attr-defined]
        try:
            __import__(module_name)
            found: Any = sys.modules[module_name]
            parent = found
            for part in name.split("."):
                if part == "<locals>":
                    raise PicklingRefused(f"AttributeError: Can't pickle local object {name!r}")
                parent, found = found, getattr(found, part)
        except (ImportError, KeyError, AttributeError) as error:
            raise PicklingRefused(
                f"PicklingError: Can't pickle it as {module_name}.{name}: {describe_error(error)}"
            ) from None
        if found is not value:
            raise PicklingRefused(f"PicklingError: Can't pickle it as {module_name}.{name}: it's not the same object")
        if self.protocol < 3 and not f"{module_name}{name}".isascii():
            raise PicklingRefused(
                f"PicklingError: can't pickle global identifier '{module_name}.{name}' using protocol 2"
            )
        if self.protocol < 4 and "." in name:
            return Expansion([(("argument", 0), parent)], [])
        return _NOTHING

    # tensors, storages, arrays

    def _expand_tensor(self, tensor: Any, kind: type) -> Expansion:
        """A tensor of torch's own two classes. The bytes of its storage are never read."""
        if self.name == "spawn" and kind in self.dispatch:
            if tensor.requires_grad and not tensor.is_leaf:
                raise PicklingRefused(
                    "RuntimeError: Cowardly refusing to serialize non-leaf tensor which requires_grad"
                )
            return _NOTHING
        if self.copying:
            self.copied_bytes += _bytes_of(tensor)
            if not tensor.is_leaf:
                raise PicklingRefused(
                    "RuntimeError: Only Tensors created explicitly by the user (graph leaves) support the deepcopy"
                    " protocol"
                )
            if tensor.is_nested or str(tensor.layout) not in ("torch.strided", "torch.sparse_coo"):
                copied(tensor, {})  # some layouts can't be copied; torch decides which
            found: list[tuple[Any, Any]] = []
            if kind is not self.tensors[1]:  # a parameter leaves its attributes behind
                found = [(("attribute", name), each) for name, each in (object_layout.attributes(tensor) or {}).items()]
                if tensor.grad is not None:
                    found.append((("attribute", "grad"), tensor.grad))
            return Expansion([], found)
        return self._unpack(tensor, kind, self._reduce(tensor, kind))

    def _expand_storage(self, storage: Any) -> Expansion:
        typed = hasattr(storage, "_untyped_storage")
        untyped = storage._untyped_storage if typed else storage
        device = untyped.device.type
        if self.name == "spawn" and device in ("cuda", "meta"):
            # a tensor there is sent by its own reducer, without its storage
            raise PicklingRefused(
                f"RuntimeError: Cannot pickle {device} storage; try pickling a {device} tensor instead"
            )
        if self.name == "collective" and not typed:
            problem = self._storage_problem()
            if problem:
                raise PicklingRefused(problem)
        if self.name == "torch.save" and self._torch is not None and device != "meta":
            address = untyped.data_ptr()
            dtype = storage.dtype if typed else self._torch.uint8
            if address and self._storage_dtypes.setdefault(address, dtype) is not dtype:
                raise PicklingRefused(
                    "RuntimeError: Cannot save multiple tensors or storages that view the same data as different types"
                )
        return _NOTHING

    def _storage_problem(self) -> str:
        """What loading a bare storage raises in this torch (2.13 knows no dtype for it); empty where it loads.

        A caller that calls an object collective loads as well, so there that counts. An empty storage is tried.
        """
        if self._loads is None:
            try:
                pickle.loads(pickle.dumps(self.storages[1](0)))  # noqa: S301 - written in the same breath
                self._loads = ""
            except Exception as error:  # noqa: BLE001 - it is the answer
                self._loads = describe_error(error)
        return self._loads

    def _expand_array(self, found: Any, kind: type) -> Expansion:
        """A numpy array whose class does not pickle itself: class, dtype, and the elements where they are objects."""
        refusal = None if self.copying or kind is self._numpy else self.refers(kind)
        before: list[tuple[Any, Any]] = [] if self.copying else [(("attribute", "dtype"), found.dtype)]
        after: list[tuple[Any, Any]] = []
        if found.dtype.hasobject:
            shape = found.shape
            after = [
                (("element", tuple(place)), each)
                for place, each in zip(itertools.product(*map(range, shape)), found.ravel().tolist(), strict=False)
                if type(each) not in self.atoms
            ]
        return Expansion(before, after, refusal)


class _TorchTypes(NamedTuple):
    """torch's classes, where it is imported already. We never import it."""

    tensor: type
    parameter: type
    storages: tuple[type, ...]
    uint8: Any

    @classmethod
    def find(cls) -> _TorchTypes | None:
        torch = sys.modules.get("torch")
        try:
            return cls(
                torch.Tensor,  # type: ignore[union-attr]
                torch.nn.Parameter,  # type: ignore[union-attr]
                (torch.storage.TypedStorage, torch.UntypedStorage),  # type: ignore[union-attr]
                torch.uint8,  # type: ignore[union-attr]
            )
        except AttributeError:  # not imported, blocked, or in the middle of its import
            return None


def _bytes_of(tensor: Any) -> int:
    try:
        return int(tensor.nbytes)
    except (RuntimeError, NotImplementedError, AttributeError):  # sparse and nested ones have no such figure
        return 0


def _numpy_array() -> type | None:
    found = getattr(sys.modules.get("numpy"), "ndarray", None)
    return found if isinstance(found, type) else None


def _reduces_like(kind: type, base: type) -> bool:
    names = ("__reduce_ex__", "__reduce__", "__getstate__", "__deepcopy__", "__getattribute__")
    return all(object_layout.defined(kind, name) is object_layout.defined(base, name) for name in names)


def _is_trusted(module: object) -> bool:
    """Whether what a module defines makes its objects again without fail: Python's own, and torch's, which is large."""
    top = str(module).partition(".")[0]
    return top == "torch" or top in sys.stdlib_module_names


def _class_of(value: Any, kind: type) -> Any:
    """An object's ``__class__``; its type where reading that fails, as in pickle."""
    names = ("__class__", "__getattribute__")
    if all(object_layout.defined(kind, name) is object.__dict__[name] for name in names):
        return kind
    try:
        return value.__class__
    except Exception:  # noqa: BLE001 - as pickle does
        return kind


def _is_plain(kind: type) -> bool:
    """Whether the instances of a class are their ``__dict__`` and nothing else, and pickling them runs no hook."""
    own = object.__dict__
    if (
        object_layout.defined(kind, "__reduce_ex__") is not own["__reduce_ex__"]
        or object_layout.defined(kind, "__reduce__") is not own["__reduce__"]
        or object_layout.defined(kind, "__getstate__") is not _OBJECT_GETSTATE
        or object_layout.defined(kind, "__getattribute__") is not own["__getattribute__"]
        or object_layout.defined(kind, "__class__") is not own["__class__"]
        or object_layout.defined(kind, "__getnewargs_ex__") is not object_layout.MISSING
        or object_layout.defined(kind, "__getnewargs__") is not object_layout.MISSING
        or object_layout.defined(kind, "__dictoffset__") is not object_layout.MISSING
        or (
            _OBJECT_GETSTATE is object_layout.MISSING
            and object_layout.defined(kind, "__getattr__") is not object_layout.MISSING
        )
    ):
        return False
    if type(object_layout.defined(kind, "__dict__")).__name__ != "getset_descriptor" or not _is_metaclass_plain(
        type(kind)
    ):
        return False
    if any("__slots__" in object_layout.names_of(base) and _slots_of(base) for base in object_layout.bases(kind)):
        return False
    return object_layout.only_attributes(kind)


def _slots_of(base: type) -> bool:
    return any(type(each).__name__ == "member_descriptor" for each in object_layout.names_of(base).values())


def _is_metaclass_plain(kind: type) -> bool:
    return object_layout.defined(kind, "__getattribute__") is type.__dict__["__getattribute__"] and not any(
        object_layout.defined(kind, name) is not object.__dict__[name] for name in ("__reduce_ex__", "__reduce__")
    )


def _runs_no_python(kind: type) -> bool:
    """Whether reducing an instance runs only code of the interpreter and of extension modules."""
    names = (
        "__reduce_ex__",
        "__reduce__",
        "__getstate__",
        "__getnewargs_ex__",
        "__getnewargs__",
        "__getattribute__",
        "__getattr__",
        "__class__",
        "__dict__",
        "items",
        "__iter__",
    )
    return not any(
        type(found) in (FunctionType, property, classmethod, staticmethod, MethodType)
        for found in (object_layout.defined(kind, name) for name in names)
    )


def _taken(items: Any) -> Iterator[Any]:
    """The items of an iterator, as many as we are ready to take."""
    number = 0
    for number, item in enumerate(items, 1):
        if number > MOST_ITEMS and type(items) not in _BUILTIN_ITERATORS:
            raise TooMany(f"an iterator that __reduce__ returned gave more than {MOST_ITEMS:,} items")
        yield item


# for processes


def _reducers_for_processes() -> dict[type, Callable[[Any], Any]]:
    from multiprocessing.reduction import ForkingPickler

    return dict(ForkingPickler._extra_reducers)  # type: ignore[attr-defined]


class _Spawning:
    """Stands for a process that is being started, since some objects can be pickled only then.

    Descriptors stay where they are: nothing is duplicated, no server is started.
    """

    def __init__(self, wrapper: Any) -> None:
        self.DupFd = wrapper

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor


@contextlib.contextmanager
def as_if_spawning(mode: str) -> Iterator[None]:
    """In mode ``spawn``: this thread starts a process, as far as the objects that are being pickled can see."""
    if mode != "spawn":
        yield
        return
    from multiprocessing import context

    wrapper: Any = int
    if sys.platform != "win32":  # Windows hands over handles by itself
        from multiprocessing.popen_spawn_posix import _DupFd as wrapper
    before = context.get_spawning_popen()
    context.set_spawning_popen(_Spawning(wrapper))  # type: ignore[arg-type]
    try:
        yield
    finally:
        context.set_spawning_popen(before)
