"""Ranks: those for which a test is true, the guards around a block, and the ranks that reach a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import algebra, vocabulary
from .call_sites import CallSites
from .link import EntrySite, Index, chain
from .source_tables import DEEPEST, CallContext
from .source_text import last_name, mentions
from .summary import FileSummary
from .values import ALWAYS, NOT_CLEAR, PARTIAL, Certainty, Kind, RankCondition, Who, added, both, either


class Guard(NamedTuple):
    """A condition around a block, as far as it bears on ranks."""

    who: RankCondition
    #: ``if``, ``while``, ``exit:return`` … as in the summary's blocks
    kind: str
    block: int
    line: int
    term: int
    polarity: bool


class RankReach(CallSites):
    """For which ranks a test is true, and which ranks reach a block."""

    def __init__(self, index: Index, visit: Callable[[int, FileSummary], None] = lambda file, summary: None) -> None:
        super().__init__(index, visit)
        self.tests: list[dict[int, RankCondition]] = [{} for _ in self.files]
        self._guards: dict[tuple[int, int], list[Guard]] = {}
        self.entries: dict[tuple[int, int], RankCondition] = {}

    def test(self, file: int, number: int, context: CallContext | None = None) -> RankCondition:
        """For whom a term is true."""
        if number < 0:
            return NOT_CLEAR
        memo = self.tests[file]
        if context is None and number in memo:
            return memo[number]
        if self.depth > DEEPEST:
            return NOT_CLEAR
        if context is None:
            memo[number] = NOT_CLEAR
        self.depth += 1
        try:
            term = self.terms[file][number]
            if term[0] == "u" and term[1] == "not":
                found = self.test(file, term[2], context).inverse()
            elif term[0] == "and":
                parts = [self.test(file, part, context) for part in term[1]]
                found = both(parts)
                if any(part.who == Who.UNCLEAR for part in parts) and found.who != Who.UNCLEAR:
                    # what can't be seen may keep the others out as well, or let them in where this is negated
                    found = found.at_best(Certainty.MERGED)
            elif term[0] == "or":
                found = either([self.test(file, part, context) for part in term[1]])
            else:
                found = algebra.truth(self.value(file, number, context))
        finally:
            self.depth -= 1
        if context is None:
            memo[number] = found
        return found

    def guards(self, file: int, block: int, context: CallContext | None = None) -> list[Guard]:
        """Return the conditions around a block within its own scope that depend on ranks, outermost first."""
        if context is not None or self.linking:
            return self._guards_at(file, block, context)
        known = self._guards.get((file, block))
        if known is None:
            known = self._guards[file, block] = self._guards_at(file, block, None)
        return known

    def _guards_at(self, file: int, block: int, context: CallContext | None) -> list[Guard]:
        found = []
        uniform: dict[int, bool] = {}
        for number, (_, kind, term, polarity, line, _) in chain(self.blocks[file], block):
            if kind in ("if", "while") or kind.startswith("exit:"):
                who = self.test(file, term, context)
                if not polarity:
                    who = who.inverse()
                if who.who not in (Who.EVERYONE, Who.UNCLEAR):
                    found.append(Guard(who, kind, number, line, term, polarity))
                else:
                    assume(self.terms[file], term, polarity, uniform)
        # `if not flag and rank != 0: return` keeps no rank from what stands under `if flag:`
        return [guard for guard in found if truth_of(self.terms[file], guard.term, uniform) is not guard.polarity]

    def ranks_at_block(self, file: int, block: int, context: CallContext | None = None) -> RankCondition:
        """Return who reaches a block within its own scope."""
        if block <= 0:
            return ALWAYS
        # an exception ends the job and is no other path
        return both(guard.who for guard in self.guards(file, block, context) if guard.kind != "exit:raise")

    def settled(self, file: int, term: int, context: CallContext) -> bool | None:
        """Return whether a condition is always true, or never, for the arguments of one call; else None."""

        def decided(term: int) -> bool | None:
            # what is counted or collected in a loop is no constant: only what the call passes is
            parts = self.terms[file][term]
            sides = parts[2:4] if parts[0] == "=" else (term,)
            if any(self.terms[file][side][0] not in ("p", "k") for side in sides):
                return None
            constant = self.value(file, term, context).constant
            return bool(constant) if constant is None or isinstance(constant, (bool, int, str)) else None

        return truth_by(self.terms[file], term, decided)

    def in_each_call(self, guard: Guard, file: int, scope: int) -> Guard | None:
        """Return a guard as the call makes it that proves most; None where the arguments of all calls switch it off.

        A guard that no parameter decides, or in a function whose calls are not all known, stays as it is.
        """
        names = {name for name, _, _ in self.index.scopes[file][scope].parameters}
        if not names or not mentions(self.terms[file], [guard.term], names):
            return guard
        contexts = self.contexts((file, scope))
        best: Guard | None = None
        for context in contexts:
            if self.settled(file, guard.term, context) is not None:
                continue
            who = self.test(file, guard.term, context)
            if not guard.polarity:
                who = who.inverse()
            if who.who in PARTIAL and (best is None or who.certainty < best.who.certainty):
                best = guard._replace(who=who)
        return best if contexts else guard

    def decorated(self, file: int, number: int) -> RankCondition:
        """Return who runs the body of a function, by its decorators."""
        terms = self.terms[file]
        for decorator in self.index.scopes[file][number].decorators:
            term = decorator
            parts = terms[term]
            if parts[0] == "c":
                term = parts[1]
            name = last_name(terms, term).lower().strip("_")
            value = self.value(file, term)
            for atom in value:
                if atom.kind == Kind.FUNCTION:
                    who = self.of_decorator(atom.const)
                    if who is not None:
                        return who
            if name in vocabulary.DECORATORS:
                # imported from a library, it is the one that is known by this name
                known = any(atom.kind in (Kind.NAMED, Kind.METHOD) and "." in str(atom.const) for atom in value)
                return RankCondition(vocabulary.DECORATORS[name], Certainty.PROVEN if known else Certainty.MERGED)
        return ALWAYS

    def of_decorator(self, function: tuple[int, int]) -> RankCondition | None:
        """A decorator of the project whose wrapper calls the function for some ranks only."""
        file, number = function
        scopes = self.index.scopes[file]
        terms = self.terms[file]
        inner = [child for child, scope in enumerate(scopes) if scope.parent == number and scope.kind == "function"]
        inner += [child for child, scope in enumerate(scopes) if scope.parent in inner and scope.kind == "function"]
        parameters = {name for scope in (number, *inner) for name, _, _ in scopes[scope].parameters}
        for child in inner:
            for event in self.events_of((file, child)):
                if event[0] == "call":
                    callee = terms[terms[event[7]][1]]
                    if callee[0] in ("v", "p") and callee[2] in parameters:
                        who = self.ranks_at_block(file, event[2])
                        if who.who in PARTIAL:
                            return who
        return None

    def entry(self, file: int, number: int) -> RankCondition:
        """Return who enters a scope: everyone, unless its decorators restrict it or all its callers are guarded."""
        key = (file, number)
        if key in self.entries:
            return self.entries[key]
        self.entries[key] = ALWAYS
        scope = self.index.scopes[file][number]
        if scope.kind == "module":
            return ALWAYS
        if scope.kind == "class":
            self.entries[key] = found = self.reached_by(file, scope.parent, scope.block)
            return found
        found = self.decorated(file, number)
        if found.who == Who.EVERYONE:
            sites = self.likely_callers(key)
            handed_around = key in self.escaped and all(site.kind == "call" for site in sites)
            if sites and not handed_around and self.depth < DEEPEST:
                self.depth += 1
                try:
                    found = self._entry_by(sites[:40])
                finally:
                    self.depth -= 1
        self.entries[key] = found
        return found

    def _entry_by(self, sites: list[EntrySite]) -> RankCondition:
        """Return who gets in by any of several calls; the first that everyone gets to settles it."""
        conditions = []
        for site in sites:
            condition = self.reached_by_site(site)
            if condition.who in algebra.WIDE:
                return ALWAYS
            if site.weak:
                condition = RankCondition(condition.who, added(condition.certainty, Certainty.MERGED))
            conditions.append(condition)
        return algebra.widest(conditions)

    def reached_by_site(self, site: EntrySite) -> RankCondition:
        """Return who gets to a call."""
        event = self.events[site.file][site.event]
        return self.reached_by(site.file, event[1], event[2])

    def reached_by(self, file: int, scope: int, block: int) -> RankCondition:
        """Return who reaches a block: its guards, and whatever enters its scope."""
        return both((self.ranks_at_block(file, block), self.entry(file, scope)))


def assume(terms: list[tuple[Any, ...]], term: int, truth: bool, known: dict[int, bool]) -> None:
    """Add to ``known`` what follows from the truth of a condition."""
    parts = terms[term]
    if parts[0] == "u" and parts[1] == "not":
        assume(terms, parts[2], not truth, known)
    elif parts[0] == ("and" if truth else "or"):
        for part in parts[1]:
            assume(terms, part, truth, known)
    else:
        known[term] = truth


def truth_of(terms: list[tuple[Any, ...]], term: int, known: dict[int, bool]) -> bool | None:
    """Return whether a condition is true for certain, or false for certain, given that of other terms; else None."""
    return truth_by(terms, term, lambda one: known.get(one, bool(terms[one][2]) if terms[one][0] == "k" else None))


def truth_by(terms: list[tuple[Any, ...]], term: int, decided: Callable[[int], bool | None]) -> bool | None:
    """Return whether a condition is true or false for certain, by the terms in it that are decided; else None."""
    known = decided(term)
    if known is not None:
        return known
    parts = terms[term]
    if parts[0] == "u" and parts[1] == "not":
        inner = truth_by(terms, parts[2], decided)
        return None if inner is None else not inner
    if parts[0] in ("and", "or"):
        values = [truth_by(terms, part, decided) for part in parts[1]]
        decisive: bool = parts[0] == "or"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    return None
