"""What a rank may hold while its script is followed: Python's own plain values, and the classes below."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any


class Undecided(Exception):  # noqa: N818 - control flow
    """What the rank does next depends on a value that is not known."""


class Blocked(Exception):  # noqa: N818 - control flow
    """The rank waits for another one, and goes on when that one has come."""


class ScriptExit(Exception):  # noqa: N818 - control flow
    """The script ends here."""


class _Unknown:
    """A value that is not known, and all that is made from it."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


class WorldSize(int):
    """The number of ranks. It notes when something is reckoned from it."""

    uses: list[bool]


class Outside:
    """A name from outside of the project, such as ``torch.distributed``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_result(self) -> bool:
        """Whether it is what a library returned."""
        return RESULT in self.name

    @property
    def package(self) -> str:
        """The package that it is from."""
        return self.name.partition(".")[0]


#: stands in the name of what a library returned
RESULT = "?"


class Project:
    """A module of the project."""

    __slots__ = ("file", "names")

    def __init__(self, file: int) -> None:
        self.file = file
        self.names: dict[str, Any] = {}


class Deferred:
    """A name of another module of the project; the module is followed when the name is used."""

    __slots__ = ("module", "names")

    def __init__(self, module: Project, names: tuple[str, ...]) -> None:
        self.module = module
        self.names = names


class Frame:
    """The local names of a call, and where to find the others."""

    __slots__ = ("gives", "module", "names", "outer", "shared")

    def __init__(self, module: Project, names: dict[str, Any], outer: Frame | None = None) -> None:
        self.module = module
        self.names = names
        self.outer = outer
        #: what gets the values that a generator yields
        self.gives: Callable[[Any], None] | None = None
        #: names that ``global`` or ``nonlocal`` declares, and where they live
        self.shared: dict[str, dict[str, Any]] = {}

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the names that a name is among."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.shared:
                return frame.shared[name]
            if name in frame.names:
                return frame.names
            frame = frame.outer
        return self.module.names if name in self.module.names else None


class Function:
    """A function of the project, or a lambda."""

    __slots__ = ("defaults", "frame", "node", "owner")

    def __init__(
        self, node: ast.FunctionDef | ast.Lambda, frame: Frame, defaults: Mapping[str, Any], owner: Class | None
    ) -> None:
        self.node = node
        self.frame = frame
        self.defaults = defaults
        self.owner = owner


class Class:
    """A class of the project."""

    __slots__ = ("bases", "fields", "line", "name", "names")

    def __init__(
        self, name: str, bases: list[Any], names: dict[str, Any], fields: tuple[str, ...] | None = None
    ) -> None:
        self.name = name
        self.bases = bases
        self.names = names
        #: of a data class
        self.fields = fields
        #: this class and its bases, direct or not, each once and in the order in which an attribute is searched
        self.line: tuple[Class, ...] = tuple(
            dict.fromkeys([self, *(one for base in bases if isinstance(base, Class) for one in base.line)])
        )

    def lookup(self, name: str) -> Any:
        """Return an attribute of the class or of a base that is known, else None."""
        return next((one.names[name] for one in self.line if name in one.names), None)

    @property
    def packages(self) -> frozenset[str]:
        """The packages of its bases from outside; ``?`` for one that is not known."""
        return frozenset(base.package if isinstance(base, Outside) else RESULT for base in self._outside)

    @property
    def is_plain(self) -> bool:
        """Whether all of it is known: no base from outside that has attributes of its own."""
        return all(isinstance(base, Outside) and base.name in _PLAIN for base in self._outside)

    @property
    def _outside(self) -> list[Any]:
        """Bases that are no classes of the project, of all classes in its line."""
        return [base for one in self.line for base in one.bases if not isinstance(base, Class)]


_PLAIN = frozenset(
    ["object", "abc.ABC", "torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset", "typing.NamedTuple"]
)


class Instance:
    """An object of a class of the project."""

    __slots__ = ("attributes", "cls")

    def __init__(self, cls: Class | None, attributes: dict[str, Any] | None = None) -> None:
        self.cls = cls
        self.attributes: dict[str, Any] = {} if attributes is None else attributes


class Bound:
    """A function with its first arguments: a method of an object, or ``functools.partial``."""

    __slots__ = ("function", "given", "keywords")

    def __init__(self, function: Any, given: tuple[Any, ...], keywords: Mapping[str, Any] | None = None) -> None:
        self.function = function
        self.given = given
        self.keywords = keywords or {}


class Generated:
    """A call of a generator that has not begun."""

    __slots__ = ("function", "given", "keywords")

    def __init__(self, function: Function, given: list[Any], keywords: Mapping[str, Any]) -> None:
        self.function = function
        self.given = given
        self.keywords = keywords


class Native:
    """A method of a plain value or a function that is modelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


class Marked:
    """A function under a decorator that changes how it is used: ``property``, ``staticmethod``, ``classmethod``."""

    __slots__ = ("function", "how")

    def __init__(self, function: Any, how: str) -> None:
        self.function = function
        self.how = how


class Supply:
    """What a loop gets from an iterator, as far as it is known: ``iter()``, a generator, a loader."""

    __slots__ = ("items",)

    def __init__(self, items: list[Any]) -> None:
        self.items = items


class Tensor:
    """A tensor: its shape, dtype and numbers as far as they are known."""

    __slots__ = ("base", "data", "dtype", "shape")

    def __init__(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        data: list[Any] | None = None,
        base: Tensor | None = None,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.data = data
        #: the tensor that it shares its memory with
        self.base = base

    @property
    def count(self) -> int | None:
        """The number of its elements."""
        if self.shape is None:
            return None
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def memory(self) -> Tensor:
        """The tensor that owns its memory."""
        tensor = self
        while tensor.base is not None:
            tensor = tensor.base
        return tensor

    def forget(self) -> None:
        """Its numbers, and those of what shares its memory, are not known any more."""
        self.data = None
        if self.base is not None:
            self.base.forget()


class Group:
    """A process group."""

    __slots__ = ("number", "ranks")

    def __init__(self, number: int, ranks: tuple[int, ...]) -> None:
        #: the order in which it was created, 0 for the default group
        self.number = number
        self.ranks = ranks


class Work:
    """The handle of an asynchronous call."""

    __slots__ = ("call",)

    def __init__(self, call: Any) -> None:
        self.call = call


class Options(dict[str, Any]):
    """The parser of a command line: the default of each option."""
