"""Probes about which number of a process is taken for which: local for global, a host's count for the job's size.

Ranks that are taken for devices are the matter of :mod:`.devices`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import vocabulary
from .algebra import truth
from .device_uses import argument_place, called_in, files_from, shapes_of, torch_distributed
from .environment_variables import Read, only_where_missing, reads, writes
from .program import EventRow, Program, SourceCall
from .rank_for_size import GATHERS, length_of_list
from .several_hosts import HostFinding, HostSign, by_hosts, quiet
from .source_text import last_name
from .term_queries import first_event
from .values import ALWAYS, PARTIAL, Atom, Certainty, FlowStep, Kind, Value, Who
from .vocabulary import INIT_GROUP, PROCESSES, SPAWNS, D

_SAMPLERS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
#: Samplers by which ranks share data: where the rank stands among the arguments.
_SHARING = {
    **dict.fromkeys(_SAMPLERS, 2),
    "transformers.trainer_pt_utils.SequentialDistributedSampler": 2,
    "transformers.trainer_pt_utils.DistributedLengthGroupedSampler": 3,
}
#: Collectives that leave a sum over all ranks in their tensor.
_SUMS = (D + "all_reduce", D + "reduce")
_STARTERS = (
    *SPAWNS,
    *PROCESSES,
    "torch.multiprocessing.get_context",
    "multiprocessing.get_context",
    "subprocess.Popen",
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "os.system",
)

#: An address that each host has for itself.
_LOOPBACK = lazy(r"^(tcp://)?(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:|/|$)")

# the local rank where the job's is needed


@probe(rules.DC219)
def local_rank_stands_for_none_of_the_job(program: Program) -> Iterator[Finding]:
    """Where a number among all processes is needed, no number within a host is given."""
    for found in program.table(local_ranks_as_global):
        yield found.finding


def local_ranks_as_global(program: Program) -> Iterator[HostFinding]:
    """Yield the numbers within a host where a number among all processes is needed."""
    for call in program.calls_to(INIT_GROUP):
        atom = _local(call.argument(4, "rank"))
        size = call.argument(3, "world_size")
        # with the number of local processes as the size, each host is a job of its own
        if (
            atom is not None
            and not (size is not None and size.has(Kind.LOCAL_WORLD_SIZE))
            and not _meets_here(program, call)
            and not (atom.const == "option" and _is_counted_over_all(program, call))
        ):
            yield _local_as_global(
                program,
                call,
                atom,
                "init_process_group() gets the local rank for the rank: with two hosts two processes have each number",
                'pass `int(os.environ["RANK"])`, or drop rank and world_size: torchrun sets both',
                argument_place(call, 4, "rank"),
            )
    for call in program.calls_to(*_SHARING):
        position = next(_SHARING[target] for target in call.targets if target in _SHARING)
        atom = _local(call.argument(position, "rank"), spawned=spans_hosts(program, call))
        if atom is not None:
            torch = torch_distributed(call)
            found = _local_as_global(
                program,
                call,
                atom,
                f"{call.method} gets the local rank: every host takes the same part of the data",
                f"pass `{torch}.get_rank()` and `{torch}.get_world_size()`, or drop both: the sampler finds them",
                argument_place(call, position, "rank"),
            )
            replicas = call.argument(1, "num_replicas")
            # both numbers are of this host: the script is written for one, unless a launch shows several
            if replicas is not None and replicas.has(Kind.LOCAL_WORLD_SIZE, Kind.DEVICE_COUNT):
                found = found._replace(finding=found.finding._replace(severity=Severity.INFO))
            yield found
    yield from _shards(program)
    yield from _slices(program)
    for write in writes(program):
        if write.name in ("RANK", "SLURM_PROCID") and write.way in ("=", "update", "putenv"):
            atom = _local_text(write.value)
            if atom is not None and not only_where_missing(write):
                yield _local_as_global(
                    program,
                    write.row,
                    atom,
                    f"{write.name} becomes the local rank: with two hosts there are two of each",
                    "use `node_rank * processes_per_node + local_rank`, or let the launcher set it",
                    write.row.where(),
                )


def _meets_here(program: Program, call: SourceCall) -> bool:
    """Return whether a group is made at an address of this host, so that no other host can be part of it."""
    given = call.argument(1, "init_method")
    if given is not None and isinstance(given.constant, str) and _LOOPBACK.match(given.constant):
        return True
    return any(
        write.name == "MASTER_ADDR"
        and write.way == "="
        and isinstance(write.value.constant, str)
        and _LOOPBACK.match(write.value.constant)
        and program.dominates(write.row, call)
        for write in writes(program)
    )


def _is_counted_over_all(program: Program, call: SourceCall) -> bool:
    """Return whether the project starts the processes itself, and counts the option up to the size of the group.

    ``for rank in range(args.processes): start(replace={"local_rank": rank})``, and ``world_size=args.processes``.
    """
    size = last_name(call.terms, call.argument_term(3, "world_size")) if call.gives(3, "world_size") else ""
    if not size:
        return False
    return any(
        name in _OPTIONS_OF_RANKS and _counts_to(terms, value, size)
        for terms in map(program.terms.__getitem__, program.component(call.file))
        for term in terms
        if term[0] in ("c", "d")
        for name, value in (term[3] if term[0] == "c" else _texts_of_keys(terms, term))
    )


#: What a project calls the number of a process that it starts.
_OPTIONS_OF_RANKS = frozenset(["local_rank", "local-rank", "--local_rank", "--local-rank"])


def _texts_of_keys(terms: list[tuple[Any, ...]], term: tuple[Any, ...]) -> Iterator[tuple[object, int]]:
    for key, value in zip(term[1], term[2], strict=False):
        if key >= 0 and terms[key][0] == "k":
            yield terms[key][2], value


def _counts_to(terms: list[tuple[Any, ...]], term: int, size: str) -> bool:
    """Return whether a term is the counter of ``for … in range(size)``, or its text."""
    parts = terms[term] if term >= 0 else ("-",)
    if parts[0] == "c" and last_name(terms, parts[1]) == "str" and len(parts[2]) == 1:
        return _counts_to(terms, parts[2][0], size)
    if parts[0] != "e" or terms[parts[1]][0] != "c":
        return False
    called = terms[parts[1]]
    return last_name(terms, called[1]) == "range" and len(called[2]) == 1 and last_name(terms, called[2][0]) == size


def spans_hosts(program: Program, row: EventRow) -> bool:
    """Return whether the program works out ranks from nodes: then the index of a spawned process is none."""
    for call in called_in(program, program.component(row.file), INIT_GROUP):
        rank = call.argument(4, "rank")
        atom = rank.get(Kind.GLOBAL_RANK) if rank is not None else None
        if atom is not None and atom.const == "sum":
            return True
    return False


def _local(value: Value | None, *, spawned: bool = False) -> Atom | None:
    """Return the local rank, where a value can be no other number.

    :param spawned: the index of a spawned process counts, too: it is known that it is not the rank
    """
    others = (Kind.GLOBAL_RANK, Kind.RANK, Kind.GROUP_RANK, Kind.NODE_RANK, Kind.RANK_DEPENDENT)
    if value is None or any(atom.kind in others and not _is_unused(value, atom) for atom in value):
        return None
    for atom in value:
        if (
            atom.kind == Kind.LOCAL_RANK
            and atom.traced
            and (spawned or atom.const != "spawn")
            and not _is_replaced(value)
        ):
            return atom
        if atom.kind == Kind.ENV_TEXT and vocabulary.VARIABLES.get(atom.const) == Kind.LOCAL_RANK:
            return None if _has_fallback(atom) else atom
    return None


def _is_unused(value: Value, atom: Atom) -> bool:
    """Return whether an alternative is only a parameter's name, and all calls in sight leave it None."""
    return atom.const == "name" and Atom(Kind.CONST, None) in (
        one._replace(flow=(), certainty=Certainty.PROVEN, when=ALWAYS, call=None) for one in value
    )


def _is_replaced(value: Value) -> bool:
    """Return whether the local rank only stands in where RANK is missing."""
    return any(one.kind == Kind.ENV_TEXT and vocabulary.VARIABLES.get(one.const) != Kind.LOCAL_RANK for one in value)


def _has_fallback(atom: Atom) -> bool:
    return any(one.kind in (Kind.ENV_TEXT, Kind.GLOBAL_RANK, Kind.RANK) for one in atom.of)


def _local_text(value: Value) -> Atom | None:
    """Return the local rank in the text that becomes a variable."""
    if len(value.atoms) != 1:
        return None
    atom = value.atoms[0]
    if atom.kind == Kind.TEXT and atom.const == "{}":
        return _local(Value(atom.of))
    return _local(value)


def _local_as_global(program: Program, row: EventRow, atom: Atom, message: str, fix: str, where: Where) -> HostFinding:
    finding = rules.DC219.found(
        message, where=where, fix=Fix(fix, where="code"), evidence={"flow": program.flow(atom.flow)}
    )
    return quiet(row, finding) if program.is_test(row.file) else by_hosts(row, rules.DC219, finding, (atom,))


def _shards(program: Program) -> Iterator[HostFinding]:
    for call in program.calls_named("shard", "split_dataset_by_node"):
        if call.method == "shard":
            size, number = call.argument(0, "num_shards"), call.argument(1, "index")
        else:
            size, number = call.argument(2, "world_size"), call.argument(1, "rank")
        atom = _local(number)
        if atom is not None and size is not None and size.has(Kind.WORLD_SIZE):
            yield _local_as_global(
                program,
                call,
                atom,
                f"{call.text()} picks the part of the local rank out of as many as there are ranks in the job",
                f"pick the part of `{torch_distributed(call)}.get_rank()`",
                call.where(),
            )


def _slices(program: Program) -> Iterator[HostFinding]:
    """``files[local_rank::world_size]``."""
    for file, shapes in enumerate(shapes_of(program)):
        for number, term in shapes.strides:
            row = program.event_row(file, number)
            first, _, step = row.terms[row.terms[term][2]][1]
            atom = _local(row.term_value(first))
            if atom is not None and row.term_value(step).has(Kind.WORLD_SIZE):
                yield _local_as_global(
                    program,
                    row,
                    atom,
                    "the slice starts at the local rank and steps by the world size: hosts read the same items, "
                    "and the other items are never used",
                    f"start at `{torch_distributed(row)}.get_rank()`",
                    row.where(),
                )


# the size of the job


@probe(rules.DC213)
def job_is_no_host(program: Program) -> Iterator[Finding]:
    """The number of processes is set by the launcher, not by the GPUs of this host."""
    for call in program.calls_to(INIT_GROUP):
        if _counted(call.argument(3, "world_size")) and not _starts_processes(program, call):
            rank = call.argument(4, "rank")
            if rank is not None and (rank.constant == 0 or not any(atom.traced for atom in rank)):
                continue  # one process, or a worker of something who is not in sight
            yield _not_the_size(
                program,
                call,
                "init_process_group() uses the number of GPUs as the number of processes: "
                "it waits for ranks that may never come",
                "drop rank and world_size: init_process_group reads what the launcher sets; or use "
                '`int(os.environ["WORLD_SIZE"])`',
                argument_place(call, 3, "world_size"),
            )
    for call in program.calls_to(*_SAMPLERS):
        rank = call.argument(2, "rank")
        if rank is not None and _local(rank) is not None:
            continue  # DC219 reports it
        if _counted(call.argument(1, "num_replicas")) and not _starts_processes(program, call):
            yield _not_the_size(
                program,
                call,
                "DistributedSampler divides the data by the number of GPUs of this host, not by the number of ranks",
                "use `dist.get_world_size()`, or drop it",
                argument_place(call, 1, "num_replicas"),
            )
    for write in writes(program):
        if write.name == "WORLD_SIZE" and write.way in ("=", "update", "putenv"):
            inner = [one for atom in write.value if atom.kind == Kind.TEXT and atom.const == "{}" for one in atom.of]
            is_counted = _counted(Value(inner) if inner else write.value)
            if is_counted and not only_where_missing(write) and not _starts_processes(program, write.row):
                yield _not_the_size(
                    program,
                    write.row,
                    "WORLD_SIZE becomes the number of GPUs here and overrides the launcher",
                    "let the launcher set WORLD_SIZE",
                    write.row.where(),
                )
    yield from _counted_results(program)


def _counted_results(program: Program) -> Iterator[Finding]:
    """Yield what collectives give to all ranks, and is divided or sized by the GPUs of one host."""
    for call in program.calls_to(*GATHERS):
        if (
            _counted(length_of_list(program, call))
            and program.is_world_collective(call)
            and not _starts_processes(program, call)
        ):
            yield _not_the_size(
                program,
                call,
                f"{call.method}() gets a list with an item for each GPU of this host, not for each rank",
                "make the list with `dist.get_world_size()` items",
                call.where(),
            )
    for file in sorted({call.file for call in program.calls_to(*_SUMS)}):
        terms = program.terms[file]
        for number, term in enumerate(terms):
            if term[0] != "o" or term[1] != "/" or terms[term[2]][:2] != ("u", "reduced"):
                continue
            row = first_event(program, (file, number)) if _counted(program.evaluator.value(file, term[3])) else None
            if row is not None and not _starts_processes(program, row):
                yield _not_the_size(
                    program,
                    row,
                    "a sum over all ranks is divided by the number of GPUs of this host, not by the number of ranks",
                    "divide by `dist.get_world_size()`",
                    row.where(),
                )


def _counted(value: Value | None) -> bool:
    """Return whether a size is a count of this host's GPUs, and nothing else is possible but constants."""
    if value is None or value.has(Kind.WORLD_SIZE, Kind.ENV_TEXT, Kind.LOCAL_WORLD_SIZE):
        return False
    return value.get(Kind.DEVICE_COUNT) is not None and value.only(Kind.DEVICE_COUNT, Kind.CONST)


def _starts_processes(program: Program, row: EventRow) -> bool:
    """Return whether something of the program starts processes alone, so that it knows how many there are."""
    files = set(files_from(program, row.file))
    for other in program.index.importers(row.file):
        files |= files_from(program, other)
    if called_in(program, files, *_STARTERS):
        return True
    return any(call.file in files for call in program.calls_named("Process", "spawn", "start_processes", "launch"))


def _not_the_size(program: Program, row: EventRow, message: str, fix: str, where: Where) -> Finding:
    return rules.DC213.found(
        message,
        where=where,
        severity=Severity.INFO if program.is_test(row.file) else Severity.WARNING,
        fix=Fix(fix, where="code"),
    )


# the remainder as an index


@probe(rules.DC212)
def remainder_is_no_local_rank(program: Program) -> Iterator[Finding]:
    """The device is set by the launcher, not by a remainder."""
    first: dict[tuple[int, int], tuple[EventRow, Atom]] = {}
    for file, shapes in enumerate(shapes_of(program)):
        for number, term in shapes.remainders:
            row = program.event_row(file, number)
            atom = _remainder(row, term)
            if atom is not None:
                # a name stands for the same term wherever it is used: its first line is where it was made
                known = first.get((file, term))
                if known is None or row.line < known[0].line:
                    first[file, term] = row, atom
    seen: set[tuple[int, int]] = set()
    for row, atom in first.values():
        if (row.file, row.line) not in seen:
            seen.add((row.file, row.line))
            yield row.found(
                rules.DC212,
                f"{row.text()} uses the rank modulo the number of GPUs as the local rank",
                fix='read the local rank: `int(os.environ["LOCAL_RANK"])`',
                basis=(atom,),
                flow=program.flow(atom.flow),
            )


def _remainder(row: EventRow, term: int) -> Atom | None:
    """Return the rank in ``rank % device_count()``."""
    _, _, left, right = row.terms[term]
    if not row.term_value(right).has(Kind.DEVICE_COUNT):
        return None
    value = row.term_value(left)
    rank = value.get(Kind.GLOBAL_RANK, Kind.RANK)
    return rank if rank is not None and rank.traced and not value.has(Kind.LOCAL_RANK) else None


# one writer a host


#: Folders that belong to one host.
_OF_A_HOST = lazy(
    r"^/(tmp|dev/shm|scratch|local|raid|mnt/(local|nvme|ssd)|var/tmp|localscratch|lscratch)(/|$)", re.IGNORECASE
)
_HOST_VARIABLES = frozenset(
    ["TMPDIR", "TMP", "TEMP", "SLURM_TMPDIR", "LOCAL_SCRATCH", "LSCRATCH", "LOCALSCRATCH", "SLURM_NODEID", "JOB_TMPDIR"]
)  # fmt: skip
_HOST_CALLS = ("tempfile.", "socket.gethostname", "platform.node", "os.uname", "torch.hub.get_dir", "socket.getfqdn")
_HOST_WORDS = lazy(r"(^|_)(local|node|host|scratch|tmp|temp|cache|shm)(_|$|dir|path)", re.IGNORECASE)


#: Where the path of a file stands among the arguments of what writes it.
_PATHS = {
    "torch.save": (1, "f"),
    "torch.jit.save": (1, "f"),
    "safetensors.torch.save_file": (1, "filename"),
    "safetensors.torch.save_model": (1, "filename"),
    "numpy.save": (0, "file"),
    "numpy.savez": (0, "file"),
    "joblib.dump": (1, "filename"),
}


@probe(rules.DC217)
def one_writer_in_the_job(program: Program) -> Iterator[Finding]:
    """What all hosts share is written by one rank of the job, not by one of each host."""
    for found in program.table(writers_of_each_host):
        yield found.finding


def writers_of_each_host(program: Program) -> Iterator[HostFinding]:
    """Yield what one rank of each host writes although all hosts share it."""
    for call in program.calls_to(*_PATHS):
        position, keyword = next(_PATHS[target] for target in call.targets if target in _PATHS)
        yield from _written_by_each_host(program, call, call.argument_term(position, keyword))
    for call in program.calls_named("save_pretrained"):
        yield from _written_by_each_host(program, call, call.argument_term(0, "save_directory"))


def _written_by_each_host(program: Program, call: SourceCall, path: int) -> Iterator[HostFinding]:
    reached_by = call.reached_by
    if path < 0 or reached_by.who != Who.LOCAL_MAIN or not reached_by.traced or _is_of_a_host(program, call, path):
        return
    guard = _guard_of(program, call)
    if guard is None:
        return
    row, term, text = guard
    flow = _flow_of(program, row.file, term)
    if _names_one_process(program, row, term):
        return
    finding = call.found(
        rules.DC217,
        f"{call.text()} is reached where `{text}` holds, which is once on every host: several processes write one file",
        fix=f"test the global rank instead: `{_global_test(row, text)}`",
        flow=[f"{row.place}: only where `{text}`", *program.flow(flow)],
    )
    if program.is_test(call.file) or _others_of_the_host_wait(program, call):
        yield quiet(call, finding)
        return
    other = _written_by_one_rank(program, call)
    sign = None
    if other is not None:
        sign = HostSign(other.path, other.line, "another file is written where the global rank is tested")
    yield by_hosts(call, rules.DC217, finding, (reached_by,), sign)


def _written_by_one_rank(program: Program, call: SourceCall) -> SourceCall | None:
    """Return a write of the same file's that a test of the global rank guards: the code distinguishes the two ranks."""
    for other in (*program.calls_to(*_PATHS), *program.calls_named("save_pretrained", files=(call.file,))):
        if other.file == call.file and other.reached_by.who == Who.MAIN:
            tested = [guard.term for guard in other.guards if guard.who.who == Who.MAIN]
            if any(_tests_global_rank(program, other.file, term) for term in tested):
                return other
    return None


def _tests_global_rank(program: Program, file: int, term: int) -> bool:
    return any(
        atom.kind == Kind.GLOBAL_RANK and atom.traced
        for number in program.subterms(file, term, names=False)
        for atom in program.evaluator.value(file, number)
    )


def _others_of_the_host_wait(program: Program, call: SourceCall) -> bool:
    """Return whether the other ranks of each host wait at a barrier of their own: one file a host is meant."""
    return any(
        isinstance(row, SourceCall)
        and row.method in ("barrier", "wait_for_everyone")
        and row.own_reached_by.who in (Who.LOCAL_OTHERS, Who.LOCAL_MAIN)
        for row in program.rows_of(call.file, call.scope)
    )


def _global_test(row: EventRow, text: str) -> str:
    """Return the condition that one rank of the job fulfils, in the words of this one where it has such."""
    for local, whole in (
        ("is_local_main_process", "is_main_process"),
        ("is_local_process_zero", "is_world_process_zero"),
    ):
        if local in text:
            return text.replace(local, whole)
    return f"{torch_distributed(row)}.get_rank() == 0"


def _guard_of(program: Program, row: EventRow, depth: int = 6) -> tuple[EventRow, int, str] | None:
    """Return the condition that lets one rank of each host in: the row that it is around, its term and its text."""
    for guard in reversed(row.guards):
        if guard.who.who == Who.LOCAL_MAIN:
            return row, guard.term, program.guard_text(row.file, guard)
    if depth:
        for caller in program.callers((row.file, row.scope))[:5]:
            found = _guard_of(program, caller, depth - 1)
            if found is not None:
                return found
    return None


def _flow_of(program: Program, file: int, term: int) -> tuple[FlowStep, ...]:
    """Return the way of the local rank in a condition."""
    for number in program.subterms(file, term):
        for atom in program.evaluator.value(file, number):
            if atom.kind == Kind.LOCAL_RANK and atom.flow:
                return atom.flow
    return ()


def _names_one_process(program: Program, row: EventRow, term: int) -> bool:
    """Return whether a condition also tests the node, a spawned index, or something with such a name."""
    for number in program.subterms(row.file, term):
        for atom in program.evaluator.value(row.file, number):
            if atom.kind == Kind.LOCAL_RANK and not atom.traced:
                return True
            if atom.kind == Kind.LOCAL_RANK and atom.const == "spawn" and not spans_hosts(program, row):
                return True
            if atom.kind in (Kind.NODE_RANK, Kind.GLOBAL_RANK, Kind.RANK):
                return True
    return False


def _is_of_a_host(program: Program, call: SourceCall, path: int) -> bool:
    """Return whether a path lies on a disk of this host, or has its name or number in it."""
    for number in program.subterms(call.file, path):
        parts = call.terms[number]
        if parts[0] == "k" and isinstance(parts[2], str) and _OF_A_HOST.match(parts[2]):
            return True
        if parts[0] in ("v", "p", "a") and _HOST_WORDS.search(str(parts[2])):
            return True
        value = call.term_value(number)
        for atom in value:
            if atom.kind in (Kind.NODE_RANK, Kind.RANK_DEPENDENT, Kind.GLOBAL_RANK):
                return True
            if atom.kind == Kind.ENV_TEXT and (
                atom.const in _HOST_VARIABLES or vocabulary.VARIABLES.get(atom.const) == Kind.NODE_RANK
            ):
                return True
            if atom.kind in (Kind.RESULT, Kind.NAMED) and any(str(atom.const).startswith(one) for one in _HOST_CALLS):
                return True
            if atom.kind == Kind.RESULT and str(atom.const) in ("io.BytesIO", "BytesIO"):
                return True
            if atom.kind == Kind.CONST and isinstance(atom.const, str) and _OF_A_HOST.match(atom.const):
                return True
    return False


# queries of torch


@probe(rules.DC220)
def torch_knows_the_local_rank(program: Program) -> Iterator[Finding]:
    """The local rank is decided by torch, with what it is without a launcher."""
    seen: set[tuple[int, int]] = set()
    for read in reads(program):
        if read.name != "LOCAL_RANK" or (read.row.file, read.row.line) in seen:
            continue
        if not program.is_distributed(read.row.file):
            continue
        seen.add((read.row.file, read.row.line))
        fallback = _fallback(read)
        yield read.row.found(
            rules.DC220,
            f"{read.row.text()} reads the local rank as text; torch.distributed.get_node_local_rank gives the number",
            fix=f"from torch 2.4 on: `dist.get_node_local_rank({fallback})`",
        )
    for call in program.calls_to("torch.distributed.get_node_local_rank"):
        if not call.gives(0, "fallback_rank"):
            yield call.found(
                rules.DC220,
                f"{call.text()} raises where no launcher has set LOCAL_RANK",
                fix="pass the rank for a run without a launcher: `get_node_local_rank(fallback_rank=0)`",
            )


def _fallback(read: Read) -> str:
    return "" if read.must else "fallback_rank=0"


# rank checks

_OF_TORCH = frozenset(
    f"torch.distributed.{name}" for name in ("get_rank", "get_world_size", "is_initialized", "is_available")
)

#: Names of functions that answer a question about ranks or groups, whatever their answer is made of.
_ABOUT_GROUPS = lazy(r"_?(?:is|has|in)_\w*(?:rank|main|master|primary|dist|parallel|group|initiali[sz]ed)", re.I)


@probe(rules.DC222)
def rank_tests_are_called(program: Program) -> Iterator[Finding]:
    """Report tests of a function that would test the rank if it were called: a function is always true."""
    for row in program.rows("test"):
        value = row.term_value(row.payload[0])
        if not value.atoms or not all(_tests_the_rank(program, atom) for atom in value):
            continue
        name = row.term_text(row.payload[0])
        level = row.milder_in_tests(rules.DC222)
        yield row.found(
            rules.DC222,
            f"{name} is a function and is not called here: the test is always true",
            fix=f"call it: `{name}()`",
            # almost each build of torch has it: the test is true anyway
            severity=min(level, Severity.WARNING) if value.named("torch.distributed.is_available") else level,
        )


def _tests_the_rank(program: Program, atom: Atom) -> bool:
    """Return whether an alternative is a function without arguments that is about the rank or the group."""
    if not atom.traced or atom.when.who != Who.EVERYONE:
        return False
    if atom.kind == Kind.NAMED:
        return atom.const in _OF_TORCH
    if atom.kind != Kind.FUNCTION:
        return False
    scope = program.scope(atom.const)
    needed = [name for name, default, star in scope.parameters if default < 0 and not star]
    if scope.decorators or len(needed) > (1 if atom.of else 0):
        return False
    who = truth(program.evaluator.returned(atom.const))
    return (who.who in PARTIAL and who.traced) or bool(_ABOUT_GROUPS.match(scope.name))
