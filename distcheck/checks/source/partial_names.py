"""Names and attributes that only some ranks assign, and that all of them read: the others raise there.

The summary has no event for reading a name. The few files that assign one under a rank check, and nowhere else,
are parsed once more.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, rank_conditions
from .collective_sequences import condition_text, flow_of, partial_guards, who_runs
from .program import PARTIAL, EventRow, Program, SourceCall, cached
from .rank_reach import Guard
from .source_parsing import parse
from .summary import Scope
from .values import Certainty, Kind, Who

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
#: What raises where the value in a field of a node is None.
_ERRORS_OF_NONE = {
    (ast.Attribute, "value"): "AttributeError",
    (ast.Subscript, "value"): "TypeError",
    (ast.BinOp, "left"): "TypeError",
}
_MOST_CALLERS = 8
_BUILTINS = frozenset(dir(builtins))
_WORD = lazy(r"\w+")
#: A variable of which a method is called, or an item is set.
_FILLED = lazy(r"(?P<name>\w+)[.\[]")


class _Reading(NamedTuple):
    """A node that reads a name, with the tests of the branches around it, and whether it is one of an expression."""

    node: ast.Name
    tests: tuple[ast.expr, ...]
    tried: bool
    #: what is read of it: ``AttributeError`` or ``TypeError`` where it is None, empty where None may do
    of_none: str


class _Partial(NamedTuple):
    """The assignments of a name under a rank check, and that check."""

    rows: list[EventRow]
    guard: Guard
    #: all other assignments are of None
    else_none: bool
    #: the number of all assignments
    total: int = 0
    #: the assignment for all ranks that reads the name itself: ``loader = prepare(loader)``
    again: EventRow | None = None


@probe(rules.DC708)
def names_are_bound_on_all_ranks(program: Program) -> Iterator[Finding]:
    """What one rank assigns is read by that rank only."""
    for _, finding in program.table(readings_of_others):
        yield finding


def readings_of_others(program: Program) -> Iterator[tuple[EventRow, Finding]]:
    """Yield where other ranks raise, and the finding there."""
    yield from _names(program)
    yield from _attributes(program)


def _names(program: Program) -> Iterator[tuple[EventRow, Finding]]:
    candidates: dict[tuple[int, int], dict[str, list[EventRow]]] = {}
    for row in program.rows("bind"):
        if _is_none(row, row.payload[1]):
            continue
        # an assignment for all ranks counts after another one only
        known = candidates.setdefault((row.file, row.scope), {})
        if row.block > 0 or row.payload[0] in known:
            known.setdefault(str(row.payload[0]), []).append(row)
    for (file, scope), names in candidates.items():
        if program.index.files[file].cells or program.is_test(file):
            continue
        found = {}
        scopes = program.index.scopes[file]
        given = {parameter for parameter, _, _ in scopes[scope].parameters}
        for name, rows in names.items():
            # a name that the function declares global is one of the module
            own = scopes[scope].bindings.get(name, [])
            bound = [term for term in own if not _is_none(rows[0], term)] or scopes[0].bindings.get(name, [])
            total = len(rows)
            if len(bound) != total or name in given or name in _BUILTINS:
                continue
            rows, again = _before_it_is_read(rows, name)
            guard = _only_guard(rows)
            if guard is not None:
                else_none = len(own) > len(bound)
                found[name] = _Partial(rows, guard, else_none, len(own) if else_none else total, again)
        if found:
            yield from _read_names(program, file, scope, found)
            of_module = {
                name: partial
                for name, partial in found.items()
                if not partial.else_none and (scope == 0 or name not in program.index.scopes[file][scope].bindings)
            }
            if of_module:
                yield from _read_in_functions(program, file, scope, of_module)


def _read_in_functions(
    program: Program, file: int, scope: int, names: dict[str, _Partial]
) -> Iterator[tuple[EventRow, Finding]]:
    """Yield where another function reads a name of the module that only some ranks assign."""
    scopes = program.index.scopes[file]
    if scopes[0].stars:
        return
    pending = dict(names)
    for number, own in enumerate(scopes):
        if own.kind != "function" or number == scope or own.parent > 0:
            continue
        words = _words_by_line(program, file, own)
        given = {name for name, _, _ in own.parameters} | own.bindings.keys()
        own_rows = program.rows_of(file, number)
        read = {
            name: found
            for name, found in pending.items()
            if name in words
            and name not in given
            and any(_reaches_others(program, row, found) for line in words[name] for row in _rows_at(own_rows, line))
        }
        tree = _node_of(program, file, own) if read else None
        if tree is None or "global" in words:
            continue
        nodes = list(_own_nodes(_tree_of(program, file)))
        by_rank = {*names, *_names_by_rank(program, own_rows)}
        for name, readings in _readings(tree, read).items():
            if _is_bound_otherwise(nodes, name, pending[name].total if scope == 0 else 0):
                continue
            for reading in readings:
                row = _row_around(program, file, number, reading.node)
                if reading.tried or row is None or any(_mentions(test, by_rank) for test in reading.tests):
                    continue
                partial = pending[name]
                way = _way_of_others(program, row, partial.guard, partial.rows)
                if way is not None:
                    yield _found(program, row, f"`{name}`", "NameError", pending.pop(name), way)
                    break


def _reaches_others(program: Program, row: EventRow, partial: _Partial) -> bool:
    return _way_of_others(program, row, partial.guard, partial.rows) is not None


def _before_it_is_read(rows: list[EventRow], name: str) -> tuple[list[EventRow], EventRow | None]:
    """Return the first assignments of a name, and the one after them without a rank check, if it reads the name."""
    if len(rows) > 1 and _only_guard(rows[:1]) is None:
        return rows, None
    for position, row in enumerate(rows):
        if position and _only_guard([row]) is None:
            value = row.program.source(row.span).partition("=")[2]
            return (rows[:position], row) if name in _WORD.findall(value) else (rows, None)
    return rows, None


def _is_none(row: EventRow, term: int) -> bool:
    """Return whether a term of the file of a row is the constant None."""
    return term >= 0 and row.terms[term][:2] == ("k", "none")


def _only_guard(rows: Iterable[EventRow]) -> Guard | None:
    """Return the test that keeps most ranks from all of these rows; None where one of them is for others as well."""
    first = None
    for row in rows:
        guard = next((one for one in row.guards if one.who.who in (Who.MAIN, Who.LOCAL_MAIN) and one.who.traced), None)
        if guard is None or row.inside("except"):
            return None
        first = first or guard
    return first


def _read_names(
    program: Program, file: int, scope: int, names: dict[str, _Partial]
) -> Iterator[tuple[EventRow, Finding]]:
    own = program.index.scopes[file][scope]
    if own.kind not in ("function", "module") or own.stars:
        return
    words = _words_by_line(program, file, own)
    own_rows = program.rows_of(file, scope)
    candidates = {
        name: found
        for name, found in names.items()
        if _may_be_read_by_others(program, own_rows, words.get(name, ()), name, found)
    }
    if not candidates:
        return
    tree = _node_of(program, file, own)
    if tree is None:
        return
    readings = _readings(tree, candidates)
    if not readings:
        return
    shared: set[str] = set()
    if "nonlocal" in words:
        shared.update(name for node in ast.walk(tree) if isinstance(node, ast.Nonlocal) for name in node.names)
    nodes = list(_own_nodes(tree))
    by_rank = {*names, *_names_by_rank(program, own_rows), *_functions_that_read(nodes, names)}
    for name, (rows, guard, else_none, total, again) in candidates.items():
        if name in shared or _is_bound_otherwise(nodes, name, total):
            continue
        for reading in readings.get(name, ()):
            if reading.tried or any(_mentions(test, by_rank) for test in reading.tests):
                continue
            if else_none and not reading.of_none:
                continue
            row = _row_around(program, file, scope, reading.node)
            if row is None or row.number < min(one.number for one in rows):
                continue
            if again is not None and row.number > again.number:
                break
            way = _way_of_others(program, row, guard, rows)
            if way is not None:
                error = reading.of_none if else_none else "NameError"
                yield _found(program, row, f"`{name}`", error, candidates[name], way)
                break


def _functions_that_read(nodes: Iterable[ast.AST], names: Container[str]) -> Iterator[str]:
    """Yield the functions in a function that read one of these names: a call of them may test it."""
    for node in nodes:
        value = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) else node
        if isinstance(value, _FUNCTIONS) and any(
            isinstance(one, ast.Name) and one.id in names for one in ast.walk(value)
        ):
            targets = node.targets if isinstance(node, ast.Assign) else ()
            yield from (one.id for one in targets if isinstance(one, ast.Name))
            yield from filter(None, [getattr(value, "name", "")])


def _names_by_rank(program: Program, own_rows: Sequence[EventRow]) -> Iterator[str]:
    """Yield the variables of a function that a rank check sets or fills: a test of them, or a loop, is one by rank."""
    bound = {str(row.payload[0]) for row in own_rows if row.kind == "bind"}
    for row in own_rows:
        if row.kind == "bind":
            term = row.payload[1]
            chosen = (
                term >= 0
                and row.terms[term][0] == "?"
                and program.evaluator.test(row.file, row.terms[term][1]).who in PARTIAL
            )
            if chosen or partial_guards(row):
                yield str(row.payload[0])
        elif row.kind in ("store", "call"):
            match = _FILLED.match(row.text())
            if match is not None and match["name"] in bound and partial_guards(row):
                yield match["name"]


def _words_by_line(program: Program, file: int, scope: Scope) -> dict[str, list[int]]:
    """Return the lines of a scope on which each word stands."""
    first, last = (1, None) if scope.kind == "module" else (scope.line, scope.end_line)
    found: dict[str, list[int]] = {}
    for number, line in enumerate(program.lines(file)[first - 1 : last], first):
        for word in _WORD.findall(line):
            found.setdefault(word, []).append(number)
    return found


def _may_be_read_by_others(
    program: Program, own_rows: Sequence[EventRow], numbers: Iterable[int], name: str, partial: _Partial
) -> bool:
    """Return whether ranks without a name may read it in one of these lines. It parses nothing.

    What stands inside of the ``if`` that assigns the name is no fault, in neither of its arms.
    """
    rows, guard, else_none = partial[:3]
    if not name.isascii():
        return True
    _, _, _, _, line, end_line = program.blocks[rows[0].file][guard.block]
    inside = range(line, end_line + 1) if guard.kind == "if" and line != end_line else ()
    lines = program.lines(rows[0].file)
    read = re.compile(rf"^(?!\s*#).*(?<![\w.]){name}\b" + (r"\s*[.\[/]" if else_none else r"(?!\s*=(?!=))"))
    first = min(row.number for row in rows)
    for number in numbers:
        if number in inside or not read.match(lines[number - 1]):
            continue
        around = _rows_at(own_rows, number)
        if not around:
            return True
        for row in around:
            tested = any(name in _WORD.findall(lines[node[4] - 1]) for _, node in row.blocks if node[4] != number)
            if row.number >= first and not tested and _way_of_others(program, row, guard, rows) is not None:
                return True
    return False


def _rows_at(own_rows: Sequence[EventRow], number: int) -> list[EventRow]:
    """Return the smallest events around a line; for a test, those of the branch that it decides."""
    around = [row for row in own_rows if row.event[3] <= number <= row.event[5]]
    least = min((row.event[5] - row.event[3] for row in around), default=0)
    return [row for row in around if row.event[5] - row.event[3] == least] or [
        row for row in own_rows if any(node[4] == number for _, node in row.blocks)
    ]


@cached
def _tree_of(program: Program, file: int) -> ast.Module:
    """Return the syntax tree of a file."""
    return parse(program.index.files[file].text)


def _node_of(program: Program, file: int, scope: Scope) -> ast.AST | None:
    """Return the definition of a function, or the tree of a module."""
    if scope.kind == "module":
        return _tree_of(program, file)
    lines = program.lines(file)[scope.line - 1 : scope.end_line]
    # in a block of its own, so that its lines may be indented
    block = lines and lines[0][:1] in (" ", "\t")
    try:
        alone = parse("\n".join(["if True:" if block else "", *lines])).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        alone = []
    if block and alone and isinstance(alone[0], ast.If):
        alone = alone[0].body
    if len(alone) == 1 and _is_definition(alone[0], scope.name):
        return ast.increment_lineno(alone[0], scope.line - 2)
    return next(
        (
            node
            for node in ast.walk(_tree_of(program, file))
            if _is_definition(node, scope.name) and getattr(node, "end_lineno", 0) == scope.end_line
        ),
        None,
    )


def _is_definition(node: ast.AST, name: str) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name


def _is_bound_otherwise(nodes: Iterable[ast.AST], name: str, assigned: int) -> bool:
    """Return whether a name of a function is bound by more than the assignments that are known: an import, a loop."""
    stores = 0
    for node in nodes:
        if isinstance(node, ast.Name):
            stores += node.id == name and not isinstance(node.ctx, ast.Load)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if any((alias.asname or alias.name.split(".")[0]) in (name, "*") for alias in node.names):
                return True
        elif getattr(node, "name", None) == name:  # a function, a class, or what an except binds
            return True
    return stores != assigned


def _own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or module, those of the functions in it not included, but these themselves."""
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            pending.extend(ast.iter_child_nodes(node))


def _readings(tree: ast.AST, names: Container[str]) -> dict[str, list[_Reading]]:
    """Return where a function itself reads names, in order."""
    found: dict[str, list[_Reading]] = {}

    def visit(node: ast.AST, tests: tuple[ast.expr, ...], tried: bool, of_none: str = "") -> None:
        if isinstance(node, _FUNCTIONS):
            return
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(_Reading(node, tests, tried, of_none))
        for field, value in ast.iter_fields(node):
            inner, trying = tests, tried
            if isinstance(node, (ast.If, ast.While)) and field in ("body", "orelse"):
                inner = (*tests, node.test)
            elif isinstance(node, (ast.For, ast.AsyncFor)) and field == "body":
                inner = (*tests, node.iter)
            elif isinstance(node, ast.With) and any(map(_suppresses, node.items)):
                trying = True
            # `writer.add(x) if rank == 0 else None` and `rank == 0 and writer.add(x)` are tests, too
            if (isinstance(node, (ast.Try, ast.IfExp)) and field in ("body", "orelse")) or isinstance(node, ast.BoolOp):
                trying = True
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    visit(part, inner, trying, _ERRORS_OF_NONE.get((type(node), field), ""))
                # `if writer is None: return` and an assert decide over the lines after them
                if isinstance(part, ast.Assert) or (isinstance(part, ast.If) and isinstance(part.body[-1], _LEAVES)):
                    inner = (*inner, part.test)

    visit(ast.Module(list(ast.iter_child_nodes(tree)), []), (), False)  # type: ignore[arg-type]
    for readings in found.values():
        readings.sort(key=lambda one: (one.node.lineno, one.node.col_offset))
    return found


def _suppresses(item: ast.withitem) -> bool:
    """Return whether a context manager is ``contextlib.suppress(…)``."""
    called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", "")) == "suppress"


def _mentions(test: ast.expr, names: Container[str]) -> bool:
    """Return whether a test reads one of the names that some ranks have only, so that it may be true for them alone."""
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(test))


def _row_around(program: Program, file: int, scope: int, node: ast.Name) -> EventRow | None:
    """Return the smallest event of a function around a node."""
    own = (node.lineno, node.col_offset)
    rows = [
        row
        for row in program.rows_of(file, scope)
        if row.event[3:5] <= own and own < row.event[5:7] and row.kind in ("call", "bind", "attribute", "compare")
    ]
    return min(rows, key=lambda row: (row.event[5] - row.event[3], row.event[6] - row.event[4]), default=None)


def _way_of_others(program: Program, row: EventRow, guard: Guard, rows: list[EventRow]) -> int | None:
    """Return how certain it is that ranks which a guard excludes reach a row; None where they may be kept away."""
    around = {number for number, _ in row.blocks}
    if guard.block in around or any(program.excludes(one, row) for one in rows):
        return None
    path = call_paths.path_of_all_ranks(program, row, first_is_a_guard=True)
    if path is not None and path.certainty <= Certainty.MERGED:
        return path.certainty
    # that the rank is tested shows that several ranks run here
    return Certainty.MERGED if _is_open(program, row, frozenset()) else path and path.certainty


def _is_open(program: Program, row: EventRow, seen: frozenset[tuple[int, int]]) -> bool:
    """Return whether no condition that may be about ranks stands around a row, or around any call that leads to it."""
    function = (row.file, row.scope)
    if function in seen:
        return True
    if rank_conditions.is_guarded(row, first_is_a_guard=True) or program.evaluator.decorated(*function).who in PARTIAL:
        return False
    sites = program.evaluator.likely_callers(function)
    return len(sites) <= _MOST_CALLERS and all(
        _is_open(program, program.event_row(site.file, site.event), seen | {function}) for site in sites
    )


def _found(
    program: Program, row: EventRow, what: str, error: str, partial: _Partial, way: int
) -> tuple[EventRow, Finding]:
    rows, guard, else_none = partial[:3]
    others = f"it is None on the others, which raise {error} here" if else_none else f"the others raise {error} here"
    condition = condition_text(program, rows[0].file, guard)
    return row, row.found(
        rules.DC708,
        f"{who_runs(guard.who, 'assign', 'assigns')} {what} (`{condition}` in "
        f"{program.line_name(rows[0].file, guard.line)}): {others}",
        fix=f"put this line under the same test, or under `if {what.strip('`')} is not None:`"
        if else_none
        else f"assign {what} on all ranks before that test (None if they do not need it), or put this line under the "
        "same test",
        basis=(guard.who, way),
        severity=Severity.WARNING,
        flow=flow_of(program, rows[0].file, guard.term),
    )


def _attributes(program: Program) -> Iterator[tuple[EventRow, Finding]]:
    """Attributes of objects that one rank assigns in a class whose bases are known, and that a method reads."""
    evaluator = program.evaluator
    found: dict[tuple[int, int], dict[str, _Partial]] = {}
    for (file, owner, name), sites in evaluator.stores.items():
        stores = [program.event_row(*site) for site in sites]
        rows = [row for row in stores if not _is_none(row, row.payload[2])]
        guard = _only_guard(rows)
        if guard is None or program.is_test(file) or not _is_closed(program, (file, owner), name):
            continue
        found.setdefault((file, owner), {})[name] = _Partial(rows, guard, len(rows) < len(stores))
    for (file, owner), names in found.items():
        for call in program.calls_in((file,)):
            if evaluator.owner_of(call.file, call.scope) != owner or call.inside("try") or call.within("suppress"):
                continue
            for name in sorted(_attributes_in(call) & names.keys()):
                rows, guard, else_none = names[name][:3]
                error = _error_of_attribute(call, name, else_none)
                if not error or _tests_for(program, call, names):
                    continue
                if call.scope == rows[0].scope and call.number < rows[0].number:
                    continue
                way = _way_of_others(program, call, guard, [one for one in rows if one.scope == call.scope])
                if way is not None:
                    yield _found(program, call, f"`self.{name}`", error, names.pop(name), way)


def _is_closed(program: Program, ref: tuple[int, int], name: str) -> bool:
    """Return whether nothing but the methods of a class assigns an attribute of its objects, as far as is known."""
    evaluator = program.evaluator
    file, number = ref
    if any(base.kind != Kind.NAMED or base.const != "object" for base in evaluator.bases(ref)):
        return False
    scopes = program.index.scopes[file]
    body = scopes[program.index.classes[file][number].scope]
    if name in body.bindings or {"__getattr__", "__getattribute__", "__slots__"} & body.bindings.keys():
        return False
    if any(attribute == name for _, attribute in evaluator.outside):
        return False
    if "__dict__" in program.index.files[file].text:
        return False
    given = (call.argument(1, "name") for call in program.calls_named("setattr", files={file}))
    return not any(one is None or not one.only(Kind.CONST) or name in one.constants for one in given)


def _attributes_in(call: SourceCall) -> set[str]:
    """Return the last names of what a call gets, or is a method of, a path that is made from it included."""
    terms = call.terms
    given = [terms[term] for term in (*call.argument_terms, call.receiver_term) if term >= 0]
    given += [terms[term[2]] for term in given if term[0] == "o"]
    return {term[2] for term in given if term[0] == "a"}


def _error_of_attribute(call: SourceCall, name: str, else_none: bool) -> str:
    """Return what a call raises on ranks without an attribute of the object, or with None in it; empty if nothing.

    A method of the object in the attribute is called, the attribute is handed to the call, or a path is made from it.
    """
    if not call.function.parameters:
        return ""
    terms = call.terms

    def is_it(term: int) -> bool:
        if term < 0 or terms[term][0] != "a" or terms[term][2] != name:
            return False
        base = terms[terms[term][1]]
        return bool(base[0] == "p" and base[2] == call.function.parameters[0][0])

    if is_it(call.receiver_term):
        return "AttributeError"
    if any(term >= 0 and terms[term][0] == "o" and is_it(terms[term][2]) for term in call.argument_terms):
        return "TypeError" if else_none else "AttributeError"
    return "AttributeError" if not else_none and any(map(is_it, call.argument_terms)) else ""


def _tests_for(program: Program, call: SourceCall, names: Iterable[str]) -> bool:
    """Return whether a condition around a call reads one of the attributes that some ranks have only."""
    return any(
        call.terms[number][0] in ("a", "k") and call.terms[number][2] in names
        for _, node in call.blocks
        if node[1] in ("if", "while") or node[1].startswith("exit:")
        for number in program.subterms(call.file, node[2], names=False)
    )
