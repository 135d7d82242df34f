"""``distcheck rehearse`` as a user calls it: what it refuses, what it starts, what it says, and that nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from distcheck.cli import rehearse
from distcheck.cli.rehearse import starts_ranks
from distcheck.cli.rehearse_report import _statement
from distcheck.core.world import World

from .test_cli import SCHEMA, distcheck, environment

GROUP = """\
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
"""
TRAINS = (
    GROUP
    + """\
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(50):
    optimizer.zero_grad()
    model(torch.randn(8, 4, device="cuda")).sum().backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step} of {sys.argv[1]}", flush=True)
        torch.save(model.state_dict(), "model.pt")
dist.destroy_process_group()
"""
)


def written(folder: Path, text: str) -> Path:
    (folder / "train.py").write_text(text)
    return folder


def rehearsed(folder: Path, *words: str, **extra: str) -> dict[str, Any]:
    """The report as JSON, with its status, and what stood on standard error."""
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "rehearse", "--output-format", "json", *words],
        capture_output=True, text=True, cwd=folder, timeout=240, env=environment(TMPDIR=str(_temporary(folder)), **extra),
    )  # fmt: skip
    assert "Traceback" not in result.stderr.replace("[rank", "") or "-v" in words, result.stderr
    plain: dict[str, Any] = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    assert list(_temporary(folder).iterdir()) == [], "something is left"
    return {**plain, "status": result.returncode, "stderr": result.stderr}


def _temporary(folder: Path) -> Path:
    # a path of a socket is short, and this one is not to be seen beside the script
    path = Path(tempfile.gettempdir()) / f"dc-{folder.name[-24:]}"
    path.mkdir(exist_ok=True)
    return path


@pytest.fixture(autouse=True)
def no_temporary_folder_stays(tmp_path: Path) -> Any:
    yield
    path = Path(tempfile.gettempdir()) / f"dc-{tmp_path.name[-24:]}"
    shutil.rmtree(path, ignore_errors=True)


# what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a script or a launch line: distcheck rehearse -- train.py"),
        (("--", "nowhere.py"), "nowhere.py: no such file"),
        (("--", "torchrun", "--nproc-per-node", "2"), "the launch line has no script:"),
        (("--nproc-per-node", "0", "--", "train.py"), "--nproc-per-node"),
        (("--nnodes", "200", "--nproc-per-node", "200", "--", "train.py"), "40000 processes"),
        (("--launcher", "mpi", "--", "train.py"), "--launcher"),
        (("-o", "nowhere/report.json", "--", "train.py"), "the folder nowhere does not exist"),
        (("--steps", "-1", "--", "train.py"), "--steps"),
    ],
)
def test_what_can_not_be_rehearsed_is_refused_in_a_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = distcheck("rehearse", *words, cwd=written(tmp_path, "pass\n"))
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_options_can_be_variables(tmp_path: Path) -> None:
    result = distcheck("rehearse", "--", "train.py", cwd=written(tmp_path, "pass\n"), DISTCHECK_REHEARSE_NNODES="none")
    assert result.returncode == 2
    assert "--nnodes" in result.stderr


def fake_torch(folder: Path, cuda: str) -> None:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise ImportError('the parent is not to import it')\n")
    (folder / "torch" / "version.py").write_text(f"__version__ = '2.13.0'\ncuda: Optional[str] = {cuda}\n")


def test_without_torch_it_says_what_to_type(tmp_path: Path) -> None:
    # -S: no packages; those of this interpreter but torch are handed over
    program = (
        "import sys, importlib.util; find = importlib.util.find_spec;"
        "importlib.util.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more);"
        "from distcheck.cli.main import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "rehearse", "--", "train.py"],
        capture_output=True, text=True, env=environment(), cwd=written(tmp_path, "pass\n"), timeout=60,
    )  # fmt: skip
    assert result.returncode == 2
    assert f"torch is not installed for {sys.executable}" in result.stderr
    assert "python -m distcheck rehearse" in result.stderr


@pytest.mark.parametrize(
    ("cuda", "said"), [("None", "built for the CPU only"), ("'12.6'", "are needed, and 1 are here")]
)
def test_real_gpus_must_suffice(cuda: str, said: str, tmp_path: Path) -> None:
    fake_torch(tmp_path, cuda)
    gpus = "1" if cuda != "None" else "4"
    words = ("rehearse", "--real-gpus", "--nnodes", "1", "--nproc-per-node", "2", "--", "train.py")
    mask = ",".join(str(index) for index in range(int(gpus)))
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", *words],
        capture_output=True, text=True, cwd=written(tmp_path, "pass\n"), timeout=60,
        env={**environment(CUDA_VISIBLE_DEVICES=mask), "PYTHONPATH": f"{tmp_path}:{environment()['PYTHONPATH']}"},
    )  # fmt: skip
    assert result.returncode == 2
    assert said in result.stderr


def test_it_refuses_to_start_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearse.os, "name", "nt")
    with pytest.raises(click.UsageError, match="needs Linux or macOS"):
        rehearse.check_machine(None, World())


# who starts the ranks

SPAWNS = "import torch.multiprocessing as mp\ndef work(rank): ...\nif __name__ == '__main__':\n    {}mp.spawn(work, nprocs=2)\n"


def test_a_script_that_spawns_is_started_once_a_node(tmp_path: Path) -> None:
    assert starts_ranks(str(written(tmp_path, SPAWNS.format("")) / "train.py"))


def test_a_script_that_starts_processes_which_meet_is_started_once_a_node(tmp_path: Path) -> None:
    text = (
        "import torch.distributed as dist, torch.multiprocessing as mp\n"
        "def work(rank):\n    dist.init_process_group('gloo', rank=rank, world_size=2)\n"
        "if __name__ == '__main__':\n    for rank in range(2):\n        mp.Process(target=work, args=(rank,)).start()\n"
    )
    assert starts_ranks(str(written(tmp_path, text) / "train.py"))


def test_a_module_of_the_script_may_start_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    launching = "import torch.multiprocessing as mp\ndef launch(work):\n    mp.spawn(work, nprocs=2)\n"
    (tmp_path / "package" / "launching.py").write_text(launching)
    (tmp_path / "other.py").write_text("from package.launching import launch\nlaunch(print)\n")
    written(tmp_path, "print('I start none')\n")
    assert starts_ranks("other.py")
    assert not starts_ranks("train.py")
    assert starts_ranks(str(tmp_path / "other.py"))


def test_a_package_of_the_script_may_import_what_starts_them_from_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("from .inner import launch\n")
    (tmp_path / "package" / "inner" / "__init__.py").write_text("from ..launching import launch\n")
    launching = "import torch.multiprocessing as mp\ndef launch(work):\n    mp.spawn(work, nprocs=2)\n"
    (tmp_path / "package" / "launching.py").write_text(launching)
    # of no package: what the relative import would name in the folder of the script
    (tmp_path / "launching.py").write_text("def launch(work): work()\n")
    (tmp_path / "other.py").write_text("import package\npackage.launch(print)\n")
    assert starts_ranks("other.py")
    (tmp_path / "package" / "launching.py").write_text("from . import nothing\n")
    assert not starts_ranks("other.py")


def test_a_package_above_the_script_may_start_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``PYTHONPATH=. python tools/train.py``; a library elsewhere on the path is not the project's."""
    monkeypatch.chdir(tmp_path)
    launching = "import torch.multiprocessing as mp\ndef launch(work):\n    mp.start_processes(work, nprocs=2)\n"
    for folder in ("project/package", "project/tools", "library"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "project" / "package" / "__init__.py").write_text(launching)
    (tmp_path / "library" / "other.py").write_text(launching)
    script = tmp_path / "project" / "tools" / "train.py"
    script.write_text("from package import launch\nlaunch(print)\n")
    assert starts_ranks(str(script), paths=f"library:{tmp_path / 'project'}")
    assert starts_ranks("project/tools/train.py", paths="project")
    assert not starts_ranks(str(script))
    assert not starts_ranks("project/tools/train.py", paths="project/package")
    script.write_text("import other\nother.launch(print)\n")
    assert not starts_ranks(str(script), paths=f"{tmp_path / 'library'}:project")


BY_AN_OPTION = """
import argparse, os
import torch.distributed as dist
import torch.multiprocessing as mp

parser = argparse.ArgumentParser()
parser.add_argument("--multiprocessing-distributed", action="store_true")
args = parser.parse_args()

def worker(gpu):
    dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=2)

if __name__ == "__main__":
    if args.multiprocessing_distributed:
        mp.spawn(worker, nprocs=2)
    else:
        worker(0)
"""


def test_an_option_of_the_line_selects_the_branch_that_starts_ranks(tmp_path: Path) -> None:
    path = str(written(tmp_path, BY_AN_OPTION) / "train.py")
    assert not starts_ranks(path)
    assert not starts_ranks(path, rehearse._flags(["train.py", "--epochs", "1", "--rank=0"]))
    assert starts_ranks(path, rehearse._flags(["train.py", "--multiprocessing-distributed", "--epochs", "1"]))
    assert starts_ranks(path, rehearse._flags(["train.py", "--multiprocessing-distributed"]))
    other = str(written(tmp_path, BY_AN_OPTION.replace("if args", "if not args")) / "train.py")
    assert not starts_ranks(other, {"multiprocessing_distributed"})


@pytest.mark.parametrize(
    "text",
    [
        "import torch.distributed as dist\ndist.init_process_group()\n",
        # loads in processes of its own
        "import multiprocessing\nmultiprocessing.Process(target=print).start()\n",
        # a launcher may have started it, and then it spawns nothing
        "import os\n" + SPAWNS.format("if 'LOCAL_RANK' not in os.environ: "),
    ],
)
def test_others_are_started_by_a_launcher(text: str, tmp_path: Path) -> None:
    assert not starts_ranks(str(written(tmp_path, text) / "train.py"))


def test_a_statement_of_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("x = 1\ncall(\n    2,\n)\nfor x in (\n    1,\n):\n    call()\n")
    assert [_statement(str(path), line) for line in (1, 3, 6, 8)] == [(1, 1), (2, 4), (5, 7), (8, 8)]


# the whole of it


@pytest.mark.torch
@pytest.mark.slow
def test_good_a_healthy_script_is_silent_and_leaves_nothing(tmp_path: Path) -> None:
    text = TRAINS.replace("range(50)", "range(100)")
    plain = rehearsed(written(tmp_path, text), "--nnodes", "1", "-v", "--", "train.py", "a run")
    assert [item["message"] for item in plain["findings"] if item["severity"] != "info"] == []
    assert plain["status"] == 0
    (steps,) = {end["steps"] for end in plain["subject"]["ends"] if end["how"] == "steps"}
    assert 3 <= steps <= 64  # more than three, if they are fast on this machine
    assert "[rank 0] step 2 of a run" in plain["stderr"].splitlines()
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    assert any(item["what"] == "the end of the script" for item in plain["not_checked"])


@pytest.mark.torch
@pytest.mark.slow
def test_bad_a_rank_of_the_second_node_takes_no_gpu_that_is_there(tmp_path: Path) -> None:
    """DC201, by lint as well; and the text of the exception is not told a second time by what log knows of it."""
    text = TRAINS.replace("set_device(local)", "set_device(rank)")
    plain = rehearsed(written(tmp_path, text), "--nnodes", "2", "--nproc-per-node", "1", "--", "train.py", "x")
    (found,) = [item for item in plain["findings"] if item["severity"] == "error"]
    assert (found["code"], found["where"]["path"], found["where"]["line"]) == ("DC201", "train.py", 5)
    assert found["message"].endswith("confirmed in rehearsal")
    assert plain["status"] == 1


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_that_fails_by_itself_is_told_with_its_last_lines(tmp_path: Path) -> None:
    text = (
        GROUP.replace("nccl", "gloo")
        # gloo fails on a rank whose peer leaves before both are connected
        + "dist.barrier()\nif rank == 1:\n    raise LookupError('no such split')\ndist.destroy_process_group()\n"
    )
    plain = rehearsed(written(tmp_path, text), "--nnodes", "1", "--", "torchrun", "--nproc-per-node", "2", "train.py")
    assert plain["status"] == 3
    assert "the script itself failed" in plain["stderr"]
    closing = plain["subject"]["closing"]
    assert closing[0] == "rank 1 raised LookupError: no such split at train.py:8, before the first optimizer step:"
    assert any("raise LookupError('no such split')" in line for line in closing)
    assert [end["how"] for end in plain["subject"]["ends"]] == ["finished", "raised"]


@pytest.mark.torch
@pytest.mark.slow
def test_ranks_that_a_script_spawns_are_ranks(tmp_path: Path) -> None:
    text = (
        "import os, torch, torch.distributed as dist, torch.multiprocessing as mp\n"
        "def work(rank, world, name):\n"
        "    dist.init_process_group('nccl', init_method=f'file://{name}', rank=rank, world_size=world)\n"
        "    torch.cuda.set_device(rank)\n"
        "    torch.manual_seed(0)\n"
        "    model = torch.nn.Linear(2, 2).cuda()\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    for _ in range(50):\n"
        "        model(torch.ones(2, 2).cuda()).sum().backward()\n"
        "        for one in model.parameters():\n"
        "            dist.all_reduce(one.grad)\n"
        "        optimizer.step()\n"
        "if __name__ == '__main__':\n"
        "    count = torch.cuda.device_count()\n"
        "    mp.spawn(work, args=(count, os.path.abspath('store')), nprocs=count)\n"
    )
    words = ("--gpus-per-node", "2", "--steps", "3", "--strict", "--", "python", "train.py")
    plain = rehearsed(written(tmp_path, text), *words)
    assert plain["subject"]["line"][1] == "1 node x 2 ranks (script)"
    assert [(end["rank"], end["how"], end["steps"]) for end in plain["subject"]["ends"]] == [
        (0, "steps", 3),
        (1, "steps", 3),
    ]
    assert plain["status"] == 3  # --strict: it was ended before its end


RPC = """\
import os
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.optim import DistributedOptimizer
def product(weight, inputs):
    return inputs @ weight.local_value()
def weight():
    return torch.ones(3, 2, requires_grad=True)
rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    ref = rpc.remote("worker1", weight)
    optimizer = DistributedOptimizer(torch.optim.SGD, [ref], lr=0.1)
    for _ in range(4):
        with dist_autograd.context() as context:
            loss = rpc.rpc_sync("worker1", product, args=(ref, torch.randn(4, 3))).sum()
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
rpc.shutdown()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_steps_of_rpc_count_and_its_calls_are_not_checked(tmp_path: Path) -> None:
    plain = rehearsed(written(tmp_path, RPC), "--nnodes", "1", "--", "train.py")
    assert [(end["rank"], end["how"], end["steps"]) for end in plain["subject"]["ends"]] == [
        (0, "finished", 4),
        (1, "finished", 0),
    ]
    assert any(item["what"].endswith("RPC") for item in plain["not_checked"])


@pytest.mark.torch
@pytest.mark.slow
def test_whoever_ends_it_ends_the_ranks(tmp_path: Path) -> None:
    """By SIGTERM, which it answers; by SIGKILL, which it can't."""
    text = (
        "import os, time\nopen(os.environ['MARK'] + os.environ['RANK'], 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    for number, expected in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
        marks = tmp_path / number.name
        marks.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", "distcheck", "rehearse", "--in-place", "--nnodes", "1", "--", "train.py"],
            cwd=written(tmp_path, text), env=environment(MARK=f"{marks}/", TMPDIR=str(_temporary(tmp_path))),
        )  # fmt: skip
        until = time.monotonic() + 120
        while len([path for path in marks.iterdir() if path.read_text()]) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        ranks = [int(path.read_text()) for path in marks.iterdir()]
        assert len(ranks) == 2
        process.send_signal(number)
        assert process.wait(timeout=60) == expected
        until = time.monotonic() + 60
        while any(os.path.exists(f"/proc/{pid}") for pid in ranks) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in ranks)
    # what the one that was killed has left goes with the next
    (left,) = _temporary(tmp_path).iterdir()
    rehearsed(written(tmp_path, "print('hello')\n"), "--nnodes", "1", "--", "train.py")
    assert not left.exists()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.gpu
def test_real_gpus_and_nccl(tmp_path: Path) -> None:
    words = ("--real-gpus", "--nnodes", "1", "--nproc-per-node", "1", "--steps", "3", "--", "train.py", "x")
    text = TRAINS + "assert not hasattr(torch.cuda, '_distcheck')\n"
    plain = rehearsed(written(tmp_path, text), *words)
    assert [item["message"] for item in plain["findings"] if item["severity"] != "info"] == []
    assert [(end["how"], end["steps"]) for end in plain["subject"]["ends"]] == [("steps", 3)]
    assert plain["status"] == 0
