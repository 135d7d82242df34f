"""Make the :class:`Launch` that is checked: from the environment, from options, or from a command.

This module decides the stage of a run, which values count, and whether the job will run on this host. For example,
torchrun ignores an exported MASTER_PORT, and a plain ``python train.py`` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from distcheck.core.redaction import mask, mask_arguments

from ._shell import has_expansion
from .endpoint import split_endpoint
from .model import DEFAULT_PORT, HIGHEST_PORT, LOOPBACK_NAMES, Launch, LaunchCommand, integer
from .schedulers import Scheduler, expand_hostlist, scheduler_of, started_by, task_starter

#: The default port of a c10d endpoint (torch 2.15, ``elastic/rendezvous/c10d_rendezvous_backend.py``).
C10D_DEFAULT_PORT = 29400

#: A launched process has one of these.
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
_TORCH_NAMES = frozenset(
    {
        "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
        "GROUP_WORLD_SIZE", "NODE_RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE",
        # the cause of their values
        "KUBERNETES_SERVICE_HOST", "MASTER_SERVICE_HOST",
    }
)  # fmt: skip
_TORCH_PREFIXES = ("TORCHELASTIC_", "PET_")
#: Programs that start the job on other hosts.
_ELSEWHERE = frozenset({"sbatch", "salloc", "kubectl", "oc", "ssh", "pdsh", "clush", "jsrun", "aprun", "gantry", "ray"})
#: Schedulers of torchx that start the job on this host.
_LOCAL = ("local_cwd", "local_docker")
#: Programs that start tasks on the hosts of the current allocation.
_IN_ALLOCATION = frozenset({"srun", "ibrun"})
_HOST_OPTIONS = frozenset({"-H", "-host", "--host", "--hosts", "-hosts"})
_TORCHRUN = ("torchrun", "torch.distributed.launch")


class LaunchOptions(NamedTuple):
    """The options of ``distcheck env`` that describe a launch; None if not given."""

    nproc_per_node: str | None = None
    nnodes: str | None = None
    node_rank: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_endpoint: str | None = None
    rdzv_backend: str | None = None
    backend: str | None = None

    @property
    def given(self) -> bool:
        """Return whether at least one of them was given."""
        return any(value is not None for value in self)


def without_credentials(launch: Launch) -> Launch:
    """Return the launch for output: its command line without credentials."""
    command = launch.command
    if command is None:
        return launch
    shown = command._replace(
        argv=mask_arguments(command.argv),
        script_args=mask_arguments(command.script_args),
        assignments={name: mask(value, name=name) for name, value in command.assignments.items()},
        shadowed_script_args=mask_arguments(command.shadowed_script_args),
    )
    return launch._replace(
        command=shown, variables={name: mask(value, name=name) for name, value in launch.variables.items()}
    )


def make_launch(
    environ: Mapping[str, str],
    *,
    options: LaunchOptions = LaunchOptions(),
    command: LaunchCommand | None = None,
    launched: bool = False,
    host_name: str = "",
) -> Launch:
    """Return the launch of the run.

    A command describes a planned launch, even inside a rank. Options alone complete the launch of this process if it is
    in one; otherwise they describe a planned one. An empty variable counts as unset, as for torch.

    :param launched: this is a launched process, even without variables
    :param host_name: the name of this host; a job whose list of hosts lacks it runs elsewhere
    :raises ValueError: a malformed option; the message has its value and what is expected
    """
    stated = _stated(options)
    seen = dict(environ) if command is None else {**environ, **command.assignments}
    torch = {name: value for name, value in seen.items() if name in _TORCH_NAMES or name.startswith(_TORCH_PREFIXES)}
    scheduler = scheduler_of(environ)
    base = Launch(
        scheduler=scheduler.name if scheduler is not None and scheduler.runs_the_job else None,
        variables={name: value for name, value in torch.items() if value},
        empty=frozenset(name for name, value in torch.items() if not value),
    )
    if command is not None:
        return _planned(base._replace(stage="planned", command=command), command, stated, environ, host_name)
    numbered = any(name in base.variables for name in _RANK_VARIABLES)
    if launched or (numbered and not _names_the_pod(base.variables, scheduler)):
        return _fill(_rank(base._replace(stage="rank"), environ, scheduler), stated)
    if options.given:
        return _from_options(base._replace(stage="planned"), stated)
    return _shell(base, scheduler)


def _names_the_pod(variables: Mapping[str, str], scheduler: Scheduler | None) -> bool:
    """Return whether RANK and WORLD_SIZE count pods, and no launcher has started a process in this one."""
    if "LOCAL_RANK" in variables or "TORCHELASTIC_RUN_ID" in variables:
        return False
    if scheduler is not None and scheduler.numbered_by is not None:
        return False
    return "KUBERNETES_SERVICE_HOST" in variables or any(name.startswith("PET_") for name in variables)


# the stages


def _shell(base: Launch, scheduler: Scheduler | None) -> Launch:
    """Return the launch before any launcher: only the values of the scheduler or operator."""
    if scheduler is None:
        return base
    return base._replace(nnodes=scheduler.nodes, nnodes_max=scheduler.nodes, node_rank=scheduler.node_rank)


def _rank(base: Launch, environ: Mapping[str, str], scheduler: Scheduler | None) -> Launch:
    """Return the launch of a rank."""
    variables = base.variables
    elastic = "TORCHELASTIC_RUN_ID" in variables
    numbering = None if scheduler is None or elastic or scheduler.numbered_by is None else scheduler
    world = _integer(variables.get("WORLD_SIZE"))
    here = _integer(variables.get("LOCAL_WORLD_SIZE"))
    nnodes = _integer(variables.get("GROUP_WORLD_SIZE"))
    if nnodes is None and world is not None and world == here:
        nnodes = 1
    if nnodes is None and numbering is not None:
        nnodes = numbering.nodes
    if nnodes is None and world is not None and here is not None and world > here > 0:
        nnodes = -(-world // here)  # more ranks than are here: two nodes at the least
    agent = elastic and variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    node_rank = _integer(variables.get("GROUP_RANK") or variables.get("NODE_RANK"))
    return base._replace(
        launcher=_launcher(variables, environ, scheduler),
        rank=_integer(variables.get("RANK")),
        local_rank=_integer(variables.get("LOCAL_RANK")),
        world_size=world,
        local_world_size=here,
        node_rank=numbering.node_rank if node_rank is None and numbering is not None else node_rank,
        nnodes=nnodes,
        nnodes_max=nnodes,
        nproc=here if here is not None or numbering is None else numbering.tasks_on_node,
        master_addr=variables.get("MASTER_ADDR"),
        master_port=_port(variables.get("MASTER_PORT")),
        max_restarts=_integer(variables.get("TORCHELASTIC_MAX_RESTARTS")),
        port_chosen="MASTER_PORT" in variables and not agent,
        agent_store=agent,
    )


def _launcher(variables: Mapping[str, str], environ: Mapping[str, str], scheduler: Scheduler | None) -> str | None:
    """Return the launcher of this rank. The innermost one counts: torchrun in a task of srun is torchrun."""
    if "TORCHELASTIC_RUN_ID" in variables:
        return "torchrun"
    if environ.get("CROSS_RANK") and environ.get("CROSS_SIZE"):  # set by deepspeed/launcher/launch.py
        return "deepspeed"
    if environ.get("ACCELERATE_MIXED_PRECISION"):  # set by accelerate/utils/launch.py for every kind of launch
        return "accelerate"
    return None if scheduler is None else scheduler.numbered_by


def _planned(
    base: Launch, command: LaunchCommand, stated: dict[str, Any], environ: Mapping[str, str], host_name: str
) -> Launch:
    """Return the launch of a command."""
    from .command import nproc_on

    launch = base._replace(
        script=command.script,
        on_this_host=_on_this_host(command, environ, host_name),
        nnodes=command.nnodes_min,
        nnodes_max=command.nnodes_max,
        nproc_text=command.nproc,
        # the numbers of GPUs and cores are unknown here: gpu, auto and cpu stay texts
        nproc=None if command.nproc == "cpu" else nproc_on(command, gpus=None, cpus=1),
        node_rank=command.node_rank,
        local_addr=command.local_addr,
        rdzv_conf=command.rdzv_conf,
        max_restarts=command.max_restarts,
        launcher=None if command.launcher == "other" else command.launcher,
    )
    if command.launcher in _TORCHRUN:
        launch = _torchrun(launch, command)
    elif command.launcher == "accelerate":
        launch = _accelerate(launch, command)
    elif command.launcher == "deepspeed":
        launch = _deepspeed(launch, command)
    else:
        launch = _plain(launch, command)
    return _fill(launch, stated, over=True)


def _torchrun(launch: Launch, command: LaunchCommand) -> Launch:
    """Return a launch of torchrun: its options and PET_ variables, and no exported MASTER_PORT."""
    nodes_open = bool(command.unknown & {"nnodes_min", "nnodes_max"})
    if not nodes_open and command.nnodes_max is None:
        launch = launch._replace(nnodes=1, nnodes_max=1)
    return _rendezvous(
        launch,
        standalone=command.standalone,
        backend=command.rdzv_backend,
        endpoint=command.rdzv_endpoint,
        address=command.master_addr,
        port=command.master_port,
        open_fields=command.unknown | ({"nnodes"} if nodes_open else set()),
    )


def _rendezvous(
    launch: Launch,
    *,
    standalone: bool,
    backend: str | None,
    endpoint: str | None,
    address: str | None,
    port: int | None,
    open_fields: frozenset[str],
    default_address: str | None = "127.0.0.1",
) -> Launch:
    """Return the launch with torchrun's rendezvous, by the rules of ``run()`` (torch 2.13 and 2.15).

    Without an endpoint and a port, a single node uses a free port, for any other options.
    """
    kind = None if "rdzv_backend" in open_fields else backend or "static"
    has_endpoint = endpoint is not None or "rdzv_endpoint" in open_fields
    has_port = port is not None or "master_port" in open_fields
    alone = launch.nnodes_max == 1 and "nnodes" not in open_fields
    if standalone or (kind == "static" and alone and not has_endpoint and not has_port):
        return launch._replace(rdzv_backend="c10d", rdzv_endpoint="localhost:0", standalone=True, node_rank=None)
    launch = launch._replace(rdzv_backend=kind, rdzv_endpoint=endpoint)
    if kind == "static" and not has_endpoint:
        if alone and launch.node_rank is None and "node_rank" not in open_fields:
            launch = launch._replace(node_rank=0)
        return launch._replace(
            master_addr=_unbracketed(address) if address or "master_addr" in open_fields else default_address,
            master_port=port if has_port else DEFAULT_PORT,
            port_chosen=port is not None,
        )
    if kind not in ("static", "c10d"):
        return launch._replace(node_rank=None)
    host, text = split_endpoint(endpoint or "")
    if kind == "c10d":
        # c10d numbers the nodes itself, and its agents bind the endpoint's port; the ranks get a free one
        launch = launch._replace(node_rank=None)
        if "rdzv_endpoint" in open_fields:
            return launch
        rendezvous_port = C10D_DEFAULT_PORT if text is None else _port(text)
        host = host or "localhost"
    else:
        rendezvous_port = _port(text)
    return launch._replace(
        master_addr=host or None, master_port=rendezvous_port or None, port_chosen=bool(text and rendezvous_port)
    )


def _accelerate(launch: Launch, command: LaunchCommand) -> Launch:
    """Return a launch of accelerate: torchrun's agent; on one machine it uses another port if its own is in use."""
    machines = command.nnodes_min
    port = command.master_port
    if command.config_file is None:
        if machines is None and "nnodes_min" not in command.unknown:
            machines = 1
        if port is None and "master_port" not in command.unknown and (machines or 1) > 1:
            port = DEFAULT_PORT
    return launch._replace(
        nnodes=machines,
        nnodes_max=machines,
        rdzv_backend=command.rdzv_backend,
        master_addr=_unbracketed(command.master_addr),
        master_port=port or None,
        port_chosen=bool(command.master_port),
    )


def _deepspeed(launch: Launch, command: LaunchCommand) -> Launch:
    """Return a launch of DeepSpeed, which sets MASTER_PORT for all ranks; rank 0 listens on it."""
    known = not command.unknown & {"hostfile", "include", "nnodes_min"} and command.hostfile is None
    alone = known and command.nnodes_min in (None, 1) and command.include is None
    nodes = 1 if alone else command.nnodes_min
    open_port = "master_port" in command.unknown
    return launch._replace(
        nnodes=nodes,
        nnodes_max=nodes,
        master_addr=command.master_addr or ("127.0.0.1" if alone and "master_addr" not in command.unknown else None),
        master_port=None if open_port else command.master_port or DEFAULT_PORT,
        port_chosen=command.master_port is not None,
    )


def _plain(launch: Launch, command: LaunchCommand) -> Launch:
    """Return a launch of a plain program, with the exported variables and those on its line."""
    starter = task_starter(command)
    values = {name: value for name, value in launch.variables.items() if not has_expansion(value)}
    port = _port(values.get("MASTER_PORT"))
    return launch._replace(
        launcher=started_by(starter).numbered_by if starter else launch.launcher,
        rank=None if starter else _integer(values.get("RANK")),
        local_rank=None if starter else _integer(values.get("LOCAL_RANK")),
        world_size=_integer(values.get("WORLD_SIZE")),
        local_world_size=_integer(values.get("LOCAL_WORLD_SIZE")),
        nnodes=command.nodes,
        nnodes_max=command.nodes,
        # without a starter of tasks, a plain program may start any number of ranks itself
        nproc=launch.nproc if starter else None,
        master_addr=values.get("MASTER_ADDR"),
        master_port=port,
        port_chosen=port is not None,
    )


def _from_options(base: Launch, stated: dict[str, Any]) -> Launch:
    """Return a launch from options alone. All but the backend are torchrun's, so its rules apply."""
    if not stated.keys() - {"backend"}:
        values = base.variables
        port = _port(values.get("MASTER_PORT"))
        address = values.get("MASTER_ADDR")
        return base._replace(**stated, master_addr=address, master_port=port, port_chosen=port is not None)
    pet = {name.removeprefix("PET_"): value for name, value in base.variables.items() if name.startswith("PET_")}
    low, high = _nodes_or_none(pet.get("NNODES"))
    fields = {
        "nproc_text": pet.get("NPROC_PER_NODE"),
        "nproc": _positive(pet.get("NPROC_PER_NODE")),
        "nnodes": low,
        "nnodes_max": high,
        "node_rank": _integer(pet.get("NODE_RANK")),
        **stated,
    }
    place = {name: fields.pop(name, None) for name in ("master_addr", "master_port", "rdzv_backend", "rdzv_endpoint")}
    launch = base._replace(launcher="torchrun", **fields)
    places = {"node_rank", "master_addr", "rdzv_endpoint"} & stated.keys()
    if launch.nnodes_max is None and not places:
        # torchrun's default; but a rendezvous address implies more than one node
        launch = launch._replace(nnodes=1, nnodes_max=1)
    return _rendezvous(
        launch,
        standalone=pet.get("STANDALONE", "0") not in ("0", ""),
        backend=place["rdzv_backend"] or pet.get("RDZV_BACKEND"),
        endpoint=place["rdzv_endpoint"] or pet.get("RDZV_ENDPOINT"),
        address=place["master_addr"] or pet.get("MASTER_ADDR"),
        port=place["master_port"] if place["master_port"] is not None else _port(pet.get("MASTER_PORT")),
        open_fields=frozenset(),
        # options describe a launch in part: a missing address is not torchrun's default yet
        default_address="127.0.0.1" if launch.nnodes_max == 1 else None,
    )


# options


def _stated(options: LaunchOptions) -> dict[str, Any]:
    """Return the given options as fields of a launch; raises ValueError."""
    fields: dict[str, Any] = {
        name: value
        for name in ("node_rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend", "backend")
        if (value := getattr(options, name)) is not None
    }
    if options.nproc_per_node is not None:
        text = options.nproc_per_node.strip()
        if text not in ("gpu", "cpu", "auto", "xpu") and _positive(text) is None:
            expected = "a number of at least 1, gpu, cpu, xpu or auto"
            raise ValueError(f"--nproc-per-node is {options.nproc_per_node!r}, expected {expected}")
        fields["nproc_text"], fields["nproc"] = text, _positive(text)
    if options.nnodes is not None:
        low, high = _nodes_or_none(options.nnodes)
        if low is None:
            raise ValueError(f"--nnodes is {options.nnodes!r}, expected a number of at least 1, or MIN:MAX")
        fields["nnodes"], fields["nnodes_max"] = low, high
    if options.node_rank is not None and options.node_rank < 0:
        raise ValueError(f"--node-rank is {options.node_rank}, expected 0 or more")
    if options.master_port is not None and not 0 <= options.master_port <= HIGHEST_PORT:
        raise ValueError(f"--master-port is {options.master_port}, expected a port from 0 to {HIGHEST_PORT}")
    return fields


def _fill(launch: Launch, stated: dict[str, Any], *, over: bool = False) -> Launch:
    """Return the launch with the options: only for missing fields, or ``over`` all of them."""
    fields = stated if over else {name: value for name, value in stated.items() if getattr(launch, name) is None}
    return launch._replace(**fields, port_chosen=launch.port_chosen or "master_port" in fields)


# values


def _integer(text: str | None) -> int | None:
    """Return the number as torch reads it, or None."""
    return None if text is None else integer(text)


def _positive(text: str | None) -> int | None:
    number = _integer(text)
    return number if number is not None and number > 0 else None


def _port(text: str | None) -> int | None:
    number = _integer(text)
    return number if number is not None and 0 <= number <= HIGHEST_PORT else None


def _nodes_or_none(text: str | None) -> tuple[int | None, int | None]:
    """Return the least and most of ``2`` or ``1:4``."""
    low, colon, high = (text or "").partition(":")
    least, most = _positive(low), _positive(high if colon else low)
    return (least, most) if least is not None and most is not None and least <= most else (None, None)


def _unbracketed(address: str | None) -> str | None:
    """Return an address without brackets: torchrun needs them around IPv6 and removes them."""
    if address is not None and address.startswith("[") and address.endswith("]") and ":" in address:
        return address[1:-1]
    return address


# hosts


def _on_this_host(command: LaunchCommand, environ: Mapping[str, str], host_name: str) -> bool:
    """Return whether some ranks of the job will run here; true if unknown."""
    wrappers = frozenset(command.wrappers)
    if wrappers & _ELSEWHERE or ("torchx" in wrappers and _scheduler_of_torchx(command.argv) not in (None, *_LOCAL)):
        return False
    if wrappers & _IN_ALLOCATION:
        return bool(environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")) and _in_allocation(environ, host_name)
    if "flux" in wrappers:
        return bool(environ.get("FLUX_JOB_ID") or environ.get("FLUX_URI"))
    starter = task_starter(command)
    if starter is None or starter in ("jsrun", "aprun"):
        return True
    hosts = _named_hosts(command.argv)
    if hosts:
        return not host_name or any(host in LOOPBACK_NAMES or _same_host(host, host_name) for host in hosts)
    return _in_allocation(environ, host_name)


def _scheduler_of_torchx(argv: Sequence[str]) -> str | None:
    """Return the scheduler that ``torchx run`` names; None: its configuration decides."""
    own = argv[: argv.index("dist.ddp")] if "dist.ddp" in argv else ()
    for word, following in pairwise((*own, "")):
        name, equals, value = word.partition("=")
        if name in ("-s", "--scheduler"):
            return value if equals else following
    return None


def _in_allocation(environ: Mapping[str, str], host_name: str) -> bool:
    own = environ.get("SLURMD_NODENAME") or host_name
    nodes = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    if not own or not nodes:
        return True
    try:
        return any(_same_host(node, own) for node in expand_hostlist(nodes))
    except ValueError:
        return True


def _same_host(one: str, other: str) -> bool:
    """Return whether two names are of one host; one of them may lack its domain."""
    return one == other or (one.partition(".")[0] == other.partition(".")[0] and ("." not in one or "." not in other))


def _named_hosts(argv: tuple[str, ...]) -> list[str]:
    """Return the hosts that ``mpirun -H a:4,b:4`` names."""
    for position, word in enumerate(argv[:-1], 1):
        if word in _HOST_OPTIONS and not has_expansion(argv[position]):
            return [part.partition(":")[0] for part in argv[position].split(",") if part]
    return []
