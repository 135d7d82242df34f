"""Makes the summary of one source file in one pass over its syntax tree. It knows Python, and nothing of ranks.

Within a function the value of a name is followed from assignment to use, through branches; across functions a name is
all that was ever assigned to it. What a term means is decided when files are linked.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from functools import partial, reduce
from typing import Any

from .keyword_items import KeywordItems
from .summary import Block, FileSummary, Header
from .vocabulary import word_set

#: Texts about a launch or a location, wherever they stand.
_TEXTS = re.compile(r"torch\.distributed\.(launch|run)|torchrun|tcp://|file://|localhost|127\.0\.0\.1")
#: Calls that leave the process.
_LEAVING = frozenset({"sys.exit", "os._exit", "exit", "quit", "os.abort"})
#: Names of in-place collectives: after them a tensor holds the same on all ranks of the group.
_IN_PLACE = word_set(
    "all_reduce broadcast broadcast_object_list all_gather all_gather_object all_gather_into_tensor "
    "all_gather_single allreduce broadcast_"
)
_COMMENTS = re.compile(rb"noqa|distcheck", re.IGNORECASE)
_OURS = re.compile(rb"noqa[ \t]*:[ \t]*[^\n]*DC|distcheck[ \t]*:", re.IGNORECASE)
_BARE = re.compile(r"\bnoqa\b", re.IGNORECASE)
_COMMENT = re.compile(r"noqa|distcheck\s*:", re.IGNORECASE)
#: Deeper trees than this are not followed; Python's own parser stops at about the same depth.
_DEEPEST = 150
_LONGEST_TEXT = 200

_OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.Not: "not", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
}  # fmt: skip

#: How a statement leaves its block, where it always does; all others return.
_LEAVES: dict[type, str] = {ast.Raise: "raise", ast.Break: "break", ast.Continue: "continue", ast.Expr: "call"}

#: An exit of a block: the term under which it is taken (-1: always), its kind, its line.
Exit = tuple[int, str, int]


def extract(text: bytes | str) -> FileSummary:
    """Return the summary of a Python source file; one that does not parse has a ``problem`` and nothing else.

    :param text: bytes as they stand in the file (its encoding cookie is honoured), or text
    """
    comments = _comments(text)
    try:
        tree = parse(text)
    except SyntaxError as error:
        return _unreadable(error.msg or "invalid syntax", error.lineno or 1, error.offset or 1, comments)
    except ValueError as error:  # null bytes on some versions of Python
        return _unreadable(str(error), 1, 1, comments)
    except (RecursionError, MemoryError):
        return _unreadable("it is nested too deeply", 1, 1, comments)
    extractor = _Extractor(comments)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 30 * _DEEPEST))
    try:
        return extractor.run(tree)
    except RecursionError:
        return _unreadable("it is nested too deeply", 1, 1, comments)
    finally:
        sys.setrecursionlimit(limit)


def parse(text: bytes | str) -> ast.Module:
    """Return the syntax tree of a source; what Python would warn of in it (an unknown escape) is not ours to print.

    :raises SyntaxError, ValueError, RecursionError, MemoryError: as :func:`ast.parse`
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parses(text: str) -> bool:
    """Return whether Python can parse a source."""
    try:
        parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _unreadable(message: str, line: int, column: int, comments: list[tuple[int, str]]) -> FileSummary:
    header = Header(comments, (message, line, max(column, 1)), False, [], [])
    return FileSummary(header, [("-",)], [], [(-1, "", 0, True, 0, 0)], [], [])


def _comments(text: bytes | str) -> list[tuple[int, str]]:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    lower = data.lower()
    if (b"noqa" not in lower and b"distcheck" not in lower) or not _COMMENTS.search(data):
        return []
    if not _OURS.search(data):
        # only bare ones: what looks like one within a text does no harm
        lines = re.split(r"\r\n?|\n", text if isinstance(text, str) else data.decode("utf-8", "replace"))
        places = [(number, line, line.find("#")) for number, line in enumerate(lines, 1)]
        return [(number, line[at:]) for number, line, at in places if at >= 0 and _BARE.search(line, at)]
    found = []
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.COMMENT and _COMMENT.search(token.string):
                found.append((token.start[0], token.string))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # what was read until here counts; the parser reports the rest
    return found


#: Exits of one loop whose assignments are kept.
_MOST_EXITS = 8


class _Frame:
    """The state within one scope: what each name holds at this point."""

    __slots__ = ("dotted", "env", "globals", "leaving", "scope")

    def __init__(self, scope: int, env: dict[str, int]) -> None:
        self.scope = scope
        self.env = env
        #: whether ``env`` may hold attributes as well
        self.dotted = False
        self.globals: set[str] = set()
        #: what names hold where ``break`` or ``continue`` leaves a step, for each loop around this point
        self.leaving: list[list[dict[str, int]]] = []


class _Extractor:
    def __init__(self, comments: list[tuple[int, str]]) -> None:
        self.comments = comments
        self.terms: list[tuple[Any, ...]] = []
        self.index: dict[tuple[Any, ...], int] = {}
        self.unknown = self.term("-")
        self.events: list[tuple[Any, ...]] = []
        self.blocks: list[Block] = [(-1, "", 0, True, 0, 0)]
        self.scopes: list[list[Any]] = []
        self.classes: list[tuple[Any, ...]] = []
        self.imports: list[str] = []
        self.block = 0
        self.owner = -1
        self.use = "value"
        self.has_main_guard = False
        self.frame = _Frame(0, {})
        self.items = KeywordItems(self.terms, self.term)
        self.statements: dict[type, Any] = {
            ast.Expr: self.expression, ast.Assign: self.assign, ast.AugAssign: self.augmented,
            ast.AnnAssign: self.annotated, ast.If: self.branch, ast.For: self.loop, ast.AsyncFor: self.loop,
            ast.While: self.loop, ast.Try: self.attempt, ast.With: self.with_block,
            ast.AsyncWith: self.with_block,
            ast.FunctionDef: self.function, ast.AsyncFunctionDef: self.function, ast.ClassDef: self.class_body,
            ast.Return: self.give_back, ast.Raise: self.throw, ast.Break: self.leave_loop,
            ast.Continue: self.leave_loop,
            ast.Import: self.imported, ast.ImportFrom: self.imported_from, ast.Global: self.declared_global,
            ast.Assert: self.asserted, ast.Delete: self.deleted, ast.Match: self.matched,
        }  # fmt: skip
        if hasattr(ast, "TryStar"):
            self.statements[ast.TryStar] = self.attempt
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

    def run(self, tree: ast.Module) -> FileSummary:
        self.scopes.append(["", "", "module", -1, self.owner, (), (), self.block, 1, 0, {}, []])
        self.suite(tree.body)
        # bound methods make a circle: without it all of this goes as soon as the summary is made
        self.statements, self.expressions = {}, {}
        del self.items
        header = Header(
            self.comments, None, self.has_main_guard, list(dict.fromkeys(self.imports)), self.calls_by_owner()
        )
        return FileSummary(
            header, self.terms, self.events, self.blocks, [tuple(scope) for scope in self.scopes], self.classes
        )

    def dotted(self, number: int) -> str:
        """Return the dotted name of a term that is an import or an attribute of one; empty for any other."""
        term = self.terms[number]
        if term[0] == "i":
            return str(term[1])
        if term[0] == "a" and (base := self.dotted(term[1])):
            return f"{base}.{term[2]}"
        return ""

    def calls_by_owner(self) -> list[tuple[str, list[str]]]:
        """What each outermost function or class calls, and the module itself (named by an empty text): last names, and
        dotted ones of what is imported."""
        outermost: list[str] = []
        for scope in self.scopes:
            outermost.append(scope[0] if scope[3] <= 0 else outermost[scope[3]])
        found: dict[str, set[str]] = {}
        terms = self.terms
        for event in self.events:
            kind = event[0]
            if kind == "call":
                number = terms[event[7]][1]
                callee = terms[number]
                name = (
                    callee[2] if callee[0] in ("a", "v") else callee[1].rsplit(".", 1)[-1] if callee[0] == "i" else ""
                )
                calls = found.setdefault(outermost[event[1]], set())
                calls.add(name)
                if callee[0] in ("i", "a"):
                    calls.add(self.dotted(number))
            elif kind == "read" or (kind == "store" and self.dotted(event[7]) == "os.environ"):
                found.setdefault(outermost[event[1]], set()).add("os.environ")
            elif kind == "text":
                found.setdefault(outermost[event[1]], set()).add("'…'")
        return [(name, sorted(calls)) for name, calls in found.items()]

    # tables

    def term(self, *parts: Any) -> int:
        """Return the index of a term; equal terms are one."""
        found = self.index.get(parts)
        if found is None:
            found = self.index[parts] = len(self.terms)
            self.terms.append(parts)
        return found

    def node(self, kind: str, term: int, polarity: bool, line: int, end_line: int) -> int:
        self.blocks.append((self.block, kind, term, polarity, line, end_line))
        return len(self.blocks) - 1

    def event(self, kind: str, node: Any, *payload: Any) -> None:
        begin = (node.lineno, node.col_offset)
        end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        self.events.append((kind, self.frame.scope, self.block, *begin, *end, *payload))

    def new_scope(
        self, name: str, kind: str, parameters: tuple[tuple[str, int, str], ...], decorators: tuple[int, ...], node: Any
    ) -> int:
        parent = self.frame.scope
        outer = self.scopes[parent][1]
        qualified = f"{outer}.{name}" if outer else name
        place = (self.block, node.lineno, node.end_lineno or node.lineno)
        self.scopes.append([name, qualified, kind, parent, self.owner, parameters, decorators, *place, {}, []])
        return len(self.scopes) - 1

    # names

    def bind(self, name: str, term: int) -> None:
        frame = self.frame
        prefix = name + "."
        if frame.dotted:
            for key in [key for key in frame.env if key.startswith(prefix)]:
                del frame.env[key]
        frame.env[name] = term
        scope = 0 if name in frame.globals else frame.scope
        self.scopes[scope][10].setdefault(name, []).append(term)

    def merge(self, test: int, yes: dict[str, int], no: dict[str, int]) -> dict[str, int]:
        """Return what names hold after two ways; ``test`` -1 where nothing is known about which was taken."""
        if yes == no:
            return yes
        merged = {**yes, **no}
        # names that are the same on both ways are most of them
        different = dict(yes.items() ^ no.items())
        for name in [name for name in merged if name in different]:
            first, second = yes.get(name, -1), no.get(name, -1)
            if first < 0 or second < 0:
                # an attribute that only one way has assigned may hold anything on the other
                if "." in name:
                    del merged[name]
                continue
            merged[name] = self.term("?", test, first, second) if test >= 0 else self.term("|", first, second)
        return merged

    def join(self, ways: list[dict[str, int]]) -> None:
        """Go on with what names hold after one of several ways, it is not known which."""
        self.frame.env = reduce(partial(self.merge, -1), ways)

    # statements: each returns whether control never gets past it, and the conditions of partial exits; None where it
    # always goes on

    def suite(self, body: list[Any]) -> tuple[bool, list[Exit]]:
        """Visit statements; what stands after a partial exit is placed below a node for that exit."""
        before = self.block
        exits: list[Exit] = []
        for statement in body:
            handler = self.statements.get(type(statement))
            left = None if handler is None else handler(statement)
            if left is None:
                continue
            ended, new = left
            exits.extend(new)
            if ended:
                self.block = before
                return True, exits
            for term, kind, line in new:
                self.block = self.node("exit:" + kind, term, False, line, line)
        self.block = before
        return False, exits

    def expression(self, node: ast.Expr) -> tuple[bool, list[Exit]] | None:
        value = node.value
        if isinstance(value, ast.Constant):
            return None
        self.visit(value, "drop")
        if not isinstance(value, ast.Call):
            return None
        if _dotted(value.func) in _LEAVING:
            self.event("exit", node, "call")
            return True, []
        if value.args:
            self.after_in_place(value)
        if self.events[-1][0] == "call":
            self.items.called(self.frame.env, value, self.events[-1][7])
        return None

    def after_in_place(self, value: ast.Call) -> None:
        """An in-place collective leaves the same value on all ranks: the name holds something new."""
        function = value.func
        method = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        first = value.args[0]
        if method in _IN_PLACE and isinstance(first, ast.Name) and first.id in self.frame.env:
            self.frame.env[first.id] = self.term("u", "reduced", self.frame.env[first.id])

    def assign(self, node: ast.Assign) -> None:
        first = node.targets[0]
        use = f"assign:{first.id}" if isinstance(first, ast.Name) else "assign:"
        value = self.visit(node.value, use)
        for target in node.targets:
            self.store(target, value, node)
        if isinstance(first, ast.Name) and self.items.assigned(self.frame.env, first.id, value):
            self.frame.dotted = True

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
            path = _dotted(target)
            if path:
                self.frame.env[path] = value
                self.frame.dotted = True
        elif isinstance(target, ast.Subscript):
            base = self.visit(target.value)
            index = self.visit(target.slice)
            self.event("store", node, base, index, value, "=")
            self.items.stored(self.frame.env, target.value, index, value)
        elif isinstance(target, ast.Starred):
            self.store(target.value, value, node)

    def augmented(self, node: ast.AugAssign) -> None:
        operator = _OPERATORS.get(type(node.op), "?")
        target = node.target
        value = self.visit(node.value, "arithmetic")
        if isinstance(target, ast.Subscript):
            base = self.visit(target.value)
            index = self.visit(target.slice)
            self.event("store", node, base, index, value, operator + "=")
        else:
            self.store(target, self.term("o", operator, self.visit(target), value), node)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            use = f"assign:{node.target.id}" if isinstance(node.target, ast.Name) else "assign:"
            self.store(node.target, self.visit(node.value, use), node)

    def branch(self, node: ast.If) -> tuple[bool, list[Exit]]:
        test = self.visit(node.test, "test")
        if _is_main_guard(node.test):
            self.has_main_guard = True
        constant = _constant_truth(node.test)
        if constant is not None:
            # the other arm never runs
            return self.suite(node.body if constant else node.orelse)
        env = self.frame.env
        before = self.block
        end = node.end_lineno or node.lineno
        self.frame.env = dict(env)
        self.block = self.node("if", test, True, node.lineno, end)
        first_ended, first_exits = self.suite(node.body)
        yes = self.frame.env
        self.frame.env = dict(env)
        second_ended = False
        second_exits: list[Exit] = []
        if node.orelse:
            self.block = before
            self.block = self.node("if", test, False, node.lineno, end)
            second_ended, second_exits = self.suite(node.orelse)
        no = self.frame.env
        self.block = before
        if first_ended and not second_ended:
            self.frame.env = no
        elif second_ended and not first_ended:
            self.frame.env = yes
        else:
            self.frame.env = self.merge(test, yes, no)
        exits: list[Exit] = []
        inverse = self.term("u", "not", test) if node.orelse else -1
        exits.extend((self.both(test, term), kind, line) for term, kind, line in first_exits)
        exits.extend((self.both(inverse, term), kind, line) for term, kind, line in second_exits)
        if first_ended:
            exits.append((test, self.kind_of(node.body), node.lineno))
        if second_ended:
            exits.append((inverse, self.kind_of(node.orelse), node.lineno))
        return first_ended and second_ended, exits

    def kind_of(self, body: list[ast.stmt]) -> str:
        """Return how a block that always leaves does it."""
        last = body[-1] if body else None
        if isinstance(last, (ast.If, ast.With, ast.Try)):
            return self.kind_of(last.body)
        return _LEAVES.get(type(last), "return")

    def both(self, first: int, second: int) -> int:
        if first < 0:
            return second
        if second < 0:
            return first
        return self.term("and", (first, second))

    def loop(self, node: ast.For | ast.AsyncFor | ast.While) -> tuple[bool, list[Exit]]:
        if isinstance(node, ast.While):
            kind, term = "while", self.visit(node.test, "test")
        else:
            kind, term = "for", self.visit(node.iter)
        before, env = self.block, self.frame.env
        self.frame.env = dict(env)
        self.block = self.node(kind, term, True, node.lineno, node.end_lineno or node.lineno)
        if not isinstance(node, ast.While):
            self.store(node.target, self.term("e", term), node.target)
        self.frame.leaving.append([])
        _, exits = self.suite(node.body)
        for left in self.frame.leaving.pop():
            self.frame.env = self.merge(-1, self.frame.env, left)
        self.frame.env = self.merge(-1, self.frame.env, env)
        self.block = before
        if node.orelse:
            self.block = self.node("else", self.unknown, True, node.lineno, node.end_lineno or node.lineno)
            self.suite(node.orelse)
            self.block = before
        forever = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        breaks = any(kind == "break" for _, kind, _ in exits) or _breaks(node.body)
        return forever and not breaks, [item for item in exits if item[1] not in ("break", "continue")]

    def attempt(self, node: ast.Try) -> tuple[bool, list[Exit]]:
        before, env = self.block, self.frame.env
        end = node.end_lineno or node.lineno
        self.frame.env = dict(env)
        self.block = self.node("try", self.unknown, True, node.lineno, end)
        ended, exits = self.suite(node.body)
        if node.orelse and not ended:
            ended, more = self.suite(node.orelse)
            exits.extend(more)
        after = self.frame.env
        ways = [] if ended else [after]
        all_ended = ended
        entry = self.merge(-1, after, env)
        for handler in node.handlers:
            self.frame.env = dict(entry)
            self.block = before
            caught = self.visit(handler.type) if handler.type is not None else self.unknown
            self.block = self.node("except", caught, True, handler.lineno, handler.end_lineno or handler.lineno)
            if handler.name:
                self.bind(handler.name, self.unknown)
            handler_ended, more = self.suite(handler.body)
            exits.extend((self.unknown if term < 0 else term, kind, line) for term, kind, line in more)
            all_ended = all_ended and handler_ended
            if not handler_ended:
                ways.append(self.frame.env)
        self.join(ways or [entry])
        self.block = before
        if node.finalbody:
            self.block = self.node("finally", self.unknown, True, node.lineno, end)
            final_ended, more = self.suite(node.finalbody)
            exits.extend(more)
            all_ended = all_ended or final_ended
            self.block = before
        return all_ended, exits

    def with_block(self, node: ast.With | ast.AsyncWith) -> tuple[bool, list[Exit]]:
        before = self.block
        for item in node.items:
            context = self.visit(item.context_expr, "with")
            self.block = self.node("with", context, True, node.lineno, node.end_lineno or node.lineno)
            if item.optional_vars is not None:
                self.store(item.optional_vars, self.term("w", context), item.optional_vars)
        result = self.suite(node.body)
        self.block = before
        return result

    def matched(self, node: ast.Match) -> tuple[bool, list[Exit]]:
        subject = self.visit(node.subject)
        before, env = self.block, self.frame.env
        ways: list[dict[str, int]] = []
        exits: list[Exit] = []
        all_ended, default = True, False
        for case in node.cases:
            self.frame.env = dict(env)
            self.block = before
            pattern = case.pattern
            if isinstance(pattern, ast.MatchValue):
                test = self.term("=", "==", subject, self.visit(pattern.value))
            elif isinstance(pattern, ast.MatchSingleton):
                test = self.term("=", "is", subject, self.term("k", "none", None))
            else:
                test = self.unknown
                default = default or (isinstance(pattern, ast.MatchAs) and pattern.pattern is None and not case.guard)
            if case.guard is not None:
                test = self.both(test, self.visit(case.guard)) if test != self.unknown else self.visit(case.guard)
            self.block = self.node("if", test, True, node.lineno, node.end_lineno or node.lineno)
            ended, more = self.suite(case.body)
            exits.extend((self.both(test, term), kind, line) for term, kind, line in more)
            if ended:
                exits.append((test, self.kind_of(case.body), node.lineno))
            else:
                ways.append(self.frame.env)
            all_ended = all_ended and ended
        if not default:
            ways.append(env)
        self.join(ways or [env])
        self.block = before
        return all_ended and default and bool(node.cases), exits

    def give_back(self, node: ast.Return) -> tuple[bool, list[Exit]]:
        term = self.visit(node.value, "return") if node.value is not None else -1
        self.event("return", node, term)
        self.event("exit", node, "return")
        return True, []

    def throw(self, node: ast.Raise) -> tuple[bool, list[Exit]]:
        if node.exc is not None:
            self.visit(node.exc)
        self.event("exit", node, "raise")
        return True, []

    def leave_loop(self, node: ast.Break | ast.Continue) -> tuple[bool, list[Exit]]:
        self.event("exit", node, "break" if isinstance(node, ast.Break) else "continue")
        if self.frame.leaving and len(self.frame.leaving[-1]) < _MOST_EXITS:
            self.frame.leaving[-1].append(dict(self.frame.env))
        return True, []

    def asserted(self, node: ast.Assert) -> None:
        self.event("assert", node, self.visit(node.test))

    def deleted(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.frame.env.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                base, index = self.visit(target.value), self.visit(target.slice)
                self.event("store", node, base, index, self.unknown, "del")

    def declared_global(self, node: ast.Global) -> None:
        self.frame.globals.update(node.names)

    def imported(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imports.append(alias.name)
            self.event("import", alias, alias.name)
            if alias.asname:
                self.bind(alias.asname, self.term("i", alias.name))
            else:
                first = alias.name.split(".")[0]
                self.bind(first, self.term("i", first))

    def imported_from(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.scopes[self.frame.scope][11].append(module)
                self.imports.append(module)
                continue
            dotted = module + alias.name if module.endswith(".") else f"{module}.{alias.name}"
            self.imports.append(dotted)
            self.event("import", alias, dotted)
            self.bind(alias.asname or alias.name, self.term("i", dotted))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = tuple(self.visit(decorator) for decorator in node.decorator_list)
        scope = self.enter(node.name, "function", node.args, decorators, node)
        self.bind(node.name, self.term("fn", scope, node.name))
        self.body_of(scope, node.body)

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

    def frame_of(self, scope: int) -> _Frame:
        """Return the frame in which a function begins: its names are its parameters."""
        return _Frame(scope, {name: self.term("p", scope, name) for name, _, _ in self.scopes[scope][5]})

    def body_of(self, scope: int, body: list[ast.stmt]) -> None:
        saved, self.frame, block, self.block = self.frame, self.frame_of(scope), self.block, 0
        owner, self.owner = self.owner, -1
        self.suite(body)
        self.frame, self.block, self.owner = saved, block, owner

    def class_body(self, node: ast.ClassDef) -> None:
        decorators = tuple(self.visit(decorator) for decorator in node.decorator_list)
        bases = tuple(self.visit(base) for base in node.bases)
        number = len(self.classes)
        saved_owner, self.owner = self.owner, number
        scope = self.new_scope(node.name, "class", (), decorators, node)
        self.classes.append((node.name, scope, bases, node.lineno))
        saved, self.frame = self.frame, _Frame(scope, {})
        self.suite(node.body)
        self.frame, self.owner = saved, saved_owner
        self.bind(node.name, self.term("cls", number, node.name))

    # expressions: each returns the index of its term

    def visit(self, node: ast.expr, use: str = "value") -> int:
        handler = self.expressions.get(type(node))
        if handler is None:
            return self.unknown
        self.use = use
        found: int = handler(node)
        if use == "test" and type(node) in (ast.Name, ast.Attribute):
            self.event("test", node, found)
        return found

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
        path = _dotted(node) if self.frame.dotted else ""
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
        return self.term("o", _OPERATORS.get(type(node.op), "?"), left, right)

    def unary(self, node: ast.UnaryOp) -> int:
        operand = self.visit(node.operand, "arithmetic" if not isinstance(node.op, ast.Not) else "test")
        operator = _OPERATORS[type(node.op)]
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
            term = self.term("=", _OPERATORS[type(operator)], left, right)
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
        constant = _constant_truth(node.test)
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


def _dotted(node: ast.expr) -> str:
    """``a.b.c`` for such an expression, empty for any other."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    names.append(node.id)
    return ".".join(reversed(names))


def _is_main_guard(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and len(test.comparators) == 1
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == "__main__"
    )


def _constant_truth(test: ast.expr) -> bool | None:
    """Return whether a test is true if it is a constant, as in ``if 0:``; else None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _constant_truth(test.operand)
        return None if inner is None else not inner
    return bool(test.value) if isinstance(test, ast.Constant) else None


def _breaks(body: list[ast.stmt]) -> bool:
    """Return whether a loop's own body holds a ``break``, in handlers and contexts, too."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(
            statement, (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)) and _breaks(statement.orelse):
                return True
            continue
        inner = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
        inner += [part.body for field in ("handlers", "cases") for part in getattr(statement, field, [])]
        if any(map(_breaks, inner)):
            return True
    return False
