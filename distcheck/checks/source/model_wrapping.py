"""Probes of wrapped models in use: forwards that go around DDP, options of DDP, DataParallel. Parameters are judged in
:mod:`.parameters`, who reaches a forward in :mod:`.partial_models`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .buffers import APEX
from .models import (
    FAR,
    Made,
    WrappedModel,
    calls_in,
    comes_after,
    is_backward,
    is_wrapper_class,
    made_by,
    name_of,
    near,
    precedes,
    without_gradients,
    wrapper_of,
    wraps,
)
from .program import Function, Program, SourceCall
from .source_text import last_name, operands
from .term_queries import callee_text
from .values import Atom, Kind, Value, Who
from .vocabulary import word_set

#: Methods whose results carry no gradient.
_CUT = word_set("detach detach_ item tolist numpy argmax argmin argsort long int bool size numel no_grad")
#: Attributes whose values carry no gradient.
_CUT_ATTRIBUTES = frozenset(["data", "shape", "dtype", "device", "grad"])
#: Methods of a module that compute nothing.
NOT_FORWARD = word_set(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children state_dict "
    "load_state_dict train eval to cuda cpu half float double bfloat16 requires_grad_ zero_grad apply generate "
    "register_forward_hook register_buffer get_parameter get_submodule no_sync share_memory type compile"
)
#: Functions that reduce gradients by hand, as they are usually called.
_REDUCES_GRADIENTS = lazy(r"(average|reduce|sync|synchroni[sz]e|allreduce|all_reduce|gather)\w*_grad", re.IGNORECASE)
_REDUCTIONS = (
    "all_reduce",
    "all_reduce_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "allreduce",
    "allreduce_",
)
#: Functions that take a network out of its wrapper, as they are usually called.
#: Calls that step an optimizer: ``optimizer.step``, ``scaler.step``, timm's ``loss_scaler(loss, optimizer)``, helpers.
_STEPS = lazy(r"step|scaler", re.IGNORECASE)
_UNWRAPS = lazy(r"unwrap|de_?parallel|without_ddp|raw_model|get_model|strip|bare|inner|^getattr$", re.IGNORECASE)


# DC750


class _Flow:
    """Follows the result of a call to a backward pass, through terms, returns and arguments."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parts: dict[tuple[int, int], frozenset[int]] = {}
        #: the wrapper that is bypassed, by the call that made it
        self.wrap: Made = (-1, -1)

    def contents(self, file: int, root: int) -> frozenset[int]:
        """Return the terms that a gradient flows into from a term, itself included."""
        known = self.parts.get((file, root))
        if known is not None:
            return known
        terms = self.program.terms[file]
        pending, seen = [root], set()
        while pending:
            number = pending.pop()
            if number < 0 or number in seen:
                continue
            seen.add(number)
            term = terms[number]
            operation = term[0]
            if operation == "a":
                if term[2] not in _CUT_ATTRIBUTES:
                    pending.append(term[1])
            elif operation == "c":
                callee = terms[term[1]]
                if callee[0] == "a" and callee[2] in _CUT:
                    continue
                pending.extend(operands(term))
            elif operation in ("e", "x", "w", "s"):
                pending.append(term[1])
            elif operation in ("|", "*"):
                pending.extend(term[1:3])
            elif operation == "o":
                pending.extend(term[2:4])
            elif operation == "u":
                pending.append(term[2])
            elif operation in ("and", "or", "t", "l"):
                pending.extend(term[1])
            elif operation == "d":
                pending.extend(term[2])
            elif operation == "?":
                pending.extend(term[2:4])
        found = self.parts[(file, root)] = frozenset(seen)
        return found

    def alone(self, file: int, scope: int, term: int, far: int = FAR) -> bool:
        """Whether a backward pass starts from the value of a term, and no forward of a wrapper has a part in it."""
        reached = False
        for row in self.program.rows_of(file, scope):
            if isinstance(row, SourceCall):
                if is_backward(row):
                    sources = (row.term[1], *row.term[2])
                    if any(term in self.contents(file, source) for source in sources):
                        if self.has_wrapper(file, sources):
                            return False
                        reached = True
                elif far and (inner := self.passed(row, term)):
                    for function, parameter in inner:
                        reached = reached or self.alone(function[0], function[1], parameter, far - 1)
            elif row.kind == "return" and far and term in self.contents(file, row.payload[0]):
                if self.has_wrapper(file, (row.payload[0],)):
                    return False
                for caller in self.program.callers((file, scope))[:6]:
                    if not without_gradients(self.program, caller):
                        reached = reached or self.alone(caller.file, caller.scope, caller.event[7], far - 1)
        return reached

    def passed(self, call: SourceCall, term: int) -> list[tuple[Function, int]]:
        """Return the parameters of functions of the project that a call passes a term to."""
        given = call.argument_terms
        if not any(term in self.contents(call.file, number) for number in given):
            return []
        found = []
        for function in self.program.functions(call):
            scope = self.program.scope(function)
            own = [name for name, _, star in scope.parameters if not star]
            offset = 1 if scope.owner >= 0 and own else 0
            terms = self.program.terms[function[0]]
            for position, number in enumerate(call.term[2]):
                if term in self.contents(call.file, number) and position + offset < len(own):
                    parameter = ("p", function[1], own[position + offset])
                    if parameter in terms:
                        found.append((function, terms.index(parameter)))
        return found

    def has_wrapper(self, file: int, sources: Iterable[int], *, any_of_them: bool = False) -> bool:
        """Return whether the forward of the wrapper, or of any wrapper, has a part in these terms, or may have."""
        terms = self.program.terms[file]
        for source in sources:
            for number in self.contents(file, source):
                if terms[number][0] != "c":
                    continue
                call = SourceCall(self.program, file, terms[number][5])
                if self.is_forward(call, any_of_them=any_of_them):
                    return True
                handed = any(self.is_wrapper(call.term_value(argument), any_of_them) for argument in call.term[2])
                if handed and not any(_inside(atom) for atom in call.result):
                    return True
                if any(self.calls_wrapper(function, any_of_them) for function in self.program.functions(call)):
                    return True
        return False

    def is_wrapper(self, value: Value, any_of_them: bool) -> bool:
        """Return whether a value may be the wrapper, or any wrapper."""
        return any(atom.kind == Kind.WRAPPED and (any_of_them or atom.call in (None, self.wrap)) for atom in value)

    def is_forward(self, call: SourceCall, *, any_of_them: bool) -> bool:
        """Return whether a call is the forward of the wrapper, or of any wrapper."""
        callee = call.callee
        return self.is_wrapper(callee, any_of_them) and not callee.has(Kind.BARE)

    def calls_wrapper(self, function: Function, any_of_them: bool, depth: int = 0) -> bool:
        """Return whether a function of the project runs such a forward."""
        for call in calls_in(self.program, function):
            if self.is_forward(call, any_of_them=any_of_them):
                return True
            inner = (one for one in self.program.functions(call) if one != function)
            if depth < 2 and any(self.calls_wrapper(one, any_of_them, depth + 1) for one in inner):
                return True
        return False


def _attacks(program: Program, call: SourceCall, given: Iterable[int]) -> bool:
    """Whether gradients are wanted of the inputs, as an attack on the model wants them, and not of the parameters."""
    terms = program.terms[call.file]
    parts = set(program.subterms(call.file, *given, names=False))
    for number in parts:
        if terms[number][0] == "c" and last_name(terms, terms[number][1]) == "requires_grad_":
            return True
    return any(
        row.kind == "attribute" and row.payload[1] == "requires_grad" and row.payload[0] in parts
        for row in program.rows_of(call.file, call.scope)
    )


def _inside(atom: Atom) -> bool:
    return atom.kind == Kind.BARE and wrapper_of(atom, "ddp") is not None


def _unwraps(program: Program, call: SourceCall) -> bool:
    """Return whether what is called is taken out of a wrapper for sure, although the wrapper itself is an alternative.

    ``model.module if hasattr(model, "module") else model`` is the inside wherever there is a wrapper.
    """
    if not call.callee.has(Kind.WRAPPED):
        return True
    terms = program.terms[call.file]
    number = call.term[1]
    if terms[number][0] == "a":
        number = terms[number][1]
    term = terms[number]
    if term[0] == "?":
        test = terms[term[1]]
        return test[0] == "c" and last_name(terms, test[1]) in ("hasattr", "isinstance")
    if term[0] == "c":
        name = last_name(terms, term[1])
        return name == "getattr" or bool(program.functions(SourceCall(program, call.file, term[5])))
    return False


def reduced_by_hand(program: Program, files: list[int]) -> bool:
    """Return whether something in these files reduces gradients without DDP."""
    for file in files:
        if any(
            _REDUCES_GRADIENTS.search(name) for _, called in program.index.files[file].header.calls for name in called
        ):
            return True
    for call in program.calls_named(*_REDUCTIONS, files=frozenset(files)):
        terms = program.terms[call.file]
        arguments = call.term[2] or tuple(value for _, value in call.term[3])
        for number in program.subterms(call.file, *arguments):
            if terms[number][0] == "a" and terms[number][2] in ("grad", "main_grad"):
                return True
    return False


@probe(rules.DC750)
def forward_bypasses_ddp(program: Program) -> Iterator[Finding]:
    """A loss that is trained on comes from the wrapper's forward, and not from the network inside."""
    # apex hooks the parameters themselves, so that every backward pass averages their gradients
    known = [wrap for wrap in wraps(program, "ddp") if set(wrap.call.targets) != {APEX}]
    if not known:
        return
    flow = _Flow(program)
    by_hand: dict[int, bool] = {}
    candidates = _Candidates(program, known)
    for call in program.calls_in(candidates.files):
        if not candidates.has(call):
            continue
        found = _around(program, call, known)
        if found is None or without_gradients(program, call) or call.within("no_sync"):
            continue
        wrap, method = found
        owner = program.evaluator.owner_of(call.file, call.scope)
        if owner >= 0 and is_wrapper_class(program, (call.file, owner)):
            continue
        flow.wrap = (wrap.call.file, wrap.call.number)
        given = call.argument_terms
        # what comes out of another wrapper is trained through that: a generator through its critic
        if flow.has_wrapper(call.file, given, any_of_them=True) or _attacks(program, call, given):
            continue
        if any(
            one.term[1] == call.term[1] and flow.has_wrapper(one.file, one.argument_terms, any_of_them=True)
            for one in calls_in(program, (call.file, call.scope))
        ):
            continue  # the features of real samples, next to those of generated ones
        if not flow.alone(call.file, call.scope, call.event[7]) or not _may_step(program, call):
            continue
        if call.file not in by_hand:
            by_hand[call.file] = reduced_by_hand(program, program.component(call.file))
        if by_hand[call.file]:
            continue
        wrapper = name_of(program, wrap.call) or "the DDP model"
        called = callee_text(call)
        fix = (
            f"let forward() do what {method}() does, and call {wrapper}(…) for the loss"
            if method
            else f"call the wrapper, {wrapper}(…), instead of {called}(…)"
        )
        level = call.level_in_tests
        if level is None and method and not call.receiver.has(Kind.BARE):
            level = Severity.WARNING  # what a method uses of the network is not known
        yield call.found(
            rules.DC750,
            f"the loss comes from {called}(…), which bypasses {wrapper}: no gradient is averaged over the ranks",
            fix=fix,
            severity=level,
            call=call.text(),
            wrapped_at=f"{wrap.call.place}",
            flow=[
                f"{wrap.call.place}: wrapped by {wrap.call.text()}",
                call.as_step(),
            ],
        )


def _may_step(program: Program, call: SourceCall) -> bool:
    """Return whether gradients of a call may reach an optimizer: grad-CAM and the like compute some that do not.

    A function with a backward pass of its own has to step, too. Of others it may be done by any caller.
    """
    calls = calls_in(program, (call.file, call.scope))
    return not any(map(is_backward, calls)) or any(_STEPS.search(one.method) for one in calls)


class _Candidates:
    """Decides from the form of a call whether it may bypass a wrapper, before its value is needed."""

    def __init__(self, program: Program, known: list[WrappedModel]) -> None:
        self.program = program
        owner_of = program.evaluator.owner_of
        self.files = near(program, known)
        self.scopes = {(wrap.call.file, wrap.call.scope) for wrap in known}
        self.classes = {(wrap.call.file, owner_of(wrap.call.file, wrap.call.scope)) for wrap in known}
        for row in program.rows("attribute", self.files):
            if self.has_module(row.file, row.payload[2]):
                self.classes.add((row.file, owner_of(row.file, row.scope)))

    def has_module(self, file: int, number: int) -> bool:
        """Return whether ``.module`` is taken of something in a term, or something is unwrapped by a call."""
        terms = self.program.terms[file]
        for part in self.program.subterms(file, number, names=False):
            term = terms[part]
            if (term[0] == "a" and term[2] == "module") or (
                term[0] == "c" and _UNWRAPS.search(last_name(terms, term[1]))
            ):
                return True
        return False

    def has(self, call: SourceCall) -> bool:
        """Return whether a call may be a forward around a wrapper."""
        if call.use == "drop" or not (call.positional or call.keywords):
            return False
        terms = self.program.terms[call.file]
        number = call.term[1]
        if terms[number][0] == "a" and terms[number][2] in NOT_FORWARD:
            return False
        while terms[number][0] == "a":
            if terms[number][2] == "module":
                return True
            number = terms[number][1]
        base = terms[number]
        if base[0] in ("c", "?", "|", "s", "x", "e"):
            return (call.file, call.scope) in self.scopes or self.has_module(call.file, number)
        if base[0] == "p":
            own = (call.file, self.program.evaluator.owner_of(call.file, call.scope))
            return number == call.term[1] or own in self.classes
        if base[0] == "v":
            scopes = self.program.index.scopes[call.file]
            bound = [value for scope in (call.scope, 0) for value in scopes[scope].bindings.get(base[2], ())]
            return any(terms[value][0] not in ("fn", "cls", "i") for value in bound)
        return False


def _around(program: Program, call: SourceCall, known: list[WrappedModel]) -> tuple[WrappedModel, str] | None:
    """The wrapper that a call of a network goes around, and the method that it calls where that is not forward."""
    by_call = {(wrap.call.file, wrap.call.number): wrap for wrap in known}
    for atom in call.callee:
        method = ""
        if atom.kind == Kind.METHOD and atom.of:
            method, atom = str(atom.const), atom.of[0]
            if method in NOT_FORWARD or method.startswith("_"):
                continue
        holder = wrapper_of(atom, "ddp") if atom.kind == Kind.BARE else None
        if holder is not None and holder.call in by_call and _unwraps(program, call):
            return by_call[holder.call], "" if method == "forward" else method
    return _around_raw(program, call, known)


def _around_raw(program: Program, call: SourceCall, known: list[WrappedModel]) -> tuple[WrappedModel, str] | None:
    """Return the same for a network, or a method of it, that is called by the name from before it was wrapped."""
    network, term, method = call.callee, call.term[1], ""
    callee = call.terms[term]
    if callee[0] == "a" and callee[2] not in NOT_FORWARD and not callee[2].startswith("_"):
        network, term, method = call.receiver, callee[1], callee[2]
    if network.has(Kind.WRAPPED, Kind.BARE):
        return None
    for wrap in known:
        if wrap.base == (call.file, term) and comes_after(program, wrap.call, call):
            return wrap, method
    made = made_by(program, network, (call.file, call.scope))
    for wrap in known:
        if made and not made - wrap.made and comes_after(program, wrap.call, call):
            return wrap, method
    return None


# DC754


_DDP_OPTIONS = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "accelerate.DistributedDataParallelKwargs",
        "accelerate.utils.DistributedDataParallelKwargs",
        "mmengine.model.MMDistributedDataParallel",
        "mmcv.parallel.MMDistributedDataParallel",
    }
)


@probe(rules.DC754)
def unused_parameters(program: Program) -> Iterator[Finding]:
    """find_unused_parameters=True is there because something needs it, not by habit."""
    last = ("DistributedDataParallel", "MMDistributedDataParallel", "DDPStrategy", "DistributedDataParallelKwargs")
    wrapping = [wrap.call for wrap in wraps(program, "ddp")]
    found = dict.fromkeys([*wrapping, *program.calls_named(*last, "Trainer", "Fabric")])
    for call in sorted(found, key=lambda call: (call.file, call.number)):
        if call.gives(None, "find_unused_parameters"):
            if (
                not _is_for_ddp(call)
                or call.term_value(call.argument_term(None, "find_unused_parameters")).constant is not True
            ):
                continue
            if call.constant(None, "static_graph", False) is not False:
                continue
            message = "find_unused_parameters=True makes DDP walk the whole graph in every step"
        elif _queries_by_name(call):
            message = "the strategy ddp_find_unused_parameters_true makes DDP walk the whole graph in every step"
        else:
            continue
        yield call.found(
            rules.DC754,
            message,
            fix="drop it if every parameter gets a gradient;"
            " if the same ones are unused in every step, use static_graph=True",
            call=call.text(),
        )


def _is_for_ddp(call: SourceCall) -> bool:
    """Return whether a call wraps a model in DDP, or holds the options for that."""
    known = any(target in _DDP_OPTIONS or target.endswith(".DDPStrategy") for target in call.targets)
    return known or call.result.wrapped("ddp") is not None


def _queries_by_name(call: SourceCall) -> bool:
    if call.method not in ("Trainer", "Fabric"):
        return False
    given = call.argument(None, "strategy")
    return given is not None and isinstance(given.constant, str) and "find_unused_parameters_true" in given.constant


# DC755


@probe(rules.DC755)
def data_parallel(program: Program) -> Iterator[Finding]:
    """Several GPUs are driven by one process each."""
    for call in program.calls_to("torch.nn.parallel.DataParallel"):
        group = _group_created_nearby(program, call)
        fix = (
            "wrap the model in DistributedDataParallel(model, device_ids=[local_rank])"
            if group is not None
            else "use DistributedDataParallel with one process a GPU (torchrun --nproc-per-node=gpu)"
        )
        yield call.found(
            rules.DC755,
            "DataParallel drives all GPUs from this process, and the process group"
            f" of {group.place} has a process for each already"
            if group is not None
            else "DataParallel drives all GPUs from the threads of one process, and copies the model in every step",
            fix=fix,
            severity=Severity.WARNING if group is not None and not program.is_test(call.file) else Severity.INFO,
            call=call.text(),
        )


def _group_created_nearby(program: Program, call: SourceCall) -> SourceCall | None:
    """A process group that exists whenever a call runs: made without a condition, and no other wrapper is a choice."""
    if any(node[1] == "if" and not _counts_devices(program, call, node[2]) for _, node in call.blocks):
        return None
    if call.reached_by.who == Who.SINGLE or any(
        wrap.call.file == call.file for wrap in wraps(program, "ddp", "fsdp", "fsdp2")
    ):
        return None
    for other in program.calls_to("torch.distributed.init_process_group"):
        if (
            other.file != call.file
            or other.inside("if", "except", "else")
            or any(place[1].startswith("exit:") for _, place in other.blocks)
        ):
            continue
        if precedes(program, other, call) or other.at_module_level:
            return other
    return None


def _counts_devices(program: Program, call: SourceCall, term: int) -> bool:
    return "device_count" in call.term_text(term)
