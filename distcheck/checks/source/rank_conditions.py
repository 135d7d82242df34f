"""Which conditions may keep ranks away from a line: tests of the rank, and words that plausibly are about one."""

from __future__ import annotations

import re

from distcheck.core.patterns import lazy

from . import vocabulary
from .collective_sequences import sequences_of
from .conditions import asserted, leaves_one_process
from .evaluate import Evaluator
from .program import FEW, PARTIAL, EventRow, Function, Program, SourceCall, cached
from .source_text import last_name
from .values import Kind, Who

#: Words in a condition that can't be followed, which may test the rank.
_PLAUSIBLE = lazy(
    r"rank|is_?main|main_?proc|master|chief|primary|leader|coordinator|is_?zero|global_?zero|is_?root|should_save|to_disk"
    r"|writer|is_?first|dist|process|node|gpu|device|local|worker|proc_?id|only_one|host|\bnr\b",
    re.IGNORECASE,
)
#: Words in what an attribute keeps that are hardly about anything else than a rank.
_OF_A_RANK = lazy(r"rank|is_?main|main_?proc|is_?master|master_?proc|is_?chief|is_?primary", re.IGNORECASE)
#: Words in a condition after which an error is raised, which may mean that there are no other ranks. That the others
#: are kept away from a file by an error is not plausible.
_PLAUSIBLE_IN_ERROR = lazy(r"rank|is_?main|main_?proc|master|dist|process|node|gpu|device|worker", re.IGNORECASE)
#: Parsed options in the text of a condition: the description of their parser is no word about a rank.
_PARSED = lazy(r"(\w+\.)*ArgumentParser\(.*?\)\.parse_(known_)?args\([^()]*\)")
#: A number of batches: how the loader was made, ``sampler=DistributedSampler(…, rank=…)``, is no word about a rank.
_LENGTH_OF_LOADER = lazy(r"\blen\((?=(\w+\.)*\w*(Loader|Sampler)\()")
#: Words with one of the others in them that are about data, kinds of hardware, or matrices.
_OF_OTHER_THINGS = lazy(
    r"(pre|post|sub)_?process\w*|process(or|ed|ing)s?(?![a-z])|distill?(ed|ation)?(?![a-z])|\w*distance\w*"
    r"|distort\w*|distribution|num_workers|low_rank\w*|lora_rank|rank_dropout|device_type|get_device_capability"
    r"|MASTER_(PORT|ADDR)",
    re.IGNORECASE,
)
_COUNT = r"\b(?:num_?|n_?)?(?:nodes|gpus|hosts|machines|processes|procs|devices|nnodes|ngpus) ?"
#: Tests of a number that is the same on all ranks, by polarity: they pass where there are several.
_ARE_SEVERAL = {
    True: lazy(rf"{_COUNT}(?:> ?1|>= ?2|!= ?1)(?![\w.])"),
    False: lazy(rf"{_COUNT}(?:<= ?1|< ?2|== ?1)(?![\w.])"),
}


def is_guarded(row: EventRow, *, first_is_a_guard: bool = False) -> bool:
    """Return whether a condition around a row, in its own function, may keep ranks away from it.

    :param first_is_a_guard: ``with main_process_first():`` counts, for what only the first one does
    """
    program = row.program
    for _, (_, kind, term, polarity, _, _) in row.blocks:
        if kind in ("if", "while") or kind.startswith("exit:"):
            if polarity and passes_by_a_count(row, term):
                continue
            who = program.evaluator.test(row.file, term).who
            if who in PARTIAL or who == Who.MEMBERS:
                return True
            if (who == Who.SINGLE and polarity) or (who == Who.DISTRIBUTED and not polarity):
                return True
            words = _PLAUSIBLE_IN_ERROR if kind == "exit:raise" else _PLAUSIBLE
            if who == Who.UNCLEAR and (
                words.search(_without_other_things(row.term_text(term), several=polarity)) or _keeps_a_rank(row, term)
            ):
                return True
            if _has_no_rank(row, term, polarity):
                return True
        elif kind == "with" and first_is_a_guard:
            name = last_name(row.terms, term).lower()
            if name in vocabulary.MAIN_FIRST or "first" in name or "lock" in name:
                return True
            if goes_first(program, row.file, term):
                return True
    if first_is_a_guard and _is_between_barriers(row):
        return True
    # that a rank is small enough, or the main one's, is also asserted: the others don't pass it either, and fail
    return any(
        leaves_one_process(row, term) or program.evaluator.test(row.file, term).who in FEW for term in asserted(row)
    )


def _keeps_a_rank(row: EventRow, term: int) -> bool:
    """Return whether a condition has an attribute that keeps what a rank may decide: ``self.saves = rank0 and …``."""
    evaluator, terms = row.program.evaluator, row.terms
    for number in row.program.subterms(row.file, term):
        if terms[number][0] != "a":
            continue
        owners = [atom.const for atom in row.term_value(terms[number][1]) if atom.kind == Kind.OBJECT]
        stores = evaluator.stores.get((*owners[0], terms[number][2]), ()) if len(owners) == 1 else ()
        for store in (row.program.event_row(*site) for site in stores):
            if _OF_A_RANK.search(_OF_OTHER_THINGS.sub("", store.term_text(store.payload[2]))):
                return True
    return False


def passes_by_a_count(row: EventRow, term: int) -> bool:
    """Return whether a condition holds on all ranks in some turns: ``rank == 0 and save or epoch == last``.

    ``and`` binds tighter than ``or``, which its author may not have meant.
    """
    parts = row.terms[term]
    if parts[0] != "or" or not any(row.terms[part][0] == "and" for part in parts[1]):
        return False
    return any(
        row.terms[part][0] == "="
        and row.terms[part][1] in ("==", ">=", ">")
        and row.term_value(row.terms[part][2]).has(Kind.UNIFORM)
        and not _PLAUSIBLE.search(row.term_text(part))
        for part in parts[1]
    )


def _is_between_barriers(row: EventRow) -> bool:
    """Return whether one rank goes first: the others wait before a row for a barrier that it calls behind it."""
    barriers = [
        call
        for call in row.program.calls_to("torch.distributed.barrier")
        if (call.file, call.scope) == (row.file, row.scope)
    ]
    before = any(one.number < row.number and one.own_reached_by.who in _ALL_BUT_FEW for one in barriers)
    return before and any(one.number > row.number and one.own_reached_by.who in FEW for one in barriers)


_ALL_BUT_FEW = frozenset((Who.OTHERS, Who.LOCAL_OTHERS, Who.ALL_BUT_ONE))


def _without_other_things(text: str, *, several: bool) -> str:
    """Return the text of a condition without what is no word about ranks: parsers, lengths of loaders, data, counts.

    :param several: the condition holds; else it does not
    """
    text = _PARSED.sub("args", text)
    while (length := _LENGTH_OF_LOADER.search(text)) is not None:
        end, open_ones = length.end(), 1
        while open_ones and end < len(text):
            open_ones += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = f"{text[: length.start()]}length{text[end:]}"
    return _ARE_SEVERAL[several].sub("", _OF_OTHER_THINGS.sub("", text))


def has_stand_in(row: EventRow) -> bool:
    """Return whether the object of a call differs between ranks: ``saver = Saver() if rank == 0 else NoOp()``."""
    object_term = row.receiver_term if isinstance(row, SourceCall) else -1
    if object_term < 0:
        return False
    program = row.program
    parts = row.terms[object_term]
    if parts[0] == "?":
        return program.evaluator.test(row.file, parts[1]).who in PARTIAL
    assignments: list[EventRow] = []
    if parts[0] == "v":
        assignments = [
            one
            for one in program.rows_of(row.file, row.scope)
            if one.kind == "bind" and one.payload[0] == parts[2] and one.number < row.number
        ]
    elif parts[0] == "a":
        assignments = [
            program.event_row(*site)
            for atom in row.term_value(parts[1])
            if atom.kind == Kind.OBJECT
            for site in program.evaluator.stores.get((*atom.const, parts[2]), ())
        ]
    return any(one.own_reached_by.who in PARTIAL for one in assignments)


def may_test_ranks(row: EventRow, term: int) -> bool:
    """Return whether the words of a condition may speak of ranks, or of what kind of run this is."""
    program = row.program
    return any(
        _PLAUSIBLE.search(str(row.terms[number][2]))
        for number in program.subterms(row.file, term)
        if row.terms[number][0] in ("a", "v", "p")
    )


def goes_first(program: Program, file: int, term: int) -> bool:
    """Return whether a context manager of the project lets one rank go first: others wait in it before its body.

    It is a generator with a collective under a rank check before its ``yield``.
    """
    parts = program.terms[file][term]
    return parts[0] == "c" and any(
        _waits_first(program, function) for function in program.functions(SourceCall(program, file, parts[5]))
    )


@cached
def _waits_first(program: Program, function: Function) -> bool:
    sequences = sequences_of(program)
    rows = program.rows_of(*function)
    first = next((row for row in rows if row.kind == "yield"), None)
    if first is None:
        return False
    return any(
        isinstance(row, SourceCall)
        and row.number < first.number
        and (
            row.own_reached_by.who in PARTIAL
            or any(node[1] == "if" and _PLAUSIBLE.search(row.term_text(node[2])) for _, node in row.blocks)
        )
        and (
            sequences.is_unseen(row)
            or sequences.collective_site(row) is not None
            or any(sequences.has_any(inner) for inner in program.functions(row))
        )
        for row in rows
    )


def _has_no_rank(row: EventRow, term: int, polarity: bool) -> bool:
    """Return whether a condition means that there is no rank or GPU, as ``gpu is None`` outside a distributed job.

    So does an object without an attribute that the project gives it in such a job: ``not hasattr(args, "rank")``.
    """
    parts = row.terms[term]
    while parts[0] == "u" and parts[1] == "not":
        parts, polarity = row.terms[parts[2]], not polarity
    if parts[0] == "c" and last_name(row.terms, parts[1]) == "hasattr" and len(parts[2]) == 2 and not polarity:
        name, evaluator = row.terms[parts[2][1]], row.program.evaluator
        return name[0] == "k" and _PLAUSIBLE.search(str(name[2])) is not None and _is_set(evaluator, str(name[2]))
    if parts[0] != "=" or parts[1] not in ("is", "is not") or row.terms[parts[3]] != ("k", "none", None):
        return False
    return (parts[1] == "is") == polarity and row.term_value(parts[2]).rank is not None


def _is_set(evaluator: Evaluator, name: str) -> bool:
    """Return whether an option or an assignment gives some object an attribute of a name."""
    return name in evaluator.options or any(attribute == name for _, attribute in evaluator.outside)
