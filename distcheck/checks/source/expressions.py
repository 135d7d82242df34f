"""Expressions of a file as terms of its summary."""

from __future__ import annotations

import ast
from typing import Any

from distcheck.core.patterns import lazy

from .keyword_items import KeywordItems
from .summary_tables import Frame, SummaryTables

#: So many items of a dict are followed.
_MOST_ITEMS = 12
#: Texts about a launch or a location, wherever they stand.
_TEXTS = lazy(r"torch\.distributed\.(launch|run)|torchrun|tcp://|file://|localhost|127\.0\.0\.1")
_LONGEST_TEXT = 200

OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.Not: "not", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
}  # fmt: skip


class Expressions(SummaryTables):
    """Enters expressions: each method returns the index of its term."""

    def __init__(self, comments: list[tuple[int, str]]) -> None:
        super().__init__(comments)
        self.items = KeywordItems(self.terms, self.term)
        self.expressions: dict[type, Any] = {
            ast.Constant: self.constant, ast.Name: self.name, ast.Attribute: self.attribute, ast.Call: self.call,
            ast.Subscript: self.subscript, ast.BinOp: self.arithmetic, ast.UnaryOp: self.unary,
            ast.BoolOp: self.boolean,
            ast.Compare: self.compare, ast.IfExp: self.choice, ast.Tuple: self.tuple, ast.List: self.list,
            ast.Set: self.list, ast.Dict: self.dict, ast.JoinedStr: self.joined, ast.FormattedValue: self.formatted,
            ast.Lambda: self.lambda_, ast.ListComp: self.comprehension, ast.SetComp: self.comprehension,
            ast.GeneratorExp: self.comprehension, ast.DictComp: self.comprehension, ast.Await: self.awaited,
            ast.Yield: self.yielded, ast.YieldFrom: self.yielded, ast.NamedExpr: self.walrus, ast.Starred: self.starred,
            ast.Slice: self.slice,
        }  # fmt: skip

    def visit(self, node: ast.expr, use: str = "value") -> int:
        handler = self.expressions.get(type(node))
        if handler is None:
            return self.unknown
        self.use = use
        found: int = handler(node)
        if use == "test" and type(node) in (ast.Name, ast.Attribute):
            self.event("test", node, found)
        return found

    def store(self, target: ast.expr, value: int, node: ast.stmt | ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
            self.event("bind", node, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = self.terms[value]
            items = parts[1] if parts[0] in ("t", "l") and len(parts[1]) == len(target.elts) else None
            for position, element in enumerate(target.elts):
                inner = element.value if isinstance(element, ast.Starred) else element
                item = items[position] if items else self.term("x", value, position)
                self.store(inner, item, node)
        elif isinstance(target, ast.Attribute):
            base = self.visit(target.value)
            self.event("attribute", node, base, target.attr, value)
            path = dotted_name(target)
            if path:
                self.frame.env[path] = value
                self.frame.dotted = True
        elif isinstance(target, ast.Subscript):
            base = self.visit(target.value)
            index = self.visit(target.slice)
            self.event("store", node, base, index, value, "=")
            self.items.stored(self.frame.env, target.value, index, value)
            if isinstance(target.value, ast.Name):
                self.add_item(target.value.id, index, value)
        elif isinstance(target, ast.Starred):
            self.store(target.value, value, node)

    def add_item(self, name: str, index: int, value: int) -> None:
        """Let a name that holds a dict display hold one item more from here on, if the item is what a call returns."""
        display = self.terms[self.frame.env.get(name, self.unknown)]
        if display[0] == "d" and len(display[1]) < _MOST_ITEMS and self.terms[value][0] == "c":
            self.frame.env[name] = self.term("d", (*display[1], index), (*display[2], value))

    def enter(
        self, name: str, kind: str, arguments: ast.arguments, decorators: tuple[int, ...], node: ast.stmt | ast.expr
    ) -> int:
        positional = [*arguments.posonlyargs, *arguments.args]
        first_default = len(positional) - len(arguments.defaults)
        parameters: list[tuple[str, int, str]] = []
        for position, argument in enumerate(positional):
            default = -1
            if position >= first_default:
                default = self.visit(arguments.defaults[position - first_default])
            parameters.append((argument.arg, default, ""))
        if arguments.vararg is not None:
            parameters.append((arguments.vararg.arg, -1, "*"))
        for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            parameters.append((argument.arg, self.visit(value) if value is not None else -1, "k"))
        if arguments.kwarg is not None:
            parameters.append((arguments.kwarg.arg, -1, "**"))
        return self.new_scope(name, kind, tuple(parameters), decorators, node)

    def frame_of(self, scope: int) -> Frame:
        """Return the frame in which a function begins: its names are its parameters."""
        return Frame(scope, {name: self.term("p", scope, name) for name, _, _ in self.scopes[scope][5]})

    def constant(self, node: ast.Constant) -> int:
        value: Any = node.value
        if value is None:
            return self.term("k", "none", None)
        kind = type(value).__name__
        if kind == "str":
            if _TEXTS.search(value):
                self.event("text", node, value[:_LONGEST_TEXT])
            return self.term("k", "str", value[:_LONGEST_TEXT])
        if kind == "int" and abs(value) > 1 << 62:
            return self.unknown
        if kind in ("int", "bool", "float"):
            return self.term("k", kind, value)
        return self.term("k", "other", None)

    def name(self, node: ast.Name) -> int:
        found = self.frame.env.get(node.id)
        if found is not None:
            return found
        return self.term("v", self.frame.scope, node.id)

    def attribute(self, node: ast.Attribute) -> int:
        path = dotted_name(node) if self.frame.dotted else ""
        if path:
            found = self.frame.env.get(path)
            if found is not None:
                return found
        return self.term("a", self.visit(node.value, "attribute"), node.attr)

    def call(self, node: ast.Call) -> int:
        use = self.use
        callee = self.visit(node.func, "callee")
        arguments: list[int] = []
        star = False
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                star = True
                self.visit(argument.value, "argument")
                continue
            arguments.append(self.visit(argument, "argument"))
        keywords: list[tuple[str, int]] = []
        for keyword in node.keywords:
            value = self.visit(keyword.value, "argument")
            if keyword.arg is None:
                given, whole = self.items.given(self.frame.env, keyword.value, value)
                keywords.extend(given.items())
                star = star or not whole
                continue
            keywords.append((keyword.arg, value))
        term = self.term("c", callee, tuple(arguments), tuple(keywords), star, len(self.events))
        self.event("call", node, term, use)
        return term

    def subscript(self, node: ast.Subscript) -> int:
        base = self.visit(node.value, "subscript")
        index = self.visit(node.slice, "index")
        term = self.term("s", base, index)
        if isinstance(node.value, (ast.Attribute, ast.Name)):
            name = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
            if name == "environ":
                self.event("read", node, term)
        return term

    def arithmetic(self, node: ast.BinOp) -> int:
        left = self.visit(node.left, "arithmetic")
        right = self.visit(node.right, "arithmetic")
        return self.term("o", OPERATORS.get(type(node.op), "?"), left, right)

    def unary(self, node: ast.UnaryOp) -> int:
        operand = self.visit(node.operand, "arithmetic" if not isinstance(node.op, ast.Not) else "test")
        operator = OPERATORS[type(node.op)]
        parts = self.terms[operand]
        if operator == "-" and parts[0] == "k" and parts[1] in ("int", "float"):
            return self.term("k", parts[1], -parts[2])
        return self.term("u", operator, operand)

    def boolean(self, node: ast.BoolOp) -> int:
        conjunction = isinstance(node.op, ast.And)
        before = self.block
        operands = []
        use = self.use
        for operand in node.values:
            term = self.visit(operand, use if operand is node.values[-1] else "test")
            operands.append(term)
            if operand is not node.values[-1]:
                self.block = self.node("if", term, conjunction, operand.lineno, node.end_lineno or node.lineno)
        self.block = before
        found = self.term("and" if conjunction else "or", tuple(operands))
        if not conjunction:
            self.event("or", node, found, use)
        return found

    def compare(self, node: ast.Compare) -> int:
        left = self.visit(node.left, "compare")
        found = []
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.visit(comparator, "compare")
            term = self.term("=", OPERATORS[type(operator)], left, right)
            found.append(term)
            for side in (left, right):
                parts = self.terms[side]
                numbers = parts[0] == "k" and parts[1] in ("int", "bool", "float")
                if numbers or (parts[0] in ("t", "l") and parts[1]):
                    self.event("compare", node, term)
                    break
            left = right
        return found[0] if len(found) == 1 else self.term("and", tuple(found))

    def choice(self, node: ast.IfExp) -> int:
        use = self.use
        constant = constant_truth(node.test)
        if constant is not None:
            return self.visit(node.body if constant else node.orelse, use)
        test = self.visit(node.test, "test")
        before = self.block
        self.block = self.node("if", test, True, node.lineno, node.end_lineno or node.lineno)
        yes = self.visit(node.body, use)
        self.block = before
        self.block = self.node("if", test, False, node.lineno, node.end_lineno or node.lineno)
        no = self.visit(node.orelse, use)
        self.block = before
        found = self.term("?", test, yes, no)
        self.event("choice", node, found)
        return found

    def tuple(self, node: ast.Tuple) -> int:
        return self.term("t", tuple(self.visit(element, "element") for element in node.elts))

    def list(self, node: ast.List | ast.Set) -> int:
        elements = tuple(self.visit(element, "element") for element in node.elts)
        return self.term("l", elements, "set") if isinstance(node, ast.Set) else self.term("l", elements)

    def dict(self, node: ast.Dict) -> int:
        keys = tuple(self.visit(key) if key is not None else -1 for key in node.keys)
        return self.term("d", keys, tuple(self.visit(value, "element") for value in node.values))

    def joined(self, node: ast.JoinedStr) -> int:
        return self.term("f", tuple(self.visit(part, "text") for part in node.values))

    def formatted(self, node: ast.FormattedValue) -> int:
        return self.visit(node.value, "text")

    def lambda_(self, node: ast.Lambda) -> int:
        scope = self.enter("<lambda>", "lambda", node.args, (), node)
        saved, self.frame, block, self.block = self.frame, self.frame_of(scope), self.block, 0
        value = self.visit(node.body, "return")
        self.event("return", node, value)
        self.frame, self.block = saved, block
        return self.term("fn", scope, "<lambda>")

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        before, env = self.block, self.frame.env
        self.frame.env = dict(env)
        iterable = self.unknown
        tests: list[int] = []
        for generator in node.generators:
            iterable = self.visit(generator.iter)
            self.block = self.node("for", iterable, True, node.lineno, node.end_lineno or node.lineno)
            self.store_quietly(generator.target, self.term("e", iterable))
            for condition in generator.ifs:
                test = self.visit(condition, "test")
                tests.append(test)
                self.block = self.node("if", test, True, node.lineno, node.end_lineno or node.lineno)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            element = self.visit(node.value, "element")
        else:
            element = self.visit(node.elt, "element")
        self.block, self.frame.env = before, env
        kind = -1 if isinstance(node, ast.GeneratorExp) else -2 if isinstance(node, ast.SetComp) else self.unknown
        return self.term("*", element, iterable, kind, *tests)

    def store_quietly(self, target: ast.expr, value: int) -> None:
        """Targets of comprehensions: names of their own, seen by nothing else."""
        if isinstance(target, ast.Name):
            self.frame.env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for position, element in enumerate(target.elts):
                self.store_quietly(element, self.term("x", value, position))
        elif isinstance(target, ast.Starred):
            self.store_quietly(target.value, value)

    def awaited(self, node: ast.Await) -> int:
        return self.visit(node.value, self.use)

    def yielded(self, node: ast.Yield | ast.YieldFrom) -> int:
        term = self.visit(node.value, "return") if node.value is not None else -1
        self.event("yield", node, term)
        return self.unknown

    def walrus(self, node: ast.NamedExpr) -> int:
        value = self.visit(node.value, f"assign:{node.target.id}")
        self.store(node.target, value, node)
        return value

    def starred(self, node: ast.Starred) -> int:
        return self.term("e", self.visit(node.value))

    def slice(self, node: ast.Slice) -> int:
        parts = (node.lower, node.upper, node.step)
        return self.term(":", tuple(-1 if part is None else self.visit(part) for part in parts))


def dotted_name(node: ast.expr) -> str:
    """``a.b.c`` for such an expression, empty for any other."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    names.append(node.id)
    return ".".join(reversed(names))


def constant_truth(test: ast.expr) -> bool | None:
    """Return whether a test is true if it is a constant, as in ``if 0:``; else None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = constant_truth(test.operand)
        return None if inner is None else not inner
    return bool(test.value) if isinstance(test, ast.Constant) else None
