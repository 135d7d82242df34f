"""Follows one rank through a script: a walk over its syntax tree with the values of :mod:`.values`.

Where a value is not known, what is made from it is not known either. A test on such a value is passed over if neither
arm communicates or leaves, and what the arms assign is not known afterwards. Else the rank is followed no further.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from . import builtins_known
from .calls import CONTROL, Abandoned, Break, Calls, Continue, Raised, Return
from .matching import NotApplicable
from .values import (
    UNKNOWN,
    Class,
    Deferred,
    Frame,
    Function,
    Generated,
    Instance,
    Marked,
    Outside,
    Project,
    ScriptExit,
    Tensor,
    Undecided,
)

#: Decorators that change nothing that matters here.
_TRANSPARENT = frozenset(
    [
        *("torch." + name for name in ("no_grad", "inference_mode", "enable_grad")),
        "torch.distributed.elastic.multiprocessing.errors.record",
        *("functools.wraps", "typing.no_type_check", "abc.abstractmethod", "contextlib.contextmanager"),
        *("hydra.main", "click.command", "click.option"),
    ]
)


#: A class with more bases, direct or not, is not known.
_MOST_BASES = 64


class Interpreter(Calls):
    """One rank of a world, from the first line of a script on."""

    def run(self, file: int) -> None:
        """Follow the script in a file to its end."""
        module = self.modules[file] = Project(file)
        module.names["__name__"] = "__main__"
        self.world.files.add(file)
        try:
            self.body(self.sources.tree(file).body, Frame(module, module.names))
        except Raised as raised:
            raise NotApplicable from raised
        except (Return, Break, Continue) as odd:
            raise Undecided from odd

    # statements

    def body(self, statements: Iterable[ast.stmt], frame: Frame) -> None:
        for statement in statements:
            self.world.step()
            getattr(self, f"_do_{type(statement).__name__.lower()}", self._do_other)(statement, frame)

    def _do_other(self, node: ast.stmt, frame: Frame) -> None:
        if self.sources.matters(node):
            raise Undecided
        self.forget([node], frame)

    def _do_pass(self, node: ast.Pass, frame: Frame) -> None:
        pass

    def _do_global(self, node: ast.Global, frame: Frame) -> None:
        for name in node.names:
            frame.shared[name] = frame.module.names

    def _do_nonlocal(self, node: ast.Nonlocal, frame: Frame) -> None:
        for name in node.names:
            found = frame.outer.find(name) if frame.outer else None
            if found is not None:
                frame.shared[name] = found

    def _do_import(self, node: ast.Import, frame: Frame) -> None:
        for alias in node.names:
            if alias.asname:
                self.store_name(alias.asname, self.imported(frame.module.file, alias.name), frame)
            else:
                first = alias.name.partition(".")[0]
                self.store_name(first, self.imported(frame.module.file, first), frame)

    def _do_importfrom(self, node: ast.ImportFrom, frame: Frame) -> None:
        start = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                module = self.imported(frame.module.file, start)
                if isinstance(module, Project):
                    for name, value in self.loaded(module).names.items():
                        if not name.startswith("_"):
                            frame.names[name] = value
                continue
            dotted = f"{start}{alias.name}" if start.endswith(".") else f"{start}.{alias.name}"
            self.store_name(alias.asname or alias.name, self.imported(frame.module.file, dotted), frame)

    def imported(self, file: int, dotted: str) -> Any:
        found = self.sources.locate(file, dotted)
        if found is None:
            return UNKNOWN if dotted.startswith(".") else Outside(dotted)
        module, left = self.modules.setdefault(found[0], Project(found[0])), found[1]
        return Deferred(module, left) if left else module

    def loaded(self, module: Project) -> Project:
        """Return a module of the project with its names: its body is followed when it is first used."""
        if "__name__" not in module.names:
            module.names["__name__"] = "imported"
            self.world.files.add(module.file)
            self.body(self.sources.tree(module.file).body, Frame(module, module.names))
        return module

    def _do_expr(self, node: ast.Expr, frame: Frame) -> None:
        self.value(node.value, frame)

    def _do_assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.value(node.value, frame)
        for target in node.targets:
            self.store(target, value, frame)

    def _do_annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value, frame), frame)

    def _do_augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        reading = ast.copy_location(_as_load(node.target), node.target)
        old, right = self.value(reading, frame), self.value(node.value, frame)
        if isinstance(old, Tensor):
            self.place, self.module = reading, frame.module
            self.touched(old, writes=True)
            old.forget()
            return
        if isinstance(old, list) and isinstance(node.op, ast.Add):
            if isinstance(right, (list, tuple)) and len(old) + len(right) <= builtins_known.LONGEST:
                old.extend(right)
            else:
                self.lose(old)
            return
        self.store(node.target, builtins_known.operate(type(node.op).__name__, old, right), frame)

    def _do_delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                frame.names.pop(target.id, None)
            else:
                self.forget([node], frame)

    def _do_assert(self, node: ast.Assert, frame: Frame) -> None:
        if self.truth(self.value(node.test, frame)) is False:
            raise Raised("AssertionError")

    def _do_raise(self, node: ast.Raise, frame: Frame) -> None:
        name = ""
        if node.exc is not None:
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = (
                called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            )
        if name == "SystemExit":
            raise ScriptExit
        raise Raised(name)

    def _do_return(self, node: ast.Return, frame: Frame) -> None:
        raise Return(None if node.value is None else self.value(node.value, frame))

    def _do_break(self, node: ast.Break, frame: Frame) -> None:
        raise Break

    def _do_continue(self, node: ast.Continue, frame: Frame) -> None:
        raise Continue

    def _do_if(self, node: ast.If, frame: Frame) -> None:
        answer = self.truth(self.value(node.test, frame))
        if answer is None:
            self._pass_over([*node.body, *node.orelse], frame)
        else:
            self.body(node.body if answer else node.orelse, frame)

    def _pass_over(self, statements: list[ast.stmt], frame: Frame) -> None:
        if any(self.sources.matters(one) for one in statements):
            raise Undecided
        self.forget(statements, frame)

    def _do_while(self, node: ast.While, frame: Frame) -> None:
        while True:
            answer = self.truth(self.value(node.test, frame))
            if answer is None:
                return self._pass_over([*node.body, *node.orelse], frame)
            if not answer:
                return self.body(node.orelse, frame)
            try:
                self.body(node.body, frame)
            except Break:
                return None
            except Continue:
                pass

    def _do_for(self, node: ast.For, frame: Frame) -> None:
        iterated = self.value(node.iter, frame)
        if isinstance(iterated, Generated):
            self._for_generator(iterated, node, frame)
            return
        items = self.items(iterated)
        if items is None:
            if not any(self.sources.matters(one) for one in node.body):
                self.forget([node], frame)
                return
            # at least one turn is made on each rank; how many more is not known
            self.world.assumed = True
            self.store(node.target, UNKNOWN, frame)
            self.forget(node.body, frame)
            with contextlib.suppress(Break, Continue):
                self.body(node.body, frame)
            raise Undecided
        for item in items:
            self.store(node.target, item, frame)
            try:
                self.body(node.body, frame)
            except Break:
                return
            except Continue:
                continue
        self.body(node.orelse, frame)

    def _for_generator(self, iterated: Generated, node: ast.For, frame: Frame) -> None:
        """Follow a generator; the body of the loop runs where it yields."""
        left: list[Exception] = []

        def turn(value: Any) -> None:
            self.store(node.target, value, frame)
            try:
                self.body(node.body, frame)
            except Continue:
                pass
            except (Return, Break) as leaves:
                left.append(leaves)
                raise Abandoned from leaves

        try:
            self.enter(iterated.function, iterated.given, iterated.keywords, turn)
        except Abandoned:
            if isinstance(left[0], Return):
                raise left[0] from None
            return
        self.body(node.orelse, frame)

    def _of_yield(self, node: ast.Yield, frame: Frame) -> Any:
        value = None if node.value is None else self.value(node.value, frame)
        if frame.gives is None:
            raise Undecided
        frame.gives(value)
        return UNKNOWN

    def _of_yieldfrom(self, node: ast.YieldFrom, frame: Frame) -> Any:
        items = self.items(self.value(node.value, frame))
        if items is None or frame.gives is None:
            raise Undecided
        for item in items:
            frame.gives(item)
        return UNKNOWN

    def _do_with(self, node: ast.With, frame: Frame) -> None:
        self._with(node.items, node.body, frame)

    def _with(self, items: Sequence[ast.withitem], body: list[ast.stmt], frame: Frame) -> None:
        if not items:
            self.body(body, frame)
            return
        first, rest = items[0], items[1:]
        manager = self.value(first.context_expr, frame)
        if isinstance(manager, Generated):
            self._with_generator(manager, first.optional_vars, rest, body, frame)
            return
        known = isinstance(manager, Instance) and manager.cls is not None
        value = self.special(manager, "__enter__", []) if known else manager
        if first.optional_vars is not None:
            self.store(first.optional_vars, value, frame)
        try:
            self._with(rest, body, frame)
        except CONTROL:
            if known:
                self.special(manager, "__exit__", [None, None, None])
            raise
        if known:
            self.special(manager, "__exit__", [None, None, None])

    def _with_generator(
        self,
        manager: Generated,
        target: ast.expr | None,
        rest: Sequence[ast.withitem],
        body: list[ast.stmt],
        frame: Frame,
    ) -> None:
        """Follow the function of a context manager; the block runs where it yields."""
        left: list[Exception] = []

        def block(value: Any) -> None:
            if target is not None:
                self.store(target, value, frame)
            try:
                self._with(rest, body, frame)
            except (Return, Break, Continue) as leaves:
                left.append(leaves)

        self.enter(manager.function, manager.given, manager.keywords, block)
        if left:
            raise left[0]

    def _do_try(self, node: ast.Try, frame: Frame) -> None:
        try:
            try:
                self.body(node.body, frame)
            except Raised as raised:
                handler = next((one for one in node.handlers if _catches(one, str(raised))), None)
                if handler is None:
                    raise
                if handler.name:
                    self.store_name(handler.name, UNKNOWN, frame)
                self.body(handler.body, frame)
            else:
                self.body(node.orelse, frame)
        except (*CONTROL, Abandoned, ScriptExit):
            self.body(node.finalbody, frame)
            raise
        self.body(node.finalbody, frame)

    def _do_functiondef(self, node: ast.FunctionDef, frame: Frame, owner: Class | None = None) -> None:
        self.store_name(node.name, self._function(node, frame, owner), frame)

    def _function(self, node: ast.FunctionDef, frame: Frame, owner: Class | None) -> Any:
        made: Any = Function(node, frame, self.defaults(node.args, frame), owner)
        for decorator in reversed(node.decorator_list):
            name = decorator.func if isinstance(decorator, ast.Call) else decorator
            value = self.value(name, frame)
            dotted = value.name if isinstance(value, Outside) else ""
            if dotted in ("property", "staticmethod", "classmethod", "functools.cached_property"):
                made = Marked(made, dotted.rpartition(".")[2])
            elif isinstance(value, Function):
                given = self.value(decorator, frame) if isinstance(decorator, ast.Call) else value
                made = self.call(given, [made], {}, None)
            elif dotted not in _TRANSPARENT:
                return UNKNOWN
        return made

    def _do_classdef(self, node: ast.ClassDef, frame: Frame) -> None:
        bases = [self.value(base, frame) for base in node.bases]
        made = Class(node.name, bases, {})
        inner = Frame(frame.module, made.names, frame)
        for statement in node.body:
            self.world.step()
            if isinstance(statement, ast.FunctionDef):
                # a function does not see the names of the class around it
                made.names[statement.name] = self._function(statement, frame, made)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self.body([statement], inner)
        for decorator in node.decorator_list:
            value = self.value(decorator.func if isinstance(decorator, ast.Call) else decorator, frame)
            if not isinstance(value, Outside) or value.name != "dataclasses.dataclass":
                self.store_name(node.name, UNKNOWN, frame)
                return
            fields = [
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            ]
            made.fields = tuple(fields)
        self.store_name(node.name, UNKNOWN if node.keywords or len(made.line) > _MOST_BASES else made, frame)


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return ast.Subscript(target.value, target.slice, ast.Load())


def _catches(handler: ast.ExceptHandler, raised: str) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [
        one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else "" for one in types
    ]
    return raised in names or "Exception" in names or "BaseException" in names
