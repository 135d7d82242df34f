"""``distcheck lint`` on launch files as a user calls it: one report with the Python files, silenced, fixed, accepted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck.cli.lint_launch_files import without_credentials

from .test_cli import environment
from .test_lint import COMPARED, GOOD, TRAIN, lint, piped, places, project, report_of

#: Two faults: a variable that torch has renamed (its fix is safe), and twice as many nodes as the job has.
JOB = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
export NCCL_ASYNC_ERROR_HANDLING=1
srun torchrun --nnodes 4 --nproc-per-node 8 \\
    --rdzv-backend c10d --rdzv-endpoint "$HEAD:29600" --rdzv-id 7 \\
    train.py
"""
RENAMED, NODES = 5, 6
GOOD_JOB = (
    JOB.replace("NCCL_ASYNC", "TORCH_NCCL_ASYNC")
    .replace("--nnodes 4", "--nnodes 2")
    .replace("srun", 'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\nsrun')
)
#: What the tests are about; other rules may have a word to say about the same lines.
CHOSEN = ("--select", "DC111,DC804,DC209,DC904,DC905")


def jobs(folder: Path, **texts: str) -> Path:
    """A folder with files: ``sub__run_sh`` is sub/run.sh."""
    for name, text in texts.items():
        stem, _, suffix = name.replace("__", "/").rpartition("_")
        path = folder / (f"{stem}.{suffix}" if stem else suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


# one report


def test_python_and_launch_files_stand_in_one_report(tmp_path: Path) -> None:
    folder = jobs(project(tmp_path, train=TRAIN), job_sbatch=JOB)
    result = lint(folder, *CHOSEN)
    assert result.returncode == 1
    assert result.stdout.startswith("distcheck lint · 2 files, 1 of them a launch file · --select")
    assert places(folder, *CHOSEN) == [
        ("job.sbatch", RENAMED, "DC111"),
        ("job.sbatch", NODES, "DC804"),
        ("train.py", COMPARED, "DC209"),
    ]
    lines = result.stdout.splitlines()
    shown = lines.index(f"  {RENAMED} | export NCCL_ASYNC_ERROR_HANDLING=1")
    assert lines[shown + 1].startswith("    | ")
    assert "^" * len("NCCL_ASYNC_ERROR_HANDLING") in lines[shown + 1]


def test_a_launch_file_alone(tmp_path: Path) -> None:
    folder = jobs(project(tmp_path, train=TRAIN, other=TRAIN), job_sbatch=JOB)
    result = lint(folder, "job.sbatch", "--output-format", "concise", *CHOSEN)
    heads = [line.split(" ")[:2] for line in result.stdout.splitlines()]
    assert [[head.split(":")[1], code] for head, code in heads] == [[str(RENAMED), "DC111"], [str(NODES), "DC804"]]
    assert lint(folder, "job.sbatch").stdout.startswith("distcheck lint · 1 launch file")


def test_the_script_that_it_starts_is_read_and_nothing_else(tmp_path: Path) -> None:
    """What the launch makes of the script is said at the script, though nobody named it; its own findings are not."""
    folder = jobs(project(tmp_path, train=TRAIN, other=TRAIN), job_sbatch=GOOD_JOB)
    assert places(folder, "job.sbatch", "--select", "DC2") == [("train.py", 12, "DC201")]
    # with both named, the rule speaks once
    found = places(folder, "--select", "DC201")
    assert found == [("other.py", 12, "DC201"), ("train.py", 12, "DC201")]
    program = (
        "from distcheck.checks.source import engine\n"
        "from distcheck.cli.main import group\n"
        "read = engine.read\n"
        "def seen(files, **more):\n"
        "    print([file.path for file in files])\n"
        "    return read(files, **more)\n"
        "engine.read = seen\n"
        "group.main(['lint', 'job.sbatch', '--no-cache', '-q'], standalone_mode=False)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, env=environment(), timeout=60
    )
    assert result.stdout.splitlines()[0] == "['train.py']", result.stderr


def test_json_and_the_annotations_of_github(tmp_path: Path) -> None:
    folder = jobs(tmp_path, job_sbatch=JOB)
    plain = report_of("lint", *CHOSEN, cwd=folder)
    (renamed,) = [item for item in plain["findings"] if item["code"] == "DC111"]
    assert renamed["evidence"]["source"] == "export NCCL_ASYNC_ERROR_HANDLING=1"
    assert renamed["where"]["variable"] == "NCCL_ASYNC_ERROR_HANDLING"
    assert renamed["fix"]["safe"]
    assert plain["subject"]["files"] == 1
    text = lint(folder, "--output-format", "github", *CHOSEN).stdout
    assert f"file=job.sbatch,line={NODES}," in text


def test_statistics_selection_and_files_that_keep_silent(tmp_path: Path) -> None:
    folder = jobs(project(tmp_path, train=TRAIN), job_sbatch=JOB, old__job_sh=JOB)
    rows = json.loads(lint(folder, "--statistics", "--output-format", "json", *CHOSEN).stdout)
    assert [(row["code"], row["count"], row["fixable"]) for row in rows] == [
        ("DC111", 2, 2), ("DC804", 2, 0), ("DC209", 1, 1),
    ]  # fmt: skip
    assert places(folder, "--select", "nnodes-vs-nodes", "--per-file-ignores", "old/*:DC8") == [
        ("job.sbatch", NODES, "DC804")
    ]
    assert places(folder, "--select", "DC804", "--extend-exclude", "*.sbatch,old") == []
    (folder / ".gitignore").write_text("old/\n")
    assert places(folder, "--select", "DC804") == [("job.sbatch", NODES, "DC804")]
    assert lint(folder, "--select", "DC801", "--must-check", "DC801").returncode == 0


def test_good_launch_files_give_nothing(tmp_path: Path) -> None:
    folder = jobs(project(tmp_path, train=GOOD), job_sbatch=GOOD_JOB, values_yaml="a: 1\n", data_json="[1, 2]")
    result = lint(folder)
    assert result.returncode == 0
    assert result.stdout.startswith("distcheck lint · 2 files, 1 of them a launch file")
    assert "\n0 errors, 0 warnings, " in result.stdout
    assert result.stderr == ""


def test_python_files_alone_cost_nothing(tmp_path: Path) -> None:
    project(tmp_path, train=TRAIN)
    program = (
        "import sys\n"
        "from distcheck.cli.main import group\n"
        "assert group.main(['lint', '--no-cache', '-q'], standalone_mode=False) == 1\n"
        "late = [name for name in sys.modules if name.startswith(('yaml', 'tree_sitter', 'distcheck.checks.launch_files'))]\n"
        "assert not late, late\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment(), timeout=60)


def test_torch_is_never_imported(tmp_path: Path) -> None:
    jobs(project(tmp_path, train=TRAIN), job_sbatch=JOB)
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from distcheck.cli.main import group\n"
        "assert group.main(['lint', '--no-cache', '-q'], standalone_mode=False) == 1\n"
        "assert 'psutil' not in sys.modules and 'pynvml' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment(), timeout=60)


# which files


def test_markdown_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    text = "# How to\n\n```bash\nexport NCCL_ASYNC_ERROR_HANDLING=1\ntorchrun --nnodes 2 train.py\n```\n"
    folder = jobs(tmp_path, README_md=text)
    expected = [("README.md", 4, "DC111")]
    assert places(folder, "--select", "DC111") == []
    assert places(folder, "--select", "DC111", "--include-markdown") == expected
    assert places(folder, "README.md", "--select", "DC111") == expected
    (folder / "pyproject.toml").write_text("[tool.distcheck]\ninclude-markdown = true\n")
    assert places(folder, "--select", "DC111") == expected


def test_what_was_named_and_is_no_launch_file_is_told(tmp_path: Path) -> None:
    folder = jobs(tmp_path, values_yaml="a: 1\n", notes_txt="torchrun\n")
    result = lint(folder, "values.yaml")
    assert result.returncode == 0
    assert result.stderr == "distcheck: values.yaml: nothing in it starts ranks or configures a launcher\n"
    assert "no Python files and no launch files" in lint(folder).stderr
    result = lint(folder, "notes.txt")
    assert result.returncode == 2
    assert "no launch file" in result.stdout


def test_a_sourced_file_is_heard_of_once(tmp_path: Path) -> None:
    env = "export NCCL_ASYNC_ERROR_HANDLING=1\n"
    job = "#!/bin/bash\nsource ./env.sh\ntorchrun --nproc-per-node 8 train.py\n"
    folder = jobs(tmp_path, env_sh=env, a_sh=job, b_sh=job)
    assert places(folder, "--select", "DC111") == [("env.sh", 1, "DC111")]
    assert places(folder, "a.sh", "--select", "DC111") == [("env.sh", 1, "DC111")]
    plain = report_of("lint", "a.sh", "--select", "DC111", cwd=folder)
    assert plain["findings"][0]["evidence"]["source"] == env.strip()
    # what was left out is not heard of because others source it; what is silenced there is silent
    assert places(folder, "--select", "DC111", "--extend-exclude", "env.sh") == []
    (folder / "env.sh").write_text(env.strip() + "  # noqa: DC111\n")
    assert places(folder, "a.sh", "--select", "DC111,DC905", "-v") == []


# silencing


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    train.py\n", "    train.py  # distcheck: ignore[DC804] the other two join later\n"),
        ("    train.py\n", "    train.py  # noqa: DC804\n"),
        ("srun torchrun", "# distcheck: ignore[nnodes-vs-nodes]\nsrun torchrun"),
        ("#!/bin/bash\n", "#!/bin/bash\n# distcheck: ignore-file[DC804]\n"),
    ],
)
def test_comments_silence_a_command(tmp_path: Path, old: str, new: str) -> None:
    folder = jobs(tmp_path, job_sbatch=JOB.replace(old, new))
    assert [code for _, _, code in places(folder, *CHOSEN)] == ["DC111"]
    assert "1 silenced in the code" in lint(folder, *CHOSEN).stdout


def test_a_comment_that_silences_nothing_is_told(tmp_path: Path) -> None:
    folder = jobs(tmp_path, job_sbatch=GOOD_JOB.replace("    train.py", "    train.py  # distcheck: ignore[DC804]"))
    assert places(folder, *CHOSEN) == [("job.sbatch", NODES + 3, "DC905")]
    folder = jobs(tmp_path, job_sbatch=GOOD_JOB.replace("    train.py", "    train.py  # noqa: DC8O4"))
    assert "job.sbatch:9: " in lint(folder).stderr


def test_comments_in_yaml_and_dockerfiles(tmp_path: Path) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n    - name: main\n      image: x\n"
        '      command: ["torchrun", "--nproc-per-node=8", "train.py"]\n      env:\n'
        "        - name: NCCL_ASYNC_ERROR_HANDLING%s\n          value: '1'\n"
    )
    docker = "FROM x\n%sENV NCCL_ASYNC_ERROR_HANDLING=1\nCMD torchrun --nproc-per-node=8 train.py\n"
    folder = jobs(tmp_path, pod_yaml=pod % "", _Dockerfile=docker % "")
    assert places(folder, *CHOSEN) == [("Dockerfile", 2, "DC111"), ("pod.yaml", 10, "DC111")]
    jobs(tmp_path, pod_yaml=pod % "  # noqa: DC111", _Dockerfile=docker % "# distcheck: ignore[DC111]\n")
    assert places(folder, *CHOSEN, "-v") == []


# fixing


def test_fix_fixes_what_is_safe(tmp_path: Path) -> None:
    folder = jobs(tmp_path, job_sbatch=JOB)
    path = folder / "job.sbatch"
    path.write_bytes(JOB.replace("\n", "\r\n").encode())
    path.chmod(0o750)
    diff = lint(folder, "--diff", *CHOSEN)
    assert diff.returncode == 1
    assert "-export NCCL_ASYNC_ERROR_HANDLING=1" in diff.stdout
    assert "+export TORCH_NCCL_ASYNC_ERROR_HANDLING=1" in diff.stdout
    assert path.read_bytes() == JOB.replace("\n", "\r\n").encode()
    result = lint(folder, "--fix", *CHOSEN)
    assert result.returncode == 1
    assert "fixed 1 finding in 1 file" in result.stderr
    assert path.read_bytes() == JOB.replace("NCCL_ASYNC", "TORCH_NCCL_ASYNC").replace("\n", "\r\n").encode()
    assert path.stat().st_mode & 0o777 == 0o750
    assert "fixed 1" not in lint(folder, "--fix", *CHOSEN).stderr


def test_a_fix_after_which_less_can_be_read_is_not_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distcheck.checks.launch_files import engine
    from distcheck.cli.main import group

    path = jobs(tmp_path, job_sbatch=JOB) / "job.sbatch"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "why_it_reads_worse", lambda *arguments: "line 5: it ends in a quote")
    assert group.main(["lint", "--fix", "--no-cache", "-q", *CHOSEN], standalone_mode=False) == 1
    assert path.read_text() == JOB


def test_what_is_sourced_and_was_not_named_is_not_fixed(tmp_path: Path) -> None:
    env = "export NCCL_ASYNC_ERROR_HANDLING=1\n"
    folder = jobs(tmp_path, env_sh=env, a_sh="source ./env.sh\ntorchrun --nproc-per-node 8 train.py\n")
    lint(folder, "a.sh", "--fix", *CHOSEN)
    assert (folder / "env.sh").read_text() == env
    lint(folder, "--fix", *CHOSEN)
    assert (folder / "env.sh").read_text() == "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n"


# baselines, standard input


def test_a_baseline_knows_launch_files(tmp_path: Path) -> None:
    folder = jobs(tmp_path, job_sbatch=JOB)
    assert lint(folder, "--write-baseline", "known.json", *CHOSEN).returncode == 0
    assert places(folder, "--baseline", "known.json", *CHOSEN) == []
    jobs(folder, job_sbatch=JOB.replace("#SBATCH --nodes", "# moved\n#SBATCH --nodes"), new_sh=JOB)
    assert [path for path, _, _ in places(folder, "--baseline", "known.json", *CHOSEN)] == ["new.sh"] * 2
    jobs(folder, job_sbatch=GOOD_JOB)
    assert "2 findings of the baseline no longer occur" in lint(folder, "--baseline", "known.json", *CHOSEN).stderr


def test_standard_input_may_be_a_launch_file(tmp_path: Path) -> None:
    result = piped(tmp_path, JOB, "--stdin-filename", "jobs/train.sbatch", "--output-format", "concise", *CHOSEN, "-")
    assert result.stdout.startswith(f"jobs/train.sbatch:{RENAMED}:")
    assert result.returncode == 1
    # without a name, the first line tells
    assert f"<stdin>:{RENAMED}:" in piped(tmp_path, JOB, "--output-format", "concise", *CHOSEN, "-").stdout
    fixed = piped(tmp_path, JOB, "-", "--fix", "--stdin-filename", "a.sh", *CHOSEN)
    assert fixed.stdout == JOB.replace("NCCL_ASYNC", "TORCH_NCCL_ASYNC")
    assert "DC804" in fixed.stderr
    same = piped(tmp_path, "a: 1\n", "-", "--fix", "--stdin-filename", "values.yaml")
    assert (same.stdout, same.returncode) == ("a: 1\n", 0)


# what can't be read, what must not be shown


@pytest.mark.slow
def test_what_can_not_be_read_is_told_and_the_rest_is_checked(tmp_path: Path) -> None:
    folder = jobs(tmp_path, job_sbatch=JOB)
    (folder / "utf16.sh").write_text("torchrun --nproc-per-node 8 train.py\n", encoding="utf-16")
    (folder / "binary.slurm").write_bytes(b"\x7fELF\x00\x01\x02" * 100)
    (folder / "large.sh").write_bytes(JOB.encode() + b"# torchrun\n" * 600_000)
    (folder / "crlf.sh").write_bytes(GOOD_JOB.replace("\n", "\r\n").encode())
    (folder / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n\t- command: [torchrun, x.py]\n")
    plain = report_of("lint", *CHOSEN, cwd=folder)
    found = {(item["where"]["path"], item["code"]) for item in plain["findings"]}
    unreadable = {path for path, code in found if code == "DC904"}
    assert unreadable == {"utf16.sh", "binary.slurm", "large.sh", "pod.yaml"}
    (tabbed,) = [item for item in plain["findings"] if item["where"]["path"] == "pod.yaml"]
    assert tabbed["where"]["line"] == 5
    assert {("job.sbatch", "DC804"), ("large.sh", "DC804")} <= found
    assert lint(folder, "binary.slurm", "job.sbatch", *CHOSEN).returncode == 1
    nothing = lint(folder, "binary.slurm", "utf16.sh")
    assert nothing.returncode == 2
    assert "none of the input could be read" in nothing.stderr


@pytest.mark.slow
def test_credentials_of_a_line_are_not_shown(tmp_path: Path) -> None:
    secret = "0123456789abcdef0123456789abcdef01234567"
    line = f"WANDB_API_KEY={secret} HF_TOKEN=hfk07 torchrun --nnodes 4 --nproc-per-node 8 train.py --api-key {secret}\n"
    folder = jobs(tmp_path, job_sbatch="#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nsrun " + line)
    for output_format in ("full", "json", "concise", "github", "sarif", "html", "junit", "markdown"):
        result = lint(folder, "--output-format", output_format, "-v")
        assert "DC804" in result.stdout, output_format
        assert secret not in result.stdout, output_format
        assert "hfk07" not in result.stdout, output_format
    (finding,) = report_of("lint", "--select", "DC804", cwd=folder)["findings"]
    column = finding["where"]["column"] - 1
    assert re.match(r"4|--nnodes", finding["evidence"]["source"][column:])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("X=1 HF_TOKEN='one two' torchrun", "X=1 HF_TOKEN=***       torchrun"),
        ('python t.py --password "one two three" --lr 1', "python t.py --password ***             --lr 1"),
        (r'ssh h "HF_TOKEN=\"one two\" torchrun"', r'ssh h "HF_TOKEN=***         torchrun"'),
        ("HF_TOKEN='one two", "HF_TOKEN=***"),
        ("HF_TOKEN=ab torchrun", "HF_TOKEN=** torchrun"),
        ('env: {HF_TOKEN: "one two", A: b}', "env: {HF_TOKEN: ***        A: b}"),
        ('curl -H "Authorization: Bearer one" x', 'curl -H "Authorization: Bearer ***  x'),
        ("NAME='one two' torchrun --lr 1", "NAME='one two' torchrun --lr 1"),
    ],
)
def test_credentials_are_hidden_up_to_their_last_quote_and_all_else_keeps_its_column(line: str, shown: str) -> None:
    assert without_credentials(line) == shown


def test_a_token_where_something_else_belongs_is_not_repeated(tmp_path: Path) -> None:
    secret = "hf_0123456789abcdefghij"
    folder = jobs(
        tmp_path,
        job_sh=f"#!/bin/bash\ntorchrun --nnodes=2 --node_rank=0 --rdzv_backend={secret} --rdzv_endpoint=h:1 train.py\n",
    )
    result = lint(folder, "--output-format", "json", "-v")
    assert "DC806" in result.stdout
    assert secret not in result.stdout


# the nodes


def test_the_nodes_can_be_stated(tmp_path: Path) -> None:
    job = JOB.replace("--nnodes 4", "--nnodes 2").replace("#SBATCH --gpus-per-node=8\n", "")
    folder = jobs(tmp_path, job_sbatch=job)
    from .test_cli import distcheck

    distcheck("env", "--save-facts", "node.json", cwd=folder)
    facts = json.loads((folder / "node.json").read_text())
    assert facts
    assert "DC301" not in [code for _, _, code in places(folder, "job.sbatch")]
    for arguments, words in (
        (("--node-facts", "gone.json"), "gone.json"),
        (("--node-facts", "job.sbatch"), "--node-facts job.sbatch: "),
    ):
        result = lint(folder, *arguments)
        assert result.returncode == 2
        assert words in result.stderr
    (folder / "pyproject.toml").write_text('[tool.distcheck]\nnode-facts = "gone.json"\n')
    assert "pyproject.toml: node-facts" in lint(folder).stderr


OLD = "python -m torch.distributed.launch --nproc_per_node=8 train.py\n"
OLD_SCRIPT = """\
import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
dist.init_process_group("gloo")
torch.cuda.set_device(parser.parse_args().local_rank)
"""


def levels(folder: Path, *more: str) -> list[tuple[str, str, int, str]]:
    plain = report_of("lint", "--isolated", "--no-cache", "-v", "--select", "DC207,DC801", *more, cwd=folder)
    return sorted(
        (item["code"], item["where"]["path"], item["where"]["line"], item["severity"]) for item in plain["findings"]
    )


def test_the_old_launcher_is_reported_once_for_each_script(tmp_path: Path) -> None:
    folder = jobs(tmp_path, a_sh="#!/bin/bash\n" + OLD + OLD, b_sh="#!/bin/bash\n" + OLD, train_py=OLD_SCRIPT)
    assert levels(folder) == [
        ("DC207", "a.sh", 2, "warning"),
        ("DC207", "a.sh", 3, "info"),
        ("DC207", "b.sh", 2, "info"),
        ("DC207", "train.py", 7, "warning"),
        ("DC801", "a.sh", 2, "warning"),
        ("DC801", "a.sh", 3, "info"),
        ("DC801", "b.sh", 2, "warning"),
    ]
    result = lint(folder, "--isolated", "--no-cache", "--select", "DC801", "--diff", "--unsafe-fixes", ".")
    assert result.stdout.count("+torchrun") == 3


def test_a_pin_of_torch_makes_a_note_of_what_is_newer(tmp_path: Path) -> None:
    folder = jobs(tmp_path, a_sh="#!/bin/bash\n" + OLD, train_py=OLD_SCRIPT)
    (folder / "requirements.txt").write_text("torch==1.13.1\n")
    assert levels(folder) == [
        ("DC207", "a.sh", 2, "info"),
        ("DC207", "train.py", 7, "info"),
        ("DC801", "a.sh", 2, "warning"),
    ]
    # torchrun came with 1.10
    (folder / "requirements.txt").write_text("torch==1.9.1\n")
    assert ("DC801", "a.sh", 2, "info") in levels(folder)
    (folder / "requirements.txt").write_text("torch>=1.13\n")
    assert ("DC207", "train.py", 7, "warning") in levels(folder)


READS_TOO = OLD_SCRIPT.replace("import argparse", "import argparse\nimport os").replace(
    "parser.parse_args().local_rank", 'int(os.environ.get("LOCAL_RANK", parser.parse_args().local_rank))'
)
WITH_A_DASH = OLD_SCRIPT.replace("--local_rank", "--local-rank")
NEW = "torchrun --nproc_per_node=8 train.py\n"


@pytest.mark.parametrize(
    ("script", "launch", "severity", "words"),
    [
        (READS_TOO, OLD, "warning", "refuses"),
        (READS_TOO, NEW, "info", ":2 passes none"),
        (READS_TOO, OLD.replace("--nproc", "--use_env --nproc"), "info", ":2 passes none"),
        (READS_TOO, "python train.py\n", "info", "no known launch line passes one"),
        (OLD_SCRIPT, OLD, "warning", "so the script ends or every rank uses the default"),
        (OLD_SCRIPT, NEW, "warning", "so the script ends or every rank uses the default"),
        (OLD_SCRIPT, NEW.replace("train.py", "train.py --local_rank 0"), "info", ":2 passes it"),
        (OLD_SCRIPT.replace("parse_args", "parse_known_args").replace("().l", "()[0].l"), NEW, "warning", "so every"),
        (WITH_A_DASH, NEW, "warning", "torchrun passes no such option"),
        (WITH_A_DASH, OLD, "info", ":2 passes --local-rank"),
    ],
)
@pytest.mark.parametrize("document", [False, True])
def test_an_option_for_the_local_rank_is_judged_by_what_launches_give(
    tmp_path: Path, script: str, launch: str, severity: str, words: str, document: bool
) -> None:
    folder = jobs(tmp_path, train_py=script, **({} if document else {"run_sh": "#!/bin/bash\n" + launch}))
    if document:
        (folder / "README.md").write_text(f"```sh\n{launch}```\n")
    plain = report_of("lint", "--isolated", "--no-cache", "-v", "--select", "DC207", cwd=folder)
    (found,) = [item for item in plain["findings"] if item["where"]["path"] == "train.py"]
    assert found["severity"] == severity
    assert words in found["message"]
    assert found["evidence"].keys().isdisjoint(("option_of", "as_expected"))


def test_a_parser_that_leaves_other_options_aside_refuses_none(tmp_path: Path) -> None:
    leaves = READS_TOO.replace("parse_args()", "parse_known_args()[0]")
    folder = jobs(tmp_path, train_py=leaves, run_sh="#!/bin/bash\n" + OLD)
    assert not [item for item in levels(folder) if item[0] == "DC207"]


@pytest.mark.parametrize(
    ("options", "adds"),
    [
        ("--nproc_per_node=8", True), ("--use_env --nproc_per_node=8", False), ("--nproc_per_node=8 --use-env", False),
    ],
)  # fmt: skip
def test_the_old_launcher_in_a_string_adds_no_option_with_use_env(tmp_path: Path, options: str, adds: bool) -> None:
    line = f"python -m torch.distributed.launch {options} other.py"
    folder = jobs(tmp_path, start_py=f'import os\n\nos.system(f"{line} --seed {{os.getpid()}}")\n')
    (finding,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC801", cwd=folder)["findings"]
    assert ("adds --local-rank" in finding["message"]) == adds
    assert ("must read" in finding["fix"]["text"]) == adds
    # torchrun has no such option
    lint(folder, "--isolated", "--no-cache", "--select", "DC801", "--fix", "--unsafe-fixes")
    assert 'f"torchrun --nproc_per_node=8 other.py' in (folder / "start.py").read_text()


def test_the_old_launcher_in_a_list_with_use_env_is_left_to_the_user(tmp_path: Path) -> None:
    words = '[sys.executable, "-m", "torch.distributed.launch", "--use_env", "other.py"]'
    folder = jobs(tmp_path, start_py=f"import subprocess\nimport sys\n\nsubprocess.run({words})\n")
    (finding,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC801", cwd=folder)["findings"]
    assert "adds --local-rank" not in finding["message"]
    assert not finding["fix"]["edits"]


@pytest.mark.parametrize(
    ("told", "severity"), [("We train with `torch==1.13.1`.", "info"), ("We train with `torch>=1.13`.", "warning")]
)
def test_a_new_name_of_a_variable_is_a_note_where_torch_is_older(tmp_path: Path, told: str, severity: str) -> None:
    """The new name of this one came with torch 2.2."""
    folder = jobs(tmp_path, a_sh="#!/bin/bash\nexport NCCL_ASYNC_ERROR_HANDLING=1\ntorchrun train.py\n")
    (folder / "README.md").write_text(f"# Train\n\n{told}\n")
    (finding,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC111", cwd=folder)["findings"]
    assert finding["severity"] == severity


READING_SCRIPT = "import os\n" + OLD_SCRIPT + 'print(os.environ["LOCAL_RANK"])\n'
WITHOUT_OPTION = OLD.replace("train.py", "--use_env train.py")


@pytest.mark.parametrize(
    ("script", "readme", "level"),
    [
        (READING_SCRIPT, f"```\n{WITHOUT_OPTION}```\n", "info"),
        (READING_SCRIPT, "~~~console\n$ torchrun --nproc-per-node=8 train.py\n~~~\n", "info"),
        (READING_SCRIPT, f"```bash\n{WITHOUT_OPTION}{OLD}```\n", "warning"),
        (READING_SCRIPT, f"```bash\n{WITHOUT_OPTION.replace('train.py', 'test.py')}```\n", "info"),
        (READING_SCRIPT, f"Never start it so: {WITHOUT_OPTION}", "info"),
        (READING_SCRIPT, "```bash\npython train.py\n```\n", "info"),
        (OLD_SCRIPT, f"```bash\n{WITHOUT_OPTION}```\n", "warning"),
    ],
)
def test_a_readme_shows_that_no_launcher_passes_the_option(
    tmp_path: Path, script: str, readme: str, level: str
) -> None:
    folder = jobs(tmp_path, train_py=script)
    (folder / "README.md").write_text(readme)
    found = levels(folder)
    assert [(code, path, severity) for code, path, _, severity in found] == [("DC207", "train.py", level)]
    # a launch file that passes it matters more
    (folder / "a.sh").write_text("#!/bin/bash\n" + OLD)
    assert ("DC207", "train.py", found[0][2], "warning") in levels(folder)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (OLD_SCRIPT, 'first read int(os.environ["LOCAL_RANK"]) in train.py'),
        ("import os\n" + OLD_SCRIPT + 'print(os.environ["LOCAL_RANK"])\n', "train.py must use LOCAL_RANK"),
        (None, "a script with that option reads int(os.environ"),
        ('import os\nimport torch.distributed\nprint(os.environ["LOCAL_RANK"])\n', "train.py reads LOCAL_RANK"),
    ],
)
def test_the_fix_names_what_the_script_needs(tmp_path: Path, script: str | None, text: str) -> None:
    folder = jobs(tmp_path, a_sh="#!/bin/bash\n" + OLD, **({} if script is None else {"train_py": script}))
    plain = report_of("lint", "--isolated", "--no-cache", "--select", "DC801", cwd=folder)
    (finding,) = plain["findings"]
    assert text in finding["fix"]["text"]


@pytest.mark.parametrize(
    ("option", "plain"),
    [
        ('"--local-rank", type=int', "0"),
        ('"--local_rank", type=int, default=-1', "-1"),
        ('"--local-rank", "--local_rank", type=int, default=None', "None"),
        ('"--local_rank", "--local-rank", type=int, required=True', "0"),
    ],
)
def test_torchrun_replaces_the_old_launcher_where_the_option_gets_the_variable(
    tmp_path: Path, option: str, plain: str
) -> None:
    script = f"import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument({option})\n"
    folder = jobs(tmp_path, a_sh="#!/bin/bash\n" + OLD, train_py=script + "print(parser.parse_args().local_rank)\n")
    fixed = ("lint", "--isolated", "--no-cache", "--select", "DC801", "--fix")
    assert lint(folder, *fixed[1:]).returncode == 0
    assert (folder / "a.sh").read_text().endswith(OLD)
    assert lint(folder, *fixed[1:], "--unsafe-fixes").returncode == 0
    assert (folder / "a.sh").read_text().endswith("torchrun --nproc_per_node=8 train.py\n")

    def printed(*arguments: str, **variables: str) -> str:
        command = [sys.executable, "train.py", *arguments]
        return subprocess.check_output(command, cwd=folder, env=environment() | variables, text=True).strip()

    assert (printed(LOCAL_RANK="3"), printed()) == ("3", plain)
    assert (printed("--local-rank=2"), printed("--local_rank=2")) == ("2", "2")


@pytest.mark.parametrize(
    "option",
    ['"--local-rank", **more', '"--local_rank", default=None', '"--local-rank", type=int, default=first(\n    1)'],
)
def test_the_old_launcher_stays_where_the_script_would_lose_its_local_rank(tmp_path: Path, option: str) -> None:
    script = f"import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument({option})\n"
    folder = jobs(tmp_path, a_sh="#!/bin/bash\n" + OLD, train_py=script + "print(parser.parse_args().local_rank)\n")
    (finding,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC801", cwd=folder)["findings"]
    assert not finding["fix"]["edits"]


def test_the_fix_says_which_option_torchrun_has_not(tmp_path: Path) -> None:
    folder = jobs(tmp_path, a_sh="#!/bin/bash\n" + WITHOUT_OPTION)
    (finding,) = report_of("lint", "--isolated", "--no-cache", "--select", "DC801", cwd=folder)["findings"]
    assert "which has the same options but --use_env: leave that out" in finding["fix"]["text"]


def test_deepspeed_passes_the_old_spelling(tmp_path: Path) -> None:
    folder = jobs(tmp_path, a_sh="#!/bin/bash\ndeepspeed --num_gpus 8 train.py\n", train_py=OLD_SCRIPT)
    assert levels(folder) == []
    (folder / "b.sh").write_text("#!/bin/bash\n" + OLD)
    assert ("DC207", "train.py", 7, "warning") in levels(folder)


@pytest.mark.parametrize(
    ("port", "level"),
    [
        ("PORT", "error"),
        ("@PORT@", "info"),
        ("[PORT]", "info"),
        ("'%(port)s'", "info"),
        ("__PORT__", "info"),
        ("XXXX", "info"),
    ],
)
def test_a_placeholder_is_a_note(tmp_path: Path, port: str, level: str) -> None:
    folder = jobs(tmp_path, run_sh=f"#!/bin/bash\ntorchrun --nproc_per_node={port} train.py\n")
    plain = report_of("lint", "--isolated", "--no-cache", "-v", "--select", "DC102", cwd=folder)
    assert [item["severity"] for item in plain["findings"]] in ([level], [])
    assert level == "info" or plain["findings"]


OF_A_CALLER = "#!/bin/bash\nOUT=a\ntorchrun --standalone --nproc-per-node=4 train.py --log-interval $LOG --out $OUT\n"
OF_AN_ARRAY = (
    "#!/bin/bash\n#SBATCH --gres=gpu:2\nset -eu\necho $SLURM_ARRAY_TASK_ID\n"
    "torchrun --standalone --nproc-per-node=2 train.py\n"
)


@pytest.mark.parametrize(
    ("script", "caller", "text", "number"),
    [
        (OF_A_CALLER, "Makefile", "train:\n\tLOG=100 ./run.sh\n", 0),
        (OF_A_CALLER, "start.py", "os.environ['LOG'] = '5'\nsubprocess.run(['bash', 'run.sh'])\n", 0),
        (OF_A_CALLER, "README.md", "Start `LOG=100 bash run.sh`.\n", 0),
        (OF_A_CALLER, "README.md", "Start `bash run.sh`. It writes a LOGFILE.\n", 1),
        (OF_A_CALLER, "README.md", "Start `LOG=100 bash rerun.sh`.\n", 1),
        (OF_AN_ARRAY, "README.md", "```\nsbatch --array=0-4 run.sh\n```\n", 0),
        (OF_AN_ARRAY, "start.py", "subprocess.run(['sbatch', '-a', '0-4', 'run.sh'])\n", 0),
        (OF_AN_ARRAY, "README.md", "```\nsbatch run.sh\n```\n", 1),
    ],
)
def test_files_around_a_script_set_its_variables(
    tmp_path: Path, script: str, caller: str, text: str, number: int
) -> None:
    (tmp_path / "run.sh").write_text(script)
    (tmp_path / caller).write_text(text)
    plain = report_of("lint", "--isolated", "--no-cache", "--select", "DC818", cwd=tmp_path)
    assert [item["code"] for item in plain["findings"]] == ["DC818"] * number
    assert all("set_by_callers" not in item["evidence"] for item in plain["findings"])
