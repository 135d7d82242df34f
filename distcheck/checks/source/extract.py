"""Makes the summary of one source file in one pass over its syntax tree. It knows Python, and nothing of ranks.

Within a function the value of a name is followed from assignment to use, through branches; across functions a name is
all that was ever assigned to it. What a term means is decided when files are linked.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

from .expressions import OPERATORS, Expressions, constant_truth, dotted_name
from .source_parsing import comments_in, parse
from .summary import FileSummary, Header
from .summary_tables import Frame
from .vocabulary import word_set

#: Calls that leave the process.
_LEAVING = frozenset({"sys.exit", "os._exit", "exit", "quit", "os.abort"})
#: Names of in-place collectives: after them a tensor holds the same on all ranks of the group.
_IN_PLACE = word_set(
    "all_reduce broadcast broadcast_object_list all_gather all_gather_object all_gather_into_tensor "
    "all_gather_single allreduce broadcast_"
)
#: Deeper trees than this are not followed; Python's own parser stops at about the same depth.
_DEEPEST = 150


#: How a statement leaves its block, where it always does; all others return.
_LEAVES: dict[type, str] = {ast.Raise: "raise", ast.Break: "break", ast.Continue: "continue", ast.Expr: "call"}

#: An exit of a block: the term under which it is taken (-1: always), its kind, its line.
Exit = tuple[int, str, int]


def extract(text: bytes | str) -> FileSummary:
    """Return the summary of a Python source file; one that does not parse has a ``problem`` and nothing else.

    :param text: bytes as they stand in the file (its encoding cookie is honoured), or text
    """
    comments = comments_in(text)
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


def _unreadable(message: str, line: int, column: int, comments: list[tuple[int, str]]) -> FileSummary:
    header = Header(comments, (message, line, max(column, 1)), False, [], [])
    return FileSummary(header, [("-",)], [], [(-1, "", 0, True, 0, 0)], [], [])


#: Exits of one loop whose assignments are kept.
_MOST_EXITS = 8


class _Extractor(Expressions):
    """Enters statements: each method returns whether control never gets past it, and the conditions of partial exits;
    None where it always goes on.
    """

    def __init__(self, comments: list[tuple[int, str]]) -> None:
        super().__init__(comments)
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
        if dotted_name(value.func) in _LEAVING:
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

    def augmented(self, node: ast.AugAssign) -> None:
        operator = OPERATORS.get(type(node.op), "?")
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
        constant = constant_truth(node.test)
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
        saved, self.frame = self.frame, Frame(scope, {})
        self.suite(node.body)
        self.frame, self.owner = saved, saved_owner
        self.bind(node.name, self.term("cls", number, node.name))


def _is_main_guard(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and len(test.comparators) == 1
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == "__main__"
    )


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
