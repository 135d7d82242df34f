"""Under which options of its script a finding happens: the conditions on each path from a script to its line.

A launch line passes some options, and the others keep their defaults. So a launch shows whether it takes the path of a
finding (:mod:`..launch_files.given_options`). What no option of the command line decides is unknown here. Expressions
are plain tuples, since a finding carries them until its launch lines are known:

=======================================================  ==========================================
``("?",)``                                               not known
``("k", value)``                                         a constant
``("o", name, spellings, action, default, type, choices)``  an option; its default is an expression
``("not", one)``, ``("and", …)``, ``("or", …)``          logic
``("=", operator, left, right)``                         a comparison
``("l", …)``                                             a tuple or list
``("y", key, …)``                                        a value of a configuration file
``("g",)``                                               a launch shows more GPUs than it starts processes
``("if", test, yes, no)``                                a value that depends on a test
``("p", file, scope, name)``                             a parameter, until a call is known
=======================================================  ==========================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import NEEDS

from . import vocabulary
from .device_uses import files_from
from .link import EntrySite
from .program import Program, cached
from .several_ranks import HARMLESS_ALONE, starts_ranks
from .source_text import destinations, last_name
from .values import Kind

Expression = tuple[Any, ...]

UNKNOWN: Expression = ("?",)
_TRUE: Expression = ("k", True)
_FEWER_PROCESSES: Expression = ("g",)
#: Rules about a number of GPUs that stands for one of processes.
_ABOUT_COUNTS = ("DC213",)
#: Names of objects that hold options, where nothing else is known about them.
_NAMESPACES = vocabulary.word_set("args opt opts options FLAGS argv parsed_args")
#: Names of objects to which options are often copied.
_COPIES = vocabulary.word_set("config cfg conf hparams params settings")
#: Names of objects that hold what a configuration file has.
_CONFIGURATIONS = vocabulary.word_set("config cfg conf hparams params settings opt opts hps hp C CFG _C")
_LOADERS = ("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "omegaconf.OmegaConf.load", "OmegaConf.load")
#: Names of functions that return a configuration.
_READS_A_FILE = lazy(r"config|cfg|yaml", re.IGNORECASE)
#: What makes options of the fields of a class.
_PARSERS_OF_CLASSES = ("transformers.HfArgumentParser", "trl.TrlParser", "tyro.cli")
_CONSTANTS = vocabulary.word_set("int str bool float none")
#: What may give an option another value than the command line or its default.
_OVERRIDES = lazy(
    r"set_defaults\(|(?:\b|__)setattr(?:__)?\(|\.__dict__\b(?!\s*\))|\bvars\(\s*[\w.]+\s*\)(?:\.update|\[)|\bNamespace\(|fromfile_prefix"
    r"|default_config_files|[cC]onfig_?[aA]rg_?[pP]arse|jsonargparse|\bOmegaConf\b|\b[eE](?:asyD|d)ict\("
    r"|\b(?:args|opts?|options|FLAGS|params|hparams)\s*\.\s*(?:update|merge\w*)\(|\bparse_args\(\s*[^\s)]",
    literals=(
        "set_defaults(", "setattr(", "setattr__(", ".__dict__", "vars(", "Namespace(", "fromfile_prefix",
        "default_config_files", "onfigarg", "onfigArg",
        "onfig_arg", "onfig_Arg", "jsonargparse", "OmegaConf", "asyDict(", "edict(", "Edict(",
        "update(", "merge", "parse_args(",
    ),
)  # fmt: skip
#: Rules about a name that is out of date, whether it is used or not.
_WHEREVER_IT_STANDS = ("DC760", "DC801")
#: Deeper chains of calls, more callers, more calls in all, and more scripts are not followed.
_DEEPEST, _MOST_CALLERS, _MOST_STEPS, _MOST_SCRIPTS = 10, 12, 200, 8
#: A larger expression is given up.
_MOST_PARTS = 300


def with_needs(program: Program, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings; those that options may exclude get these conditions, by the scripts that reach them."""
    numbers = {facts.path: number for number, facts in enumerate(program.index.files)}
    found = []
    for finding in findings:
        file = numbers.get(finding.where.path or "")
        if (
            file is not None
            and finding.severity > Severity.INFO
            and finding.where.line is not None
            and finding.code not in _WHEREVER_IT_STANDS
        ):
            more = _FEWER_PROCESSES if finding.code in _ABOUT_COUNTS else _TRUE
            needs = _needs(program, file, finding.where.line, more, finding.code in HARMLESS_ALONE)
            if needs:
                finding = finding._replace(evidence={**finding.evidence, NEEDS: needs})
        found.append(finding)
    return found


@cached
def _needs(program: Program, file: int, line: int, more: Expression, alone: bool) -> tuple[tuple[Any, ...], ...]:
    """Return the scripts that reach a line, whether each starts its ranks itself, and what that needs.

    There is nothing if options decide nothing.

    :param more: what it needs in addition
    :param alone: one process can't have the finding
    """
    row = program.row_at(file, line)
    if row is None:
        return ()
    paths = _Paths(program)
    paths.follow(file, row.scope, row.block, more, ())
    if len(paths.found) > _MOST_SCRIPTS:
        return ()
    needs = [
        (program.index.files[script].path, starts_ranks(program, (script, 0)), alone, _closed(("or", *several)))
        for script, several in sorted(paths.found.items())
    ]
    if any(_has_option(one[3]) for one in needs) or (alone and len(needs) > 1):
        return tuple(needs)
    return ()


class _Paths:
    """The paths from scripts to a row, each as the condition on options that it needs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.evaluator = program.evaluator
        self.steps = 0
        #: by script
        self.found: dict[int, list[Expression]] = {}

    def follow(self, file: int, scope: int, block: int, needed: Expression, inner: tuple[tuple[int, int], ...]) -> None:
        """Follow the calls from a block back to the scripts."""
        self.steps += 1
        function = (file, scope)
        if function in inner:
            return
        under_main_guard = False
        conditions = [needed]
        for _, node in self.program.blocks_around(file, block):
            if node[1] != "if" and not node[1].startswith("exit:"):
                continue
            if self.evaluator.is_main_guard(file, node[2]):
                under_main_guard = under_main_guard or node[3]
                continue
            test = _expression(self.program, file, node[2])
            if test != UNKNOWN:
                conditions.append(test if node[3] else ("not", test))
        needed = conditions[0] if len(conditions) == 1 else ("and", *conditions)
        own = self.program.index.scopes[file][scope]
        if own.kind == "module":
            if under_main_guard or not self.program.index.importers(file):
                self.found.setdefault(file, []).append(needed)
            else:
                self._from_importers(file, needed)
            return
        if own.kind in ("lambda", "class"):
            self.follow(file, own.parent, own.block, needed, (*inner, function))
            return
        sites = self.evaluator.likely_callers(function)
        given_up = self.steps > _MOST_STEPS or len(inner) > _DEEPEST or len(sites) > _MOST_CALLERS
        if given_up or (function in self.evaluator.escaped and all(site.kind == "call" for site in sites)):
            self._from_importers(file, needed)
        elif sites:
            for site in sites:
                event = self.program.events[site.file][site.event]
                bound = _bound(self.program, needed, function, site)
                self.follow(site.file, event[1], event[2], bound, (*inner, function))
        elif self.program.scope((file, own.parent)).kind != "module" and own.owner < 0:
            self.follow(file, own.parent, own.block, needed, (*inner, function))
        else:
            self._from_importers(file, needed)

    def _from_importers(self, file: int, needed: Expression) -> None:
        """Each script that imports a file may get there, and it is not known how."""
        index = self.program.index
        for one in self.evaluator.importers(file):
            if (index.files[one].has_main_guard or not index.importers(one)) and not self.program.is_test(one):
                self.found.setdefault(one, []).append(needed)


def path_needed(program: Program, place: tuple[int, int, int], script: int) -> Expression | None:
    """Return what a path from a script to a block needs, or None if none is found.

    :param place: the file, the scope and the block
    """
    paths = _Paths(program)
    paths.follow(*place, _TRUE, ())
    return _closed(("or", *paths.found[script])) if script in paths.found else None


def expression_of(program: Program, file: int, number: int) -> Expression:
    """Return a term as an expression of options; what a caller decides is not known."""
    return _closed(_expression(program, file, number))


@cached
def _expression(program: Program, file: int, number: int, depth: int = 0) -> Expression:
    """Return a term as an expression of options."""
    if number < 0 or depth > 12:
        return UNKNOWN
    term = program.terms[file][number]
    kind = term[0]

    def part(one: int) -> Expression:
        return _expression(program, file, one, depth + 1)

    if kind == "k":
        return ("k", term[2]) if term[1] in _CONSTANTS else UNKNOWN
    if kind == "p":
        return _parameter(program, file, term)
    if kind == "v":
        bound = program.bound(file, term)
        return part(bound[0]) if len(bound) == 1 else UNKNOWN
    if kind == "a":
        if _holds_options(program, file, term[1]) or (
            term[2] in _fields(program) and last_name(program.terms[file], term[1]).endswith("args")
        ):
            return _option(program, file, term[2])
        copy = _copied_option(program, file, term[2])
        if copy != UNKNOWN:
            return copy
        if last_name(program.terms[file], term[1]) in _COPIES and program.evaluator.options.get(term[2]):
            return _given_only(_option(program, file, term[2]))
        kept = _attribute(program, file, term, depth)
        return kept if kept != UNKNOWN else _configured(program, file, number)
    if kind == "s":
        return _configured(program, file, number)
    if kind == "u":
        inner = part(term[2]) if term[1] in ("not", "-") else UNKNOWN
        if term[1] == "not" and inner != UNKNOWN:
            return ("not", inner)
        return ("k", -inner[1]) if inner[0] == "k" and type(inner[1]) in (int, float) else UNKNOWN
    if kind in ("and", "or"):
        parts = [part(one) for one in term[1]]
        return (kind, *parts) if any(one != UNKNOWN for one in parts) else UNKNOWN
    if kind == "=":
        left, right = part(term[2]), part(term[3])
        return ("=", term[1], left, right) if UNKNOWN not in (left, right) else UNKNOWN
    if kind == "?":
        return ("if", part(term[1]), part(term[2]), part(term[3]))
    if kind in ("t", "l"):
        return ("l", *(part(one) for one in term[1][:50]))
    if kind == "c":
        name = last_name(program.terms[file], term[1])
        if name == "bool" and len(term[2]) == 1:
            return part(term[2][0])
        if name == "getattr" and len(term[2]) >= 2 and _holds_options(program, file, term[2][0]):
            named = program.terms[file][term[2][1]]
            return _option(program, file, str(named[2])) if named[0] == "k" else UNKNOWN
    return UNKNOWN


def _parameter(program: Program, file: int, term: tuple[Any, ...]) -> Expression:
    """Return a parameter; an option of click, whose decorators declare it."""
    scope = program.index.scopes[file][term[1]]
    terms = program.terms[file]
    for decorator in scope.decorators:
        call = terms[decorator]
        if call[0] == "c" and last_name(terms, call[1]) == "option" and term[2] in destinations(terms, call):
            return _option(program, file, term[2])
    return ("p", file, term[1], term[2])


def _holds_options(program: Program, file: int, number: int) -> bool:
    """Return whether a term is what a parser of the command line returned."""
    value = program.evaluator.value(file, number)
    if value.has(Kind.NAMESPACE) or value.named("argparse.Namespace") is not None:
        return True
    return last_name(program.terms[file], number) in _NAMESPACES and value.only(Kind.UNKNOWN, Kind.METHOD)


def _copied_option(program: Program, file: int, name: str) -> Expression:
    """Return the option that is assigned to an attribute of another object, and nothing else is.

    Under another name, ``cfg.phase = args.mode``, it counts where a launch line passes it: the object may be an older
    one.
    """
    stores = [store for (_, kept), stores in program.evaluator.outside.items() if kept == name for store in stores]
    if len(stores) == 1 and not _is_copy(program, *stores[0]):
        store = program.event_row(*stores[0])
        value = store.terms[program.events[store.file][store.number][9]]
        others = any(kept == name for _, _, kept in program.evaluator.stores)
        if value[0] == "a" and not others and not store.inside("if") and _holds_options(program, store.file, value[1]):
            return _given_only(_option(program, store.file, value[2]))
    return _option(program, file, name) if stores else UNKNOWN


def _is_copy(program: Program, file: int, number: int) -> bool:
    """Return whether an assignment to an attribute keeps an option under its own name."""
    event = program.events[file][number]
    value = program.terms[file][event[9]]
    return value[0] == "a" and value[2] == event[8] and _holds_options(program, file, value[1])


def _configured(program: Program, file: int, number: int) -> Expression:
    """Return a value of a configuration by its keys, as a file may have it: ``cfg.TRAIN.RESUME``, ``cfg["resume"]``."""
    terms, evaluator = program.terms[file], program.evaluator
    keys: list[str] = []
    while terms[number][0] in ("a", "s"):
        term = terms[number]
        key = term[2] if term[0] == "a" else evaluator.constant_of(file, term[2])
        if not isinstance(key, str):
            return UNKNOWN
        keys.insert(0, key)
        number = term[1]
        if last_name(terms, number) in _CONFIGURATIONS:
            break
    value = evaluator.value(file, number)
    name = last_name(terms, number)
    is_file = value.named(*_LOADERS) is not None or (terms[number][0] == "c" and _READS_A_FILE.search(name) is not None)
    if (
        not keys
        or not (is_file or name in _CONFIGURATIONS)
        or value.has(Kind.NAMESPACE, Kind.OBJECT, Kind.CLASS, Kind.MODULE, Kind.DICT)
        or not _stored_names(program).isdisjoint(keys)
    ):
        return UNKNOWN
    return ("y", *keys)


@cached
def _stored_names(program: Program) -> frozenset[str]:
    """Return the attributes and the keys that the program assigns to objects."""
    keys = (program.evaluator.constant_of(row.file, row.payload[1]) for row in program.rows("store"))
    return frozenset((*(name for _, name in program.evaluator.outside), *(key for key in keys if isinstance(key, str))))


def _given_only(option: Expression) -> Expression:
    """Return an option whose default is not known: its value counts where a launch line passes it."""
    return (*option[:4], UNKNOWN, *option[5:]) if option[0] == "o" else option


def _attribute(program: Program, file: int, term: tuple[Any, ...], depth: int) -> Expression:
    """Return what the only assignment to an attribute of an object keeps, as its only constructor call passes it."""
    evaluator = program.evaluator
    owners = {atom.const for atom in evaluator.value(file, term[1]) if atom.kind == Kind.OBJECT}
    if len(owners) != 1:
        return UNKNOWN
    owner = owners.pop()
    stores = evaluator.stores.get((*owner, term[2]), ())
    if len(stores) != 1 or any(kept == term[2] for _, kept in evaluator.outside):
        return UNKNOWN
    store_file, number = stores[0]
    event = program.events[store_file][number]
    scope = program.index.scopes[store_file][event[1]]
    kept = _expression(program, store_file, event[9], depth + 1)
    if scope.name != "__init__" or any(node[1] == "if" for _, node in program.blocks_around(store_file, event[2])):
        return UNKNOWN
    sites = evaluator.callers.get((store_file, event[1]), ())
    if len(sites) == 1 and _has_parameter(kept):
        kept = _bound(program, kept, (store_file, event[1]), sites[0])
    return _closed(kept)


def spellings_of(program: Program, file: int, name: str) -> tuple[str, ...]:
    """Return the spellings of an option by its name; none if the program may give it another value."""
    option = _option(program, file, name)
    return option[2] if option[0] == "o" and all(text.startswith("-") for text in option[2]) else ()


@cached
def _option(program: Program, file: int, name: str) -> Expression:
    """Return an option by its name; not known is what launchers or the program itself set."""
    evaluator = program.evaluator
    plain = name.lower().strip("_")
    if plain in vocabulary.NAMES or plain in vocabulary.TESTS:
        return UNKNOWN
    stores = [store for (_, kept), stores in evaluator.outside.items() if kept == name for store in stores]
    if not all(_is_copy(program, *store) for store in stores):
        return UNKNOWN
    declared = evaluator.options.get(name, ())
    near = (
        [item for item in declared if item[0] == file]
        or [item for item in declared if evaluator.related(file, item[0])]
        or [item for item in declared if evaluator.in_one_program(file, item[0])]
    )
    found = {_declared(program, *item) for item in near}
    if not found:
        fields = [item for item in _fields(program).get(name, ()) if evaluator.in_one_program(file, item[0])]
        found = {_field(program, name, *item) for item in fields}
    return found.pop() if len(found) == 1 else UNKNOWN


def _declared(program: Program, file: int, number: int) -> Expression:
    """Return an option as a call declares it."""
    terms = program.terms[file]
    call = terms[program.events[file][number][7]]
    keywords = dict(call[3])
    spellings = tuple(
        spelling
        for item in call[2]
        if terms[item][0] == "k" and isinstance(terms[item][2], str)
        for spelling in terms[item][2].split("/")
    )

    def constant(name: str) -> Any:
        term = terms[keywords[name]] if name in keywords else ("k", "none", None)
        return term[2] if term[0] == "k" else "?"

    action = constant("action")
    if "action" in keywords and terms[keywords["action"]][0] != "k":
        action = "optional" if last_name(terms, keywords["action"]) == "BooleanOptionalAction" else "?"
    if constant("is_flag") is True or len(spellings) > len(call[2]):
        action = "optional"
    if call[4] or "nargs" in keywords or constant("multiple") is True:
        action = "?"
    default: Expression = ("k", {"store_true": False, "store_false": True}.get(action))
    if "default" in keywords:
        default = _expression(program, file, keywords["default"])
    if default[0] != "k" or _is_overridden(program, file):
        default = UNKNOWN
    kind = last_name(terms, keywords["type"]) if "type" in keywords else ""
    choices = ()
    if "choices" in keywords and terms[keywords["choices"]][0] in ("t", "l"):
        items = [terms[item] for item in terms[keywords["choices"]][1]]
        choices = tuple(item[2] for item in items if item[0] == "k")
    return ("o", next(iter(destinations(terms, call)), ""), spellings, action, default, kind, choices)


@cached
def _fields(program: Program) -> dict[str, list[tuple[int, int]]]:
    """Return the fields of the classes that a parser makes options of: (file, term of the default), by name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for call in program.calls_to(*_PARSERS_OF_CLASSES):
        given = call.argument(0, "dataclass_types")
        atoms = () if given is None else (*given, *(atom for one in given for item in one.items for atom in item))
        for file, number in {atom.const for atom in atoms if atom.kind == Kind.CLASS}:
            body = program.index.scopes[file][program.index.classes[file][number].scope]
            for name, terms in body.bindings.items():
                if len(terms) == 1 and program.terms[file][terms[0]][0] != "fn":
                    found.setdefault(name, []).append((file, terms[0]))
    return found


def _field(program: Program, name: str, file: int, number: int) -> Expression:
    """Return a field of a class as an option."""
    term = program.terms[file][number]
    if term[0] == "c":
        number = dict(term[3]).get("default", -1)
    default = _expression(program, file, number)
    kind = type(default[1]).__name__ if default[0] == "k" and default[1] is not None else ""
    action = "bool" if kind == "bool" else None if default[0] == "k" else "?"
    if _is_overridden(program, file):
        default = UNKNOWN
    return ("o", name, (f"--{name}", f"--{name.replace('_', '-')}"), action, default, kind, ())


@cached
def _is_overridden(program: Program, file: int) -> bool:
    """Return whether a program may give options that a file declares values that no command line has."""
    near = program.evaluator.importers(file) | files_from(program, file)
    return any(_overrides_options(program, one) for one in near)


@cached
def _overrides_options(program: Program, file: int) -> bool:
    """Return whether a file may give options values that no command line has."""
    return _OVERRIDES.search(program.index.files[file].text) is not None


def _bound(program: Program, needed: Expression, function: tuple[int, int], site: EntrySite) -> Expression:
    """Return an expression with what a call passes for the parameters of a function."""

    def passed(name: str) -> Expression:
        term = _passed(program, function, name, site)
        return UNKNOWN if term is None else _expression(program, *term)

    def bind(one: Expression) -> Expression:
        if one[0] == "p":
            return passed(one[3]) if one[1:3] == function else one
        if one[0] in ("k", "o", "y", "g", "?"):
            return one
        return tuple(bind(item) if isinstance(item, tuple) else item for item in one)

    return bind(needed) if _has_parameter(needed) else needed


def _passed(program: Program, function: tuple[int, int], name: str, site: EntrySite) -> tuple[int, int] | None:
    """Return the term that a call passes for a parameter, or that of its default: (file, term)."""
    scope = program.scope(function)
    call = program.terms[site.file][program.events[site.file][site.event][7]]
    own = [parameter for parameter, _, star in scope.parameters if not star]
    if name not in own:
        return None
    position = own.index(name) - site.offset
    keywords = dict(call[3])
    given: tuple[int, ...] = call[2]
    if site.kind != "call":
        holder = keywords.get("args", call[2][1] if site.kind == "spawn" and len(call[2]) > 1 else -1)
        held: tuple[Any, ...] = program.terms[site.file][holder] if holder >= 0 else ("-",)
        given, keywords = (held[1] if held[0] in ("t", "l") else ()), {}
        position -= site.kind == "spawn"
    elif name in keywords:
        return site.file, keywords[name]
    if 0 <= position < len(given):
        return site.file, given[position]
    default = next(default for parameter, default, _ in scope.parameters if parameter == name)
    return None if call[4] or default < 0 or site.kind != "call" else (function[0], default)


def _parts(one: Expression) -> Iterator[Expression]:
    yield one
    if one[0] not in ("k", "o", "y", "g", "?", "p"):
        for item in one[1:]:
            if isinstance(item, tuple):
                yield from _parts(item)


def _has_parameter(one: Expression) -> bool:
    return any(part[0] == "p" for part in _parts(one))


def _has_option(one: Expression) -> bool:
    return any(part[0] in ("o", "y", "g") for part in _parts(one))


def _closed(one: Expression) -> Expression:
    """Return an expression without parameters: what no call passes is not known."""
    if sum(1 for _ in _parts(one)) > _MOST_PARTS:
        return UNKNOWN

    def close(part: Expression) -> Expression:
        if part[0] == "p":
            return UNKNOWN
        if part[0] in ("k", "o", "y", "g", "?"):
            return part
        return tuple(close(item) if isinstance(item, tuple) else item for item in part)

    return close(one)
