"""Python's own operators, functions and methods on plain values, bounded in size: a script may be hostile."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from .follower import Follower
from .values import UNKNOWN, Bound, Class, Instance, Native, Outside, Supply, Tensor, Undecided, WorldSize

#: The longest list or text that is kept.
LONGEST = 2_000
_LARGEST = 1 << 62
#: Names of Python that stand for something.
NAMES = frozenset([*dir(builtins), "exit", "quit"])
#: Functions of Python that call what they get.
CALLERS = frozenset(["map", "filter", "sorted", "min", "max", "exec", "eval", "setattr"])
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "BitAnd": operator.and_, "BitOr": operator.or_,
    "BitXor": operator.xor, "LShift": operator.lshift, "RShift": operator.rshift, "Pow": operator.pow,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge,
}  # fmt: skip
_NUMBERS = (bool, int, float)
#: The dtypes that a float keeps.
FLOATING = ("float16", "bfloat16", "float32", "float64")
_TEXT_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "startswith",
        "endswith",
        "isdigit",
        "rpartition",
        "partition",
    ]
)
_LIST_METHODS = frozenset(
    [
        "append",
        "pop",
        "extend",
        "insert",
        "remove",
        "index",
        "copy",
        "clear",
        "reverse",
        "count",
        "popleft",
        "appendleft",
    ]
)
_DICT_METHODS = frozenset(["get", "items", "keys", "values", "pop", "setdefault", "update", "copy"])
_SET_METHODS = frozenset(["add", "discard", "remove", "copy", "union", "intersection", "difference"])
_METHODS: tuple[tuple[type, frozenset[str]], ...] = (
    (str, _TEXT_METHODS),
    (list, _LIST_METHODS),
    (dict, _DICT_METHODS),
    (set, _SET_METHODS),
)


def is_plain_key(value: Any) -> bool:
    """Return whether a value is a number, a text or a small tuple of them."""
    return _is_plain(value, tuple)


def _is_plain(value: Any, *kinds: type[Any]) -> bool:
    """Return whether a value is a number, a text, or a small list or tuple (``kinds``) of them."""
    left: list[Any] = [value]
    seen = 0
    while left:
        one = left.pop()
        seen += 1
        if isinstance(one, kinds) and len(one) + seen + len(left) <= LONGEST:
            left.extend(one)
        elif one is not None and not isinstance(one, (str, *_NUMBERS)):
            return False
    return seen <= LONGEST


def is_bounded(value: Any) -> bool:
    """Return whether a number, a text or a list is not too large to be kept."""
    if isinstance(value, int):
        return abs(value) <= _LARGEST
    return not isinstance(value, (str, list, tuple)) or len(value) <= LONGEST


def _bounded(value: Any) -> Any:
    return value if is_bounded(value) else UNKNOWN


def note_size(*values: Any) -> None:
    """Note that something depends on the number of ranks."""
    for value in values:
        if isinstance(value, WorldSize):
            value.uses[0] = True


def operate(name: str, left: Any, right: Any) -> Any:
    """Return the result of a binary operator, named as in :mod:`ast`."""
    note_size(left, right)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _of_tensors(name, left, right)
    if left is UNKNOWN or right is UNKNOWN or name not in _OPERATORS:
        return UNKNOWN
    if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
        if name in ("Pow", "LShift") and not (abs(left) < 1 << 16 and 0 <= right <= 32):
            return UNKNOWN
        return _applied(_OPERATORS[name], left, right)
    if name == "Add" and type(left) is type(right) and isinstance(left, (str, list, tuple)):
        return _applied(operator.add, left, right)
    if name == "Mult" and isinstance(left, (list, tuple, str)) and isinstance(right, int):
        return left * right if len(left) * max(right, 0) <= LONGEST else UNKNOWN
    if name == "BitOr" and isinstance(left, dict) and isinstance(right, dict):
        return {**left, **right}
    if name in ("Sub", "BitAnd", "BitOr") and isinstance(left, set) and isinstance(right, set):
        return _applied(_OPERATORS[name], left, right)
    return UNKNOWN


def _applied(function: Callable[..., Any], *given: Any) -> Any:
    try:
        return _bounded(function(*given))
    except (ArithmeticError, TypeError, ValueError, LookupError):
        return UNKNOWN


def _of_tensors(name: str, left: Any, right: Any) -> Tensor:
    shapes = [
        side.shape if isinstance(side, Tensor) else () if isinstance(side, _NUMBERS) else None for side in (left, right)
    ]
    kinds = [side.dtype for side in (left, right) if isinstance(side, Tensor)]
    dtype = kinds[0] if all(kind == kinds[0] for kind in kinds) and name not in ("Div", "Pow") else None
    if any(isinstance(side, float) for side in (left, right)) and dtype not in FLOATING:
        dtype = None
    if name == "Div" and kinds and all(kind == "float32" for kind in kinds):
        dtype = "float32"
    one, other = shapes
    if one is None or other is None:
        return Tensor(None, dtype)
    shape = _broadcast(one, other)
    data = None
    first, second = _numbers_of(left), _numbers_of(right)
    if shape is not None and first is not None and second is not None and name in _OPERATORS:
        longest = max(len(first), len(second))
        sides = [side * longest if len(side) == 1 else side for side in (first, second)]
        if len(sides[0]) == len(sides[1]) and (one == other or () in shapes or (1,) in shapes):
            data = [operate(name, a, b) for a, b in zip(*sides, strict=True)]
    return Tensor(shape, dtype, data)


def _numbers_of(value: Any) -> list[Any] | None:
    return value.data if isinstance(value, Tensor) else [value]


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    sizes: list[int] = []
    for a, b in itertools.zip_longest(reversed(one), reversed(other), fillvalue=1):
        if a != b and 1 not in (a, b):
            return None
        sizes.append(b if a == 1 else a)
    return tuple(reversed(sizes))


def compare(name: str, left: Any, right: Any) -> Any:
    """Return the result of a comparison: True, False or unknown."""
    note_size(left, right)
    if name in ("Is", "IsNot"):
        if any(side is UNKNOWN or (isinstance(side, Outside) and side.is_result) for side in (left, right)):
            return UNKNOWN
        same = left is right or (
            is_plain_key(left) and is_plain_key(right) and type(left) is type(right) and left == right
        )
        return same if name == "Is" else not same
    if name in ("In", "NotIn"):
        if isinstance(right, range):
            held: Any = isinstance(left, int) and left in right
            return held if name == "In" else not held
        if isinstance(right, (list, tuple, dict, set, str)) and is_plain_key(left):
            held = list(right) if not isinstance(right, str) else right
            if isinstance(held, str):
                found = isinstance(left, str) and left in held
            elif any(not is_plain_key(one) for one in held) and left not in [one for one in held if is_plain_key(one)]:
                return UNKNOWN
            else:
                found = left in [one for one in held if is_plain_key(one)]
            return found if name == "In" else not found
        return UNKNOWN
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        shape = left.shape if isinstance(left, Tensor) else right.shape
        first, second = _numbers_of(left), _numbers_of(right)
        if first is not None and second is not None and len(first) == len(second) == 1:
            answer = compare(name, first[0], second[0])
            return Tensor((), "bool", [answer]) if answer is not UNKNOWN else UNKNOWN
        return Tensor(shape, "bool")
    if name in _COMPARISONS and _is_plain(left, list, tuple) and _is_plain(right, list, tuple):
        return _applied(_COMPARISONS[name], left, right)
    return UNKNOWN


def item(owner: Any, index: Any) -> Any:
    """Return ``owner[index]``."""
    if isinstance(owner, dict):
        return owner.get(index, UNKNOWN) if is_plain_key(index) else UNKNOWN
    if isinstance(owner, (list, tuple, str, range)) and isinstance(index, (int, slice)):
        return _applied(operator.getitem, owner, index)
    return UNKNOWN


def method(follows: Follower, owner: Any, name: str) -> Any:
    """Return a method of a plain value."""
    known = next((names for kind, names in _METHODS if isinstance(owner, kind)), frozenset[str]())
    if name == "join" and isinstance(owner, str):
        return Native(functools.partial(_join, follows, owner))
    if name == "sort" and isinstance(owner, list):
        return Native(functools.partial(_sort, follows, owner))
    if name in known:
        return Native(functools.partial(_method, follows, owner, name))
    follows.lose(owner)
    return UNKNOWN


def _method(follows: Follower, owner: Any, name: str, /, *given: Any, **keywords: Any) -> Any:
    follows.world.step(len(owner))
    if isinstance(owner, (dict, set)) and given and name != "update" and not is_plain_key(given[0]):
        if name not in ("union", "intersection", "difference"):
            follows.lose(owner)
        return UNKNOWN
    if name in ("extend", "update") and given:
        items = follows.items(given[0]) if name == "extend" else given[0]
        if items is None or (name == "update" and not isinstance(items, dict)):
            follows.lose(owner)
            return UNKNOWN
        given = (items,)
    if isinstance(owner, list) and name in ("remove", "index", "count") and not all(map(is_plain_key, owner)):
        follows.lose(owner)
        return UNKNOWN
    if isinstance(owner, str) and not all(isinstance(one, (str, int)) or one is None for one in given):
        return UNKNOWN
    if name == "popleft":
        name, given = "pop", (0,)
    elif name == "appendleft":
        name, given = "insert", (0, *given)
    try:
        found = getattr(owner, name)(*given, **keywords)
    except (TypeError, ValueError, LookupError):
        raise Undecided from None
    if isinstance(owner, list) and len(owner) > LONGEST:
        raise Undecided
    return list(found) if name in ("items", "keys", "values") else _bounded(found)


def _join(follows: Follower, owner: str, /, *given: Any, **_: Any) -> Any:
    items = follows.items(given[0]) if len(given) == 1 else None
    if items is None or not all(isinstance(one, str) for one in items):
        return UNKNOWN
    if sum(map(len, items)) + len(owner) * len(items) > LONGEST:
        return UNKNOWN
    return _applied(owner.join, items)


def _sort(follows: Follower, owner: list[Any], /, *given: Any, **keywords: Any) -> Any:
    follows.world.step(len(owner))
    if given or keywords or not all(isinstance(one, (int, float)) for one in owner):
        follows.lose(owner)
        return None
    owner.sort()
    return None


def numbers_of_range(given: list[Any]) -> range | None:
    """Return the range with these arguments, None if one is not known or too large."""
    if not 1 <= len(given) <= 3 or not all(isinstance(one, int) and abs(one) < 1 << 40 for one in given):
        return None
    return None if 0 in given[2:] else range(*given)


def call(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any]) -> Any:
    """Return what a function of Python yields, by its name."""
    first = given[0] if given else UNKNOWN
    if name == "print":
        for one in given:
            follows.text_of(one)
        return None
    if name == "len":
        size = follows.length(first)
        return UNKNOWN if size is None else size
    if name == "range":
        note_size(*given)
        numbers = numbers_of_range(given)
        return UNKNOWN if numbers is None else numbers
    if name in ("int", "float", "str", "bool", "round", "abs"):
        return _converted(follows, name, given)
    if name in ("min", "max", "sum", "sorted", "any", "all"):
        return _folded(follows, name, given, keywords)
    if name in ("list", "tuple", "set", "reversed", "enumerate", "zip", "iter", "dict"):
        return _collected(follows, name, given, keywords)
    if name == "next" and isinstance(first, Supply) and first.items:
        return first.items.pop(0)
    if name == "vars" and isinstance(first, Instance):
        return first.attributes
    if name == "divmod" and len(given) == 2 and all(isinstance(one, int) for one in given) and given[1]:
        return divmod(given[0], given[1])
    if name == "getattr" and len(given) >= 2 and isinstance(given[1], str):
        found = follows.attribute(first, given[1])
        return (
            given[2]
            if found is UNKNOWN and len(given) > 2 and isinstance(first, Instance) and first.cls is None
            else found
        )
    if name == "isinstance" and isinstance(first, Instance) and len(given) > 1 and isinstance(given[1], Class):
        return _derives(first.cls, given[1])
    if name in ("exit", "quit"):
        raise Undecided
    return UNKNOWN


def _derives(cls: Class | None, other: Class) -> bool:
    return cls is not None and other in cls.line


def _converted(follows: Follower, name: str, given: list[Any]) -> Any:
    first = given[0] if given else UNKNOWN
    if isinstance(first, Tensor):
        follows.touched(first, writes=False)
        first = first.data[0] if first.data is not None and len(first.data) == 1 else UNKNOWN
    if name == "str" and isinstance(first, Instance):
        return follows.text_of(first)
    if name == "int" and isinstance(first, WorldSize):
        return first
    if name == "bool":
        answer = follows.truth(first)
        return UNKNOWN if answer is None else answer
    if not isinstance(first, (str, *_NUMBERS)) or (isinstance(first, str) and len(first) > 40):
        return UNKNOWN
    rest = given[1:] if name == "round" and all(isinstance(one, int) and abs(one) < 20 for one in given[1:]) else []
    kinds: dict[str, Callable[..., Any]] = {"int": int, "float": float, "str": str, "round": round, "abs": abs}
    return _applied(kinds[name], first, *rest)


def _folded(follows: Follower, name: str, given: list[Any], keywords: Mapping[str, Any]) -> Any:
    items = list(given) if len(given) > 1 and name in ("min", "max") else follows.items(given[0]) if given else None
    for one in items or ():
        follows.touched(one, writes=False)
    if items is None or any(one != "start" and one != "reverse" for one in keywords):
        return UNKNOWN
    if name in ("any", "all"):
        answers = [follows.truth(one) for one in items]
        decides = name == "any"
        if decides in answers:
            return decides
        return UNKNOWN if None in answers else not decides
    if not all(isinstance(one, _NUMBERS) for one in items) and not (
        name == "sorted" and all(isinstance(one, str) for one in items)
    ):
        return UNKNOWN
    functions: dict[str, Callable[..., Any]] = {"min": min, "max": max, "sum": sum, "sorted": sorted}
    return _applied(functools.partial(functions[name], **keywords), items)


def _collected(follows: Follower, name: str, given: list[Any], keywords: Mapping[str, Any]) -> Any:
    if name == "dict":
        if not given:
            return dict(keywords)
        return {**given[0], **keywords} if isinstance(given[0], dict) else UNKNOWN
    if not given:
        return {"list": [], "tuple": (), "set": set()}.get(name, UNKNOWN)
    lists = [follows.items(one) for one in (given if name == "zip" else given[:1])]
    if any(one is None for one in lists):
        return UNKNOWN
    items: list[Any] = lists[0] or []
    if name == "zip":
        return Supply([tuple(one) for one in zip(*(one or [] for one in lists), strict=False)])
    if name == "enumerate":
        start = given[1] if len(given) > 1 else keywords.get("start", 0)
        return Supply([tuple(one) for one in enumerate(items, start)]) if isinstance(start, int) else UNKNOWN
    if name == "set":
        return set(items) if all(map(is_plain_key, items)) else UNKNOWN
    if name in ("iter", "reversed"):
        return Supply(items[::-1] if name == "reversed" else items)
    return tuple(items) if name == "tuple" else items


def library(follows: Follower, name: str, given: list[Any], keywords: dict[str, Any]) -> Any:
    """Return what a function of the standard library yields, by its dotted name."""
    first = given[0] if given else UNKNOWN
    if (
        name.startswith("math.")
        and isinstance(first, _NUMBERS)
        and name[5:] in ("ceil", "floor", "sqrt", "log2", "prod")
    ):
        return _applied(getattr(math, name[5:]), first)
    if name == "math.prod" and (items := follows.items(first)) is not None:
        return (
            _folded(follows, "sum", [[0]], {})
            if not items
            else _applied(math.prod, items)
            if all(isinstance(one, int) for one in items)
            else UNKNOWN
        )
    if name == "functools.partial" and given:
        return Bound(first, tuple(given[1:]), keywords)
    if name == "collections.deque":
        return [] if not given else _collected(follows, "list", given, {}) if "maxlen" not in keywords else UNKNOWN
    if name == "itertools.islice" and len(given) == 2 and isinstance(given[1], int):
        items = follows.items(first)
        return UNKNOWN if items is None else Supply(items[: given[1]])
    if name == "itertools.chain":
        lists = [follows.items(one) for one in given]
        if any(one is None for one in lists) or sum(len(one or []) for one in lists) > LONGEST:
            return UNKNOWN
        return Supply([item for one in lists for item in one or []])
    return UNKNOWN
