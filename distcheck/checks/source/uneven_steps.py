"""Probes of ranks that don't keep step: loops with different numbers of batches, and work of one rank for which all
others wait longer than their timeout. What only some ranks reach at all is judged in :mod:`.divergence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .collective_sequences import sequences_of
from .loader_loops import LOADERS
from .models import calls_in, is_backward, lifted, precedes
from .program import FEW, PARTIAL, EventRow, Program, SourceCall
from .source_text import last_name
from .term_queries import by_rank, origins
from .values import SIZES, Atom, Kind, RankCondition, Value, Who
from .vocabulary import word_set

# DC519


_LOOP = lazy(r"\s*(?:async\s+)?for\s.+?\sin\s")
_COLON = lazy(r":\s*(?:#.*)?$")
#: Calls that give back the elements of their first argument, one by one or in order.
_THROUGH = frozenset({"enumerate", "tqdm", "list", "tuple", "sorted", "iter", "reversed", "trange"})
#: Calls that may divide something, by their last name.
_DIVIDES = frozenset(["islice", "array_split", "tensor_split", "chunk", "divide", "distribute", "Subset"])
_PIECES = frozenset(["array_split", "tensor_split", "chunk"])
_SPLITS = frozenset(
    {"numpy.array_split", "torch.tensor_split", "torch.chunk", "more_itertools.divide", "more_itertools.distribute"}
)


@probe(rules.DC519)
def uneven_inputs(program: Program) -> Iterator[Finding]:
    """A loop with a collective has the same number of steps on all of them."""
    shares = _Shares(program)
    seen: set[tuple[int, int]] = set()
    for collective in [*program.calls_named("backward"), *program.collectives()]:
        if not _all_meet(program, collective):
            continue
        for row in lifted(program, collective):
            if row.own_reached_by.who in PARTIAL or row.inside("except"):
                break
            for loop, term in row.loops:
                if (row.file, loop) in seen:
                    continue
                seen.add((row.file, loop))
                if shares.uneven(row.file, term):
                    yield from _uneven_loop(program, row, loop)
                    continue
                why = _length_by_rank(program, row.file, term)
                if why is not None:
                    yield from _uneven_loop(program, row, loop, why)


def _length_by_rank(program: Program, file: int, term: int) -> Atom | RankCondition | None:
    """Return what makes the number of steps of a loop depend on the rank: ``range(100 + rank)``, a batch size."""
    parts = program.terms[file][term]
    if parts[0] != "c":
        return None
    call = SourceCall(program, file, parts[5])
    if call.is_to(*LOADERS):
        ways = (by_rank(program, file, call.argument_term(*one)) for one in ((1, "batch_size"), (8, "drop_last")))
        return next((way for way in ways if way is not None), None)
    if call.is_to("itertools.islice") and call.positional == 2:
        return by_rank(program, file, call.argument_term(1))
    if call.method == "range" and call.positional in (1, 2):
        ends = [by_rank(program, file, call.argument_term(position)) for position in range(call.positional)]
        # with two of them, both may move together
        return next((end for end in ends if end is not None), None) if len(ends) == 1 or None in ends else None
    if call.method in _THROUGH and call.positional:
        return _length_by_rank(program, file, call.argument_term(0))
    return None


def _uneven_loop(
    program: Program, collective: EventRow, loop: int, why: Atom | RankCondition | None = None
) -> Iterator[Finding]:
    """Yield the finding about a loop over an uneven share, unless something keeps its ranks together."""
    file = collective.file
    line = program.blocks[file][loop][4]
    rows = _rows_in_loop(program, file, collective.scope, loop)
    first = next((row for row in rows if row.kind == "bind"), None)
    if first is None or _may_end_early(rows) or collective.within("join", "Join", "no_sync"):
        return
    text = "is divided by rank and may be one longer on some ranks" if why is None else "differs in length by rank"
    yield first.found(
        rules.DC519,
        f"{_iterated(program, file, line)} {text};"
        f" all ranks synchronize in each step of this loop, at {collective.line_name}",
        fix="cut the total to a multiple of the number of ranks before it is divided,"
        " use a DistributedSampler, or put the loop under Join"
        if why is None
        else "give the loop the same number of steps on all ranks: agree on it with all_reduce and ReduceOp.MIN",
        basis=() if why is None else (why,),
        severity=first.level_in_tests,
        meeting=collective.as_step(),
    )


def _rows_in_loop(program: Program, file: int, scope: int, loop: int) -> list[EventRow]:
    """Return what happens in a loop of a function."""
    return [row for row in program.rows_of(file, scope) if any(number == loop for number, _ in row.loops)]


def _may_end_early(rows: list[EventRow]) -> bool:
    """Return whether a loop is left by a count of its own, so that its length is not what decides."""
    return any(row.kind == "exit" and row.payload[0] == "break" for row in rows)


def _all_meet(program: Program, call: SourceCall) -> bool:
    """Return whether all ranks must take part in a call: a backward pass of a wrapped model, a collective."""
    if not call.loops and not program.callers((call.file, call.scope)):
        return False
    if is_backward(call):
        return _has_wrapper(program, call)
    return program.is_world_collective(call) is not None


def _has_wrapper(program: Program, call: SourceCall) -> bool:
    """Return whether a model is wrapped in what belongs to a file."""
    return program.in_component(
        call.file,
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_shard",
    )


def _iterated(program: Program, file: int, line: int) -> str:
    """Return the source of what a loop goes over."""
    lines = program.lines(file)
    head = _LOOP.match(lines[line - 1]) if 0 < line <= len(lines) else None
    colon = _COLON.search(head.string, head.end()) if head else None
    return head.string[head.end() : colon.start()].strip() if head and colon else "what this loop goes over"


class _Shares:
    """Knows shares by rank whose length differs from rank to rank, unless the total happens to divide."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.dividing: dict[int, bool] = {}

    def divides(self, file: int) -> bool:
        """Return whether a file may divide something, by the form of its terms."""
        if file not in self.dividing:
            terms = self.program.terms[file]
            self.dividing[file] = any(
                (term[0] == ":" and term[1][2] >= 0)
                or (term[0] == "*" and len(term) > 4)
                or (term[0] == "c" and last_name(terms, term[1]) in _DIVIDES)
                for term in terms
            )
        return self.dividing[file]

    def is_rank(self, file: int, term: int) -> bool:
        """Return whether a term is certainly a rank."""
        rank = self.program.evaluator.value(file, term).rank if term >= 0 else None
        return rank is not None and rank.traced

    def is_size(self, file: int, term: int) -> bool:
        """Return whether a term is a number of ranks."""
        return term >= 0 and self.program.evaluator.value(file, term).has(*SIZES)

    def uneven(self, file: int, term: int, depth: int = 0) -> bool:
        """Return whether a term is such a share."""
        if term < 0 or depth > 6:
            return False
        terms = self.program.terms[file]
        operation = terms[term]
        if operation[0] == "c":
            return self.uneven_call(SourceCall(self.program, file, operation[5]), depth)
        if operation[0] == "s":
            index, base = terms[operation[2]], terms[operation[1]]
            if index[0] == ":":
                first, last, step = index[1]
                striding = last < 0 and self.is_size(file, step) and self.is_rank(file, first)
                return striding and not _is_cut(terms, operation[1]) and not self.is_rounded(file, operation[1])
            if base[0] == "c" and last_name(terms, base[1]) in _DIVIDES:
                call = SourceCall(self.program, file, base[5])
                sized = self.is_size(file, call.argument_term(1))
                return sized and call.is_to(*_SPLITS) and self.is_rank(file, operation[2])
        if operation[0] == "*":
            # every n-th by a condition on its position: i % world_size == rank
            for test in operation[4:]:
                condition = terms[test]
                if condition[0] == "=" and condition[1] == "==":
                    sides = (condition[2], condition[3])
                    if any(
                        self.is_remainder(file, other) and self.is_rank(file, one)
                        for one, other in (sides, sides[::-1])
                    ):
                        return True
        return False

    def uneven_call(self, call: SourceCall, depth: int) -> bool:
        """Return whether the result of a call is such a share."""
        file = call.file
        if call.method == "islice":
            endless = call.gives(2) and call.constant(2) is None
            return endless and self.is_size(file, call.argument_term(3)) and self.is_rank(file, call.argument_term(1))
        if call.method == "range":
            whole = _is_multiple(self.program.terms[file], call.argument_term(1)) if call.positional == 3 else True
            return not whole and self.is_size(file, call.argument_term(2)) and self.is_rank(file, call.argument_term(0))
        if call.method == "Subset":
            return self.uneven(file, call.argument_term(1, "indices"), depth + 1)
        if call.method == "DataLoader":
            settled = call.constant(8, "drop_last", False) is not False
            if settled or call.gives(3, "sampler") or call.gives(4, "batch_sampler") or call.has_star:
                return False
            data = call.argument_term(0, "dataset")
            return self.uneven(file, data, depth + 1) or self.holds_uneven(call.argument(0, "dataset"), depth + 1)
        if call.method in _THROUGH and call.positional:
            return self.uneven(file, call.argument_term(0), depth + 1)
        return any(
            row.kind == "return" and self.uneven(row.file, row.payload[0], depth + 2)
            for function in self.program.functions(call)[:1]
            if self.divides(function[0])
            for row in self.program.rows_of(*function)
        )

    def holds_uneven(self, data: Value | None, depth: int) -> bool:
        """Return whether a data set of the project is as long as such a share that it keeps in an attribute."""
        program = self.program
        for atom in data or ():
            length = program.evaluator.method(atom.const, "__len__") if atom.kind == Kind.OBJECT else None
            for row in program.rows_of(*length) if length is not None else ():
                term = row.payload[0] if row.kind == "return" else -1
                parts = row.terms[term] if term >= 0 else ("-",)
                if parts[0] != "c" or last_name(row.terms, parts[1]) != "len" or len(parts[2]) != 1:
                    continue
                kept = origins(program, row.file, parts[2][0])
                if kept and all(self.divides(file) and self.uneven(file, one, depth + 1) for file, one in kept):
                    return True
        return False

    def is_rounded(self, file: int, term: int) -> bool:
        """Return whether a list of pieces has a multiple of the ranks: ``x.tensor_split((n // k + 1) * k)``."""
        terms = self.program.terms[file]
        if terms[term][0] != "c":
            return False
        call = SourceCall(self.program, file, terms[term][5])
        if call.method in _PIECES:
            # a method of the tensor, or a function that gets it first
            counts = [terms[count] for count in map(call.argument_term, (0, 1)) if count >= 0]
            return any(
                count[0] == "o" and count[1] == "*" and any(self.is_size(file, side) for side in count[2:4])
                for count in counts
            )
        return call.method in _THROUGH and call.positional == 1 and self.is_rounded(file, call.argument_term(0))

    def is_remainder(self, file: int, term: int) -> bool:
        """Return whether a term is something modulo the number of ranks."""
        operation = self.program.terms[file][term]
        return bool(operation[0] == "o" and operation[1] == "%" and self.is_size(file, operation[3]))


def _is_cut(terms: list[tuple[Any, ...]], number: int) -> bool:
    """Whether what is divided was cut or padded before: a slice with an end, a sum of lists, a shuffle of such."""
    operation = terms[number]
    if operation[0] == "s":
        index = terms[operation[2]]
        return bool(index[0] == ":" and index[1][1] >= 0)
    if operation[0] in ("?", "|"):
        return any(_is_cut(terms, part) for part in operation[-2:])
    return bool(operation[0] == "o")


def _is_multiple(terms: list[tuple[Any, ...]], number: int) -> bool:
    """Return whether a number is rounded to a multiple of something: ``n // k * k``, ``n - n % k``."""
    operation = terms[number]
    return operation[0] == "o" and operation[1] in ("*", "-", "//")


# DC726


_DATASETS = lazy(
    r"^datasets\.(load_dataset|load_from_disk|concatenate_datasets|Dataset|DatasetDict)\b.*\.(map|filter)$"
)
_SLOW = word_set(
    "huggingface_hub.snapshot_download modelscope.snapshot_download "
    "modelscope.hub.snapshot_download.snapshot_download shutil.unpack_archive tarfile.open.extractall "
    "tarfile.TarFile.extractall tarfile.TarFile.open.extractall zipfile.ZipFile.extractall "
    "torchvision.datasets.utils.extract_archive torchvision.datasets.utils.download_and_extract_archive"
)
_WORK = {
    "map": "works through a data set",
    "filter": "works through a data set",
    "snapshot_download": "downloads a model",
    "extractall": "unpacks an archive",
}


@probe(rules.DC726)
def slow_rank_zero(program: Program) -> Iterator[Finding]:
    """One rank's long work fits into the time that the others wait."""
    reported: set[tuple[int, int]] = set()
    for call in program.calls_named("map", "filter", *{name.rsplit(".", 1)[-1] for name in _SLOW}):
        if (call.file, call.scope) in reported or not any(
            target in _SLOW or _DATASETS.match(target) for target in call.targets
        ):
            continue
        reached_by = call.reached_by
        if reached_by.who not in FEW or not reached_by.traced:
            continue
        timeout = _timeout(program, call)
        waiting = _waited_for(program, call)
        if timeout is None or waiting is None:
            continue
        reported.add((call.file, call.scope))
        quiet = program.is_test(call.file) or program.framework(call.file) is not None
        yield call.found(
            rules.DC726,
            f"{reached_by.who} {_WORK.get(call.method, 'downloads and unpacks')} while the others wait"
            f" at {waiting.place}, at most {timeout}",
            fix="do it before the job in a separate script, or pass init_process_group a timeout that the work"
            " fits in: timeout=timedelta(hours=2)",
            basis=(reached_by,),
            severity=Severity.INFO if quiet else rules.DC726.severity,
            waiting=waiting.as_step(),
            limit=timeout,
        )


def _timeout(program: Program, call: SourceCall) -> str | None:
    """How long the group lets ranks wait where nothing set it; None where something did, or no group is made before."""
    files = set(program.component(call.file))
    made = [init for init in program.calls_to("torch.distributed.init_process_group") if init.file in files]
    if not made:
        return None
    backends = set()
    for init in made:
        if init.gives(2, "timeout") or init.has_star or precedes(program, call, init):
            return None
        backend = init.argument(0, "backend")
        backends.add(str(backend.constant) if backend is not None and isinstance(backend.constant, str) else "")
    if backends == {"nccl"}:
        return "10 minutes (the default of nccl)"
    if backends == {"gloo"}:
        return "30 minutes (the default of gloo)"
    return "10 minutes on nccl and 30 on gloo (the defaults)"


def _waited_for(program: Program, call: SourceCall) -> SourceCall | None:
    """Return the collective in which the others wait while one rank makes a call; None where nothing waits for it."""
    for row in lifted(program, call):
        calls = [one for one in calls_in(program, (row.file, row.scope)) if one != row and _is_collective(program, one)]
        later = [one for one in calls if one.number > row.number and not program.excludes(row, one)]
        for one in later:
            if one.own_reached_by.who not in PARTIAL:
                return one
        mine = [one for one in later if one.own_reached_by.who in FEW]
        theirs = [one for one in calls if one.own_reached_by.who in (Who.OTHERS, Who.LOCAL_OTHERS)]
        if mine and theirs:
            return theirs[0]
        if row.entry.who == Who.EVERYONE:
            return None
    return None


def _is_collective(program: Program, call: SourceCall) -> bool:
    """Return whether all ranks synchronize in a call, for as long as the timeout of the default group lets them."""
    if call.gives(None, "timeout"):
        return False
    return sequences_of(program).collective_site(call) is not None or call.is_to(
        "torch.nn.parallel.DistributedDataParallel"
    )
