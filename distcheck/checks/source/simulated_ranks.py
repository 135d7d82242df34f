"""Scripts whose ranks are followed in small worlds: which of them waits for a call that another one never makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core import registry
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from .followed_scripts import Answers
from .program import EventRow, Program, cached
from .small_worlds.communication import NAMES
from .small_worlds.interpreter import Interpreter
from .small_worlds.matching import Call, Fault, NotApplicable
from .small_worlds.rank_state import own_nodes
from .small_worlds.torch_calls import WRAPPERS
from .small_worlds.world import World
from .source_parsing import parse
from .term_queries import callee_text
from .values import Certainty
from .vocabulary import D

_SIZES = (2, 3, 4)
_REPORTED = (
    rules.DC519,
    rules.DC701,
    rules.DC703,
    rules.DC706,
    rules.DC709,
    rules.DC715,
    rules.DC716,
    rules.DC717,
)
_RULES = {rule.code: rule for rule in _REPORTED}
#: Other rules that describe what a small world shows.
_RELATIVES = (rules.DC702, rules.DC707, rules.DC710, rules.DC711, rules.DC712, rules.DC713)


class _Sources:
    """The files of a component, for :class:`Interpreter`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._trees: dict[int, ast.Module] = {}
        self._matters: dict[ast.AST, bool] = {}
        self._communicates: dict[ast.AST, bool] = {}
        self._generators: dict[ast.AST, bool] = {}
        self.names = _communicating(program)
        #: what the script that is followed reads of the project
        self.answers = Answers(program.index, self.names)

    def tree(self, file: int) -> ast.Module:
        self.answers.trees.add(file)
        if file not in self._trees:
            try:
                self._trees[file] = parse("\n".join(self._program.lines(file)))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[file] = ast.Module([], [])
        return self._trees[file]

    def locate(self, file: int, dotted: str) -> tuple[int, tuple[str, ...]] | None:
        return self.answers.locate(file, dotted)

    def matters(self, node: ast.AST) -> bool:
        if node not in self._matters:
            self._matters[node] = any(self._is_step(one) for one in own_nodes(node)) or _leaves(node)
        return self._matters[node]

    def communicates(self, node: ast.AST) -> bool:
        if node not in self._communicates:
            self._communicates[node] = any(map(self._is_step, ast.walk(node)))
        return self._communicates[node]

    def is_generator(self, node: ast.AST) -> bool:
        if node not in self._generators:
            yields = not isinstance(node, ast.Lambda) and any(map(_yields, own_nodes(node)))
            self._generators[node] = yields
        return self._generators[node]

    def _is_step(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        function = node.func
        name = (
            function.attr
            if isinstance(function, ast.Attribute)
            else function.id
            if isinstance(function, ast.Name)
            else ""
        )
        return name in self.names or name in ("exit", "_exit", "quit")


def _yields(node: ast.AST) -> bool:
    return isinstance(node, (ast.Yield, ast.YieldFrom))


def _leaves(node: ast.AST) -> bool:
    """Return whether a statement may leave what is around it."""
    if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.expr)):
        return False
    inside = list(ast.iter_child_nodes(node))
    if isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
        return any(_returns(one) for one in inside)
    return any(_leaves(one) for one in inside)


def _returns(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Return) for one in own_nodes(node))


def _communicating(program: Program) -> frozenset[str]:
    """Return the names of functions that communicate, or call one that does."""
    callers: dict[str, set[str]] = {}
    for call in program.calls:
        callers.setdefault(call.method, set()).add(call.function.name)
    names = set(NAMES)
    # a script may give the wrapper of models another name
    names.update(callee_text(call).rpartition(".")[2] for call in program.calls_to(*WRAPPERS))
    left = list(names)
    while left:
        for caller in callers.get(left.pop(), ()):
            if caller not in names:
                names.add(caller)
                left.append(caller)
    return frozenset(names)


class _Outcome(NamedTuple):
    size: int
    fault: Fault | None
    assumed: bool
    uses_size: bool
    is_decided: bool
    files: frozenset[int]


@probe(*_REPORTED)
def ranks_meet_in_small_worlds(program: Program) -> Iterator[Finding]:
    """Two, three or four ranks get through the script: each call of one finds those of the others."""
    scripts = _scripts(program)
    if not scripts:
        return
    sources = _Sources(program)
    for file in scripts:
        outcomes = _outcomes_that_may_fail(program, sources, file)
        failed = [one for one in outcomes if one.fault is not None]
        fault = failed[0].fault if failed else None
        # a script for two ranks may fail with more: then the number of ranks does not matter to it
        if fault is not None and (
            failed == outcomes or (failed == outcomes[1:] and failed[0].uses_size and not fault.with_any_number)
        ):
            yield from _found(program, fault, outcomes)


def _scripts(program: Program) -> list[int]:
    starts = {call.file for call in program.calls_to(D + "init_process_group")}
    if not starts or not any(program.calls_to(*(D + name for name in sorted(NAMES)))):
        return []
    return [
        file
        for file in range(len(program.index.files))
        if program.is_script(file) and program.in_component(file, D + "init_process_group")
    ]


def _outcomes_that_may_fail(program: Program, sources: _Sources, file: int) -> list[_Outcome]:
    """Return what happens in worlds of several sizes; nothing if no rank fails, as an earlier run may have found."""
    kept = program.kept
    name = ("followed", program.index.files[file].path)
    if kept is not None and sources.answers.are(kept.recall(*name), _numbers(program)):
        return []
    sources.answers.forget()
    outcomes = _outcomes(sources, file)
    if kept is not None and all(one.fault is None for one in outcomes):
        record = sources.answers.plain()
        if record is not None:
            kept.keep(record, *name)
    return outcomes


@cached
def _numbers(program: Program) -> dict[str, int]:
    return {file.path: number for number, file in enumerate(program.index.files)}


def _outcomes(sources: _Sources, file: int) -> list[_Outcome]:
    """Return what happens in worlds of several sizes that the script can run with."""
    outcomes: list[_Outcome] = []
    for size in _SIZES:
        outcome = _outcome(sources, file, size)
        if outcome is None:
            continue
        outcomes.append(outcome)
        if outcome.fault is None and not (outcome.is_decided and outcome.uses_size):
            # more ranks would do the same
            break
    return outcomes


def _outcome(sources: _Sources, file: int, size: int) -> _Outcome | None:
    world = World(size)

    def follow(rank: int) -> None:
        Interpreter(sources, world, rank).run(file)

    try:
        fault = world.run(follow)
    except NotApplicable:
        return None
    return _Outcome(size, fault, world.assumed, world.uses_size[0], world.is_decided, frozenset(world.files))


def _found(program: Program, fault: Fault, outcomes: list[_Outcome]) -> Iterator[Finding]:
    """Yield the finding about the smallest world that fails, unless another probe has explained it."""
    outcome = next(one for one in outcomes if one.fault is not None)
    row = _row(program, fault.call)
    other = None if fault.other is None else _row(program, fault.other)
    paths = {program.index.files[number].path for number in outcome.files}
    explained = (
        found.severity >= Severity.WARNING and found.where.path in paths for found in _of_other_probes(program)
    )
    if row is None or any(explained):
        return
    flow = [one.as_step() for one in (row, other) if one is not None]
    message = fault.message.replace("{call}", f"`{row.text()}`")
    if other is not None:
        message = message.replace("line {line}", other.line_name).replace("{other}", other.text())
    rule = _RULES[fault.code]
    # options and other numbers of ranks may avoid it
    sure = not outcome.assumed and all(one.fault is not None for one in outcomes)
    yield row.found(
        rule,
        f"with {outcome.size} ranks, {message}",
        fix=fault.fix,
        basis=(Certainty.PROVEN if sure else Certainty.MERGED,),
        severity=row.milder_in_tests(rule),
        flow=flow,
    )


def _row(program: Program, call: Call) -> EventRow | None:
    """Return the row of a call, or one at its line."""
    rows = [row for row in program.calls_in((call.file,)) if row.line == call.node.lineno]
    exact = [row for row in rows if row.event[4] == call.node.col_offset]
    return next(iter(exact or rows), None)


@cached
def _of_other_probes(program: Program) -> list[Finding]:
    """Return what the other probes of these rules and of their relatives find."""
    family = {*_RULES.values(), *_RELATIVES}
    package = __name__.rpartition(".")[0]
    return [
        found
        for one in registry.probes()
        if one.function.__module__.startswith(package) and one.function is not ranks_meet_in_small_worlds
        if not family.isdisjoint(one.rules)
        for found in one.function(program)
    ]
