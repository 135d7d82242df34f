"""Names of folders and ports that every rank makes from its own clock or random numbers (DC767)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values
from .environment_variables import only_where_missing, reads, writes
from .folder_races import folder_made
from .program import EventRow, Program, SourceCall
from .source_text import operands
from .term_queries import origins
from .values import Kind
from .vocabulary import word_set, words

#: Functions that read the clock, down to seconds at least.
_CLOCKS = (
    "time.time", "time.time_ns", "time.strftime", "time.localtime", "time.ctime", "time.asctime",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "pandas.Timestamp.now",
)  # fmt: skip
#: Functions that give each process other numbers, and those that do so if no seed is set.
_ALWAYS_RANDOM = ("uuid.uuid1", "uuid.uuid4", "os.getpid", "secrets.token_hex", "secrets.randbelow")
_RANDOM = (
    "random.randint", "random.randrange", "random.random", "random.choice", "random.choices", "random.sample",
    "random.uniform", "numpy.random.randint", "numpy.random.rand", "numpy.random.choice", "numpy.random.random",
)  # fmt: skip
_SEEDS = frozenset(["seed", "manual_seed", "set_seed", "seed_everything", "set_random_seed", "seed_all"])
#: Variables with a rank of launchers that set no ``MASTER_PORT``.
_OTHER_LAUNCHERS = ("SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
#: Directives of ``strftime`` that two ranks may see differently when they start together.
_SECONDS = lazy(r"%[STXcsfr]")
_FARTHEST = 3
#: Terms that are one of their operands, or a part of it.
_SAME = ("v", "p", "?", "|", "s", "x", "e", "w", "and", "or")
#: Libraries whose objects have attributes that are made of what the objects were made from.
_OF_TEXTS = words(
    "argparse. builtins. collections. copy. datetime. easydict. hashlib. numpy. omegaconf. os. pandas. pathlib. "
    "random. re. secrets. string. time. torch. types. urllib. uuid."
)
_TEXT_METHODS = word_set(
    "format join joinpath replace strip sub with_name with_stem with_suffix encode astimezone isoformat"
)
#: Functions that find a module by a name: nothing in the module is made of it.
_LOADERS = ("importlib.import_module", "builtins.__import__", "__import__")


@probe(rules.DC767)
def ranks_share_names(program: Program) -> Iterator[Finding]:
    """A folder or a port that ranks share has a name that one of them makes."""
    if not any(True for _ in program.calls_to(*_CLOCKS, *_ALWAYS_RANDOM, *_RANDOM)):
        return
    seen: set[tuple[int, int]] = set()
    for what, row, term in _shared(program):
        clock = next(_clocks_in(program, row.file, term, 0), None)
        if clock is None or (clock.file, clock.number) in seen or _is_agreed(program, row, clock):
            continue
        port = what == "port"
        # a folder of each process is one on purpose
        if _is_for_one_process(program, row) if port else clock.is_to("os.getpid"):
            continue
        ways = [call_paths.path_of_all_ranks(program, one) for one in (clock, row)]
        if ways[0] is None or ways[1] is None or program.is_test(row.file):
            continue
        if clock.is_to(*_RANDOM) and _is_seeded_before(program, ways[0]):
            continue
        seen.add((clock.file, clock.number))
        source, effect = "clock", "ranks that get there in different seconds have different ones"
        if not clock.is_to(*_CLOCKS):
            source = "process id" if clock.is_to("os.getpid") else "random number"
            effect = "each rank has another one"
        yield row.found(
            rules.DC767,
            f"every rank makes the {what} from its own {source} ({clock.place}): {effect}"
            + (", and they wait for each other until the timeout" if port else ""),
            fix=f"let rank 0 make the {what} and send it with broadcast_object_list, or pass it in the launch line",
            severity=None if port else Severity.INFO,
            flow=[clock.as_step(), f"{row.place}: the {what} is used"],
        )


def _shared(program: Program) -> Iterator[tuple[str, EventRow, int]]:
    """Yield what ranks share: folders and ports, each with its term."""
    for write in writes(program):
        # torchrun sets the port, Slurm and MPI don't
        if write.name == "MASTER_PORT" and (not only_where_missing(write) or _started_by_others(program, write.row)):
            yield "port", write.row, write.term
    for call in program.calls_to("torch.distributed.init_process_group"):
        yield "port", call, call.argument_term(1, "init_method")
    for call in program.calls_named("makedirs", "mkdir", "save_pretrained"):
        yield "folder", call, folder_made(call)
    for call in program.calls_to("transformers.TrainingArguments"):
        yield "folder", call, call.argument_term(0, "output_dir")


def _started_by_others(program: Program, row: EventRow) -> bool:
    """Return whether a function reads the rank that Slurm or MPI sets."""
    return any(
        read.name in _OTHER_LAUNCHERS and (read.row.file, read.row.scope) == (row.file, row.scope)
        for read in program.table(reads)
    )


def _is_for_one_process(program: Program, row: EventRow) -> bool:
    """Return whether a row is only for a world of one: a block around it tests that, or its function sets it."""
    for _, (_, kind, term, polarity, _, _) in row.blocks:
        parts = row.terms[term] if kind == "if" or kind.startswith("exit:") else ()
        if parts[:2] not in (("=", "=="), ("=", "!=")) or (parts[1] == "==") != polarity:
            continue
        sides = [row.term_value(side) for side in parts[2:4]]
        if any(side.constant in (1, "1") for side in sides) and any(
            side.has(Kind.WORLD_SIZE) or any(atom.const == "WORLD_SIZE" for atom in side) for side in sides
        ):
            return True
    return any(
        write.name == "WORLD_SIZE"
        and write.value.constant == "1"
        and (write.row.file, write.row.scope) == (row.file, row.scope)
        for write in writes(program)
    )


def _clocks_in(
    program: Program, file: int, term: int, depth: int, *, by_attribute: bool = False
) -> Iterator[SourceCall]:
    """Yield the reads of the clock that a text is made from, through names, attributes and parameters.

    :param by_attribute: the text is an attribute of the term, or what a method of it returns
    """
    if depth > _FARTHEST:
        return
    terms = program.terms[file]
    waiting, seen = [(term, by_attribute)], set()
    while waiting:
        number, by_attribute = one = waiting.pop()
        if number < 0 or one in seen:
            continue
        seen.add(one)
        kind = terms[number]
        if kind[:2] == ("u", "reduced"):
            return
        if kind[0] == "c":
            call = SourceCall(program, file, kind[5])
            if (call.is_to(*_CLOCKS) and _is_fine(program, file, term, call)) or call.is_to(*_ALWAYS_RANDOM, *_RANDOM):
                yield call
            if call.is_to(*_LOADERS) or (by_attribute and not _keeps_arguments(call)):
                waiting.append((kind[1], False))
                continue
        elif kind[0] in ("p", "a"):
            for origin in origins(program, file, number):
                if origin != (file, number):
                    yield from _clocks_in(program, *origin, depth + 1, by_attribute=by_attribute)
        inside = kind[0] == "a" or (by_attribute and kind[0] in _SAME)
        waiting.extend((inner, inside) for inner in (*operands(kind), *program.bound(file, kind)))


def _keeps_arguments(call: SourceCall) -> bool:
    """Return whether attributes of what a call returns may be made of its arguments.

    They are for texts, paths, dates and generators of random numbers, and for classes and functions of the project.
    """
    if call.targets:
        return any("." not in target or target.startswith(_OF_TEXTS) for target in call.targets)
    return call.callee.has(Kind.FUNCTION, Kind.CLASS, Kind.OBJECT) or call.method in _TEXT_METHODS


def _is_seeded_before(program: Program, way: path_values.CallPath) -> bool:
    """Return whether a seed may be set, here or in what is called, before a way comes to its row."""
    for row in (way.row, *way.calls):
        for call in program.rows_of(row.file, row.scope):
            if call.number >= row.number:
                break
            if not isinstance(call, SourceCall):
                continue
            reached = [one for inner in program.functions(call) for one in call_paths.reached_from(program, inner)]
            if call.method in _SEEDS or any(
                isinstance(inner, SourceCall) and inner.method in _SEEDS
                for one in reached
                for inner in program.rows_of(*one)
            ):
                return True
    return False


def _is_fine(program: Program, file: int, term: int, clock: SourceCall) -> bool:
    """Return whether the seconds of a clock are a part of the text."""
    terms = program.terms[file]
    calls = [
        SourceCall(program, file, terms[number][5])
        for number in program.subterms(file, term)
        if terms[number][0] == "c"
    ]
    formats = [
        text
        for call in calls
        if call.method == "strftime"
        for inner in call.argument_terms
        for text in call.term_value(inner).constants
        if isinstance(text, str) and "%" in text
    ]
    # the terms of an f-string don't have its formats
    formats += re.findall(r"\{[^{}]*:([^{}]*%[^{}]*)\}", program.lines(clock.file)[clock.line - 1])
    return not formats or any(_SECONDS.search(text) for text in formats)


def _is_agreed(program: Program, row: EventRow, clock: SourceCall) -> bool:
    """Return whether a broadcast or the like may make the name the same on all ranks."""
    return any(
        call.file in (row.file, clock.file)
        for call in program.calls_named(
            "broadcast", "broadcast_object_list", "broadcast_object", "all_gather_object", "bcast", "all_reduce"
        )
    )
