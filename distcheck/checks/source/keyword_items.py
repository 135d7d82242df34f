"""Items of dicts of keyword arguments: what ``options["sampler"] = sampler`` adds to ``DataLoader(data, **options)``.

Only dicts under a name of the function are followed, from the display that makes them, and by keys that are texts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

#: Behind the name of a dict, what its items are; names in an environment can't hold braces.
_ITEMS = ".{}"
#: The kind of the terms that hold items: nothing uses the values until a call gets them.
_KIND = "{}"
#: Methods that change which items a dict has.
_CHANGE = frozenset({"update", "pop", "popitem", "clear", "setdefault"})


class KeywordItems:
    """Keeps the items of dicts as entries of an environment, so that they are merged after branches like names."""

    __slots__ = ("make", "terms")

    def __init__(self, terms: list[tuple[Any, ...]], make: Callable[..., int]) -> None:
        self.terms = terms
        #: returns the number of a term
        self.make = make

    def assigned(self, env: dict[str, int], name: str, value: int) -> bool:
        """Note the items of a dict that a name is bound to; return whether they are known."""
        return self._keep(env, name, self._items(value))

    def stored(self, env: dict[str, int], target: ast.expr, index: int, value: int) -> None:
        """Note that a subscript of a name is assigned."""
        if isinstance(target, ast.Name) and (target.id + _ITEMS) in env:
            added = self.make(_KIND, (index,), (value,)) if self._is_text(index) else -1
            self._keep(env, target.id, self._with(env[target.id + _ITEMS], added))

    def called(self, env: dict[str, int], node: ast.Call, call: int) -> None:
        """Note that a method of a name is called: ``loader_args.update(other)``."""
        function = node.func
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            return
        name = function.value.id
        items = env.get(name + _ITEMS, -1)
        if items < 0 or function.attr not in _CHANGE:
            return
        arguments, keywords, star = self.terms[call][2:5]
        if function.attr != "update" or star:
            self._keep(env, name, -1)
            return
        for given, argument in zip(node.args, arguments, strict=True):
            own = env.get(given.id + _ITEMS, -1) if isinstance(given, ast.Name) else self._items(argument)
            items = self._with(items, own)
        self._keep(env, name, self._with(items, self._of_keywords(keywords)))

    def given(self, env: dict[str, int], node: ast.expr, value: int) -> tuple[dict[str, int], bool]:
        """Return the keywords that ``**node`` gives, as far as they are known, and whether these are all."""
        if isinstance(node, ast.Name):
            items = env.get(node.id + _ITEMS, -1)
            return self._keywords(items) if items >= 0 else (self._keywords(value)[0], False)
        items = self._items(value)
        return self._keywords(items if items >= 0 else value)

    def _keep(self, env: dict[str, int], name: str, items: int) -> bool:
        if items >= 0:
            env[name + _ITEMS] = items
        else:
            env.pop(name + _ITEMS, None)
        return items >= 0

    def _is_text(self, number: int) -> bool:
        return number >= 0 and self.terms[number][:2] == ("k", "str")

    def _items(self, number: int) -> int:
        """Return the items of a dict display, or of ``dict(a=1)``; -1 where not all of their keys are known."""
        parts = self.terms[number]
        if parts[0] == "d":
            return self.make(_KIND, *parts[1:]) if all(map(self._is_text, parts[1])) else -1
        is_dict = parts[0] == "c" and self.terms[parts[1]][::2] == ("v", "dict")
        return self._of_keywords(parts[3]) if is_dict and not parts[2] and not parts[4] else -1

    def _of_keywords(self, keywords: tuple[tuple[str, int], ...]) -> int:
        keys = tuple(self.make("k", "str", key) for key, _ in keywords)
        return self.make(_KIND, keys, tuple(item for _, item in keywords))

    def _with(self, items: int, added: int) -> int:
        """Return items with those of another dict put over them; -1 where they depend on a branch."""
        if items < 0 or added < 0 or self.terms[items][0] != _KIND or self.terms[added][0] != _KIND:
            return -1
        own, other = self.terms[items], self.terms[added]
        merged = dict(zip(own[1], own[2], strict=True)) | dict(zip(other[1], other[2], strict=True))
        return self.make(_KIND, tuple(merged), tuple(merged.values()))

    def _keywords(self, items: int) -> tuple[dict[str, int], bool]:
        """Return the keywords of items, and whether these are all: after a branch, those that both ways have."""
        parts = self.terms[items]
        if parts[0] in ("?", "|"):
            first, first_whole = self._keywords(parts[-2])
            second, second_whole = self._keywords(parts[-1])
            both = {
                key: value if second[key] == value else self.make(*parts[:-2], value, second[key])
                for key, value in first.items()
                if key in second
            }
            return both, first_whole and second_whole and first.keys() == second.keys()
        if parts[0] not in ("d", _KIND):
            return {}, False
        found = {self.terms[key][2]: item for key, item in zip(parts[1], parts[2], strict=True) if self._is_text(key)}
        return found, len(found) == len(parts[1])
