"""Containers of pods: quantities, variables and their references, limits, /dev/shm, networks, the joined command."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.containers import (
    command_of,
    environ_of,
    expanded,
    gets_limited_gpus,
    host_network_of,
    quantity,
    resources_of,
    settings_of,
    shared_memory_of,
    shell_text_of,
    word_of,
)
from distcheck.checks.launch_files.fragments import Fragment
from distcheck.checks.launch_files.model import FileSetting
from distcheck.checks.launch_files.yaml_text import Node, read_yaml
from distcheck.core.spans import Span

HERE = Span("job.yaml", 1, 1, 1, 2)


def node(text: str) -> Node:
    (document,) = read_yaml(Fragment(text, "job.yaml")).documents
    return document


def given(name: str, value: str | None) -> FileSetting:
    return FileSetting(name, value, HERE, HERE, HERE, "container")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("0", 0),
        ("500m", 0.5),
        ("1500m", 1.5),
        ("0.5", 0.5),
        (".5", 0.5),
        ("64Gi", 64 << 30),
        ("1.5Gi", 3 << 29),
        ("64G", 64 * 10**9),
        ("512Mi", 512 << 20),
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("129M", 129_000_000),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1Ti", 1 << 40),
        ("1E", 10**18),
        ("2u", 2e-6),
        (" 4 ", 4),
    ],
)
def test_a_quantity_is_read_as_kubernetes_reads_it(text: str, value: float) -> None:
    assert quantity(text) == pytest.approx(value)
    assert isinstance(quantity(text), int) == isinstance(value, int)


@pytest.mark.parametrize("text", ["", "x", "8 GPUs", "1KI", "1mi", "mi", "--1", "1e999", "1.2.3", "$N", "9" * 99])
def test_what_is_no_quantity_is_none(text: str) -> None:
    assert quantity(text) is None


def test_variables_keep_their_places_and_what_is_unknown() -> None:
    text = """\
env:
  - name: A
    value: "1"
  - {name: B, value: two}
  - name: C
    valueFrom: {fieldRef: {fieldPath: status.podIP}}
  - name: D
    value: $(A)-$(B)
  - name: E
    value: tcp://$(C):$(NOWHERE)
  - name: F
  - name: A
    value: "3"
"""
    settings = {setting.name: setting for setting in settings_of(node(text))}
    assert {name: setting.value for name, setting in settings.items()} == {
        "A": "3", "B": "two", "C": None, "D": "1-two", "E": None, "F": "",
    }  # fmt: skip
    assert settings["B"].name_span == Span("job.yaml", 4, 12, 4, 13)
    assert settings["B"].value_span == Span("job.yaml", 4, 22, 4, 25)
    assert (settings["A"].written, settings["A"].span.line) == ('"3"', 12)
    assert {setting.reach for setting in settings.values()} == {"container"}


def test_templates_are_unknown_variables() -> None:
    text = 'env:\n  - {name: NCCL_DEBUG, value: "{{ .Values.debug }}"}\n  - {name: "{{ .name }}", value: x}\n'
    (setting,) = settings_of(node(text))
    assert (setting.name, setting.value) == ("NCCL_DEBUG", None)


def test_what_an_operator_sets_is_unknown_to_the_command() -> None:
    environ = environ_of([given("RANK", "0"), given("X", "1")], ["RANK"], {"PET_NNODES": None, "X": "2"}, HERE)
    assert {name: setting.value for name, setting in environ.items()} == {"RANK": None, "X": "2", "PET_NNODES": None}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("$(N)", "8"),
        ("--nproc=$(N) x", "--nproc=8 x"),
        ("a$(N)b$(N)c", "a8b8c"),
        ("$(UNKNOWN) $(hostname) $(hostname -i)", "$(UNKNOWN) $(hostname) $(hostname -i)"),
        ("$$(N) costs $$5", "$(N) costs $5"),
        ("$N ${N}", "$N ${N}"),
        ("$(N", "$(N"),
        ("$(EMPTY)x", "x"),
        ("$(LONG)", "$(LONG)"),
    ],
)
def test_references_are_replaced_as_the_kubelet_does_it(text: str, result: str) -> None:
    environ = {"N": given("N", "8"), "UNKNOWN": given("UNKNOWN", None), "EMPTY": given("EMPTY", "")}
    environ["LONG"] = given("LONG", "x" * 5000)
    assert expanded(Fragment(text, "f"), environ).text == result


def test_what_stands_behind_a_reference_keeps_its_place() -> None:
    fragment = expanded(
        Fragment("a $(LONGER) b\nc $(N) d", "f"), {"N": given("N", "8"), "LONGER": given("LONGER", "1")}
    )
    assert fragment.text == "a 1 b\nc 8 d"
    assert fragment.location(fragment.text.index("b")) == (1, 13)
    assert fragment.location(fragment.text.index("c")) == (2, 1)
    assert fragment.location(fragment.text.index("d")) == (2, 8)


def test_a_word_names_where_its_value_comes_from() -> None:
    word = word_of(node('"--nproc=$(N)"'), {"N": given("N", "8")})
    assert (word.text, word.written, word.origins) == ("--nproc=8", "--nproc=$(N)", (HERE,))
    # without the quotes, so that an edit keeps them
    assert word.span == Span("job.yaml", 1, 2, 1, 14)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["bash", "-c", "TEXT"], 2),
        (["/bin/sh", "-ec", "TEXT"], 2),
        (["bash", "-lc", "TEXT", "name", "argument"], 2),
        (["/bin/bash", "-euo", "pipefail", "-c", "TEXT"], 4),
        (["bash", "-c", "-e", "TEXT"], 3),
        (["tini", "--", "bash", "-xc", "TEXT"], 4),
        (["bash", "run.sh", "-c", "conf.yaml"], None),
        (["torchrun", "train.py", "-c", "conf.yaml"], None),
        (["bash"], None),
        (["bash", "-c"], None),
        ([], None),
    ],
)
def test_the_text_of_a_shell_is_found(words: list[str], number: int | None) -> None:
    assert shell_text_of(words, entry_point_known=True) == number


def test_arguments_for_the_images_own_shell() -> None:
    assert shell_text_of(["-c", "TEXT"], entry_point_known=False) == 1
    assert shell_text_of(["--config", "x"], entry_point_known=False) is None


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("limits: {nvidia.com/gpu: 8}", 8),
        ("limits: {nvidia.com/gpu: '8'}", 8),
        ("limits: {amd.com/gpu: 4}", 4),
        ("requests: {nvidia.com/gpu: 2}", 2),
        ("{limits: {cpu: 1}, requests: {nvidia.com/gpu: 2}}", 2),
    ],
)
def test_whole_gpus_are_counted(text: str, gpus: int) -> None:
    found = resources_of(node(text)).gpus
    assert found is not None
    assert found.number == gpus


@pytest.mark.parametrize(
    "text",
    [
        "limits: {nvidia.com/gpu: $GPUS}",
        "limits: {nvidia.com/gpu: '{{ .Values.gpus }}'}",
        "limits: {nvidia.com/mig-1g.5gb: 2}",
        "limits: {nvidia.com/gpu.shared: 2}",
        "limits:\n  {{- toYaml .Values.limits | nindent 2 }}\n",
        "{limits: {cpu: 2}, claims: [{name: gpu}]}",
    ],
)
def test_what_may_be_gpus_is_unknown(text: str) -> None:
    found = resources_of(node(text)).gpus
    assert found is not None
    assert not found.known
    assert found.number is None


def test_limits_of_cpus_and_memory() -> None:
    found = resources_of(node("{limits: {cpu: 3500m, memory: 2Gi}, requests: {cpu: 1, memory: 1Gi}}"))
    assert (found.cpus and found.cpus.value, found.memory_bytes and found.memory_bytes.value) == (3.5, 2 << 30)
    assert found.gpus is None
    assert resources_of(node("{requests: {cpu: 1}}")).cpus is None
    assert resources_of(None) == (None, None, None)


MOUNT = "{containers: [{image: i, volumeMounts: [{name: shm, mountPath: /dev/shm}]}], "


@pytest.mark.parametrize(
    ("pod", "expected", "size"),
    [
        ("{containers: [{image: i}]}", "default", None),
        ("{hostIPC: false, containers: [{image: i}]}", "default", None),
        ("{hostIPC: true, containers: [{image: i}]}", "host", None),
        ("{hostIPC: $IPC, containers: [{image: i}]}", "unknown", None),
        ("{containers: [{image: i, volumeMounts: [{name: a, mountPath: /data}]}]}", "default", None),
        (MOUNT + "volumes: [{name: shm, emptyDir: {medium: Memory}}]}", "mounted", None),
        (MOUNT + "volumes: [{name: shm, emptyDir: {}}]}", "mounted", None),
        (MOUNT + "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]}", "mounted", 8 << 30),
        (MOUNT + "volumes: [{name: shm, hostPath: {path: /dev/shm}}]}", "host", None),
        (MOUNT + "volumes: [{name: shm, persistentVolumeClaim: {claimName: x}}]}", "unknown", None),
        (MOUNT + "volumes: []}", "unknown", None),
        # a patch of a container that stands elsewhere
        ("{containers: [{name: pytorch, resources: {limits: {nvidia.com/gpu: 8}}}]}", "unknown", None),
    ],
)
def test_what_stands_at_dev_shm(pod: str, expected: str, size: int | None) -> None:
    spec = node(pod)
    container = spec.get("containers", 0)
    assert container is not None
    kind, limit = shared_memory_of(node("{spec: {}}"), spec, container)
    assert (kind, None if limit is None else limit.value) == (expected, size)


def test_volumes_that_a_template_gives_are_unknown() -> None:
    spec = node(
        "containers:\n  - image: i\n    volumeMounts:\n      {{- toYaml .Values.mounts | nindent 6 }}\nvolumes: []\n"
    )
    container = spec.get("containers", 0)
    assert container is not None
    assert shared_memory_of(spec, spec, container) == ("unknown", None)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ("{spec: {}}", False),
        ("{spec: {hostNetwork: false}}", False),
        ("{spec: {hostNetwork: true}}", True),
        ("{spec: {hostNetwork: $HOST}}", None),
        ("{metadata: {annotations: {k8s.v1.cni.cncf.io/networks: ib}}, spec: {}}", None),
        ("{metadata: {annotations: {prometheus.io/scrape: yes}}, spec: {}}", False),
    ],
)
def test_whose_network_a_pod_has(pod: str, expected: bool | None) -> None:
    template = node(pod)
    spec = template.get("spec")
    assert spec is not None
    assert host_network_of(template, spec) is expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ("{containers: [{image: i}]}", True),
        ("{containers: [{name: patch}]}", False),
        ("{runtimeClassName: nvidia, containers: [{image: i}]}", False),
        ("{containers: [{image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}", False),
    ],
)
def test_whether_a_container_can_see_other_gpus(pod: str, expected: bool) -> None:
    spec = node(pod)
    container = spec.get("containers", 0)
    assert container is not None
    assert gets_limited_gpus(spec, container) is expected


def test_the_words_of_a_command_are_kept_as_they_stand() -> None:
    assert command_of(node("{command: [a, '$(B)'], args: [c]}")) == ("a", "$(B)", "c")
    assert command_of(node("{command: a b}")) == ("a b",)
    assert command_of(node("{image: i}")) == ()
