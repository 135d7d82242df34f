"""Calls: what functions of the project return for their arguments, and what is known of functions outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import algebra, vocabulary
from .algebra import under
from .link import Index, chain
from .operators import Operators
from .source_tables import DEEPEST, CallContext
from .source_text import argument_terms, last_name, mentions
from .summary import FileSummary
from .values import (
    ALWAYS,
    NOTHING_KNOWN,
    RANKS,
    SIZES,
    Atom,
    FlowStep,
    Kind,
    RankCondition,
    Value,
    Who,
    const,
    join,
    value_of,
)
from .vocabulary import word_set

#: Functions whose result is their argument, in another form.
_OF_ONE_VALUE = word_set("int float str bool abs operator.index copy.copy round list tuple iter next sorted reversed")
#: What iterates over its arguments.
_ITERATORS = word_set(
    "enumerate zip tqdm.tqdm tqdm tqdm.auto.tqdm tqdm.trange itertools.cycle itertools.islice tqdm.std.tqdm "
    "tqdm.autonotebook.tqdm cycle itertools.chain"
)
#: What depends on the data or the clock of this rank.
_OF_THIS_RANK = word_set(
    "torch.isnan torch.isinf math.isnan math.isfinite numpy.isnan torch.isfinite time.time time.perf_counter "
    "time.monotonic random.random numpy.random.rand"
)
#: Calls within calls that are answered for their own arguments; deeper ones for all arguments that are ever passed.
_MOST_NESTED = 2


#: What stands for the name of a call of a generator of the project.
_GENERATOR = "generator"


#: Names of calls that make a process group.
_GROUP_STARTS = frozenset({"init_process_group", "init_distributed"})


#: Methods that give the options of several dataclasses.
_INTO_DATACLASSES = ("parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file", "parse_dict")


#: Generators of random numbers with a seed of their own, and their methods that draw a number.
_GENERATORS = frozenset(["random.Random", "numpy.random.default_rng", "numpy.random.RandomState"])


_DRAWS = frozenset(
    ["random", "randint", "uniform", "rand", "integers", "random_sample", "randrange", "gauss", "normal"]
)


#: Functions that make one value of those in a list.
_JOIN = frozenset(["sum", "max", "min", "any", "all", "stack", "cat", "mean"])


def _holds_data(value: Value) -> bool:
    """Return whether a value is a list of this rank's data, not of sizes: ``[loss for loss in losses.values()]``."""
    return any(
        inner.kind == Kind.BATCH and inner.const not in algebra.SIZES_OF_DATA
        for atom in value
        if atom.kind in (Kind.LIST, Kind.TUPLE)
        for inner in (*atom.of, *(one for item in atom.items for one in item))
    )


class CallResults(Operators):
    """What calls return."""

    def __init__(self, index: Index, visit: Callable[[int, FileSummary], None] = lambda file, summary: None) -> None:
        super().__init__(index, visit)
        self.nested = 0
        self._asking: dict[tuple[int, int], bool] = {}
        self._results: dict[tuple[int, int], Value] = {}

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
            elif atom.kind == Kind.RESULT and self.is_of_data(file, atom, term, context):
                # criterion = CrossEntropyLoss(): what it makes of this rank's data
                result = value_of(Kind.BATCH, "", call=(file, term[5]))
            else:
                result = value_of(Kind.RESULT, "", call=(file, term[5]))
            found.append(under(result, atom.when) if atom.when != ALWAYS else result)
        return join(found) if found else NOTHING_KNOWN

    def is_of_data(self, file: int, called: Atom, term: tuple[Any, ...], context: CallContext | None) -> bool:
        """Return whether a library's object gets this rank's data, and does not make ranks agree on it."""
        names = (str(called.const).rsplit(".", 1)[-1], last_name(self.terms[file], term[1]))
        return not any(vocabulary.AGREEING.search(name) for name in names) and any(
            self.value(file, item, context).has(Kind.BATCH) for item in term[2]
        )

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
        if dotted == "super" and not term[2]:
            owner = self.owner_of(file, self.events[file][event][1])
            bases = self.bases((file, owner)) if owner >= 0 else ()
            if bases and all(base.kind == Kind.CLASS and base.const != (file, owner) for base in bases):
                return Value(Atom(Kind.OBJECT, base.const) for base in bases)
        if dotted in _OF_ONE_VALUE:
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
        if dotted in _ITERATORS and term[2]:
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
        if dotted in _OF_THIS_RANK:
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
        values = () if agreed else tuple(self.value(file, item, context) for item in term[2])
        if any(value.has(Kind.BATCH) for value in values) or (last in _JOIN and any(map(_holds_data, values))):
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
        if self.nested >= _MOST_NESTED or self.depth > DEEPEST // 2 or not self.depends_on_parameters(atom.const):
            value = self.returned(atom.const)
            # what a generator walks through was given to this call
            return value_of(Kind.RESULT, _GENERATOR, call=(file, term[5])) if _is_generator(value) else value
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

    def of_class(self, file: int, atom: Atom, term: tuple[Any, ...]) -> Value:
        """An instance of a class of the project; one that derives from a wrapper wraps as well."""
        outer = set(self.outer_bases(atom.const))
        for dotted, way in vocabulary.WRAPPERS.items():
            if dotted in outer:
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
        if name in ("items", "values") and (owner.kind == Kind.DICT or (owner.kind == Kind.LIST and owner.of)):
            return algebra.parts_of(owner, name)
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
        if owner.kind == Kind.BATCH or (owner.kind == Kind.TEST and owner.const == Who.BY_DATA):
            return value_of(Kind.BATCH, name, call=(file, event))
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
            return value_of(Kind.RESULT, _GENERATOR, call=call)
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


def _is_generator(value: Value) -> bool:
    return value.only(Kind.RESULT) and value.atoms[0].const == _GENERATOR


def _holds_ranks(value: Value) -> bool:
    return any(atom.kind in RANKS or any(_holds_ranks(item) for item in atom.items) for atom in value)


def _is_fixed(value: Value) -> bool:
    """Return whether a value is nothing but constants, or a tuple of them."""
    return all(
        atom.kind == Kind.CONST or (atom.kind == Kind.TUPLE and all(item.only(Kind.CONST) for item in atom.items))
        for atom in value
    )


def _unclear(values: list[Value]) -> bool:
    """Return whether the ranks that alternatives are for do not decide between them."""
    return sum(any(atom.when.who == Who.EVERYONE for atom in value) for value in values) > 1
