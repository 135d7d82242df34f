"""Job files of cloud launchers in YAML: SkyPilot, MosaicML's mcli, Azure ML and dstack.

The shell text runs on the machines of the job, with the variables of the file. Values that the service fills in are
unknown, but for SkyPilot's number of machines. Counts of machines are not compared. SkyPilot's number of GPUs
of a machine is, and the processes that Azure ML starts on each.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck.core.patterns import lazy
from distcheck.launch.model import RENDEZVOUS_VARIABLES

from .fragments import Fragment, FragmentBuilder
from .model import AZURE, Allocation, FileSetting, LaunchFile, LookUp
from .plain_commands import FileContents, in_image
from .workflow import table_of_variables
from .yaml_text import Node, read_yaml

#: Keys of the shell text: SkyPilot (``setup``, ``run``), mcli and Azure ML (``command``), dstack (``commands``).
_TEXTS = ("setup", "run", "command", "commands")
#: Keys of the variables: SkyPilot, dstack, mcli, Azure ML.
_VARIABLES = ("envs", "env", "env_variables", "environment_variables")
#: SkyPilot's key for the number of machines, and the variable that holds it on each of them.
_MACHINES, _MACHINES_VARIABLE = "num_nodes", "SKYPILOT_NUM_NODES"
_ACCELERATORS = lazy(r"[A-Za-z][\w.-]*(?::([0-9]{1,4}))?")
#: With these keys the service numbers machines or processes itself: Azure ML's ``distribution``, mcli's ``compute``.
_NUMBERED = ("distribution", "compute")


def read_job(path: str, text: str, look_up: LookUp) -> LaunchFile:
    """Return the contents of a job file. Never raises: unreadable parts are problems of the file."""
    from .shell import read_shell

    yaml = read_yaml(Fragment(text, path))
    contents = FileContents()
    contents.problems.extend(yaml.problems)
    contents.comments.extend(yaml.comments)
    for document in yaml.documents:
        for job in _jobs(document):
            environ = {
                name: setting for key in _VARIABLES for name, setting in table_of_variables(job.get(key)).items()
            }
            contents.settings.extend(environ.values())
            machines = job.table.get(_MACHINES)
            if machines is not None and machines.kind == "value" and machines.text.isdecimal():
                number = FileSetting(_MACHINES_VARIABLE, machines.text, machines.span, machines.span)
                environ = {_MACHINES_VARIABLE: number, **environ}
            if any(job.table.get(key) is not None for key in _NUMBERED):
                given = {name: FileSetting(name, None, job.span, job.span) for name in RENDEZVOUS_VARIABLES}
                environ = {**given, **environ}
            for key in _TEXTS:
                fragment = _text(job.table.get(key), path)
                if fragment is not None:
                    read = read_shell(fragment, look_up, kind="pod", environ=environ)
                    got = _gpus(job) or _processes(job)
                    sites = read.sites if got is None else tuple(site._replace(allocation=got) for site in read.sites)
                    contents.add(read._replace(sites=in_image(sites)))
    return contents.file(path, "job")


def _gpus(job: Node) -> Allocation | None:
    """Return the GPUs of each machine, ``resources.accelerators`` of SkyPilot: ``A100:8``, or ``A100`` for one."""
    named = job.value("resources", "accelerators")
    match = None if named is None or not named.known else _ACCELERATORS.fullmatch(str(named.value))
    if named is None or match is None:
        return None
    return Allocation("SkyPilot", gpus_per_node=named._replace(value=int(match[1] or 1)))


def _processes(job: Node) -> Allocation | None:
    """Return the processes that Azure ML starts on each machine (``distribution`` of the schema of a command job)."""
    kind = job.value("distribution", "type")
    count = job.value("distribution", "process_count_per_instance")
    if kind is None or str(kind.value).lower() not in ("pytorch", "mpi") or count is None or not count.number:
        return None
    return Allocation(AZURE, nodes=job.value("resources", "instance_count"), tasks_per_node=count)


def _jobs(document: Node) -> Iterator[Node]:
    """Yield the job of a document, or those of an Azure ML pipeline."""
    yield document
    jobs = document.table.get("jobs")
    if jobs is not None:
        yield from jobs.table.values()


def _text(node: Node | None, path: str) -> Fragment | None:
    """Return the shell text of a value, or of a list with a command in each item."""
    if node is None or node.kind == "table":
        return None
    if node.kind == "value":
        return node.fragment()
    made = FragmentBuilder()
    for item in node.items:
        if item.kind == "value":
            made.add(item.fragment())
            made.add_text("\n")
    return made.fragment(path)
