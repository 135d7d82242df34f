"""Manifests: from text to pods and launch lines, in their places, with what is templated or patched unknown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.launch_files.kubernetes import is_manifest, read_manifest
from distcheck.checks.launch_files.model import LaunchFile, LaunchSite, Span


def read(text: str, **files: str) -> LaunchFile:
    by_path = {path.replace("__", "/").replace("_yaml", ".yaml"): data.encode() for path, data in files.items()}
    return read_manifest("deploy/job.yaml", text, by_path.get)


def only_site(file: LaunchFile) -> LaunchSite:
    assert not file.problems
    (site,) = file.sites
    return site


def container(lines: str, *, kind: str = "Pod") -> str:
    """A pod with one container that has these further lines."""
    indented = "".join(f"      {line}\n" for line in lines.splitlines())
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: t}}\nspec:\n  containers:\n    - name: main\n{indented}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (container("image: torch\n"), True),
        ("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: {containers: }}\n", True),
        ("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  trainer:\n    numNodes: 2\n", True),
        # nothing of training is named
        ("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: nginx\n", False),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: pytorch}\n", False),
        ("compute_environment: LOCAL_MACHINE\nnum_machines: 2\n", False),
        ("services:\n  train:\n    image: torch\n", False),
        ("", False),
    ],
)
def test_what_is_a_manifest(text: str, expected: bool) -> None:
    assert is_manifest(text) is expected


def test_a_command_in_exec_form() -> None:
    text = container(
        'image: i\ncommand: ["torchrun", "--nproc_per_node=$(GPUS)"]\nargs:\n  - --nnodes\n  - "2"\n  - train.py\n'
        'env:\n  - {name: GPUS, value: "8"}\nresources: {limits: {nvidia.com/gpu: 8}}\n'
    )
    file = read(text)
    site = only_site(file)
    (pods,) = file.pods
    assert site.command.nproc == "8"
    assert site.command.nnodes_min == 2
    assert site.command.script == "train.py"
    assert (site.kind, site.pods) == ("pod", pods)
    assert site.settings["GPUS"].value == "8"
    word = site.value("--nnodes")
    assert word is not None
    # within its quotes
    assert (word.text, word.written, word.span) == ("2", "2", Span("deploy/job.yaml", 11, 12, 11, 13))
    assert (pods.kind, pods.name, pods.container, pods.span.line) == ("Pod", "t", "main", 6)
    assert pods.gpus is not None
    assert pods.gpus.number == 8
    assert file.lines[0] == "apiVersion: v1"


def test_what_the_operator_gives_is_unknown_and_no_default() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: t}
spec:
  nprocPerNode: "4"
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
            - name: pytorch
              image: i
              command: [torchrun, --master_addr=$(MASTER_ADDR), train.py]
"""
    site = only_site(read(text))
    assert site.command.nproc == "4"
    assert {"nnodes_min", "node_rank", "master_addr"} <= site.command.unknown
    assert site.pods is not None
    assert "RANK" in site.pods.injected


def test_a_train_job() -> None:
    text = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 4
    command: [torchrun, train.py]
    env: [{name: NCCL_DEBUG, value: INFO}]
    resourcesPerNode: {limits: {nvidia.com/gpu: 4}}
"""
    file = read(text)
    site = only_site(file)
    assert (site.command.nproc, site.command.nnodes_min) == ("4", 2)
    assert {"node_rank", "master_addr"} <= site.command.unknown
    (pods,) = file.pods
    assert (pods.nodes and pods.nodes.number, pods.nproc and pods.nproc.number) == (2, 4)
    assert pods.gpus is not None
    assert pods.gpus.number == 4
    assert (pods.shared_memory, pods.host_network) == ("unknown", None)
    assert "PET_NNODES" in pods.injected
    assert [setting.name for setting in file.settings] == ["NCCL_DEBUG"]
    # another runtime may not be torch's
    assert "nproc" in only_site(read(text.replace("torch-distributed", "mlx"))).command.unknown


@pytest.mark.parametrize(
    "lines",
    [
        "image: i\n",
        "image: i\nargs: [--epochs, '3']\n",
        "image: i\ncommand: [sleep, infinity]\n",
        "image: i\ncommand: [python, -c, 'print(1)']\n",
        "image: i\ncommand: []\n",
        "image: i\ncommand:\n",
        "image: i\ncommand: [{a: b}]\n",
    ],
)
def test_what_starts_no_ranks_is_no_launch_line(lines: str) -> None:
    file = read(container(lines))
    assert file.sites == ()
    assert len(file.pods) == 1


def test_arguments_that_a_template_gives_leave_everything_open() -> None:
    text = container(
        "image: i\ncommand: [torchrun, --nproc_per_node=8, train.py]\nargs:\n  {{- toYaml .Values.args | nindent 2 }}\n"
    )
    site = only_site(read(text))
    assert site.command.launcher == "torchrun"
    text = container(
        "image: i\ncommand:\n  - torchrun\n  {{- range .Values.options }}\n  - {{ . }}\n  {{- end }}\n  - train.py\n"
    )
    site = only_site(read(text))
    assert "nproc" in site.command.unknown


def test_sidecars_and_several_documents() -> None:
    text = (
        "---\n" + container("image: i\ncommand: [torchrun, a.py]\n") + "    - {name: sidecar, image: nginx}\n---\n"
        + container("image: i\ncommand: [torchrun, b.py]\n")
    )  # fmt: skip
    file = read(text)
    assert [site.command.script for site in file.sites] == ["a.py", "b.py"]
    assert [pods.container for pods in file.pods] == ["main", "sidecar", "main"]


def test_a_fault_is_told_and_the_rest_is_read() -> None:
    text = container("image: i\ncommand: [torchrun, a.py]\n") + "---\nkind: Pod\n\tspec: 1\n---\n" + container(
        "image: i\ncommand: [torchrun, b.py]\n"
    )  # fmt: skip
    file = read(text)
    assert [site.command.script for site in file.sites] == ["a.py", "b.py"]
    ((why, line, _),) = file.problems
    assert "tab" in why
    assert line == 11


def test_a_kustomization_beside_it_makes_counts_unknown() -> None:
    text = container("image: i\ncommand: [torchrun, a.py]\nresources: {limits: {nvidia.com/gpu: 2}}\n")
    (pods,) = read(text, deploy__kustomization_yaml="resources: [job.yaml]\n").pods
    assert (pods.shared_memory, pods.replicas and pods.replicas.number) == ("default", 1)
    (pods,) = read(text, deploy__kustomization_yaml="resources: [job.yaml]\npatches:\n- path: shm.yaml\n").pods
    assert (pods.shared_memory, pods.replicas and pods.replicas.number) == ("unknown", None)


def test_comments_are_kept_for_suppressions() -> None:
    file = read("# distcheck: ignore-file[DC320]\n" + container("image: i # noqa: DC320\n"))
    assert file.comments == ((1, "# distcheck: ignore-file[DC320]"), (8, "# noqa: DC320"))


# shell texts

BLOCK = """\
image: i
command: [bash, -c]
args:
  - |
    set -e
    export NCCL_DEBUG=INFO
    # two nodes
    torchrun --nnodes=2 \\
      --node_rank=$RANK --nproc_per_node=$GPUS \\
      train.py
env:
  - {name: GPUS, value: "8"}
"""


def test_a_block_of_shell_is_read_in_its_place() -> None:
    file = read(container(BLOCK))
    site = only_site(file)
    assert (site.command.nnodes_min, site.command.nproc) == (2, "8")
    assert "node_rank" in site.command.unknown
    word = site.value("--nnodes")
    assert word is not None
    assert (word.span.line, word.span.column) == (14, 29)
    assert (site.kind, site.pods) == ("pod", file.pods[0])
    assert site.settings["NCCL_DEBUG"].span.line == 12
    assert {setting.name for setting in file.settings} >= {"GPUS", "NCCL_DEBUG"}


def test_references_are_replaced_before_the_shell_sees_them() -> None:
    text = container(
        "image: i\ncommand: [sh, -c, 'torchrun --nproc_per_node=$(GPUS) --node_rank=$(hostname) train.py']\n"
        'env: [{name: GPUS, value: "8"}]\n'
    )
    site = only_site(read(text))
    assert site.command.nproc == "8"
    assert "node_rank" in site.command.unknown


def test_a_script_in_a_config_map_runs_in_the_pods_that_mount_it() -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  lr: "1"
  run.sh: |
    torchrun --nproc_per_node=8 train.py
---
""" + container("image: i\ncommand: [bash, /scripts/run.sh]\nresources: {limits: {nvidia.com/gpu: 4}}\n")
    mounted = text + "  volumes: [{name: s, configMap: {name: scripts}}]\n"
    assert only_site(read(mounted)).pods == read(mounted).pods[0]
    assert only_site(read(mounted)).span.line == 7
    assert only_site(read(text)).pods is None


def test_a_ray_job_starts_plain_scripts_itself() -> None:
    text = "apiVersion: ray.io/v1\nkind: RayJob\nspec: {entrypoint: %s, rayClusterSpec: {}}\n"
    assert read(text % "python train.py").sites == ()
    assert only_site(read(text % "torchrun --nproc_per_node=2 train.py")).command.nproc == "2"


@given(st.text(alphabet="apiVersion:kindPod\n -{}[]$()&*|>\"'#0123\t\r\x00é", max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    file = read("apiVersion: v1\nkind: Pod\n" + text)
    assert file.kind == "kubernetes"


def test_lines_may_end_as_on_windows() -> None:
    text = container(BLOCK)
    plain, windows = only_site(read(text)), only_site(read(text.replace("\n", "\r\n")))
    assert [(word.text, word.span) for word in plain.words] == [(word.text, word.span) for word in windows.words]
    assert plain.command == windows.command
    assert read(text).lines == read(text.replace("\n", "\r\n")).lines


@pytest.mark.slow
def test_time_grows_with_the_text_only() -> None:
    one = container(BLOCK) + "---\n"
    started = time.perf_counter()
    file = read(one * 1500)
    assert len(file.sites) == len(file.pods) == 1500
    assert time.perf_counter() - started < 30


ARGO = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: train-}
spec:
  templates:
    - name: create
      resource:
        action: create
        manifest: |
          apiVersion: kubeflow.org/v1
          kind: PyTorchJob
          metadata: {generateName: "train-{{workflow.name}}"}
          spec:
            pytorchReplicaSpecs:
              Worker:
                replicas: 2
                template:
                  spec:
                    containers:
                      - name: pytorch
                        command: [torchrun, --nproc-per-node=4, train.py]
                        resources: {limits: {nvidia.com/gpu: 4}}
    - name: single
      container:
        image: example/train
        command: [torchrun, --standalone, --nproc-per-node=8, train.py]
        resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_the_templates_of_an_argo_workflow_and_the_manifests_in_them() -> None:
    file = read(ARGO)
    assert sorted((pods.kind, pods.role, pods.span.line) for pods in file.pods) == [
        ("PyTorchJob", "Worker", 20),
        ("Workflow", "single", 25),
    ]
    assert sorted((site.span.line, site.command.nproc) for site in file.sites) == [(21, "4"), (26, "8")]
    # the workflow can add volumes to its templates
    assert [pods.shared_memory for pods in file.pods if pods.kind == "Workflow"] == ["unknown"]
