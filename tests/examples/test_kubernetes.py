"""The manifests of ``examples/kubernetes``: parsed, and their containers' commands run with sh."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from distcheck.cli.prolog_check import RULES
from tests.cli.test_cli import environment
from tests.cli.test_prolog_check import LOST
from tests.test_hosts import read

from .test_slurm import script

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "examples" / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
#: The pod of the recorded machine, with the answers that a case changes.
POD = """
import os, sys, tempfile
from pathlib import Path
sys.path.insert(0, {root!r})
from distcheck.cli import env
from tests.test_hosts import facts_of, world_of
changes = {changes!r}
names = ("RANK", "MASTER_", "WORLD_SIZE", "PET_", "JOB_COMPLETION_INDEX")
environ = {{name: None for name in world_of.__globals__["read"]("kubernetes-pytorchjob", "world")["environ"]}}
environ.update((name, value) for name, value in os.environ.items() if name.startswith(names))
case = {{"name": "the pod", "environ": environ, "world": changes}}
with tempfile.TemporaryDirectory() as folder:
    world = world_of("kubernetes-pytorchjob", case, Path(folder))
    env.World = lambda: world
    examine = env.examine
    facts = facts_of("kubernetes-pytorchjob", case)
    env.examine = lambda launch, seen=None, **more: examine(
        launch, seen, **{{**more, "facts": {{**facts, **more["facts"]}}}}
    )
    from distcheck.cli.main import main
    main()
"""


def pods() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each pod's spec of a job, with a name for it."""
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] == "DaemonSet":
                continue
            replicas = document["spec"].get("pytorchReplicaSpecs")
            if replicas is not None:
                yield from ((f"{path.stem} {name}", part["template"]["spec"]) for name, part in replicas.items())
            elif "template" in document["spec"]:
                yield path.stem, document["spec"]["template"]["spec"]


PODS = dict(pods())


def test_all_manifests_have_pods() -> None:
    assert set(PODS) == {"pytorchjob Master", "pytorchjob Worker", "indexed-job"}


@pytest.mark.parametrize("name", PODS)
def test_the_main_container_looks_and_has_what_it_looks_at(name: str) -> None:
    pod = PODS[name]
    (main,) = pod["containers"]
    # the operator knows its container by this name
    assert main["name"] == ("pytorch" if name.startswith("pytorchjob") else "train")
    assert main["command"] == ["sh", "-c"]
    look, launch = re.split(r" && exec | \|\| exit \$\(\(100 \+ \$\?\)\); exec ", main["args"][0])
    assert look == f"distcheck env -- {launch}", "what is judged must be what is started"
    assert launch.startswith("torchrun ")
    assert main["resources"]["limits"]["nvidia.com/gpu"] == 8
    (mount,) = main["volumeMounts"]
    (volume,) = pod["volumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/dev/shm")
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}


@pytest.mark.parametrize("name", PODS)
def test_an_init_container_only_waits(name: str) -> None:
    for container in PODS[name].get("initContainers", ()):
        text = container["args"][0]
        assert "distcheck" not in text
        assert "torchrun" not in text
        assert "nvidia.com/gpu" not in container["resources"]["limits"]
        assert "volumeMounts" not in container
    # the Master's own name may not resolve before its containers run
    assert ("initContainers" in PODS[name]) == (name != "pytorchjob Master")


def test_a_verdict_is_final_and_an_eviction_is_not() -> None:
    job = yaml.safe_load((FOLDER / "pytorchjob.yaml").read_text(encoding="utf-8"))
    assert {part["restartPolicy"] for part in job["spec"]["pytorchReplicaSpecs"].values()} == {"ExitCode"}
    service, indexed = yaml.safe_load_all((FOLDER / "indexed-job.yaml").read_text(encoding="utf-8"))
    fails, ignores = indexed["spec"]["podFailurePolicy"]["rules"]
    main = PODS["indexed-job"]["containers"][0]["name"]
    assert (fails["action"], fails["onExitCodes"]) == (
        "FailJob",
        {"containerName": main, "operator": "In", "values": [101, 102, 103]},
    )
    assert ignores["action"] == "Ignore"
    assert PODS["indexed-job"]["restartPolicy"] == "Never", "Kubernetes takes a podFailurePolicy with nothing else"
    assert service["spec"]["clusterIP"] is None or service["spec"]["clusterIP"] == "None"
    assert service["metadata"]["name"] == PODS["indexed-job"]["subdomain"]
    assert service["spec"]["selector"] == {"job-name": indexed["metadata"]["name"]}


def test_the_names_that_are_waited_for_are_those_of_the_first_pods() -> None:
    waited = {
        name: re.findall(r"getent hosts (\S+)", pod["initContainers"][0]["args"][0])
        for name, pod in PODS.items()
        if "initContainers" in pod
    }
    job = yaml.safe_load((FOLDER / "pytorchjob.yaml").read_text(encoding="utf-8"))["metadata"]["name"]
    assert waited == {"pytorchjob Worker": [f"{job}-master-0"], "indexed-job": ["train-0.train"]}
    assert "--master-addr=train-0.train" in PODS["indexed-job"]["containers"][0]["args"][0]


# run


def operator(name: str) -> dict[str, str]:
    """What the operator, or Kubernetes, sets in the main container."""
    if name == "indexed-job":
        return {"JOB_COMPLETION_INDEX": "1"}
    recorded: dict[str, str] = read("kubernetes-pytorchjob", "world")["environ"]
    wanted = ("RANK", "WORLD_SIZE", "MASTER_", "PET_")
    set_by_it = {key: value for key, value in recorded.items() if key.startswith(wanted)}
    if name.endswith("Master"):
        set_by_it |= {"RANK": "0", "PET_NODE_RANK": "0", "MASTER_ADDR": "localhost", "PET_MASTER_ADDR": "localhost"}
    return set_by_it


def start(
    name: str, folder: Path, trains: int = 0, variables: Mapping[str, str] = {}, **changes: Any
) -> subprocess.CompletedProcess[str]:
    """The main container's command, with a launcher that only says how it was called."""
    pod = {**where_it_runs(name), **changes}
    (main,) = PODS[name]["containers"]
    script(folder / "bin" / "distcheck", f"#!{sys.executable}\n{POD.format(root=str(ROOT), changes=pod)}")
    script(folder / "bin" / "torchrun", f'#!/bin/sh\necho "torchrun $*" >>trained\nexit {trains}\n')
    environ = environment(**operator(name), **variables)
    return subprocess.run(
        [*main["command"], *main["args"]],
        env={**environ, "PATH": f"{folder}/bin:{environ['PATH']}"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


def where_it_runs(name: str) -> dict[str, Any]:
    """The recorded pod as this one: its name, and the first pod's."""
    if name == "pytorchjob Worker":
        return {}
    world = read("kubernetes-pytorchjob", "world")
    if name == "pytorchjob Master":
        own = {"host_name": "llm-master-0", "full_host_name": "llm-master-0"}
        addresses = json.loads(json.dumps(world["addresses"]).replace("10.244.1.7", "10.244.3.4"))
        return {**own, "addresses": addresses}
    return {"names": {**world["names"], "train-0.train": ["10.244.3.4"]}, "listeners": {"10.244.3.4:29500": ""}}


@pytest.mark.parametrize("name", PODS)
def test_good_pod_trains(name: str, tmp_path: Path) -> None:
    result = start(name, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    expected = "torchrun train.py"
    if name == "indexed-job":
        where = "--nnodes=2 --nproc-per-node=8 --node-rank=1 --master-addr=train-0.train --master-port=29500"
        expected = f"torchrun {where} train.py"
    assert (tmp_path / "trained").read_text() == f"{expected}\n"
    assert "planned" in result.stdout


SMALL_MEMORY_VOLUME = {"/dev/shm": [67108864, 67108864], "/tmp": [214748364800, 128849018880]}


@pytest.mark.parametrize("name", PODS)
def test_bad_pod_without_shared_memory_is_warned(name: str, tmp_path: Path) -> None:
    result = start(name, tmp_path, spaces=SMALL_MEMORY_VOLUME)
    assert result.returncode == 0
    assert "warning DC320" in result.stdout
    assert "an emptyDir with 'medium: Memory'" in " ".join(result.stdout.split())
    assert (tmp_path / "trained").exists()


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("name", PODS)
def test_a_pod_that_fails_on_warnings(name: str, small: bool, tmp_path: Path) -> None:
    changes = {"spaces": SMALL_MEMORY_VOLUME} if small else {}
    result = start(name, tmp_path, variables={"DISTCHECK_ENV_FAIL_ON": "warning"}, **changes)
    assert result.returncode == ((101 if name == "indexed-job" else 1) if small else 0)
    assert (tmp_path / "trained").exists() is not small


@pytest.mark.parametrize("status", [1, 137])
def test_a_training_that_fails_is_no_verdict(status: int, tmp_path: Path) -> None:
    indexed = list(yaml.safe_load_all((FOLDER / "indexed-job.yaml").read_text(encoding="utf-8")))[1]
    (fails, _) = indexed["spec"]["podFailurePolicy"]["rules"]
    assert start("indexed-job", tmp_path, trains=status).returncode == status
    assert (tmp_path / "trained").exists()
    assert status not in fails["onExitCodes"]["values"]
    assert {100 + verdict for verdict in (1, 2, 3)} == set(fails["onExitCodes"]["values"])


@pytest.mark.parametrize("name", [name for name, pod in PODS.items() if "initContainers" in pod])
@pytest.mark.parametrize(("answers_at", "status"), [(3, 0), (1000, 1)])
def test_waiting_for_a_name(name: str, answers_at: int, status: int, tmp_path: Path) -> None:
    (container,) = PODS[name]["initContainers"]
    script(
        tmp_path / "bin" / "getent",
        f'#!/bin/sh\necho "$*" >>asked\n[ "$(wc -l <asked)" -ge {answers_at} ] || exit 2\necho 10.0.0.1 "$2"\n',
    )
    script(tmp_path / "bin" / "sleep", "#!/bin/sh\n")
    environ = environment()
    result = subprocess.run(
        [*container["command"], *container["args"]],
        env={**environ, "PATH": f"{tmp_path}/bin:{environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (status, "")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == min(answers_at, 150)
    assert ("does not resolve" in result.stderr) == bool(status)


# the check of each node


def node_check() -> Any:
    return yaml.safe_load((FOLDER / "node-check.yaml").read_text(encoding="utf-8"))["spec"]["template"]["spec"]


def test_the_node_check_sees_all_gpus_and_takes_none() -> None:
    pod = node_check()
    (main,) = pod["containers"]
    assert not any("gpu" in name for kind in main["resources"].values() for name in kind)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in main["env"]
    (volume,) = pod["volumes"]
    assert volume["hostPath"]["path"] == "/var/lib/node_exporter/textfile_collector"
    assert main["volumeMounts"] == [{"name": volume["name"], "mountPath": "/textfile"}]
    (codes,) = re.findall(r"--select (\S+)", main["args"][0])
    # a container has a /dev/shm and a /tmp of its own
    assert set(codes.split(",")) == set(RULES) - {"DC320", "DC327"}


def test_the_node_check_writes_its_file_and_ends_with_the_pod(tmp_path: Path) -> None:
    (main,) = node_check()["containers"]
    start = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{LOST}\nfrom distcheck.cli.fast_path import main\nmain()\n"
    script(tmp_path / "bin" / "distcheck", f"#!{sys.executable}\n{start}")
    environ = environment()
    (tmp_path / "textfile").mkdir()
    words = [word.replace("/textfile/", f"{tmp_path}/textfile/") for word in (*main["command"], *main["args"])]
    process = subprocess.Popen(words, env={**environ, "PATH": f"{tmp_path}/bin:{environ['PATH']}"}, cwd="/")
    try:
        file = tmp_path / "textfile" / "distcheck.prom"
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert 'code="DC309",name="gpu-hardware-error",severity="error"} 1' in file.read_text(encoding="utf-8")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
