"""``distcheck lint`` by default: a finding has the level of its rule where the project shows that ranks execute its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .test_cli import distcheck, report_of
from .test_lint_launch_files import jobs

SCRIPT = """\
import argparse
import json
import os

import torch
import torch.distributed as dist


def save(model, path):
    torch.save(model.state_dict(), path)


def main(args):
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8)
    best_loss, steps = 1e9, 0
    cfg = json.load(open("config.json"))
    max_steps = cfg.max_steps
    for epoch in range(args.epochs):
        loss = model(torch.ones(8)).sum()
        {save}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--format", default="pt")
    parser.add_argument("--distributed", action="store_true")
    {start}
"""
SAVE = 'save(model, "last.pt")'
START = "main(parser.parse_args())"
LAUNCH = "torchrun --nproc-per-node=8 train.py"


def document(*lines: str) -> str:
    return "```bash\n" + "".join(f"{line}\n" for line in lines) + "```\n"


def job(gpus: int) -> str:
    return (
        f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:{gpus}\n"
        "torchrun --nproc-per-node=$(echo $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w) train.py\n"
    )


def script(save: str = SAVE, start: str = START) -> str:
    return SCRIPT.format(save=save.replace("\n", "\n        "), start=start)


def findings(folder: Path, code: str, *arguments: str) -> list[dict[str, Any]]:
    found = report_of("lint", "--isolated", "--no-cache", *arguments, cwd=folder)["findings"]
    return [one for one in found if one["code"] == code]


def level(folder: Path, code: str = "DC720") -> str:
    (found,) = findings(folder, code)
    assert ("shown_reach" in found["evidence"]) is (found["severity"] != "info")
    return str(found["severity"])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"README_md": document(LAUNCH)}, "warning"),
        ({"run_sh": f"#!/bin/bash\n{LAUNCH}\n"}, "warning"),
        ({"README_md": document("srun -n 8 python train.py")}, "warning"),
        ({"README_md": document("python train.py", LAUNCH)}, "warning"),
        ({}, "info"),
        ({"README_md": document("python train.py")}, "info"),
        ({"README_md": document(LAUNCH.replace("8", "1"))}, "info"),
        ({"README_md": document(LAUNCH.replace("train", "test"))}, "info"),
        ({"job_sbatch": job(1)}, "info"),
        ({"job_sbatch": job(4)}, "warning"),
        ({"README_md": document("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=gpu train.py")}, "warning"),
        ({"README_md": document("CUDA_VISIBLE_DEVICES=0 torchrun --nproc-per-node=gpu train.py")}, "info"),
        ({"run_sh": "export CUDA_VISIBLE_DEVICES=3\ntorchrun --nproc-per-node=gpu train.py\n"}, "info"),
        ({"README_md": document("CUDA_VISIBLE_DEVICES=0 deepspeed train.py")}, "info"),
        ({"run_sh": f"# {LAUNCH}\npython train.py\n"}, "info"),
    ],
)
def test_a_launch_with_several_ranks_shows_it(tmp_path: Path, texts: dict[str, str], expected: str) -> None:
    assert level(jobs(tmp_path, train_py=script(), **texts)) == expected


def test_the_finding_names_the_launch(tmp_path: Path) -> None:
    folder = jobs(tmp_path, train_py=script(), README_md=document(LAUNCH))
    (found,) = findings(folder, "DC720")
    assert found["evidence"]["shown_reach"] == "README.md:2"
    assert found["evidence"]["flow"][0] == "README.md:2: starts several ranks that execute this line"
    shown = distcheck("lint", "--isolated", "--no-cache", cwd=folder).stdout
    assert "README.md:2: starts several ranks that execute this line" in shown


SPAWNING = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29501", rank=rank, world_size=size)
    torch.save(torch.nn.Linear(8, 8).state_dict(), "last.pt")


if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", "warning"),
        ("nprocs=2", "nprocs=torch.cuda.device_count()", "warning"),
        ("nprocs=2", "nprocs=int(input())", "info"),
        ("nprocs=2", "nprocs=1", "info"),
        ("    mp.spawn", "    if input():\n        mp.spawn", "info"),
    ],
)
def test_a_script_that_spawns_ranks_shows_it(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert level(jobs(tmp_path, train_py=SPAWNING.replace(old, new, 1))) == expected


KEEPER = """\
class Keeper:
    def keep(self, model):
        self.write(model)

    def write(self, model):
        {body}


class Other(Keeper):
    def write(self, model):
        pass


"""
FLAG = """\
class Keeper:
    writes = True

    def keep(self, model):
        if self.writes:
            {body}


class Other(Keeper):
    writes = False


"""
FUNCTION = """\
def write(model):
    {body}


"""


@pytest.mark.parametrize(
    ("before", "save", "expected"),
    [
        (KEEPER, "Keeper().keep(model)", "warning"),
        (KEEPER, "make(args).keep(model)", "info"),
        (KEEPER, "Other().keep(model)", "info"),
        (KEEPER, "Keeper.write = print\nKeeper().keep(model)", "info"),
        (KEEPER.replace("def keep(self", "def __init__(self"), "Keeper(model)", "warning"),
        (KEEPER.replace("def keep(self", "def __init__(self"), "Other(model)", "info"),
        (FLAG, "Other().keep(model)", "info"),
        (f"@torch.no_grad()\n{FUNCTION}", "write(model)", "warning"),
        (f"@make\n{FUNCTION}", "write(model)", "info"),
        (f"{FUNCTION}\n    yield\n\n\n", "write(model)", "info"),
    ],
)
def test_the_calls_to_the_line_must_be_resolved(tmp_path: Path, before: str, save: str, expected: str) -> None:
    text = script(save).replace("def main", before.format(body=SAVE) + "def main", 1)
    text = text.replace(
        "import torch.distributed as dist\n", "import torch.distributed as dist\nfrom kit import make\n"
    )
    folder = jobs(tmp_path, train_py=text, README_md=document(LAUNCH))
    assert [one["severity"] for one in findings(folder, "DC720")] in ([expected], [] if expected == "info" else None)


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("import prepare", "warning"),
        ("def later():\n    import prepare", "info"),
        ("if input():\n    import prepare", "info"),
    ],
)
def test_a_file_runs_if_it_is_imported_at_the_top(tmp_path: Path, imports: str, expected: str) -> None:
    start = SPAWNING.partition("def work")[0]
    prepare = f"{start}dist.init_process_group('nccl')\ntorch.save(torch.nn.Linear(8, 8), 'last.pt')\n"
    folder = jobs(tmp_path, prepare_py=prepare, train_py=f"{start}{imports}\n", README_md=document(LAUNCH))
    assert level(folder) == expected


@pytest.mark.parametrize(("folder", "expected"), [("one", "warning"), ("two", "info")])
def test_the_folder_of_the_launch_counts(tmp_path: Path, folder: str, expected: str) -> None:
    texts = {"one__train_py": "import torch\n", "two__train_py": "import torch\n", f"{folder}__train_py": script()}
    text = document("cd one", LAUNCH) + document("cd two", "python train.py")
    assert level(jobs(tmp_path, README_md=text, **texts)) == expected


@pytest.mark.parametrize(
    ("default", "launcher", "expected"),
    [
        ("-1", "torchrun", "info"),
        ("-1", "python -m torch.distributed.launch", "warning"),
        ('int(os.environ.get("LOCAL_RANK", -1))', "torchrun", "warning"),
    ],
)
def test_only_some_launchers_pass_the_local_rank(tmp_path: Path, default: str, launcher: str, expected: str) -> None:
    text = script(under("if args.local_rank != -1:")).replace(
        "    parser.add_argument",
        f'    parser.add_argument("--local_rank", type=int, default={default})\n    parser.add_argument',
        1,
    )
    folder = jobs(tmp_path, train_py=text, README_md=document(LAUNCH.replace("torchrun", launcher)))
    assert level(folder) == expected


def under(test: str) -> str:
    return f"{test}\n    {SAVE}"


@pytest.mark.parametrize(
    ("save", "options", "expected"),
    [
        (under("if epoch % 2 == 0:"), "", "warning"),
        (under("if epoch == args.epochs - 1:"), "", "warning"),
        (under("if loss < best_loss:") + "\n    best_loss = loss", "", "warning"),
        (f"steps += 1\n{under('if steps % 5 == 0:')}", "", "warning"),
        (under("if dist.is_initialized():"), "", "warning"),
        (under("if model is not None:"), "", "warning"),
        (under('if args.format == "pt":'), "", "warning"),
        (under('if args.format == "pt":'), " --format pt", "warning"),
        (under("if args.keep:"), " --keep", "warning"),
        (under("if args.keep and epoch % 2 == 0:"), " --keep", "warning"),
        (under("if args.distributed:"), " --distributed", "warning"),
        (f"if loss.isnan():\n    continue\n{SAVE}", "", "warning"),
        (f"try:\n    {SAVE}\nfinally:\n    print(1)", "", "warning"),
        (under("if epoch % args.epochs == 0:"), " --epochs 5", "warning"),
        (under("if epoch % args.epochs == 0:"), " --epochs 1000000000", "info"),
        (under('if args.format == "pt":'), " --format safe", "info"),
        (under('if args.format == "pt":'), " --format $FORMAT", "info"),
        (under("if args.keep:"), "", "info"),
        (f"for _ in range(args.copies):\n    {SAVE}", " --copies 2", "warning"),
        (f"for _ in range(args.copies):\n    {SAVE}", "", "info"),
        (f"for _ in []:\n    {SAVE}", "", "info"),
        (under("if loss < 0.01:  # best effort"), "", "info"),
        ('if loss < 0.01: torch.save(model, "best.pt")', "", "info"),
        (under("if cfg.save_steps > 0:"), "", "info"),
        (under("if max_steps > 0:"), "", "info"),
        (f"args.keep and {SAVE}", "", "info"),
        (f"{SAVE} if args.keep else None", "", "info"),
        (under("if not args.keep:") + '\nargs.__setattr__("keep", input())', "", "info"),
        (under("if args.keep and epoch % 2 == 0:"), "", "info"),
        (under("if args.distributed:"), "", "info"),
        (under('if os.path.exists("base.pt"):'), "", "info"),
        (under("if loss.isnan():"), "", "info"),
        (f"if args.format == 'pt':\n    continue\n{SAVE}", "", "info"),
    ],
)
def test_conditions_must_hold_with_the_options_of_the_launch(
    tmp_path: Path, save: str, options: str, expected: str
) -> None:
    assert level(jobs(tmp_path, train_py=script(save), README_md=document(LAUNCH + options))) == expected


@pytest.mark.parametrize(("shuffle", "expected"), [("False", "warning"), ("True", "info")])
def test_no_rank_may_fail_for_certain_before(tmp_path: Path, shuffle: str, expected: str) -> None:
    loader = (
        "    from torch.utils.data import DataLoader, DistributedSampler\n\n"
        f"    DataLoader([1], shuffle={shuffle}, sampler=DistributedSampler([1]))\n"
    )
    text = script().replace("    best_loss", f"{loader}    best_loss", 1)
    assert level(jobs(tmp_path, train_py=text, README_md=document(LAUNCH))) == expected


#: More files than those in which each rule has its own level.
MANY = {f"other{number}_py": "import torch\n" for number in range(11)}


@pytest.mark.parametrize(
    ("test", "expected"), [("dist.get_rank() == 0", "warning"), ("dist.get_rank() == 0 and loss.isnan()", "info")]
)
def test_all_lines_that_a_finding_names_must_be_reached(tmp_path: Path, test: str, expected: str) -> None:
    text = script(f"dist.barrier()\nif {test}:\n    break")
    folder = jobs(tmp_path, train_py=text, README_md=document(LAUNCH), **MANY)
    assert level(folder, "DC702") == expected


SYNC = """\
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    first = {first}
    if first:
        dist.barrier()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("first", "expected"),
    [("dist.get_rank() == 0", "warning"), ("dist.get_rank() == 0 if input() else bool(input())", "info")],
)
def test_each_step_must_be_proven_and_an_error_must_be_earned(tmp_path: Path, first: str, expected: str) -> None:
    folder = jobs(tmp_path, train_py=SYNC.format(first=first), README_md=document(LAUNCH), **MANY)
    assert level(folder, "DC701") == expected
    (found,) = findings(folder, "DC701", "--preview")
    assert found["severity"] == ("error" if expected == "warning" else "warning")


def test_a_note_stays_a_note(tmp_path: Path) -> None:
    text = script("dist.all_reduce(torch.ones(2))")
    (found,) = findings(jobs(tmp_path, train_py=text, README_md=document(LAUNCH)), "DC714")
    assert found["severity"] == "info"
