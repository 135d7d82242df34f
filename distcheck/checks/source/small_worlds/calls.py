"""Calls on one rank: functions, methods, objects and generators of the project."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import builtins_known, torch_calls
from .expressions import Expressions
from .rank_state import MUTABLE, own_nodes
from .values import (
    RESULT,
    UNKNOWN,
    Bound,
    Class,
    Frame,
    Function,
    Generated,
    Instance,
    Marked,
    Native,
    Outside,
    Supply,
    Tensor,
    Undecided,
)

_DEEPEST = 40
#: how many steps a function takes at most that does not communicate
_LONGEST_HELPER = 3_000


class Break(Exception):  # noqa: N818 - control flow
    """``break``."""


class Continue(Exception):  # noqa: N818 - control flow
    """``continue``."""


class Return(Exception):  # noqa: N818 - control flow
    """``return`` with a value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Raised(Exception):  # noqa: N818 - control flow
    """The script raises an exception: its name."""


class Abandoned(Exception):  # noqa: N818 - control flow
    """A loop leaves its generator."""


CONTROL = (Return, Break, Continue, Raised)


class Calls(Expressions):
    """One rank that enters functions."""

    def body(self, statements: Iterable[ast.stmt], frame: Frame) -> None:
        """Follow statements, one after the other."""
        raise NotImplementedError

    # calls

    def _of_call(self, node: ast.Call, frame: Frame) -> Any:
        function = self.value(node.func, frame)
        given = self.elements(node.args, frame)
        keywords: dict[str, Any] | None = {}
        for one in node.keywords:
            value = self.value(one.value, frame)
            if keywords is None:
                continue
            if one.arg is not None:
                keywords[one.arg] = value
            elif isinstance(value, dict) and all(isinstance(name, str) for name in value):
                keywords.update(value)
            else:
                keywords = None
        if isinstance(function, Outside) and function.name == "super":
            return self._super(frame)
        if function is UNKNOWN and isinstance(node.func, ast.Attribute) and node.func.attr not in self.sources.names:
            # a method of something that is not known, which is no communicating one of the project
            self.give_away(given or [], keywords or {})
            return UNKNOWN
        if given is None or keywords is None:
            if self.sources.matters(node):
                raise Undecided
            return UNKNOWN
        self.place, self.module = node, frame.module
        return self.call(function, given, keywords, node)

    def _super(self, frame: Frame) -> Any:
        owner, instance = frame.names.get("__class__"), frame.names.get("__self__")
        if not isinstance(owner, Class) or not isinstance(instance, Instance):
            return UNKNOWN
        made = Instance(Class("super", owner.bases, {}))
        made.attributes = instance.attributes
        return made

    def call(self, function: Any, given: list[Any], keywords: dict[str, Any], node: ast.expr | None) -> Any:
        """Return what a call yields; ``node`` is where it stands."""
        self.world.step()
        if isinstance(function, Bound):
            return self.call(function.function, [*function.given, *given], {**function.keywords, **keywords}, node)
        if isinstance(function, Function):
            if self.sources.is_generator(function.node):
                return Generated(function, given, keywords)
            return self.enter(function, given, keywords)
        if isinstance(function, Marked):
            return self.call(function.function, given, keywords, node)
        if isinstance(function, Class):
            return self._made(function, given, keywords)
        if isinstance(function, Native):
            return function.call(*given, **keywords)
        if isinstance(function, Outside):
            found = torch_calls.call(self, function.name, given, keywords, node)
            if found is UNKNOWN:
                if function.name not in builtins_known.NAMES or function.name in builtins_known.CALLERS:
                    self.give_away(given, keywords)
                    if function.package not in torch_calls.HARMLESS:
                        self.world.note_unseen(node)
                return Outside(f"{function.package}.{RESULT}")
            return found
        if isinstance(function, Instance):
            return self._call_object(function, given, keywords)
        # it may be a function that communicates
        self.give_away(given, keywords)
        self.world.note_unseen(node)
        return UNKNOWN

    def _call_object(self, function: Instance, given: list[Any], keywords: dict[str, Any]) -> Any:
        cls = function.cls
        if cls is None:
            return UNKNOWN
        method = cls.lookup("__call__")
        if method is None and "torch" in cls.packages:
            method = cls.lookup("forward")
            if not isinstance(method, Function) or not self.communicates(function):
                self.give_away(given, keywords)
                return Outside(f"torch.{RESULT}")
        if not isinstance(method, Function):
            if cls.packages & torch_calls.HARMLESS != cls.packages or self.communicates(function):
                raise Undecided
            return UNKNOWN
        return self.enter(method, [function, *given], keywords)

    def give_away(self, given: list[Any], keywords: Mapping[str, Any]) -> None:
        """An unknown function may change what it gets, and wait for calls."""
        self.pending = []
        for value in (*given, *keywords.values()):
            if self.communicates(value):
                raise Undecided
            if isinstance(value, (list, dict, set, Supply)):
                self.lose(value)

    def communicates(self, value: Any) -> bool:
        """Return whether who gets a value may communicate through it."""
        if isinstance(value, Function):
            return self.sources.communicates(value.node)
        if isinstance(value, (Bound, Marked, Generated)):
            return self.communicates(value.function)
        if isinstance(value, Instance):
            return value.cls is not None and self.communicates(value.cls)
        if isinstance(value, Class):
            # a class may hold itself, or one class by many names
            known, left = {value}, [value]
            while left:
                for one in (*left[-1].names.values(), *left.pop().line):
                    if isinstance(one, Class):
                        left += [one] * (one not in known)
                        known.add(one)
                    elif not isinstance(one, Instance) and self.communicates(one):
                        return True
        return False

    def enter(
        self,
        function: Function,
        given: list[Any],
        keywords: Mapping[str, Any],
        gives: Callable[[Any], None] | None = None,
    ) -> Any:
        names = self._parameters(function, given, keywords)
        if self.depth >= _DEEPEST:
            raise Undecided
        frame = Frame(function.frame.module, names, function.frame)
        frame.gives = gives
        if function.owner is not None and given:
            names["__class__"], names["__self__"] = function.owner, given[0]
        alone = gives is None and not self.sources.communicates(function.node)
        outer = self.world.limit
        if alone:
            self.world.limit = min(outer, self.world.steps + _LONGEST_HELPER)
        self.depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, frame)
            self.body(function.node.body, frame)
        except Return as returned:
            return returned.value
        except Undecided:
            # what does not communicate leaves unknown values at worst
            if not alone or self.world.steps >= outer:
                raise
            self._forget_call(function, names, [*given, *keywords.values()])
            return UNKNOWN
        finally:
            self.depth -= 1
            self.world.limit = outer
        return None

    def _forget_call(self, function: Function, names: Mapping[str, Any], given: list[Any]) -> None:
        """What a function of the project may change is not known any more."""
        self.pending = []
        for value in (*given, *names.values()):
            if isinstance(value, (*MUTABLE, Tensor)):
                self.lose(value)
        for node in own_nodes(function.node):
            if isinstance(node, ast.Global):
                for name in node.names:
                    function.frame.module.names[name] = UNKNOWN

    def _parameters(self, function: Function, given: list[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        arguments = function.node.args
        positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        names: dict[str, Any] = dict(zip(positional, given, strict=False))
        left = dict(keywords)
        for name in (*positional, *(one.arg for one in arguments.kwonlyargs)):
            if name in left:
                names[name] = left.pop(name)
            elif name not in names:
                # a wrong call is an exception on all ranks
                names[name] = function.defaults.get(name, UNKNOWN)
        if arguments.vararg:
            names[arguments.vararg.arg] = tuple(given[len(positional) :])
        if arguments.kwarg:
            names[arguments.kwarg.arg] = left
        return names

    def _made(self, cls: Class, given: list[Any], keywords: Mapping[str, Any]) -> Any:
        made = Instance(cls)
        init = cls.lookup("__init__")
        if cls.fields is not None and init is None:
            made.attributes.update(zip(cls.fields, given, strict=False))
            made.attributes.update(keywords)
            return made
        if isinstance(init, Function):
            self.enter(init, [made, *given], keywords)
        elif init is not None:
            return UNKNOWN
        return made

    def collected(self, generated: Generated) -> list[Any]:
        """Return all that a generator yields: its order among the steps of the rank does not matter."""
        if self.sources.communicates(generated.function.node):
            raise Undecided
        found: list[Any] = []

        def keep(value: Any) -> None:
            found.append(value)
            if len(found) > builtins_known.LONGEST:
                raise Undecided

        self.enter(generated.function, generated.given, generated.keywords, keep)
        return found
