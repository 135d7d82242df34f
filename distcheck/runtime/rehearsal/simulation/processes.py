"""Starts the processes of a rehearsal, each in the environment that its launcher would give it, and ends all of them.

Without torch: what runs in the processes is :mod:`.actor`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from distcheck.core.resources import PACKAGE
from distcheck.runtime.rehearsal import fake_cuda

from .plan import VARIABLE, RehearsalPlan

if TYPE_CHECKING:
    import subprocess

#: Variables of this shell about launches and GPUs do not hold for the simulated nodes.
_OF_LAUNCHES = frozenset(
    {
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK",
        "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    }
)  # fmt: skip
_MASKS = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
_OF_LAUNCHERS = ("TORCHELASTIC_", "SLURM_", "SLURMD_", "PMI_", "PMIX_", "OMPI_", "PET_", "MPI_", "PALS_")
#: Addresses that need no name server and lead to this machine (RFC 1122, 3.2.1.3): one a node.
_NODE_ADDRESS = "127.0.0.{}"
_RUN_ID = "rehearsal"


#: The number of the process that serves the store, where the launcher does.
AGENT = -1


class RehearsedProcess(NamedTuple):
    """A process of the rehearsal."""

    #: global rank; of a process that starts the ranks of its node itself, the number of the node; or AGENT
    number: int
    process: subprocess.Popen[bytes]
    #: where what it prints is kept
    stdout: str
    stderr: str


def environment(
    plan: RehearsalPlan, number: int, port: int, base: Mapping[str, str], assigned: Mapping[str, str] = {}
) -> dict[str, str]:
    """The environment of one process.

    :param number: its global rank; with the launcher ``script`` the number of its node
    :param port: a free port for the store
    :param base: of this process
    :param assigned: what the launch line sets for the job
    """
    own = {name: value for name, value in base.items() if not _is_of_a_launch(name)}
    own.update((name, value) for name, value in assigned.items() if name in _MASKS or not _is_of_a_launch(name))
    own[VARIABLE] = plan.private
    # what is printed comes at once, also where the process is ended; the name of this host may lead nowhere
    own.setdefault("PYTHONUNBUFFERED", "1")
    own["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform.startswith("linux") else "lo0"
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [own.get("PYTHONPATH", ""), *_our_folder()])) or "."
    if own["PYTHONPATH"] == ".":
        del own["PYTHONPATH"]
    # as torchrun does; and all of them share the cores of one machine
    own.setdefault("OMP_NUM_THREADS", "1")
    # scripts read the hosts of the job, and the GPUs of the node, from programs
    own["PATH"] = os.pathsep.join([os.path.join(plan.private, "bin"), own.get("PATH", os.defpath)])
    if not plan.real_gpus:
        # torch makes it in /tmp as soon as an optimizer is made; nothing in it is of use to a real job
        own.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(plan.private, "inductor"))
    if not plan.gpus_per_node:
        own["CUDA_VISIBLE_DEVICES"] = ""
    if plan.launcher == "script":
        own.update(_of_a_node(plan, number, port))
    else:
        make = _by_slurm if plan.launcher == "slurm" else _by_torchrun
        own.update(make(plan, number, port, own))
    if plan.real_gpus:
        own["CUDA_VISIBLE_DEVICES"] = _real_mask(plan, number, own, base)
    return own


def _is_of_a_launch(name: str) -> bool:
    return name in _OF_LAUNCHES or name in _MASKS or name.startswith(_OF_LAUNCHERS)


def _our_folder() -> list[str]:
    """Where distcheck is imported from, if a fresh Python would not find it there."""
    import sysconfig

    folder = os.path.dirname(PACKAGE)
    return [] if folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else [folder]


def _real_mask(plan: RehearsalPlan, number: int, own: Mapping[str, str], base: Mapping[str, str]) -> str:
    """The GPUs of this machine that stand for those of the node of a process."""
    mine = [part for part in base.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
    node = number if plan.launcher == "script" else plan.node_of(number)
    first = node * plan.gpus_per_node
    devices = [mine[index] if mine else str(index) for index in range(first, first + plan.gpus_per_node)]
    masked = own.get("CUDA_VISIBLE_DEVICES")
    if masked is None:
        return ",".join(devices)
    numbers = [int(part) for part in masked.split(",") if part.isdigit()]
    return ",".join(devices[index] for index in numbers if index < len(devices))


def _of_a_node(plan: RehearsalPlan, node: int, port: int) -> dict[str, str]:
    """Return what a job script passes to a script that starts its own ranks; nothing where there is one node only."""
    if plan.nnodes == 1:
        return {}
    return {"NODE_RANK": str(node), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _by_torchrun(plan: RehearsalPlan, rank: int, port: int, _: Mapping[str, str]) -> dict[str, str]:
    """As torchrun's agent (torch 2.13, ``elastic/agent/server/local_elastic_agent.py``)."""
    world, node = str(plan.world_size), str(plan.node_of(rank))
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % plan.nproc_per_node),
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": str(plan.nproc_per_node),
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": str(plan.nnodes),
        "ROLE_RANK": str(rank),
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": _RUN_ID,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_ERROR_FILE": os.path.join(plan.private, f"error-{rank}.json"),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }


def _by_slurm(plan: RehearsalPlan, rank: int, port: int, _: Mapping[str, str]) -> dict[str, str]:
    """As srun (Slurm 24.11, srun(1), "OUTPUT ENVIRONMENT VARIABLES"); the address and port are what a job script
    exports."""
    tasks = str(plan.world_size)
    local = rank % plan.nproc_per_node
    nodes = ",".join(_node_addresses(plan))
    own = {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(plan.node_of(rank)),
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_NNODES": str(plan.nnodes),
        "SLURM_JOB_NUM_NODES": str(plan.nnodes),
        "SLURM_NTASKS_PER_NODE": str(plan.nproc_per_node),
        "SLURM_TASKS_PER_NODE": _repeated(plan.nproc_per_node, plan.nnodes),
        "SLURM_STEP_TASKS_PER_NODE": _repeated(plan.nproc_per_node, plan.nnodes),
        "SLURM_JOB_ID": "1",
        "SLURM_JOBID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_JOB_NAME": _RUN_ID,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_STEP_NODELIST": nodes,
        "SLURMD_NODENAME": _NODE_ADDRESS.format(1 + plan.node_of(rank)),
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_SUBMIT_DIR": plan.folder,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    if plan.gpus_per_node:
        own["SLURM_GPUS_ON_NODE"] = str(plan.gpus_per_node)
    if count := plan.gpus_per_task:
        # where devices are constrained, a task's own begin at 0; the mask of one that sees all is the same to torch
        own["CUDA_VISIBLE_DEVICES"] = ",".join(str(local * count + index) for index in range(count))
        own["SLURM_GPUS_PER_TASK"] = str(count)
    return own


def _node_addresses(plan: RehearsalPlan) -> list[str]:
    return [_NODE_ADDRESS.format(1 + node) for node in range(plan.nnodes)]


#: The only query that training scripts send to it.
_SCONTROL = """\
#!/bin/sh
case "$1 $2" in
"show hostname"*) printf '%s\\n' {nodes} ;;
*) echo "scontrol: a rehearsal answers 'scontrol show hostnames' only" >&2; exit 1 ;;
esac
"""


_NVIDIA_SMI = """\
#!/bin/sh
exec {python} -IS {module} {gpus} "$@"
"""


def _put_programs(plan: RehearsalPlan, python: str) -> None:
    """Write the programs that answer for the simulated nodes."""
    programs = {}
    if plan.launcher == "slurm":
        programs["scontrol"] = _SCONTROL.format(nodes=" ".join(_node_addresses(plan)))
    if plan.gpus_per_node and not plan.real_gpus:
        module = os.path.join(os.path.dirname(fake_cuda.__file__), "nvidia_smi.py")
        words = (python, module, fake_cuda.FakeGpus(plan.gpus_per_node).text)
        quoted = dict(zip(("python", "module", "gpus"), map(shlex.quote, words), strict=True))
        programs["nvidia-smi"] = _NVIDIA_SMI.format(**quoted)
    folder = os.path.join(plan.private, "bin")
    os.mkdir(folder)
    for name, text in programs.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o700)


def _repeated(count: int, nodes: int) -> str:
    return str(count) if nodes == 1 else f"{count}(x{nodes})"


def free_port() -> int:
    """Return a port on which no process listens at this moment."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def start(
    plan: RehearsalPlan, base: Mapping[str, str], assigned: Mapping[str, str], python: str
) -> Iterator[RehearsedProcess]:
    """Start them one after the other; each in a session of its own, so that it can be ended with all its children."""
    port = free_port()
    for name in ("outputs", "events"):
        os.mkdir(os.path.join(plan.private, name))
    _put_programs(plan, python)
    if plan.launcher == "torchrun":
        own = {**base, VARIABLE: plan.private}
        yield _start(plan, AGENT, [python, "-m", f"{__package__}.store_server", str(port)], own)
    for number in range(plan.nnodes if plan.launcher == "script" else plan.world_size):
        own = environment(plan, number, port, base, assigned)
        yield _start(plan, number, [python, "-m", f"{__package__}.worker"], own)


def _start(plan: RehearsalPlan, number: int, words: list[str], environ: Mapping[str, str]) -> RehearsedProcess:
    import subprocess

    paths = [os.path.join(plan.private, "outputs", f"{number}.{name}") for name in ("out", "err")]
    with open(paths[0], "wb") as out, open(paths[1], "wb") as error:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=error, cwd=plan.folder, start_new_session=True,
            env=environ,
        )  # fmt: skip
    return RehearsedProcess(number, process, paths[0], paths[1])


def end_all(started: list[RehearsedProcess], private: str) -> None:
    """End every process of the rehearsal, with what it has started; nothing of it is left."""
    for one in started:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(one.process.pid, signal.SIGKILL)
    for one in started:
        one.process.wait()
    for pid in _strays(private):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _strays(private: str) -> Iterator[int]:
    """Processes that have left their session and still carry the rehearsal in their environment."""
    mark = f"{VARIABLE}={private}".encode()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        yield int(name)
