"""Launch scripts that a program makes: what it made consistent is never reported, what it broke is, and nothing else.

A :class:`Job` says what is started, a :class:`Spelling` how it is written: options with ``=`` or a blank, dashes or
underscores, numbers in variables, arguments in arrays or strings, lines that go on, functions, heredocs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.core.fixes import apply_fixes
from distcheck.core.model import Severity

from .cases import Judged, judge

#: Where a job stands; the place decides who starts the command on each node, and how often.
PLACES = ("slurm", "ssh", "by_hand", "pods", "one_node")
SEVERAL_NODES = ("slurm", "ssh", "by_hand", "pods")
HEAD = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)'


class Job(NamedTuple):
    """What is started. What a field is None for is left out."""

    place: str
    #: what the scheduler or the manifest gives
    nodes: int
    gpus: int
    #: what the launcher is told
    nnodes: int | None
    nproc: int
    #: ``c10d`` or ``static``
    backend: str
    tasks_per_node: int = 1
    #: the address as a shell writes it; empty: that of the place
    address: str = ""
    port: str = "29500"
    #: empty: that of the place
    node_rank: str = ""
    rdzv_id: str = ""
    launcher: str = "torchrun"
    #: in front of the launcher
    before: str = ""
    #: without it the body of a Slurm script starts the command on its first node only
    by_srun: bool = True
    exports: tuple[str, ...] = ("OMP_NUM_THREADS=8", "NCCL_DEBUG=WARN")
    #: assigned and not exported
    assigned: tuple[str, ...] = ()
    #: the launcher's options behind the script
    behind: tuple[str, ...] = ()
    #: the node facts, where somebody stated them
    cpus_of_pod: int | None = None


class Spelling(NamedTuple):
    """How it is written."""

    equals: bool = True
    underscores: bool = True
    #: numbers and addresses are put into variables first
    variables: bool = False
    braces: bool = False
    quoted: bool = False
    #: ``plain``, ``array``, ``string`` or ``launcher`` (a variable that holds the launcher with its options)
    options: str = "plain"
    continued: bool = False
    function: bool = False
    heredoc: bool = False
    #: short options of Slurm and directives with a blank
    short: bool = False
    noise: bool = False


class Text(NamedTuple):
    """A file that was made."""

    path: str
    text: str


def made(job: Job, spelling: Spelling) -> Text:
    """The file for a job."""
    if job.place == "pods":
        return Text("job.yaml", _manifest(job, spelling))
    lines = ["#!/bin/bash"]
    if job.place == "slurm":
        lines += _directives(job, spelling)
    if spelling.noise:
        lines += [
            "",
            "# torchrun --nnodes=64 train.py --nproc_per_node=8",
            "set -euo pipefail",
            'echo "on $(hostname)"',
        ]
    if job.place != "ssh":  # which hands none of them on
        lines += [f"export {text}" for text in job.exports]
    lines += job.assigned
    body = _body(job, spelling)
    if spelling.function:
        body = ["main() {", *(f"  {line}" for line in body), "}", "", 'main "$@"']
    lines += body
    text = "\n".join(lines) + "\n"
    if job.place == "slurm" and spelling.heredoc:
        return Text("submit.sh", f"#!/bin/sh\nsbatch <<'EOF'\n{text}EOF\n")
    return Text("job.sbatch" if job.place == "slurm" else "run.sh", text)


def _directives(job: Job, spelling: Spelling) -> list[str]:
    if spelling.short:
        given = [f"-N {job.nodes}", f"--ntasks-per-node {job.tasks_per_node}", f"--gres gpu:{job.gpus}", "-J train"]
    else:
        given = [
            f"--nodes={job.nodes}",
            f"--ntasks-per-node={job.tasks_per_node}",
            f"--gpus-per-node={job.gpus}",
            "--job-name=train",
        ]
    return [f"#SBATCH {text}" for text in given]


def _body(job: Job, spelling: Spelling) -> list[str]:
    """The commands of a shell script, behind its settings."""
    if job.place == "slurm":
        by_task = job.backend == "static" or "$RANDOM" in job.rdzv_id
        address = job.address or HEAD
        start = "srun " if job.by_srun else ""
        if not by_task:
            return [f"head={address}", *_command(job, spelling, "$head", start=start)]
        # what differs from task to task is left to the shell of the task
        rank = job.node_rank or "$SLURM_NODEID"
        inner = _words(job, spelling, "$MASTER_ADDR", rank)
        return [f"export MASTER_ADDR={address}", f"{start}bash -c '{' '.join(inner)}'"]
    if job.place == "ssh":
        hosts = " ".join(f"gpu{number}" for number in range(job.nodes))
        rank = job.node_rank or "$i"
        inner = _words(job, spelling._replace(quoted=False), job.address or "gpu0", rank)
        command = " ".join([*(["env", *job.exports] if spelling.short else job.exports), *inner])
        return [
            f"hosts=({hosts})",
            'for i in "${!hosts[@]}"; do',
            f'  ssh "${{hosts[$i]}}" "cd /data/run && {command}" &',
            "done",
            "wait",
        ]
    if job.place == "by_hand":
        return _command(job, spelling, job.address or "10.11.12.13", rank=job.node_rank or "$1")
    return _command(job, spelling, "")


def _command(job: Job, spelling: Spelling, address: str, *, start: str = "", rank: str = "") -> list[str]:
    """The launch command with what it needs in front of it."""
    lines = []
    shown = job
    if spelling.variables:
        name = "${GPUS}" if spelling.braces else "$GPUS"
        lines.append(f"GPUS={job.nproc}")
        words = _words(shown, spelling, address, rank, nproc=name)
    else:
        words = _words(shown, spelling, address, rank)
    launcher, options, script = words[0], words[1:-1], words[-1]
    before = start + job.before
    if spelling.options == "array":
        lines += ["ARGS=(", *(f"  {word}" for word in options), ")"]
        return [*lines, f'{before}{launcher} "${{ARGS[@]}}" {script}']
    if spelling.options == "string":
        lines.append(f'ARGS="{" ".join(word.replace(chr(34), "") for word in options)}"')
        return [*lines, f"{before}{launcher} $ARGS {script}"]
    if spelling.options == "launcher":
        lines.append(f'LAUNCHER="{launcher} {" ".join(word.replace(chr(34), "") for word in options)}"')
        return [*lines, f"{before}$LAUNCHER {script}"]
    if spelling.continued:
        return [*lines, f"{before}{launcher} \\", *(f"    {word} \\" for word in options), f"    {script}"]
    return [*lines, f"{before}{' '.join(words)}"]


def _words(job: Job, spelling: Spelling, address: str, rank: str, *, nproc: str = "") -> list[str]:
    """The launcher, its options, and the script with its arguments as one word."""

    def option(name: str, value: str) -> str:
        name = "--" + (name if spelling.underscores else name.replace("_", "-"))
        value = f'"{value}"' if spelling.quoted and "$" in value else value
        return f"{name}={value}" if spelling.equals else f"{name} {value}"

    options = [option("nproc_per_node", nproc or str(job.nproc))]
    if job.place == "one_node":
        options.append("--standalone")
    elif job.nnodes is not None:
        options.append(option("nnodes", str(job.nnodes)))
    if job.place != "one_node" and job.backend == "c10d":
        options.append(option("rdzv_backend", "c10d"))
        options.append(option("rdzv_id", job.rdzv_id or ("$SLURM_JOB_ID" if job.place == "slurm" else "exp-17")))
        options.append(option("rdzv_endpoint", f"{address}:{job.port}"))
    elif job.place != "one_node":
        options.append(option("node_rank", rank))
        options.append(option("master_addr", address))
        options.append(option("master_port", job.port))
    script = " ".join(["train.py", *job.behind, "--epochs 3"])
    return [job.launcher, *options, script]


def _manifest(job: Job, spelling: Spelling) -> str:
    rank = job.node_rank or "${HOSTNAME##*-}"
    words = _words(job, spelling._replace(quoted=False), job.address or "train-0.train", rank)
    command = [*(f"{word} \\" for word in words[:-1]), words[-1]] if spelling.continued else [" ".join(words)]
    environ = [text.partition("=") for text in job.exports]
    lines = [
        "apiVersion: apps/v1",
        "kind: StatefulSet",
        "metadata:",
        "  name: train",
        "spec:",
        "  serviceName: train",
        f"  replicas: {job.nodes}",
        "  selector:",
        "    matchLabels: {app: train}",
        "  template:",
        "    metadata:",
        "      labels: {app: train}",
        "    spec:",
        "      containers:",
        "        - name: train",
        "          image: registry.example.com/train:1",
        '          command: ["/bin/bash", "-c"]',
        "          args:",
        "            - |",
        *(f"              {line}" for line in command),
        *(["          env:"] if environ else []),
        *(
            f'            - {{name: {name}, value: "{value}"}}'
            if spelling.short
            else f'            - name: {name}\n              value: "{value}"'
            for name, _, value in environ
        ),
        "          resources:",
        "            limits:",
        f"              nvidia.com/gpu: {job.gpus}",
        *([f"              cpu: {job.cpus_of_pod}"] if job.cpus_of_pod is not None else []),
        "          volumeMounts:",
        "            - {name: shm, mountPath: /dev/shm}",
        "      volumes:",
        "        - {name: shm, emptyDir: {medium: Memory}}",
    ]
    if spelling.noise:
        lines = [
            "# kubectl apply -f job.yaml",
            "---",
            "apiVersion: v1",
            "kind: ConfigMap",
            "metadata: {name: c}",
            "---",
            *lines,
        ]
    return "\n".join(lines) + "\n"


def judged(text: Text) -> Judged:
    return judge({text.path: text.text.encode()})


def loud(found: Judged) -> set[str]:
    """The rules that speak above information."""
    return {item.code for item in found.findings if item.severity > Severity.INFO}


def told(text: Text, found: Judged) -> str:
    """The file and what was said of it, for whoever reads a failure."""
    said = "\n".join(f"{item.where.line}: {item.code}={item.severity.word} {item.message}" for item in found.findings)
    return f"{text.path}\n{text.text}\n{said}\nproblems: {[file.problems for file in found.files]}"


def fixed(text: Text, found: Judged) -> Text:
    """The file after one round of all fixes, the unsafe ones as well."""
    fixes = [item.fix for item in found.findings if item.fix.edits]
    edited = apply_fixes(fixes, {text.path: text.text.encode()}, others={text.path: lambda path, data: None})
    return text._replace(text=edited.files.get(text.path, text.text.encode()).decode())


SPELLINGS = st.builds(
    Spelling,
    equals=st.booleans(),
    underscores=st.booleans(),
    variables=st.booleans(),
    braces=st.booleans(),
    quoted=st.booleans(),
    options=st.sampled_from(["plain", "plain", "array", "string", "launcher"]),
    continued=st.booleans(),
    function=st.booleans(),
    heredoc=st.booleans(),
    short=st.booleans(),
    noise=st.booleans(),
)


@st.composite
def jobs(draw: st.DrawFn, *, places: tuple[str, ...] = PLACES, backends: tuple[str, ...] = ("c10d", "static")) -> Job:
    """Jobs without a fault."""
    place = draw(st.sampled_from(places))
    nodes = 1 if place == "one_node" else draw(st.integers(2, 9))
    gpus = draw(st.sampled_from([2, 4, 8]))
    launcher = draw(
        st.sampled_from(["torchrun", "python -m torch.distributed.run", "python3 -u -m torch.distributed.run"])
    )
    backend = draw(st.sampled_from(backends))
    port = draw(st.sampled_from(["29500", "29400", "12355", "6000", "23456"]))
    return Job(place, nodes, gpus, nodes, gpus, backend, port=port, launcher=launcher)


@given(job=jobs(), spelling=SPELLINGS)
@settings(deadline=None, max_examples=300)
@pytest.mark.slow
def test_what_is_consistent_is_never_reported(job: Job, spelling: Spelling) -> None:
    text = made(job, spelling)
    found = judged(text)
    assert loud(found) == set(), told(text, found)
    assert [file.problems for file in found.files] == [()], told(text, found)


@given(job=jobs(), spelling=SPELLINGS)
@settings(deadline=None, max_examples=60)
def test_the_launch_line_is_read_whatever_its_spelling(job: Job, spelling: Spelling) -> None:
    """So that silence means that it was understood, and not that it was overlooked."""
    text = made(job, spelling)
    found = judged(text)
    sites = [site for file in found.files for site in file.sites if site.command.launcher == "torchrun"]
    assert len({site.command.argv for site in sites}) == (job.nodes if _unrolled(sites) else 1), told(text, found)
    for site in sites:
        assert site.command.nproc == str(job.nproc), told(text, found)
        if job.place != "one_node":
            assert (site.command.nnodes_min, site.command.nnodes_max) == (job.nnodes, job.nnodes), told(text, found)
        assert site.command.script == "train.py", told(text, found)


def _unrolled(sites: list) -> bool:  # type: ignore[type-arg]
    """A loop over literal hosts may be read as one line that repeats, or as its lines."""
    return len(sites) > 1


Break = Callable[[Job], Job]


class Fault(NamedTuple):
    """A way to break a job, and the rule that has to say so."""

    code: str
    change: Break
    places: tuple[str, ...] = PLACES
    backends: tuple[str, ...] = ("c10d", "static")
    severity: str | None = None


def _exports(*texts: str) -> Break:
    return lambda job: job._replace(exports=(*job.exports, *texts))


def _mask(job: Job) -> str:
    return ",".join(str(number) for number in range(job.gpus))


FAULTS: Mapping[str, Fault] = {
    "more nodes than there are": Fault(
        "DC804", lambda job: job._replace(nnodes=(job.nnodes or 0) + 1), places=("slurm", "pods"), severity="error"
    ),
    "fewer nodes than there are": Fault(
        "DC804", lambda job: job._replace(nodes=job.nodes + 2), places=("slurm",), severity="error"
    ),
    "a task for each GPU": Fault(
        "DC106", lambda job: job._replace(tasks_per_node=job.gpus), places=("slurm",), severity="error"
    ),
    "no srun": Fault("DC108", lambda job: job._replace(by_srun=False), places=("slurm",), backends=("c10d",)),
    "nodes left out": Fault("DC108", lambda job: job._replace(nnodes=None), places=("slurm",)),
    "localhost": Fault("DC419", lambda job: job._replace(address="localhost"), places=SEVERAL_NODES, severity="error"),
    "own address": Fault("DC419", lambda job: job._replace(address="127.0.0.1"), places=SEVERAL_NODES),
    "no such port": Fault("DC102", lambda job: job._replace(port="66665"), places=SEVERAL_NODES, severity="error"),
    "a port of outgoing connections": Fault(
        "DC402", lambda job: job._replace(port="45000"), places=SEVERAL_NODES, severity="warning"
    ),
    "a privileged port": Fault("DC402", lambda job: job._replace(port="80"), places=SEVERAL_NODES),
    "more processes than GPUs": Fault(
        "DC301", lambda job: job._replace(nproc=2 * job.gpus), places=("slurm", "pods"), severity="error"
    ),
    "fewer processes than GPUs": Fault(
        "DC302", lambda job: job._replace(gpus=2 * job.gpus), places=("slurm", "pods"), severity="warning"
    ),
    "one node rank for all": Fault(
        "DC805",
        lambda job: job._replace(node_rank="0"),
        places=("slurm", "ssh", "pods"),
        backends=("static",),
        severity="error",
    ),
    "an id for each node": Fault(
        "DC807", lambda job: job._replace(rdzv_id="$RANDOM"), places=("slurm", "by_hand"), backends=("c10d",)
    ),
    "the list of nodes": Fault(
        "DC109", lambda job: job._replace(address="$SLURM_JOB_NODELIST"), places=("slurm",), severity="error"
    ),
    "the node that submits": Fault(
        "DC810", lambda job: job._replace(address="$SLURM_LAUNCH_NODE_IPADDR"), places=("slurm",)
    ),
    "the old launcher": Fault("DC801", lambda job: job._replace(launcher="python -m torch.distributed.launch")),
    "nohup": Fault("DC117", lambda job: job._replace(before="nohup "), places=("by_hand",)),
    "an option behind the script": Fault(
        "DC803", lambda job: job._replace(behind=("--max_restarts=0", "--rdzv_conf=timeout=900")), severity="error"
    ),
    "a misspelt variable": Fault("DC110", _exports("NCCL_SOCKET_IFNAMEE=eth0")),
    "a variable that nobody reads": Fault("DC110", _exports("GLOO_IB_DISABLE=0")),
    "a renamed variable": Fault("DC111", _exports("NCCL_ASYNC_ERROR_HANDLING=1")),
    "a word for a number": Fault("DC112", _exports("NCCL_P2P_DISABLE=true"), severity="error"),
    "a level that torch refuses": Fault("DC112", _exports("TORCH_DISTRIBUTED_DEBUG=2"), severity="error"),
    "kernels that wait": Fault("DC113", _exports("CUDA_LAUNCH_BLOCKING=1"), severity="warning"),
    "no peer-to-peer": Fault("DC114", _exports("NCCL_P2P_DISABLE=1"), severity="warning"),
    "a GPU twice": Fault("DC204", lambda job: _exports(f"CUDA_VISIBLE_DEVICES={_mask(job)},0")(job)),
    "the loopback interface": Fault("DC406", _exports("NCCL_SOCKET_IFNAME=lo"), places=SEVERAL_NODES),
    "not exported": Fault(
        "DC808",
        lambda job: job._replace(assigned=("NCCL_IB_HCA=mlx5_0",)),
        places=("slurm", "by_hand", "one_node"),
    ),
    "too few CPUs": Fault("DC325", lambda job: job._replace(cpus_of_pod=1), places=("pods",)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.slow
def test_what_is_broken_is_reported_and_nothing_else(name: str) -> None:
    fault = FAULTS[name]

    @given(job=jobs(places=fault.places, backends=fault.backends), spelling=SPELLINGS)
    @settings(deadline=None, max_examples=40)
    def check(job: Job, spelling: Spelling) -> None:
        text = made(fault.change(job), spelling)
        found = judged(text)
        assert loud(found) == {fault.code}, told(text, found)
        if fault.severity is not None:
            levels = {item.severity.word for item in found.findings if item.code == fault.code}
            assert fault.severity in levels, told(text, found)
        after_fix = fixed(text, found)
        after = judged(after_fix)
        assert loud(after) <= {fault.code}, told(after_fix, after)
        assert [file.problems for file in after.files] == [()], told(after_fix, after)

    check()
