"""Whether a project shows that its ranks execute the line of a finding, whatever they compute: its shown reach.

Here are the chains of resolved calls from the top level of a script to the line, each with the conditions on options
that it needs. A test that no option decides ends a chain, unless it passes in some turn of a loop, on some rank, or in
each job of several ranks. The launch lines that take a chain are found later (:mod:`..launch_files.shown_launches`).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from distcheck.core.model import Finding, Severity
from distcheck.core.rank_evidence import ACCELERATE_SINCE, CHAINS, SINCE, TRANSFORMERS_SINCE, UNPROVEN

from .call_paths import tables
from .certain_failures import fails_in_its_function
from .link import EntrySite, reachable
from .option_paths import UNKNOWN, Expression, bound_in, closed, declared_option, expression_of_term, parts_of
from .path_values import CallPath, is_open, term_on
from .program import EventRow, Function, Program, SourceCall, cached
from .source_text import last_name
from .term_queries import users
from .values import PARTIAL, Certainty, Kind, Value, Who
from .vocabulary import PLAIN_DECORATORS, word_set

#: So many turns of a loop are those of no job.
_NEVER = 10_000_000
_TRUE: Expression = ("k", True)
_FALSE: Expression = ("k", False)
#: Longer chains, more chains of one line, more steps and deeper terms are not followed.
_DEEPEST, _MOST_CHAINS, _MOST_STEPS, _DEEPEST_TERM = 16, 24, 400, 6
#: Rules about the process that starts the ranks: it executes the line.
_OF_THE_START = frozenset(["DC748"])
#: What a finding rests on if it is about a release, which the project may not have.
_RELEASES = (SINCE, ACCELERATE_SINCE, TRANSFORMERS_SINCE)
#: Lines in a message: "in line 31", "at src/train.py:31".
_NAMED = re.compile(r"\bline (?P<line>\d+)|(?<![\w/])(?P<path>[\w./-]+\.py):(?P<number>\d+)")
#: Names of what counts the turns of a loop, and of the best value so far.
_COUNTER = re.compile(
    r"(?:^|_)(?:epochs?|steps?|iters?|iteration|it|i|idx|index|batch_(?:idx|i|id|num)|n_iter)$", re.IGNORECASE
)
_BEST = re.compile(
    r"best|lowest|highest|prev|(?:^|_)(?:min|max)_(?:\w+_)?(?:loss|acc\w*|val\w*|error|score|metric|psnr|f1|auc)",
    re.IGNORECASE,
)
#: Numbers of turns, such as ``max_steps``, and names of what holds options and limits.
_LIMIT = re.compile(r"^(?:max|min|num|n|total|warmup|save|eval|log|val|test|start|end|stop)_", re.IGNORECASE)
_SETTINGS = word_set("args opt opts options cfg conf config configs hparams params settings FLAGS")
#: Decorators whose function runs at each call.
_DECORATORS = PLAIN_DECORATORS | word_set("record main compile hydra_main record_function command option argument")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: Calls over whose numbers a loop counts.
_COUNTING = ("range", "trange", "count")
#: Tests that pass in each job on several GPUs.
_ALWAYS = (
    "torch.cuda.is_available",
    "torch.distributed.is_available",
    "torch.distributed.is_initialized",
    "torch.distributed.is_nccl_available",
)
#: What is true, and not None.
_THINGS = frozenset((Kind.OBJECT, Kind.WRAPPED, Kind.FUNCTION, Kind.CLASS, Kind.MODULE, Kind.GROUP))

#: A line: the numbers of its file and of the line.
Place = tuple[int, int]


class _Chain(NamedTuple):
    """A chain of calls from the top level of a script to a line."""

    script: int
    #: the call on it that starts ranks
    spawn: SourceCall | None
    needed: Expression


def with_chains(program: Program, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings; those to whose line chains of calls lead get them as evidence, by script.

    The same script must reach all lines that a finding names. One with a step that is not proven gets no chains.
    """
    numbers = {facts.path: number for number, facts in enumerate(program.index.files)}
    found = []
    for finding in findings:
        evidence = dict(finding.evidence)
        is_proven = evidence.pop(UNPROVEN, None) is None and evidence.keys().isdisjoint(_RELEASES)
        is_proven = is_proven and not any("merged:" in step for step in evidence.get("flow", ()))
        file = numbers.get(finding.where.path or "")
        if is_proven and file is not None and finding.severity > Severity.INFO and finding.where.line is not None:
            line = (file, program.source_line(file, finding.where))
            others = [one for one in dict.fromkeys(_places(finding, file, numbers)) if one != line]
            starts = _starts(program, line, others, is_start=finding.code in _OF_THE_START)
            if starts:
                evidence[CHAINS] = starts
        found.append(finding if evidence == finding.evidence else finding._replace(evidence=evidence))
    return found


def _places(finding: Finding, file: int, numbers: Mapping[str, int]) -> Iterator[Place]:
    """Yield the lines that the message of a finding and its flow name."""
    for match in _NAMED.finditer(finding.message):
        if match["line"]:
            yield file, int(match["line"])
        elif match["path"] in numbers:
            yield numbers[match["path"]], int(match["number"])
    for step in finding.evidence.get("flow", ()):
        path, _, line = step.partition(": ")[0].rpartition(":")
        if path in numbers and line.isdigit():
            yield numbers[path], int(line)


def _starts(
    program: Program, line: Place, others: Iterable[Place], *, is_start: bool
) -> tuple[tuple[str, Expression, Expression, str], ...]:
    """Return the scripts that reach a line and others, each with what that needs: of a launch with several ranks, and
    of one whose script starts the ranks by a call, the location of which is the last item.

    :param is_start: the process that starts the ranks executes the line
    """
    chains = _chains(program, *line)
    found = []
    for script in dict.fromkeys(one.script for one in chains):
        also = [
            _any(one.needed for one in _chains(program, *other) if one.script == script)
            for other in others
            if program.row_at(*other) is not None
        ]
        own = [one for one in chains if one.script == script]
        started = [one for one in own if one.spawn is not None]
        if is_start:
            before = _any(one.needed for one in own if one.spawn is None)
            started = [one._replace(needed=_all([before, one.needed])) for one in _spawning(program, script)]
        launched = _all([_any(one.needed for one in own), *also])
        alone = _all([_any(one.needed for one in started), *also])
        if (launched, alone) != (_FALSE, _FALSE):
            spawn = next((one.spawn.place for one in started if one.spawn is not None), "")
            found.append((program.index.files[script].path, closed(launched), closed(alone), spawn))
    return tuple(found)


def _all(parts: Iterable[Expression]) -> Expression:
    needed = [one for one in dict.fromkeys(parts) if one != _TRUE]
    return _TRUE if not needed else _FALSE if _FALSE in needed else needed[0] if len(needed) == 1 else ("and", *needed)


def _any(parts: Iterable[Expression]) -> Expression:
    needed = [one for one in dict.fromkeys(parts) if one != _FALSE]
    return _FALSE if not needed else _TRUE if _TRUE in needed else needed[0] if len(needed) == 1 else ("or", *needed)


def _unless_false(needed: Expression) -> Expression:
    """Return what holds unless an expression is known to be false."""
    return needed if needed == _FALSE else _TRUE if needed in (_TRUE, UNKNOWN) else ("may", needed)


@cached
def _spawning(program: Program, script: int) -> list[_Chain]:
    """Return the chains of a script to the calls by which it starts several ranks."""
    found: list[_Chain] = []
    for function in dict.fromkeys(one for started in tables(program).spawning.values() for one in started):
        for site in program.evaluator.callers.get(function, ()):
            row = cast(SourceCall, program.event_row(site.file, site.event))
            if _starts_processes(row, site):
                several = _several(_Here(row, CallPath(row, (), (row.file, row.scope), Certainty.PROVEN), ()), site)
                found.extend(
                    one._replace(spawn=row, needed=_all([one.needed, several]))
                    for one in _chains_of(program, row)
                    if one.script == script
                )
    return found


def _starts_processes(call: SourceCall, site: EntrySite) -> bool:
    return site.kind != "call" and not call.is_to("threading.Thread")


@cached
def _chains(program: Program, file: int, line: int) -> tuple[_Chain, ...]:
    """Return the chains to a line."""
    row = program.row_at(file, line)
    if row is None:
        return ()
    rows = [one for one in program.rows_of(file, row.scope) if one.line == line]  # if x: save()
    return _chains_of(program, max(rows, key=lambda one: len(list(one.blocks)), default=row))


def _chains_of(program: Program, row: EventRow) -> tuple[_Chain, ...]:
    """Return the chains to a row, those with the same needs once."""
    return tuple(dict.fromkeys(itertools.islice(_Search(program, row).chains(row, (), frozenset()), _MOST_CHAINS)))


def _is_chosen(row: EventRow) -> bool:
    """Return whether a call is an arm of a conditional expression, or comes after ``and`` or ``or``."""
    waiting = [row.payload[0]] if isinstance(row, SourceCall) else []
    for number in waiting:
        for user in users(row.program, row.file).get(number, ()):
            parts = row.terms[user]
            if (parts[0] == "?" and number in parts[2:4]) or (parts[0] in ("and", "or") and number in parts[1][1:]):
                return True
            if user not in waiting:
                waiting.append(user)
    return False


@cached
def _running(program: Program, file: int) -> frozenset[int]:
    """Return the other files that run a file when they start: they import it at their top level, or what does so."""

    def importing(one: int) -> list[int]:
        path = program.index.files[one].path.removesuffix(".py").removesuffix("/__init__")
        line = re.compile(rf"^(?:from|import)\b.*\b{re.escape(path.rpartition('/')[2])}\b", re.MULTILINE)
        return [other for other in program.index.importers(one) if line.search(program.index.files[other].text)]

    return frozenset(reachable((file,), importing)) - {file}


@cached
def _runs_when_called(program: Program, function: Function) -> bool:
    """Return whether a call runs the body of a function: it is no generator, no decorator may leave it out, and no
    object gets another method of its name.
    """
    scope, terms = program.scope(function), program.terms[function[0]]
    called = (terms[one][1] if terms[one][0] == "c" else one for one in scope.decorators)
    return (
        not program.is_generator(function)
        and all(last_name(terms, one) in _DECORATORS for one in called)
        and not (scope.owner >= 0 and any(name == scope.name for _, name in program.evaluator.outside))
    )


#: Calls on a chain, the innermost first, each with the function that it enters.
_Sites = tuple[tuple[Function, EntrySite], ...]


class _Search:
    """The search for chains, upwards from a row through resolved calls."""

    def __init__(self, program: Program, target: EventRow) -> None:
        self.program = program
        self.target = target
        self.steps = _MOST_STEPS

    def chains(self, row: EventRow, sites: _Sites, seen: frozenset[Function]) -> Iterator[_Chain]:
        """Yield the chains whose calls end with some."""
        self.steps -= 1
        program, function, kind = self.program, (row.file, row.scope), row.function.kind
        if self.steps < 0 or function in seen or len(sites) > _DEEPEST:
            return
        if row.inside("except") or _is_chosen(row) or fails_in_its_function(program, row):
            return
        if kind == "module":
            chain = self._chain(sites, row)
            if chain is not None:
                yield chain
                if not any(program.evaluator.is_main_guard(row.file, node[2]) for _, node in row.blocks):
                    yield from (chain._replace(script=one) for one in sorted(_running(program, row.file)))
        elif kind == "function" and _runs_when_called(program, function):
            for site in program.evaluator.callers.get(function, ()):
                call = cast(SourceCall, program.event_row(site.file, site.event))
                if not site.weak and len({(atom.kind, repr(atom.const)) for atom in call.callee}) <= 1:
                    yield from self.chains(call, (*sites, (function, site)), seen | {function})

    def _chain(self, sites: _Sites, top: EventRow) -> _Chain | None:
        """Return the chain of some calls from the top level of a file; None if it is not taken, or nothing shows it."""
        program, root = self.program, (top.file, top.scope)
        calls = tuple(cast(SourceCall, program.event_row(site.file, site.event)) for _, site in sites)
        if not is_open(CallPath(self.target, calls, root, Certainty.PROVEN)):
            return None
        needed: list[Expression] = []
        spawn = None
        for position, row in enumerate((self.target, *calls)):
            here = _Here(row, CallPath(row, calls[position:], root, Certainty.PROVEN), sites[position:])
            needed.extend(_around(here))
            if position and _starts_processes(calls[position - 1], sites[position - 1][1]):
                spawn = calls[position - 1]
                needed.append(_several(here, sites[position - 1][1]))
        if UNKNOWN in needed or _FALSE in needed:
            return None
        return _Chain(top.file, spawn, _all(needed))


class _Here(NamedTuple):
    """A row of a chain, with the calls that lead to it."""

    row: EventRow
    path: CallPath
    sites: _Sites

    def needed(self, term: int) -> Expression:
        """Return a term as an expression of options, with what the calls pass."""
        found = expression_of_term(self.row.program, self.row.file, term)
        for function, site in self.sites:
            found = bound_in(self.row.program, found, function, site)
        return closed(found)

    def value(self, term: int) -> Value:
        """Return what a term holds, with what the calls pass."""
        row, given, _ = term_on(self.path, self.row, term)
        return row.term_value(given)


def _around(here: _Here) -> Iterator[Expression]:
    """Yield what the blocks around a row need, in its function."""
    row = here.row
    lines = row.program.lines(row.file)
    in_loop = False
    for _, (_, kind, term, polarity, line, _) in row.blocks:
        text = re.split("[:#]", lines[line - 1])[0] if 0 < line <= len(lines) else ""  # without what follows the test
        if kind == "if" and row.program.evaluator.is_main_guard(row.file, term):
            yield ("k", polarity)
        elif kind == "if" or (kind == "exit:return" and not in_loop):
            yield _holds(here, term, polarity, text)
        elif kind == "while" or kind.startswith("exit:"):
            # what is not known lets some turn of the loop pass, or no job end there
            yield _unless_false(_holds(here, term, polarity, text))
        elif kind == "for":
            yield _has_turns(here, term)
        in_loop = in_loop or kind in ("for", "while")


def _has_turns(here: _Here, term: int) -> Expression:
    """Return what it needs that a loop over a term has a turn, as far as that is known."""
    parts = here.row.terms[term]
    if parts[0] in ("l", "t"):
        return ("k", bool(parts[1]))
    if parts[0] == "c" and last_name(here.row.terms, parts[1]) in _COUNTING and len(parts[2]) in (1, 2):
        stop, start = here.needed(parts[2][-1]), here.needed(parts[2][0]) if len(parts[2]) == 2 else ("k", 0)
        if UNKNOWN not in (start, stop):
            return _unless_false(("=", "<", start, stop))
    return _TRUE


def _several(here: _Here, site: EntrySite) -> Expression:
    """Return what it needs that a call starts more than one process."""
    call = cast(SourceCall, here.row)
    if site.kind == "spawn":
        term = call.argument_term(2, "nprocs")
        return _FALSE if term < 0 else _more_than_one(here, term)
    for _, node in call.blocks:
        walked = call.terms[node[2]] if node[1] == "for" else ("-",)
        if walked[0] == "c" and last_name(call.terms, walked[1]) == "range" and len(walked[2]) == 1:
            return _more_than_one(here, walked[2][0])
    return UNKNOWN


def _more_than_one(here: _Here, term: int) -> Expression:
    value = here.value(term)
    if value.only(Kind.DEVICE_COUNT, Kind.WORLD_SIZE, Kind.LOCAL_WORLD_SIZE):
        return _TRUE
    if isinstance(value.constant, int):
        return ("k", value.constant > 1)
    needed = here.needed(term)
    return UNKNOWN if needed == UNKNOWN else ("=", ">", needed, ("k", 1))


def _holds(here: _Here, term: int, polarity: bool, text: str) -> Expression:
    """Return what it needs that a condition holds, in some turn of the loops around it and on some rank.

    :param text: its line
    """
    row, parts = here.row, here.row.terms[term]
    if parts[0] == "u" and parts[1] == "not":
        return _holds(here, parts[2], not polarity, text)
    if parts[0] in ("and", "or"):
        inner = (_holds(here, part, polarity, text) for part in parts[1])
        return _all(inner) if (parts[0] == "and") is polarity else _any(inner)
    who = row.program.evaluator.test(row.file, term).who
    if who in PARTIAL or who == Who.MEMBERS:
        return _TRUE
    needed = here.needed(term)
    if who == Who.DISTRIBUTED and needed == UNKNOWN:
        needed = declared_option(row.program, row.file, term)
    if UNKNOWN not in parts_of(needed):
        return needed if polarity else ("not", needed)
    if _is_of_turns(row, term, text):
        return _within_a_job(here, term)
    if who == Who.DISTRIBUTED and parts[0] == "=":
        option = declared_option(row.program, row.file, parts[2])
        if option[0] == "o" and option[4][0] == "k":  # the local rank: only some launchers pass it
            compared = ("=", parts[1], option, here.needed(parts[3]))
            return compared if polarity else ("not", compared)
    if who in (Who.SINGLE, Who.DISTRIBUTED):
        return ("k", (who == Who.DISTRIBUTED) is polarity)
    truth = _truth(here, term)
    return UNKNOWN if truth is None else ("k", truth is polarity)


def _within_a_job(here: _Here, term: int) -> Expression:
    """Return what it needs that every so many turns come in a job: by a billion of them options switch it off."""
    terms = here.row.terms
    sides = terms[term][2:4] if terms[term][0] == "=" else (term,)
    every = [here.needed(terms[side][3]) for side in sides if terms[side][:2] == ("o", "%")]
    return _all(_unless_false(one if one == UNKNOWN else ("=", "<", one, ("k", _NEVER))) for one in every)


def _is_of_turns(row: EventRow, term: int, text: str) -> bool:
    """Return whether a condition differs between turns of a loop: by what counts them, or by the best value so far.

    A name that a loop assigns again is followed to its first value, so that only the text shows it.
    """
    terms, parts = row.terms, row.terms[term]
    if parts[0] == "=":
        sides = parts[2:4]
        if parts[1] in ("<", ">", "<=", ">=") and any(
            _BEST.search(text if terms[side][0] == "k" else last_name(terms, side)) for side in sides
        ):
            return True
        if all(_is_number(row, side) for side in sides):
            return any(map(_COUNTER.search, _WORD.findall(text)))
        return any(_counts(row, side) for side in sides) and all(_is_plain(row, side) for side in sides)
    if parts[0] == "o" and parts[1] == "%":
        return _counts(row, parts[2]) or (_is_number(row, term) and any(map(_COUNTER.search, _WORD.findall(text))))
    return parts[0] in ("v", "a", "p") and "is_best" in last_name(terms, term)


def _is_number(row: EventRow, term: int, depth: int = 0) -> bool:
    """Return whether a term is arithmetic of numbers, options and attributes."""
    parts = row.terms[term]
    if parts[0] == "o":
        return depth < _DEEPEST_TERM and all(_is_number(row, side, depth + 1) for side in parts[2:4])
    return (parts[0] == "k" and parts[1] in ("int", "float")) or (depth > 0 and parts[0] == "a")


def _counts(row: EventRow, term: int, depth: int = 0) -> bool:
    """Return whether a term is made of what counts the turns of a loop."""
    terms, parts = row.terms, row.terms[term]
    if depth > _DEEPEST_TERM:
        return False
    inner: Iterable[int] = ()
    if parts[0] in ("v", "a", "p"):
        name = last_name(terms, term)
        if _LIMIT.match(name) or (parts[0] == "a" and last_name(terms, parts[1]) in _SETTINGS):
            return False
        if _COUNTER.search(name):
            return True
        inner = row.program.bound(row.file, parts)
    elif parts[0] == "e":
        return last_name(terms, parts[1]) in _COUNTING
    elif parts[0] == "x" and parts[2] == 0 and terms[parts[1]][0] == "e":
        return last_name(terms, terms[parts[1]][1]) == "enumerate"
    elif parts[0] == "o":
        inner = parts[2:4]
    return any(_counts(row, one, depth + 1) for one in inner)


def _is_plain(row: EventRow, term: int, depth: int = 0) -> bool:
    """Return whether a term is arithmetic of names and numbers."""
    parts = row.terms[term]
    if parts[0] == "o":
        return depth < _DEEPEST_TERM and all(_is_plain(row, side, depth + 1) for side in parts[2:4])
    if parts[0] == "c":
        return last_name(row.terms, parts[1]) in ("len", "int", "max", "min")
    return parts[0] in ("k", "v", "a", "p", "e", "x", "u")


def _truth(here: _Here, term: int) -> bool | None:
    """Return whether a term is true in each job of several ranks, or false in each; None if that is not known."""
    row, parts = here.row, here.row.terms[term]
    if parts[0] == "a" and parts[2] in _differing(row.program):
        return None
    known = row.term_value(term).constant
    if isinstance(known, bool):
        return known
    if parts[0] == "=":
        is_none = parts[1] in ("is", "is not", "==", "!=") and row.terms[parts[3]] == ("k", "none", None)
        thing = _is_thing(here.value(parts[2])) if is_none else None
        return None if thing is None else thing is (parts[1] in ("is not", "!="))
    if parts[0] == "c":
        return True if row.term_value(parts[1]).named(*_ALWAYS) is not None else None
    value = here.value(term)
    constant = value.constant
    if constant is None or isinstance(constant, (bool, int, str)):
        return bool(constant)
    return True if _is_thing(value) else None


@cached
def _differing(program: Program) -> frozenset[str]:
    """Return the names that the bodies of several classes bind: an object may have another value than its base."""
    bound = [
        name
        for file in range(len(program.index.files))
        for scope in program.index.scopes[file]
        if scope.kind == "class"
        for name in scope.bindings
    ]
    return frozenset(name for name, number in Counter(bound).items() if number > 1)


def _is_thing(value: Value) -> bool | None:
    """Return whether a value is an object for certain, or None for certain."""
    if value.constant is None:
        return False
    is_thing = all(
        atom.kind in _THINGS
        # of a class
        or (atom.kind == Kind.RESULT and str(atom.const).rpartition(".")[2][:1].isupper())
        or (atom.kind == Kind.CONST and bool(atom.const))
        for atom in value
    )
    return True if is_thing and value.atoms else None
