"""The values of expressions on one rank, and where values are stored."""

from __future__ import annotations

import ast
from typing import Any

from . import builtins_known, tensors, torch_calls
from .rank_state import MUTABLE, RankState
from .values import (
    RESULT,
    UNKNOWN,
    Bound,
    Class,
    Deferred,
    Frame,
    Function,
    Generated,
    Group,
    Instance,
    Marked,
    Options,
    Outside,
    Project,
    Supply,
    Tensor,
    Undecided,
    Work,
)


class Expressions(RankState):
    """One rank that evaluates expressions."""

    def call(self, function: Any, given: list[Any], keywords: dict[str, Any], node: ast.expr | None) -> Any:
        """Return what a call yields; ``node`` is where it stands."""
        raise NotImplementedError

    def imported(self, file: int, dotted: str) -> Any:
        """Return what a file imports by a dotted name."""
        raise NotImplementedError

    def loaded(self, module: Project) -> Project:
        """Return a module of the project with its names."""
        raise NotImplementedError

    def collected(self, generated: Generated) -> list[Any]:
        """Return all that a generator yields."""
        raise NotImplementedError

    def special(self, instance: Instance, name: str, given: list[Any]) -> Any:
        """Return what a method of an object yields, unknown if there is none."""
        method = instance.cls.lookup(name) if instance.cls is not None else None
        return self.call(method, [instance, *given], {}, None) if isinstance(method, Function) else UNKNOWN

    # what is assigned

    def store(self, target: ast.expr, value: Any, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            self.store_name(target.id, value, frame)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.items(value)
            if (
                items is None
                or any(isinstance(one, ast.Starred) for one in target.elts)
                or len(items) != len(target.elts)
            ):
                items = [UNKNOWN] * len(target.elts)
            for one, item in zip(target.elts, items, strict=True):
                self.store(one.value if isinstance(one, ast.Starred) else one, item, frame)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, frame)
            if isinstance(owner, Instance):
                owner.attributes[target.attr] = value
            elif isinstance(owner, Project):
                self.loaded(owner).names[target.attr] = value
            elif isinstance(owner, Class):
                owner.names[target.attr] = value
        elif isinstance(target, ast.Subscript):
            self._store_item(target, value, frame)

    def _store_item(self, target: ast.Subscript, value: Any, frame: Frame) -> None:
        owner = self.value(target.value, frame)
        index = self.value(target.slice, frame)
        if isinstance(owner, Tensor):
            self.place, self.module = target, frame.module
            self.touched(owner, writes=True)
            owner.forget()
        elif isinstance(owner, Outside) and owner.name == "os.environ" and isinstance(index, str):
            self.environment[index] = value
        elif (isinstance(owner, dict) and builtins_known.is_plain_key(index)) or (
            isinstance(owner, list) and isinstance(index, int) and -len(owner) <= index < len(owner)
        ):
            owner[index] = value
        elif isinstance(owner, MUTABLE):
            self.lose(owner)

    # expressions

    def value(self, node: ast.expr, frame: Frame) -> Any:
        """Return what an expression yields on this rank."""
        self.world.step()
        handler = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if handler is None:
            if self.sources.matters(node):
                raise Undecided
            self.forget([node], frame)
            return UNKNOWN
        found = handler(node, frame)
        return UNKNOWN if id(found) in self.lost and isinstance(found, MUTABLE) else found

    def _of_constant(self, node: ast.Constant, frame: Frame) -> Any:
        value = node.value
        return value if not isinstance(value, bytes) and builtins_known.is_bounded(value) else UNKNOWN

    def _of_name(self, node: ast.Name, frame: Frame) -> Any:
        names = frame.find(node.id)
        if names is not None:
            return self.resolved(names, node.id)
        return Outside(node.id) if node.id in builtins_known.NAMES else UNKNOWN

    def _of_attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        return self.attribute(self.value(node.value, frame), node.attr)

    def attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Outside):
            return torch_calls.constant(self, f"{owner.name}.{name}")
        if isinstance(owner, Project):
            names = self.loaded(owner).names
            return self.resolved(names, name) if name in names else UNKNOWN
        if isinstance(owner, Instance):
            if name in owner.attributes:
                return owner.attributes[name]
            found = owner.cls.lookup(name) if owner.cls is not None else None
            return self._bound(found, owner, owner.cls)
        if isinstance(owner, Class):
            found = owner.lookup(name)
            if isinstance(found, Marked):
                return Bound(found.function, (owner,)) if found.how == "classmethod" else found.function
            return UNKNOWN if found is None else found
        if isinstance(owner, Tensor):
            return tensors.attribute(self, owner, name)
        if isinstance(owner, Work):
            return torch_calls.work_attribute(self, owner, name)
        if isinstance(owner, Group):
            return torch_calls.group_attribute(self, owner, name)
        if owner is UNKNOWN and name in ("wait", "result", "is_completed"):
            self.pending = []
        if isinstance(owner, (Options, Supply)):
            return torch_calls.helper_attribute(self, owner, name)
        return builtins_known.method(self, owner, name)

    def _bound(self, found: Any, owner: Instance, cls: Class | None) -> Any:
        if isinstance(found, Function):
            return Bound(found, (owner,))
        if isinstance(found, Marked):
            if found.how in ("property", "cached_property"):
                return self.call(found.function, [owner], {}, None)
            if found.how == "classmethod":
                return Bound(found.function, (cls,))
            return found.function if found.how == "staticmethod" else Bound(found, (owner,))
        if found is None and cls is not None and cls.packages and cls.packages <= torch_calls.HARMLESS:
            return Outside(f"torch.{RESULT}")
        return UNKNOWN if found is None else found

    def _of_subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        owner = self.value(node.value, frame)
        index = self.value(node.slice, frame)
        if isinstance(owner, Tensor):
            return tensors.item(owner, index)
        if isinstance(owner, Outside):
            if owner.name == "os.environ" and isinstance(index, str):
                return self.environment.get(index, UNKNOWN)
            return UNKNOWN
        if isinstance(owner, Instance) and owner.cls is not None and owner.cls.lookup("__getitem__") is not None:
            return self.special(owner, "__getitem__", [index])
        return builtins_known.item(owner, index)

    def _of_slice(self, node: ast.Slice, frame: Frame) -> Any:
        parts = [None if one is None else self.value(one, frame) for one in (node.lower, node.upper, node.step)]
        return slice(*parts) if all(one is None or isinstance(one, int) for one in parts) else UNKNOWN

    def _of_tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        items = self.elements(node.elts, frame)
        return UNKNOWN if items is None else tuple(items)

    def _of_list(self, node: ast.List, frame: Frame) -> Any:
        items = self.elements(node.elts, frame)
        return UNKNOWN if items is None else items

    def _of_set(self, node: ast.Set, frame: Frame) -> Any:
        items = self.elements(node.elts, frame)
        return set(items) if items is not None and all(map(builtins_known.is_plain_key, items)) else UNKNOWN

    def elements(self, nodes: list[ast.expr], frame: Frame) -> list[Any] | None:
        found: list[Any] | None = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                more = self.items(self.value(node.value, frame))
                if more is None or found is None or len(found) + len(more) > builtins_known.LONGEST:
                    found = None
                else:
                    found += more
            else:
                value = self.value(node, frame)
                if found is not None:
                    found.append(value)
        return found

    def _of_dict(self, node: ast.Dict, frame: Frame) -> Any:
        made: dict[Any, Any] = {}
        known = True
        for key, value in zip(node.keys, node.values, strict=True):
            name = None if key is None else self.value(key, frame)
            held = self.value(value, frame)
            if key is None and isinstance(held, dict):
                made.update(held)
            elif key is None or not builtins_known.is_plain_key(name):
                known = False
            else:
                made[name] = held
        return made if known else UNKNOWN

    def _of_binop(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self.value(node.left, frame), self.value(node.right, frame)
        if self.pending:
            self.place, self.module = node, frame.module
            self.touched(left, writes=False)
            self.touched(right, writes=False)
        return builtins_known.operate(type(node.op).__name__, left, right)

    def _of_unaryop(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            answer = self.truth(value)
            return UNKNOWN if answer is None else not answer
        if isinstance(value, Tensor):
            return Tensor(value.shape, value.dtype)
        if isinstance(value, (int, float)):
            return -value if isinstance(node.op, ast.USub) else +value if isinstance(node.op, ast.UAdd) else UNKNOWN
        return UNKNOWN

    def _of_boolop(self, node: ast.BoolOp, frame: Frame) -> Any:
        stops = isinstance(node.op, ast.Or)
        value: Any = UNKNOWN
        for position, operand in enumerate(node.values):
            value = self.value(operand, frame)
            answer = self.truth(value)
            if answer is None:
                rest = node.values[position + 1 :]
                if any(self.sources.matters(one) for one in rest):
                    raise Undecided
                self.forget(rest, frame)
                # an unknown operand decides nothing if a later one does
                return UNKNOWN
            if answer is stops:
                return value
        return value

    def _of_compare(self, node: ast.Compare, frame: Frame) -> Any:
        left = self.value(node.left, frame)
        result: Any = True
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node, frame)
            if isinstance(right, Outside) and right.name == "os.environ" and isinstance(left, str):
                right = self.environment if left in self.environment else right
            self.world.step(sum(len(side) for side in (left, right) if isinstance(side, (list, tuple, str))))
            one = builtins_known.compare(type(operator).__name__, left, right)
            if one is False:
                return False
            result = result if one is True else one
            left = right
        return result

    def _of_ifexp(self, node: ast.IfExp, frame: Frame) -> Any:
        answer = self.truth(self.value(node.test, frame))
        if answer is None:
            if self.sources.matters(node.body) or self.sources.matters(node.orelse):
                raise Undecided
            self.forget([node.body, node.orelse], frame)
            return UNKNOWN
        return self.value(node.body if answer else node.orelse, frame)

    def _of_namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self.value(node.value, frame)
        self.store(node.target, value, frame)
        return value

    def _of_joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Any:
        text: str | None = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                text = None if text is None else text + str(part.value)
                continue
            value = UNKNOWN
            plain = False
            if isinstance(part, ast.FormattedValue):
                value = self.text_of(self.value(part.value, frame))
                plain = isinstance(value, (str, int)) and part.format_spec is None and part.conversion == -1
            text = text + str(value) if plain and text is not None else None
            if text is not None and len(text) > builtins_known.LONGEST:
                text = None
        return UNKNOWN if text is None else text

    def _of_starred(self, node: ast.Starred, frame: Frame) -> Any:
        return self.value(node.value, frame)

    def _of_lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        return Function(node, frame, self.defaults(node.args, frame), None)

    def defaults(self, arguments: ast.arguments, frame: Frame) -> dict[str, Any]:
        """Return the defaults of parameters."""
        positional = [*arguments.posonlyargs, *arguments.args]
        last = positional[len(positional) - len(arguments.defaults) :]
        found = {one.arg: self.value(value, frame) for one, value in zip(last, arguments.defaults, strict=True)}
        for one, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if given is not None:
                found[one.arg] = self.value(given, frame)
        return found

    def _of_listcomp(self, node: ast.ListComp, frame: Frame) -> Any:
        return self._comprehended(node.elt, node.generators, frame)

    def _of_generatorexp(self, node: ast.GeneratorExp, frame: Frame) -> Any:
        if self.sources.matters(node.elt):
            raise Undecided
        items = self._comprehended(node.elt, node.generators, frame)
        return Supply(items) if isinstance(items, list) else UNKNOWN

    def _of_setcomp(self, node: ast.SetComp, frame: Frame) -> Any:
        items = self._comprehended(node.elt, node.generators, frame)
        plain = isinstance(items, list) and all(map(builtins_known.is_plain_key, items))
        return set(items) if plain else UNKNOWN

    def _of_dictcomp(self, node: ast.DictComp, frame: Frame) -> Any:
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        items = self._comprehended(pair, node.generators, frame)
        plain = isinstance(items, list) and all(builtins_known.is_plain_key(key) for key, _ in items)
        return dict(items) if plain else UNKNOWN

    def _comprehended(self, element: ast.expr, generators: list[ast.comprehension], frame: Frame) -> Any:
        inner = Frame(frame.module, {}, frame)
        found: list[Any] = []

        def turn(level: int) -> bool:
            if level == len(generators):
                found.append(self.value(element, inner))
                return len(found) <= builtins_known.LONGEST
            one = generators[level]
            items = self.items(self.value(one.iter, inner))
            if items is None:
                return False
            for item in items:
                self.store(one.target, item, inner)
                answers = [self.truth(self.value(test, inner)) for test in one.ifs]
                if False in answers:
                    continue
                if None in answers or not turn(level + 1):
                    return False
            return True

        if turn(0):
            return found
        if self.sources.matters(element):
            raise Undecided
        return UNKNOWN

    def resolved(self, names: dict[str, Any], name: str) -> Any:
        """Return the value of a name; one of another module is resolved now."""
        value = names[name]
        if isinstance(value, Deferred):
            found: Any = value.module
            for part in value.names:
                found = self.attribute(found, part)
            names[name] = value = found
        return value

    # questions

    def truth(self, value: Any) -> bool | None:
        """Return whether a value is true; None if that is not known."""
        if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict, set, range)):
            return None if id(value) in self.lost else bool(value)
        if isinstance(value, Tensor):
            return (
                bool(value.data[0])
                if value.data is not None and len(value.data) == 1 and value.data[0] is not UNKNOWN
                else None
            )
        if isinstance(value, Supply):
            return True
        if isinstance(value, Instance):
            size = self.length(value)
            return None if size is None else size > 0
        if isinstance(value, (Function, Class, Bound, Group, Work)):
            return True
        return None

    def length(self, value: Any) -> int | None:
        """Return ``len(value)``."""
        if id(value) in self.lost:
            return None
        if isinstance(value, (list, tuple, dict, set, str, range)):
            return len(value)
        if isinstance(value, Tensor):
            return value.shape[0] if value.shape else None
        if isinstance(value, Instance) and value.cls is not None and value.cls.is_plain:
            size = self.special(value, "__len__", [])
            return size if isinstance(size, int) else None
        if isinstance(value, torch_calls.Loader):
            return value.turns
        return None

    def items(self, value: Any) -> list[Any] | None:
        """Return what a loop over a value gets, None if that is not known."""
        if id(value) in self.lost:
            return None
        if isinstance(value, (list, tuple, dict, range, str)):
            if len(value) > builtins_known.LONGEST:
                return None
            self.world.step(len(value))
            return list(value)
        if isinstance(value, set):
            return sorted(value, key=repr) if len(value) <= 1 else None
        if isinstance(value, Supply):
            items, value.items = value.items, []
            return items
        if isinstance(value, Generated):
            return self.collected(value)
        if isinstance(value, torch_calls.Loader):
            return value.batches()
        if isinstance(value, Tensor) and value.shape and value.shape[0] <= builtins_known.LONGEST:
            return [tensors.item(value, place) for place in range(value.shape[0])]
        return None

    def text_of(self, value: Any) -> Any:
        """Return ``str(value)`` of an object of the project; else the value."""
        if isinstance(value, Instance) and value.cls is not None and value.cls.lookup("__str__") is not None:
            return self.special(value, "__str__", [])
        return value
