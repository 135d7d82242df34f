"""Samplers: those that do not get the epoch (DC730), and those next to ``shuffle`` (DC731)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Edit, Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values, sampler_classes
from .loader_loops import (
    DEEPEST_FLOW,
    LOADERS,
    SAMPLER,
    SAMPLERS,
    is_repeated,
    loaders_in,
    loops_over_loaders,
    made_instead,
    own_loaders,
    repetition_of,
)
from .models import trains as trains_in
from .path_values import CallPath
from .program import EventRow, Program, SourceCall
from .summary import Block
from .term_queries import given_terms
from .values import Atom, Certainty, Kind, Value
from .vocabulary import FRAMEWORKS


def _samplers_in(program: Program, value: Value | None, depth: int = 0) -> Iterator[Atom]:
    """Yield what of a value is a sampler, through batch samplers and other things that are made from one."""
    if value is None or depth > DEEPEST_FLOW:
        return
    for atom in value:
        own = atom.kind == Kind.OBJECT and program.evaluator.derives(atom.const, *sampler_classes.BASES)
        if own or (atom.kind == Kind.RESULT and atom.const in SAMPLERS):
            yield atom
        if atom.call is not None and (own or (atom.kind == Kind.RESULT and str(atom.const).endswith("Sampler"))):
            call = SourceCall(program, *atom.call)
            for term in (*call.term[2][:2], *(given for name, given in call.term[3] if name == "sampler")):
                yield from _samplers_in(program, call.term_value(term), depth + 1)


def loader_samplers(program: Program, loader: SourceCall) -> set[tuple[int, int]]:
    """Return the calls that made the samplers of a loader."""
    found = set()
    for value in (loader.argument(3, "sampler"), loader.argument(4, "batch_sampler")):
        found |= {atom.call for atom in _samplers_in(program, value) if atom.call is not None}
    return found


#: The head of a loop over epochs.
_EPOCHS = lazy(r"\s*(?:for|while)\b[^#]*\bepochs?\b")
#: Words of names that are not those of a training loader.
_EVALUATION = lazy(r"val|eval|test|infer", re.IGNORECASE)


@probe(rules.DC730)
def sampler_gets_the_epoch(program: Program) -> Iterator[Finding]:
    """A sampler that shuffles gets the number of the epoch, in every epoch."""
    of_loader = {
        (loader.file, loader.number): loader_samplers(program, loader)
        for loader in (*program.calls_to(*LOADERS), *program.table(own_loaders))
    }
    made = (*program.calls_to(SAMPLER), *sampler_classes.made_in_project(program))
    samplers = [call for call in made if _shuffles(call) and not _is_made_again(call)]
    for sampler in samplers:
        own = {key for key, made in of_loader.items() if (sampler.file, sampler.number) in made}
        repeated = None
        for loop in loops_over_loaders(program):
            if loop.trains and not own.isdisjoint(loop.loaders):
                repeated = repetition_of(program, loop, made=sampler)
                if repeated is not None:
                    break
        again = None
        if repeated is None:
            again = (
                _started_again(program, sampler, own)
                or _repeated_by_a_generator(program, sampler, own)
                or _cycled(program, sampler, own)
            )
        if _may_get_epochs(program, sampler, of_loader) or _dataset_shuffles_itself(program, sampler):
            continue
        if again is not None:
            yield _set_epoch_before(sampler, again)
            continue
        if repeated is None:
            yield from _once_by_default(program, sampler, own)
            continue
        loud = not (
            _sets_epochs(program, sampler.file) or _sets_epochs(program, repeated.file) or program.is_test(sampler.file)
        )
        yield _set_epoch_finding(program, sampler, repeated, loud, _same_in_each(program, sampler, own))


def _is_made_again(call: SourceCall) -> bool:
    """Return whether a loop makes a sampler again and again: none over a few texts, such as the names of the parts."""
    return any(not _walks_over_texts(call, term) for _, term in call.loops)


def _walks_over_texts(call: SourceCall, term: int) -> bool:
    parts = call.terms[term]
    return parts[0] in ("l", "t") and all(call.terms[item][:2] == ("k", "str") for item in parts[1])


def _sets_epochs(program: Program, file: int) -> bool:
    """Return whether a framework may give the epoch to the samplers of a file. DeepSpeed leaves loaders alone."""
    return any(
        f"{name}.".startswith(f"{framework}.")
        for name in program.imports(file)
        for framework in FRAMEWORKS
        if framework != "deepspeed"
    )


def _same_in_each(program: Program, sampler: SourceCall, loaders: set[tuple[int, int]]) -> str:
    """Return what does not change from epoch to epoch: a class of the project may reorder what a sampler gives it."""
    made = (program.event_row(*loader) for loader in loaders)
    given = (
        atom
        for loader in made
        if isinstance(loader, SourceCall)
        for value in (loader.argument(3, "sampler"), loader.argument(4, "batch_sampler"))
        for atom in value or ()
    )
    around = any(atom.kind == Kind.OBJECT and atom.call != (sampler.file, sampler.number) for atom in given)
    return "the same samples on each rank" if around else "the same order"


def _repeated_by_a_generator(program: Program, sampler: SourceCall, loaders: set[tuple[int, int]]) -> EventRow | None:
    """Return where a generator walks through one of these loaders again and again, for a function that trains."""
    for row in program.table(_endless_yields):
        through = row.term_value(row.payload[0])
        made = set(loaders_in(program, through))
        for _, node in row.blocks:
            if node[1] == "for":
                made |= set(loaders_in(program, row.term_value(node[2])))
        if made.isdisjoint(loaders):
            continue
        for call in program.callers((row.file, row.scope))[:20]:
            given = {one for term in call.term[2] for one in loaders_in(program, call.term_value(term))}
            if given.isdisjoint(loaders) and given:
                continue
            if _EVALUATION.search(f"{sampler.use} {program.lines(call.file)[call.line - 1]}"):
                continue
            if any(trains_in(program, user) for user in _users(program, call)):
                return row
    return None


def _cycled(program: Program, sampler: SourceCall, loaders: set[tuple[int, int]]) -> SourceCall | None:
    """Return the call of ``itertools.cycle`` that repeats the first pass through one of these loaders, to train."""
    for call in program.calls_to("itertools.cycle"):
        given = call.argument(0) or Value()
        if loaders.isdisjoint(loaders_in(program, given)):
            continue
        if _EVALUATION.search(f"{sampler.use} {program.lines(call.file)[call.line - 1]}"):
            continue
        if any(trains_in(program, user) for user in _users(program, call)):
            return call
    return None


def _users(program: Program, row: EventRow) -> list[tuple[int, int]]:
    """Return the functions that may use what a row makes: its own, or all methods of its class."""
    owner = program.evaluator.owner_of(row.file, row.scope)
    return program.methods_of(row.file, owner) if owner >= 0 else [(row.file, row.scope)]


def _endless_yields(program: Program) -> Iterator[EventRow]:
    """Yield each ``yield`` in a loop that no condition of its own ends."""
    for row in program.rows("yield"):
        if any(node[1] == "while" and row.terms[node[2]][0] == "k" for _, node in row.blocks):
            yield row


def _started_again(program: Program, sampler: SourceCall, loaders: set[tuple[int, int]]) -> EventRow | None:
    """Return the call of ``iter`` that starts one of these loaders again for a training loop.

    It stands where the loader has ended, or where each epoch begins: there, or in a constructor that is called there.
    """
    for call in program.calls_named("iter"):
        if not call.is_to("iter"):
            continue
        if call.loops and call.inside("except"):
            given = call.argument(0) or Value()
            if not loaders.isdisjoint(loaders_in(program, given)) and trains_in(program, (call.file, call.scope)):
                return call
            continue
        for start, walked in _starts(program, call):
            if loaders.isdisjoint(loaders_in(program, walked)) or not trains_in(program, (start.file, start.scope)):
                continue
            if _EVALUATION.search(f"{sampler.use} {program.lines(start.file)[start.line - 1]}"):
                continue
            if is_repeated(program, start) is not None:
                return start
    return None


def _starts(program: Program, call: SourceCall) -> Iterator[tuple[SourceCall, Value]]:
    """Yield where a call of ``iter`` starts, and on what: a constructor starts what it is given."""
    term = call.argument_term(0)
    if call.function.name != "__init__" or term < 0 or call.terms[term][0] != "p":
        if term >= 0:
            yield call, call.term_value(term)
        return
    for caller in program.callers((call.file, call.scope))[:20]:
        given = given_terms(caller, (call.file, call.scope)).get(call.terms[term][2], -1)
        if given >= 0:
            yield caller, caller.term_value(given)


def _set_epoch_before(sampler: SourceCall, again: EventRow) -> Finding:
    name = sampler.use.removeprefix("assign:") if sampler.use.startswith("assign:") else ""
    quiet = _sets_epochs(sampler.program, sampler.file) or sampler.program.is_test(sampler.file)
    cycled = isinstance(again, SourceCall) and again.is_to("itertools.cycle")
    return sampler.found(
        rules.DC730,
        f"nothing calls set_epoch() on {f'`{name}`' if name else 'this sampler'}, so each pass that "
        f"starts at {again.place} has the same order",
        fix=f"cycle() repeats what the first pass gave: use a generator that calls {name or 'loader.sampler'}"
        ".set_epoch(count) before each pass through the loader"
        if cycled
        else f"count the passes, and call {name or 'loader.sampler'}.set_epoch(count) "
        + (f"before {again.text()}" if isinstance(again, SourceCall) else "at the beginning of each"),
        severity=Severity.INFO if quiet else Severity.WARNING,
        flow=[
            f"{sampler.place}: the sampler is made here",
            f"{again.place}: the loader starts again",
        ],
    )


def _once_by_default(program: Program, sampler: SourceCall, loaders: set[tuple[int, int]]) -> Iterator[Finding]:
    """Yield a note about a sampler whose loader is not known to be walked through twice."""
    for loop in loops_over_loaders(program):
        if loop.trains and not loaders.isdisjoint(loop.loaders):
            repeated = repetition_of(program, loop, one_by_default=True, made=sampler)
            if repeated is not None:
                same = _same_in_each(program, sampler, loaders) + " if there is more than one"
                yield _set_epoch_finding(program, sampler, repeated, False, same)
                return
    if _no_file_sets_epochs(program, sampler):
        yield _unset_epoch(sampler)


def _no_file_sets_epochs(program: Program, sampler: SourceCall) -> bool:
    """Return whether a sampler for training shuffles in a program of epochs that never names ``set_epoch``."""
    names = f"{sampler.use} {sampler.argument_text(0, 'dataset')}"
    if not re.search("train", names, re.IGNORECASE) or _EVALUATION.search(sampler.use):
        return False
    files = program.component(sampler.file)
    if any(program.framework(file) for file in files) or program.uses_name(sampler.file, "set_epoch"):
        return False
    return any(_EPOCHS.match(line) for file in files for line in program.lines(file))


def _unset_epoch(sampler: SourceCall) -> Finding:
    name = sampler.use.removeprefix("assign:") if sampler.use.startswith("assign:") else "loader.sampler"
    return sampler.found(
        rules.DC730,
        "this sampler shuffles, and no file of the project calls set_epoch(): each epoch has the same order",
        fix=f"call {name}.set_epoch(epoch) at the beginning of each epoch",
        severity=Severity.INFO,
    )


def _shuffles(call: SourceCall) -> bool:
    if call.has_star or _is_fed_a_seed(call):
        return False
    shuffle = sampler_classes.shuffle_of(call.program, call)
    if shuffle is None:
        return True
    known = [constant for constant in shuffle.constants if isinstance(constant, bool)]
    # where a configuration decides, what is meant for training is shuffled
    return True in known if known else "train" in call.use.lower()


def _is_fed_a_seed(call: SourceCall) -> bool:
    seed = call.argument(4 if sampler_classes.class_of(call) is None else None, "seed")
    return seed is not None and not seed.only(Kind.CONST) and call.inside("for", "while")


def _may_get_epochs(
    program: Program, sampler: SourceCall, of_loader: dict[tuple[int, int], set[tuple[int, int]]]
) -> bool:
    """Return whether a ``set_epoch`` may be called on this sampler: any that is not known to be another's."""
    files = call_paths.related(program, sampler.file)
    own = (sampler.file, sampler.number)
    for call in program.calls_named("set_epoch"):
        if call.file in files:
            made = _receivers(program, call.receiver, of_loader, call)
            if made is None or own in made:
                return True
    for call in program.calls_to("getattr", "operator.methodcaller"):
        if call.file in files and any("set_epoch" in call.term_value(term).constants for term in call.term[2]):
            return True
    return any(
        row.payload[1] == "epoch"
        and row.term_text(row.payload[0]) != "self"
        and _receivers(program, row.term_value(row.payload[0]), of_loader)
        for row in program.rows("attribute", files)
    )


def _dataset_shuffles_itself(program: Program, sampler: SourceCall) -> bool:
    """Return whether a method of the data set reorders its samples: equal indices are then other samples."""
    data = sampler.argument(0, "dataset")
    classes = {atom.const for atom in data or () if atom.kind == Kind.OBJECT}
    return any(
        (call.file, program.evaluator.owner_of(call.file, call.scope)) in classes and _reorders(call)
        for call in program.calls_named("shuffle", "permutation")
    )


def _reorders(call: SourceCall) -> bool:
    """Return whether a method reorders what its object keeps: not in a constructor, nor what is in one sample."""
    shuffled = [call.terms[term][0] for term in call.term[2][:1]]
    name = call.function.name
    return name != "__init__" and shuffled != ["p"] and (name != "__getitem__" or shuffled == ["a"])


def _receivers(
    program: Program,
    value: Value,
    of_loader: dict[tuple[int, int], set[tuple[int, int]]],
    call: SourceCall | None = None,
) -> set[tuple[int, int]] | None:
    """Return the samplers that ``set_epoch`` is called on, by this call; None where they are not all known."""
    found: set[tuple[int, int]] = set()
    # attributes of several objects are one alternative
    attribute = ("-",) if call is None else call.terms[call.receiver_term]
    owners = call.term_value(attribute[1]) if call is not None and attribute[0] == "a" else Value()
    for atom in value:
        if atom.call is not None and (
            (atom.kind == Kind.RESULT and atom.const in SAMPLERS)
            or (atom.kind == Kind.OBJECT and program.evaluator.derives(atom.const, *sampler_classes.BASES))
        ):
            found.add(atom.call)
        elif atom.kind == Kind.METHOD and atom.const in ("sampler", "batch_sampler") and atom.of:
            loaders = [
                program.event_row(*loader) for loader in dict.fromkeys(loaders_in(program, Value((*atom.of, *owners))))
            ]
            if not loaders:
                return None
            # the loaders of which a function makes one are one value
            for key, samplers in of_loader.items():
                other = program.event_row(*key)
                if any(other == one or made_instead(one, other) for one in loaders):
                    found |= samplers
        elif not (atom.kind == Kind.CONST and atom.const is None):
            return None
    return found or None


def _set_epoch_finding(program: Program, sampler: SourceCall, repeated: EventRow, loud: bool, same: str) -> Finding:
    name = sampler.use.removeprefix("assign:") if sampler.use.startswith("assign:") else ""
    outer = next(node for _, node in repeated.blocks if node[1] in ("for", "while"))
    epoch = _loop_variable(program, repeated, outer)
    loop = program.place(repeated.file, outer[4])
    counter = epoch if epoch not in ("", "_") else "epoch"
    edits: tuple[Edit, ...] = ()
    if name and counter == epoch and (sampler.file, sampler.scope) == (repeated.file, repeated.scope):
        edits = _first_line_of(program, repeated.file, outer[4], f"{name}.set_epoch({epoch})", sampler)
    sampler_text = name or "loader.sampler"
    return sampler.found(
        rules.DC730,
        f"nothing calls set_epoch() on {f'`{name}`' if name else 'this sampler'}, so all epochs of the "
        f"loop at {loop} have {same}",
        fix=f"{sampler_text}.set_epoch({counter}) as the first line of that loop"
        + ("" if counter == epoch else ", with the number of the epoch"),
        edits=edits,
        safe=False,
        risk="the order of the data changes, and with it the results",
        severity=Severity.WARNING if loud else Severity.INFO,
        flow=[
            f"{sampler.place}: the sampler is made here",
            f"{loop}: the loop over epochs",
        ],
    )


def _loop_variable(program: Program, row: EventRow, node: Block) -> str:
    """Return the name that a ``for`` binds, empty for anything but one name."""
    terms = row.terms
    for one in program.rows_of(row.file, row.scope):
        if one.kind == "bind" and terms[one.payload[1]] == ("e", node[2]) and node[4] == one.line:
            return str(one.payload[0])
    return ""


def _first_line_of(program: Program, file: int, line: int, statement: str, sampler: SourceCall) -> tuple[Edit, ...]:
    """The edit that puts a statement at the beginning of a loop's body; none where the loop's head is not one line."""
    lines = program.lines(file)
    if program.index.files[file].cells:
        return ()
    head = lines[line - 1]
    plain = re.sub(r"#[^'\"]*$", "", head).rstrip()
    if not plain.endswith(":") or not plain.lstrip().startswith("for ") or line >= len(lines):
        return ()
    body = line
    while body < len(lines) and not lines[body].strip():
        body += 1
    if body >= len(lines):
        return ()
    following = lines[body]
    indent = following[: len(following) - len(following.lstrip())]
    own = head[: len(head) - len(head.lstrip())]
    if not (indent.startswith(own) and len(indent) > len(own)):
        return ()
    guard = ""
    # a sampler that there is in the distributed case only
    if sampler.inside("if"):
        guard = f"if {statement.split('.', 1)[0]} is not None and hasattr({statement.split('.', 1)[0]}, 'set_epoch'): "
    end = "\r\n" if "\r\n" in program.index.files[file].text else "\n"
    return (Edit(sampler.path, body + 1, 1, body + 1, 1, f"{indent}{guard}{statement}{end}"),)


@probe(rules.DC731)
def shuffle_or_sampler(program: Program) -> Iterator[Finding]:
    """A loader that has a sampler has no shuffle=True."""
    for loader, at_once in program.table(refused_loaders):
        text = loader.argument_text(3, "sampler")
        yield loader.found(
            rules.DC731,
            f"this loader is given shuffle=True and a sampler ({text}), which torch refuses with a ValueError",
            fix=f"drop shuffle: the sampler shuffles; if {text} may be None: shuffle=({text} is None)"
            if text.isidentifier()
            else "drop shuffle: the sampler defines the order",
            basis=(at_once,),
            flow=program.flow(at_once.flow),
        )


def refused_loaders(program: Program) -> Iterator[tuple[SourceCall, Atom]]:
    """Yield the loaders that are given shuffle=True and a sampler, and that sampler."""
    for loader in program.calls_to(*LOADERS):
        shuffle, sampler = loader.argument_term(2, "shuffle"), loader.argument_term(3, "sampler")
        if shuffle >= 0 and sampler >= 0 and (at_once := _both_given(program, loader, shuffle, sampler)) is not None:
            yield loader, at_once


def _both_given(program: Program, loader: SourceCall, shuffle: int, sampler: int) -> Atom | None:
    """The sampler that is given together with shuffle=True, by the code here or by one caller; None where none is."""
    terms = loader.terms
    if terms[shuffle][0] == "p" and terms[sampler][0] == "p":
        for call in program.callers((loader.file, loader.scope))[:20]:
            call_path = CallPath(loader, (call,), (call.file, call.scope), Certainty.PROVEN)
            if path_values.value_on(call_path, shuffle).constant is True:
                found = _sampler_of(program, loader.file, path_values.value_on(call_path, sampler))
                if found is not None:
                    return found
        return None
    if loader.term_value(shuffle).constant is not True:
        return None
    return _sampler_of(program, loader.file, loader.term_value(sampler))


def _sampler_of(program: Program, file: int, value: Value) -> Atom | None:
    for atom in value:
        if atom.kind == Kind.RESULT and (
            atom.const == SAMPLER or (atom.const in SAMPLERS and program.is_distributed(file))
        ):
            return atom
    return None
