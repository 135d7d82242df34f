"""The linked program as the probes see it: tables of calls, assignments, tests and loops with what their values mean.

A probe calls ``program.calls_to("torch.cuda.set_device")`` and gets rows. A row knows its block, which ranks reach it,
and the values of its arguments. Probes see no syntax tree, and nothing is read from outside.
"""

from __future__ import annotations

import functools
from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Any, cast

from distcheck.core.model import Edit, Finding, Fix, Rule, Severity, Where, grouped
from distcheck.core.patterns import lazy
from distcheck.core.spans import Span

from . import source_text
from . import vocabulary as names
from .algebra import device_of
from .certainty import certainty_of, severity_for
from .collective_signatures import ASYNC, GROUPS
from .evaluate import Evaluator
from .exclusive_conditions import contradict
from .followed_scripts import KeptAnswers
from .link import FileFacts
from .memo import Thing, cached
from .project_texts import ProjectTexts
from .rank_reach import Guard
from .redefinitions import standing
from .source_tables import CallContext
from .summary import Block, FileSummary, Scope
from .unused_code import UnusedCode
from .values import FEW, NOTHING_KNOWN, PARTIAL, Atom, Certainty, FlowStep, Kind, RankCondition, Value, Who, both

__all__ = ["FEW", "PARTIAL", "EventRow", "Guard", "Program", "SourceCall", "cached", "device_of"]

_CONDITION = lazy(r"\s*(?:if|elif|while)\s+(?!\s)([^#]*):\s*(?:#.*)?$")


#: Rules with a level of their own for code that nothing uses.
_ALSO_WHERE_UNUSED = frozenset(["DC760"])

#: Bits for the number of an event within its file.
_SHIFT = 32
_POSITIONS = (1 << _SHIFT) - 1

#: A function, class body or module of the project: (file, number of the scope)
Function = tuple[int, int]


@cached
def _rows_by_block(program: Program, file: int, scope: int) -> dict[int, list[EventRow]]:
    """Return the events of one function that stand in each of its blocks, in order of evaluation."""
    found: dict[int, list[EventRow]] = {}
    for row in program.rows_of(file, scope):
        for number, _ in row.blocks:
            found.setdefault(number, []).append(row)
    return found


@cached
def _stores_by_line(program: Program, file: int) -> dict[int, list[EventRow]]:
    """Return the assignments to attributes in a file, by line."""
    return grouped(program.rows("attribute", (file,)), lambda row: row.line)


class EventRow:
    """One event of the program. ``kind`` and ``payload`` are those of the summary (see :mod:`.summary`)."""

    __slots__ = ("block", "event", "file", "kind", "line", "number", "program", "scope", "terms")

    def __init__(self, program: Program, file: int, number: int) -> None:
        self.program = program
        self.file = file
        self.number = number
        event = program.events[file][number]
        self.event: tuple[Any, ...] = event
        #: ``call``, ``return``, ``exit``, ``attribute``, ``store``, ``bind``, ``compare``, ``or``, ``choice``, ``read``
        self.kind: str = event[0]
        #: the number of the scope that it stands in, and of its block
        self.scope: int = event[1]
        self.block: int = event[2]
        #: the first line
        self.line: int = event[3]
        #: the terms of its file
        self.terms: list[tuple[Any, ...]] = program.terms[file]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventRow) and (self.file, self.number) == (other.file, other.number)

    def __hash__(self) -> int:
        return hash((self.file, self.number))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.place} {self.text()}>"

    @property
    def payload(self) -> tuple[Any, ...]:
        """The payload of the event, as in the summary's text; terms are numbers for :meth:`term_value`."""
        return self.event[7:]

    @property
    def path(self) -> str:
        """The file, as it is displayed."""
        return self.program.index.files[self.file].path

    @property
    def place(self) -> str:
        """Its file and line in a text about another location, see :meth:`Program.place`."""
        return self.program.place(self.file, self.line)

    @property
    def line_name(self) -> str:
        """Its line in a text about the same file, see :meth:`Program.line_name`."""
        return self.program.line_name(self.file, self.line)

    def as_step(self) -> str:
        """A line of ``evidence["flow"]``: its location and its source."""
        return f"{self.place}: {self.text()}"

    @property
    def function(self) -> Scope:
        """The function, class body or module that it stands in."""
        return self.program.index.scopes[self.file][self.scope]

    @property
    def at_module_level(self) -> bool:
        """Whether it runs when the module is imported."""
        return self.function.kind == "module"

    @property
    def guards(self) -> list[Guard]:
        """The conditions around it within its own function that bear on ranks, outermost first."""
        return self.program.evaluator.guards(self.file, self.block)

    @property
    def own_reached_by(self) -> RankCondition:
        """Who gets here among those that enter its function."""
        return self.program.evaluator.ranks_at_block(self.file, self.block)

    @property
    def entry(self) -> RankCondition:
        """Who enters its function: decorators and callers."""
        return self.program.evaluator.entry(self.file, self.scope)

    @property
    def reached_by(self) -> RankCondition:
        """Who gets here: its own guards and those of all callers."""
        return both((self.own_reached_by, self.entry))

    @property
    def blocks(self) -> list[tuple[int, Block]]:
        """The blocks around it in its function, outermost first: (number, (parent, kind, term, polarity, line, end
        line)).
        """
        return self.program.blocks_around(self.file, self.block)

    def rows_in(self, block: int) -> list[EventRow]:
        """Return the rows of its function that stand in a block."""
        return _rows_by_block(self.program, self.file, self.scope).get(block, [])

    def inside(self, *kinds: str) -> bool:
        """Whether a block of such a kind is around it: ``for``, ``while``, ``try``, ``except``, ``finally``, ``with``,
        ``if``.
        """
        return any(node[1] in kinds for _, node in self.blocks)

    @property
    def loops(self) -> list[tuple[int, int]]:
        """The loops around it, outermost first: (number of the block, term of what is iterated or tested)."""
        return [(number, node[2]) for number, node in self.blocks if node[1] in ("for", "while")]

    def within(self, *last_names: str) -> bool:
        """Return whether a ``with`` of something so called is around it: ``within("no_grad", "inference_mode")``."""
        terms = self.terms
        return any(node[1] == "with" and source_text.last_name(terms, node[2]) in last_names for _, node in self.blocks)

    def term_value(self, term: int) -> Value:
        """Return what a term of its file may hold; not what is stored only in another arm of an ``if``."""
        value = self.program.evaluator.value(self.file, term)
        for atom in value.atoms:
            if atom.flow:
                break
        else:
            return value
        left = [atom for atom in value if not any(self._excludes_store(step) for step in atom.flow)]
        return Value(left) if left else NOTHING_KNOWN

    def _excludes_store(self, step: FlowStep) -> bool:
        """Return whether a step is a store in this function that never runs in the same pass as this row."""
        if step.file != self.file:
            return False
        stores = _stores_by_line(self.program, self.file).get(step.line, ())
        return any(store.scope == self.scope and self.program.excludes(store, self) for store in stores)

    def term_text(self, term: int) -> str:
        """A term as source, shortened."""
        return source_text.render(self.terms, term)

    def text(self) -> str:
        """Its own source on one line, shortened."""
        text = " ".join(self.program.source(self.span).split())
        return text if len(text) <= 80 else text[:77] + "…"

    @property
    def span(self) -> Span:
        """Where it stands."""
        return self.program.span(self.file, *self.event[3:7])

    @property
    def level_in_tests(self) -> Severity | None:
        """``info`` in the file of a test, None elsewhere: a finding then has the level of its rule."""
        return Severity.INFO if self.program.is_test(self.file) else None

    def milder_in_tests(self, rule: Rule) -> Severity:
        """Return the level of a rule here: one step milder in a test, which may provoke the error on purpose."""
        if not self.program.is_test(self.file):
            return rule.severity
        milder = Severity(max(rule.severity - 1, Severity.INFO))
        return milder if milder in rule.severities else Severity.INFO

    def found(
        self,
        rule: Rule,
        message: str,
        *,
        fix: str,
        basis: tuple[Atom | RankCondition | int, ...] = (),
        edits: tuple[Edit, ...] = (),
        safe: bool = False,
        risk: str | None = None,
        severity: Severity | None = None,
        **evidence: Any,
    ) -> Finding:
        """Return a finding of a rule at this row, with a fix in the code.

        :param basis: the alternatives and conditions that it rests on, in addition to who reaches the row
        :param severity: another level than the rule's, if all of that is proven
        """
        how = Fix(fix, edits=edits, safe=safe, where="code", risk=risk)
        level, evidence = self.judged(rule, severity, basis, evidence)
        return rule.found(message, fix=how, where=self.where(), evidence=evidence, severity=level)

    def judged(
        self,
        rule: Rule,
        severity: Severity | None,
        basis: tuple[Atom | RankCondition | int, ...],
        evidence: dict[str, Any],
    ) -> tuple[Severity, dict[str, Any]]:
        """Return the severity of a finding here, and its evidence with the weakest step in the flow."""
        level = rule.severity if severity is None else severity
        certainty = certainty_of(*basis)
        reach = None
        if level is Severity.ERROR or certainty:
            reach = self.unproven_reach(any(isinstance(item, RankCondition) for item in basis))
        if reach is not None:
            certainty = max(certainty, reach.certainty)
            flow = list(evidence.get("flow", ()))
            if not any("merged:" in line for line in flow):
                evidence = {**evidence, "flow": [*flow, *self.program.flow((reach,))]}
        elif certainty == Certainty.PROVEN and "flow" in evidence:
            # what other calls pass does not matter for the one that proves it
            flow = [line for line in evidence["flow"] if "merged:" not in line]
            evidence = {**evidence, "flow": flow}
        if (
            level > Severity.INFO
            and rule.code not in _ALSO_WHERE_UNUSED
            and (
                self.program.is_unused(self.file, self.scope)
                or self.program.is_never_taken(self.file, self.scope, self.block)
            )
        ):
            return Severity.INFO, evidence
        return severity_for(rule, level, certainty), evidence

    def unproven_reach(self, by_rank: bool) -> FlowStep | None:
        """Return the condition on the way to this row that is not proven; None where all of them are.

        It is enough if they are for one call of the function.

        :param by_rank: the finding is about who gets here, so that any condition that is not resolved counts
        """
        step = self._unproven_condition(by_rank, None)
        if step is not None and all(
            self._unproven_condition(by_rank, context) is not None
            for context in self.program.evaluator.contexts((self.file, self.scope))
        ):
            return step
        if self.entry.who != Who.EVERYONE and self.entry.certainty != Certainty.PROVEN:
            text = f"merged: not all callers of {self.function.name}() are for the same ranks"
            return FlowStep(self.file, self.function.line, text, Certainty.MERGED)
        return None

    def _unproven_condition(self, by_rank: bool, context: CallContext | None) -> FlowStep | None:
        evaluator = self.program.evaluator
        for _, node in self.blocks:
            if node[1] != "if" and (not node[1].startswith("exit:") or node[1] == "exit:raise"):
                continue
            if evaluator.is_main_guard(self.file, node[2]):
                continue
            settled = None if context is None else evaluator.settled(self.file, node[2], context)
            if settled is node[3]:
                continue
            who = evaluator.test(self.file, node[2], context)
            known = not by_rank if who.who == Who.UNCLEAR else who.certainty == Certainty.PROVEN
            if settled is not None or (who.who != Who.EVERYONE and not known):
                text = f"merged: it is not resolved for which ranks `{self.term_text(node[2])}` holds"
                return FlowStep(self.file, node[4], text, Certainty.MERGED)
        return None

    def where(self) -> Where:
        """Its location for a finding; ``object`` is the function's qualified name, which keeps its key stable."""
        return self.program.where(self.file, self.span, self.function.qualified or None)


class SourceCall(EventRow):
    """A call."""

    __slots__ = ("term",)

    def __init__(self, program: Program, file: int, number: int) -> None:
        super().__init__(program, file, number)
        #: the call's term
        self.term: tuple[Any, ...] = self.terms[self.event[7]]

    @property
    def use(self) -> str:
        """What becomes of the result: ``drop``, ``return``, ``assign:NAME``, ``arithmetic``, ``attribute``,
        ``compare``, ``argument``, ``test``,
        ``element``, ``subscript``, ``callee``, ``text``, ``with`` or ``value``."""
        return str(self.event[8])

    @property
    def method(self) -> str:
        """The last name of what is called."""
        return source_text.last_name(self.terms, self.term[1])

    @property
    def callee(self) -> Value:
        """What is called."""
        return self.program.evaluator.value(self.file, self.term[1])

    @property
    def targets(self) -> tuple[str, ...]:
        """Canonical dotted names of what is called outside of the project: ``torch.distributed.all_reduce``, or
        ``accelerate.Accelerator.gather`` for a method of what such a call returned; empty where nothing is known."""
        return self.program.targets(self)

    def is_to(self, *dotted: str) -> bool:
        """Return whether it calls one of these."""
        return any(target in dotted for target in self.targets)

    @property
    def is_async(self) -> bool | None:
        """Whether a collective is called for a handle; None where that is not known."""
        for target in self.targets:
            if target in ASYNC:
                given = self.argument(ASYNC[target], "async_op")
                if given is None:
                    return None if self.has_star else False
                return given.constant if isinstance(given.constant, bool) else None
        return None

    @property
    def receiver_term(self) -> int:
        """The term of the object that a method is called on, -1 where it is no method."""
        callee = self.terms[self.term[1]]
        return int(callee[1]) if callee[0] == "a" else -1

    @property
    def receiver(self) -> Value:
        """The object that a method is called on; nothing known where it is no method."""
        term = self.receiver_term
        return NOTHING_KNOWN if term < 0 else self.program.evaluator.value(self.file, term)

    @property
    def receiver_text(self) -> str:
        """The source of the object that a method is called on, empty where it is no method."""
        term = self.receiver_term
        return "" if term < 0 else source_text.render(self.terms, term)

    def unproven_reach(self, by_rank: bool) -> FlowStep | None:
        """Return the condition on the way to this call that is not proven, or that it may call something else."""
        callee = self.callee
        if len({(atom.kind, repr(atom.const)) for atom in callee}) > 1:
            text = f"merged: `{self.term_text(self.term[1])}` is not the same on all paths"
            return FlowStep(self.file, self.line, text, Certainty.MERGED)
        return super().unproven_reach(by_rank)

    @property
    def result(self) -> Value:
        """What it returns."""
        return self.program.evaluator.value(self.file, self.event[7])

    @property
    def has_star(self) -> bool:
        """Whether ``*`` or ``**`` arguments are given, so that more may be there than is seen."""
        return bool(self.term[4])

    @property
    def argument_terms(self) -> tuple[int, ...]:
        """The terms of all its arguments, those by keyword last."""
        return source_text.argument_terms(self.term)

    @property
    def positional(self) -> int:
        """How many positional arguments are written out."""
        return len(self.term[2])

    def argument_term(self, position: int | None, name: str | None = None) -> int:
        """Return the term of an argument by position (None: keyword only) or keyword; -1 where it is not given."""
        if name is not None:
            for keyword, value in self.term[3]:
                if keyword == name:
                    return int(value)
        if position is not None and 0 <= position < len(self.term[2]):
            return int(self.term[2][position])
        return -1

    def gives(self, position: int | None, name: str | None = None) -> bool:
        """Return whether an argument is written out."""
        return self.argument_term(position, name) >= 0

    def argument(self, position: int | None, name: str | None = None) -> Value | None:
        """Return what is given for a parameter; None where it is not written out."""
        term = self.argument_term(position, name)
        return None if term < 0 else self.term_value(term)

    def constant(self, position: int | None, name: str | None = None, default: object = None) -> object:
        """Return a parameter's constant, NoConstant for another value, and ``default`` if it is not written out."""
        given = self.argument(position, name)
        return default if given is None else given.constant

    def argument_text(self, position: int | None, name: str | None = None) -> str:
        """An argument as source on one line, shortened; empty where it is not written out."""
        span = self.argument_span(position, name)
        if span is None:
            return ""
        text = " ".join(self.program.source(span).split())
        return text if len(text) <= 60 else text[:57] + "…"

    def argument_span(self, position: int | None, name: str | None = None) -> Span | None:
        """Return where an argument's value stands, for edits."""
        return self.program.argument_span(self, position, name)

    @property
    def keywords(self) -> tuple[str, ...]:
        """The names of the keyword arguments."""
        return tuple(name for name, _ in self.term[3])


class Program(UnusedCode):
    """All analysed files, linked."""

    def __init__(
        self,
        files: Iterable[FileFacts],
        *,
        put_aside: int = 0,
        texts: ProjectTexts | None = None,
        kept: KeptAnswers | None = None,
    ) -> None:
        super().__init__(files, put_aside=put_aside, texts=texts)
        #: what earlier runs have found out, None where nothing is kept
        self.kept = kept
        self._targets: dict[tuple[int, int], tuple[str, ...]] = {}
        # by kind and by last name: the file's number and the event's in one, since a large tree has millions
        self._rows: defaultdict[str, array[int]] = defaultdict(functools.partial(array, "Q"))
        self._named: defaultdict[str, array[int]] = defaultdict(functools.partial(array, "Q"))
        # rows are immutable: each is made once
        self._row_of: dict[int, EventRow] = {}
        self._rows_of_scope: dict[tuple[int, int], list[EventRow]] = {}
        self.evaluator = Evaluator(self.index, self._tabulate)

    def _tabulate(self, file: int, summary: FileSummary) -> None:
        """Enter the events of one file into the tables."""
        aliases = self._aliases(file)
        terms = summary.terms
        last = self.index.files[file].loaded.last_names
        for packed, event in enumerate(summary.events, file << _SHIFT):
            self._rows[event[0]].append(packed)
            if event[0] == "call":
                callee = terms[event[7]][1]
                method = last[callee]
                # cls = One if test else Other
                arms = terms[callee][2:4] if terms[callee][0] == "?" else ()
                for name in dict.fromkeys((method, *aliases.get(method, ()), *(last[arm] for arm in arms if arm >= 0))):
                    self._named[name].append(packed)

    def row(self, packed: int) -> EventRow:
        """A row by its number in the tables."""
        row = self._row_of.get(packed)
        if row is None:
            file, number = packed >> _SHIFT, packed & _POSITIONS
            kind = self.events[file][number][0]
            row = self._row_of[packed] = (SourceCall if kind == "call" else EventRow)(self, file, number)
        return row

    def event_row(self, file: int, number: int) -> EventRow:
        """Return one event as a row."""
        return self.row(file << _SHIFT | number)

    def row_at(self, file: int, line: int) -> EventRow | None:
        """Return the first event of a line, or the innermost one around it."""
        found = -1
        for number, event in enumerate(self.events[file]):
            if event[3] == line:
                return self.event_row(file, number)
            if event[3] < line <= event[5] and (found < 0 or event[3] > self.events[file][found][3]):
                found = number
        return None if found < 0 else self.event_row(file, found)

    def forget(self) -> None:
        """Drop all that refers back to the program, so that it is freed at once."""
        self.notes.clear()
        self._row_of.clear()
        self._rows_of_scope.clear()

    def _aliases(self, file: int) -> dict[str, set[str]]:
        """Other last names that names of a file stand for: ``DDP`` for ``DistributedDataParallel`` after an ``import …
        as``.
        """
        terms = self.terms[file]
        found: dict[str, set[str]] = {}
        for scope in self.index.scopes[file]:
            for name, values in scope.bindings.items():
                for value in values:
                    if terms[value][0] in ("i", "a") and (last := source_text.last_name(terms, value)) != name:
                        found.setdefault(name, set()).add(last)
        return found

    # tables

    def rows(self, kind: str, files: Container[int] | None = None) -> Iterator[EventRow]:
        """All events of a kind, in order of files and of evaluation; those of some files only where these are given."""
        if files is None:
            return iter(self._all_rows(kind))
        return (row for file, rows in self._rows_by_file(kind).items() if file in files for row in rows)

    @cached
    def _rows_by_file(self, kind: str) -> dict[int, list[EventRow]]:
        return grouped(self._all_rows(kind), lambda row: row.file)

    @cached
    def _all_rows(self, kind: str) -> list[EventRow]:
        return [self.row(packed) for packed in self._rows.get(kind, ())]

    @property
    def calls(self) -> Sequence[SourceCall]:
        """All calls."""
        return cast("list[SourceCall]", self._all_rows("call"))

    def calls_in(self, files: Container[int]) -> Iterator[SourceCall]:
        """Yield all calls of some files."""
        return cast(Iterator[SourceCall], self.rows("call", files))

    def calls_named(self, *last_names: str, files: Container[int] | None = None) -> Iterator[SourceCall]:
        """Calls by the last name of what is called, whatever it belongs to; those of some files only where these are
        given.
        """
        for name in dict.fromkeys(last_names):
            calls = self._all_named(name)
            yield from calls if files is None else (call for call in calls if call.file in files)

    @cached
    def _all_named(self, name: str) -> list[SourceCall]:
        return [cast(SourceCall, self.row(packed)) for packed in self._named.get(name, ())]

    def calls_to(self, *dotted: str) -> Iterator[SourceCall]:
        """Calls of things outside of the project by their canonical names, in order of files."""
        return iter(self._calls_to(dotted))

    @cached
    def _calls_to(self, dotted: tuple[str, ...]) -> list[SourceCall]:
        wanted = frozenset(dotted)
        found = [
            call
            for name in dict.fromkeys(name.rsplit(".", 1)[-1] for name in dotted)
            for call in self._all_named(name)
            if not wanted.isdisjoint(self.targets(call))
        ]
        found.sort(key=lambda call: (call.file, call.number))
        return found

    def collectives(self) -> Iterator[SourceCall]:
        """Yield all calls of collectives that are known by name, sub-groups included."""
        yield from self.calls_to(*names.COLLECTIVES)

    @cached
    def table(self, make: Callable[[Program], Iterable[Thing]]) -> list[Thing]:
        """Return what a function yields for this program, made once: a probe's own table."""
        return list(make(self))

    def call_of(self, atom: Atom) -> SourceCall | None:
        """Return the call that made a value."""
        return None if atom.call is None else cast(SourceCall, self.event_row(*atom.call))

    def targets(self, call: SourceCall) -> tuple[str, ...]:
        """See :attr:`Call.targets`."""
        key = (call.file, call.number)
        found = self._targets.get(key)
        if found is None:
            dotted = []
            for atom in call.callee:
                if atom.kind == Kind.NAMED:
                    dotted.append(str(atom.const))
                elif atom.kind == Kind.METHOD and atom.of and atom.of[0].kind == Kind.RESULT and atom.of[0].const:
                    dotted.append(names.canonical(f"{atom.of[0].const}.{atom.const}"))
                elif atom.kind == Kind.METHOD and atom.of and atom.of[0].kind == Kind.WRAPPED:
                    dotted.append(f"{_WRAPPER_NAMES.get(atom.of[0].const, atom.of[0].const)}.{atom.const}")
                elif atom.kind == Kind.WRAPPED:
                    dotted.append(f"{_WRAPPER_NAMES.get(atom.const, atom.const)}.__call__")
            found = self._targets[key] = tuple(dict.fromkeys(dotted))
        return found

    def functions(self, call: SourceCall) -> list[tuple[int, int]]:
        """Return the functions of the project that a call enters for sure: (file, scope)."""
        return self.evaluator.functions(call.callee)

    def callers(self, function: tuple[int, int]) -> list[SourceCall]:
        """Return the calls that enter a function of the project, those found by the name of a method only included."""
        sites = self.evaluator.callers.get(function, ())
        return [cast(SourceCall, self.event_row(site.file, site.event)) for site in sites]

    def rows_of(self, file: int, scope: int) -> list[EventRow]:
        """Return the events of one function, in order of evaluation; those of nested functions not included."""
        found = self._rows_of_scope.get((file, scope))
        if found is None:
            found = [self.event_row(file, number) for number in self.evaluator.by_scope[file].get(scope, ())]
            self._rows_of_scope[file, scope] = found
        return found

    def methods_of(self, file: int, owner: int) -> list[tuple[int, int]]:
        """Return the methods of a class, and the functions inside of them: (file, scope)."""
        scopes = range(len(self.index.scopes[file]))
        return [(file, scope) for scope in scopes if self.evaluator.owner_of(file, scope) == owner]

    # collectives

    def is_world_collective(self, call: SourceCall) -> str | None:
        """Return the name of the collective that a call synchronizes all ranks of the job with; None for anything else.

        One with a ``group`` that is not the world is none: who belongs to it is not known here.
        """
        for target in self.targets(call):
            if target in names.COLLECTIVES:
                group = call.argument_term(GROUPS.get(target), "group")
                if group >= 0 and not self.evaluator.is_world(call.file, group):
                    return None
                return None if self.is_of_own_group(call) else target
        return None

    def is_of_own_group(self, call: SourceCall) -> bool:
        """Return whether a call is given a group, or a mesh, that may be other than the world: ``DDP(net, …)``."""
        given = (call.argument_term(None, name) for name in ("process_group", "device_mesh", "mesh"))
        return any(term >= 0 and not self.evaluator.is_world(call.file, term) for term in given)

    def is_generator(self, function: tuple[int, int]) -> bool:
        """Return whether a function yields."""
        return any(event[0] == "yield" for event in self.evaluator.events_of(function))

    # order

    def excludes(self, one: EventRow, other: EventRow) -> bool:
        """Return whether two rows of one function never both run in one pass: the conditions around them exclude it."""
        tests = {node[2]: node[3] for _, node in one.blocks if node[1] == "if"}
        others = [(node[2], node[3]) for _, node in other.blocks if node[1] == "if"]
        return any(tests.get(term, truth) != truth for term, truth in others) or (
            bool(tests and others) and contradict(self.terms[one.file], tests.items(), others)
        )

    def dominates(self, one: EventRow, other: EventRow) -> bool:
        """Whether ``one`` has always run when ``other`` does: same function, before it, and every place of it around
        the other.
        """
        if (one.file, one.scope) != (other.file, other.scope) or one.number >= other.number:
            return False
        around = {number for number, _ in other.blocks}
        return all(
            number in around
            for number, node in one.blocks
            if node[1] not in ("with", "try", "finally") and not node[1].startswith("exit:")
        )

    def may_precede(self, one: EventRow, other: EventRow) -> bool:
        """Return whether ``one`` may have run when ``other`` does: same function, before it, not in another arm."""
        return (
            (one.file, one.scope) == (other.file, other.scope)
            and one.number < other.number
            and not self.excludes(one, other)
        )

    # files

    def in_component(self, file: int, *dotted: str) -> bool:
        """Return whether a file, or one that hangs together with it by imports, calls one of these."""
        return self.index.roots()[file] in self._roots_calling(dotted)

    @cached
    def _roots_calling(self, dotted: tuple[str, ...]) -> frozenset[Hashable]:
        """Return the roots of the components in which one of these is called."""
        roots = self.index.roots()
        return frozenset(roots[file] for file in self._files_calling(dotted))

    @cached
    def _files_calling(self, dotted: tuple[str, ...]) -> frozenset[int]:
        """Return the files that call one of these."""
        return frozenset(call.file for call in self.calls_to(*dotted))

    def is_distributed(self, file: int) -> bool:
        """Whether a file belongs to something that several ranks run: it, or a file linked with it, starts a group or
        wraps a model, or it reads its rank."""
        return self.in_component(file, *_STARTS) or file in self._files_calling(_RANK_QUERIES)

    # source

    def subterms(self, file: int, *roots: int, names: bool = True) -> Iterator[int]:
        """Terms and all that they are made of, each once; ``names`` also enters what variables of the file are bound
        to.
        """
        terms = self.terms[file]
        pending, seen = list(roots), set()
        while pending:
            number = pending.pop()
            if number < 0 or number in seen:
                continue
            seen.add(number)
            yield number
            term = terms[number]
            pending.extend(source_text.operands(term))
            if names:
                pending.extend(self.bound(file, term))

    def bound(self, file: int, term: tuple[Any, ...]) -> list[int]:
        """Return the terms that are assigned to a variable; none for any other term."""
        scope = reader = term[1] if term[0] == "v" else -1
        while scope >= 0:
            own = self.index.scopes[file][scope]
            if term[2] in own.bindings:
                return standing(self.index, file, scope, term[2], reader)
            scope = own.parent
        return []

    def guard_text(self, file: int, guard: Guard) -> str:
        """A condition as source, with ``not`` where it is its else."""
        lines = self.lines(file)
        match = _CONDITION.match(lines[guard.line - 1]) if 0 < guard.line <= len(lines) else None
        text = match.group(1).rstrip() if match else source_text.render(self.terms[file], guard.term)
        return text if guard.polarity else f"not ({text})" if " " in text else f"not {text}"


#: What makes a program one that several ranks run.
_STARTS = (*sorted(names.INIT), *names.WRAPPERS, "accelerate.Accelerator", "deepspeed.initialize")
_RANK_QUERIES = tuple(name for name in names.SOURCES if not name.startswith("torch.cuda."))
_WRAPPER_NAMES = {
    "ddp": "torch.nn.parallel.DistributedDataParallel",
    "fsdp": "torch.distributed.fsdp.FullyShardedDataParallel",
    "fsdp2": "torch.distributed.fsdp.FSDPModule",
    "deepspeed": "deepspeed.DeepSpeedEngine",
    "dp": "torch.nn.parallel.DataParallel",
    "prepared": "accelerate.Prepared",
}
