"""Workloads: which pods each kind asks for, how many, and what its operator tells them."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.fragments import Fragment
from distcheck.checks.launch_files.workloads import (
    OF_OPERATOR,
    OF_TRAINER,
    PodGroup,
    groups_of,
    kind_of_object,
    objects_of,
)
from distcheck.checks.launch_files.yaml_text import read_yaml

POD = "template: {spec: {containers: [{name: c, image: i}]}}"


def groups(text: str) -> list[PodGroup]:
    found = []
    for document in read_yaml(Fragment(text, "job.yaml")).documents:
        for item in objects_of(document):
            found.extend(groups_of(kind_of_object(item) or "", item))
    return found


def counts(text: str) -> list[tuple[str, str | None, int | None, int | None]]:
    """Kind, role, pods of the role, nodes of the job."""
    return [
        (group.kind, group.role, group.replicas and group.replicas.number, group.nodes and group.nodes.number)
        for group in groups(text)
    ]


def test_a_pytorch_job() -> None:
    text = f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: llm}}
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master: {{{POD}}}
    Worker: {{replicas: 3, {POD}}}
"""
    assert counts(text) == [("PyTorchJob", "Master", 1, 4), ("PyTorchJob", "Worker", 3, 4)]
    master, worker = groups(text)
    assert master.injected == OF_OPERATOR
    assert master.variables["PET_NPROC_PER_NODE"] == "8"
    assert master.variables["PET_NNODES"] is None
    assert worker.operator_values == {
        "MASTER_ADDR": ("llm-master-0",),
        "MASTER_PORT": ("23456",),
        "WORLD_SIZE": ("4", "32"),
        "RANK": ("1 to 3",),
    }
    assert master.operator_values["RANK"] == ("0",)


def test_the_port_of_a_pytorch_job_is_that_of_its_master() -> None:
    text = """\
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
            - {name: sidecar, image: i, ports: [{name: pytorchjob-port, containerPort: 1}]}
            - {name: pytorch, image: i, ports: [{name: http, containerPort: 2}, {name: pytorchjob-port, containerPort: 29500}]}
"""
    (master,) = groups(text)
    assert master.operator_values["MASTER_PORT"] == ("29500",)


def test_a_pytorch_job_without_a_master_gets_no_ranks() -> None:
    text = f"kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{Worker: {{replicas: 2, {POD}}}}}}}\n"
    (worker,) = groups(text)
    assert worker.injected == frozenset()
    assert worker.operator_values == {}


def test_an_elastic_job_has_no_fixed_nodes() -> None:
    text = (
        "kind: PyTorchJob\nspec: {elasticPolicy: {minReplicas: 1, maxReplicas: 4, nProcPerNode: 2}, "
        f"pytorchReplicaSpecs: {{Worker: {{replicas: 2, {POD}}}}}}}\n"
    )
    assert counts(text) == [("PyTorchJob", "Worker", 2, None)]
    (worker,) = groups(text)
    assert worker.nproc is not None
    assert worker.nproc.number == 2
    assert worker.variables["PET_RDZV_ENDPOINT"] is None


def test_templated_replicas_are_unknown() -> None:
    text = (
        f"kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Master: {{replicas: 1, {POD}}}\n"
        f"    Worker:\n      replicas: {{{{ .Values.n }}}}\n      {POD}\n"
    )
    assert counts(text) == [("PyTorchJob", "Master", 1, None), ("PyTorchJob", "Worker", None, None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"kind: MPIJob\nspec: {{slotsPerWorker: 8, mpiReplicaSpecs: {{Launcher: {{replicas: 1, {POD}}}, "
            f"Worker: {{replicas: 2, {POD}}}}}}}",
            [("MPIJob", "Launcher", 1, 2), ("MPIJob", "Worker", 2, 2)],
        ),
        (
            f"kind: MPIJob\nspec: {{runLauncherAsWorker: true, mpiReplicaSpecs: {{Worker: {{replicas: 2, {POD}}}}}}}",
            [("MPIJob", "Worker", 2, None)],
        ),
        (
            f"kind: JobSet\nspec: {{replicatedJobs: [{{name: a, template: {{spec: {{{POD}}}}}}}, "
            f"{{name: b, replicas: 2, template: {{spec: {{parallelism: 3, completions: 3, {POD}}}}}}}]}}",
            [("JobSet", "a", 1, 7), ("JobSet", "b", 6, 7)],
        ),
        (
            f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {{tasks: [{{name: master, replicas: 1, {POD}}}, "
            f"{{name: worker, replicas: 3, {POD}}}]}}",
            [("VolcanoJob", "master", 1, 4), ("VolcanoJob", "worker", 3, 4)],
        ),
        (
            f"kind: Job\nspec: {{parallelism: 4, completions: 4, completionMode: Indexed, {POD}}}",
            [("Job", None, 4, 4)],
        ),
        (f"kind: Job\nspec: {{parallelism: 4, {POD}}}", [("Job", None, 4, None)]),
        (f"kind: Job\nspec: {{{POD}}}", [("Job", None, 1, None)]),
        (f"kind: CronJob\nspec: {{jobTemplate: {{spec: {{{POD}}}}}}}", [("Job", None, 1, None)]),
        (f"kind: StatefulSet\nspec: {{replicas: 2, {POD}}}", [("StatefulSet", None, 2, 2)]),
        (f"kind: Deployment\nspec: {{replicas: 2, {POD}}}", [("Deployment", None, 2, None)]),
        ("kind: Pod\nspec: {containers: [{image: i}]}", [("Pod", None, 1, None)]),
        (
            "kind: LeaderWorkerSet\nspec: {replicas: 2, leaderWorkerTemplate: {size: 4, "
            "leaderTemplate: {spec: {}}, workerTemplate: {spec: {}}}}",
            [("LeaderWorkerSet", "leader", 1, 4), ("LeaderWorkerSet", "worker", 3, 4)],
        ),
        (
            "kind: LeaderWorkerSet\nspec: {leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {}}}}",
            [("LeaderWorkerSet", "worker", 4, 4)],
        ),
        (
            f"kind: RayJob\nspec: {{rayClusterSpec: {{headGroupSpec: {{{POD}}}, "
            f"workerGroupSpecs: [{{groupName: g, replicas: 2, {POD}}}]}}}}",
            [("RayJob", "head", None, None), ("RayJob", "g", 2, None)],
        ),
        # a kind that nobody here knows: its containers are found by their shape
        (f"kind: Notebook\nspec: {{{POD}}}", [("Notebook", None, None, None)]),
        (
            f"kind: ElasticJob\nspec: {{replicaSpecs: {{worker: {{replicas: 2, {POD}}}}}}}",
            [("ElasticJob", None, None, None)],
        ),
        ("kind: Workflow\nspec: {templates: [{containers: [{image: i}]}]}", [("Workflow", None, None, None)]),
        ("kind: Service\nspec: {ports: [{port: 1}]}", []),
        ("kind: Job\nspec:\n", []),
        ("kind: Job\n", []),
    ],
)
def test_the_pods_of_each_kind(text: str, expected: list[tuple[str, str | None, int | None, int | None]]) -> None:
    assert counts(text) == expected


def test_slots_are_those_of_the_workers_of_mpi() -> None:
    text = f"kind: MPIJob\nspec: {{slotsPerWorker: 8, mpiReplicaSpecs: {{Launcher: {{{POD}}}, Worker: {{{POD}}}}}}}"
    launcher, worker = groups(text)
    assert launcher.nproc is None
    assert worker.nproc is not None
    assert worker.nproc.number == 8


def test_volcanos_plug_in_numbers_the_pods() -> None:
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {plugins: {%s}, tasks: [{name: worker, "
        "template: {spec: {containers: []}}}]}\n"
    )
    assert groups(text % 'pytorch: ["--master=m"]')[0].injected == OF_OPERATOR
    assert groups(text % "svc: []")[0].injected == frozenset()


def test_a_runtime_decides_nothing_alone() -> None:
    text = f"""\
kind: ClusterTrainingRuntime
spec:
  mlPolicy: {{numNodes: 1, torch: {{numProcPerNode: auto}}}}
  template:
    spec:
      replicatedJobs: [{{name: node, template: {{spec: {{{POD}}}}}}}]
"""
    (group,) = groups(text)
    assert group.overruled
    assert (group.replicas, group.nodes, group.injected) == (None, None, OF_TRAINER)


def test_lists_of_objects_are_opened() -> None:
    text = "kind: List\nitems:\n  - {kind: Pod, spec: {containers: [{image: i}]}}\n  - {kind: PodList, items: [{kind: Pod, spec: {}}]}\n"
    assert [kind for kind, *_ in counts(text)] == ["Pod", "Pod"]


def test_a_deep_table_of_an_unknown_kind_ends() -> None:
    text = "kind: X\nspec: " + "{a: " * 80 + "1" + "}" * 80
    assert counts(text) == []
