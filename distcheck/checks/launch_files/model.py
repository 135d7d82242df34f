"""The contents of launch files as values: files, launch lines, variables, allocations, pods, configurations.

A value that only the shell, the scheduler or a template knows is *unknown*. It exists, but is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.model import Where
from distcheck.core.spans import Span
from distcheck.launch.model import LaunchCommand

#: The kinds of files; all but the last two can hold commands.
KINDS = (
    "shell", "dockerfile", "makefile", "markdown", "workflow", "kubernetes", "job", "accelerate", "deepspeed",
    "hostfile",
)  # fmt: skip


class Scalar(NamedTuple):
    """A value in a file."""

    #: None if it is unknown (a variable, a template: ``known`` is false) or null
    value: Any
    span: Span
    #: as written in the file
    written: str = ""
    known: bool = True

    @property
    def number(self) -> int | None:
        """Return the value if it is a known whole number, also one in quotes, otherwise None."""
        if not self.known or isinstance(self.value, bool):
            return None
        if isinstance(self.value, int):
            return self.value
        if isinstance(self.value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", self.value):
            return int(self.value)
        return None


class Word(NamedTuple):
    """A word of a command."""

    #: without quotes, with known variables replaced; unknown parts stay as written (``$SLURM_NNODES``)
    text: str
    span: Span
    written: str = ""
    #: the assignments of the replaced variables: where a fix changes the value
    origins: tuple[Span, ...] = ()
    #: true: each task expands its variables, after srun, ssh or the like (``srun bash -c '…$SLURM_NODEID'``); false:
    #: the file's own shell does, once; None: unknown
    by_each_task: bool | None = None


class FileSetting(NamedTuple):
    """A variable that a file sets."""

    name: str
    #: None if it is unknown
    value: str | None
    #: the whole assignment; the name and the value follow
    span: Span
    name_span: Span
    value_span: Span | None = None
    #: its scope: ``exported`` (all following commands), ``line`` (the command after it, also by env, mpirun -x, srun
    #: --export, docker -e), ``shell`` (not exported), ``image`` (Dockerfile ENV), ``container`` (a pod's env),
    #: ``workflow`` (env of a workflow)
    reach: str = "exported"
    #: it is always set: not under a test, in a loop, or in a function that may not be called
    certain: bool = True
    #: the value as written in the file, with quotes
    written: str = ""
    #: as ``Word.by_each_task``, for the variables in the value
    by_each_task: bool | None = None

    @property
    def reaches_processes(self) -> bool:
        return self.reach != "shell"


#: The scheduler of a job of Azure ML, which starts the processes of each machine itself.
AZURE = "Azure ML"


class Allocation(NamedTuple):
    """What a scheduler gives to a job or step. A field is None if nothing sets it."""

    #: ``slurm``, ``pbs``, ``lsf``, ``SkyPilot``, ``Azure ML``
    scheduler: str
    nodes: Scalar | None = None
    #: the maximum of a range of nodes (``--nodes=2-4``); otherwise as ``nodes``
    nodes_max: Scalar | None = None
    tasks: Scalar | None = None
    tasks_per_node: Scalar | None = None
    gpus: Scalar | None = None
    gpus_per_node: Scalar | None = None
    gpus_per_task: Scalar | None = None
    cpus_per_task: Scalar | None = None
    cpus_per_gpu: Scalar | None = None
    memory_bytes_per_node: Scalar | None = None
    #: a job array, or a job of several components: the counts are not those of one job
    array: bool = False
    heterogeneous: bool = False
    #: each task sees only its own GPU (``--gpus-per-task``, ``--gpu-bind``)
    binds_gpus: bool = False
    #: the effective directives of the file, by long name without dashes (``ntasks-per-node``)
    directives: Mapping[str, Scalar] = {}


class Pods(NamedTuple):
    """Pods of one kind in a manifest that run one container: the workers of a PyTorchJob, a StatefulSet's pods."""

    #: ``PyTorchJob``, ``TrainJob``, ``MPIJob``, ``JobSet``, ``VolcanoJob``, ``Job``, ``Pod``, ``StatefulSet`` …
    kind: str
    name: str | None
    #: ``Master``, ``Worker``, ``Launcher``, the name of a replicated job …
    role: str | None
    span: Span
    #: pods of this kind, and nodes of the whole job if known
    replicas: Scalar | None = None
    nodes: Scalar | None = None
    #: limits of a container: GPUs (``nvidia.com/gpu``, ``amd.com/gpu`` …), CPUs, bytes; None: no limit
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
    #: possible values of the injected variables, if known
    operator_values: Mapping[str, tuple[str, ...]] = {}
    #: the words of its command and arguments; empty: the image decides
    command: tuple[str, ...] = ()


class Repeat(NamedTuple):
    """The file itself runs a launch line several times."""

    #: ``hosts`` (ssh, pdsh, a loop over host names), ``ranks`` (a loop over numbers of ranks), ``loop`` (other)
    what: str
    #: how often, or None if unknown
    times: int | None
    span: Span
    #: the loop's variable
    variable: str | None = None


class LaunchSite(NamedTuple):
    """A line that starts ranks, or may do so: a launch command with its context.

    ``command`` is the result of the parser of launch commands. The programs around it (``ssh``, ``srun``, ``docker
    run``,
    ``bash -c``) are among its words and wrappers.
    """

    command: LaunchCommand
    words: tuple[Word, ...]
    span: Span
    #: the kind of its text: ``shell``, ``slurm`` (a job script with directives), ``dockerfile``, ``makefile``,
    #: ``markdown``, ``workflow``, ``pod``
    kind: str = "shell"
    #: the variables that its processes get from the file
    settings: Mapping[str, FileSetting] = {}
    #: variables of this shell that its processes do not get: assigned and never exported
    unexported: Mapping[str, FileSetting] = {}
    #: what the job (directives) and the step around it (srun's own options) get
    allocation: Allocation | None = None
    #: what the whole job gets, without the step's options
    job: Allocation | None = None
    pods: Pods | None = None
    repeats: tuple[Repeat, ...] = ()
    #: the texts of the tests under which it runs (``[ "$(hostname)" = node1 ]``, ``case $1``)
    conditions: tuple[str, ...] = ()
    #: it runs in the background (``&``)
    background: bool = False
    #: the folder in which it starts, relative to the working directory; None if unknown
    folder: str | None = None
    #: the function or make target that contains it
    routine: str | None = None

    @property
    def of_job(self) -> Allocation | None:
        """Return what the whole job gets, as far as it is known apart from the step."""
        return self.job if self.job is not None else self.allocation

    @property
    def in_slurm_job(self) -> bool:
        """Return whether a batch script of Slurm holds the line: the shell of a script that calls srun is in no job."""
        return self.kind in ("slurm", "markdown") and self.job is not None and self.job.scheduler == "slurm"

    def where(self, word: Word | None = None, *, object: str | None = None) -> Where:
        """Return the location of a word for a finding; if there is no word, that of the whole line."""
        return (self.span if word is None else word.span).where(object=object)

    def option(self, *names: str) -> Word | None:
        """Return the word with an option of the launcher or of a program before it.

        :param names: such as ``--nproc-per-node``; dashes and underscores are equal. The last one counts.
        """
        found = None
        wanted = {_plain(name) for name in names}
        for word in self._own_words():
            if _plain(word.text.partition("=")[0]) in wanted:
                found = word
        return found

    def value(self, *names: str) -> Word | None:
        """Return the word with the value of an option: the next word, or the part after ``=``."""
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
        """Yield the words up to the script."""
        behind = len(self.command.script_args)
        yield from self.words[: len(self.words) - behind] if behind else self.words


class Configured(NamedTuple):
    """A configuration of a launcher: accelerate's YAML, or DeepSpeed's JSON."""

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


#: The prefix of a problem that is not the file's: the shell grammar is not installed.
WITHOUT_GRAMMAR = "the shell in it was not read: "


class LaunchFile(NamedTuple):
    """One file."""

    path: str
    #: one of KINDS
    kind: str
    sites: tuple[LaunchSite, ...] = ()
    #: all variables that the file sets, in order, with or without a launch line after them
    settings: tuple[FileSetting, ...] = ()
    allocation: Allocation | None = None
    pods: tuple[Pods, ...] = ()
    configurations: tuple[Configured, ...] = ()
    hosts: tuple[HostSlots, ...] = ()
    #: comments by line, for suppressions
    comments: tuple[tuple[int, str], ...] = ()
    #: why the file, or a part, could not be read, with line and column (0: unknown)
    problems: tuple[tuple[str, int, int], ...] = ()
    #: the lines, for the report
    lines: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[tuple[str, int, int], ...]:
        """Return the problems of the file itself."""
        return tuple(problem for problem in self.problems if not problem[0].startswith(WITHOUT_GRAMMAR))

    @property
    def why_no_shell(self) -> str | None:
        """Return why its shell text was not read, although the file has no error."""
        whys = (why for why, _, _ in self.problems if why.startswith(WITHOUT_GRAMMAR))
        return next(whys, WITHOUT_GRAMMAR).removeprefix(WITHOUT_GRAMMAR) or None


class LaunchFiles(NamedTuple):
    """All launch files of a run, in the order of the report."""

    files: tuple[LaunchFile, ...] = ()

    def sites(self) -> Iterator[tuple[LaunchFile, LaunchSite]]:
        """Yield each launch line with its file."""
        for file in self.files:
            for site in file.sites:
                yield file, site


class Nodes(NamedTuple):
    """The nodes that the jobs will run on, as the user stated them. None: unknown."""

    #: the file with these facts
    origin: str
    gpus: int | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    interfaces: tuple[str, ...] | None = None
    gpu_name: str | None = None


def _plain(option: str) -> str:
    if "_" not in option:
        return option
    dashes = len(option) - len(option.lstrip("-"))
    return option[:dashes] + option[dashes:].replace("_", "-")


#: The names of torchrun.
TORCHRUN_LAUNCHERS = frozenset({"torchrun", "torch.distributed.launch"})


def known(scalar: Scalar | None) -> int | None:
    """Return the number of a scalar, or None if it is missing or unknown."""
    return None if scalar is None else scalar.number


#: Returns the bytes of another file (a sourced script, a hostfile) by its path relative to the working directory, or
#: None.
LookUp = Callable[[str], bytes | None]
