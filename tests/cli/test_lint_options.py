"""``distcheck lint`` on branches that depend on options: a note if no documented launch with several ranks takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_lint import report_of
from .test_lint_launch_files import jobs
from .test_lint_ranks import block

SCRIPT = """\
import argparse

import torch
import torch.distributed as dist


def export(model, args):
    if CONDITION:
        torch.save(model.state_dict(), "last.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", type=int)
    OPTION
    args = parser.parse_args()
    dist.init_process_group("gloo")
    export(torch.nn.Linear(8, 8), args)


if __name__ == "__main__":
    main()
"""
FLAG = 'parser.add_argument("--export", action="store_true")'
NO_FLAG = 'parser.add_argument("--train", dest="export", action="store_false")'
MODE = 'parser.add_argument("--mode", default="train", choices=["train", "test"])'
COUNT = 'parser.add_argument("--save-every", type=int, default=0)'
BOTH = 'parser.add_argument("--export", action=argparse.BooleanOptionalAction, default=True)'
NAME = 'parser.add_argument("--name")'
POSITIONAL = 'parser.add_argument("mode", choices=["train", "test"])'
CLICK = """\
import click
import torch
import torch.distributed as dist


@click.command()
@click.option("--export/--no-export", default=False)
def main(export):
    dist.init_process_group("gloo")
    if export:
        torch.save(torch.nn.Linear(8, 8).state_dict(), "last.pt")


if __name__ == "__main__":
    main()
"""


def script(option: str, condition: str) -> str:
    return SCRIPT.replace("OPTION", option).replace("CONDITION", condition)


def launched(*arguments: str) -> str:
    return block(*(f"torchrun --nproc-per-node=8 train.py {one}\n" for one in arguments))


def found_in(folder: Path, code: str = "DC720") -> list[tuple[str, str, dict[str, object]]]:
    found = report_of("lint", "--isolated", "--no-cache", "--select", code, cwd=folder)["findings"]
    return [(one["severity"], one["message"], one["evidence"]) for one in found if one["code"] == code]


@pytest.mark.parametrize(
    ("option", "condition", "arguments"),
    [
        (FLAG, "args.export", [""]),
        (FLAG, "args.export and model is not None", ["--other 1"]),
        (FLAG, "args.export", ["--mode train", "--other $X"]),
        (FLAG, "args.export", ["conf.yaml --other 1"]),
        (NO_FLAG, "args.export", ["--train"]),
        (MODE, 'args.mode == "test"', [""]),
        (MODE, 'args.mode == "test"', ["--mode train", "--mode=train"]),
        (MODE, 'args.mode != "train"', ["--mode train"]),
        (MODE, 'args.mode in ("test", "both")', ["--mode train"]),
        (MODE, 'not args.mode == "train"', ["--mode train"]),
        (COUNT, "args.save_every > 0", [""]),
        (COUNT, "args.save_every", ["--save-every 0"]),
        (BOTH, "args.export", ["--no-export"]),
        (POSITIONAL, 'args.mode == "test"', ["train"]),
        (FLAG, 'getattr(args, "export", False)', [""]),
        (NAME, '(args.name or args.other) in ("a", "b")', ["--name c"]),
    ],
)
def test_good_a_branch_that_no_launch_takes(tmp_path: Path, option: str, condition: str, arguments: list[str]) -> None:
    folder = jobs(tmp_path, train_py=script(option, condition))
    (folder / "README.md").write_text(launched(*arguments))
    ((severity, message, evidence),) = found_in(folder)
    assert severity == "info"
    assert "; no documented launch with several ranks reaches this line: README.md:" in message
    assert "needs" not in evidence


@pytest.mark.parametrize(
    ("option", "condition", "arguments", "line"),
    [
        (FLAG, "args.export", ["--export"], 2),
        (FLAG, "args.export", ["", "--export"], 3),
        (FLAG, "not args.export", [""], 2),
        # the value of the option, not that it is given
        (NAME, '(args.name or args.other) in ("a", "b")', ["--name a"], 2),
        # an abbreviation, as argparse takes it
        (FLAG, "args.export", ["--exp"], None),
        (FLAG, "args.export", ["$@"], None),
        (FLAG, "args.export", ["$EXTRA_ARGS"], None),
        (FLAG, "args.export", ["[--export]"], None),
        (MODE, 'args.mode == "test"', ["--mode $MODE"], None),
        (MODE, 'args.mode == "test"', ["--mode test"], 2),
        (MODE, 'args.mode == "train"', [""], 2),
        (COUNT, "args.save_every > 0", ["--save-every 10"], 2),
        (BOTH, "args.export", [""], 2),
        (POSITIONAL, 'args.mode == "test"', ["test"], 2),
        # what launchers pass is no option of the line
        ('parser.add_argument("--world-size", type=int, default=1)', "args.world_size > 4", [""], None),
        # the program gives it another value
        (FLAG + "\n    parser.set_defaults(export=True)", "args.export", [""], None),
        (FLAG + "\n    parser.add_argument('--config')", "args.config is None or args.export", [""], 2),
    ],
)
def test_bad_a_branch_that_a_launch_takes(
    tmp_path: Path, option: str, condition: str, arguments: list[str], line: int | None
) -> None:
    """The launch that takes it is named if that is certain."""
    folder = jobs(tmp_path, train_py=script(option, condition))
    (folder / "README.md").write_text(launched(*arguments))
    ((severity, _, evidence),) = found_in(folder)
    assert severity == "warning"
    assert evidence.get("launch") == (None if line is None else f"README.md:{line}")
    assert "needs" not in evidence


@pytest.mark.parametrize(("arguments", "level"), [("", "info"), ("--no-export", "info"), ("--export", "warning")])
def test_options_of_click(tmp_path: Path, arguments: str, level: str) -> None:
    folder = jobs(tmp_path, train_py=CLICK)
    (folder / "README.md").write_text(launched(arguments))
    assert [severity for severity, *_ in found_in(folder)] == [level]


FIELDS = """\
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from transformers import HfArgumentParser


@dataclass
class ModelArguments:
    name: str = "t5"
    export: bool = field(default=False, metadata={"help": "write the weights"})


def main():
    (model_args,) = HfArgumentParser((ModelArguments,)).parse_args_into_dataclasses()
    dist.init_process_group("gloo")
    if model_args.export:
        torch.save(torch.nn.Linear(8, 8).state_dict(), "last.pt")


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ("", "info"),
        ("--export False", "info"),
        ("--no_export", "info"),
        ("--name t5 --export True", "warning"),
        ("--export --name t5", "warning"),
        ("options.json", "warning"),
    ],
)
def test_fields_of_a_class_are_options(tmp_path: Path, arguments: str, level: str) -> None:
    folder = jobs(tmp_path, train_py=FIELDS)
    (folder / "README.md").write_text(launched(arguments))
    assert [severity for severity, *_ in found_in(folder)] == [level]


CONFIGURED = """\
import sys

import torch
import torch.distributed as dist
import yaml


def main():
    with open(sys.argv[2]) as file:
        config = yaml.safe_load(file)
    dist.init_process_group("gloo")
    if config["run"]["mode"] == "export":
        torch.save(torch.nn.Linear(8, 8).state_dict(), "last.pt")


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("script_text", "file", "arguments", "level"),
    [
        (CONFIGURED, "run:\n  mode: train\n", "--config conf/run.yaml", "info"),
        (CONFIGURED, "run:\n  mode: train\n", "--config=conf/run.yaml", "info"),
        (CONFIGURED, "run:\n  mode: export\n", "--config conf/run.yaml", "warning"),
        (CONFIGURED, "run:\n  name: x\n", "--config conf/run.yaml", "warning"),
        (CONFIGURED, "run:\n  mode: ${mode}\n", "--config conf/run.yaml", "warning"),
        (CONFIGURED, "run:\n  mode: train\n", "--config conf/run.yaml run.mode=export", "warning"),
        (CONFIGURED, "run:\n  mode: train\n", "--config conf/run.yaml --base conf/base.yaml", "warning"),
        (CONFIGURED, "run:\n  mode: train\n", "--config $1", "warning"),
        (CONFIGURED.replace("    dist.", '    config["run"]["mode"] = "export"\n    dist.'), "run:\n  mode: train\n", "--config conf/run.yaml", "warning"),
    ],
)  # fmt: skip
def test_values_of_a_configuration_file(
    tmp_path: Path, script_text: str, file: str, arguments: str, level: str
) -> None:
    folder = jobs(tmp_path, train_py=script_text)
    (folder / "conf").mkdir()
    (folder / "conf" / "run.yaml").write_text(file)
    for name, text in (("README.md", launched(arguments)), ("run.sh", "#!/bin/bash\n" + launched(arguments)[8:-4])):
        (folder / name).write_text(text)
        assert [severity for severity, *_ in found_in(folder)] == [level]
        (folder / name).unlink()


def test_a_changed_configuration_file_is_read_again(tmp_path: Path) -> None:
    folder = jobs(
        tmp_path, train_py=CONFIGURED, run_sh="#!/bin/bash\ntorchrun --nproc-per-node=8 train.py --config run.yaml\n"
    )
    for mode, level in (("train", "info"), ("export", "warning"), ("train", "info")):
        (folder / "run.yaml").write_text(f"run:\n  mode: {mode}\n")
        command = ("lint", "--isolated", "--select", "DC720", "--cache-dir", str(tmp_path / "cache"))
        assert [one["severity"] for one in report_of(*command, cwd=folder)["findings"]] == [level]


COUNTED = """\
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=torch.cuda.device_count())
"""


@pytest.mark.parametrize(
    ("launch", "level"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=2 train.py\n", "info"),
        ("export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc-per-node=2 train.py\n", "info"),
        ("torchrun --nproc-per-node=gpu train.py\n", "info"),
        ("CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc-per-node=2 train.py\n", "warning"),
        ("CUDA_VISIBLE_DEVICES=$1 torchrun --nproc-per-node=2 train.py\n", "warning"),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nnodes=2 --nproc-per-node=2 train.py\n", "warning"),
        ("torchrun --nproc-per-node=2 train.py\n", "warning"),
    ],
)
def test_a_launch_with_a_process_for_each_gpu_that_it_shows(tmp_path: Path, launch: str, level: str) -> None:
    folder = jobs(tmp_path, train_py=COUNTED)
    (folder / "README.md").write_text(block(launch))
    assert [severity for severity, *_ in found_in(folder, "DC213")] == [level]


def test_a_deprecated_name_is_one_in_any_branch(tmp_path: Path) -> None:
    text = script(FLAG, "args.export").replace(
        'torch.save(model.state_dict(), "last.pt")', "dist.all_reduce(model.weight, op=dist.reduce_op.SUM)"
    )
    folder = jobs(tmp_path, train_py=text)
    (folder / "README.md").write_text(launched(""))
    assert [severity for severity, *_ in found_in(folder, "DC760")] == ["warning"]


@pytest.mark.parametrize(
    ("option", "condition", "passed", "level"),
    [
        (FLAG, "flag", "args.export", "info"),
        (FLAG, "flag", "not args.export", "warning"),
        (FLAG, "flag", "True", "warning"),
        (MODE, "flag", 'args.mode == "test"', "info"),
    ],
)
def test_a_helper_gets_what_its_call_passes(
    tmp_path: Path, option: str, condition: str, passed: str, level: str
) -> None:
    text = script(option, condition).replace("export(model, args)", "export(model, flag)")
    folder = jobs(tmp_path, train_py=text.replace("Linear(8, 8), args)", f"Linear(8, 8), {passed})"))
    (folder / "README.md").write_text(launched(""))
    assert [severity for severity, *_ in found_in(folder)] == [level]


@pytest.mark.parametrize(
    ("texts", "level"),
    [
        ({}, "warning"),
        ({"README.md": block("torchrun --nproc-per-node=8 train.py --export\n")}, "warning"),
        ({"run.sh": "#!/bin/bash\ntorchrun --nproc-per-node=8 train.py\n"}, "info"),
        ({"run.sh": "#!/bin/bash\ntorchrun --nproc-per-node=8 train.py\n", "README.md": launched("--export")}, "warning"),
        ({"run.sh": "#!/bin/bash\ntorchrun --nproc-per-node=8 train.py --export\n", "README.md": launched("")}, "warning"),
        # one process is no launch with several ranks
        ({"README.md": block("python train.py --export\n", "torchrun --nproc-per-node=8 train.py\n")}, "info"),
        # a comment is a launch, with options that are not read
        (
            {"run.sh": "#!/bin/bash\n# torchrun --nproc-per-node=8 train.py --export\ntorchrun --nproc-per-node=8 train.py\n"},
            "warning",
        ),
    ],
)  # fmt: skip
def test_all_documented_launches_count(tmp_path: Path, texts: dict[str, str], level: str) -> None:
    folder = jobs(tmp_path, train_py=script(FLAG, "args.export"))
    for name, text in texts.items():
        (folder / name).write_text(text)
    assert [severity for severity, *_ in found_in(folder)] == [level]


def test_another_script_that_no_document_starts_may_get_there(tmp_path: Path) -> None:
    first = script(FLAG, "args.export")
    second = "from train import export\nimport torch\nimport torch.distributed as dist\n\n"
    second += 'class args:\n    pass\n\nif __name__ == "__main__":\n    dist.init_process_group("gloo")\n'
    folder = jobs(tmp_path, train_py=first, other_py=second + "    export(torch.nn.Linear(8, 8), args)\n")
    (folder / "README.md").write_text(launched(""))
    assert [severity for severity, *_ in found_in(folder)] == ["warning"]
    (folder / "other.py").unlink()
    assert [severity for severity, *_ in found_in(folder)] == ["info"]


def test_options_that_are_kept_in_an_object(tmp_path: Path) -> None:
    text = script(FLAG, "args.export").replace("def main", "class Config:\n    export = True\n\n\ndef main", 1)
    text = text.replace("    export(torch", "    config = Config()\n    config.export = args.export\n    export(torch")
    text = text.replace("export(model, args)", "export(model, config)").replace("if args.", "if config.")
    folder = jobs(tmp_path, train_py=text.replace("8), args)", "8), config)"))
    (folder / "README.md").write_text(launched(""))
    assert [severity for severity, *_ in found_in(folder)] == ["info"]
    (folder / "README.md").write_text(launched("--export"))
    assert [severity for severity, *_ in found_in(folder)] == ["warning"]


RESUMING = script(
    'parser.add_argument("--resume")',
    "args.resume:\n        last = torch.load(args.resume)\n        print(last['args'])\n    if dist.get_rank() == 0",
).replace("model.state_dict(),", '{"model": model.state_dict(), "args": args},')


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        (["python train.py"], "info"),
        (["torchrun --nproc-per-node=8 train.py", "python train.py"], "info"),
        (["python train.py --resume last.pt"], "warning"),
        (["torchrun --nproc-per-node=8 train.py", "python train.py --resume last.pt"], "warning"),
        ([], "warning"),
    ],
)
def test_a_checkpoint_that_no_launch_loads(tmp_path: Path, lines: list[str], severity: str) -> None:
    folder = jobs(tmp_path, train_py=RESUMING)
    (folder / "README.md").write_text(block(*(f"{line}\n" for line in lines)))
    ((found, message, _),) = found_in(folder, "DC611")
    assert found == severity
    assert ("does not pass --resume" in message) == (severity == "info")


COPIED = (
    script(MODE, 'args.phase == "test"')
    .replace("def export", "class Config:\n    phase = 'train'\n\n\ndef export")
    .replace("    dist.init", "    cfg = Config()\n    cfg.phase = args.mode\n    dist.init")
    .replace("Linear(8, 8), args)", "Linear(8, 8), cfg)")
    .replace("export(model, args)", "export(model, cfg)")
    .replace("args.phase", "cfg.phase")
)


@pytest.mark.parametrize(
    ("text", "arguments", "severity"),
    [
        (COPIED, "--mode train", "info"),
        (COPIED, "--mode test", "warning"),
        (COPIED, "", "warning"),
        (
            COPIED.replace("cfg.phase = args.mode", "cfg.phase = args.mode\n    cfg.phase = 'test'"),
            "--mode train",
            "warning",
        ),
        (COPIED.replace("cfg.phase = ", "if args.mode:\n        cfg.phase = "), "--mode train", "warning"),
    ],
)
def test_an_option_that_is_kept_under_another_name(tmp_path: Path, text: str, arguments: str, severity: str) -> None:
    folder = jobs(tmp_path, train_py=text)
    (folder / "README.md").write_text(launched(arguments))
    assert [one[0] for one in found_in(folder)] == [severity]
