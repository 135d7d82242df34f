"""``distcheck lint`` on what needs several ranks: it is loud where something shows that a script runs as several."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_lint import report_of
from .test_lint_launch_files import jobs

#: It makes a group only if a launcher has set its variables.
MAYBE = """\
import os

import torch
import torch.distributed as dist


def main():
    model = torch.nn.Linear(8, 8)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
    torch.save(model.state_dict(), "last.pt")


main()
"""
ALWAYS = MAYBE.replace('    if "WORLD_SIZE" in os.environ:\n    ', "")
#: It makes a group of one where no launcher has set the variables.
ALONE = ALWAYS.replace(
    '"gloo"', '"gloo", rank=int(os.environ.get("RANK", 0)), world_size=int(os.environ.get("WORLD_SIZE", 1))'
)
SPAWNING = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29501", rank=rank, world_size=2)
    torch.save(torch.nn.Linear(8, 8).state_dict(), "last.pt")


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""
ITSELF = MAYBE.replace("import torch\n", "import subprocess\n\nimport torch\n").replace(
    "main()\n", 'subprocess.run("torchrun --nproc-per-node=8 train.py", shell=True)\nmain()\n'
)
#: All its processes would have the same GPU.
MASKED = ALWAYS.replace("\n\ndef main", '\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n\n\ndef main', 1)
#: Only its launcher shows whether there are several ranks.
TRAINED = """\
from transformers import AutoTokenizer, Trainer, TrainingArguments


def main(model, data):
    trainer = Trainer(model=model, args=TrainingArguments(output_dir="out"), train_dataset=data)
    trainer.train()
    AutoTokenizer.from_pretrained("gpt2").save_pretrained("out")


if __name__ == "__main__":
    main(None, None)
"""
SEVERAL = "torchrun --nproc-per-node=8 train.py\n"
ONE = "python train.py\n"


def block(*lines: str) -> str:
    return "```bash\n" + "".join(lines) + "```\n"


def levels(folder: Path) -> list[tuple[str, str]]:
    """The levels and messages about train.py; the rule is named, so that it is at its own level."""
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC720", cwd=folder)["findings"]
    return [(one["severity"], one["message"]) for one in found if one["where"]["path"].endswith("train.py")]


@pytest.mark.parametrize(
    ("script", "texts", "level"),
    [
        (MAYBE, {}, "info"),
        (MAYBE, {"README.md": block(ONE)}, "info"),
        (MAYBE, {"README.md": block(SEVERAL)}, "warning"),
        (MAYBE, {"README.md": block(ONE, SEVERAL)}, "warning"),
        (MAYBE, {"README.md": block(ONE), "docs/start.md": block(SEVERAL)}, "warning"),
        (MAYBE, {"README.md": block(SEVERAL.replace("train", "test"))}, "info"),
        (MAYBE, {"README.md": block(SEVERAL.replace("8", "1"))}, "info"),
        (MAYBE, {"README.md": block("srun -n 8 python train.py\n")}, "warning"),
        (MAYBE, {"README.md": block("srun -n 1 python train.py\n")}, "info"),
        (MAYBE, {"run.sh": "#!/bin/bash\n" + SEVERAL}, "warning"),
        (MAYBE, {"run.sh": "#!/bin/bash\nGPUS=1\n" + SEVERAL.replace("8", "$GPUS")}, "info"),
        (MAYBE, {"run.sh": "#!/bin/bash\n" + SEVERAL.replace("8", "$1")}, "warning"),
        (MAYBE, {"run.sh": "#!/bin/bash\n" + ONE, "README.md": block(SEVERAL)}, "warning"),
        (ALWAYS, {}, "warning"),
        (ALWAYS, {"README.md": block(ONE)}, "info"),
        (ALWAYS, {"run.sh": "#!/bin/bash\n" + ONE}, "info"),
        (ALONE, {}, "info"),
        (ALONE, {"README.md": block(SEVERAL)}, "warning"),
        (MASKED, {}, "info"),
        (MASKED, {"README.md": block(SEVERAL)}, "warning"),
        (MASKED.replace('"0"', '"0,1"'), {}, "warning"),
        (MASKED.replace('"0"', 'os.environ["LOCAL_RANK"]'), {}, "warning"),
        (SPAWNING, {}, "warning"),
        (SPAWNING, {"README.md": block(ONE)}, "warning"),
        (ITSELF, {"README.md": block(ONE)}, "warning"),
    ],
)
def test_what_needs_several_ranks_is_loud_with_a_sign_of_them(
    tmp_path: Path, script: str, texts: dict[str, str], level: str
) -> None:
    folder = jobs(tmp_path, train_py=script)
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    assert [found for found, _ in levels(folder)] == [level]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"README.md": block(SEVERAL)}, ["info"]),
        ({"run.sh": "#!/bin/bash\n" + SEVERAL}, ["info"]),
        ({"README.md": block(ONE)}, []),
        ({"run.sh": "#!/bin/bash\n" + ONE}, []),
        ({}, []),
    ],
)
def test_a_save_past_a_trainer_is_reported_where_several_ranks_are_launched(
    tmp_path: Path, texts: dict[str, str], found: list[str]
) -> None:
    folder = jobs(tmp_path, train_py=TRAINED)
    for name, text in texts.items():
        (folder / name).write_text(text)
    assert [level for level, _ in levels(folder)] == found


def test_the_message_names_what_starts_one_process(tmp_path: Path) -> None:
    folder = jobs(tmp_path, train_py=MAYBE)
    assert levels(folder)[0][1].endswith("; nothing shows that several ranks run it")
    (folder / "README.md").write_text(block(ONE))
    assert levels(folder)[0][1].endswith("; README.md starts it as one process")
    jobs(folder, run_sh="#!/bin/bash\n" + ONE)
    assert levels(folder)[0][1].endswith("; run.sh:2 starts it as one process")


def test_a_document_above_means_the_folder_that_it_names(tmp_path: Path) -> None:
    folder = jobs(tmp_path, first__train_py=MAYBE, second__train_py=MAYBE)
    (folder / "README.md").write_text(block("cd first\n", SEVERAL))
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC720", cwd=folder)["findings"]
    assert {one["where"]["path"]: one["severity"] for one in found} == {
        "first/train.py": "warning",
        "second/train.py": "info",
    }


def test_other_projects_decide_nothing(tmp_path: Path) -> None:
    """A launch line of a neighbour, and a script that nothing reaches the line from, are no signs."""
    folder = jobs(tmp_path, train_py=MAYBE, other__train_py=ALWAYS, other__run_sh="#!/bin/bash\n" + SEVERAL)
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC720", cwd=folder)["findings"]
    assert {one["where"]["path"]: one["severity"] for one in found} == {"train.py": "info", "other/train.py": "warning"}


def test_a_download_needs_several_ranks(tmp_path: Path) -> None:
    script = MAYBE.replace("import torch\n", "import torch\nimport torchvision\n", 1).replace(
        "    torch.save(", '    torchvision.datasets.CIFAR10("data", download=True)\n    torch.save('
    )
    folder = jobs(tmp_path, train_py=script)
    for line, level in ((ONE, "info"), (SEVERAL, "warning")):
        (folder / "README.md").write_text(block(line))
        (found,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC725", cwd=folder)["findings"]
        assert found["severity"] == level


@pytest.mark.parametrize(("gpus", "level"), [(1, "info"), (4, "warning")])
def test_a_job_with_one_gpu_starts_one_rank(tmp_path: Path, gpus: int, level: str) -> None:
    job = (
        f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:{gpus}\n"
        "torchrun --nproc-per-node=$(echo $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w) train.py\n"
    )
    assert levels(jobs(tmp_path, train_py=MAYBE, job_sbatch=job))[0][0] == level


#: A line of an argument under a condition that only an option makes true.
ARGUMENT = """\
import argparse

import torchvision
import torch.distributed as dist


def main(args):
    dist.init_process_group("gloo")
    if args.fetch:
        torchvision.datasets.CIFAR10(
            "data",
            download=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fetch", action="store_true")
    args = parser.parse_args()
    {change}
    main(args)
"""


@pytest.mark.parametrize(
    ("options", "change", "level"),
    [
        (" --fetch", "pass", "warning"),
        ("", "pass", "info"),
        # another value than that of the command line
        ("", 'args.__setattr__("fetch", input())', "warning"),
    ],
)
def test_an_argument_has_the_conditions_around_its_call(tmp_path: Path, options: str, change: str, level: str) -> None:
    folder = jobs(tmp_path, train_py=ARGUMENT.format(change=change))
    (folder / "README.md").write_text(block(f"{SEVERAL.rstrip()}{options}\n"))
    (found,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC725", cwd=folder)["findings"]
    assert (found["where"]["line"], found["severity"]) == (12, level)


#: A class whose constructor writes by a method that another class replaces.
KEEPER = """class Keeper:
    def __init__(self, model):
        self.write(model)

    def write(self, model):
        torch.save(model.state_dict(), "last.pt")


class Other(Keeper):
    def write(self, model):
        pass


"""


@pytest.mark.parametrize(("name", "found"), [("Keeper", ["warning"]), ("Other", [])])
def test_a_constructor_calls_the_methods_of_its_class(tmp_path: Path, name: str, found: list[str]) -> None:
    script = ALWAYS.replace('torch.save(model.state_dict(), "last.pt")', f"{name}(model)")
    folder = jobs(tmp_path, train_py=script.replace("def main", KEEPER + "def main", 1), README_md=block(SEVERAL))
    assert [level for level, _ in levels(folder)] == found


#: Only an object of accelerate hints at ranks.
ACCELERATED = """\
import torch
from accelerate import Accelerator


def main():
    accelerator = Accelerator()
    torch.save(torch.nn.Linear(8, 8).state_dict(), "last.pt")
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
"""
LIGHTNING = """\
import lightning

if __name__ == "__main__":
    lightning.Trainer().fit(lightning.LightningModule())
"""
OTHERS = "accelerate launch --num_processes 8 pretrain.py\n"


@pytest.mark.parametrize(
    ("texts", "level"),
    [
        ({}, "warning"),
        ({"run.sh": ""}, "warning"),
        ({"README.md": block("python pretrain.py\n")}, "warning"),
        ({"README.md": block(OTHERS)}, "info"),
        # a launcher of one process: how the project runs what it means to run
        ({"README.md": block(OTHERS.replace("8", "1"))}, "info"),
        ({"run.sh": "#!/bin/bash\n" + OTHERS.replace("8", "1")}, "info"),
        ({"README.md": block("accelerate launch --num_processes 1 train.py\n", OTHERS)}, "info"),
        ({"README.md": block(OTHERS) + "Then start `train.py` in the same way.\n"}, "warning"),
        ({"README.md": block(OTHERS), "run.sh": "#!/bin/bash\nbash start.sh train.py\n"}, "warning"),
        ({"README.md": block(OTHERS), "tune.py": "import train\n\ntrain.main()\n"}, "warning"),
        ({"README.md": block(OTHERS, "accelerate launch $SCRIPT\n")}, "warning"),
        ({"README.md": block("accelerate launch train.py\n", OTHERS)}, "warning"),
        # a script that has another name now
        ({"README.md": block("python training.py\n", OTHERS)}, "warning"),
        ({"run.sh": "#!/bin/bash\n" + OTHERS}, "info"),
        ({"run.sh": "#!/bin/bash\n" + OTHERS + 'accelerate launch "$1"\n'}, "warning"),
        ({"main.py": LIGHTNING}, "warning"),
        ({"main.py": LIGHTNING, "run.sh": "#!/bin/bash\npython main.py\n"}, "info"),
        ({"main.py": LIGHTNING, "README.md": block("python main.py fit\n")}, "info"),
        ({"main.py": "print(1)\n", "README.md": block("python main.py fit\n")}, "warning"),
    ],
)
def test_an_object_of_accelerate_is_no_sign_where_other_scripts_are_launched(
    tmp_path: Path, texts: dict[str, str], level: str
) -> None:
    folder = jobs(tmp_path, train_py=ACCELERATED, pretrain_py="print(1)\n")
    for name, text in texts.items():
        (folder / name).write_text(text)
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC720", cwd=folder)["findings"]
    assert {one["severity"] for one in found} == {level}
    assert all("launcher_api" not in one["evidence"] for one in found)


#: One rank alone has a name that all of them read, between two files.
FAILING = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def save(model):
    torch.save(model.module.state_dict(), "net.pth")


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    model = DDP(torch.nn.Linear(5, 5).cuda())
    torch.save(model.module.state_dict(), "first.pth")
    if dist.get_rank() == 0:
        scale = torch.ones(5, device="cuda")
    model(torch.mul(scale, 2)).sum().backward()
    save(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("selected", ["DC720", "DC720,DC708"])
def test_what_other_ranks_do_not_reach_is_a_note(tmp_path: Path, selected: str) -> None:
    folder = jobs(tmp_path, train_py=FAILING)

    def saved() -> dict[int, tuple[str, str]]:
        found = report_of("lint", "--isolated", "--no-cache", "--select", selected, cwd=folder)["findings"]
        return {
            one["where"]["line"]: (one["severity"], one["message"].rpartition("; ")[2])
            for one in found
            if one["code"] == "DC720"
        }

    failing = saved()
    assert {line: level for line, (level, _) in failing.items()} == {7: "info", 14: "warning"}
    assert failing[7][1] == "the other ranks fail before, at train.py:17"
    # all ranks have the name, or read it on a way that these files are not on
    for text in (
        FAILING.replace("    if dist.get_rank() == 0:\n        scale", "    if True:\n        scale"),
        FAILING.replace("    model(torch.mul", "    if dist.get_world_size() > 8:\n        model(torch.mul"),
    ):
        (folder / "train.py").write_text(text)
        assert {level for level, _ in saved().values()} == {"warning"}


#: A helper that one script calls on all of its ranks, and another on one of them.
HELPER = """\
import torch


def save(model):
    torch.save(model.state_dict(), "last.pt")
"""
OF_ALL = """\
import os

import torch
import torch.distributed as dist
from helper import save


def main():
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("nccl")
    save(torch.nn.Linear(8, 8))


if __name__ == "__main__":
    main()
"""
OF_ONE = """\
import torch
import torch.distributed as dist
from helper import save


def main():
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        save(torch.nn.Linear(8, 8))


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("lines", "level"),
    [
        (("python train.py\n", "torchrun --nproc_per_node 4 train_ddp.py\n"), "info"),
        (("torchrun --nproc_per_node 4 train.py\n", "torchrun --nproc_per_node 4 train_ddp.py\n"), "warning"),
    ],
)
def test_the_launch_of_a_script_that_guards_a_helper_is_no_sign(
    tmp_path: Path, lines: tuple[str, ...], level: str
) -> None:
    folder = jobs(tmp_path, helper_py=HELPER, train_py=OF_ALL, train_ddp_py=OF_ONE)
    (folder / "README.md").write_text(block(*lines))
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC720", cwd=folder)["findings"]
    assert [one["severity"] for one in found] == [level]


#: All ranks create the folder of an option.
FOLDER = """\
import argparse
import os

import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank):
    parser = argparse.ArgumentParser()
    parser.add_argument("--outdir", default="exp")
    args = parser.parse_args()
    if not os.path.exists(args.outdir):
        os.makedirs(args.outdir)
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29501", rank=rank, world_size=2)


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
"""
MAKE, START = 'mkdir -p "${dir}"\n', "$cmd --gpu 1 log train.py \\\n  --config conf \\\n  --outdir $dir\n"


@pytest.mark.parametrize(
    ("script", "document", "level"),
    [
        (MAKE + START, "", "info"),
        (MAKE.replace("mkdir", '[ ! -e "$dir" ] && mkdir') + START, "", "info"),
        (f"if true; then\n{MAKE}{START}fi\n", "", "info"),
        (f"{MAKE}# train.py is started\n{START}", "Training: `bash run.sh`", "info"),
        (START, "", "warning"),
        (START + MAKE, "", "warning"),
        (MAKE + START + "python train.py\n", "", "warning"),
        (MAKE + START, block(ONE), "warning"),
        (MAKE + "dir=other\n" + START, "", "warning"),
        (MAKE.replace("dir", "other") + START, "", "warning"),
        (f"if true; then\n{MAKE}fi\n{START}", "", "warning"),
        (f"if true; then\n{MAKE}else\n{START}fi\n", "", "warning"),
        (MAKE.replace("mkdir", "[ -e log ] && mkdir") + START, "", "warning"),
        (MAKE + "rm -rf log other\necho $dir\n" + START, "", "info"),
        (MAKE + "cd sub\n" + START, "", "warning"),
        (MAKE + "cd sub && " + START, "", "warning"),
        (MAKE + 'rm -rf "${dir}"/\n' + START, "", "warning"),
        (MAKE + "mv $dir old\n" + START, "", "warning"),
        (MAKE + ". ./path.sh\n" + START, "", "warning"),
        (MAKE + "other=1; dir=b\n" + START, "", "warning"),
        (MAKE + "if true; then read -r x dir; fi\n" + START, "", "warning"),
        ("mkdir -p exp/one\nrm -r exp/*\n" + START.replace("$dir", "exp/one"), "", "warning"),
        ("mkdir -p /exp/one\ncd sub\n" + START.replace("$dir", "/exp/one"), "", "info"),
    ],
)
def test_no_rank_creates_a_folder_that_every_launch_creates_first(
    tmp_path: Path, script: str, document: str, level: str
) -> None:
    jobs(tmp_path, train_py=FOLDER, run_sh="#!/bin/bash\ndir=exp/one\n" + script, README_md=document)
    (found,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC722", cwd=tmp_path)["findings"]
    assert found["severity"] == level
    assert "folder_option" not in found["evidence"]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("if not os.path.exists(path):", "ranks that test at the same time raise FileExistsError"),
        ("if os.path.isdir(path) == False:", "ranks that test at the same time raise FileExistsError"),
        ('if not os.path.exists("other"):', "all but the first rank raise FileExistsError"),
        ("if path:", "all but the first rank raise FileExistsError"),
    ],
)
def test_a_test_for_the_folder_changes_who_raises(tmp_path: Path, test: str, words: str) -> None:
    made = f'    path = "out"\n    {test}\n        os.makedirs(path)\n'
    jobs(tmp_path, train_py=ALWAYS.replace("    torch.save(", f"{made}    torch.save("))
    (found,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC722", cwd=tmp_path)["findings"]
    assert found["message"].split(";")[0].endswith(words)


#: All that is harmless in one process is a note where every line that starts its script starts one.
SAMPLER = """\
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    loader = DataLoader(data, sampler=DistributedSampler(data), batch_size=8)
    model = DDP(torch.nn.Linear(8, 1).cuda())
    for _ in range(3):
        for (batch,) in loader:
            model(batch.cuda()).sum().backward()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("texts", "level"),
    [
        ({}, "warning"),
        ({"README.md": block(ONE)}, "info"),
        ({"README.md": block(ONE, SEVERAL)}, "warning"),
        ({"run.sh": "#!/bin/bash\n" + ONE}, "info"),
        ({"run.sh": "#!/bin/bash\n" + ONE, "README.md": block(SEVERAL)}, "warning"),
        ({"run.sh": f"#!/bin/bash\n{ONE}# several GPUs\n# {SEVERAL}"}, "warning"),
        ({"run.sh": f"#!/bin/bash\n{ONE}# see torchrun\n# {SEVERAL.replace('train', 'test')}"}, "info"),
        ({"README.md": block(ONE, f"# {SEVERAL}")}, "warning"),
        ({"README.md": block(ONE.replace("train", "test"))}, "warning"),
        ({"README.md": block(ONE), "tune.py": "import train\n\ntrain.main()\n"}, "warning"),
    ],
)
def test_what_is_harmless_in_one_process_is_a_note_where_only_that_is_started(
    tmp_path: Path, texts: dict[str, str], level: str
) -> None:
    folder = jobs(tmp_path, train_py=SAMPLER)
    for name, text in texts.items():
        (folder / name).write_text(text)
    (found,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC730", cwd=folder)["findings"]
    assert found["severity"] == level
    assert ("as one process" in found["message"]) == (level == "info")


#: The loader is of a package that is not here, and made in another function than the epochs.
EPOCHS = """\
import torch.distributed as dist
from records import RecordLoader
from torch.utils.data.distributed import DistributedSampler


def loaders(train_data, test_data):
    train_sampler = DistributedSampler(train_data)
    test_sampler = DistributedSampler(test_data)
    return RecordLoader(train_data, sampler=train_sampler), RecordLoader(test_data, sampler=test_sampler)


def main():
    dist.init_process_group("gloo")
    train, test = loaders([1, 2], [3])
    for epoch in range(9):
        print(len(train), len(test))


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("edit", "other", "lines"),
    [
        (("", ""), "", [7]),
        # the order does not matter where nothing is repeated
        (("for epoch in range(9):", "if train:"), "", []),
        (("DistributedSampler(train_data)", "DistributedSampler(train_data, shuffle=False)"), "", []),
        # a file that is not followed may do it
        (("", ""), "def begin(sampler, epoch):\n    sampler.set_epoch(epoch)\n", []),
        (("import torch.distributed as dist", "import torch.distributed as dist\nimport lightning"), "", []),
    ],
)
def test_a_sampler_gets_no_epoch_where_no_file_of_the_project_sets_one(
    edit: tuple[str, str], other: str, lines: list[int], tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(EPOCHS.replace(*edit) if edit[0] else EPOCHS)
    (tmp_path / "hooks.py").write_text(other)
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC730", cwd=tmp_path)["findings"]
    assert [one["where"]["line"] for one in found] == lines
    assert all(one["severity"] == "info" for one in found)


@pytest.mark.parametrize(
    ("document", "level"),
    [
        ("We train on 2x RTX 4090.", "info"),
        ("- **NCCL**: fixed P2P communication issues", "info"),
        ("Set `NCCL_P2P_DISABLE=1` if peer-to-peer access is not supported.", "info"),
        ("We train on 2x RTX 4090, or on A100.", "warning"),
        ("We train on 4 GPUs. P2P is faster.", "warning"),
        ("", "warning"),
    ],
)
def test_a_document_gives_the_reason_to_switch_peer_access_off(tmp_path: Path, document: str, level: str) -> None:
    jobs(tmp_path, train_py=ALWAYS, run_sh="#!/bin/bash\nexport NCCL_P2P_DISABLE=1\n" + SEVERAL, README_md=document)
    (found,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC114", cwd=tmp_path)["findings"]
    assert found["severity"] == level
    assert "peer_access" not in found["evidence"]


@pytest.mark.parametrize(
    ("pinned", "level"), [("torch==2.5.1", "info"), ("torch==2.7.0", "warning"), ("torch", "warning")]
)
def test_a_torch_with_an_older_nccl_takes_every_algorithm(tmp_path: Path, pinned: str, level: str) -> None:
    script = "#!/bin/bash\nexport NCCL_ALGO=Auto\n" + SEVERAL
    jobs(tmp_path, train_py=ALWAYS, run_sh=script, requirements_txt=f"{pinned}\n")
    (found,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC112", cwd=tmp_path)["findings"]
    assert found["severity"] == level


#: A loader that torch refuses, or a call without an argument, and lines after it.
REFUSED = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def save(model):
    torch.save(model.module.state_dict(), "net.pth")


def loader_of(data):
    sampler = DistributedSampler(data)
    return DataLoader(data, shuffle=True, sampler=sampler)


class Trainer:
    def __init__(self, data):
        self.start()
        self.loader = loader_of(data)

    def start(self):
        torch.save({}, "start.pth")

    def store(self, model):
        torch.save(model.module.state_dict(), "stored.pth")


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    model = DDP(torch.nn.Linear(5, 5).cuda())
    torch.save(model.module.state_dict(), "first.pth")
    data = torch.ones(8, 5)
    trainer = Trainer(data)
    for batch in trainer.loader:
        model(batch).sum().backward()
    trainer.store(model)
    save(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
NO_RANK = "every rank fails before, at train.py:"


def levels_of_saves(folder: Path) -> dict[int, tuple[str, str]]:
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC720", cwd=folder)["findings"]
    return {one["where"]["line"]: (one["severity"], one["message"].rpartition("; ")[2]) for one in found}


def test_what_no_rank_reaches_is_a_note(tmp_path: Path) -> None:
    folder = jobs(tmp_path, train_py=REFUSED)
    found = levels_of_saves(folder)
    assert {line: level for line, (level, _) in found.items()} == {9: "info", 23: "warning", 26: "info", 33: "warning"}
    assert {found[9][1], found[26][1]} == {NO_RANK + "14: shuffle=True and a sampler"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shuffle=True, ", ""),
        # another loader is made, or the error is caught
        (
            "    return DataLoader(data, shuffle",
            "    if len(data) > 9:\n        return data\n    return DataLoader(data, shuffle",
        ),
        ("        self.loader = loader_of(data)", "        if data:\n            self.loader = loader_of(data)"),
        (
            "    trainer = Trainer(data)\n",
            "    try:\n        trainer = Trainer(data)\n    except ValueError:\n        trainer = None\n",
        ),
    ],
)
def test_lines_after_an_error_that_need_not_happen_are_judged(tmp_path: Path, old: str, new: str) -> None:
    folder = jobs(tmp_path, train_py=REFUSED.replace(old, new))
    found = levels_of_saves(folder)
    caught = "except" in new
    assert sorted(level for level, _ in found.values()) == ["info"] * caught + ["warning"] * (4 - caught)


def test_what_follows_a_call_without_an_argument_is_a_note(tmp_path: Path) -> None:
    text = REFUSED.replace("shuffle=True, ", "").replace(
        "    save(model)\n", "    save()\n    torch.save(model, 'end.pth')\n"
    )
    found = levels_of_saves(jobs(tmp_path, train_py=text))
    assert {line: level for line, (level, _) in found.items()} == {
        9: "info", 23: "warning", 26: "warning", 33: "warning", 40: "info"
    }  # fmt: skip
    assert {found[9][1], found[40][1]} == {NO_RANK + "39: the call lacks the argument model"}


@pytest.mark.parametrize("given", ["**settings", "*settings", "model=model", "model"])
def test_arguments_that_a_call_may_have_are_not_missing(tmp_path: Path, given: str) -> None:
    text = REFUSED.replace("shuffle=True, ", "").replace("    save(model)\n", f"    save({given})\n")
    assert {level for level, _ in levels_of_saves(jobs(tmp_path, train_py=text)).values()} == {"warning"}


#: FSDP's function for modules: called by the script, which gives it no module, or handed on.
POLICY = """\
import functools

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy


def main():
    dist.init_process_group("nccl")
    policy = size_based_auto_wrap_policy(min_num_params=20000)
    model = FSDP(torch.nn.Linear(5, 5).cuda(), auto_wrap_policy=policy)
    for _ in range(10):
        model(torch.ones(5).cuda()).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("policy", "level"),
    [
        ("size_based_auto_wrap_policy(min", "info"),
        ("functools.partial(size_based_auto_wrap_policy, min", "error"),
    ],
)
def test_a_wrap_policy_is_not_called_by_the_script(tmp_path: Path, policy: str, level: str) -> None:
    folder = jobs(tmp_path, train_py=POLICY.replace("size_based_auto_wrap_policy(min", policy))
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC753", cwd=folder)["findings"]
    assert [one["severity"] for one in found] == [level]


#: A script that leaves itself one GPU, and spawns a process for each that there is.
MASKED = """\
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    model = torch.nn.Linear(5, 5).cuda(rank)
    model.load_state_dict(torch.load("checkpoint.pth"))
    torch.save(model.state_dict(), "checkpoint.pth")


if __name__ == "__main__":
    size = torch.cuda.device_count()
    mp.spawn(run, args=(size,), nprocs=size)
"""


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ("", "", "info"),
        ('"0"', '"0,1"', "warning"),
        ("size = torch.cuda.device_count()", "size = 2", "warning"),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', "", "warning"),
    ],
)
def test_a_process_for_each_of_one_gpu_is_one(tmp_path: Path, old: str, new: str, level: str) -> None:
    folder = jobs(tmp_path, train_py=MASKED.replace(old, new))
    found = report_of("lint", "--isolated", "--no-cache", "--select", "DC723", cwd=folder)["findings"]
    assert [one["severity"] for one in found] == [level]
