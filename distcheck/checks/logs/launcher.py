"""How the ranks were started: variables that are not set, impossible ranks, two launchers.

:mod:`distcheck.rules.signatures.launch` holds the texts. This module separates causes that share a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from distcheck import rules
from distcheck.core.model import Fix, Rule, grouped
from distcheck.core.wording import listed
from distcheck.rules import shared_fixes
from distcheck.rules.double_launch import KEEP_ONE, start_once

from .context import came_through
from .log_probe import LogFinding, SignatureRow, log_probe, register_rows
from .model import Event, Timeline, is_of_a_library

#: Files of torchrun's agent: a failure in them is not a rank's.
AGENT = (
    "torch/distributed/run.py",
    "torch/distributed/launcher/",
    "torch/distributed/elastic/agent",
    "torch/distributed/launch.py",
)
_SPAWN = ("torch/multiprocessing/spawn.py", "multiprocessing/spawn.py", "multiprocessing/popen_spawn")
_SPAWNING = ("mp.spawn(", "start_processes(")


def is_under_torchrun(timeline: Timeline) -> bool:
    """Whether the log shows an agent of torchrun: its table, its warnings, or its own traceback."""
    return (
        any(worker.line or worker.source for worker in timeline.workers)
        or timeline.has("omp-threads-default", "elastic-report")
        or any(voice.who.local_rank is not None for voice in timeline.rank_streams)
        or any(came_through(event, *AGENT) for event in timeline.events)
    )


def scheduler_of(timeline: Timeline) -> str | None:
    """``slurm`` or ``mpi`` where the log names who started the tasks."""
    texts = [voice.last_text for voice in timeline.rank_streams] + [event.text for event in timeline.events]
    texts += [source.path.replace("\\", "/").rpartition("/")[2] for source in timeline.sources]
    variables = [event.values.get("variable") or "" for event in timeline.of("rendezvous-env-missing")]
    joined = "\n".join(texts + variables)
    if re.search(r"\b(?:srun|slurmstepd|sbatch|SLURM_\w+|StepId=)|(?:^|\n)slurm-\d", joined):
        return "slurm"
    if timeline.has("mpirun-ended") or re.search(
        r"\b(?:mpirun|mpiexec|prterun|PRTE|ORTE|OMPI_\w+|PMI_\w+|hydra_\w+)\b", joined
    ):
        return "mpi"
    return None


#: What makes a launcher keep the text of each rank, by the launcher: its name, and its options.
_KEEPS = {
    "accelerate": ("accelerate launch", "--log_dir logs --tee 3"),
    "deepspeed": ("deepspeed", "--enable_each_rank_log logs"),
    "paddle": ("paddle.distributed.launch", "--log_dir logs"),
    "slurm": ("srun", "--output=rank-%t.log"),
    "mpi": ("mpirun", "--output-filename logs"),
}


def keep_each_log(timeline: Timeline) -> tuple[str, str]:
    """Return the launcher of this job, and its options that keep the text of each rank."""
    if any(came_through(event, "accelerate/commands/") for event in timeline.events):
        return _KEEPS["accelerate"]
    if any(
        came_through(event, "deepspeed/launcher/") or "deepspeed" in event.text for event in timeline.of("worker-ended")
    ):
        return _KEEPS["deepspeed"]
    if any("trainer process with rank=" in event.text for event in timeline.of("worker-ended", "workers-ended")):
        return _KEEPS["paddle"]
    by_torchrun = timeline.has("omp-threads-default", "elastic-report")
    return _KEEPS.get((None if by_torchrun else scheduler_of(timeline)) or "", ("torchrun", "--log-dir logs --tee 3"))


def first_of_each(events: Iterable[Event], name: str) -> list[Event]:
    firsts: dict[str, Event] = {}
    for event in events:
        firsts.setdefault(event.values.get(name) or "", event)
    return list(firsts.values())


def script_of(event: Event) -> str:
    """The program that a traceback began in, as it is typed; empty where none is known."""
    frames = event.traceback.frames if event.traceback is not None else ()
    for frame in frames:
        name = frame.path.replace("\\", "/").rpartition("/")[2]
        if frame.function == "<module>" and name.endswith(".py") and "site-packages" not in frame.path:
            return name
    return ""


# DC101


@log_probe(rules.DC101)
def rendezvous_variables_were_set(timeline: Timeline) -> Iterator[LogFinding]:
    """A process reads RANK or a similar variable that is not set: no launcher, or a scheduler with other names."""
    events = [
        *timeline.of("rendezvous-env-missing"),
        *(event for event in timeline.of("mpi4py-missing") if _is_deepspeeds(event, timeline)),
        *(event for event in timeline.of("exception") if _none_as_number(event)),
    ]
    if events:
        first = min(events, key=timeline.events.index)
        names = list(dict.fromkeys(filter(None, (_missing_variable(event) for event in events))))
        tasks = {event.who.task for event in events if event.who.task is not None}
        yield LogFinding(
            [first, *(event for event in events if event is not first)],
            _what_is_missing(names, scheduler_of(timeline), len(tasks)),
            _set_them(first, names, scheduler_of(timeline)),
            evidence={"variables": names},
        )
    arguments = timeline.of("rendezvous-argument-missing")
    if arguments:
        first = arguments[0]
        name = (first.values.get("argument") or "rank").replace(" ", "_")
        yield LogFinding(
            arguments,
            f"init_process_group was given an address of its own, and no {name}",
            Fix(
                "omit init_method and start with torchrun, or pass rank= and world_size= as well",
                where="code",
            ),
        )


_ENVIRONMENT = re.compile(r"(?:environ(?:\.get\(|\[)|getenv\()\s*[fr]?[\"'](\w+)[\"']")


def _none_as_number(event: Event) -> bool:
    """``int(os.environ.get("RANK"))`` of a variable that is not set."""
    trace = event.traceback
    if (
        trace is None
        or trace.exception != "TypeError"
        or "NoneType" not in trace.message
        or "int()" not in trace.message
    ):
        return False
    frame = trace.users
    name = _ENVIRONMENT.search(frame.code) if frame is not None else None
    return name is not None and name[1] in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "LOCAL_WORLD_SIZE")


def _is_deepspeeds(event: Event, timeline: Timeline) -> bool:
    return timeline.has("no-launcher") or came_through(event, "deepspeed/", "mpi_discovery")


def _missing_variable(event: Event) -> str:
    if variable := event.values.get("variable"):
        return variable
    frame = event.traceback.users if event.traceback is not None else None
    name = _ENVIRONMENT.search(frame.code) if frame is not None else None
    return name[1] if name is not None else ""


def _what_is_missing(names: list[str], scheduler: str | None, tasks: int) -> str:
    own = [name for name in names if name.startswith(("SLURM_", "OMPI_", "PMI_", "MV2_"))]
    if own and len(own) == len(names):
        starter = "srun" if own[0].startswith("SLURM_") else "mpirun"
        return (
            f"the script takes its rank from {listed(own)}, which {starter} sets for its tasks; it was started without"
        )
    if not names:
        return "DeepSpeed found no RANK and tried MPI instead: no launcher started this process"
    verb = "was" if len(names) == 1 else "were"
    if scheduler is not None:
        starter = "srun" if scheduler == "slurm" else "mpirun"
        return f"{listed(names)} {verb} not set: {starter} started the tasks, and sets only variables of its own"
    if tasks > 1:
        return f"{listed(names)} {verb} not set in {tasks} tasks: their launcher sets only variables of its own"
    return f"{listed(names)} {verb} not set: no launcher has started this process"


def _set_them(event: Event, names: list[str], scheduler: str | None) -> Fix:
    script = script_of(event) or "train.py"
    if names and all(name.startswith("SLURM_") for name in names):
        return Fix(
            f"start it with srun in a job with one task a GPU, or read RANK and LOCAL_RANK and start it with torchrun: "
            f"srun python {script}",
            command=f"srun python {script}",
            where="launch-line",
        )
    if scheduler == "slurm" or (scheduler is None and event.who.task is not None):
        line = (
            "srun bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
            f"MASTER_ADDR={shared_fixes.FIRST_HOST_OF_SLURM} MASTER_PORT=29500; exec python {script}'"
        )
    elif scheduler == "mpi":
        line = (
            'mpirun env MASTER_ADDR="$(hostname)" MASTER_PORT=29500 bash -c \'export RANK=$OMPI_COMM_WORLD_RANK '
            "LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE; "
            f"exec python {script}'"
        )
    else:
        frames = event.traceback.frames if event.traceback is not None else ()
        code = " ".join(frame.code for frame in frames if not is_of_a_library(frame.path))
        number, otherwise = shared_fixes.processes_on_a_host(gloo="gloo" in code and "nccl" not in code)
        return Fix(
            f"start it with torchrun, in place of python{otherwise}",
            command=f"torchrun --standalone {number} {script}",
            where="launch-line",
        )
    return shared_fixes.number_the_tasks(line)


# DC103


@log_probe(rules.DC103)
def ranks_agreed(timeline: Timeline) -> Iterator[LogFinding]:
    """A rank that is not below the number of ranks."""
    groups = grouped(timeline.of("rank-out-of-range", "local-ranks-differ"), lambda event: _contradiction(event))
    for message, events in groups.items():
        rank = events[0].number("rank")
        yield LogFinding(
            events,
            message,
            shared_fixes.ONE_LAUNCHER,
            rank=rank if "size" in events[0].values or events[0].who.rank is None else events[0].who.rank,
        )


def _contradiction(event: Event) -> str:
    if event.signature == "local-ranks-differ":
        values = event.values
        return f"LOCAL_RANK is {values.get('one')}, and {values.get('variable')} is {values.get('other')}"
    rank, size = event.values.get("rank"), event.values.get("size")
    if size is None and (last := event.number("last")) is not None:
        size = str(last + 1)
    if size is None:
        return f"the rank is {rank}"
    if size.startswith("-"):
        return f"the world size is {size}"
    return f"rank {rank} does not exist among {size} ranks, which are numbered from 0"


# DC104


@log_probe(rules.DC104)
def the_store_was_served(timeline: Timeline) -> Iterator[LogFinding]:
    """Under torchrun, a group with its own ``tcp://`` address waits for a server that no process starts."""
    if not is_under_torchrun(timeline):
        return
    events = [
        event
        for event in timeline.events
        if event.traceback is not None
        and re.search(r"timed out|failed to connect", event.traceback.message + event.text)
        and (_went_into(event, "_tcp_rendezvous_handler") or came_through(event, "tcp://"))
    ]
    events = list({(event.source, event.line): event for event in events}.values())
    if events:
        yield LogFinding(
            events,
            "init_process_group has a tcp:// address of its own under torchrun, whose "
            "TORCHELASTIC_USE_AGENT_STORE=True makes every rank a client: no process serves that store",
            Fix(
                "omit init_method (env://), so that the ranks use torchrun's store; a group of a nested program: "
                "start that program without TORCHELASTIC_ variables",
                where="code",
            ),
            rank=-1 if len({event.who.rank for event in events}) > 1 else None,
        )


def _went_into(event: Event, name: str) -> bool:
    """Whether a function is among those of an event's traceback."""
    return event.traceback is not None and any(frame.function == name for frame in event.traceback.frames)


# DC106


@log_probe(rules.DC106)
def ranks_were_started_once(timeline: Timeline) -> Iterator[LogFinding]:
    """Two launchers: several agents want one port, or processes are spawned in what torchrun has started already."""
    yield from _several_agents(timeline)
    lines = {(event.source, event.line) for event in timeline.events if came_through(event, *_SPAWN, *_SPAWNING)}
    spawned = [
        event
        for event in timeline.events
        if (event.source, event.line) in lines and ("DC401" in event.codes or event.signature == "group-twice")
    ]
    if spawned and is_under_torchrun(timeline):
        yield LogFinding(
            spawned,
            "the script spawns its ranks itself, and torchrun has started it once for each rank already",
            fix=Fix(KEEP_ONE, where="code"),
        )


def _several_agents(timeline: Timeline) -> Iterator[LogFinding]:
    """More than one task of a step tried to bind the port, and it is launchers that did."""
    binds = [event for event in timeline.events if "DC401" in event.codes]
    agents = [event for event in binds if came_through(event, *AGENT)]
    tasks = sorted({event.who.task for event in binds if event.who.task is not None})
    of_ranks = [event for event in binds if event.traceback is not None and not came_through(event, *AGENT)]
    unlabelled = len({(event.source, event.line) for event in agents}) if scheduler_of(timeline) == "slurm" else 0
    if not (len(tasks) > 1 and (agents or not of_ranks)) and unlabelled < 2:
        return
    port = next((event.values["port"] for event in (*agents, *binds) if event.values.get("port")), None)
    named = f"port {port}" if port else "one port"
    starter = "mpirun" if scheduler_of(timeline) == "mpi" else "srun"
    who = f"tasks {', '.join(map(str, tasks))}" if len(tasks) > 1 else "several launchers"
    yield LogFinding(
        [*agents, *(event for event in binds if event not in agents)],
        f"{who} of one step each started a launcher that wants {named}: {starter} starts the launcher several times, "
        "and each starts all ranks",
        start_once("torchrun", starter),
        rank=-1,
        evidence={"tasks": tasks},
    )


# what healthy jobs print, too


@log_probe(rules.DC111)
def variables_have_their_new_names(timeline: Timeline) -> Iterator[LogFinding]:
    """torch warns that a variable was renamed. It still reads the old name."""
    for event in first_of_each(timeline.of("renamed-variable"), "old"):
        old, new = event.values.get("old"), event.values.get("new")
        keep = "; torch 2.9 was reported to heed the old one only" if new == "PYTORCH_ALLOC_CONF" else ""
        yield _notice(
            rules.DC111,
            timeline,
            [event],
            f"{old} is an old name, now {new}",
            Fix(f"write {new} instead{keep}", where="job-script"),
        )


@log_probe(rules.DC806)
def node_rank_counts(timeline: Timeline) -> Iterator[LogFinding]:
    """torchrun warns that this rendezvous ignores the node rank or the address."""
    for event in first_of_each(timeline.of("node-rank-ignored"), "option"):
        option = f"--{(event.values.get('option') or 'node_rank').replace('_', '-')}"
        yield _notice(
            rules.DC806,
            timeline,
            [event],
            f"{option} is ignored: only the static rendezvous heeds it",
            Fix(
                "omit the option; where the order of nodes matters: the static rendezvous, --master-addr and "
                "--master-port with the first node's, and no --rdzv-backend",
                where="launch-line",
            ),
        )


def _notice(rule: Rule, timeline: Timeline, events: Iterable[Event], message: str, fix: Fix) -> LogFinding:
    return LogFinding(events, message, fix, rule=rule, notice=True)


ROWS = register_rows(
    __name__,
    # torchrun gave each worker one thread.
    SignatureRow(
        "threads_were_set",
        rules.DC115,
        "omp-threads-default",
        "torchrun set OMP_NUM_THREADS=1 for its ranks",
        shared_fixes.THREADS_OF_A_RANK,
        notice=True,
    ),
    # The old launcher warns about itself; its effects are DC207.
    SignatureRow(
        "launcher_is_no_old_one",
        rules.DC801,
        "deprecated-launcher",
        "torch.distributed.launch is deprecated",
        Fix(
            "start torchrun instead, which has the same options. The script then reads LOCAL_RANK from its environment",
            where="launch-line",
        ),
        notice=True,
    ),
)
