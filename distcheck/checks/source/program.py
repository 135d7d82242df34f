"""The linked program as the probes see it: tables of calls, assignments, tests and loops with what their values mean.

A probe calls ``program.calls_to("torch.cuda.set_device")`` and gets rows. A row knows its block, which ranks reach it,
and the values of its arguments. Probes see no syntax tree, and nothing is read from outside.
"""

from __future__ import annotations

import functools
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from distcheck.core.model import Edit, Finding, Fix, Rule, Severity, Where, grouped, grouped_pairs

from . import source_text
from . import vocabulary as names
from .algebra import device_of
from .collective_signatures import ASYNC, GROUPS
from .evaluate import Evaluator
from .followed_scripts import KeptAnswers
from .link import FileFacts, Index, chain
from .project_texts import Answer, Mention, ProjectTexts, Question
from .rank_reach import Guard
from .redefinitions import standing
from .source_spans import SourceSpan, SourceSpans
from .source_tables import CallContext
from .summary import Block, FileSummary, Scope
from .values import (
    FEW,
    NOTHING_KNOWN,
    PARTIAL,
    Atom,
    Certainty,
    FlowStep,
    Kind,
    RankCondition,
    Value,
    Who,
    added,
    both,
)

__all__ = ["FEW", "PARTIAL", "EventRow", "Guard", "Program", "SourceCall", "SourceSpan", "device_of"]

_TESTS = re.compile(r"(^|[/_.])(tests?|testing|unittests?|conftest)([/_.]|$)")
_CONDITION = re.compile(r"\s*(?:if|elif|while)\s+(?!\s)([^#]*):\s*(?:#.*)?$")
_EXAMPLES = re.compile(r"(^|/)(examples?|tutorials?|samples?|demos?|docs?|benchmarks?)(/|$)")


#: What may call any function of a file by its name.
USES_ANY_NAME = re.compile(
    r"(?<![\w.])(?:globals|locals|vars|eval|exec|getattr)\(|\bimport_module\(|\b[Ff]ire\b|__main__['\"]\]"
)
#: What may use a name that it composes: of this module, or of the one that is named. ``locals()`` has names of its own.
_USES_NAMES_OF = re.compile(
    r"(?<![\w.])(?:globals|eval|exec)\(|(?<![\w.])vars\(\s*\)|\b[Ff]ire\b|__main__['\"]\]"
    r"|(?<![\w.])(?:getattr|vars)\(\s*(\w+)|(?<![\w.])(\w+)\.__dict__\["
)
#: What may use names of modules that it composes.
_LOADS_MODULES = ("import_module", "__import__")
#: Names of files that are used without an import.
USED_BY_NAME = ("__init__.py", "__main__.py", "setup.py", "conftest.py", "hubconf.py", "noxfile.py")
#: Words in the path of code that was replaced.
REPLACED = re.compile(r"(?:^|[/_.-])(?:old|legacy|deprecated|depreciated|obsolete|backup|unused|archived?)(?:[/_.-]|$)")
#: Bases outside of a project that call no method of a class by its name.
_PLAIN_BASES = ("object", "abc.ABC", "typing.Generic", "typing.Protocol")
#: Longer chains of functions that nothing runs are not followed.
_MOST_UNUSED = 4
#: Rules with a level of their own for code that nothing uses.
_ALSO_WHERE_UNUSED = frozenset(["DC760"])

#: Bits for the number of an event within its file.
_SHIFT = 32
_POSITIONS = (1 << _SHIFT) - 1

#: A function, class body or module of the project: (file, number of the scope)
Function = tuple[int, int]

Thing = TypeVar("Thing")
Rest = ParamSpec("Rest")


def cached(
    function: Callable[Concatenate[Program, Rest], Thing],
) -> Callable[Concatenate[Program, Rest], Thing]:
    """Keep what a function of a program returns for the same arguments, as long as the program lives."""

    @functools.wraps(function)
    def known(program: Program, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Thing:
        key = (function, args, *kwargs.items()) if kwargs else (function, args)
        notes = program.notes
        if key in notes:
            found: Thing = notes[key]
        else:
            found = notes[key] = function(program, *args, **kwargs)
        return found

    return known


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


def severity_for(rule: Rule, level: Severity, certainty: int) -> Severity:
    """Return the severity of a finding of a rule: an error only if each step of its flow is proven.

    One merged step makes it a warning at most; with two of them, or with nothing but a name, it is ``info``.
    """
    if certainty == Certainty.PROVEN:
        return level
    found = min(level, Severity.WARNING if certainty == Certainty.MERGED else Severity.INFO)
    return found if found in rule.severities else Severity.INFO


def certainty_of(*basis: Atom | RankCondition | int) -> int:
    """Return how certain a finding is that rests on these alternatives and conditions."""
    return added(
        *(
            added(item.certainty, item.when.certainty)
            if isinstance(item, Atom)
            else item.certainty
            if isinstance(item, RankCondition)
            else item
            for item in basis
        )
    )


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
    def span(self) -> SourceSpan:
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

    def argument_span(self, position: int | None, name: str | None = None) -> SourceSpan | None:
        """Return where an argument's value stands, for edits."""
        return self.program.argument_span(self, position, name)

    @property
    def keywords(self) -> tuple[str, ...]:
        """The names of the keyword arguments."""
        return tuple(name for name, _ in self.term[3])


class Program(SourceSpans):
    """All analysed files, linked."""

    def __init__(
        self,
        files: Iterable[FileFacts],
        *,
        put_aside: int = 0,
        texts: ProjectTexts | None = None,
        kept: KeptAnswers | None = None,
    ) -> None:
        # of several callers or paths the first is shown: which one that is must not depend on the order of the input
        self.index = Index(sorted(files, key=lambda file: file.path), loaded=True)
        super().__init__(self.index.files)
        #: by file, see :mod:`.summary`
        self.terms, self.events, self.blocks = self.index.terms, self.index.events, self.index.blocks
        #: by path
        self.files: Mapping[str, FileFacts] = {file.path: file for file in self.index.files}
        #: files without distributed code
        self.put_aside = put_aside
        #: the texts of all files of the repositories; None where only a part of them was read
        self.texts = texts
        #: what earlier runs have found out, None where nothing is kept
        self.kept = kept
        #: what was searched in these texts, and the answers
        self.searched: dict[Question, Answer] = {}
        self._targets: dict[tuple[int, int], tuple[str, ...]] = {}
        # by kind and by last name: the file's number and the event's in one, since a large tree has millions
        self._rows: defaultdict[str, array[int]] = defaultdict(functools.partial(array, "Q"))
        self._named: defaultdict[str, array[int]] = defaultdict(functools.partial(array, "Q"))
        # rows are immutable: each is made once
        self._row_of: dict[int, EventRow] = {}
        self._rows_of_scope: dict[tuple[int, int], list[EventRow]] = {}
        self._blocks_around: dict[tuple[int, int], list[tuple[int, Block]]] = {}
        #: what probes have worked out and share, by a key of theirs
        self.notes: dict[Any, Any] = {}
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

    def blocks_around(self, file: int, block: int) -> list[tuple[int, Block]]:
        """Return a block and those around it in its function, outermost first."""
        found = self._blocks_around.get((file, block))
        if found is None:
            found = self._blocks_around[file, block] = chain(self.blocks[file], block)
        return found

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
        found = []
        for atom in call.callee:
            if atom.kind == Kind.FUNCTION:
                found.append(atom.const)
            elif atom.kind == Kind.CLASS:
                init = self.evaluator.method(atom.const, "__init__")
                if init is not None:
                    found.append(init)
            elif atom.kind == Kind.OBJECT:
                called = self.evaluator.method(atom.const, "__call__") or self.evaluator.method(atom.const, "forward")
                if called is not None:
                    found.append(called)
        return list(dict.fromkeys(found)) if len(found) > 1 else found

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

    def scope(self, function: tuple[int, int]) -> Scope:
        """A function of the project."""
        return self.index.scopes[function[0]][function[1]]

    def scopes(self) -> Iterator[tuple[int, int]]:
        """Yield all functions, class bodies and modules: (file, scope)."""
        for file in range(len(self.index.files)):
            for number in range(len(self.index.scopes[file])):
                yield file, number

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
                if call.gives(None, "process_group") and not self.evaluator.is_world(
                    call.file, call.argument_term(None, "process_group")
                ):
                    return None
                return target
        return None

    def is_generator(self, function: tuple[int, int]) -> bool:
        """Return whether a function yields."""
        return any(event[0] == "yield" for event in self.evaluator.events_of(function))

    # order

    def excludes(self, one: EventRow, other: EventRow) -> bool:
        """Return whether two rows of one function stand in different arms of one ``if``: never both run in one pass."""
        tests = {node[2]: node[3] for _, node in one.blocks if node[1] == "if"}
        return any(node[1] == "if" and tests.get(node[2], node[3]) != node[3] for _, node in other.blocks)

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

    def imports(self, file: int) -> list[str]:
        """Dotted names of a file's imports, as written."""
        return self.index.files[file].imports

    def imports_from(self, file: int, *modules: str) -> bool:
        """Return whether a file imports one of these modules or something of it."""
        return not self._imported_modules(file).isdisjoint(modules)

    @cached
    def _imported_modules(self, file: int) -> frozenset[str]:
        """Return the dotted names of a file's imports, and those of the modules around them."""
        return frozenset(
            name if end < 0 else name[:end]
            for name in self.imports(file)
            for end in (-1, *(position for position, char in enumerate(name) if char == "."))
        )

    def framework(self, file: int) -> str | None:
        """Return the framework that owns process group, loop or guards in a file: by its import."""
        for name in self.imports(file):
            for framework in names.FRAMEWORKS:
                if name == framework or name.startswith(framework + "."):
                    return framework
        return None

    @cached
    def is_test(self, file: int) -> bool:
        """Return whether a file is a test: by its path, or because it imports pytest or unittest."""
        path = self.index.files[file].path.replace("\\", "/").lower()
        return bool(_TESTS.search(path)) or self.imports_from(file, "pytest", "unittest")

    @cached
    def is_example(self, file: int) -> bool:
        """Return whether a file is an example or tutorial, by its path."""
        return bool(_EXAMPLES.search(self.index.files[file].path.replace("\\", "/").lower()))

    def is_script(self, file: int) -> bool:
        """Whether a file is meant to be started: ``if __name__ == "__main__"``, or nothing imports it and it calls at
        module level.
        """
        return self.index.files[file].has_main_guard

    @cached
    def is_unused(self, file: int, scope: int) -> bool:
        """Return whether nothing reaches a scope: no code names its function, or another one replaces it."""
        around = []
        while scope > 0:
            around.append(self.index.scopes[file][scope])
            scope = self.index.scopes[file][scope].parent
        around.reverse()
        return (
            self._is_unused_in_script(file, around)
            or any(self._is_replaced(file, one) for one in around)
            or self._is_unused_in_project(file, around)
        )

    @cached
    def is_never_taken(self, file: int, scope: int, block: int, depth: int = 4) -> bool:
        """Return whether no call of the project takes the arms around a block, by the constants that each call passes.

        Not known is what users of a package pass, and what a function gets that is handed around.
        """
        function = self.index.scopes[file][scope]
        if self.index.files[file].packaged and not function.name.startswith("_"):
            return False
        evaluator = self.evaluator
        arms = [node for _, node in self.blocks_around(file, block) if node[1] == "if" or node[1].startswith("exit:")]

        def excluded(context: CallContext) -> bool:
            return any(evaluator.settled(file, node[2], context) is (not node[3]) for node in arms)

        contexts = evaluator.contexts((file, scope))
        for site, context in zip(evaluator.callers.get((file, scope), ()), contexts, strict=False):
            _, caller, around, *_ = self.events[site.file][site.event]
            outer = evaluator.contexts((site.file, caller))
            if not (
                excluded(context)
                or (outer and all(excluded(evaluator.context_of(site, (file, scope), one)) for one in outer))
                or (depth and self.is_never_taken(site.file, caller, around, depth - 1))
            ):
                return False
        return bool(contexts)

    def _is_unused_in_script(self, file: int, around: list[Scope]) -> bool:
        """Return whether scopes belong to a function of a script that no code of it names, so that it never runs.

        Other code can't import a script by accident, but may use all that a module offers. What a decorator or a base
        class gets to see, and a public method of a class that is used, may be called from there.
        """
        facts = self.index.files[file]
        if not facts.has_main_guard or facts.cells or self.index.importers(file):
            return False
        if not around or around[0].kind not in ("function", "class") or any(one.decorators for one in around):
            return False
        text = facts.text
        if USES_ANY_NAME.search(text):
            return False
        outermost = around[0]
        if outermost.kind == "function":
            return self._only_unused_name(file, outermost, ())
        if any(one.bases for one in self.index.classes[file] if self.scope((file, one.scope)) is outermost):
            return False
        method = around[1].name if len(around) > 1 else ""
        private = method.startswith("_") and not method.startswith("__")
        return _is_named_once(outermost.name, text) or (private and _is_named_once(method, text))

    def _only_unused_name(self, file: int, function: Scope, seen: tuple[Scope, ...]) -> bool:
        """Return whether only functions of a script that nothing names themselves name a function of it."""
        named = re.compile(rf"\b{re.escape(function.name)}\b")
        scopes = self.index.scopes[file]
        for number, line in enumerate(self.lines(file), 1):
            if number == function.line or not named.search(line):
                continue
            users = [one for one in scopes[1:] if one.parent == 0 and one.line <= number <= one.end_line]
            if len(users) != 1 or users[0].kind != "function" or users[0].decorators or number == users[0].line:
                return False
            user = users[0]
            if user not in (function, *seen) and not (
                len(seen) < _MOST_UNUSED and self._only_unused_name(file, user, (*seen, function))
            ):
                return False
        return True

    def _is_replaced(self, file: int, scope: Scope) -> bool:
        """Return whether a later definition of the same name replaces a function before anything can use it."""
        if scope.kind != "function" or scope.decorators:
            return False
        after = [
            one
            for one in self.index.scopes[file]
            if (one.name, one.parent, one.block, one.kind) == (scope.name, scope.parent, scope.block, "function")
            and one.line > scope.end_line
        ]
        if not after or any(one.decorators for one in after):
            return False
        between = "\n".join(self.lines(file)[scope.end_line : min(one.line for one in after) - 1])
        return re.search(rf"\b{re.escape(scope.name)}\b", between) is None

    def _is_unused_in_project(self, file: int, around: list[Scope]) -> bool:
        """Return whether scopes belong to a module that no file imports, or to a function that no file names.

        That is known only if all files of the repository were read. Users may import what a package offers.
        """
        facts = self.index.files[file]
        path = facts.path.replace("\\", "/")
        if self.texts is None or len(self.index.files) < 2 or facts.cells or self.is_test(file):
            return False
        is_public = facts.packaged and REPLACED.search(path.removesuffix(".py").lower()) is None
        if around and self.is_leftover(file) and self.has_scripts():
            stem = path.rpartition("/")[2].removesuffix(".py")
            starts = any(isinstance(row, SourceCall) and self.functions(row) for row in self.rows_of(file, 0))
            return not (is_public or starts or any(self.uses_name(file, name) for name in (stem, *_LOADS_MODULES)))
        if not around or around[0].kind not in ("function", "class") or any(one.decorators for one in around):
            return False
        if not any(self.index.files[one].has_main_guard for one in self.evaluator.importers(file) - {file}):
            return False
        outermost, text = around[0], facts.text
        if outermost.kind == "function":
            return not (
                (is_public and not outermost.name.startswith("_"))
                or self.uses_name(file, outermost.name)
                or self.composes_name_of(file, outermost.name)
            )
        if len(around) < 2 or around[1].kind != "function" or re.search(r"getattr\(\s*(?:self|cls)\b", text):
            return False
        owner = next(number for number, one in enumerate(self.index.classes[file]) if one.scope == around[1].parent)
        name = around[1].name
        return not (
            name.startswith("__")
            or (is_public and not name.startswith("_"))
            or any(base not in _PLAIN_BASES for base in self.evaluator.outer_bases((file, owner)))
            or any(base.kind == Kind.UNKNOWN for base in self.evaluator.bases((file, owner)))
            or self.uses_name(file, name)
        )

    @cached
    def composes_name_of(self, file: int, name: str) -> bool:
        """Return whether a text that code composes may be a name of a file: in a module that has it, or uses one."""
        having = {file}
        importing = sorted(self.evaluator.importers(file) - having)
        for _ in range(4):
            having.update(
                one
                for one in importing
                for star in self.index.scopes[one][0].stars
                if (located := self.index.locate(one, star)) is not None and located[0] in having
            )
        imported = {mention.path for mention in self.mentions(name) or () if mention.imports}
        having.update(one for one in importing if self.index.files[one].path in imported)
        return any(
            (is_own and one in having) or not having.isdisjoint(modules)
            for one in (file, *importing)
            for is_own, modules in (self._composed_names(one),)
        )

    @cached
    def _composed_names(self, file: int) -> tuple[bool, frozenset[int | None]]:
        """Return whether a file composes names of its own module, and the other modules whose names it composes."""
        text = self.index.files[file].text
        modules = {match[1] or match[2] for match in _USES_NAMES_OF.finditer(text)}
        imported = {part for dotted in self.imports(file) for part in dotted.split(".")}
        named = frozenset(
            self._module_called(file, module, text)
            for module in modules
            if module is not None and (module in imported or f" as {module}" in text)
        )
        return None in modules, named

    def _module_called(self, file: int, name: str, text: str) -> int | None:
        """Return the module of the project that a name in a file is imported as."""
        for dotted in self._names_imported_as(name, text):
            located = self.index.locate(file, dotted)
            if located is not None:
                return located[0]
        return None

    def _names_imported_as(self, name: str, text: str) -> Iterator[str]:
        """Yield the dotted names of what imports in a text bind to a name."""
        for found in re.finditer(
            rf"^[ \t]*(?:from\s+([\w.]+)\s+)?import\b(.*(?<![\w.]){name}\b(?!\s+as\b|\.).*)", text, re.MULTILINE
        ):
            renamed = re.search(rf"([\w.]+)\s+as\s+{name}\b", found[2])
            last = renamed[1] if renamed else name
            within = "" if (found[1] or ".").endswith(".") else "."
            yield f"{found[1]}{within}{last}" if found[1] else last

    @cached
    def has_scripts(self) -> bool:
        """Return whether a file is meant to be started."""
        return any(one.has_main_guard for one in self.index.files)

    def uses_name(self, file: int, name: str) -> bool:
        """Return whether a file of the repository of a file uses a name."""
        return self.texts is None or bool(self._searched(("uses", self.index.files[file].repository, name)))

    def mentions(self, name: str) -> tuple[Mention, ...] | None:
        """Return where files of the repository name something; None if these are too many, or not all were read."""
        if self.texts is None or len(self.repositories) != 1:
            return None
        found = self._searched(("mentions", self.repositories[0], name))
        return tuple(Mention(*one) for one in found) if isinstance(found, tuple) else None

    def magics(self, file: int) -> tuple[str, ...] | None:
        """Return the lines of a notebook that are no Python; None if that is not known."""
        facts = self.index.files[file]
        found = self._searched(("magics", facts.repository, facts.path))
        return tuple(line for (line,) in found) if isinstance(found, tuple) else None

    def _searched(self, question: Question) -> Answer:
        if question not in self.searched:
            self.searched[question] = None if self.texts is None else self.texts.answer(question)
        return self.searched[question]

    @functools.cached_property
    def repositories(self) -> tuple[str, ...]:
        """The repositories of its files."""
        return tuple(dict.fromkeys(facts.repository for facts in self.index.files))

    @cached
    def is_leftover(self, file: int) -> bool:
        """Return whether a file is a module that no other file of its project imports, and no script.

        A file that is read alone shows nothing about that.
        """
        facts = self.index.files[file]
        if self.index.importers(file) or len(self.index.files) < 2 or facts.has_main_guard or facts.cells:
            return False
        name = facts.path.replace("\\", "/").rsplit("/", 1)[-1]
        if name in USED_BY_NAME or self.is_test(file) or name.removesuffix(".py") in self._imported_names():
            return False
        # a statement that is only a call: the file does something by itself
        return not any(isinstance(row, SourceCall) and row.use == "drop" for row in self.rows_of(file, 0))

    @cached
    def _imported_names(self) -> frozenset[str]:
        """Return all parts of imported names, of files that were not found, too: two modules may have one name."""
        files = range(len(self.index.files))
        return frozenset(part for file in files for dotted in self.imports(file) for part in dotted.split("."))

    def component(self, file: int) -> list[int]:
        """Return the files that hang together with a file by imports, itself included."""
        return self._components()[self.index.roots()[file]]

    @cached
    def _components(self) -> dict[Hashable, list[int]]:
        return grouped_pairs((root, number) for number, root in enumerate(self.index.roots()))

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


def _is_named_once(name: str, text: str) -> bool:
    """Return whether a name stands in a text once only: where it is defined."""
    return len(re.findall(rf"\b{re.escape(name)}\b", text)) == 1


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
