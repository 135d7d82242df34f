"""Variables: what parameters, assigned names, attributes, imports, options and the environment hold."""

from __future__ import annotations

from typing import Any

from . import algebra, vocabulary
from .algebra import stepped, under
from .rank_reach import RankReach
from .redefinitions import standing
from .source_tables import CallContext
from .source_text import first_parameter, last_name, operands
from .values import (
    ALWAYS,
    NOTHING_KNOWN,
    PARTIAL,
    RANKS,
    SIZES,
    Atom,
    Certainty,
    FlowStep,
    Kind,
    Value,
    Who,
    const,
    join,
    merged,
    value_of,
    weakened,
)
from .vocabulary import word_set

#: Alternatives of one variable that are checked.
MOST_BINDINGS = 12


#: Attributes of tensors and of what models return that are data of the rank as well.
_OF_DATA = word_set("data loss logits")
#: Names of objects that hold the options of a program.
_OPTIONS = word_set(
    "args opt opts options cfg config conf hparams hps flags params FLAGS argv parsed training_args script_args "
    "arguments"
)


#: Steps that stand at no line of their own.
_BRANCHES = FlowStep(
    -1, 0, "merged: branches give different values, and it is not known which one runs", Certainty.MERGED
)


_BY_LOOP = FlowStep(-1, 0, "merged: one of several variables is read", Certainty.MERGED)


_BY_NAME = FlowStep(-1, 0, "merged: found by its name only", Certainty.MERGED)


class Variables(RankReach):
    """What variables, parameters, attributes, imports and options hold."""

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
        sites = self.likely_callers((file, number))[:MOST_BINDINGS]
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

    def variable(self, file: int, number: int, name: str, context: CallContext | None = None) -> Value:
        """A variable as seen from a scope: all that was assigned to it in the scope that it belongs to."""
        scopes = self.index.scopes[file]
        scope = number
        while scope >= 0:
            own = scopes[scope]
            if own.kind != "class" or scope == number:
                if own.parameters and name in [parameter for parameter, _, _ in own.parameters]:
                    if context is not None and (context.file, context.scope) == (file, scope):
                        return context.parameters.get(name, NOTHING_KNOWN)
                    return self.parameter(file, scope, name)
                if name in own.bindings:
                    return self.binding(file, scope, name, number)
            scope = own.parent
        for module in scopes[0].stars:
            located = self.index.locate(file, module)
            if located is not None and not located[1] and located[0] != file:
                found = self.of_module(located[0], name, star=True)
                if found is not None:
                    return found
            elif located is None:
                dotted = f"{module}.{name}"
                if dotted in vocabulary.SOURCES or dotted in vocabulary.COLLECTIVES:
                    return value_of(Kind.NAMED, vocabulary.canonical(dotted))
        evidence = self.by_name(file, name)
        if not evidence.has(Kind.UNKNOWN):
            return evidence
        return value_of(Kind.NAMED, name)

    def binding(self, file: int, scope: int, name: str, reader: int = -1) -> Value:
        """Return everything that is assigned to a name in a scope, as another scope reads it (see :func:`standing`)."""
        terms = standing(self.index, file, scope, name, reader)
        text = f"merged: {name} is assigned different values"
        found = merged(
            [self.value(file, term) for term in terms[-MOST_BINDINGS:]],
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

    def member(self, atom: Atom, name: str, depth: int = 0) -> Value | None:
        """An attribute of an instance or class of the project; None where nothing is known of it."""
        ref = atom.const
        file, number = ref
        one = self.index.classes[file][number]
        scope = self.index.scopes[file][one.scope]
        found: list[Value] = []
        for term in scope.bindings.get(name, ())[-MOST_BINDINGS:]:
            parts = self.terms[file][term]
            if parts[0] == "fn":
                function = (file, parts[1])
                if self.is_property(function):
                    found.append(self.returned(function))
                else:
                    found.append(value_of(Kind.FUNCTION, function, of=(atom,) if atom.kind == Kind.OBJECT else ()))
            else:
                found.append(self.value(file, term))
        for store_file, number_of_event in self.stores.get((file, number, name), ())[-MOST_BINDINGS:]:
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

        What one rank alone assigned to it before is no rank check then.
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
            known = (
                vocabulary.ATTRIBUTES.get(("deepspeed.DeepSpeedEngine", name)) if atom.const == "deepspeed" else None
            )
            return algebra.from_table(known) if known is not None else value_of(Kind.METHOD, name, of=(atom,))
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
        if atom.kind == Kind.BATCH and name in _OF_DATA:
            return Value((atom,))
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
        for store_file, number in near[:MOST_BINDINGS]:
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
        plain = name.lower().strip("_")
        named = vocabulary.NAMES.get(plain)
        # whether a run is distributed is the same on all ranks, and leaves one process where it is not
        flag = value_of(Kind.UNIFORM)
        if vocabulary.TESTS.get(plain) == Who.DISTRIBUTED:
            flag = value_of(Kind.TEST, Who.DISTRIBUTED, certainty=Certainty.MERGED)
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
                value = flag
            elif value.has(Kind.CONST) and kind is None:
                value = flag if flag.has(Kind.TEST) else join((value, flag))
            found.append(value)
        return self.either_of(tuple(found)) if len(here) > 1 else join(found)

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

    def either_of(self, values: tuple[Value, ...]) -> Value:
        """Return what holds one of several values, and it is not known which one."""
        return merged(values, _BRANCHES, within_one_object=True)


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


def _takes_local_rank(terms: list[tuple[Any, ...]], call: tuple[Any, ...]) -> bool:
    """Return whether an option has the spelling under which launchers pass the local rank."""
    return any(terms[item][0] == "k" and terms[item][2] in ("--local_rank", "--local-rank") for item in call[2])
