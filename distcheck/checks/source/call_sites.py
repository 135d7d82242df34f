"""Call sites: who calls, hands around or starts which function of the project, and what each call passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .algebra import stepped
from .link import EntrySite, Index, chain
from .source_tables import CallContext, SourceTables
from .source_text import argument_terms, first_parameter, last_name
from .summary import FileSummary, Scope
from .values import NOTHING_KNOWN, FlowStep, Kind, Value, value_of
from .vocabulary import PROCESSES, SPAWNS, word_set

#: Calls that share nothing but a method's name with it: with more of them, any code may call it.
_MOST_WEAK = 8


#: Calls of one function that are evaluated apart.
_MOST_SITES = 12


#: Method names too common to be found by name alone.
_COMMON = word_set(
    "forward step train eval update close log write save load run get set add append reset init start stop call "
    "build test fit __init__ to state_dict load_state_dict parse main backward zero_grad items keys values copy "
    "format join split read open print info setup flush put pop"
)


_SPAWNS = frozenset({*SPAWNS, "torch_xla.distributed.xla_multiprocessing.spawn"})
_PROCESSES = frozenset({*PROCESSES, "threading.Thread"})
#: Calls whose result starts processes as a module does: ``context.Process(target=…)``.
_CONTEXTS = {f"{module}.get_context": module for module in ("torch.multiprocessing", "multiprocessing")}
#: Names of calls that start functions elsewhere.
_STARTERS = frozenset({"spawn", "start_processes", "Process", "Thread"})


class CallSites(SourceTables):
    """Who calls which function, and what each call passes."""

    def __init__(self, index: Index, visit: Callable[[int, FileSummary], None] = lambda file, summary: None) -> None:
        super().__init__(index, visit)
        self._contexts: dict[tuple[int, int], tuple[CallContext, ...]] = {}
        self.callers: dict[tuple[int, int], list[EntrySite]] = {}
        #: scopes that are handed around as values: their callers are not known
        self.escaped: set[tuple[int, int]] = set()
        #: the calls (file, event) that a function is handed to
        self.handed: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def _link(self) -> None:
        """Who calls whom."""
        for file, facts in enumerate(self.files):
            summary = facts.summary
            terms = summary.terms
            names = facts.loaded.last_names
            scopes = self.index.scopes[file]
            local = {
                name
                for scope in scopes
                for name, values in scope.bindings.items()
                if any(terms[value][0] in ("fn", "cls", "c", "?", "|") for value in values)
            }
            for number, event in enumerate(summary.events):
                if event[0] == "call":
                    call = terms[event[7]]
                    name = names[call[1]]
                    if (
                        name in self.defined
                        or name in local
                        or name in _STARTERS
                        or terms[call[1]][0] not in ("a", "v", "i")
                    ):
                        self._link_call(file, number, call)
                    for argument in argument_terms(call):
                        if names[argument] in self.defined or terms[argument][0] == "fn":
                            self._escape(file, argument, number)
                elif event[0] in ("bind", "attribute", "store"):
                    value = terms[event[8] if event[0] == "bind" else event[9]]
                    if value[0] == "fn" and scopes[value[1]].kind != "lambda":
                        self.escaped.add((file, value[1]))
            # what was worked out for linking is worked out again, with what callers pass: it need not be kept
            self.memo[file].clear()
        for (file, number), sites in self.callers.items():
            if self.index.scopes[file][number].name == "__init__" and not all(site.weak for site in sites):
                # a constructor that is called by the name of its class is not any other super().__init__()
                sites[:] = [site for site in sites if not site.weak]

    def _link_call(self, file: int, number: int, call: tuple[Any, ...]) -> None:
        terms = self.terms[file]
        callee = self.value(file, call[1])
        found = False
        for atom in callee:
            if atom.kind == Kind.FUNCTION:
                self.callers.setdefault(atom.const, []).append(EntrySite(file, number, 1 if atom.of else 0))
                found = True
            elif atom.kind == Kind.CLASS:
                init = self.method(atom.const, "__init__")
                if init is not None:
                    self.callers.setdefault(init, []).append(EntrySite(file, number, 1))
                found = True
            elif atom.kind == Kind.OBJECT:
                called = self.method(atom.const, "__call__") or self.method(atom.const, "forward")
                if called is not None:
                    self.callers.setdefault(called, []).append(EntrySite(file, number, 1))
                found = True
            elif atom.kind == Kind.NAMED:
                found = True
                self._link_target(file, number, call, atom.const)
            elif atom.kind == Kind.METHOD and atom.of and atom.of[0].const in _CONTEXTS:
                found = True
                self._link_target(file, number, call, f"{_CONTEXTS[atom.of[0].const]}.{atom.const}")
        term = terms[call[1]]
        if not found and term[0] == "a" and term[2] not in _COMMON and not term[2].startswith("__"):
            candidates = self.methods_near(file, term[2])
            if len(candidates) <= 3:
                for candidate in candidates:
                    self.callers.setdefault(candidate, []).append(EntrySite(file, number, 1, weak=True))
        elif not found and term[0] == "a":
            # a common name: whatever is called so may be called from here
            for candidate in self.methods_near(file, term[2])[:20]:
                self.callers.setdefault(candidate, []).append(EntrySite(file, number, 1, weak=True))

    def _escape(self, file: int, term: int, event: int) -> None:
        """A function that is an argument of a call may be called by the receiver."""
        parts = self.terms[file][term]
        found = [(file, parts[1])] if parts[0] == "fn" else []
        if parts[0] in ("v", "i", "a"):
            found = [atom.const for atom in self.value(file, term) if atom.kind == Kind.FUNCTION]
        for function in found:
            self.escaped.add(function)
            self.handed.setdefault(function, []).append((file, event))

    def _link_target(self, file: int, number: int, call: tuple[Any, ...], dotted: str) -> None:
        """Functions that are started in processes of their own."""
        keywords = dict(call[3])
        if dotted in _SPAWNS:
            target = call[2][0] if call[2] else keywords.get("fn")
            kind = "spawn"
        elif dotted in _PROCESSES:
            target, kind = keywords.get("target"), "process"
        else:
            return
        if target is None:
            return
        for atom in self.value(file, target):
            if atom.kind == Kind.FUNCTION:
                self.callers.setdefault(atom.const, []).append(EntrySite(file, number, 1 if atom.of else 0, kind))

    def likely_callers(self, function: tuple[int, int]) -> list[EntrySite]:
        """Return who calls a function for sure; where nothing does, the few calls that have nothing but its name."""
        sites = self.callers.get(function, [])
        strong = [site for site in sites if not site.weak]
        return strong or (sites if len(sites) <= _MOST_WEAK else [])

    def is_static(self, file: int, scope: Scope) -> bool:
        """Return whether a method takes no object."""
        terms = self.terms[file]
        return any(last_name(terms, decorator) == "staticmethod" for decorator in scope.decorators)

    def passed(self, site: EntrySite, scope: Scope, name: str, context: CallContext | None = None) -> Value | None:
        """Return what one caller passes for a parameter; None where it leaves it to the default.

        :param context: what the parameters of the caller hold
        """
        event = self.events[site.file][site.event]
        terms = self.terms[site.file]
        call = terms[event[7]]
        own = [parameter for parameter, _, star in scope.parameters if not star]
        keywords = dict(call[3])
        if site.kind == "call":
            term = keywords.get(name)
            if term is None and name in own:
                position = own.index(name) - site.offset
                if 0 <= position < len(call[2]):
                    term = call[2][position]
            if term is None:
                return NOTHING_KNOWN if call[4] else None
            given = self.value(site.file, term, context)
            return stepped(given, site.file, event[3], f"passed as {name} to {scope.name}()")
        if name not in own:
            return None
        position = own.index(name) - site.offset
        if site.kind == "spawn":
            if position == 0:
                step = FlowStep(
                    site.file,
                    event[3],
                    f"the first argument that spawn gives to {scope.name}() counts the processes of this host",
                )
                return value_of(Kind.LOCAL_RANK, "spawn", flow=(step,))
            position -= 1
            holder = keywords.get("args", call[2][1] if len(call[2]) > 1 else -1)
        else:
            holder = keywords.get("args", -1)
            named = keywords.get("kwargs", -1)
            if named >= 0 and terms[named][0] == "d":
                for key, item in zip(terms[named][1], terms[named][2], strict=True):
                    if self.constant_of(site.file, key) == name:
                        return self.value(site.file, item)
        if holder >= 0 and terms[holder][0] in ("t", "l") and 0 <= position < len(terms[holder][1]):
            given_term = terms[holder][1][position]
            if site.kind == "process" and self._counts_processes(site, given_term):
                step = FlowStep(
                    site.file, event[3], f"{name} of {scope.name}() counts the processes that a loop starts"
                )
                return value_of(Kind.LOCAL_RANK, "spawn", flow=(step,))
            return stepped(
                self.value(site.file, given_term),
                site.file,
                event[3],
                f"passed as {name} to {scope.name}()",
            )
        return None if holder < 0 else NOTHING_KNOWN

    def _counts_processes(self, site: EntrySite, term: int) -> bool:
        """Return whether a term is the number of the turn in the loop over a range that makes one process in each."""
        terms = self.terms[site.file]
        event = self.events[site.file][site.event]
        if last_name(terms, terms[event[7]][1]) != "Process" or terms[term][0] != "e":
            return False
        walked = terms[term][1]
        around = (node[1:3] for _, node in chain(self.blocks[site.file], event[2]))
        counts = (
            terms[walked][0] == "c" and last_name(terms, terms[walked][1]) == "range" and len(terms[walked][2]) == 1
        )
        return counts and ("for", walked) in around

    def contexts(self, function: tuple[int, int]) -> tuple[CallContext, ...]:
        """Return what the parameters of a function hold in each of its calls; nothing if not all calls are known."""
        known = self._contexts.get(function)
        if known is None:
            known = self._contexts[function] = tuple(self._contexts_of(function))
        return known

    def _contexts_of(self, function: tuple[int, int]) -> Iterator[CallContext]:
        sites = self.callers.get(function, [])
        if (
            not 0 < len(sites) <= _MOST_SITES
            or function in self.escaped
            or any(site.weak or site.kind != "call" for site in sites)
        ):
            return
        for site in sites:
            yield self.context_of(site, function)

    def context_of(self, site: EntrySite, function: tuple[int, int], outer: CallContext | None = None) -> CallContext:
        """Return what the parameters of a function hold in one call.

        :param outer: what the parameters of the caller hold
        """
        file, number = function
        scope = self.index.scopes[file][number]
        parameters: dict[str, Value] = {}
        for name, default, star in scope.parameters:
            if name == first_parameter(scope) and site.offset:
                parameters[name] = value_of(Kind.OBJECT, (file, scope.owner))
                continue
            passed = NOTHING_KNOWN if star in ("*", "**") else self.passed(site, scope, name, outer)
            if passed is None:
                passed = self.value(file, default) if default >= 0 else NOTHING_KNOWN
            parameters[name] = self.by_name(file, name) if passed.only(Kind.UNKNOWN) else passed
        return CallContext(file, number, parameters, {})
