"""The catalogue of environment variables: which exist, who reads them, what was probably meant.

The table itself is package data, made by ``tools/make_variables.py`` from collected facts. It has what a name means;
what a library makes of a value is the matter of ``values.py``, where a value comes from that of ``settings.py``.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from .resources import read_shipped

#: The newest releases that the facts were collected from (``tools/envvars.json``): a name that only a newer release
#: reads can't be known here.
NEWEST_NCCL = (2, 32, 3)
NEWEST_TORCH = (2, 13, 0)

#: Prefixes that one library owns, longest first: a name below one of them that nothing reads is a slip.
OWNED_PREFIXES = ("TORCHELASTIC_", "TORCH_NCCL_", "GLOO_", "NCCL_")

#: Prefixes below NCCL_ that belong to plug-ins and tools, whose names no table lists: Google's networks (FASTRAK,
#: GPUDIRECTTCPX, TCPX, SHIMNET, GIB), the IB, UCX and SHARP plug-ins, tuners, profilers, the inspector, nccl-tests.
PLUGIN_PREFIXES = (
    "NCCL_FASTRAK_",
    "NCCL_GIB_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_GPUDIRECTTCPXO_",
    "NCCL_IBEXT_",
    "NCCL_INSPECTOR_",
    "NCCL_OFI_",
    "NCCL_PROFILE_",
    "NCCL_PROFILER_",
    "NCCL_SHARP_",
    "NCCL_SHIMNET_",
    "NCCL_TCPX_",
    "NCCL_TCPXO_",
    "NCCL_TESTS_",
    "NCCL_TUNER_",
    "NCCL_UCX_",
)

#: Below these prefixes every variable may be collected: libraries and launchers of training own them.
TRAINING_PREFIXES = (
    *OWNED_PREFIXES,
    "ACCELERATE_",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DEEPSPEED_",
    "DS_",
    "FI_",
    "FLUX_",
    "FSDP_",
    "GOMP_",
    "HIP_",
    "HSA_",
    "IBV_",
    "JSM_NAMESPACE_",
    "KMP_",
    "LWS_",
    "MASTER_",
    "MKL_",
    "MLX4_",
    "MLX5_",
    "MPI_LOCAL",
    "MSCCL_",
    "MV2_COMM_WORLD_",
    "NCCLX_",
    "NVSHMEM_",
    "OFI_NCCL_",
    "OMPI_COMM_WORLD_",
    "OMP_",
    "PALS_",
    "PET_",
    "PL_TORCH_",
    "PMIX_RANK",
    "PMI_",
    "PYTORCH_",
    "RCCL_",
    "RDMAV_",
    "ROCM_",
    "ROCR_",
    "SRUN_",
    "TORCHINDUCTOR_",
    "TORCH_",
    "TRITON_",
    "UCC_",
    "UCX_",
)

#: Names outside those prefixes that bear on a launch and are not in the table.
TRAINING_NAMES = frozenset(
    {
        # where libraries, modules and temporary files are searched
        "APPTAINER_CONTAINER",
        "APPTAINER_NAME",
        "CONDA_PREFIX",
        "DYLD_LIBRARY_PATH",
        "HF_HOME",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        "PYTHON_EXEC",
        "SINGULARITY_CONTAINER",
        "SINGULARITY_NAME",
        "TEMP",
        "TMP",
        "VIRTUAL_ENV",
        "WSL_DISTRO_NAME",
        "WSL_INTEROP",
        "XDG_CACHE_HOME",
        "container",
        # what keeps a launcher alive when its terminal goes
        "INVOCATION_ID",
        "STY",
        "TMUX",
        # proxies; credentials in them are masked as they are collected
        "ALL_PROXY",
        "HTTPS_PROXY",
        "all_proxy",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        # ranks and counts that launchers and schedulers give
        "CROSS_RANK",
        "CROSS_SIZE",
        "GLOBAL_RANK",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "JOB_COMPLETION_INDEX",
        "LSB_DJOB_NUMPROC",
        "LSB_HOSTS",
        "LSB_JOBID",
        "LSB_MCPU_HOSTS",
        "PBS_ENVIRONMENT",
        "PBS_JOBID",
        "PBS_NODEFILE",
        "PBS_NODENUM",
        "PBS_NP",
        "PBS_NUM_NODES",
        "PBS_NUM_PPN",
        "PBS_TASKNUM",
        "PE_HOSTFILE",
        "RAY_ADDRESS",
        "RAY_JOB_ID",
        "SM_CURRENT_HOST",
        "SM_HOSTS",
        "SM_NUM_GPUS",
        # Slurm, besides those in the table; never SLURM_JWT, nor names of users and accounts
        "SLURM_CLUSTER_NAME",
        "SLURM_CPUS_ON_NODE",
        "SLURM_CPUS_PER_GPU",
        "SLURM_DISTRIBUTION",
        "SLURM_GPUS",
        "SLURM_GPUS_PER_NODE",
        "SLURM_GPUS_PER_SOCKET",
        "SLURM_GPUS_PER_TASK",
        "SLURM_GPU_BIND",
        "SLURM_HET_SIZE",
        "SLURM_JOBID",
        "SLURM_JOB_CPUS_PER_NODE",
        "SLURM_JOB_END_TIME",
        "SLURM_JOB_NAME",
        "SLURM_JOB_PARTITION",
        "SLURM_JOB_START_TIME",
        "SLURM_MEM_PER_CPU",
        "SLURM_MEM_PER_GPU",
        "SLURM_MEM_PER_NODE",
        "SLURM_NTASKS_PER_GPU",
        "SLURM_RESTART_COUNT",
        "SLURM_STEPID",
        "SLURM_STEP_NODELIST",
        "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_SUBMIT_HOST",
        "SLURM_THREADS_PER_CORE",
    }
)

#: Owners that set or read a name only while something is built or in an image: a name near to one of these is no slip.
_NOT_AT_RUN_TIME = frozenset({"build", "container image", "toolchain"})


class Variable(NamedTuple):
    """What is known about one name."""

    name: str
    #: false: people write it, but nothing reads it
    exists: bool
    #: who reads it: ``nccl``, ``torch``, ``torchrun``, ``gloo``, ``slurm`` …; None where nothing does
    owner: str | None = None
    #: ``bool``, ``int``, ``float``, ``enum``, ``list``, ``size`` (bytes), ``string``, ``path``, ``level`` …
    type: str | None = None
    #: how a text is read, one of the kinds in ``values.py``; None where that is not known
    parse: str | None = None
    #: allowed values or syntax, for people
    values: str | None = None
    default: str | None = None
    #: release of the owner that first read it; ``<=X``: the oldest release that was checked did already
    since: str | None = None
    #: first release of the owner that did not read it any more
    removed: str | None = None
    deprecated_by: str | None = None
    deprecated_since: str | None = None
    #: where nothing reads it: what was probably meant
    suggest: str | None = None
    #: ``debug-only``, ``performance-hazard``, ``correctness-hazard``, ``security``, ``ignored``
    flags: tuple[str, ...] = ()
    #: numbers that are allowed, closed ranges, None is open; empty where any number is
    ranges: tuple[tuple[int | None, int | None], ...] = ()
    #: words that are allowed; empty where any text is
    words: tuple[str, ...] = ()
    any_case: bool = False
    #: nothing reads it, but scripts and frameworks use the name for themselves
    own_use: bool = False
    #: ``suggest`` is not the same thing under another name: its value is another one, or the opposite
    other_thing: bool = False
    meaning: str = ""


class VariableTable:
    """The table, read once as bytes. A line is parsed only when its name is requested."""

    def __init__(self) -> None:
        self._lines = _shipped_lines()

    def lookup(self, name: str) -> Variable | None:
        """What is known about a name, None where nothing is."""
        line = self._lines.get(name)
        if line is None:
            return None
        import json

        plain: dict[str, Any] = json.loads(line)
        for key in ("flags", "words"):
            if key in plain:
                plain[key] = tuple(plain[key])
        if "ranges" in plain:
            plain["ranges"] = tuple((low, high) for low, high in plain["ranges"])
        return Variable(**plain)

    def names(self) -> frozenset[str]:
        """All names of the table, also those that nothing reads."""
        return frozenset(self._lines)

    def owned_prefix(self, name: str) -> str | None:
        """The prefix of the library that owns a name; None for a plug-in's name and for all others."""
        if name.startswith(PLUGIN_PREFIXES):
            return None
        return next((prefix for prefix in OWNED_PREFIXES if name.startswith(prefix)), None)

    def nearest(self, name: str) -> str | None:
        """The name that was probably meant by one that is not in the table.

        Only below the prefixes that a library owns, and only where a slip is likely: its words in another order, the
        prefix ``TORCH_`` omitted or put in front, or at most two letters wrong (one in a short name). Below
        ``TORCH_NCCL_``, of which torch alone makes names, also one word omitted from a name of three or more.
        """
        prefix = self.owned_prefix(name)
        if prefix is None or name in self._lines:
            return None
        for other in ("TORCH_" + name, name.removeprefix("TORCH_")):
            if other != name and self._is_read(other):
                return other
        tokens = sorted(name.split("_"))
        rest = name[len(prefix) :]
        allowed = 2 if len(rest) > 5 else 1
        best: tuple[int, str] | None = None
        for other in self._lines:
            if abs(len(other) - len(name)) > 2 or self.owned_prefix(other) != prefix:
                continue
            if len(other) == len(name) and sorted(other.split("_")) == tokens:
                distance = 0
            else:
                distance = edit_distance(rest, other[len(prefix) :], allowed)
            if distance <= allowed and (best is None or (distance, other) < best) and self._is_read(other):
                best = (distance, other)
        return self._with_a_word_more(rest, prefix) if best is None else best[1]

    def _with_a_word_more(self, rest: str, prefix: str) -> str | None:
        """The only name that has one word besides those of ``rest``, which has two at least."""
        words = rest.split("_")
        if prefix != "TORCH_NCCL_" or len(words) < 2:
            return None
        found = []
        for other in self._lines:
            longer = other[len(prefix) :].split("_") if other.startswith(prefix) else []
            one_more = (longer[:at] + longer[at + 1 :] for at in range(len(longer)))
            if len(longer) == len(words) + 1 and words in one_more and self._is_read(other):
                found.append(other)
        return found[0] if len(found) == 1 else None

    def bears_on_training(self, name: str) -> bool:
        """Whether distcheck may collect a variable of this name at all."""
        return name.startswith(TRAINING_PREFIXES) or name in self._lines or name in TRAINING_NAMES

    def _is_read(self, name: str) -> bool:
        """Whether a library reads the name while a job runs."""
        variable = self.lookup(name)
        return variable is not None and variable.exists and variable.owner not in _NOT_AT_RUN_TIME


@functools.cache
def _shipped_lines() -> dict[str, bytes]:
    """The lines that come with distcheck, by name; many hosts are judged with one reading of them."""
    data = read_shipped("distcheck.core", "variables.jsonl")
    start = len(b'{"name":"')
    return {line[start : line.index(b'"', start)].decode(): line for line in data.splitlines()}


def edit_distance(left: str, right: str, limit: int) -> int:
    """Letters to insert, remove, replace or swap with their neighbour; ``limit + 1`` for anything above the limit."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    two_back: list[int] = []
    one_back: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, 1):
        two_back, one_back, row = one_back, row, [i]
        for j, other in enumerate(right, 1):
            cost = min(one_back[j] + 1, row[j - 1] + 1, one_back[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                cost = min(cost, two_back[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
