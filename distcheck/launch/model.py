"""The facts about a launch: the launch command, and this process or the coming job.

Values only. ``command.py`` makes a :class:`LaunchCommand` from an argument list; ``reader.py`` makes a
:class:`Launch` from the environment, from options or from a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: The variables for ``init_method="env://"`` and device binding, in the order in which torch reads them.
RENDEZVOUS_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")

#: torchrun's default port of the static rendezvous (torch 2.13, ``torch.distributed.run``); c10d takes 29400.
DEFAULT_PORT = 29500

#: Highest port number: ports have 16 bits (RFC 9293). 0 lets the system choose one.
HIGHEST_PORT = 65535

#: Launchers that run torchrun's agent: it sets OMP_NUM_THREADS=1 for several workers, and a handler for SIGHUP
#: (torch 2.13, ``torch.distributed.run``).
ELASTIC_LAUNCHERS = frozenset({"torchrun", "torch.distributed.launch", "accelerate"})

#: Launchers that start all ranks of a node themselves, once per node.
NODE_LAUNCHERS = ELASTIC_LAUNCHERS | {"deepspeed"}

#: Host names and addresses that mean "this machine" on every machine.
LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1", "0.0.0.0", "ip6-localhost"})


def integer(text: str) -> int | None:
    """Return the number as Python's ``int`` reads it (like torch and the launchers), or None."""
    try:
        return int(text)
    except ValueError:
        return None


class LaunchProblem(NamedTuple):
    """An error in a launch command, as data for a probe."""

    #: ``misplaced-option``, ``bad-value``, ``unknown-option``, ``missing-script`` or ``missing-value``
    kind: str
    #: the faulty option or word, as written
    word: str
    #: what is wrong, one clause
    text: str


class LaunchCommand(NamedTuple):
    """A launch command, parsed like the launcher does.

    A value is None if the command does not give it. A name is in ``unknown`` if only the running shell knows the value
    (``$SLURM_NNODES``). Such a value is not compared.
    """

    #: ``torchrun``, ``torch.distributed.launch``, ``accelerate``, ``deepspeed``, ``python`` or ``other``:
    #: the innermost program that starts ranks
    launcher: str
    #: what stands in front of it, outermost first: ``nohup``, ``srun``, ``mpirun``, ``sbatch``, ``env``, ``numactl`` …
    wrappers: tuple[str, ...] = ()
    #: assignments on the line (``NCCL_DEBUG=INFO torchrun``, ``env X=1``, ``mpirun -x X=1``)
    assignments: Mapping[str, str] = {}
    argv: tuple[str, ...] = ()
    nnodes_min: int | None = None
    nnodes_max: int | None = None
    #: as it was given: ``8``, ``gpu``, ``auto``, ``cpu``, ``xpu``
    nproc: str | None = None
    node_rank: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: Mapping[str, str] = {}
    local_addr: str | None = None
    standalone: bool = False
    max_restarts: int | None = None
    virtual_local_rank: bool = False
    signals_to_handle: str | None = None
    #: the options of srun, mpirun or sbatch around it: tasks in all, tasks per node, nodes, GPUs per task and per node
    tasks: int | None = None
    tasks_per_node: int | None = None
    nodes: int | None = None
    gpus_per_task: int | None = None
    gpus_per_node: int | None = None
    cpus_per_task: int | None = None
    #: the training script (a path), or the module with ``module=True``
    script: str | None = None
    module: bool = False
    script_args: tuple[str, ...] = ()
    #: the script runs directly, not with python (torchrun's and accelerate's ``--no-python``)
    no_python: bool = False
    #: processes of all machines, if the launcher counts them so (``accelerate launch --num_processes``)
    processes: int | None = None
    #: all GPUs that srun, sbatch or salloc request
    gpus: int | None = None
    #: the argument with its rank that the launcher adds to the script's own: ``--local-rank``
    #: (torch.distributed.launch without ``--use-env``), ``--local_rank`` (DeepSpeed), or None
    local_rank_argument: str | None = None
    #: accelerate's ``--config_file`` and ``--gpu_ids``
    config_file: str | None = None
    gpu_ids: str | None = None
    #: DeepSpeed's ``--hostfile``, ``--include`` and ``--exclude``
    hostfile: str | None = None
    include: str | None = None
    exclude: str | None = None
    #: arguments of the script that torchrun calls ambiguous with Python before 3.12.8 and 3.13.1, because each begins
    #: as several of its own options do (``--log``); a ``--`` before the script helps (pytorch/pytorch#120601)
    shadowed_script_args: tuple[str, ...] = ()
    problems: tuple[LaunchProblem, ...] = ()
    #: names of the fields above whose value is written with a shell variable or substitution
    unknown: frozenset[str] = frozenset()


class Launch(NamedTuple):
    """The launch that is checked: that of this process, or a planned one.

    Counts and ranks are None if they are missing or malformed (the raw text is in ``variables``).
    """

    #: ``shell`` (no launch), ``planned`` (a command or options were given), ``rank`` (a launched process)
    stage: str = "shell"
    #: who started or will start the ranks: ``torchrun``, ``torch.distributed.launch``, ``accelerate``,
    #: ``deepspeed``, ``slurm``, ``openmpi``, ``pmi``, ``mvapich``, ``python`` …; None if unknown
    launcher: str | None = None
    #: the scheduler or operator around it: ``slurm``, ``kubernetes``, ``pbs``, ``lsf``, ``ray``, ``flux``; None
    scheduler: str | None = None
    #: torch's variables that are set and not empty
    variables: Mapping[str, str] = {}
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    node_rank: int | None = None
    #: nodes of the job, the minimum of a range
    nnodes: int | None = None
    nnodes_max: int | None = None
    #: processes on this node: the number, or None; ``nproc_text`` is the text (``gpu``)
    nproc: int | None = None
    nproc_text: str | None = None
    #: the address and port of torch's store
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None
    rdzv_conf: Mapping[str, str] = {}
    local_addr: str | None = None
    standalone: bool = False
    max_restarts: int | None = None
    #: ``nccl``, ``gloo`` …: what the user stated; None: not known
    backend: str | None = None
    script: str | None = None
    #: the command, if one was given
    command: LaunchCommand | None = None
    #: false if the job will run elsewhere (sbatch, srun or kubectl from a login node)
    on_this_host: bool = True
    #: the master port was chosen by the user (an option, or an exported variable without an agent)
    port_chosen: bool = False
    #: torchrun started this process, and its agent serves the store on the master port
    agent_store: bool = False
    #: variables of torch that are set but empty, which torch treats as not set
    empty: frozenset[str] = frozenset()

    @property
    def launched(self) -> bool:
        """Return whether a launch is planned, or this process is in one."""
        return self.stage in ("planned", "rank")

    @property
    def several_nodes(self) -> bool:
        """Return whether the job is known to have more than one node."""
        return (self.nnodes_max or self.nnodes or 1) > 1

    @property
    def ranks_here(self) -> int | None:
        """Return the processes of the launch on this host, or None if unknown."""
        return self.local_world_size if self.local_world_size is not None else self.nproc

    @property
    def static_rendezvous(self) -> bool:
        """Return whether the store uses the user's address and port, not those of c10d."""
        if self.standalone or self.rdzv_backend == "c10d":
            return False
        return self.rdzv_backend in (None, "static") and self.master_port is not None

    @property
    def serves_store(self) -> bool | None:
        """Return whether a process on this host must listen on the master port, or None if unknown.

        Rank 0's process (or the agent of node 0) serves torch's store. Only there the port must be free.
        """
        if not self.launched or not self.on_this_host:
            return False
        if self.agent_store:
            return False
        if self.stage == "rank":
            return None if self.rank is None else self.rank == 0
        if self.node_rank is not None:
            return self.node_rank == 0
        return True if not self.several_nodes else None
