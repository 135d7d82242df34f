"""Values that no program can use: variables, options of launchers, arguments of the script.

:mod:`distcheck.rules.signatures.launch` holds the texts. This module separates causes that share a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Fix
from distcheck.core.wording import listed
from distcheck.rules import shared_fixes

from .context import came_through
from .launcher import first_of_each, script_of
from .log_probe import LogFinding, SignatureRow, log_probe, register_rows
from .model import Event, Timeline

_LOCAL_RANK = re.compile(r"(?:^|[\s'\"\[])-{0,2}(local[-_]rank)\b")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z_-]*)")
#: Options that only a launcher knows (torchrun, accelerate, DeepSpeed); a script that refuses one got it by mistake.
_OF_LAUNCHERS = frozenset(
    (
        *("nproc-per-node", "nnodes", "node-rank", "standalone", "max-restarts", "master-addr", "master-port"),
        *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf"),
        *(
            "num-processes",
            "num-machines",
            "machine-rank",
            "main-process-ip",
            "main-process-port",
            "num-gpus",
            "num-nodes",
        ),
    )
)


# DC102


@log_probe(rules.DC102)
def rendezvous_values_were_readable(timeline: Timeline) -> Iterator[LogFinding]:
    """A number, a port, an address or an option of the launch that torch could not use."""
    yield from _bad_numbers(timeline)
    yield from _bad_ports(timeline)
    yield from _bad_endpoints(timeline)
    yield from _bad_options(timeline)


_RANK_VARIABLE = re.compile(
    r"\b(MASTER_PORT|MASTER_ADDR|LOCAL_WORLD_SIZE|WORLD_SIZE|LOCAL_RANK|RANK|NODE_RANK|NNODES|NPROC_PER_NODE)\b"
)


def _bad_numbers(timeline: Timeline) -> Iterator[LogFinding]:
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in timeline.of("not-a-number"):
        value = (event.values.get("value") or "")[1:-1]
        name = _variable_behind(event, value)
        if name is not None:
            groups.setdefault((name, value), []).append(event)
    for (name, value), events in groups.items():
        if value.startswith("tcp://"):
            why = f"{name} is {value!r}: Kubernetes puts that there for a Service named 'master'"
            remedy = shared_fixes.FREE_MASTER_PORT
        elif name == "--nnodes":
            why, remedy = f"--nnodes is {value!r}, expected a number or MIN:MAX", "write --nnodes=2, or --nnodes=1:4"
            yield LogFinding(events, why, Fix(remedy, where="launch-line"))
            continue
        elif name == "MASTER_PORT":
            why, remedy = f"MASTER_PORT is {value!r}, expected a port from 1 to 65535", shared_fixes.ONE_PORT
        else:
            why = f"{name} is {value!r}, expected a whole number" if value else f"{name} is empty"
            remedy = f"let the launcher set {name}, and export it nowhere"
        yield LogFinding(events, why, Fix(remedy, where="job-script"))


def _variable_behind(event: Event, value: str) -> str | None:
    """Which variable or option held what is no number; None where it was something else of the user's."""
    if value.startswith("tcp://") or value == "FREEPORT":
        return "MASTER_PORT"
    if event.traceback is None:
        return None
    if came_through(event, "torch/distributed/run.py") and came_through(event, "nnodes"):
        return "--nnodes"
    frame = event.traceback.frames[-1] if event.traceback.frames else None
    users = event.traceback.users
    for code in (frame.code if frame else "", users.code if users else ""):
        if name := _RANK_VARIABLE.search(code):
            return name[1]
    return "MASTER_PORT" if came_through(event, "torch/distributed/rendezvous.py") else None


def _bad_ports(timeline: Timeline) -> Iterator[LogFinding]:
    if ports := timeline.of("port-out-of-range"):
        value = next((event.values["value"] for event in ports if event.values.get("value")), None)
        yield LogFinding(
            ports,
            f"MASTER_PORT is {value}, and ports end at 65535" if value else "the port is none from 0 to 65535",
            Fix(shared_fixes.ONE_PORT, where="job-script"),
        )
    if arguments := timeline.of("store-arguments"):
        yield LogFinding(
            arguments,
            "the address, the port or the number of ranks is not what the store takes, such as a port that is text",
            Fix(f"pass the port as a number: int(...); {shared_fixes.ONE_PORT}", where="code"),
        )
    if zero := timeline.of("world-size-zero"):
        yield LogFinding(
            zero, "WORLD_SIZE is 0", Fix("let the launcher set WORLD_SIZE, and export it nowhere", where="job-script")
        )


#: Of a number that is larger than any port's.
_SMALLER_PORT = Fix(
    "take a port from 1024 to 65535, the same on all nodes: --rdzv-endpoint=node1:29400, or --master-port=29500",
    where="launch-line",
)


def _bad_endpoints(timeline: Timeline) -> Iterator[LogFinding]:
    for event in first_of_each(timeline.of("endpoint-malformed"), "value"):
        value, part = event.values.get("value"), event.values.get("part") or "host"
        yield LogFinding(
            [event],
            f"the rendezvous endpoint is {value!r}, and torchrun can't use its {part}",
            _SMALLER_PORT if re.search(r":\d+$", value or "") else shared_fixes.HOST_AND_PORT,
        )
    for event in first_of_each(timeline.of("address-malformed"), "address"):
        address = event.values.get("address") or ""
        yield LogFinding(
            [event],
            f"MASTER_ADDR is {address!r}, expected a bare host name or address",
            Fix(
                "write the host alone: no scheme, no port, no quotes or blanks, one host; a shell expands a variable "
                "in double quotes only",
                where="job-script",
            ),
        )


def _bad_options(timeline: Timeline) -> Iterator[LogFinding]:
    for event in first_of_each(timeline.of("option-malformed"), "value"):
        yield LogFinding(
            [event],
            f"the launcher can't use an option's value: {_behind_exception(event.text)}",
            Fix("give the option a value that the launcher takes (torchrun --help)", where="launch-line"),
        )
    for event in first_of_each(timeline.of("launcher-refused"), "what"):
        launcher = event.values.get("launcher") or "the launcher"
        if "<command>" in launcher or launcher == "Accelerate CLI tool":
            launcher = "accelerate launch"
        yield LogFinding(
            [event],
            f"{launcher} ended at once: {event.values.get('what')}",
            shared_fixes.OWN_OPTIONS_FIRST,
        )


def _behind_exception(text: str) -> str:
    """The message of an exception's line."""
    return re.sub(r"^[\w.]*(?:Error|Exception): ", "", text.strip()).rstrip(".")


# DC112


# DC207, DC803


@log_probe(rules.DC207)
def script_took_the_local_rank(timeline: Timeline) -> Iterator[LogFinding]:
    """The script refuses the option that its launcher adds, or waits for one that its launcher never gives."""
    refused = [
        event
        for event in timeline.of("arguments-refused")
        if _LOCAL_RANK.search(event.values.get("arguments") or "") and not _of_a_launcher(event)
    ]
    if refused:
        given = _spelling(refused[0])
        since = " from torch 2.0 on" if given == "--local-rank" else " up to torch 1.13"
        program = _program(refused[0])
        yield LogFinding(
            refused,
            f"the launcher adds {given} to the arguments of {program} (torch.distributed.launch{since}"
            f"{', DeepSpeed always' if given == '--local_rank' else ''}), which does not know it",
            Fix(
                f'start it with torchrun, which passes none, and read int(os.environ["LOCAL_RANK"]) in {program}; or '
                'take both spellings: add_argument("--local-rank", "--local_rank", type=int)',
                where="code",
            ),
            rank=-1 if len({event.who.rank for event in refused}) > 1 else None,
        )
    required = [
        event for event in timeline.of("arguments-required") if _LOCAL_RANK.search(event.values.get("arguments") or "")
    ]
    if required:
        program = _program(required[0])
        yield LogFinding(
            required,
            f"{program} insists on {_spelling(required[0])}, which torchrun does not pass",
            Fix(f'read int(os.environ["LOCAL_RANK"]) in {program}, which torchrun sets for each rank', where="code"),
        )


def _spelling(event: Event) -> str:
    match = _LOCAL_RANK.search(event.values.get("arguments") or "")
    return f"--{match[1]}" if match else "--local-rank"


def _program(event: Event) -> str:
    """Who refused: the name before ``: error:``."""
    match = re.search(r"([\w.\-]+): (?:error|fatal)", event.text)
    return match[1] if match else script_of(event) or "the script"


def _of_a_launcher(event: Event) -> bool:
    """It was the launcher itself that refused."""
    return re.search(r"(?:\btorchrun|CLI tool|\[<args>\](?: launch)?|\bdeepspeed): error:", event.text) is not None


@log_probe(rules.DC803)
def launcher_got_its_options(timeline: Timeline) -> Iterator[LogFinding]:
    """The script refuses an option that only launchers know: it stands behind the script's name."""
    groups: dict[tuple[str, ...], list[Event]] = {}
    for event in timeline.of("arguments-refused"):
        names = () if _of_a_launcher(event) else _launchers_options(event.values.get("arguments") or "")
        if names:
            groups.setdefault(names, []).append(event)
    for names, events in groups.items():
        program = _program(events[0])
        stands, gets = ("stands", "gets it") if len(names) == 1 else ("stand", "gets them")
        yield LogFinding(
            events,
            f"{listed(list(names))} {stands} behind {program}, which {gets}, and not the launcher",
            Fix(
                f"write the launcher's options before {program}: torchrun {_as_typed(events[0], names)} {program}",
                where="launch-line",
            ),
            rank=-1 if len({event.who.rank for event in events}) > 1 else None,
        )


def _as_typed(event: Event, names: tuple[str, ...]) -> str:
    """The options with their values, where nothing else was refused; else their names."""
    arguments = (event.values.get("arguments") or "").strip()
    words = arguments.split()
    own = bool(words) and all(not word.startswith("-") or word.partition("=")[0] in names for word in words)
    return arguments if own and arguments[:1] == "-" else f"{' '.join(names)} …"


def _launchers_options(arguments: str) -> tuple[str, ...]:
    names = [match[1] for match in _OPTION.finditer(arguments)]
    return tuple(dict.fromkeys(f"--{name}" for name in names if name.replace("_", "-") in _OF_LAUNCHERS))


ROWS = register_rows(
    __name__,
    # TORCH_DISTRIBUTED_DEBUG has an unknown value, so that torch cannot be imported.
    SignatureRow(
        "debug_level_was_readable",
        rules.DC112,
        "debug-level-invalid",
        "TORCH_DISTRIBUTED_DEBUG is none of OFF, INFO and DETAIL, so that torch can't be imported",
        Fix(
            "set it to one of the three words, or remove it",
            command="unset TORCH_DISTRIBUTED_DEBUG",
            where="job-script",
        ),
    ),
)
