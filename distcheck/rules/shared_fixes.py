"""Fixes of rules that several checks detect, such as a fault that the environment, a launch file and a log show.

A fix that only one check uses is next to its probe.
"""

from __future__ import annotations

from distcheck.core.model import Fix

#: The first host of a Slurm job. In the body of a job script it is the same for all tasks.
FIRST_HOST_OF_SLURM = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)'
#: One task per node. Both, since srun prefers SLURM_NTASKS of the job to --ntasks-per-node alone.
ONE_TASK_A_NODE = "--ntasks=$SLURM_NNODES --ntasks-per-node=1"
#: The rendezvous of torchrun's agents in a Slurm job.
MEET_BY_SLURM = (
    f"--nnodes=$SLURM_NNODES --rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID --rdzv-endpoint={FIRST_HOST_OF_SLURM}:29400"
)

# the launch


def processes_on_a_host(*, gloo: bool) -> tuple[str, str]:
    """Return torchrun's option for the processes of a host that is not known, and a clause about it (DC101, DC802).

    :param gloo: the group uses gloo alone, so GPUs do not count
    """
    if gloo:
        return "--nproc-per-node=2", ""
    return "--nproc-per-node=gpu", "; on a host without GPUs, write a number: --nproc-per-node=2"


#: DC102
ONE_PORT = "set one port, from 1024 to 32767, for all ranks"
FREE_MASTER_PORT = "rename that Service, or set 'enableServiceLinks: false' in the pod, so that MASTER_PORT stays free"
OWN_OPTIONS_FIRST = Fix(
    "write its own options as its --help spells them, then the script, then the script's options", where="launch-line"
)
#: DC102: a value for each option that launchers refuse most often (torchrun, accelerate launch, deepspeed).
_VALUES = {
    "nproc-per-node": "gpu", "nnodes": "2", "node-rank": "0", "max-restarts": "0", "monitor-interval": "0.1",
    "rdzv-backend": "c10d", "rdzv-endpoint": "node1:29400", "rdzv-conf": "timeout=900", "rdzv-id": "1",
    "start-method": "spawn", "master-addr": "node1", "master-port": "29500", "local-ranks-filter": "0",
    "num-processes": "8", "num-machines": "2", "machine-rank": "0", "main-process-port": "29500",
    "main-process-ip": "node1", "mixed-precision": "bf16", "num-gpus": "8", "num-nodes": "2",
}  # fmt: skip


def of_refused_option(kind: str, word: str) -> Fix:
    """Return the fix of a problem of a launch command (DC102).

    :param kind: that of a ``LaunchProblem``
    :param word: the faulty option or variable, as written
    """
    if kind == "missing-script":
        return Fix("name the script after the options of the launcher, or -m and a module", where="launch-line")
    if kind not in ("bad-value", "missing-value"):
        return OWN_OPTIONS_FIRST
    value = _VALUES.get(word.removeprefix("PET_").lstrip("-").replace("_", "-").lower())
    if value is None:
        return Fix(f"give {word} a value that the launcher takes", where="launch-line")
    return Fix(f"give it a value that the launcher takes, such as {word}={value}", where="launch-line")


KNOWN_BACKEND = Fix("take c10d, or omit the option; another must be a plug-in", where="launch-line")
HOST_AND_PORT = Fix("write it as HOST:PORT, such as --rdzv-endpoint=node1:29400", where="launch-line")
#: DC103
ONE_LAUNCHER = Fix(
    "let one launcher set all of them: torchrun does; remove exports of rank variables from the job "
    "script, the shell's start-up files and the container's environment",
    where="job-script",
)
#: DC115
THREADS_OF_A_RANK = Fix(
    "set it to the cores of a rank, less those that its data loaders take, before the launcher starts",
    where="job-script",
)
#: DC118
NO_RESTARTS = Fix("while you debug, start with --max-restarts=0", where="launch-line")
#: DC120
GLOO_ON_WINDOWS = Fix('use init_process_group(backend="gloo") here, or a Linux host (WSL2 counts)', where="code")
BUILD_FOR_GPUS = Fix(
    "install a build for the GPUs in the Python that the job uses (the selector at pytorch.org/get-started "
    "gives the command); without GPUs use the backend gloo",
    where="host",
)
#: DC121
NUMBER_OF_PROCESSES = Fix(
    "give a number: --nproc-per-node=2 for two processes on the CPU. If there should be GPUs, fix that first "
    "(nvidia-smi lists them)",
    where="launch-line",
)
#: DC122
BUILD_THE_TREE = Fix(
    "start the job from another folder, or build the tree in place (python -m pip install --no-build-isolation -e .)",
    where="launch-line",
)
#: DC125
MORE_TIME = Fix(
    "request more time in the job script (#SBATCH --time=…), and let the script save a checkpoint on SIGTERM "
    "(#SBATCH --signal=TERM@120)",
    where="job-script",
)
#: DC502
ONE_NODE_RANK_EACH = Fix(
    "give each node its own --node-rank and start each once (under srun: one torchrun a node); where tasks are "
    "ranks, set RANK in each task from the task's own number, never once for all of them",
    where="launch-line",
)


def number_the_tasks(line: str) -> Fix:
    """DC101: a launch line in which each task gets its numbers. With ``<`` in it, it has a placeholder."""
    return Fix(
        "hand the numbers on in each task; exported once in the body of the job script, RANK would be 0 for all "
        f"tasks: {line}",
        command=None if "<" in line else line,
        where="each-task" if "<" in line else "launch-line",
    )


# GPUs and memory

#: DC314
RESTART_THE_CONTAINER = Fix(
    "restart the container. A reload of systemd rewrites the cgroup: to prevent it, name the device "
    "nodes with --device, use CDI, or update the NVIDIA container toolkit",
    where="launch-line",
)
#: DC322
LOCK_MORE_IN_SLURM = Fix(
    "have an administrator set LimitMEMLOCK=infinity for slurmd, and PropagateResourceLimitsExcept=MEMLOCK in "
    "slurm.conf, without which jobs inherit the limit of the login shell",
    by="admin",
    where="host",
)
#: DC323
LESS_MEMORY = "start fewer data-loader workers and let ranks share or map the data (torch.load with mmap=True)"
MORE_MEMORY_IN_SLURM = Fix(f"request more with --mem (--mem=0 is all of a node), or {LESS_MEMORY}", where="job-script")
MORE_MEMORY_IN_A_POD = Fix(f"raise resources.limits.memory of the container, or {LESS_MEMORY}", where="job-script")
#: DC336
NO_IOMMU = Fix(
    "if a first collective hangs: one run with NCCL_P2P_DISABLE=1 that works confirms it; then have an "
    "administrator boot with iommu=pt, or switch the IOMMU and PCIe ACS off in the firmware",
    by="admin",
    where="host",
)
#: DC337
NEWER_WSL = Fix(
    "update Windows' NVIDIA driver and WSL (wsl --update); where NCCL fails with 'unknown error', use gloo, or "
    "Linux itself",
    where="host",
)


def start_fabric_manager(version: str) -> Fix:
    """DC312: the fabric manager of a driver's version."""
    return Fix(
        f"have an administrator start the fabric manager, of exactly the driver's version ({version}): "
        "systemctl enable --now nvidia-fabricmanager",
        by="admin",
        where="host",
    )


def memory_volume(size: str) -> Fix:
    """DC320: a volume at /dev/shm of a pod, of a size such as ``16g``."""
    return Fix(
        "mount a memory volume at /dev/shm in the pod: an emptyDir with 'medium: Memory' and a sizeLimit of "
        f"{size.upper()}i, below the container's memory limit",
        where="job-script",
    )


# the network

#: DC403
START_ON_THE_FIRST_NODE = Fix(
    "start the launch on the first node; where it runs already, compare the port, and see whether a firewall "
    "there rejects it",
    where="launch-line",
)
#: DC411
NETWORK_OF_THE_HOST = Fix(
    "start the containers with --network=host on all hosts, so that they listen on the machines' own addresses",
    where="launch-line",
)
#: DC416
LOAD_PEERMEM = Fix(
    "have an administrator load the module that comes with the driver (modprobe nvidia_peermem), and list it "
    "in /etc/modules-load.d for the next boot",
    by="admin",
    where="host",
)
#: DC418
SOURCE_THE_PLUG_IN = Fix(
    "source the plug-in's own script (nccl-env-profile.sh, next to its library) unchanged in the job "
    "script for all ranks, and put its folder first on LD_LIBRARY_PATH; take the names of interfaces from "
    "'ls /sys/class/net': they differ between virtual machines and GKE",
    where="job-script",
)
MOUNT_THE_TOPOLOGY = Fix(
    "mount the file of this kind of machine into the container, or name the one that the cloud's image "
    "brings, in the job script",
    where="job-script",
)
#: DC420
START_IMEX = Fix(
    "have an administrator start nvidia-imex on all nodes of the NVLink domain and give the job a channel "
    "(in Kubernetes a ComputeDomain, with Docker --device=/dev/nvidia-caps-imex-channels/channel0); "
    "NCCL_MNNVL_ENABLE=0 in the job script makes a job run without it, over the network",
    by="admin",
    where="host",
)
#: DC516
CHECK_PEER_ACCESS = Fix(
    "check that the driver lets the GPUs reach each other, and that each task sees all GPUs of its "
    "host. In containers with one GPU each NCCL can't use NVLink",
    command="nvidia-smi topo -p2p r",
    where="host",
)


def wait_for_name(host: str) -> Fix:
    """DC404: the name of a pod that is not there yet."""
    return Fix(
        f"wait until {host} resolves before the launch (an init container that tries to connect), and give its "
        "headless Service publishNotReadyAddresses: true; a pod's name appears some seconds after the pod",
        where="job-script",
    )


# code and checkpoints

#: DC612
COPY_AGAIN = Fix(
    "copy or download it again, and compare its size with the one where it comes from; if that one is broken too, "
    "save it again: to another name, then os.replace",
    where="code",
)
FETCH_FROM_LFS = Fix("fetch the file that the pointer stands for", command="git lfs pull", where="this-shell")
#: DC743
DESTROY_THE_GROUP = Fix("call torch.distributed.destroy_process_group() on all ranks at the end", where="code")


def load_to_the_cpu(path: str) -> Fix:
    """DC613, DC723: a checkpoint that loads where it was saved from.

    :param path: the expression of its path
    """
    return Fix(
        "load to the CPU, and move the model to the rank's own device afterwards",
        command=f'torch.load({path}, map_location="cpu")',
        where="code",
    )


def strip_prefix(prefix: str) -> Fix:
    """DC614: keys of a checkpoint that begin with a wrapper's prefix."""
    # wrappers of layers have their prefix inside of the keys as well
    command = f'state_dict = {{key.replace("{prefix}", ""): value for key, value in state_dict.items()}}'
    if prefix == "module.":
        command = 'torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state_dict, "module.")'
    elif prefix == "_orig_mod.":
        command = 'state_dict = {key.removeprefix("_orig_mod."): value for key, value in state_dict.items()}'
    return Fix(
        "take the prefix away after loading (or save the state_dict of the model inside)",
        command=command,
        where="code",
    )
