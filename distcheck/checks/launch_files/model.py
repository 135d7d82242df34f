"""What launch files say, as values: files, lines that start ranks, variables, allocations, pods, configurations.

A value that only the shell, the scheduler or a template knows is *unknown*: it is there, and compared with nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.model import Where
from distcheck.launch.model import LaunchCommand

from .fragments import Span

#: What a file can be; each but the last two can hold commands.
KINDS = (
    "shell", "dockerfile", "makefile", "markdown", "workflow", "kubernetes", "accelerate", "deepspeed", "hostfile",
)  # fmt: skip


class Scalar(NamedTuple):
    """A value as it stands in a file."""

    #: None where it is unknown (a variable, a template: ``known`` is false), or where the file says null
    value: Any
    span: Span
    #: as it stands in the file
    written: str = ""
    known: bool = True

    @property
    def number(self) -> int | None:
        """The value where it is known and a whole number (also one in quotes), else None."""
        if not self.known or isinstance(self.value, bool):
            return None
        if isinstance(self.value, int):
            return self.value
        if isinstance(self.value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", self.value):
            return int(self.value)
        return None


class Word(NamedTuple):
    """A word of a command."""

    #: without quotes, variables with a known value put in; what is unknown stands as it is written (``$SLURM_NNODES``)
    text: str
    span: Span
    written: str = ""
    #: the assignments whose value was put in: where a fix changes the value
    origins: tuple[Span, ...] = ()
    #: its variables are expanded by a shell behind srun, ssh or the like (``srun bash -c '…$SLURM_NODEID'``), by each
    #: task anew; false: by the file's own shell, once; None: not known
    by_each_task: bool | None = None


class FileSetting(NamedTuple):
    """A variable that a file sets."""

    name: str
    #: None where it is unknown
    value: str | None
    #: the whole assignment, the name and the value alone
    span: Span
    name_span: Span
    value_span: Span | None = None
    #: how far it reaches: ``exported`` (all commands behind it), ``line`` (the command that it stands before, also by
    #: env, mpirun -x, srun --export, docker -e), ``shell`` (assigned, but not exported: this shell only),
    #: ``image`` (Dockerfile ENV), ``container`` (a pod's env), ``workflow`` (env of a workflow)
    reach: str = "exported"
    #: it is set on every way through the file: not below a test, in a loop, or in a function that may not be called
    certain: bool = True
    #: the value as it stands in the file, quotes and all
    written: str = ""
    #: as ``Word.by_each_task``, for the variables in the value
    by_each_task: bool | None = None

    @property
    def reaches_processes(self) -> bool:
        return self.reach != "shell"


class Allocation(NamedTuple):
    """What a scheduler gives to a job or step. A field is None where nothing says it."""

    #: ``slurm``, ``pbs``, ``lsf``
    scheduler: str
    nodes: Scalar | None = None
    #: most nodes, where a range is asked for (``--nodes=2-4``); else as ``nodes``
    nodes_max: Scalar | None = None
    tasks: Scalar | None = None
    tasks_per_node: Scalar | None = None
    gpus: Scalar | None = None
    gpus_per_node: Scalar | None = None
    gpus_per_task: Scalar | None = None
    cpus_per_task: Scalar | None = None
    cpus_per_gpu: Scalar | None = None
    memory_bytes_per_node: Scalar | None = None
    #: a job array, or one that is made of several components: their counts are not one job's
    array: bool = False
    heterogeneous: bool = False
    #: the scheduler gives each task its own GPU only (``--gpus-per-task``, ``--gpu-bind``)
    binds_gpus: bool = False
    #: the directives of the file, by long name without dashes (``ntasks-per-node``), as they are in force
    directives: Mapping[str, Scalar] = {}


class Pods(NamedTuple):
    """Pods of one kind in a manifest that run one container: the workers of a PyTorchJob, a StatefulSet's pods."""

    #: ``PyTorchJob``, ``TrainJob``, ``MPIJob``, ``JobSet``, ``VolcanoJob``, ``Job``, ``Pod``, ``StatefulSet`` …
    kind: str
    name: str | None
    #: ``Master``, ``Worker``, ``Launcher``, the name of a replicated job …
    role: str | None
    span: Span
    #: pods of this kind, and nodes of the whole job where they can be told
    replicas: Scalar | None = None
    nodes: Scalar | None = None
    #: GPUs of a container (``nvidia.com/gpu``, ``amd.com/gpu`` …), in CPUs and bytes the limits; None: none is set
    gpus: Scalar | None = None
    cpus: Scalar | None = None
    memory_bytes: Scalar | None = None
    #: ``/dev/shm``: ``default`` (64 MB), ``mounted`` (see ``shared_memory_bytes``; None: up to the node's memory),
    #: ``host`` (hostIPC) or ``unknown``
    shared_memory: str = "unknown"
    shared_memory_bytes: Scalar | None = None
    host_network: bool | None = None
    #: variables of the container
    settings: tuple[FileSetting, ...] = ()
    #: ``spec.nprocPerNode`` of a PyTorchJob, ``numProcPerNode`` of a TrainJob
    nproc: Scalar | None = None
    #: the operator sets these variables itself
    injected: frozenset[str] = frozenset()
    container: str | None = None
    #: what the operator gives to the injected variables, where that can be told: the values that they may have
    operator_values: Mapping[str, tuple[str, ...]] = {}
    #: the words of its command and arguments, as they stand; empty: the image decides
    command: tuple[str, ...] = ()


class Repeat(NamedTuple):
    """A launch line is carried out several times by the file itself."""

    #: ``hosts`` (ssh, pdsh, a loop over host names), ``ranks`` (a loop over numbers of ranks), ``loop`` (other)
    what: str
    #: how often, None where it is unknown
    times: int | None
    span: Span
    #: the loop's variable
    variable: str | None = None


class LaunchSite(NamedTuple):
    """A line that starts ranks, or may: a launch command in its place, with all that bears on it.

    ``command`` is what the one parser of launch commands makes of the words. What stands around it (``ssh``, ``srun``,
    ``docker run``, ``bash -c``) is among its words and wrappers.
    """

    command: LaunchCommand
    words: tuple[Word, ...]
    span: Span
    #: where it stands: ``shell``, ``slurm`` (a job script with directives), ``dockerfile``, ``makefile``, ``markdown``,
    #: ``workflow``, ``pod``
    kind: str = "shell"
    #: the variables that its processes get from the file, the last one of each name
    settings: Mapping[str, FileSetting] = {}
    #: variables that this shell has and its processes don't get: assigned and never exported
    unexported: Mapping[str, FileSetting] = {}
    #: what the job (directives) and the step around it (srun's own options over them) are given
    allocation: Allocation | None = None
    #: what the job as a whole is given, without the step's options
    job: Allocation | None = None
    pods: Pods | None = None
    repeats: tuple[Repeat, ...] = ()
    #: the texts of the tests under which it is carried out (``[ "$(hostname)" = node1 ]``, ``case $1``)
    conditions: tuple[str, ...] = ()
    #: carried out in the background (``&``)
    background: bool = False
    #: the folder that it is started in, relative to the working directory as paths are; None where it is unknown
    folder: str | None = None
    #: the name of the function or make target that it stands in
    routine: str | None = None

    @property
    def of_job(self) -> Allocation | None:
        """What the job as a whole is given, as far as that is known apart from the step."""
        return self.job if self.job is not None else self.allocation

    @property
    def in_slurm_job(self) -> bool:
        """Return whether Slurm starts the job."""
        return self.of_job is not None and self.of_job.scheduler == "slurm"

    def where(self, word: Word | None = None, *, object: str | None = None) -> Where:
        """Return the location of a word for a finding; without a word, that of the whole line."""
        return (self.span if word is None else word.span).where(object=object)

    def option(self, *names: str) -> Word | None:
        """The word with an option of the launcher or of what stands before it, its value in it or behind it.

        :param names: as ``--nproc-per-node``; dashes and underscores within are the same. The last one given counts.
        """
        found = None
        for word in self._own_words():
            if _plain(word.text.partition("=")[0]) in {_plain(name) for name in names}:
                found = word
        return found

    def value(self, *names: str) -> Word | None:
        """The word that holds the value of an option: behind it, or (``--nnodes=2``) the part behind the sign."""
        words = list(self._own_words())
        found: Word | None = None
        wanted = {_plain(name) for name in names}
        for index, word in enumerate(words):
            name, equals, value = word.text.partition("=")
            if _plain(name) not in wanted:
                continue
            if equals:
                written = word.written.partition("=")[2]
                span = word.span
                if (
                    "=" in word.written
                    and span.line == span.end_line
                    and len(word.written) == span.end_column - span.column
                ):
                    span = span._replace(column=span.end_column - len(written))
                found = Word(value, span, written, word.origins, word.by_each_task)
            elif index + 1 < len(words):
                found = words[index + 1]
        return found

    def _own_words(self) -> Iterator[Word]:
        """The words up to the script: those of the launcher and of what stands before it."""
        behind = len(self.command.script_args)
        yield from self.words[: len(self.words) - behind] if behind else self.words


class Configured(NamedTuple):
    """A configuration of a launcher: accelerate's YAML, DeepSpeed's JSON."""

    #: ``accelerate`` or ``deepspeed``
    launcher: str
    span: Span
    #: values by dotted name (``deepspeed_config.zero_stage``); lists and tables as plain values in one Scalar as well
    values: Mapping[str, Scalar]

    def get(self, name: str) -> Scalar | None:
        return self.values.get(name)


class HostSlots(NamedTuple):
    """A line of a hostfile of DeepSpeed or MPI."""

    host: str
    slots: int | None
    span: Span


#: How a problem begins that is none of the file: what reads shell is not installed.
WITHOUT_GRAMMAR = "the shell in it was not read: "


class LaunchFile(NamedTuple):
    """One file."""

    path: str
    #: one of KINDS
    kind: str
    sites: tuple[LaunchSite, ...] = ()
    #: all variables that the file sets, in order, whether or not a launch line stands behind them
    settings: tuple[FileSetting, ...] = ()
    allocation: Allocation | None = None
    pods: tuple[Pods, ...] = ()
    configurations: tuple[Configured, ...] = ()
    hosts: tuple[HostSlots, ...] = ()
    #: comments by line, as they stand, for suppressions
    comments: tuple[tuple[int, str], ...] = ()
    #: why it (or a part of it) could not be read, with line and column (0: not known)
    problems: tuple[tuple[str, int, int], ...] = ()
    #: the lines, for the report
    lines: tuple[str, ...] = ()
    #: other files that were read with it: sourced ones
    also_read: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[tuple[str, int, int], ...]:
        """Those of its problems that are its own."""
        return tuple(problem for problem in self.problems if not problem[0].startswith(WITHOUT_GRAMMAR))

    @property
    def why_no_shell(self) -> str | None:
        """Why the shell in it was not read at all, though nothing is wrong with it."""
        whys = (why for why, _, _ in self.problems if why.startswith(WITHOUT_GRAMMAR))
        return next(whys, WITHOUT_GRAMMAR).removeprefix(WITHOUT_GRAMMAR) or None


class LaunchFiles(NamedTuple):
    """All launch files of a run, in the order in which they are reported."""

    files: tuple[LaunchFile, ...] = ()

    def sites(self) -> Iterator[tuple[LaunchFile, LaunchSite]]:
        """Each launch line with its file."""
        for file in self.files:
            for site in file.sites:
                yield file, site


class Nodes(NamedTuple):
    """The nodes that the jobs will run on, as somebody has stated them. None: not known."""

    #: the file that says so
    origin: str
    gpus: int | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    interfaces: tuple[str, ...] | None = None
    gpu_name: str | None = None


def _plain(option: str) -> str:
    dashes = len(option) - len(option.lstrip("-"))
    return option[:dashes] + option[dashes:].replace("_", "-")


#: torchrun in each of its spellings.
TORCHRUN_LAUNCHERS = frozenset({"torchrun", "torch.distributed.launch"})


def known(scalar: Scalar | None) -> int | None:
    """The number of a scalar, None where there is none or it is not known."""
    return None if scalar is None else scalar.number


#: Gives the bytes of another file (a sourced script, a hostfile) by its path relative to the working directory, None
#: where there is none.
LookUp = Callable[[str], bytes | None]
