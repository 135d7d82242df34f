"""Rank, world size and rendezvous: whether they are set and readable, and whether a process serves the store.

Whether the numbers agree is the matter of ``numbering.py``, what a scheduler's numbers mean for torch that of
``scheduling.py``; whether the port is free and the address can be reached that of ``ports.py`` and ``names.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.registry import probe
from distcheck.core.wording import is_or_are
from distcheck.launch._shell import has_expansion
from distcheck.launch.endpoint import is_node_list, split_endpoint
from distcheck.launch.model import ELASTIC_LAUNCHERS, NODE_LAUNCHERS, RENDEZVOUS_VARIABLES, Launch, integer
from distcheck.launch.schedulers import Scheduler, first_host
from distcheck.rules import shared_fixes

from .devices import Devices
from .gpus import Gpus
from .launcher import Script, is_numbered_pod, launch_line, usable_gpus
from .processes import Ancestry
from .scheduler import pods_for_ranks, unmapped_tasks

#: Highest port number: ports have 16 bits (RFC 9293).
HIGHEST_PORT = 65535
#: What a rendezvous endpoint's host may be made of (torch 2.15, ``elastic/rendezvous/utils.py``).
_ENDPOINT_HOST = re.compile(r"[\w.:-]+")
#: Longest value that a message repeats, in characters.
_LONGEST_SHOWN = 60
#: What torch 2.13 registers (``distributed/elastic/rendezvous/registry.py``); plug-ins may bring more.
_RENDEZVOUS_BACKENDS = ("static", "c10d", "etcd", "etcd-v2")


# whether they are there


@probe(rules.DC101)
def rendezvous_variables_are_set(
    launch: Launch,
    scheduler: Scheduler | Unavailable,
    ancestry: Ancestry | Unavailable,
    devices: Devices | Unavailable,
    gpus: Gpus | Unavailable,
    script: Script | Unavailable,
) -> Iterator[Finding]:
    """A launched process has all five variables: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_RANK."""
    absent = [name for name in RENDEZVOUS_VARIABLES if name not in launch.variables]
    plain = launch.stage == "planned" and launch.command is not None and launch.command.launcher == "python"
    if not absent or (launch.stage == "planned" and not plain):
        return
    usable = usable_gpus(devices, gpus)
    if unmapped_tasks(launch, scheduler) is not None or (launch.launched and pods_for_ranks(launch, scheduler, usable)):
        return  # DC105 and DC107 name the cause, and the line that fixes it
    arranged = script.arranges if plain and isinstance(script, Script) else None
    # Lightning gives its children all but RANK, and sets that itself
    counted = {"LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= launch.variables.keys()
    if absent == ["RANK"] and counted:
        return
    needed = [name for name in absent if name != "LOCAL_RANK"]
    # torch's rendezvous works without LOCAL_RANK, which only selects a device
    # what a module does can't be read here, and a line behind -c is no training
    hidden = plain and launch.command is not None and (launch.command.module or launch.script is None)
    speaks = launch.launched and needed and not arranged and not hidden
    cause = f"; {launch.script} {arranged}, though" if arranged else _who_sets_them(launch, scheduler, ancestry)
    processes = launch.ranks_here or usable or _granted(scheduler) or 1
    yield rules.DC101.found(
        f"{_states(launch)}{cause}",
        severity=Severity.ERROR if speaks else Severity.INFO,
        where=Where(variable=absent[0]),
        evidence={
            "variables": {name: _state(launch, name) for name in RENDEZVOUS_VARIABLES},
            "processes": processes,
            "surroundings": None if isinstance(ancestry, Unavailable) else ancestry.surroundings,
        },
        fix=_set_them(launch, processes, scheduler, ancestry),
    )


def _state(launch: Launch, name: str) -> str:
    return "empty" if name in launch.empty else "set" if name in launch.variables else "absent"


def _states(launch: Launch) -> str:
    """All five variables in a few words."""
    groups = {
        state: [name for name in RENDEZVOUS_VARIABLES if _state(launch, name) == state]
        for state in ("set", "empty", "absent")
    }
    if len(groups["absent"]) == len(RENDEZVOUS_VARIABLES):
        return f"none of {', '.join(RENDEZVOUS_VARIABLES)} is set"
    parts = []
    if groups["absent"]:
        parts.append(f"{', '.join(groups['absent'])} {is_or_are(groups['absent'])} not set")
    if groups["empty"]:
        parts.append(
            f"{', '.join(groups['empty'])} {is_or_are(groups['empty'])} set but empty, which torch takes for not set"
        )
    if groups["set"]:
        values = (f"{name}={_shown(launch.variables[name])}" for name in groups["set"])
        parts.append(f"only {', '.join(values)} {is_or_are(groups['set'])} there")
    return "; ".join(parts)


def _who_sets_them(launch: Launch, scheduler: Scheduler | Unavailable, ancestry: Ancestry | Unavailable) -> str:
    """Return what should have set them, and why that did not happen, as the end of a sentence."""
    job = None if isinstance(scheduler, Unavailable) else scheduler
    if launch.stage == "planned":
        return ": a plain python command starts one process and sets none of them"
    if launch.stage == "shell":
        if job is not None and job.name == "kubernetes" and job.numbered_by is None and "RANK" in launch.variables:
            return ": the operator numbers pods, and torchrun will set the rest for each rank"
        if job is not None:
            return ": no rank was started here; torchrun, or each task of the scheduler, will set them"
        return ": this is no launched process"
    if not isinstance(ancestry, Unavailable):
        place = {"jupyter": "a notebook's kernel", "ipython": "IPython", "vscode": "VS Code", "pycharm": "PyCharm"}
        if ancestry.surroundings is not None and not ancestry.launchers:
            return f": {place[ancestry.surroundings]} started this process, and that is no launcher"
        if (
            any(name in launch.variables for name in RENDEZVOUS_VARIABLES)
            and not ancestry.launchers
            and ancestry.complete
        ):
            return ": no launcher is above this process, so what is set was exported in a shell or by a script"
    if job is not None and job.numbered_by is not None:
        return f": {job.numbered_by} started this task, and sets only variables of its own"
    return ": no launcher has set them for this process"


def _granted(scheduler: Scheduler | Unavailable) -> int | None:
    return None if isinstance(scheduler, Unavailable) else scheduler.gpus_on_node


def _set_them(
    launch: Launch, processes: int, scheduler: Scheduler | Unavailable, ancestry: Ancestry | Unavailable
) -> Fix:
    """The launch line for this machine, and for a notebook what makes a single process do."""
    start = launch_line(launch, processes, scheduler)
    absent = [name for name in RENDEZVOUS_VARIABLES if name not in launch.variables]
    pod = isinstance(scheduler, Scheduler) and is_numbered_pod(launch, scheduler)
    if absent == ["LOCAL_RANK"] and not pod:
        local = None if isinstance(scheduler, Unavailable) else scheduler.mapping.get("LOCAL_RANK")
        return Fix(
            "set LOCAL_RANK to the number of the process on its node"
            + (f", in each task: export LOCAL_RANK=${local}" if local else "; torchrun does"),
            where="each-task",
        )
    if not isinstance(ancestry, Unavailable) and ancestry.surroundings in ("jupyter", "ipython"):
        return start._replace(
            text=f"put the training into a file, and {start.text}; for a single process in the notebook: "
            "os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='29500')"
        )
    return start


# whether they are readable


@probe(rules.DC102, per="process")
def rendezvous_variables_are_readable(launch: Launch) -> Iterator[Finding]:
    """Each value is what torch can use: a whole number in its range, one bare host name or address."""
    severity = None if launch.launched else Severity.INFO
    if reads_variables(launch):
        for name, low, what in (
            ("RANK", 0, "a whole number from 0"),
            ("WORLD_SIZE", 1, "a whole number from 1"),
            ("LOCAL_RANK", 0, "a whole number from 0"),
            ("LOCAL_WORLD_SIZE", 1, "a whole number from 1"),
        ):
            value = value_of(launch, name)
            number = None if value is None else integer(value)
            if value is None or (number is not None and number >= low):
                continue
            # scripts of old write -1 for "not distributed"
            sentinel = name == "LOCAL_RANK" and number == -1
            yield _malformed(
                name, value, f"expected {what}", _number_fix(name), Severity.INFO if sentinel else severity
            )
        yield from _port_is_readable(launch, severity)
        address = value_of(launch, "MASTER_ADDR")
        problem = None if address is None else address_problem(address)
        if address is not None and problem is not None:
            yield _malformed("MASTER_ADDR", address, *problem, severity)
    if launch.stage != "planned":
        return
    yield from _options_are_readable(launch)


def reads_variables(launch: Launch) -> bool:
    """The ranks will see RANK and MASTER_ADDR as they stand here; torchrun and its like set their own."""
    return launch.stage != "planned" or launch.launcher not in NODE_LAUNCHERS


def value_of(launch: Launch, name: str) -> str | None:
    """A variable's value, None where it is not set, or stands in a command that a shell has still to expand."""
    value = launch.variables.get(name)
    if value is None or (launch.command is not None and name in launch.command.assignments and has_expansion(value)):
        return None
    return value


def _number_fix(name: str) -> str:
    return f"let the launcher set {name}, and export it nowhere"


def _port_is_readable(launch: Launch, severity: Severity | None) -> Iterator[Finding]:
    value = value_of(launch, "MASTER_PORT")
    if value is None:
        return
    number = integer(value)
    if value.strip().startswith("tcp://") and "MASTER_SERVICE_HOST" in launch.variables:
        yield _malformed(
            "MASTER_PORT",
            value,
            "Kubernetes put it there for a Service named 'master'",
            shared_fixes.FREE_MASTER_PORT,
            severity,
        )
    elif number is None or not 0 <= number <= HIGHEST_PORT:
        yield _malformed(
            "MASTER_PORT",
            value,
            f"expected a port from 1 to {HIGHEST_PORT}",
            shared_fixes.ONE_PORT,
            severity,
        )
    elif number == 0 and integer(launch.variables.get("WORLD_SIZE", "1")) not in (None, 1) and not launch.agent_store:
        yield _malformed(
            "MASTER_PORT",
            value,
            "rank 0 would take any free port, and the other ranks could not know it",
            shared_fixes.ONE_PORT,
            severity,
        )


def address_problem(text: str) -> tuple[str, str] | None:
    """What is wrong with an address, and what to do; None for one that may be right, or that is a list (DC109)."""
    if is_node_list(text):
        return None
    bare = text.strip().strip("'\"")
    if "://" in text:
        return "it holds a scheme; expected a bare host name or address", f"set it to {_shown(_host_of_url(bare))}"
    if has_expansion(text) or bare.startswith("<"):
        return (
            "it was not replaced by a value",
            "let a shell expand it (double quotes, no single ones), or write the host's name",
        )
    if text != bare:
        return "it holds blanks or quotes, which belong to no host name", f"set it to {_shown(bare)} without them"
    if bare.startswith("[") and bare.endswith("]"):
        return "torch wants an IPv6 address without brackets", f"set it to {_shown(bare[1:-1])}"
    if "/" in bare:
        return "a slash belongs to no host name or address", f"set it to {_shown(bare.partition('/')[0])}"
    host, colon, port = bare.partition(":")
    if colon and ":" not in port and port.isdigit():
        return "it holds the port as well", f"set it to {_shown(host)}, and MASTER_PORT to {_shown(port)}"
    return None


def _host_of_url(text: str) -> str:
    return split_endpoint(text.partition("://")[2].partition("/")[0])[0]


def _malformed(name: str, value: str, why: str, remedy: str, severity: Severity | None) -> Finding:
    return rules.DC102.found(
        f"{name} is {_shown(value)!r}: {why}",
        severity=severity,
        where=Where(variable=name),
        evidence={"value": value},
        fix=Fix(remedy, where="job-script"),
    )


def _shown(value: str) -> str:
    return value if len(value) <= _LONGEST_SHOWN else value[: _LONGEST_SHOWN - 1] + "…"


def _options_are_readable(launch: Launch) -> Iterator[Finding]:
    """The values of a planned launch's options, and of torchrun's PET_ variables."""
    problems = () if launch.command is None else launch.command.problems
    for problem in problems:
        refused = problem.kind in ("unknown-option", "missing-value", "missing-script")
        if problem.kind == "bad-value" or (refused and launch.launcher in ELASTIC_LAUNCHERS):
            yield rules.DC102.found(
                problem.text,
                where=Where(object=problem.word),
                evidence={"option": problem.word},
                fix=shared_fixes.of_refused_option(problem.kind, problem.word),
            )
    if launch.launcher in ELASTIC_LAUNCHERS and launch.rdzv_backend not in (None, *_RENDEZVOUS_BACKENDS):
        yield rules.DC102.found(
            f"--rdzv-backend is {_shown(launch.rdzv_backend or '')!r}; torch has {', '.join(_RENDEZVOUS_BACKENDS)}",
            where=Where(object="--rdzv-backend"),
            evidence={"value": launch.rdzv_backend},
            fix=shared_fixes.KNOWN_BACKEND,
        )
    if launch.static_rendezvous and launch.several_nodes and launch.master_port == 0:
        yield _malformed(
            "--master-port",
            "0",
            "each node would take any free port, and the others could not know it",
            "give one port, from 1024 to 32767, the same on every node",
            None,
        )
    if launch.rdzv_endpoint is None and "://" in (launch.master_addr or "") and launch.launcher in ELASTIC_LAUNCHERS:
        yield _malformed(
            "--master-addr",
            launch.master_addr or "",
            "it holds a scheme; expected a bare host name or address",
            f"set it to {_shown(_host_of_url(launch.master_addr or ''))}",
            None,
        )
    if launch.rdzv_backend not in ("static", "c10d") or launch.rdzv_endpoint is None:
        return
    if any(problem.word.lstrip("-").replace("_", "-") == "rdzv-endpoint" for problem in problems):
        return
    host, port = split_endpoint(launch.rdzv_endpoint)
    if is_node_list(host):
        return
    number = None if port is None else integer(port)
    if "://" in launch.rdzv_endpoint or (host and _ENDPOINT_HOST.fullmatch(host) is None):
        why = "torchrun takes no scheme, blank or other sign in its host"
    elif port is not None and (number is None or not 0 <= number <= HIGHEST_PORT):
        why = f"its port is {_shown(port)!r}, expected one from 0 to {HIGHEST_PORT}"
    elif port is None and launch.rdzv_backend == "static":
        why = "the static rendezvous needs a port in it"
    else:
        return
    yield rules.DC102.found(
        f"the rendezvous endpoint is {_shown(launch.rdzv_endpoint)!r}: {why}",
        where=Where(object="--rdzv-endpoint"),
        evidence={"value": launch.rdzv_endpoint},
        fix=shared_fixes.HOST_AND_PORT,
    )


# whether a process serves the store


@probe(rules.DC104)
def agent_store_has_an_agent(launch: Launch, ancestry: Ancestry | Unavailable) -> Iterator[Finding]:
    """Report ranks that must use torchrun's store without a torchrun that serves it."""
    if launch.variables.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return  # torch compares with exactly this word
    if launch.stage == "planned" and launch.launcher in NODE_LAUNCHERS:
        return  # the agent sets it again
    if isinstance(ancestry, Unavailable):
        raise Unavailable(f"whether torchrun started this process is unknown: {ancestry.why}")
    if ancestry.under_torchrun or (not ancestry.complete and not ancestry.ancestors):
        return
    # torchrun's agent can also be started from a program of one's own (elastic_launch), which has any name
    other = next(
        (one.arguments[-1] for one in ancestry.ancestors if one.name.startswith("python") and one.arguments), None
    )
    unresolved = not ancestry.complete or other is not None
    yield rules.DC104.found(
        "TORCHELASTIC_USE_AGENT_STORE=True makes all ranks, rank 0 too, wait for a store of torchrun, but no "
        f"torchrun is above this process{f' (unless {_shown(other)} is one)' if other else ''}",
        severity=None if launch.launched and not unresolved else Severity.INFO,
        where=Where(variable="TORCHELASTIC_USE_AGENT_STORE"),
        evidence={"launchers": list(ancestry.launchers), "run_id": launch.variables.get("TORCHELASTIC_RUN_ID")},
        fix=Fix(
            "unset torchrun's variables in this shell, and start again",
            command="unset ${!TORCHELASTIC_*}",
            where="this-shell",
        ),
    )


# lists


@probe(rules.DC109)
def master_is_one_host(launch: Launch, scheduler: Scheduler | Unavailable) -> Iterator[Finding]:
    """Report a rendezvous that is not one host but the job's list of nodes."""
    places = []
    address = value_of(launch, "MASTER_ADDR") if reads_variables(launch) else None
    if address is not None:
        places.append(("MASTER_ADDR", address))
    if launch.stage == "planned" and launch.launcher in NODE_LAUNCHERS:
        if launch.rdzv_endpoint is not None:
            places.append(("--rdzv-endpoint", split_endpoint(launch.rdzv_endpoint)[0]))
        elif launch.master_addr is not None:
            places.append(("--master-addr", launch.master_addr))
    for name, value in places:
        if "://" in value or not is_node_list(value):
            continue
        option = name.startswith("--")
        first = first_host(value)
        slurm = (isinstance(scheduler, Scheduler) and scheduler.name == "slurm") or "[" in value
        port = ":29400" if name == "--rdzv-endpoint" else ""
        host = shared_fixes.FIRST_HOST_OF_SLURM
        line = f"{name}={host}{port}" if option else f"export {name}={host}"
        yield rules.DC109.found(
            f"{name} is a list of nodes, {_shown(value)!r}, where one host belongs"
            + (f"; the first of them is {_shown(first)}" if first else ""),
            severity=None if launch.launched else Severity.INFO,
            where=Where(object=name) if option else Where(variable=name),
            evidence={"value": value, "first_host": first},
            fix=Fix(
                f"take the first host of the list: {line}"
                if slurm
                else f"take one host of the list, such as {_shown(first or '')}",
                command=line if slurm and not option else None,
                where="launch-line" if option else "job-script",
            ),
        )
