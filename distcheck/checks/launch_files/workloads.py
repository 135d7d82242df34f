"""The pods that a Kubernetes workload requests: how many of which template, and what its operator sets.

Each kind has a function, by the definition of its operator. The containers of an unknown kind are found by their shape.
``containers.py`` reads the contents of a container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from distcheck.core.spans import Span

from .containers import entries, known_text
from .model import Scalar
from .yaml_text import Node

#: Variables that an operator sets in each pod: Kubeflow's for a PyTorchJob with a Master (training-operator 1.9,
#: pkg/controller.v1/pytorch/envvar.go), Volcano's pytorch plug-in (volcano 1.12,
#: pkg/controllers/job/plugins/distributed-framework/pytorch). Both append theirs, and the kubelet uses the last value
#: of each name.
OF_OPERATOR = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"})
#: Variables that a TrainJob sets for torchrun and refuses in spec.trainer.env (trainer 2.0,
#: pkg/constants/constants.go).
OF_TRAINER = frozenset({"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"})
#: Further defaults of torchrun that a PyTorchJob with an elasticPolicy sets (…/pytorch/elastic.go).
_OF_ELASTIC = frozenset({"PET_MAX_RESTARTS", "PET_RDZV_BACKEND", "PET_RDZV_CONF", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"})

#: The default port of a PyTorchJob (training-operator, pkg/apis/kubeflow.org/v1/pytorch_types.go).
_DEFAULT_PORT = "23456"
#: Kinds without pods: a pod's description in them starts nothing.
NO_WORKLOADS = frozenset({"CustomResourceDefinition", "Kustomization", "Values", "ClusterRole", "Role"})


class PodGroup(NamedTuple):
    """Pods of one template in a workload."""

    kind: str
    name: str | None
    role: str | None
    #: the table with ``spec`` and ``metadata`` of the pods
    template: Node
    replicas: Scalar | None = None
    nodes: Scalar | None = None
    nproc: Scalar | None = None
    injected: frozenset[str] = frozenset()
    #: further variables that the operator sets; None: unknown value
    variables: Mapping[str, str | None] = {}
    #: possible values of the injected variables, if known
    operator_values: Mapping[str, tuple[str, ...]] = {}
    #: a template for jobs with their own numbers and volumes
    overruled: bool = False


def objects_of(root: Node, depth: int = 0) -> Iterator[Node]:
    """Yield the objects of a document: itself, or the items of a List."""
    if root.kind != "table":
        return
    kind = kind_of_object(root)
    if kind is not None and kind.endswith("List") and root.get("items") is not None and depth < 2:
        for item in entries(root.get("items")):
            yield from objects_of(item, depth + 1)
    else:
        yield root


def kind_of_object(item: Node) -> str | None:
    return known_text(item, "kind")


def groups_of(kind: str, item: Node) -> Iterator[PodGroup]:
    """Yield the pods that a workload requests."""
    name = known_text(item, "metadata", "name")
    spec = item.get("spec")
    if spec is None or spec.kind != "table":
        if kind not in _KINDS:
            yield from _any_pods(kind, name, item)
        return
    if kind == "Job" and "volcano.sh" in (known_text(item, "apiVersion") or ""):
        yield from _volcano("VolcanoJob", name, item, spec)
    elif kind == "CronJob":
        job = spec.get("jobTemplate", "spec")
        if job is not None and job.kind == "table":
            yield from _job("Job", name, item, job)
    elif kind in _KINDS:
        yield from _KINDS[kind](kind, name, item, spec)
    else:
        yield from _any_pods(kind, name, item)


def _pytorch_job(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    roles = spec.get("pytorchReplicaSpecs")
    if roles is None:
        return
    elastic = spec.get("elasticPolicy")
    nproc = spec.value("nprocPerNode")
    variables: dict[str, str | None] = dict.fromkeys(OF_TRAINER)
    nodes = _sum([_count(role, "replicas") for role in roles.table.values()]) if not roles.open_ended else None
    if elastic is not None:
        variables.update(dict.fromkeys(_OF_ELASTIC))
        nproc = nproc or elastic.value("nProcPerNode")
        if elastic.get("maxReplicas") is not None or elastic.get("minReplicas") is not None:
            nodes = None
    if nproc is not None and nproc.known:
        variables["PET_NPROC_PER_NODE"] = str(nproc.value)
    for role, node in roles.table.items():
        template = node.get("template")
        if template is not None:
            yield PodGroup(
                kind,
                name,
                role,
                template,
                replicas=_count(node, "replicas"),
                nodes=nodes,
                nproc=nproc,
                injected=OF_OPERATOR if "Master" in roles.table else frozenset(),
                variables=variables,
                operator_values=_operator_values(name, role, roles, nodes, nproc),
            )


def _operator_values(
    name: str | None, role: str, roles: Node, nodes: Scalar | None, nproc: Scalar | None
) -> dict[str, tuple[str, ...]]:
    """Return the values that the operator of a PyTorchJob sets (training-operator, pkg/controller.v1/pytorch)."""
    values: dict[str, tuple[str, ...]] = {}
    master = roles.get("Master")
    if master is None:
        return values
    if name is not None:
        values["MASTER_ADDR"] = (f"{name}-master-0",)
    ports = [
        known_text(port, "containerPort")
        for container in entries(master.get("template", "spec", "containers"))
        if known_text(container, "name") == "pytorch"
        for port in entries(container.get("ports"))
        if known_text(port, "name") == "pytorchjob-port"
    ]
    values["MASTER_PORT"] = tuple(port for port in ports if port is not None) or (_DEFAULT_PORT,)
    count = None if nodes is None else nodes.number
    if count is not None:
        # until 1.6 the number of pods, later that of processes
        each = 1 if nproc is None else nproc.number
        values["WORLD_SIZE"] = (str(count), str(count * (each or 1)))
    replicas = _count(roles.table[role], "replicas").number
    if role == "Master":
        values["RANK"] = ("0",)
    elif replicas is not None:
        values["RANK"] = ("1",) if replicas == 1 else (f"1 to {replicas}",)
    return values


def _mpi_job(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    roles = spec.get("mpiReplicaSpecs")
    if roles is None:
        return
    worker = roles.get("Worker")
    nodes = _count(worker, "replicas") if worker is not None else None
    if spec.get("runLauncherAsWorker") is not None:
        nodes = None
    for role, node in roles.table.items():
        template = node.get("template")
        if template is not None:
            slots = spec.value("slotsPerWorker") if role == "Worker" else None
            yield PodGroup(kind, name, role, template, replicas=_count(node, "replicas"), nodes=nodes, nproc=slots)


def _job_set(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    jobs = entries(spec.get("replicatedJobs"))
    counts = [_product(_count(job, "replicas"), _count(job, "template", "spec", "parallelism")) for job in jobs]
    for job, count in zip(jobs, counts, strict=True):
        template = job.get("template", "spec", "template")
        if template is not None:
            yield PodGroup(kind, name, known_text(job, "name"), template, replicas=count, nodes=_sum(counts))


def _training_runtime(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    """Yield the pods of a runtime: TrainJobs may override all of its numbers."""
    torch = spec.get("mlPolicy", "torch")
    inner = spec.get("template", "spec")
    if inner is None:
        return
    for group in _job_set(kind, name, item, inner):
        yield group._replace(
            replicas=None,
            nodes=None,
            nproc=None if torch is None else torch.value("numProcPerNode"),
            injected=OF_TRAINER if torch is not None else frozenset(),
            variables=dict.fromkeys(OF_TRAINER),
            overruled=True,
        )


def train_job(item: Node, trainer: Node) -> PodGroup:
    """Return the pods of a Kubeflow TrainJob; its runtime sets the rest."""
    torch = "torch" in (known_text(item, "spec", "runtimeRef", "name") or "")
    nodes, nproc = trainer.value("numNodes"), trainer.value("numProcPerNode")
    variables: dict[str, str | None] = dict.fromkeys(OF_TRAINER)
    for name, scalar in (("PET_NNODES", nodes), ("PET_NPROC_PER_NODE", nproc)):
        if torch and scalar is not None and scalar.number is not None:
            variables[name] = str(scalar.number)
    return PodGroup(
        "TrainJob",
        known_text(item, "metadata", "name"),
        None,
        item,
        replicas=nodes,
        nodes=nodes,
        nproc=nproc,
        injected=OF_TRAINER if torch else frozenset(),
        variables=variables,
    )


def _volcano(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    plugin = spec.get("plugins", "pytorch")
    tasks = entries(spec.get("tasks"))
    injected = frozenset[str]()
    if plugin is not None and plugin.kind == "list":
        injected = OF_OPERATOR
    for task in tasks:
        template = task.get("template")
        if template is not None:
            yield PodGroup(
                kind,
                name,
                known_text(task, "name"),
                template,
                replicas=_count(task, "replicas"),
                nodes=_sum([_count(other, "replicas") for other in tasks]),
                injected=injected,
            )


def _job(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    template = spec.get("template")
    if template is not None:
        replicas = _count(spec, "parallelism")
        indexed = known_text(spec, "completionMode") == "Indexed"
        yield PodGroup(kind, name, None, template, replicas=replicas, nodes=replicas if indexed else None)


def _replicated(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    template = spec.get("template")
    if template is not None:
        replicas = _count(spec, "replicas")
        yield PodGroup(kind, name, None, template, replicas=replicas, nodes=replicas if kind == "StatefulSet" else None)


def _leader_worker_set(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    group = spec.get("leaderWorkerTemplate")
    if group is None:
        return
    size = _count(group, "size")
    leader, worker = group.get("leaderTemplate"), group.get("workerTemplate")
    if leader is not None:
        yield PodGroup(kind, name, "leader", leader, replicas=Scalar(1, leader.span), nodes=size)
    if worker is not None:
        count = size
        if leader is not None and count.number is not None:
            count = count._replace(value=count.number - 1)
        yield PodGroup(kind, name, "worker", worker, replicas=count, nodes=size)


def _ray(kind: str, name: str | None, item: Node, spec: Node) -> Iterator[PodGroup]:
    cluster = spec.get("rayClusterSpec") if kind == "RayJob" else spec
    if cluster is None:
        return
    head = cluster.get("headGroupSpec")
    for role, node in (("head", head), *((None, worker) for worker in entries(cluster.get("workerGroupSpecs")))):
        template = None if node is None else node.get("template")
        if node is not None and template is not None:
            yield PodGroup(kind, name, role or known_text(node, "groupName"), template, replicas=node.value("replicas"))


def _any_pods(kind: str, name: str | None, node: Node, seen: set[Span] | None = None) -> Iterator[PodGroup]:
    """Yield any table with containers in an unknown workload, once. The number of pods is unknown."""
    seen = set() if seen is None else seen
    if node.span in seen:  # an alias: the node itself, wherever it is used
        return
    seen.add(node.span)
    if node.kind == "list":
        for inner in node.items:
            yield from _any_pods(kind, name, inner, seen)
        return
    spec = node.table.get("spec")
    if spec is not None and spec.kind == "table" and entries(spec.table.get("containers")):
        yield PodGroup(kind, name, None, node)
        return
    if entries(node.table.get("containers")):
        yield PodGroup(kind, name, None, node._replace(table={"spec": node}))
        return
    container = node.table.get("container")
    if container is not None and container.table.get("image") is not None:
        # a template of Argo; the workflow can add volumes
        containers = container._replace(kind="list", table={}, items=(container,))
        pod = node._replace(table={**node.table, "containers": containers})
        yield PodGroup(kind, name, known_text(node, "name"), node._replace(table={"spec": pod}), overruled=True)
        return
    for inner in node.table.values():
        yield from _any_pods(kind, name, inner, seen)


#: The functions for each kind.
_KINDS: Mapping[str, Callable[[str, str | None, Node, Node], Iterator[PodGroup]]] = {
    "PyTorchJob": _pytorch_job,
    "MPIJob": _mpi_job,
    "JobSet": _job_set,
    "TrainingRuntime": _training_runtime,
    "ClusterTrainingRuntime": _training_runtime,
    "Job": _job,
    "StatefulSet": _replicated,
    "Deployment": _replicated,
    "ReplicaSet": _replicated,
    "Pod": lambda kind, name, item, spec: iter([PodGroup(kind, name, None, item, replicas=Scalar(1, item.span))]),
    "LeaderWorkerSet": _leader_worker_set,
    "RayJob": _ray,
    "RayCluster": _ray,
}


def _count(node: Node, *path: str) -> Scalar:
    """Return a count; the default is 1."""
    found = node.get(*path)
    if found is None or found.is_null:
        return Scalar(1, node.span)
    return found.scalar


def _sum(counts: list[Scalar]) -> Scalar | None:
    """Return the sum at the location of the largest count, or None if one is unknown or there is none."""
    numbers = [count.number for count in counts]
    if not counts or None in numbers:
        return None
    largest = max(counts, key=lambda count: count.number or 0)
    return largest._replace(value=sum(number or 0 for number in numbers))


def _product(one: Scalar, other: Scalar) -> Scalar:
    if one.number is None or other.number is None:
        return one._replace(value=None, known=False)
    return (other if (other.number or 0) > 1 else one)._replace(value=one.number * other.number)
