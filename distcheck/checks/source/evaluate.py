"""What terms mean: the kind of each value, the ranks for which a test is true, the ranks that reach a line, call sites.

An abstract interpretation over the linked files. A parameter holds what callers pass, a result what functions return,
and an attribute what was ever assigned to it. A name counts as evidence only if nothing else is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import algebra, vocabulary
from .algebra import stepped, under
from .link import EntrySite, Index, chain, reachable
from .source_text import (
    argument_terms,
    destinations,
    first_parameter,
    last_name,
    mentions,
    operands,
    plain_bindings,
    render,
)
from .summary import FileSummary, Scope
from .values import (
    ALWAYS,
    NOT_CLEAR,
    NOTHING_KNOWN,
    PARTIAL,
    RANKS,
    SIZES,
    Atom,
    Certainty,
    FlowStep,
    Kind,
    RankCondition,
    Value,
    Who,
    added,
    both,
    const,
    either,
    join,
    merged,
    value_of,
    weakened,
)
from .vocabulary import word_set

#: Deeper chains of values are given up as unknown.
_DEEPEST = 60
#: Calls within calls that are answered for their own arguments; deeper ones for all arguments that are ever passed.
_MOST_NESTED = 2
#: Calls that share nothing but a method's name with it: with more of them, any code may call it.
_MOST_WEAK = 8
#: Calls of one function that are evaluated apart.
_MOST_SITES = 12
#: Alternatives of one variable that are checked.
_MOST_BINDINGS = 12
#: Names of objects that hold the options of a program.
_OPTIONS = word_set(
    "args opt opts options cfg config conf hparams hps flags params FLAGS argv parsed training_args script_args "
    "arguments"
)
#: Method names too common to be found by name alone.
_COMMON = word_set(
    "forward step train eval update close log write save load run get set add append reset init start stop call "
    "build test fit __init__ to state_dict load_state_dict parse main backward zero_grad items keys values copy "
    "format join split read open print info setup flush put pop"
)
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!=", "is": "is", "is not": "is not"}
_SPAWNS = frozenset(
    {
        "torch.multiprocessing.spawn",
        "torch.multiprocessing.start_processes",
        "torch_xla.distributed.xla_multiprocessing.spawn",
    }
)
_PROCESSES = frozenset(
    {"torch.multiprocessing.Process", "multiprocessing.Process", "multiprocessing.context.Process", "threading.Thread"}
)
#: Names of calls that make a process group.
_GROUP_STARTS = frozenset({"init_process_group", "init_distributed"})
#: Names of calls that start functions elsewhere.
_STARTERS = frozenset({"spawn", "start_processes", "Process", "Thread"})


class Guard(NamedTuple):
    """A condition around a block, as far as it bears on ranks."""

    who: RankCondition
    #: ``if``, ``while``, ``exit:return`` … as in the summary's blocks
    kind: str
    block: int
    line: int
    term: int
    polarity: bool


#: Methods that give the options of several dataclasses.
_INTO_DATACLASSES = ("parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file", "parse_dict")
#: Steps that stand at no line of their own.
_BRANCHES = FlowStep(
    -1, 0, "merged: branches give different values, and it is not known which one runs", Certainty.MERGED
)
_BY_LOOP = FlowStep(-1, 0, "merged: one of several variables is read", Certainty.MERGED)
_BY_NAME = FlowStep(-1, 0, "merged: found by its name only", Certainty.MERGED)
#: Where a number stands in for the rank.
_ALONE = RankCondition(Who.SINGLE)


class CallContext(NamedTuple):
    """What the parameters of one scope hold in one call."""

    file: int
    scope: int
    parameters: dict[str, Value]
    memo: dict[int, Value]


#: Generators of random numbers with a seed of their own, and their methods that draw a number.
_GENERATORS = frozenset(["random.Random", "numpy.random.default_rng", "numpy.random.RandomState"])
_DRAWS = frozenset(
    ["random", "randint", "uniform", "rand", "integers", "random_sample", "randrange", "gauss", "normal"]
)


class Evaluator:
    """Answers what terms mean. Answers are kept; the files do not change."""

    def __init__(self, index: Index, visit: Callable[[int, FileSummary], None] = lambda file, summary: None) -> None:
        self.index = index
        self.files = index.files
        self.memo: list[dict[int, Value]] = [{} for _ in self.files]
        self.tests: list[dict[int, RankCondition]] = [{} for _ in self.files]
        self.terms, self.events, self.blocks = index.terms, index.events, index.blocks
        self.by_scope = index.by_scope
        self.reads = index.reads
        self.depth = 0
        self.nested = 0
        self._asking: dict[tuple[int, int], bool] = {}
        self._results: dict[tuple[int, int], Value] = {}
        self._contexts: dict[tuple[int, int], tuple[CallContext, ...]] = {}
        self._related: dict[tuple[int, int], bool] = {}
        self._importing: dict[int, list[int]] | None = None
        self._importers: dict[int, frozenset[int]] = {}
        self._guards: dict[tuple[int, int], list[Guard]] = {}
        self.callers: dict[tuple[int, int], list[EntrySite]] = {}
        #: scopes that are handed around as values: their callers are not known
        self.escaped: set[tuple[int, int]] = set()
        #: the calls (file, event) that a function is handed to
        self.handed: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.entries: dict[tuple[int, int], RankCondition] = {}
        self.linking = True
        self.distributed_files = [_speaks_of_ranks(file.imports) for file in self.files]
        self._collect(visit)
        self._link()
        self.linking = False
        for known in (self._results, self._bases, self._exported):
            known.clear()
        self.memo = [{} for _ in self.files]
        self.tests = [{} for _ in self.files]

    # tables made once

    def _collect(self, visit: Callable[[int, FileSummary], None]) -> None:
        self.stores: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
        self.outside: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self.options: dict[str, list[tuple[int, int]]] = {}
        self.methods: dict[str, list[tuple[int, int]]] = {}
        #: names of all functions and classes: what is called by another name enters none of them
        self.defined: set[str] = set()
        self._attributes: dict[tuple[int, int], list[str]] | None = None
        # what is decided by files again and again while others are checked: so that their summaries need not be loaded
        self._exports: list[dict[str, tuple[tuple[str, Any], ...]]] = []
        self._exported: dict[tuple[int, str], Value] = {}
        self._stars: list[list[str]] = []
        self._methods: dict[tuple[int, int], dict[str, int]] = {}
        self._bases: dict[tuple[int, int], tuple[Atom, ...]] = {}
        self._shared: dict[tuple[int, int, str], bool] = {}
        for file, facts in enumerate(self.files):
            summary = facts.summary
            visit(file, summary)
            terms = summary.terms
            scopes = self.index.scopes[file]
            module = scopes[0] if scopes else None
            self._stars.append(list(module.stars) if module is not None else [])
            self._exports.append(
                {name: plain_bindings(terms, values) for name, values in module.bindings.items()}
                if module is not None
                else {}
            )
            for number, one in enumerate(self.index.classes[file]):
                self._methods[file, number] = {
                    name: terms[values[-1]][1]
                    for name, values in scopes[one.scope].bindings.items()
                    if terms[values[-1]][0] == "fn"
                }
            for number, event in enumerate(summary.events):
                kind = event[0]
                if kind == "read":
                    self.distributed_files[file] = True
                if kind == "attribute":
                    base = terms[event[7]]
                    scope = scopes[event[1]]
                    owner = self.owner_of(file, event[1])
                    if (
                        base[0] == "p"
                        and owner >= 0
                        and scope.parameters
                        and base[2] == first_parameter(scopes[base[1]])
                    ) or (base[0] == "v" and owner >= 0 and base[2] in ("self", "cls")):
                        self.stores.setdefault((file, owner, event[8]), []).append((file, number))
                    else:
                        self.outside.setdefault((last_name(terms, event[7]), event[8]), []).append((file, number))
                elif kind == "call":
                    call = terms[event[7]]
                    callee = terms[call[1]]
                    if (callee[0] == "a" and callee[2] == "add_argument") or (
                        callee[0] == "a" and callee[2] == "option" and call[2]
                    ):
                        for dest in destinations(terms, call):
                            self.options.setdefault(dest, []).append((file, number))
            for number, scope in enumerate(scopes):
                if scope.kind in ("function", "class"):
                    self.defined.add(scope.name)
                if scope.owner >= 0 and scope.kind == "function":
                    self.methods.setdefault(scope.name, []).append((file, number))

    def owner_of(self, file: int, scope: int) -> int:
        """Return the class in whose method a scope stands, -1 for none."""
        scopes = self.index.scopes[file]
        while scope > 0:
            if scopes[scope].owner >= 0 and scopes[scope].kind != "class":
                return scopes[scope].owner
            scope = scopes[scope].parent
        return -1

    def _link(self) -> None:
        """Who calls whom."""
        for file, facts in enumerate(self.files):
            summary = facts.summary
            terms = summary.terms
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
                    name = last_name(terms, call[1])
                    if (
                        name in self.defined
                        or name in local
                        or name in _STARTERS
                        or terms[call[1]][0] not in ("a", "v", "i")
                    ):
                        self._link_call(file, number, call)
                    for argument in argument_terms(call):
                        if terms[argument][0] == "fn" or last_name(terms, argument) in self.defined:
                            self._escape(file, argument, number)
                elif event[0] in ("bind", "attribute", "store"):
                    value = terms[event[8] if event[0] == "bind" else event[9]]
                    if value[0] == "fn" and scopes[value[1]].kind != "lambda":
                        self.escaped.add((file, value[1]))
            # what was worked out for linking is worked out again, with what callers pass: it need not be kept
            self.memo[file].clear()

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
        term = terms[call[1]]
        if not found and term[0] == "a" and term[2] not in _COMMON and not term[2].startswith("__"):
            candidates = self.methods_near(file, term[2])
            if 0 < len(candidates) <= 3:
                for candidate in candidates:
                    self.callers.setdefault(candidate, []).append(EntrySite(file, number, 1, weak=True))
        elif not found and term[0] == "a":
            # a common name: whatever is called so may be called from here
            for candidate in self.methods_near(file, term[2])[:20]:
                self.callers.setdefault(candidate, []).append(EntrySite(file, number, 1, weak=True))

    def methods_near(self, file: int, name: str) -> list[tuple[int, int]]:
        """Return the methods of a name in the files that hang together with a file by imports."""
        roots = self.index.roots()
        return [method for method in self.methods.get(name, ()) if roots[method[0]] == roots[file]]

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

    # classes

    def bases(self, ref: tuple[int, int]) -> tuple[Atom, ...]:
        """Return what a class derives from."""
        known = self._bases.get(ref)
        if known is None:
            file, number = ref
            self._bases[ref] = ()
            bases = self.index.classes[file][number].bases
            known = self._bases[ref] = tuple(atom for base in bases for atom in self.value(file, base))
        return known

    def method(self, ref: tuple[int, int], name: str, depth: int = 0) -> tuple[int, int] | None:
        """Return the scope of a method, inherited ones included."""
        own = self._methods[ref].get(name)
        if own is not None:
            return ref[0], own
        if depth < 8:
            for base in self.bases(ref):
                if base.kind == Kind.CLASS and base.const != ref:
                    found = self.method(base.const, name, depth + 1)
                    if found is not None:
                        return found
        return None

    def derives(self, ref: tuple[int, int], *dotted: str, depth: int = 0) -> bool:
        """Return whether a class has one of these, outside of the project, among its bases."""
        for base in self.bases(ref):
            if base.kind in (Kind.NAMED, Kind.RESULT) and base.const in dotted:
                return True
            if (
                base.kind == Kind.CLASS
                and base.const != ref
                and depth < 8
                and self.derives(base.const, *dotted, depth=depth + 1)
            ):
                return True
        return False

    def member(self, atom: Atom, name: str, depth: int = 0) -> Value | None:
        """An attribute of an instance or class of the project; None where nothing is known of it."""
        ref = atom.const
        file, number = ref
        one = self.index.classes[file][number]
        scope = self.index.scopes[file][one.scope]
        found: list[Value] = []
        for term in scope.bindings.get(name, ())[-_MOST_BINDINGS:]:
            parts = self.terms[file][term]
            if parts[0] == "fn":
                function = (file, parts[1])
                if self.is_property(function):
                    found.append(self.returned(function))
                else:
                    found.append(value_of(Kind.FUNCTION, function, of=(atom,) if atom.kind == Kind.OBJECT else ()))
            else:
                found.append(self.value(file, term))
        for store_file, number_of_event in self.stores.get((file, number, name), ())[-_MOST_BINDINGS:]:
            event = self.events[store_file][number_of_event]
            value = self.value(store_file, event[9])
            if not self.is_shared(ref, name) and not self.never_runs(store_file, event[1]):
                value = under(value, self.ranks_at_block(store_file, event[2]))
            found.append(
                stepped(
                    value,
                    store_file,
                    event[3],
                    f"kept as {first_parameter(self.index.scopes[store_file][event[1]]) or 'self'}.{name}",
                )
            )
        given = self.given_field(atom, name) if atom.kind == Kind.OBJECT else None
        if given is not None:
            found.append(given)
        if found:
            text = f"merged: {name} is assigned different values"
            return merged(found, FlowStep(-1, 0, text, Certainty.MERGED), within_one_object=True)
        if depth < 8:
            for base in self.bases(ref):
                if base.kind == Kind.CLASS and base.const != ref:
                    inherited = self.member(Atom(atom.kind, base.const, of=atom.of), name, depth + 1)
                    if inherited is not None:
                        return inherited
                elif base.kind == Kind.NAMED:
                    known = vocabulary.ATTRIBUTES.get((base.const, name))
                    if known is not None:
                        return algebra.from_table(known)
                    if base.const in vocabulary.WRAPPERS and name == "module":
                        return value_of(Kind.BARE, of=(Atom(Kind.WRAPPED, vocabulary.WRAPPERS[base.const]),))
                    if f"{base.const}.{name}" in vocabulary.COLLECTIVES:
                        return value_of(Kind.NAMED, f"{base.const}.{name}")
        return None

    def is_shared(self, ref: tuple[int, int], name: str) -> bool:
        """Return whether an attribute gets from a collective what it holds: the same on all ranks from there on.

        What one rank alone assigned to it before is no test of the rank then.
        """
        key = (*ref, name)
        known = self._shared.get(key)
        if known is None:
            terms = self.terms[ref[0]]
            known = self._shared[key] = any(
                agreed(terms, self.events[file][number][9])
                and self.ranks_at_block(file, self.events[file][number][2]).who not in PARTIAL
                for file, number in self.stores.get(key, ())
            )
        return known

    def never_runs(self, file: int, scope: int) -> bool:
        """Return whether nothing of the project calls the method that a scope is, so that what it assigns never is.

        A class with a base that was not read may have its methods called from there.
        """
        own = self.index.scopes[file][scope]
        function = (file, scope)
        if (
            self.linking
            or own.owner < 0
            or own.kind != "function"
            or own.name.startswith("__")
            or own.decorators
            or function in self.escaped
            or self.callers.get(function)
        ):
            return False
        return all(base.kind == Kind.CLASS for base in self.bases((file, own.owner)))

    def attributes_of(self, ref: tuple[int, int]) -> list[str]:
        """Return the names that the methods of a class assign to its instances, those of its bases not included."""
        if self._attributes is None:
            self._attributes = {}
            for file, owner, name in self.stores:
                self._attributes.setdefault((file, owner), []).append(name)
        return self._attributes.get(ref, [])

    def given_field(self, atom: Atom, name: str) -> Value | None:
        """What an object without an ``__init__`` of its own (a dataclass, a named tuple) was given for a field by
        keyword.
        """
        if atom.call is None or self.linking or self.method(atom.const, "__init__") is not None:
            return None
        file, event = atom.call
        term = self.terms[file][self.events[file][event][7]]
        value = dict(term[3]).get(name)
        return (
            None
            if value is None
            else stepped(self.value(file, value), file, self.line_of(file, event), f"kept as {name}")
        )

    def is_property(self, function: tuple[int, int]) -> bool:
        """Return whether a method is read like an attribute."""
        file, number = function
        terms = self.terms[file]
        for decorator in self.index.scopes[file][number].decorators:
            name = last_name(terms, decorator)
            if name in ("property", "cached_property", "functools.cached_property", "lazy_property"):
                return True
        return False

    # values

    def value(self, file: int, term: int, context: CallContext | None = None) -> Value:
        """Return what a term may hold."""
        if term < 0:
            return const(None)
        memo = self.memo[file]
        if context is not None and context.file == file:
            memo = context.memo
        found = memo.get(term)
        if found is not None:
            return found
        if self.depth > _DEEPEST:
            return NOTHING_KNOWN
        memo[term] = NOTHING_KNOWN
        self.depth += 1
        try:
            found = self._value(file, term, context)
        finally:
            self.depth -= 1
        memo[term] = found
        return found

    def _value(self, file: int, number: int, context: CallContext | None) -> Value:
        term = self.terms[file][number]
        operation = term[0]
        if operation == "k":
            return const(term[2])
        if operation == "p":
            if context is not None and (context.file, context.scope) == (file, term[1]):
                return context.parameters.get(term[2], NOTHING_KNOWN)
            return self.parameter(file, term[1], term[2])
        if operation == "v":
            return self.variable(file, term[1], term[2], context)
        if operation == "i":
            return self.imported(file, term[1])
        if operation == "a":
            return self.attribute(file, number, term, context)
        if operation == "c":
            return self.call(file, term, context)
        if operation == "s":
            return self.subscript(file, number, term, context)
        if operation == "o":
            return algebra.arithmetic(term[1], self.value(file, term[2], context), self.value(file, term[3], context))
        if operation == "u":
            return self.unary(file, number, term, context)
        if operation == "=":
            return self.compare(file, term, context)
        if operation in ("and", "or"):
            return self.logical(file, number, term, context)
        if operation == "?":
            return self.choice(file, term, context)
        if operation == "|":
            return self.either_of((self.value(file, term[1], context), self.value(file, term[2], context)))
        if operation in ("t", "l"):
            items = tuple(self.value(file, item, context) for item in term[1][:50])
            return value_of(Kind.TUPLE if operation == "t" else Kind.LIST, len(term[1]), items=items)
        if operation == "d":
            items = tuple(self.value(file, item, context) for item in term[2][:50])
            keys = tuple(self.constant_of(file, key) for key in term[1][:50])
            return value_of(Kind.DICT, keys, items=items)
        if operation == "*":
            return value_of(Kind.LIST, None, of=self.value(file, term[1], context).atoms)
        if operation == "e":
            return self.element(self.value(file, term[1], context), file, term[1])
        if operation == "x":
            return algebra.item_of(self.value(file, term[1], context), term[2])
        if operation == "w":
            return self.value(file, term[1], context)
        if operation == "f":
            return algebra.text_of([self.value(file, part, context) for part in term[1]])
        if operation == "fn":
            return value_of(Kind.FUNCTION, (file, term[1]))
        if operation == "cls":
            return value_of(Kind.CLASS, (file, term[1]))
        return NOTHING_KNOWN

    def constant_of(self, file: int, term: int) -> Any:
        """Return the constant that a term is, None for anything else."""
        if term < 0:
            return None
        parts = self.terms[file][term]
        return parts[2] if parts[0] == "k" else None

    def parameter(self, file: int, number: int, name: str) -> Value:
        """Return what callers pass."""
        scope = self.index.scopes[file][number]
        if (
            scope.owner >= 0
            and scope.kind == "function"
            and name == first_parameter(scope)
            and not self.is_static(file, scope)
        ):
            return value_of(Kind.OBJECT, (file, scope.owner))
        if self.linking:
            return self.by_name(file, name)
        default = next((default for own, default, _ in scope.parameters if own == name), -1)
        found: list[Value] = []
        sites = self.likely_callers((file, number))[:_MOST_BINDINGS]
        for site in sites:
            passed = self.passed(site, scope, name)
            if passed is not None:
                found.append(weakened(passed, _BY_NAME) if site.weak else passed)
            elif default >= 0:
                found.append(self.value(file, default))
        if not found and default >= 0:
            found.append(self.value(file, default))
        text = f"merged: the {len(sites)} callers of {scope.name}() pass different values for {name}"
        joined = merged(found, FlowStep(file, scope.line, text, Certainty.MERGED)) if found else NOTHING_KNOWN
        if all(atom.kind in (Kind.UNKNOWN, Kind.CONST) for atom in joined):
            evidence = self.by_name(file, name)
            if evidence.has(*RANKS) and any(type(number) is int and number > 0 for number in joined.constants):
                # a rank that is given as a number is no rank of a process: that of a matrix, or of a search result
                return joined
            if not evidence.has(Kind.UNKNOWN):
                return join((evidence, Value(atom for atom in joined if atom.kind == Kind.CONST)))
        return joined

    def likely_callers(self, function: tuple[int, int]) -> list[EntrySite]:
        """Return who calls a function for sure; where nothing does, the few calls that have nothing but its name."""
        sites = self.callers.get(function, [])
        strong = [site for site in sites if not site.weak]
        return strong or (sites if len(sites) <= _MOST_WEAK else [])

    def is_static(self, file: int, scope: Scope) -> bool:
        """Return whether a method takes no object."""
        terms = self.terms[file]
        return any(last_name(terms, decorator) == "staticmethod" for decorator in scope.decorators)

    def passed(self, site: EntrySite, scope: Scope, name: str) -> Value | None:
        """Return what one caller passes for a parameter; None where it leaves it to the default."""
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
            return stepped(self.value(site.file, term), site.file, event[3], f"passed as {name} to {scope.name}()")
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
            return stepped(
                self.value(site.file, terms[holder][1][position]),
                site.file,
                event[3],
                f"passed as {name} to {scope.name}()",
            )
        return None if holder < 0 else NOTHING_KNOWN

    def by_name(self, file: int, name: str) -> Value:
        """Return what a name lets us expect."""
        plain = name.lower().strip("_")
        kind = vocabulary.NAMES.get(plain)
        if kind is not None:
            sure = (
                kind in (Kind.RANK, Kind.GLOBAL_RANK, Kind.LOCAL_RANK)
                and self.distributed_files[file]
                and plain not in ("gpu", "gpu_id")
            )
            library = vocabulary.RANKS_OF_LIBRARIES.get(plain)
            known = library is not None and any(dotted.startswith(library) for dotted in self.files[file].imports)
            return value_of(
                kind, "name", certainty=Certainty.MERGED if known or (sure and kind == Kind.RANK) else Certainty.GUESSED
            )
        who = vocabulary.TESTS.get(plain)
        if who is not None:
            # where the library is imported that has this name, it is no guess
            library = vocabulary.TESTS_OF_LIBRARIES.get(plain)
            known = library is not None and any(dotted.startswith(library) for dotted in self.files[file].imports)
            return value_of(Kind.TEST, who, certainty=Certainty.PROVEN if known else Certainty.MERGED)
        return NOTHING_KNOWN

    def variable(self, file: int, number: int, name: str, context: CallContext | None = None) -> Value:
        """A variable as seen from a scope: all that was assigned to it in the scope that it belongs to."""
        scopes = self.index.scopes[file]
        scope = number
        while scope >= 0:
            own = scopes[scope]
            if own.kind != "class" or scope == number:
                if any(parameter == name for parameter, _, _ in own.parameters):
                    if context is not None and (context.file, context.scope) == (file, scope):
                        return context.parameters.get(name, NOTHING_KNOWN)
                    return self.parameter(file, scope, name)
                if name in own.bindings:
                    return self.binding(file, scope, name)
            scope = own.parent
        for module in scopes[0].stars:
            located = self.index.locate(file, module)
            if located is not None and not located[1] and located[0] != file:
                found = self.of_module(located[0], name, star=True)
                if found is not None:
                    return found
            elif located is None and f"{module}.{name}" in vocabulary.SOURCES | vocabulary.COLLECTIVES:
                return value_of(Kind.NAMED, vocabulary.canonical(f"{module}.{name}"))
        evidence = self.by_name(file, name)
        if not evidence.has(Kind.UNKNOWN):
            return evidence
        return value_of(Kind.NAMED, name)

    def binding(self, file: int, scope: int, name: str) -> Value:
        """Return everything that is assigned to a name in a scope."""
        terms = self.index.scopes[file][scope].bindings[name]
        text = f"merged: {name} is assigned different values"
        found = merged(
            [self.value(file, term) for term in terms[-_MOST_BINDINGS:]],
            FlowStep(-1, 0, text, Certainty.MERGED),
            within_one_object=True,
        )
        if all(atom.kind in (Kind.UNKNOWN, Kind.CONST) for atom in found):
            evidence = self.by_name(file, name)
            if not evidence.has(Kind.UNKNOWN):
                return join((found, evidence))
        return found

    def imported(self, file: int, dotted: str) -> Value:
        """Return what an import binds: a module or name of the project, or something outside."""
        located = self.index.locate(file, dotted)
        if located is None:
            return value_of(Kind.NAMED, vocabulary.canonical(dotted.lstrip(".")))
        target, rest = located
        if not rest:
            return value_of(Kind.MODULE, target)
        if target == file and len(rest) == 1:
            return value_of(Kind.NAMED, dotted)
        found: Value | None = self.of_module(target, rest[0])
        if found is None:
            return value_of(Kind.NAMED, vocabulary.canonical(dotted.lstrip(".")))
        for name in rest[1:]:
            found = self.of_attribute(file, found, name, "")
        return found

    def of_module(self, file: int, name: str, *, star: bool = False, depth: int = 0) -> Value | None:
        """A name of another file; None where that file does not bind it."""
        exported = self._exports[file].get(name)
        if exported:
            key = (file, name)
            known = self._exported.get(key)
            if known is None:
                # modules may import each other in a circle
                self._exported[key] = NOTHING_KNOWN
                known = self._exported[key] = join(self.exported(file, part) for part in exported)
            return known
        if exported is not None:
            return self.binding(file, 0, name)
        for module in self._stars[file]:
            located = self.index.locate(file, module)
            if located is not None and not located[1] and located[0] != file and depth < 5:
                found = self.of_module(located[0], name, star=True, depth=depth + 1)
                if found is not None:
                    return found
        if not star:
            located = self.index.locate(file, f".{name}")
            if located is not None and not located[1]:
                return value_of(Kind.MODULE, located[0])
        return None

    def exported(self, file: int, part: tuple[str, Any]) -> Value:
        """Return what a module binds a name to, where that is a function, a class or an import."""
        kind, what = part
        if kind == "i":
            return self.imported(file, what)
        return value_of(Kind.FUNCTION if kind == "fn" else Kind.CLASS, (file, what))

    def attribute(self, file: int, number: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        base = self.value(file, term[1], context)
        return self.of_attribute(file, base, term[2], last_name(self.terms[file], term[1]))

    def of_attribute(self, file: int, base: Value, name: str, base_name: str) -> Value:
        """An attribute of a value; ``base_name`` is what the source calls that value."""
        found: list[Value] = []
        for atom in base:
            one = self._of_atom(file, atom, name, base_name)
            if one is not None:
                if atom.when != ALWAYS:
                    one = under(one, atom.when)
                found.append(one)
        known = join(found) if found else NOTHING_KNOWN
        if all(atom.kind == Kind.UNKNOWN or (atom.kind == Kind.METHOD and not atom.traced) for atom in known):
            outside = self.assigned_outside(file, base_name, name)
            if outside is not None:
                return outside
            evidence = self.by_name(file, name)
            if not evidence.has(Kind.UNKNOWN):
                return evidence
        return known

    def _of_atom(self, file: int, atom: Atom, name: str, base_name: str) -> Value | None:
        if atom.kind == Kind.NAMED:
            dotted = vocabulary.canonical(f"{atom.const}.{name}")
            if dotted in ("torch.distributed.group.WORLD", "torch.distributed.GroupMember.WORLD"):
                return value_of(Kind.GROUP, "world")
            known = vocabulary.ATTRIBUTES.get((atom.const, name))
            return algebra.from_table(known) if known is not None else value_of(Kind.NAMED, dotted)
        if atom.kind == Kind.MODULE:
            found = self.of_module(atom.const, name)
            return found if found is not None else NOTHING_KNOWN
        if atom.kind in (Kind.OBJECT, Kind.CLASS):
            return self.member(atom, name) or (
                value_of(Kind.BARE, of=(atom,))
                if name == "module"
                else value_of(Kind.METHOD, name, of=(atom,), certainty=Certainty.GUESSED)
            )
        if atom.kind == Kind.RESULT:
            known = vocabulary.ATTRIBUTES.get((atom.const, name))
            if known is not None:
                return algebra.from_table(known)
            return value_of(
                Kind.METHOD, name, of=(atom,), certainty=Certainty.PROVEN if atom.const else Certainty.GUESSED
            )
        if atom.kind == Kind.WRAPPED:
            if name in ("module", "_orig_mod"):
                return (
                    value_of(Kind.BARE, of=(atom,), when=atom.when, call=atom.call, flow=atom.flow)
                    if name == "module"
                    else Value((atom,))
                )
            return value_of(Kind.METHOD, name, of=(atom,))
        if atom.kind == Kind.NAMESPACE:
            known = vocabulary.ATTRIBUTES.get((atom.const, name))
            if known is not None:
                return algebra.from_table(known)
            # a name that was assigned here is lost in the terms: what others call their options will do
            others = (base_name,) if base_name in _OPTIONS else (base_name, "args", "opt", "opts", "options", "config")
            outside = (self.assigned_outside(file, other, name) for other in others)
            return (
                self.option(file, name)
                or next((found for found in outside if found is not None), None)
                or self.by_name(file, name)
            )
        if atom.kind == Kind.DEVICE and name == "index":
            return Value(atom.of) if atom.of else NOTHING_KNOWN
        if atom.kind == Kind.UNKNOWN:
            if base_name in _OPTIONS:
                found = self.option(file, name)
                if found is not None:
                    return found
            return value_of(Kind.METHOD, name, of=(atom,), certainty=Certainty.GUESSED)
        if atom.kind == Kind.CONST and atom.const is None:
            return None
        return value_of(Kind.METHOD, name, of=(atom,), certainty=Certainty.GUESSED)

    def assigned_outside(self, file: int, base_name: str, name: str) -> Value | None:
        """What is assigned to such an attribute of an object so called, in this file or one that it is linked with."""
        if self.linking or not base_name:
            return None
        found = []
        stores = self.outside.get((base_name, name), ())
        near = [store for store in stores if store[0] == file or self.related(file, store[0])]
        for store_file, number in near[:_MOST_BINDINGS]:
            event = self.events[store_file][number]
            value = under(self.value(store_file, event[9]), self.ranks_at_block(store_file, event[2]))
            found.append(stepped(value, store_file, event[3], f"kept as {base_name}.{name}"))
        if not found:
            return None
        if base_name in _OPTIONS:
            option = self.option(file, name)
            if option is not None:
                found.append(option)
        text = f"merged: {base_name}.{name} is assigned different values"
        joined = merged(found, FlowStep(-1, 0, text, Certainty.MERGED), within_one_object=True)
        if base_name not in _OPTIONS:
            joined = weakened(joined, _BY_NAME)
        return None if joined.only(Kind.UNKNOWN) else joined

    def related(self, one: int, other: int) -> bool:
        """Return whether one of two files imports the other."""
        key = (min(one, other), max(one, other))
        known = self._related.get(key)
        if known is None:
            known = self._related[key] = other in self.index.imported(one) or one in self.index.imported(other)
        return known

    def in_one_program(self, one: int, other: int) -> bool:
        """Return whether some file imports both, itself or through others."""
        return not self.importers(one).isdisjoint(self.importers(other))

    def importers(self, file: int) -> frozenset[int]:
        """Return a file and all that import it, themselves or through others."""
        if self._importing is None:
            self._importing = {}
            for number in range(len(self.files)):
                for imported in self.index.imported(number):
                    self._importing.setdefault(imported, []).append(number)
        known = self._importers.get(file)
        if known is None:
            importing = self._importing
            known = self._importers[file] = frozenset(reachable((file,), lambda node: importing.get(node, ())))
        return known

    def option(self, file: int, name: str) -> Value | None:
        """A command-line option: what its name means, and its default."""
        declared = self.options.get(name)
        if not declared:
            return None
        here = [item for item in declared if item[0] == file]
        if not here:
            here = [item for item in declared if self.related(file, item[0])] or [
                item for item in declared if self.in_one_program(file, item[0])
            ]
        if not here:
            return None
        found: list[Value] = []
        named = vocabulary.NAMES.get(name.lower().strip("_"))
        for option_file, number in here[:3]:
            event = self.events[option_file][number]
            call = self.terms[option_file][event[7]]
            keywords = dict(call[3])
            # launchers pass the local rank under this spelling, whatever the option is called otherwise
            kind = Kind.LOCAL_RANK if _takes_local_rank(self.terms[option_file], call) else named
            default = keywords.get("default")
            value = self.value(option_file, default) if default is not None else const(None)
            if kind is not None and value.rank is None and not value.has(*SIZES):
                step = FlowStep(option_file, event[3], f"the option {name} of the command line")
                sure = kind in (Kind.LOCAL_RANK, Kind.WORLD_SIZE)
                certainty = Certainty.PROVEN if sure else Certainty.GUESSED
                found.append(value_of(kind, "option", certainty=certainty, flow=(step,)))
            action = keywords.get("action")
            if action is not None and self.constant_of(option_file, action) in ("store_true", "store_false"):
                value = value_of(Kind.UNIFORM)
            elif value.has(Kind.CONST) and kind is None:
                value = join((value, value_of(Kind.UNIFORM)))
            found.append(value)
        return self.either_of(tuple(found)) if len(here) > 1 else join(found)

    def call(self, file: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """Return what a call returns."""
        callee = self.value(file, term[1], context)
        found: list[Value] = []
        for atom in callee:
            if atom.kind == Kind.NAMED:
                result = self.of_named(file, atom.const, term, context)
            elif atom.kind == Kind.FUNCTION:
                result = self.of_function(file, atom, term, context)
            elif atom.kind == Kind.CLASS:
                result = self.of_class(file, atom, term)
            elif atom.kind == Kind.METHOD:
                result = self.of_method(file, atom, term, context)
            elif atom.kind in (Kind.WRAPPED, Kind.OBJECT, Kind.BARE):
                # what a wrapped model gives comes from this rank's part of the data
                data = atom.kind == Kind.WRAPPED or any(
                    self.value(file, item, context).has(Kind.BATCH) for item in term[2]
                )
                result = value_of(Kind.BATCH if data else Kind.RESULT, "", call=(file, term[5]), of=(atom,))
            elif atom.kind == Kind.TEST:
                result = Value((atom,))
            elif atom.kind in RANKS or atom.kind in SIZES:
                # get_rank() imported from where it can't be seen
                result = Value(
                    (
                        atom._replace(
                            flow=(
                                FlowStep(
                                    file,
                                    self.line_of(file, term[5]),
                                    f"the {atom.kind}, from {self.text_of_call(file, term)}",
                                ),
                            )
                        ),
                    )
                )
            else:
                result = value_of(Kind.RESULT, "", call=(file, term[5]))
            found.append(under(result, atom.when) if atom.when != ALWAYS else result)
        return join(found) if found else NOTHING_KNOWN

    def line_of(self, file: int, event: int) -> int:
        """Return the line of an event."""
        line: int = self.events[file][event][3]
        return line

    def text_of_call(self, file: int, term: tuple[Any, ...]) -> str:
        """``name()`` for a call."""
        return f"{render(self.terms[file], term[1])}()"

    def argument(self, term: tuple[Any, ...], position: int, name: str) -> int:
        """Return the term of an argument by position or keyword, -1 where it is not given."""
        for keyword, value in term[3]:
            if keyword == name:
                found: int = value
                return found
        return term[2][position] if 0 <= position < len(term[2]) else -1

    def of_named(self, file: int, dotted: str, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """Return the result of calling something outside of the project."""
        event = term[5]
        known = vocabulary.SOURCES.get(dotted)
        if known is not None:
            kind, detail = known
            if dotted in ("torch.distributed.get_rank", "torch.distributed.get_world_size") and not self.is_world(
                file, self.argument(term, 0, "group")
            ):
                return value_of(
                    Kind.GROUP_RANK if kind == Kind.GLOBAL_RANK else Kind.UNIFORM, "group", call=(file, event)
                )
            step = FlowStep(file, self.line_of(file, event), f"the {kind}, from {self.text_of_call(file, term)}")
            return (
                value_of(Kind.TEST, detail)
                if kind == "test"
                else value_of(kind, detail, call=(file, event), flow=(step,))
            )
        if dotted in (
            "int",
            "float",
            "str",
            "bool",
            "abs",
            "operator.index",
            "copy.copy",
            "round",
            "list",
            "tuple",
            "iter",
            "next",
            "sorted",
            "reversed",
        ):
            inner = self.value(file, term[2][0], context) if term[2] else NOTHING_KNOWN
            if dotted in ("int", "float"):
                return self.to_number(file, inner, term)
            if dotted == "str":
                # a number is one no longer; what has text already, and devices, stay what they are
                numbers = inner.rank is not None or inner.has(Kind.CONST, Kind.UNIFORM, *SIZES)
                return (
                    algebra.text_of([inner])
                    if numbers and not inner.has(Kind.DEVICE, Kind.TEXT, Kind.ENV_TEXT)
                    else inner
                )
            if dotted == "next":
                return self.element(inner, file, term[2][0]) if term[2] else NOTHING_KNOWN
            if dotted == "bool" and term[2]:
                who = algebra.truth(inner)
                return value_of(Kind.TEST, who.who, certainty=who.certainty)
            return inner
        if dotted == "copy.deepcopy" and term[2]:
            return self.copied(self.value(file, term[2][0], context), (file, event))
        if dotted == "len" and term[2] and _is_collection(last_name(self.terms[file], term[2][0])):
            return value_of(Kind.RESULT, dotted, call=(file, event))
        if dotted in ("max", "min"):
            inner = join([self.value(file, item, context) for item in term[2]])
            return (
                inner
                if inner.rank is not None or inner.has(Kind.BATCH)
                else value_of(Kind.RESULT, dotted, call=(file, event))
            )
        if dotted in ("os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop"):
            return self.of_environment(
                file,
                self.argument(term, 0, "key"),
                self.argument(term, 1, "default"),
                self.line_of(file, event),
                context,
            )
        if dotted == "getattr" and len(term[2]) >= 2:
            name = self.constant_of(file, term[2][1])
            if isinstance(name, str):
                base = self.value(file, term[2][0], context)
                found = self.of_attribute(file, base, name, last_name(self.terms[file], term[2][0]))
                if found.only(Kind.METHOD) and not all(atom.traced for atom in found):
                    found = self.by_name(file, name)
                return join((found, self.value(file, term[2][2], context))) if len(term[2]) > 2 else found
        if dotted == "torch.device":
            return algebra.device_from(
                self.value(file, self.argument(term, 0, "device"), context) if term[2] or term[3] else NOTHING_KNOWN,
                self.value(file, self.argument(term, 1, "index"), context)
                if self.argument(term, 1, "index") >= 0
                else None,
                (file, event),
            )
        if dotted in ("hasattr", "isinstance") and len(term[2]) == 2 and not self.linking:
            known_test = self.is_wrapper(file, dotted, term, context)
            if known_test is not None:
                return const(known_test)
        if dotted in ("hasattr", "isinstance", "issubclass", "callable"):
            return value_of(Kind.UNIFORM)
        if dotted == "range":
            return value_of(
                Kind.RESULT,
                "range",
                call=(file, event),
                items=tuple(self.value(file, item, context) for item in term[2]),
            )
        if (
            dotted
            in (
                "enumerate",
                "zip",
                "tqdm.tqdm",
                "tqdm",
                "tqdm.auto.tqdm",
                "tqdm.trange",
                "itertools.cycle",
                "itertools.islice",
                "tqdm.std.tqdm",
                "tqdm.autonotebook.tqdm",
                "cycle",
                "itertools.chain",
            )
            and term[2]
        ):
            items = tuple(self.value(file, item, context) for item in term[2])
            return value_of(Kind.RESULT, dotted, call=(file, event), items=items)
        if dotted in vocabulary.WRAPPERS:
            model = self.value(file, self.argument(term, 0, "module"), context)
            step = FlowStep(file, self.line_of(file, event), f"wrapped by {self.text_of_call(file, term)}")
            way = vocabulary.WRAPPERS[dotted]
            return value_of(Kind.WRAPPED, way, of=model.atoms[:3], call=(file, event), flow=(step,))
        if dotted == "torch.nn.SyncBatchNorm.convert_sync_batchnorm" or dotted in (
            "torch.compile",
            "torch.jit.script",
            "typing.cast",
            "apex.parallel.convert_syncbn_model",
        ):
            position = 1 if dotted == "typing.cast" else 0
            return (
                self.value(file, term[2][position], context)
                if len(term[2]) > position
                else value_of(Kind.RESULT, dotted, call=(file, event))
            )
        if dotted == "deepspeed.initialize":
            engine = value_of(Kind.WRAPPED, "deepspeed", call=(file, event))
            others = tuple(
                value_of(Kind.RESULT, f"deepspeed.initialize.{position}", call=(file, event)) for position in (1, 2, 3)
            )
            return value_of(Kind.TUPLE, 4, items=(engine, *others))
        if dotted == "mmcv.runner.get_dist_info" or dotted == "mmengine.dist.get_dist_info":
            return value_of(Kind.TUPLE, 2, items=(value_of(Kind.GLOBAL_RANK), value_of(Kind.WORLD_SIZE)))
        if dotted in ("torch.distributed.new_group", "torch.distributed.split_group"):
            return value_of(Kind.GROUP, "sub", call=(file, event))
        if dotted in (
            "torch.isnan",
            "torch.isinf",
            "math.isnan",
            "math.isfinite",
            "numpy.isnan",
            "torch.isfinite",
            "time.time",
            "time.perf_counter",
            "time.monotonic",
            "random.random",
            "numpy.random.rand",
        ):
            given = [self.value(file, item, context) for item in term[2]]
            return (
                value_of(Kind.BATCH, dotted, call=(file, event))
                if not given or any(value.has(Kind.BATCH) for value in given)
                else value_of(Kind.RESULT, dotted, call=(file, event))
            )
        last = dotted.rsplit(".", 1)[-1]
        if "." not in dotted or dotted.split(".")[0] not in ("torch", "numpy", "os"):
            evidence = self.called_by_name(file, last, term)
            if evidence is not None:
                return evidence
        agreed = dotted in vocabulary.COLLECTIVES or vocabulary.AGREEING.search(last) is not None
        if not agreed and any(self.value(file, item, context).has(Kind.BATCH) for item in term[2]):
            return value_of(Kind.BATCH, dotted, call=(file, event))
        return value_of(Kind.RESULT, dotted, call=(file, event))

    def is_wrapper(self, file: int, dotted: str, term: tuple[Any, ...], context: CallContext | None) -> bool | None:
        """Return whether a value is a wrapped model, if ``hasattr`` or ``isinstance`` tests that; None if unknown."""
        tested = self.value(file, term[2][0], context)
        if not tested.only(Kind.WRAPPED):
            return None
        ways = {atom.const for atom in tested}
        if dotted == "hasattr":
            return True if self.constant_of(file, term[2][1]) == "module" and ways <= {"ddp", "fsdp", "dp"} else None
        given = {vocabulary.WRAPPERS.get(atom.const) for atom in self.value(file, term[2][1], context)}
        return True if len(given) == 1 and given == ways else None

    def copied(self, value: Value, call: tuple[int, int]) -> Value:
        """A deep copy: the same kinds of values, but other objects. What is copied out of a wrapper is a model of its
        own.
        """
        atoms: list[Atom] = []
        for atom in value:
            if atom.kind == Kind.BARE and atom.of and atom.of[0].kind == Kind.WRAPPED:
                inner = atom.of[0].of or (Atom(Kind.RESULT, ""),)
                atoms.extend(one._replace(call=call, when=atom.when) for one in inner)
            elif atom.kind in (Kind.WRAPPED, Kind.OBJECT, Kind.RESULT):
                atoms.append(atom._replace(call=call))
            else:
                atoms.append(atom)
        return Value(atoms)

    def called_by_name(self, file: int, name: str, term: tuple[Any, ...]) -> Value | None:
        """Return what a function that can't be seen returns, by its name: ``get_rank``, ``is_main_process``."""
        plain = name.lower().strip("_").removeprefix("get_")
        evidence = self.by_name(file, plain)
        if evidence.has(Kind.UNKNOWN):
            return None
        if (not term[2] and not term[3]) or evidence.has(Kind.TEST):
            line = self.line_of(file, term[5])
            return Value(
                atom._replace(flow=(FlowStep(file, line, f"the {atom.kind}, from {name}()"),)) for atom in evidence
            )
        return None

    def to_number(self, file: int, value: Value, term: tuple[Any, ...]) -> Value:
        """``int(…)``: the text of a rank variable becomes the rank."""
        atoms = []
        for atom in value:
            if atom.kind == Kind.ENV_TEXT and atom.const in vocabulary.VARIABLES:
                atoms.append(Atom(vocabulary.VARIABLES[atom.const], atom.const, when=atom.when, flow=atom.flow))
                for default in atom.of:
                    if default.kind == Kind.CONST:
                        atoms.append(Atom(Kind.CONST, algebra.as_number(default.const)))
                    else:
                        atoms.append(default)
            elif atom.kind == Kind.ENV_TEXT:
                atoms.append(Atom(Kind.UNIFORM, atom.const))
            elif atom.kind == Kind.CONST:
                atoms.append(Atom(Kind.CONST, algebra.as_number(atom.const), when=atom.when))
            else:
                atoms.append(atom)
        return join((Value(atoms),))

    def of_environment(
        self, file: int, name_term: int, default_term: int, line: int, context: CallContext | None = None
    ) -> Value:
        """Return the text of a variable; of each, where a helper reads one of several."""
        if name_term < 0:
            return NOTHING_KNOWN
        name = self.constant_of(file, name_term)
        constants = self.value(file, name_term, context).constants if name is None else (name,)
        names = dict.fromkeys(item for item in constants if isinstance(item, str))
        if not names:
            return NOTHING_KNOWN
        default = self.value(file, default_term, context).atoms if default_term >= 0 else ()
        found = []
        for item in names:
            kind = vocabulary.VARIABLES.get(item)
            step = FlowStep(file, line, f"the {kind}, from {item}" if kind else f"from {item}")
            found.append(value_of(Kind.ENV_TEXT, item, of=default, flow=(step,)))
        if len(found) == 1:
            return found[0]
        # variables of several launchers for one number agree
        kinds = {vocabulary.VARIABLES.get(item) for item in names}
        return join(found) if len(kinds) == 1 else Value(atom for one in found for atom in weakened(one, _BY_LOOP))

    def is_world(self, file: int, term: int) -> bool:
        """Return whether a ``group`` argument means the whole job."""
        if term < 0:
            return True
        value = self.value(file, term)
        if value.constant is None and self.terms[file][term][0] == "v":
            # a name of the module that is None so far is there to be set: by another file, as comm._LOCAL_PROCESS_GROUP
            return False
        return all(
            (atom.kind == Kind.CONST and atom.const is None) or (atom.kind == Kind.GROUP and atom.const == "world")
            for atom in value
        )

    def of_function(self, file: int, atom: Atom, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """Return the result of a function of the project, for these arguments."""
        target_file, target = atom.const
        scope = self.index.scopes[target_file][target]
        if self.linking:
            return self.returned_quickly(atom.const)
        if self.nested >= _MOST_NESTED or self.depth > _DEEPEST // 2 or not self.depends_on_parameters(atom.const):
            return self.returned(atom.const)
        parameters: dict[str, Value] = {}
        own = [parameter for parameter, _, star in scope.parameters if not star]
        offset = 1 if atom.of else 0
        keywords = dict(term[3])
        for position, name in enumerate(own):
            passed = keywords.get(name)
            if position == 0 and offset:
                parameters[name] = Value(atom.of)
                continue
            if passed is None and 0 <= position - offset < len(term[2]):
                passed = term[2][position - offset]
            if passed is not None:
                parameters[name] = self.value(file, passed, context)
            elif not term[4]:
                default = next((default for one, default, _ in scope.parameters if one == name), -1)
                parameters[name] = self.value(target_file, default) if default >= 0 else NOTHING_KNOWN
            else:
                parameters[name] = self.by_name(target_file, name)
            if parameters[name].only(Kind.UNKNOWN):
                parameters[name] = self.by_name(target_file, name)
        self.nested += 1
        try:
            return self.returned(atom.const, CallContext(target_file, target, parameters, {}), call=(file, term[5]))
        finally:
            self.nested -= 1

    def contexts(self, function: tuple[int, int]) -> tuple[CallContext, ...]:
        """Return what the parameters of a function hold in each of its calls; nothing if not all calls are known."""
        known = self._contexts.get(function)
        if known is None:
            known = self._contexts[function] = tuple(self._contexts_of(function))
        return known

    def _contexts_of(self, function: tuple[int, int]) -> Iterator[CallContext]:
        file, number = function
        scope = self.index.scopes[file][number]
        sites = self.callers.get(function, [])
        if (
            not 0 < len(sites) <= _MOST_SITES
            or function in self.escaped
            or any(site.weak or site.kind != "call" for site in sites)
        ):
            return
        for site in sites:
            parameters: dict[str, Value] = {}
            for name, default, star in scope.parameters:
                if name == first_parameter(scope) and site.offset:
                    parameters[name] = value_of(Kind.OBJECT, (file, scope.owner))
                    continue
                passed = NOTHING_KNOWN if star in ("*", "**") else self.passed(site, scope, name)
                if passed is None:
                    passed = self.value(file, default) if default >= 0 else NOTHING_KNOWN
                parameters[name] = self.by_name(file, name) if passed.only(Kind.UNKNOWN) else passed
            yield CallContext(file, number, parameters, {})

    def settled(self, file: int, term: int, context: CallContext) -> bool | None:
        """Return whether a condition is always true, or never, for the arguments of one call; else None."""
        parts = self.terms[file][term]
        if parts[0] == "u" and parts[1] == "not":
            inner = self.settled(file, parts[2], context)
            return None if inner is None else not inner
        if parts[0] in ("and", "or"):
            values = [self.settled(file, part, context) for part in parts[1]]
            decisive: bool = parts[0] == "or"
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        # what is counted or collected in a loop is no constant: only what the call passes is
        sides = parts[2:4] if parts[0] == "=" else (term,)
        if any(self.terms[file][side][0] not in ("p", "k") for side in sides):
            return None
        constant = self.value(file, term, context).constant
        return bool(constant) if constant is None or isinstance(constant, (bool, int, str)) else None

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

    def events_of(self, function: tuple[int, int]) -> Iterator[tuple[Any, ...]]:
        """Yield the events of a function, without those of nested functions."""
        file, scope = function
        events = self.events[file]
        return (events[number] for number in self.by_scope[file].get(scope, ()))

    def depends_on_parameters(self, function: tuple[int, int]) -> bool:
        """Return whether what a function returns is made of its parameters: each call then has an answer of its own."""
        known = self._asking.get(function)
        if known is None:
            file, number = function
            own = self.index.scopes[file][number]
            names = {name for name, _, _ in own.parameters[own.owner >= 0 :]}
            roots = []
            for event in self.events_of(function) if names else ():
                if event[0] == "return":
                    roots.append(event[7])
                    roots.extend(node[2] for _, node in chain(self.blocks[file], event[2]))
            known = mentions(self.terms[file], roots, names)
            self._asking[function] = known
        return known

    def returned_quickly(self, function: tuple[int, int]) -> Value:
        """While linking: what a function returns, as far as objects and modules go."""
        events = self.events_of(function)
        found = [self.value(function[0], event[7]) for event in events if event[0] == "return" and event[7] >= 0]
        return join(found[:4]) if found else NOTHING_KNOWN

    def returned(
        self, function: tuple[int, int], context: CallContext | None = None, call: tuple[int, int] | None = None
    ) -> Value:
        """Return what a function may return, each alternative with the condition under which it does."""
        if context is None:
            known = self._results.get(function)
            if known is None:
                self._results[function] = NOTHING_KNOWN
                known = self._results[function] = self._returned(function, None, None)
            return known
        return self._returned(function, context, call)

    def _returned(self, function: tuple[int, int], context: CallContext | None, call: tuple[int, int] | None) -> Value:
        file, number = function
        scope = self.index.scopes[file][number]
        found: list[Value] = []
        starts: list[int] = []
        generator = False
        for event in self.events_of(function):
            if event[0] == "return":
                value = self.value(file, event[7], context)
                found.append(under(value, self.ranks_at_block(file, event[2], context)))
            elif event[0] == "yield":
                generator = True
            elif event[0] == "call" and last_name(self.terms[file], self.terms[file][event[7]][1]) in _GROUP_STARTS:
                starts.append(len(found))
        if generator:
            return value_of(Kind.RESULT, "generator", call=call)
        if not found:
            return const(None)
        found = _without_a_group(found, starts)
        joined = self.either_of(tuple(found)) if _unclear(found) else join(found)
        if (
            joined.has(Kind.GROUP_RANK)
            and vocabulary.NAMES.get(scope.name.lower().strip("_").removeprefix("get_")) == Kind.LOCAL_RANK
        ):
            # the rank in the group of one host's processes, or what stands for it where no such group was made
            return value_of(Kind.LOCAL_RANK, "group")
        if all(atom.kind in (Kind.UNKNOWN, Kind.CONST, Kind.RESULT) for atom in joined) and not joined.only(Kind.CONST):
            evidence = self.by_name(file, scope.name.removeprefix("get_"))
            if evidence.has(Kind.TEST):
                return evidence
        return joined

    def of_class(self, file: int, atom: Atom, term: tuple[Any, ...]) -> Value:
        """An instance of a class of the project; one that derives from a wrapper wraps as well."""
        for dotted, way in vocabulary.WRAPPERS.items():
            if self.derives(atom.const, dotted):
                model = self.value(file, self.argument(term, 0, "module"))
                step = FlowStep(file, self.line_of(file, term[5]), f"wrapped by {self.text_of_call(file, term)}")
                return value_of(Kind.WRAPPED, way, of=model.atoms[:3], call=(file, term[5]), flow=(step,))
        return value_of(Kind.OBJECT, atom.const, call=(file, term[5]))

    def of_method(self, file: int, atom: Atom, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """Return the result of a method of something outside of the project."""
        name = atom.const
        owner = atom.of[0]
        event = term[5]
        if owner.kind == Kind.RESULT:
            if owner.const == "transformers.HfArgumentParser" and name in _INTO_DATACLASSES:
                parsed = self.parsed_dataclasses(owner)
                if parsed is not None:
                    return parsed
            if name in ("parse_args", "parse_known_args") or name in ("parse_args_into_dataclasses",):
                options = value_of(Kind.NAMESPACE, call=owner.call)
                return options if name == "parse_args" else value_of(Kind.TUPLE, 2, items=(options, NOTHING_KNOWN))
            if owner.const == "accelerate.Accelerator" and name == "prepare":
                prepared = tuple(
                    value_of(
                        Kind.WRAPPED,
                        "prepared",
                        of=self.value(file, item, context).atoms[:3],
                        call=(file, event),
                    )
                    for item in term[2]
                )
                return prepared[0] if len(prepared) == 1 else value_of(Kind.TUPLE, len(prepared), items=prepared)
            dotted = f"{owner.const}.{name}" if owner.const else ""
            if dotted in vocabulary.SOURCES:
                return self.of_named(file, dotted, term, context)
            if owner.const in _GENERATORS and name in _DRAWS and (seed := self.seed_by_rank(owner)) is not None:
                return value_of(Kind.RANK_DEPENDENT, "random", of=(seed,), certainty=seed.certainty, flow=seed.flow)
        if owner.kind == Kind.CONST and name == "format":
            return algebra.formatted_text(
                str(owner.const),
                [self.value(file, item, context) for item in argument_terms(term)],
            )
        if name in ("parse_args", "parse_known_args"):
            options = value_of(Kind.NAMESPACE)
            return options if name == "parse_args" else value_of(Kind.TUPLE, 2, items=(options, NOTHING_KNOWN))
        if owner.kind in (Kind.WRAPPED, Kind.OBJECT, Kind.BARE) and name in vocabulary.OF_MODELS:
            return Value((owner,))
        if owner.kind in (Kind.BATCH, Kind.RESULT, Kind.UNIFORM) and name in vocabulary.SAME_OBJECT:
            return (
                Value((owner,))
                if name not in ("item",)
                else value_of(Kind.BATCH if owner.kind == Kind.BATCH else Kind.RESULT, "item", call=(file, event))
            )
        evidence = self.called_by_name(file, name, term)
        if evidence is not None:
            return evidence
        if owner.kind == Kind.BATCH:
            return value_of(Kind.BATCH, call=(file, event))
        if owner.kind == Kind.RESULT and f"{owner.const}.{name}" in vocabulary.COLLECTIVES:
            return value_of(Kind.UNIFORM, "reduced", call=(file, event))
        if not vocabulary.AGREEING.search(name) and any(
            self.value(file, item, context).has(Kind.BATCH) for item in term[2]
        ):
            return value_of(Kind.BATCH, name, call=(file, event), of=atom.of)
        dotted = f"{owner.const}.{name}" if owner.kind == Kind.RESULT and owner.const else ""
        return value_of(Kind.RESULT, dotted, call=(file, event), of=atom.of)

    def seed_by_rank(self, generator: Atom) -> Atom | None:
        """Return the rank that a generator of random numbers is seeded by; None where its seed is another one."""
        if generator.call is None:
            return None
        file, event = generator.call
        term = self.terms[file][self.events[file][event][7]]
        seed = self.value(file, self.argument(term, 0, "seed"))
        return seed.get(*RANKS, Kind.RANK_DEPENDENT) if seed.only(*RANKS, Kind.RANK_DEPENDENT) else None

    def parsed_dataclasses(self, parser: Atom) -> Value | None:
        """Return the options that a parser of transformers gives for its classes; None where those are not known."""
        if parser.call is None:
            return None
        file, event = parser.call
        given = self.value(file, self.argument(self.terms[file][self.events[file][event][7]], 0, "dataclass_types"))
        if len(given.atoms) != 1:
            return None
        classes = given.atoms[0].items if given.only(Kind.TUPLE, Kind.LIST) else (given,)
        options = []
        for one in classes:
            known = None
            for atom in one:
                for base in vocabulary.TRAINING_OPTIONS:
                    if (atom.kind == Kind.NAMED and atom.const == base) or (
                        atom.kind == Kind.CLASS and self.derives(atom.const, base)
                    ):
                        known = base
            options.append(value_of(Kind.NAMESPACE, known, call=parser.call))
        return value_of(Kind.TUPLE, len(options), items=tuple(options))

    def subscript(self, file: int, number: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        base = self.value(file, term[1], context)
        if base.named("os.environ"):
            return self.of_environment(file, term[2], -1, self.reads[file].get(number, 0), context)
        position = self.value(file, term[2], context)
        index = position.constant
        found: list[Value] = []
        for atom in base:
            if (
                atom.kind == Kind.DICT
                and position.only(Kind.CONST)
                and len(position.atoms) > 1
                and all(key.const in (atom.const or ()) for key in position)
            ):
                # one of several keys, as a test decides
                found.extend(under(atom.items[atom.const.index(key.const)], key.when) for key in position)
                continue
            if (
                atom.kind in (Kind.TUPLE, Kind.LIST)
                and isinstance(index, int)
                and -len(atom.items) <= index < len(atom.items)
            ):
                found.append(atom.items[index])
            elif atom.kind == Kind.LIST and atom.of:
                found.append(Value(atom.of))
            elif atom.kind == Kind.DICT and index in (atom.const or ()):
                found.append(atom.items[atom.const.index(index)])
            elif atom.kind == Kind.BATCH:
                found.append(value_of(Kind.BATCH))
            elif isinstance(index, str):
                found.append(self.option(file, index) or self.by_name(file, index))
            else:
                found.append(NOTHING_KNOWN)
        return join(found) if found else NOTHING_KNOWN

    def unary(self, file: int, number: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        if term[1] == "not":
            who = self.test(file, number, context)
            return value_of(Kind.TEST, who.who, certainty=who.certainty)
        inner = self.value(file, term[2], context)
        if term[1] == "reduced":
            return Value(
                Atom(Kind.UNIFORM, "reduced", when=atom.when)
                if atom.kind
                in (Kind.BATCH, Kind.RANK_DEPENDENT, Kind.UNKNOWN, Kind.RESULT, *RANKS, Kind.CONST, Kind.TEST)
                else atom
                for atom in inner
            )
        if inner.rank is not None:
            return value_of(Kind.RANK_DEPENDENT, term[1], of=(inner.rank,), certainty=inner.rank.certainty)
        return inner if inner.has(Kind.BATCH, Kind.UNIFORM) else NOTHING_KNOWN

    def compare(self, file: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """A comparison: for whom it is true, alternative by alternative."""
        operator = term[1]
        left, right = self.value(file, term[2], context), self.value(file, term[3], context)
        if operator in _MIRRORED and left.rank is None and right.rank is not None:
            operator, left, right = _MIRRORED[operator], right, left
        atoms = []
        root = last_name(self.terms[file], term[3]) in algebra.ROOTS
        for atom in left:
            answer = algebra.compare_atom(operator, atom, right, root)
            if algebra.is_equalised(atom) and any(one.when.who in PARTIAL for one in left):
                answer = NOT_CLEAR  # what some ranks have set before may be replaced by it
            if isinstance(answer, bool):
                # a number that stands in for the rank, where there is none
                alone = atom.when.who == Who.EVERYONE and atom.kind == Kind.CONST and left.rank is not None
                atoms.append(Atom(Kind.CONST, answer, when=_ALONE if alone else atom.when))
            else:
                atoms.append(Atom(Kind.TEST, answer.who, when=atom.when, certainty=answer.certainty, flow=atom.flow))
        return join((Value(atoms),))

    def logical(self, file: int, number: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        """``and`` and ``or``: a test of tests, otherwise one of the operands."""
        values = [self.value(file, part, context) for part in term[1]]
        if all(
            value.only(Kind.TEST, Kind.CONST, Kind.UNIFORM, Kind.UNKNOWN, Kind.METHOD, Kind.RESULT, Kind.NAMED)
            for value in values
        ) and any(value.has(Kind.TEST) for value in values):
            who = self.test(file, number, context)
            return value_of(Kind.TEST, who.who, certainty=who.certainty)
        return join(values)

    def choice(self, file: int, term: tuple[Any, ...], context: CallContext | None) -> Value:
        # a comparison whose outcome is known; a flag that defaults to False may still be given as True
        compared = self.terms[file][term[1]][0] in ("=", "c")
        settled = self.value(file, term[1], context).constant if compared else None
        if isinstance(settled, bool):
            return self.value(file, term[2 if settled else 3], context)
        who = self.test(file, term[1], context)
        yes, no = self.value(file, term[2], context), self.value(file, term[3], context)
        if who.who != Who.UNCLEAR:
            return join((under(yes, who), under(no, who.inverse())))
        return self.either_of((yes, no))

    def either_of(self, values: tuple[Value, ...]) -> Value:
        """Return what holds one of several values, and it is not known which one."""
        return merged(values, _BRANCHES, within_one_object=True)

    def element(self, value: Value, file: int, term: int) -> Value:
        """Return what a loop over a value binds."""
        found: list[Value] = []
        for atom in value:
            if atom.kind in (Kind.TUPLE, Kind.LIST) and (atom.items or atom.of):
                found.append(join((*atom.items, Value(atom.of))))
            elif atom.kind == Kind.RESULT and atom.const == "range":
                of = join(atom.items)
                index = of.has(Kind.LOCAL_WORLD_SIZE, Kind.DEVICE_COUNT, Kind.WORLD_SIZE)
                found.append(value_of(Kind.UNIFORM, "index", of=of.atoms[:2] if index else ()))
            elif atom.kind == Kind.RESULT and atom.const == "enumerate" and atom.items:
                found.append(
                    value_of(
                        Kind.TUPLE,
                        2,
                        items=(value_of(Kind.UNIFORM), self.element(atom.items[0], file, -1)),
                    )
                )
            elif atom.kind == Kind.RESULT and atom.const == "zip":
                found.append(
                    value_of(
                        Kind.TUPLE,
                        len(atom.items),
                        items=tuple(self.element(item, file, -1) for item in atom.items),
                    )
                )
            elif atom.kind == Kind.RESULT and atom.items:
                found.append(self.element(atom.items[0], file, -1))
            elif (
                (atom.kind == Kind.RESULT and atom.const == "torch.utils.data.DataLoader")
                or (atom.kind == Kind.WRAPPED and atom.const == "prepared")
                or atom.kind == Kind.BATCH
            ):
                found.append(value_of(Kind.BATCH))
        if not found:
            name = last_name(self.terms[file], term) if term >= 0 else ""
            if "loader" in name.lower() or "dataloader" in name.lower():
                return value_of(Kind.BATCH, certainty=Certainty.GUESSED)
            return NOTHING_KNOWN
        return join(found)

    # tests and reach

    def is_main_guard(self, file: int, number: int) -> bool:
        """Return whether a term is ``__name__ == "__main__"``."""
        parts = self.terms[file][number]
        return parts[0] == "=" and "__name__" in (self.terms[file][side][-1] for side in parts[2:4])

    def test(self, file: int, number: int, context: CallContext | None = None) -> RankCondition:
        """For whom a term is true."""
        if number < 0:
            return NOT_CLEAR
        memo = self.tests[file]
        if context is None and number in memo:
            return memo[number]
        if self.depth > _DEEPEST:
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
            if sites and not handed_around and self.depth < _DEEPEST:
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


def agreed(terms: list[tuple[Any, ...]], number: int) -> bool:
    """Return whether a term is made of what a collective returned or filled."""
    waiting, steps = [number], 0
    while waiting and steps < _MOST_PARTS:
        steps += 1
        part = waiting.pop()
        if part < 0:
            continue
        term = terms[part]
        if term[:2] == ("u", "reduced") or (
            term[0] == "c" and vocabulary.AGREEING.search(last_name(terms, term[1])) is not None
        ):
            return True
        waiting.extend(operands(term))
    return False


#: So many parts of a term are searched for a collective.
_MOST_PARTS = 60


def _without_a_group(returned: list[Value], starts: list[int]) -> list[Value]:
    """Return what a function returns, with constants of a return without a process group for a run of one process.

    ``return 0, 0, 1`` before the group is made, or next to ``return rank, local_rank, world_size``, holds for no rank
    of a job.

    :param starts: for each call that makes a group, the number of returns before it
    """
    ranked = any(_holds_ranks(value) for value in returned)
    before = min(starts, default=0)
    return [
        under(value, RankCondition(Who.SINGLE))
        if (position < before or (ranked and value.has(Kind.TUPLE))) and _is_fixed(value)
        else value
        for position, value in enumerate(returned)
    ]


def _holds_ranks(value: Value) -> bool:
    return any(atom.kind in RANKS or any(_holds_ranks(item) for item in atom.items) for atom in value)


def _is_fixed(value: Value) -> bool:
    """Return whether a value is nothing but constants, or a tuple of them."""
    return all(
        atom.kind == Kind.CONST or (atom.kind == Kind.TUPLE and all(item.only(Kind.CONST) for item in atom.items))
        for atom in value
    )


def _speaks_of_ranks(imports: list[str]) -> bool:
    """Return whether a file imports what makes a name like ``rank`` a rank of a job."""
    for dotted in imports:
        if (
            dotted.startswith(
                (
                    "torch.distributed",
                    "torch.multiprocessing",
                    "torch.nn.parallel",
                    "horovod",
                    "deepspeed",
                    "accelerate",
                    "torch_xla",
                )
            )
            or "dist" in dotted.lower()
        ):
            return True
    return False


def _unclear(values: list[Value]) -> bool:
    """Return whether the ranks that alternatives are for do not decide between them."""
    return sum(any(atom.when.who == Who.EVERYONE for atom in value) for value in values) > 1


def _takes_local_rank(terms: list[tuple[Any, ...]], call: tuple[Any, ...]) -> bool:
    """Return whether an option has the spelling under which launchers pass the local rank."""
    return any(terms[item][0] == "k" and terms[item][2] in ("--local_rank", "--local-rank") for item in call[2])


def _is_collection(name: str) -> bool:
    """Return whether a name is that of a loader or data set, whose length ranks share."""
    plain = name.lower()
    return any(word in plain for word in ("loader", "dataset", "sampler", "batches"))


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
    if term in known:
        return known[term]
    parts = terms[term]
    if parts[0] == "k":
        return bool(parts[2])
    if parts[0] == "u" and parts[1] == "not":
        inner = truth_of(terms, parts[2], known)
        return None if inner is None else not inner
    if parts[0] in ("and", "or"):
        values = [truth_of(terms, part, known) for part in parts[1]]
        decisive: bool = parts[0] == "or"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    return None
