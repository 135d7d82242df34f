"""What a job requests from a scheduler: directives (``#SBATCH``, ``#PBS``, ``#BSUB``), and options of srun.

Precedence is that of sbatch(1) and srun(1), Slurm 23.11. The command line overrides Slurm's variables, and these the
directives. A step inherits from its job what its own options do not set.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from distcheck.core.patterns import lazy
from distcheck.core.spans import Span
from distcheck.launch._shell import has_expansion
from distcheck.launch._wrapper_table import WRAPPERS
from distcheck.launch._wrappers import own_words

from .fragments import Fragment
from .model import Allocation, Scalar, Word

_DIRECTIVE = lazy(r"#(SBATCH|PBS|BSUB)\b[ \t]*(.*)")
#: The directives that a program reads.
_SUBMITS = {"sbatch": "SBATCH", "qsub": "PBS", "bsub": "BSUB"}
_HETEROGENEOUS = lazy(r"#SBATCH[ \t]+(hetjob|packjob)\b")
_WORD = lazy(r"""(?:"[^"]*"|'[^']*'|\$?\{\{.*?\}\}|[^\s"'])+""")

_SHORT = {
    "-N": "nodes",
    "-n": "ntasks",
    "-c": "cpus-per-task",
    "-G": "gpus",
    "-J": "job-name",
    "-p": "partition",
    "-t": "time",
    "-A": "account",
    "-o": "output",
    "-e": "error",
    "-w": "nodelist",
    "-x": "exclude",
    "-C": "constraint",
    "-D": "chdir",
    "-d": "dependency",
    "-a": "array",
    "-q": "qos",
    "-m": "distribution",
    "-b": "begin",
    "-L": "licenses",
}
_ALIASES = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir"}

#: Slurm's variables of a job, with the fields of the allocation (sbatch(1)).
_REPEATS = {
    "SLURM_NNODES": "nodes",
    "SLURM_JOB_NUM_NODES": "nodes",
    "SLURM_NTASKS": "tasks",
    "SLURM_NPROCS": "tasks",
    "SLURM_NTASKS_PER_NODE": "tasks_per_node",
    "SLURM_CPUS_PER_TASK": "cpus_per_task",
    "SLURM_GPUS": "gpus",
    "SLURM_GPUS_PER_NODE": "gpus_per_node",
    "SLURM_GPUS_ON_NODE": "gpus_per_node",
    "SLURM_GPUS_PER_TASK": "gpus_per_task",
}
_UNITS = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def read_directives(fragment: Fragment, submitter: str | None = None, given: Sequence[Word] = ()) -> Allocation | None:
    """Return what the directives at the head of a script request, or None.

    For the scheduler, directives after the first command are comments.

    :param submitter: the program that submits the script, if that is known
    :param given: its words, whose options override the directives
    """
    options: dict[str, Scalar] = {}
    scheduler = None if submitter is None else _SUBMITS[submitter]
    heterogeneous = False
    for start, line in _head(fragment.text):
        if _HETEROGENEOUS.match(line):
            heterogeneous = True
            continue
        match = _DIRECTIVE.match(line)
        if match is None or (scheduler not in (None, match[1])):
            continue
        scheduler = match[1]
        words = list(_words(match[2], fragment, start + match.start(2)))
        if heterogeneous:
            # only the first component: the job does not get what others request
            continue
        options.update(_options(scheduler, [_NAMELESS, *words]))
    if scheduler is None:
        return None
    if given:
        options.update(_options(scheduler, given))
    if scheduler == "PBS":
        return _pbs_allocation(options)
    if scheduler == "BSUB":
        return _lsf_allocation(options)
    return _slurm_allocation(options, heterogeneous=heterogeneous)


def _options(scheduler: str, words: Sequence[Word]) -> dict[str, Scalar]:
    """Return the options of a directive, or of the program that submits a script.

    :param words: the name of the program first
    """
    if scheduler == "SBATCH":
        return options_of("sbatch", words)
    return _pbs(words[1:]) if scheduler == "PBS" else _lsf(words[1:])


def _head(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script up to its first command, with offsets."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if line.strip() and not line.lstrip().startswith("#"):
            return
        yield start, line
        start = end + 1


_NAMELESS = Word("sbatch", Span("", 0, 0, 0, 0), "sbatch")


def _words(text: str, fragment: Fragment, start: int) -> Iterator[Word]:
    """Yield the words of a directive; a # between them starts a comment (slurm, src/sbatch/opt.c)."""
    for match in _WORD.finditer(text):
        if match[0].startswith("#"):
            return
        bare = re.sub(r""""([^"]*)"|'([^']*)'""", lambda quoted: quoted[1] or quoted[2] or "", match[0])
        yield Word(bare, fragment.span(start + match.start(), start + match.end()), match[0])


def options_of(program: str, words: Sequence[Word]) -> dict[str, Scalar]:
    """Return the options of ``sbatch``, ``srun`` or ``salloc`` by long name, the last one of each.

    :param words: the name of the program first
    """
    own = own_words([word.text for word in words], WRAPPERS[program])
    found: dict[str, Scalar] = {}
    if own is None:
        return found
    position = 1
    for option, value in own.options:
        name = _SHORT.get(option, option.lstrip("-"))
        name = _ALIASES.get(name, name)
        # the word of the option: own_words returns them in the same order
        at = position
        while at < min(own.end, len(words)) and not _is_option(words[at].text, option):
            at += 1
        if at >= len(words):
            at = position = min(position, len(words) - 1)
        word = words[at]
        if word.text == option and value and at + 1 < len(words):
            word = words[at + 1]
            position = at + 2
            found[name] = _scalar(value, word.span, word.written)
            continue
        position = at if len(option) == 2 and not word.text.startswith("--") and not value else at + 1
        span, written = word.span, word.written
        equals = written.find("=")
        if value and equals >= 0 and span.line == span.end_line and len(written) == span.end_column - span.column:
            span = span._replace(column=span.column + equals + 1)
            written = written[equals + 1 :]
        found[name] = _scalar(value, span, written)
    return found


def _is_option(word: str, option: str) -> bool:
    if option.startswith("--"):
        return word == option or word.startswith(option + "=")
    return word.startswith("-") and not word.startswith("--") and option[1] in word[1:]


def _scalar(value: str, span: Span, written: str) -> Scalar:
    unknown = has_expansion(value) or re.search(r"<\w|@\w+@|%\(", value) is not None
    return Scalar(None if unknown else value, span, written, not unknown)


def _counted(scalar: Scalar | None) -> Scalar | None:
    """Return a number; other text is unknown."""
    if scalar is None or not scalar.known:
        return scalar
    number = scalar.number
    return scalar._replace(value=number, known=number is not None)


def _gpus(scalar: Scalar | None, *, of_resources: bool = False) -> Scalar | None:
    """Return the GPUs of ``a100:4`` or (resources) ``gpu:a100:4(S:0-1),nvme:1``; None without GPUs."""
    if scalar is None or not scalar.known:
        return scalar
    total = 0
    found = False
    for part in re.sub(r"\([^)]*\)", "", str(scalar.value)).split(","):
        pieces = part.strip().split(":")
        if of_resources:
            if pieces[0] not in ("gpu", "gres/gpu"):
                continue
            pieces = pieces[1:] or ["1"]
        found = True
        if re.fullmatch(r"[0-9]{1,9}", pieces[-1]):
            total += int(pieces[-1])
        elif of_resources:
            # gpu:a100 requests one
            total += 1
        else:
            return scalar._replace(value=None, known=False)
    return scalar._replace(value=total) if found else None


def _bytes(scalar: Scalar | None) -> Scalar | None:
    """Return the memory of a node in bytes; ``--mem=0`` requests all of it and gives None."""
    if scalar is None or not scalar.known:
        return scalar
    match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)B?", str(scalar.value).strip(), re.IGNORECASE)
    if match is None:
        return scalar._replace(value=None, known=False)
    amount = int(match[1]) * _UNITS[match[2].upper()]
    return scalar._replace(value=amount) if amount else None


def _nodes(scalar: Scalar | None) -> tuple[Scalar | None, Scalar | None]:
    """Return the least and the most nodes."""
    if scalar is None or not scalar.known:
        return scalar, scalar
    match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", str(scalar.value).strip())
    if match is None:
        unknown = scalar._replace(value=None, known=False)
        return unknown, unknown
    return scalar._replace(value=int(match[1])), scalar._replace(value=int(match[2] or match[1]))


def _slurm_allocation(options: Mapping[str, Scalar], *, heterogeneous: bool = False) -> Allocation:
    least, most = _nodes(options.get("nodes"))
    per_node = _gpus(options.get("gpus-per-node")) or _gpus(options.get("gres"), of_resources=True)
    return Allocation(
        "slurm",
        nodes=least,
        nodes_max=most,
        tasks=_counted(options.get("ntasks")),
        tasks_per_node=_counted(options.get("ntasks-per-node")),
        gpus=_gpus(options.get("gpus")),
        gpus_per_node=per_node,
        gpus_per_task=_gpus(options.get("gpus-per-task")),
        cpus_per_task=_counted(options.get("cpus-per-task")),
        cpus_per_gpu=_counted(options.get("cpus-per-gpu")),
        memory_bytes_per_node=_bytes(options.get("mem")),
        array="array" in options,
        heterogeneous=heterogeneous or "het-group" in options or "pack-group" in options,
        binds_gpus=_binds(options),
        directives=dict(options),
    )


def _binds(options: Mapping[str, Scalar]) -> bool:
    """Return whether each task sees only its own GPUs (srun(1), --gpu-bind; --gpus-per-task implies it)."""
    bind = options.get("gpu-bind")
    if bind is not None:
        return bind.value not in ("none", "no", "verbose,none")
    return "gpus-per-task" in options or "ntasks-per-gpu" in options


def requested_allocation(words: Sequence[Word], program: str) -> Allocation:
    """Return what ``sbatch``, ``salloc`` or a srun outside a job requests."""
    return _slurm_allocation(options_of(program, words))


def step_of(job: Allocation | None, words: Sequence[Word]) -> Allocation:
    """Return what a step gets: its own options, and the rest from its job.

    Since Slurm 22.05 a step does not inherit CPUs per task. The job's tasks per node are a maximum if the step gives a
    number of tasks.

    :param words: of srun, its name first
    """
    options = options_of("srun", words)
    if job is None or job.scheduler != "slurm":
        return _slurm_allocation(options)
    for name, scalar in list(options.items()):
        repeated = re.fullmatch(r"\$\{?(\w+)\}?", scalar.written.strip("\"'"))
        field = _REPEATS.get(repeated[1]) if repeated else None
        value = getattr(job, field) if field else None
        if value is not None and value.known:
            options[name] = scalar._replace(value=str(value.value), known=True)
    own = _slurm_allocation(options)
    same_nodes = own.nodes is None or (job.nodes is not None and own.nodes.value == job.nodes.value)
    tasks, tasks_per_node = own.tasks, own.tasks_per_node
    if tasks is None and tasks_per_node is None:
        tasks_per_node = job.tasks_per_node
        tasks = job.tasks if same_nodes else None
    own_gpus = own.gpus or own.gpus_per_node or own.gpus_per_task
    return own._replace(
        nodes=own.nodes or job.nodes,
        nodes_max=own.nodes_max or job.nodes_max,
        tasks=tasks,
        tasks_per_node=tasks_per_node,
        gpus=own.gpus if own_gpus or not same_nodes else job.gpus,
        gpus_per_node=own.gpus_per_node if own_gpus else job.gpus_per_node,
        gpus_per_task=own.gpus_per_task if own_gpus else job.gpus_per_task,
        cpus_per_gpu=own.cpus_per_gpu or job.cpus_per_gpu,
        memory_bytes_per_node=own.memory_bytes_per_node or job.memory_bytes_per_node,
        array=job.array,
        heterogeneous=own.heterogeneous or job.heterogeneous,
        binds_gpus=own.binds_gpus if own_gpus or "gpu-bind" in options else job.binds_gpus,
        directives=job.directives,
    )


def _pbs(words: Sequence[Word]) -> dict[str, Scalar]:
    """``-l select=2:ncpus=8:ngpus=4:mpiprocs=4`` (PBS Professional), ``-l nodes=2:ppn=8:gpus=4`` (Torque)."""
    found: dict[str, Scalar] = {}
    for index, word in enumerate(words):
        if word.text.startswith("-J"):
            found["array"] = _scalar("", word.span, word.written)
        if word.text != "-l" and not (index and words[index - 1].text == "-l"):
            continue
        resources = word.text.split(",") if word.text != "-l" else []
        for resource in resources:
            name, _, value = resource.partition("=")
            if name not in ("select", "nodes"):
                found[name] = _scalar(value, word.span, word.written)
                continue
            chunks = value.split("+")
            if len(chunks) > 1:
                found["chunks"] = _scalar("", word.span, word.written)
            count, *parts = chunks[0].split(":")
            found[name] = _scalar(count, word.span, word.written)
            for part in parts:
                key, _, amount = part.partition("=")
                found[key] = _scalar(amount, word.span, word.written)
    return found


def _pbs_allocation(options: Mapping[str, Scalar]) -> Allocation:
    nodes = _counted(options.get("select") or options.get("nodes"))
    return Allocation(
        "pbs",
        nodes=nodes,
        nodes_max=nodes,
        tasks_per_node=_counted(options.get("mpiprocs") or options.get("ppn")),
        gpus_per_node=_counted(options.get("ngpus") or options.get("gpus")),
        array="array" in options,
        heterogeneous="chunks" in options,
        directives=dict(options),
    )


def _lsf(words: Sequence[Word]) -> dict[str, Scalar]:
    """``-n 8``, ``-nnodes 2``, ``-gpu "num=4"``, and as ``cpus`` another way to CPUs (IBM Spectrum LSF 10.1, bsub)."""
    found: dict[str, Scalar] = {}
    for word in words:
        if word.text in ("-x", "-aff") or "affinity[" in word.text:
            found["cpus"] = Scalar(None, word.span, word.written)
    for word, value in itertools.pairwise(words):
        if word.text in ("-n", "-nnodes", "-J"):
            found[word.text[1:]] = _scalar(value.text, value.span, value.written)
        elif word.text == "-gpu":
            match = re.search(r"\bnum=([^:]+)", value.text)
            if match:
                found["gpu"] = _scalar(match[1], value.span, value.written)
        elif word.text == "-R":
            match = re.search(r"\bspan\[ptile=([^]]+)\]", value.text)
            if match:
                found["ptile"] = _scalar(match[1], value.span, value.written)
    return found


def _lsf_allocation(options: Mapping[str, Scalar]) -> Allocation:
    nodes = _counted(options.get("nnodes"))
    job = options.get("J")
    return Allocation(
        "lsf",
        nodes=nodes,
        nodes_max=nodes,
        tasks=_counted(options.get("n")),
        tasks_per_node=_counted(options.get("ptile")),
        gpus_per_node=_counted(options.get("gpu")),
        array=job is not None and isinstance(job.value, str) and "[" in job.value,
        directives=dict(options),
    )
