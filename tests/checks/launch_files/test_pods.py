"""Pods judged: for each rule what is reported, where and how badly, and what is left alone."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files import pods
from distcheck.checks.launch_files.kubernetes import read_manifest
from distcheck.checks.launch_files.model import LaunchFile, LaunchFiles
from distcheck.core.model import Finding, Severity

PROBES = (
    pods.shared_memory_holds_the_ranks,
    pods.every_rank_has_a_gpu,
    pods.no_gpu_is_left_idle,
    pods.cpus_are_enough,
    pods.nodes_are_as_many_as_pods,
    pods.each_pod_has_its_own_node_rank,
    pods.pods_meet_at_an_address_that_all_reach,
    pods.the_operator_sets_its_variables_alone,
    pods.nccl_interface_is_one_of_the_pod,
)


def read(text: str) -> LaunchFile:
    file = read_manifest("job.yaml", text, lambda path: None)
    assert not file.problems
    assert file.pods
    return file


def judge(text: str, code: str | None = None) -> list[Finding]:
    files = LaunchFiles((read(text),))
    found = [finding for probe in PROBES for finding in probe(files)]
    for finding in found:
        assert finding.where.path == "job.yaml"
        assert finding.where.line
        assert finding.where.column
    return [finding for finding in found if code is None or finding.code == code]


def said(text: str) -> list[tuple[str, str, str]]:
    """Code, severity, and the line in the file that it points to."""
    lines = text.splitlines()
    return [
        (finding.code, finding.severity.word, lines[(finding.where.line or 0) - 1].strip()) for finding in judge(text)
    ]


def fixed(text: str, finding: Finding) -> str:
    """The text with the edits of a finding carried out."""
    lines = text.split("\n")
    for edit in finding.fix.edits:
        assert edit.line == edit.end_line
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    return "\n".join(lines)


def pod(
    command: str = "[torchrun, --standalone, --nproc_per_node=8, train.py]",
    *,
    limits: str = "{nvidia.com/gpu: 8}",
    spec: str = "hostIPC: true",
    env: str = "[]",
    kind: str = "Pod",
    more: str = "",
) -> str:
    return f"""\
apiVersion: v1
kind: {kind}
metadata: {{name: t}}
spec:
  {spec}
  containers:
    - name: main
      image: i
      command: {command}
      env: {env}
      resources:
        limits: {limits}
{more}"""


def replicated(command: str, *, kind: str = "StatefulSet", count: str = "replicas: 4", env: str = "[]") -> str:
    return f"""\
apiVersion: apps/v1
kind: {kind}
metadata: {{name: t}}
spec:
  {count}
  template:
    spec:
      hostIPC: true
      containers:
        - name: main
          image: i
          command: {command}
          env: {env}
"""


def pytorch_job(
    master: str = "[torchrun, train.py]",
    worker: str | None = "[torchrun, train.py]",
    *,
    workers: object = 3,
    env: str = "[]",
    spec: str = "",
    name: str = "llm",
) -> str:
    """A PyTorchJob with a Master (None: without) and some Workers, all with the same variables."""
    text = f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: {name}}}\nspec:\n"
    text += f"  {spec}\n  pytorchReplicaSpecs:\n"
    for role, command, count in (("Master", master, 1), ("Worker", worker, workers)):
        if command:
            text += f"""\
    {role}:
      replicas: {count}
      template:
        spec:
          hostIPC: true
          containers:
            - name: pytorch
              image: i
              command: {command}
              env: {env}
              resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
    return text


# DC320


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (pod(spec="{}: 1"), Severity.WARNING),
        (pod(spec="hostIPC: false"), Severity.WARNING),
        (pod("[torchrun, --nproc_per_node=2, train.py]", limits="{nvidia.com/gpu: 2}", spec="hostIPC: false"), Severity.WARNING),
        # the image decides what runs; with two GPUs that is work for several ranks
        (pod("[]", spec="hostIPC: false"), Severity.WARNING),
        (pod("[/entrypoint.sh]", spec="hostIPC: false"), Severity.WARNING),
        (pod("[python, train.py]", limits="{nvidia.com/gpu: 1}", spec="hostIPC: false"), Severity.INFO),
    ],
)  # fmt: skip
def test_a_pod_with_gpus_has_only_the_default(text: str, severity: Severity) -> None:
    (finding,) = judge(text, "DC320")
    assert finding.severity is severity
    assert text.splitlines()[(finding.where.line or 0) - 1].strip() == "- name: main"
    assert finding.where.end_line is None
    assert finding.where.object == "Pod/t/main"
    assert "64 MiB" in finding.message
    assert "medium: Memory" in finding.fix.text


@pytest.mark.parametrize(
    "text",
    [
        pod(),
        pod(limits="{cpu: 64}", spec="hostIPC: false"),
        pod(limits="{nvidia.com/gpu: 0}", spec="hostIPC: false"),
        pod(limits="{nvidia.com/gpu: '{{ .Values.gpus }}'}", spec="hostIPC: false"),
        pod(spec="hostIPC: '{{ .Values.ipc }}'"),
        # nobody trains here
        pod("[sleep, infinity]", spec="hostIPC: false"),
        pod("[nvidia-smi]", spec="hostIPC: false"),
        pod("[/server]", limits="{nvidia.com/gpu: 1}", spec="hostIPC: false"),
        # a patch of a manifest that stands elsewhere
        pod(spec="hostIPC: false").replace("      image: i\n", ""),
    ],
)
def test_shared_memory_that_is_enough_or_not_known(text: str) -> None:
    assert judge(text, "DC320") == []


@pytest.mark.parametrize(
    ("limit", "severity"),
    [("256Mi", Severity.WARNING), ("512Mi", Severity.WARNING), ("1Gi", None), ("64Gi", None), ("$SIZE", None)],
)
def test_a_memory_volume_can_be_too_small(limit: str, severity: Severity | None) -> None:
    text = pod(
        limits="{nvidia.com/gpu: 8, memory: 8Gi}",
        spec="hostIPC: false",
        more=f"""\
      volumeMounts: [{{name: dshm, mountPath: /dev/shm}}]
  volumes:
    - name: dshm
      emptyDir:
        medium: Memory
        sizeLimit: {limit}
""",
    )
    found = judge(text, "DC320")
    assert [finding.severity for finding in found] == ([] if severity is None else [severity])
    for finding in found:
        assert text.splitlines()[(finding.where.line or 0) - 1].strip() == f"sizeLimit: {limit}"
        assert judge(fixed(text, finding)) == []
        # half of the container's memory
        assert "4Gi" in finding.fix.text


def test_one_template_for_two_roles_is_one_finding() -> None:
    text = """\
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      template: &pod
        spec: {containers: [{name: pytorch, image: i, resources: {limits: {nvidia.com/gpu: 2, cpu: 1}}, command: [torchrun, --nnodes=9, --nproc_per_node=4, train.py]}]}
    Worker: {replicas: 1, template: *pod}
"""
    assert sorted(finding.code for finding in judge(text)) == ["DC301", "DC320", "DC325", "DC804"]


# DC301, DC302, DC325


def test_more_ranks_than_gpus() -> None:
    text = pod(limits="{nvidia.com/gpu: 4}")
    (finding,) = judge(text)
    assert (finding.code, finding.severity) == ("DC301", Severity.ERROR)
    assert "8 ranks in a container with 4 GPUs" in finding.message
    assert "local ranks 4-7 have none" in finding.message
    assert "--nproc_per_node=4" in finding.fix.text
    assert not finding.fix.safe
    assert (finding.where.line, finding.where.column, finding.where.end_column) == (9, 58, 59)
    assert judge(fixed(text, finding)) == []


@pytest.mark.parametrize(
    "text",
    [
        pod(),
        pod("[torchrun, --nproc_per_node=gpu, train.py]", limits="{nvidia.com/gpu: 4}"),
        pod("[torchrun, --nproc_per_node=auto, train.py]", limits="{nvidia.com/gpu: 4}"),
        pod("[torchrun, --nproc_per_node=cpu, train.py]", limits="{nvidia.com/gpu: 4}"),
        pod("[torchrun, --nproc_per_node=$(GPUS), train.py]", limits="{nvidia.com/gpu: 4}"),
        pod(limits="{nvidia.com/gpu: $GPUS}"),
        pod(limits="{cpu: 64}"),
        pod(limits="{nvidia.com/mig-1g.5gb: 1}"),
        pod("[torchrun, --nproc_per_node=8, train.py, --backend=gloo]", limits="{nvidia.com/gpu: 1}"),
        pod(limits="{nvidia.com/gpu: 4}", env="[{name: NCCL_MULTI_RANK_GPU_ENABLE, value: '1'}]"),
        pod("[accelerate, launch, --num_processes=8, --num_machines=2, t.py]", limits="{nvidia.com/gpu: 4}"),
        pod("[deepspeed, --num_gpus=4, t.py]", limits="{nvidia.com/gpu: 4}"),
        pod("[deepspeed, t.py]", limits="{nvidia.com/gpu: 4}"),
        pod("[python, train.py]", limits="{nvidia.com/gpu: 4}"),
    ],
)
def test_ranks_that_fit_their_gpus(text: str) -> None:
    assert judge(text) == []


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("[accelerate, launch, --num_processes=8, t.py]", "--num_processes=4"),
        ("[deepspeed, --num_gpus=8, t.py]", "--num_gpus=4"),
        ("[python, -m, torch.distributed.run, --nproc-per-node, '8', t.py]", "--nproc-per-node=4"),
    ],
)
def test_every_launcher_counts(command: str, option: str) -> None:
    (finding,) = judge(pod(command, limits="{nvidia.com/gpu: 4}"), "DC301")
    assert option in finding.fix.text


def test_processes_a_node_of_the_manifest() -> None:
    text = pytorch_job(spec='nprocPerNode: "16"')
    (finding,) = judge(text)
    assert (finding.code, finding.where.line) == ("DC301", 5)
    assert 'nprocPerNode: "8"' in fixed(text, finding)
    assert judge(fixed(text, finding)) == []
    # the command line wins
    assert judge(text.replace("[torchrun, train.py]", "[torchrun, --nproc_per_node=8, train.py]")) == []
    # without a launcher the operator's number is all there is
    assert [item.code for item in judge(text.replace("[torchrun, train.py]", "[]"))] == ["DC301"]
    assert judge(text.replace("[torchrun, train.py]", "[python, train.py]"), "DC301") == []


def test_processes_a_node_of_a_train_job() -> None:
    text = """\
kind: TrainJob
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 8
    command: [torchrun, train.py]
    resourcesPerNode: {limits: {nvidia.com/gpu: 4}}
"""
    (finding,) = judge(text)
    assert (finding.code, finding.where.line) == ("DC301", 6)
    assert "numProcPerNode: 8 starts 8 ranks" in finding.message
    assert judge(fixed(text, finding)) == []


def test_slots_of_mpi() -> None:
    text = """\
kind: MPIJob
metadata: {name: m}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      template: {spec: {containers: [{name: l, image: i, command: [mpirun, -np, "%s", python, train.py]}]}}
    Worker:
      replicas: 2
      template: {spec: {hostIPC: true, containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}}
"""
    (finding,) = judge(text % 16)
    assert (finding.code, finding.where.line) == ("DC301", 4)
    assert judge(text % 8) == []


def test_gpus_without_a_rank() -> None:
    text = pod("[torchrun, --standalone, --nproc_per_node=2, train.py]")
    (finding,) = judge(text)
    assert (finding.code, finding.severity) == ("DC302", Severity.WARNING)
    assert "6 are idle" in finding.message
    assert judge(fixed(text, finding)) == []
    (finding,) = judge(pod("[torchrun, --standalone, train.py]"))
    assert (finding.code, finding.severity) == ("DC302", Severity.INFO)


@pytest.mark.parametrize(
    "text",
    [
        pod("[torchrun, --nproc_per_node=2, train.py]", env="[{name: CUDA_VISIBLE_DEVICES, value: '0,1'}]"),
        pod("[torchrun, train.py]", env="[{name: PET_NPROC_PER_NODE, value: '8'}]"),
        pod("[torchrun, train.py]", env="[{name: PET_NPROC_PER_NODE, valueFrom: {}}]"),
        pod("[torchrun, --nproc_per_node=2, train.py]", limits="{nvidia.com/gpu: '$N'}"),
        pytorch_job(),
    ],
)
def test_gpus_that_may_all_be_used(text: str) -> None:
    assert judge(text) == []


def test_ranks_that_share_cpus() -> None:
    text = pod(limits="{nvidia.com/gpu: 8, cpu: 3500m}")
    (finding,) = judge(text)
    assert (finding.code, finding.severity) == ("DC325", Severity.WARNING)
    assert "8 ranks share the 3.5 CPUs" in finding.message
    assert finding.where.line == 12
    for cpus in ("8", "96", "$CPUS"):
        assert judge(pod(limits=f"{{nvidia.com/gpu: 8, cpu: {cpus}}}")) == []
    assert judge(pod("[python, train.py]", limits="{nvidia.com/gpu: 1, cpu: 500m}")) == []


# DC804


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (pytorch_job(*["[torchrun, --nnodes=2, train.py]"] * 2), "2 of them find no slot"),
        (pytorch_job(*["[torchrun, --nnodes=3, train.py]"] * 2), "1 of them finds no slot"),
        (pytorch_job(*["[torchrun, --nnodes=8, train.py]"] * 2), "wait for each other forever"),
        (pytorch_job(*["[torchrun, '--nnodes=5:8', train.py]"] * 2), "5 to 8 nodes"),
        (pytorch_job(*["[torchrun, --standalone, train.py]"] * 2), "trains for itself"),
        (replicated("[torchrun, --nnodes=8, train.py]"), "wait for each other forever"),
        (
            replicated("[torchrun, --nnodes=8, train.py]", kind="Job", count="{completionMode: Indexed, parallelism: 4}")
            .replace("  {completionMode: Indexed, parallelism: 4}\n", "  completionMode: Indexed\n  parallelism: 4\n"),
            "wait for each other forever",
        ),
    ],
)  # fmt: skip
def test_a_launcher_counts_other_nodes_than_there_are_pods(text: str, words: str) -> None:
    found = judge(text, "DC804")
    assert found
    for finding in found:
        assert finding.severity is Severity.ERROR
        assert words in finding.message
        assert "--nnodes" in text.splitlines()[(finding.where.line or 0) - 1] or "--standalone" in finding.message
    if "--standalone" not in text:
        for finding in found:
            text = fixed(text, finding)
        assert judge(text, "DC804") == []


@pytest.mark.parametrize(
    "text",
    [
        pytorch_job(),
        pytorch_job(*["[torchrun, --nnodes=4, train.py]"] * 2),
        pytorch_job(*["[torchrun, '--nnodes=1:8', train.py]"] * 2),
        pytorch_job(*["[torchrun, --nnodes=$(WORLD_SIZE), train.py]"] * 2),
        pytorch_job(*["[torchrun, --nnodes=2, train.py]"] * 2, workers="{{ .Values.workers }}"),
        pytorch_job(*["[torchrun, --nnodes=2, train.py]"] * 2, spec="elasticPolicy: {minReplicas: 1, maxReplicas: 4}"),
        # other files may hold the other pods, and each pod may be a job of its own
        pod("[torchrun, --nnodes=2, --node_rank=0, --nproc_per_node=8, train.py]"),
        replicated("[torchrun, --nnodes=2, train.py]", count="replicas: 1"),
        replicated("[torchrun, --standalone, train.py]"),
        replicated("[torchrun, --nnodes=1, train.py]"),
        replicated("[torchrun, --nnodes=2, train.py]"),
        replicated("[torchrun, --nnodes=2, train.py]", kind="Deployment"),
        # each pair has a place of its own
        replicated("[torchrun, --nnodes=2, --rdzv-backend=c10d, --rdzv-endpoint=$(HEAD), train.py]"),
        # two halves of one job
        replicated("[torchrun, --nnodes=4, train.py]", count="replicas: 2")
        + "---\n"
        + replicated("[torchrun, --nnodes=4, train.py]", count="replicas: 2").replace("name: t", "name: u"),
    ],
)
def test_nodes_that_may_be_as_many_as_pods(text: str) -> None:
    assert judge(text, "DC804") == []


def test_fewer_nodes_than_pods_that_all_meet_at_one_place() -> None:
    meeting = "[torchrun, --nnodes=2, --rdzv-backend=c10d, --rdzv-id=a, --rdzv-endpoint=t-0.t:29400, train.py]"
    assert len(judge(replicated(meeting), "DC804")) == 1


# DC805, DC419

STATIC = "[torchrun, --nnodes=4, --node_rank={}, --master_addr={}, --nproc_per_node=8, train.py]"


def test_one_node_rank_for_all_pods() -> None:
    text = replicated(STATIC.format(0, "t-0.t"))
    (finding,) = judge(text)
    assert (finding.code, finding.severity) == ("DC805", Severity.ERROR)
    assert "--node_rank=0 stands for all 4 pods of this StatefulSet" in finding.message
    assert "${HOSTNAME##*-}" in finding.fix.text
    (finding,) = judge(pytorch_job("[torchrun, train.py]", STATIC.format(1, "$(MASTER_ADDR)")), "DC805")
    assert "$RANK" in finding.fix.text


def test_two_roles_with_one_node_rank() -> None:
    text = pytorch_job(STATIC.format(0, "$(MASTER_ADDR)"), STATIC.format(0, "$(MASTER_ADDR)"), workers=1)
    (finding,) = judge(text.replace("--nnodes=4", "--nnodes=2"))
    assert finding.code == "DC805"
    assert "Worker and PyTorchJob's Master alike" in finding.message


def test_a_node_rank_from_the_environment_is_the_same_for_all() -> None:
    text = replicated(STATIC.format("$(NODE_RANK)", "t-0.t"), env="[{name: NODE_RANK, value: '0'}]")
    assert [finding.code for finding in judge(text)] == ["DC805"]


@pytest.mark.parametrize(
    "text",
    [
        pytorch_job(STATIC.format(0, "$(MASTER_ADDR)"), STATIC.format(1, "$(MASTER_ADDR)"), workers=1).replace(
            "--nnodes=4", "--nnodes=2"
        ),
        pytorch_job(STATIC.format(0, "$(MASTER_ADDR)"), STATIC.format("$(RANK)", "$(MASTER_ADDR)")),
        # single nodes, and a node rank that is not used
        replicated("[torchrun, --nnodes=1, --node_rank=0, train.py]"),
        replicated("[torchrun, --nnodes=4, --node_rank=0, --rdzv_backend=c10d, --rdzv_endpoint=t-0.t:29400, train.py]"),
        replicated(STATIC.format("$(INDEX)", "t-0.t"), env="[{name: INDEX, valueFrom: {fieldRef: {}}}]"),
        pod(STATIC.format(0, "t-0.t")) + "---\n" + pod(STATIC.format(0, "t-0.t")),
    ],
)
def test_node_ranks_that_are_right(text: str) -> None:
    assert judge(text) == []


@pytest.mark.parametrize(
    "text",
    [
        replicated(STATIC.format("$(INDEX)", "localhost"), env="[{name: INDEX, valueFrom: {fieldRef: {}}}]"),
        replicated("[torchrun, --nnodes=4, --rdzv_backend=c10d, --rdzv_endpoint=127.0.0.1:29400, train.py]"),
        pytorch_job("[torchrun, train.py]", "[torchrun, --master_addr=localhost, train.py]"),
        replicated(
            "[accelerate, launch, --num_machines=4, --main_process_ip=127.0.0.1, --num_processes=32, t.py]",
        ),
    ],
)
def test_pods_that_look_for_the_head_in_themselves(text: str) -> None:
    (finding,) = judge(text)
    assert (finding.code, finding.severity) == ("DC419", Severity.ERROR)
    line = text.splitlines()[(finding.where.line or 0) - 1]
    assert "localhost" in line or "127.0.0.1" in line


@pytest.mark.parametrize(
    "text",
    [
        replicated("[torchrun, --nnodes=1, --master_addr=localhost, train.py]"),
        replicated("[torchrun, --master_addr=localhost, --nproc_per_node=8, train.py]"),
        pytorch_job(STATIC.format(0, "localhost"), STATIC.format("$(RANK)", "$(MASTER_ADDR)")),
        pytorch_job("[torchrun, --master_addr=localhost, train.py]", None),
        # two containers of one pod have one network
        pod(STATIC.format(0, "localhost"))
        + f"    - {{name: other, image: i, command: {STATIC.format(1, 'localhost')}}}\n",
        replicated(STATIC.format("$(INDEX)", "t-0.t"), env="[{name: INDEX, valueFrom: {fieldRef: {}}}]"),
    ],
)
def test_addresses_that_are_right(text: str) -> None:
    assert judge(text, "DC419") == []


def test_the_head_of_a_job_set_has_its_names() -> None:
    text = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: llm}
spec:
  replicatedJobs:
  - name: worker
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            containers:
            - name: t
              image: i
              command: [torchrun, --nnodes=2, --node_rank=$(JOB_COMPLETION_INDEX), --master_addr=localhost, train.py]
"""
    (finding,) = judge(text, "DC419")
    assert "llm-worker-0-0.llm" in finding.fix.text


# DC809


def test_variables_that_the_operator_sets_again() -> None:
    env = (
        "[{name: WORLD_SIZE, value: '32'}, {name: RANK, value: '0'}, {name: MASTER_ADDR, value: head}, "
        "{name: MASTER_PORT, value: '29500'}]"
    )
    found = judge(pytorch_job("[python, train.py]", "[python, train.py]", env=env), "DC809")
    by_place = [(finding.where.object, finding.where.variable, finding.severity.word) for finding in found]
    master, worker = "PyTorchJob/llm/Master/pytorch", "PyTorchJob/llm/Worker/pytorch"
    assert by_place == [
        (master, "WORLD_SIZE", "error"),
        (master, "MASTER_ADDR", "error"),
        (master, "MASTER_PORT", "info"),
        (worker, "WORLD_SIZE", "error"),
        # 0 is what the Master gets
        (worker, "RANK", "error"),
        (worker, "MASTER_ADDR", "error"),
        (worker, "MASTER_PORT", "info"),
    ]
    assert "llm-master-0" in found[1].message


@pytest.mark.parametrize(
    "text",
    [
        pytorch_job(env="[{name: MASTER_PORT, value: '23456'}, {name: MASTER_ADDR, value: llm-master-0}]"),
        pytorch_job(env="[{name: WORLD_SIZE, value: '4'}]"),
        pytorch_job(env="[{name: WORLD_SIZE, value: '32'}]", spec="nprocPerNode: '8'"),
        # no Master: the operator numbers nobody
        pytorch_job("", env="[{name: MASTER_ADDR, value: head}, {name: WORLD_SIZE, value: '3'}]"),
        replicated("[python, train.py]", env="[{name: WORLD_SIZE, value: '4'}, {name: MASTER_ADDR, value: t-0.t}]"),
        # each pod alone
        replicated("[python, train.py]", env="[{name: WORLD_SIZE, value: '1'}, {name: RANK, value: '0'}]"),
        replicated(
            "[python, train.py]",
            count="replicas: 1",
            env="[{name: WORLD_SIZE, value: '4'}, {name: RANK, value: '0'}]",
        ),
        replicated("[torchrun, train.py]", env="[{name: WORLD_SIZE, value: '4'}, {name: RANK, value: '0'}]"),
    ],
)
def test_variables_that_are_the_containers_own(text: str) -> None:
    assert judge(text, "DC809") == []


def test_one_rank_for_all_pods() -> None:
    text = replicated("[python, train.py]", env="[{name: RANK, value: '0'}, {name: WORLD_SIZE, value: '4'}]")
    (finding,) = judge(text)
    assert (finding.code, finding.severity, finding.where.variable) == ("DC809", Severity.ERROR, "RANK")
    assert "RANK=0 of 4" in finding.message
    own = replicated(
        "[bash, -c, 'export RANK=${HOSTNAME##*-}; python train.py']",
        env="[{name: RANK, value: '0'}, {name: WORLD_SIZE, value: '4'}]",
    )
    assert judge(own) == []


def test_a_reference_is_only_told() -> None:
    (finding, _) = judge(pytorch_job(env="[{name: RANK, valueFrom: {fieldRef: {}}}]"), "DC809")
    assert finding.severity is Severity.INFO


def test_a_train_job_refuses_the_variables_of_its_trainer() -> None:
    text = """\
kind: TrainJob
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    command: [torchrun, train.py]
    env:
      - {name: PET_NNODES, value: "2"}
"""
    (finding,) = judge(text)
    assert (finding.code, finding.severity, finding.where.line) == ("DC809", Severity.ERROR, 7)
    assert judge(text.replace("torch-distributed", "mpi")) == []


# DC406


@pytest.mark.parametrize("value", ["ib0", "=ens3f0np0", "bond0", "enp12s0,eno1", "eth1", "hsn"])
def test_an_interface_of_the_machine(value: str) -> None:
    text = pod(env=f"[{{name: NCCL_SOCKET_IFNAME, value: '{value}'}}]")
    (finding,) = judge(text)
    assert (finding.code, finding.severity, finding.where.variable) == ("DC406", Severity.INFO, "NCCL_SOCKET_IFNAME")


@pytest.mark.parametrize(
    "text",
    [
        *(
            pod(env=f"[{{name: NCCL_SOCKET_IFNAME, value: '{value}'}}]")
            for value in ("eth0", "eth", "=eth0", "^lo,docker", "^ib0", "net1", "eth0,ib0", "", "lo", "{{ .nic }}")
        ),
        pod(env="[{name: NCCL_SOCKET_IFNAME, value: ib0}]", spec="hostNetwork: true\n  hostIPC: true"),
        pod(env="[{name: NCCL_SOCKET_IFNAME, valueFrom: {}}]"),
        pod(env="[{name: NCCL_IB_HCA, value: mlx5}]"),
    ],
)
def test_interfaces_that_a_pod_may_have(text: str) -> None:
    assert judge(text) == []


def test_the_whole_list_is_where_it_should_be() -> None:
    text = pytorch_job(
        "[torchrun, --nnodes=2, --nproc_per_node=16, train.py]",
        "[torchrun, --nnodes=4, --nproc_per_node=8, train.py]",
        env="[{name: RANK, value: '7'}]",
    )
    assert sorted(said(text)) == [
        ("DC301", "error", "command: [torchrun, --nnodes=2, --nproc_per_node=16, train.py]"),
        ("DC804", "error", "command: [torchrun, --nnodes=2, --nproc_per_node=16, train.py]"),
        ("DC809", "error", "env: [{name: RANK, value: '7'}]"),
        ("DC809", "error", "env: [{name: RANK, value: '7'}]"),
    ]


# lines within a text for a shell


def block(*lines: str, **given: str) -> str:
    text = pod(
        "\n        - bash\n        - -c\n        - |\n" + "".join(f"          {line}\n" for line in lines), **given
    )
    return text.replace("command: \n", "command:\n")


def test_a_line_within_a_block_is_judged_in_its_place() -> None:
    text = block("export N=8", "torchrun \\", "  --nproc_per_node=8 train.py", limits="{nvidia.com/gpu: 4}")
    (finding,) = judge(text)
    assert (finding.code, finding.where.line) == ("DC301", 15)
    assert judge(fixed(text, finding)) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["if [ $(nvidia-smi -L | wc -l) = 8 ]; then", "  torchrun --nproc_per_node=8 train.py", "fi"],
        ["CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py"],
        ["torchrun --nproc_per_node=$GPUS train.py"],
        ["# torchrun --nproc_per_node=8 train.py", "torchrun --nproc_per_node=4 train.py"],
    ],
)
def test_lines_within_a_block_that_are_right(lines: list[str]) -> None:
    assert judge(block(*lines, limits="{nvidia.com/gpu: 4}")) == []


def test_a_variable_of_the_block_is_the_pods() -> None:
    found = judge(block("export NCCL_SOCKET_IFNAME=ib0", "torchrun --nproc_per_node=8 train.py"))
    assert [(finding.code, finding.where.line) for finding in found] == [("DC406", 13)]


def test_a_node_rank_that_a_test_chooses() -> None:
    line = "torchrun --nnodes=2 --node_rank={} --nproc_per_node=8 --master_addr=t-0.t train.py"
    script = f'if [ "$HOSTNAME" = t-0 ]; then {line.format(0)}; else {line.format(1)}; fi'
    text = replicated(f"[bash, -c, '{script}']", count="replicas: 2")
    assert judge(text) == []
