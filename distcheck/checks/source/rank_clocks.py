"""Names of folders and ports that every rank makes from its own clock (DC767)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths
from .environment_variables import writes
from .program import EventRow, Program, SourceCall
from .shared_writes import folder_made
from .term_queries import origins

#: Functions that read the clock, down to seconds at least.
_CLOCKS = (
    "time.time", "time.time_ns", "time.strftime", "time.localtime", "time.ctime", "time.asctime",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "pandas.Timestamp.now",
)  # fmt: skip
#: Directives of ``strftime`` that two ranks may see differently when they start together.
_SECONDS = re.compile(r"%[STXcsfr]")
_FARTHEST = 3


@probe(rules.DC767)
def ranks_share_names(program: Program) -> Iterator[Finding]:
    """A folder or a port that ranks share has a name that one of them makes."""
    if not any(True for _ in program.calls_to(*_CLOCKS)):
        return
    seen: set[tuple[int, int]] = set()
    for what, row, term in _shared(program):
        clock = next(_clocks_in(program, row.file, term, 0), None)
        if clock is None or (clock.file, clock.number) in seen or _is_agreed(program, row, clock):
            continue
        ways = [call_paths.path_of_all_ranks(program, one) for one in (clock, row)]
        if any(way is None for way in ways) or program.is_test(row.file):
            continue
        seen.add((clock.file, clock.number))
        port = what == "port"
        yield row.found(
            rules.DC767,
            f"every rank makes the {what} from its own clock ({clock.place}): ranks that get there in "
            "different seconds have different ones" + (", and wait for each other until the timeout" if port else ""),
            fix=f"let rank 0 make the {what} and send it with broadcast_object_list, or pass it in the launch line",
            severity=None if port else Severity.INFO,
            flow=[clock.as_step(), f"{row.place}: the {what} is used"],
        )


def _shared(program: Program) -> Iterator[tuple[str, EventRow, int]]:
    """Yield what ranks share: folders and ports, each with its term."""
    for write in writes(program):
        if write.name == "MASTER_PORT":
            yield "port", write.row, write.term
    for call in program.calls_to("torch.distributed.init_process_group"):
        yield "port", call, call.argument_term(1, "init_method")
    for call in program.calls_named("makedirs", "mkdir", "save_pretrained"):
        yield "folder", call, folder_made(call)
    for call in program.calls_to("transformers.TrainingArguments"):
        yield "folder", call, call.argument_term(0, "output_dir")


def _clocks_in(program: Program, file: int, term: int, depth: int) -> Iterator[SourceCall]:
    """Yield the reads of the clock that a text is made from, through names, attributes and parameters."""
    if term < 0 or depth > _FARTHEST:
        return
    terms = program.terms[file]
    for number in program.subterms(file, term):
        kind = terms[number]
        if kind[:2] == ("u", "reduced"):
            return
        if kind[0] == "c":
            call = SourceCall(program, file, kind[5])
            if call.is_to(*_CLOCKS) and _is_fine(program, file, term, call):
                yield call
        elif kind[0] in ("p", "a"):
            for origin in origins(program, file, number):
                if origin != (file, number):
                    yield from _clocks_in(program, *origin, depth + 1)


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
