"""No credential in a variable, an argument, a file, a log or an exception reaches an output, in any format."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from distcheck.checks.cluster import record_exchange
from distcheck.checks.cluster.merge import HostReport
from distcheck.checks.host.examine import examine
from distcheck.cli.explain import NothingKnown
from distcheck.cli.main import group
from distcheck.core.baseline import dump_baseline
from distcheck.core.facts_file import dump_facts, redacted
from distcheck.core.model import Edit, Finding, Fix, NotChecked
from distcheck.core.redaction import MASK, mask, mask_all, mask_arguments, mask_forms
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import make_launch, without_credentials
from distcheck.reporters import FORMATS, Style, render

from .cli.test_cli import ROOT
from .recorded import recorded_world
from .reporters.invented import SAMPLES

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
Maker = Callable[[Callable[[int, str], str]], str]
#: Credentials that are masked wherever they stand.
FORMS: dict[str, Maker] = {
    "github": lambda draw: "ghp_" + draw(36, LETTERS),
    "github fine-grained": lambda draw: f"github_pat_{draw(22, LETTERS)}_{draw(59, LETTERS)}",
    "gitlab": lambda draw: "glpat-" + draw(20, LETTERS),
    "hugging face": lambda draw: "hf_" + draw(34, string.ascii_letters),
    "aws id": lambda draw: "AKIA" + draw(16, UPPER),
    "aws secret": lambda draw: draw(38, LETTERS + "/+") + "7Q",
    "openai": lambda draw: "sk-" + draw(47, LETTERS) + "7",
    "openai project": lambda draw: "sk-proj-" + draw(74, LETTERS + "_-"),
    "anthropic": lambda draw: "sk-ant-api03-" + draw(93, LETTERS + "_-"),
    "w&b": lambda draw: "wandb_v1_" + draw(60, LETTERS),
    "slack": lambda draw: f"xoxb-{draw(12, string.digits)}-{draw(12, string.digits)}-{draw(24, LETTERS)}",
    "google": lambda draw: "AIza" + draw(35, LETTERS + "_-"),
    "jwt": lambda draw: f"eyJ{draw(20, LETTERS)}.eyJ{draw(40, LETTERS)}.{draw(43, LETTERS)}",
    "user": lambda draw: f"https://{draw(8, LETTERS)}:{draw(16, LETTERS + '@!$:')}@git.example.com/x",
    "user without a scheme": lambda draw: f"alice:{draw(16, LETTERS + '!%*.-')}7a@db.example.com:5432/x",
    "user at an address": lambda draw: f"root:{draw(12, LETTERS)}7a@10.0.0.7",
    "bearer": lambda draw: f"Authorization: Bearer {draw(24, LETTERS)}",
    "option": lambda draw: f"--api-key={draw(16, LETTERS)}",
    "json": lambda draw: f'{{"client_secret": "{draw(16, LETTERS)}9"}}',
    "query": lambda draw: f"https://s3.example.com/x?X-Amz-Signature={draw(64, HEX)}&y=1",
    "login": lambda draw: f"wandb login {draw(40, HEX)}",
    "curl": lambda draw: f"curl -u me:{draw(16, LETTERS)} https://example.com",
    "private key": lambda draw: (
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{draw(70, LETTERS)}\n-----END OPENSSH PRIVATE KEY-----"
    ),
}
#: What stands around one.
TEXTS = ("{}", "/tmp/{}/x", "a.{}", "job-{}", "x_{}", "see {} there", "a,{},b", "host:{}", "%22{}%22", "({})", "'{}'")
#: These begin with a word of their own, which must be one.
WORDED = frozenset(
    {"bearer", "option", "json", "login", "curl", "user", "user without a scheme", "user at an address", "query"}
    | {"private key"}
)
PLAIN = ("{}", "see {} there", "({})", "'{}'")


class Planted:
    """Credentials in texts, from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.parts: set[str] = set()

    def text(self, form: str | None = None) -> str:
        """Return a text with a credential, and remember its random parts."""
        chosen = form or self._random.choice(list(FORMS))

        def draw(length: int, letters: str) -> str:
            part = "".join(self._random.choices(letters, k=length))
            # of a credential, no third may be shown
            third = max(8, length // 3)
            self.parts.update(part[start : start + third] for start in range(0, length - third + 1, third))
            return part

        secret = FORMS[chosen](draw)
        return self._random.choice(PLAIN if chosen in WORDED else TEXTS).format(secret)

    def assert_hidden(self, output: str, where: str) -> None:
        shown = sorted(part for part in self.parts if part in output)
        assert not shown, f"{where}: {shown[0]} in {output[max(0, output.find(shown[0]) - 100) :][:200]}"


SEEDS = st.integers(0, 10**9)
quick = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])
@given(seed=SEEDS)
def test_each_form_is_masked_in_each_text(seed: int) -> None:
    planted = Planted(seed)
    for form in FORMS:
        text = planted.text(form)
        for masked in (mask(text), mask_forms(text), "\n".join(mask_arguments(["x", text]))):
            planted.assert_hidden(masked, form)
            assert mask_forms(masked) == masked


def test_arguments_without_a_form_are_masked_by_the_option_before_them() -> None:
    key = "0123456789abcdef0123456789abcdef01234567"
    assert mask_arguments(["wandb", "login", key]) == ("wandb", "login", MASK)
    assert mask_arguments(["curl", "-u", "me:hunter2", "x"]) == ("curl", "-u", f"me:{MASK}", "x")
    assert mask_arguments(["docker", "run", "-u", "1000:1000", "x"]) == ("docker", "run", "-u", "1000:1000", "x")
    assert mask_arguments(["--password", "--hunter2", "--lr"]) == ("--password", MASK, "--lr")


@pytest.mark.parametrize(
    "text",
    [
        "git+https://github.com/org/repo@main",
        "git+https://github.com/org/repo@0123456789abcdef0123456789abcdef01234567",
        "docker://ghcr.io:443/org/image@sha256:" + "0a" * 32,
        "revision=0123456789abcdef0123456789abcdef01234567",
        "sha256:" + "0a" * 32,
        "/home/me/.cache/huggingface/hub/models--gpt2/snapshots/607a30d783dfa663caf39e06633721c8d4cfcd7e/config.json",
        "/nix/store/8zbd6hmbvlgn7cdc0yyjzr2ng5z6k6wq-python3-3.11.9/bin/python3",
        "/opt/spack/linux-ubuntu22.04-zen2/gcc-11.4.0/nccl-2.19.3-1-u7pfqm6gqhzv6vpvhhjhfs2lclhqc5ng/lib",
        "_ZN5torch8autograd6Engine15evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferE",
        "torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])",
        "pad_token=tokenizer.eos_token, pad_token_id=50256, max_token=8, unk_token='<unk>', mask_token='[MASK]'",
        "token=os.environ['HF_TOKEN'], api_key=config.api_key, password=$PASSWORD, secret=${SECRET}, token=None",
        "the option --rdzv-token is not known to torchrun 2.13",
        "GPU-5e2f2b0c-8c1d-4c0e-9d8f-1a2b3c4d5e6f on ip-10-0-3-14.us-west-2.compute.internal",
        "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, invalid usage",
        "test_hf_transformersautomodelforcausallm, disk-nvme-scratch-shared, task-llama-7b-finetune-v2-master-0",
        "the bearer of this certificate has authorization to key exchange",
        "tcp://node1:29500 and http://10.0.0.1:8080/metrics?key=cpu",
        "/Users/Bob/ImageNet/Models/LlamaSFT/Stage2/CheckpointsFinal/Run12",
        "14/llvm/CodeGen/GlobalISel/GISelWorkList and each0/nvmlDeviceGetMigDeviceHandleByIndex",
        "nvcr.io/nvidia/pytorch:24.05-py3@sha256:" + "0a" * 32,
        "registry.example.com:5000/team/image:v1.2-cuda12@sha256:" + "0a" * 32,
        "mailto:bob1999@example.com, author:joe-77@example.com, #SBATCH --mail-user=ann_3@example.com",
        "alice:$PASSWORD1@db.example.com, alice:${DB_PASSWORD_1}@db.example.com, git@github.com:org/repo1.git@main",
        "2013-07-13:20130713144407.GA27334@mail.example.com: a commit",
        "rank 3 of worker:12345@node1.example.com, cuda:0@node1, 12:34:56.123456@node1.example.com",
    ],
)
def test_good_texts_stay(text: str) -> None:
    assert mask_forms(text) == text


@pytest.mark.parametrize(
    "name", ["NCCL_DEBUG_FILE", "TORCHELASTIC_RUN_ID", "SLURM_JOB_NAME", "LD_LIBRARY_PATH", "PYTHONPATH"]
)
def test_good_hashes_stay_in_variables(name: str) -> None:
    text = "/cache/snapshots/607a30d783dfa663caf39e06633721c8d4cfcd7e:run-2026.11.28"
    assert mask(text, name=name) == text


@pytest.mark.parametrize(
    ("before", "text"),
    [
        *[("", text) for text in ("://", "://x:y", "eyJ", "curl ", "docker login ", "hf_", "-", "--token ", "sk-", "SG.", ":")],
        *[("", text) for text in ("token = ", 'password="', "token:_", "token=1", "curl -u=a ", "wandb login -", f"{'a' * 32}1 ")],
        ("wandb login ", "--a "),
        ("curl -u", "="),
        ("curl -u", " "),
        ("token:", " "),
        ("--token", " "),
        ("bearer", " "),
    ],
)  # fmt: skip
def test_no_text_takes_time_without_bound(before: str, text: str) -> None:
    """Four times the length takes about four times the time, not sixteen times."""
    import time

    def seconds(size: int) -> float:
        start = time.process_time()
        mask(before + text * (size // len(text)), name="http_proxy")
        return time.process_time() - start

    assert min(seconds(40_000) for _ in range(3)) < 10 * max(min(seconds(10_000) for _ in range(3)), 0.002)


#: Members of reports whose texts come from outside.
_TEXTS = {"message", "text", "command", "why", "traceback", "source", "sentence", "line", "error", "detail", "object"}


def _plant(value: Any, planted: Planted, key: str = "") -> Any:
    """Return a report in which each text from outside holds a credential."""
    if isinstance(value, str):
        return f"{value} {planted.text()}" if key in _TEXTS else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        members = zip(value._fields, value, strict=True)
        return type(value)(*(_plant(part, planted, name) for name, part in members))
    if isinstance(value, dict):
        return {name: _plant(part, planted, name) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plant(part, planted, key) for part in value)
    return value


@quick
@given(seed=SEEDS)
def test_no_report_shows_one(seed: int) -> None:
    for name, report in SAMPLES.items():
        planted = Planted(seed)
        full = _plant(report, planted)._replace(
            facts={"Anything": {"value": planted.text()}, planted.text("github"): NotChecked("DC1", planted.text())}
        )
        for output_format in FORMATS:
            planted.assert_hidden(render(full, output_format, Style(verbose=2)), f"{name} {output_format}")
        planted.assert_hidden(dump_baseline(full.findings, "."), "baseline")
        planted.assert_hidden(record_exchange.to_text(HostReport("node1", full, None)), "record")


def test_a_command_and_an_edit_that_would_hold_a_mask_are_dropped() -> None:
    token = "ghp_" + "aB3" * 12
    edit = Edit("x.sh", 1, 1, 1, 9, f"export X={token}")
    for fix in (Fix("do it", command=f"run {token}"), Fix("do it", edits=(edit,), safe=True)):
        shown = mask_all(Finding("DC1", "x", SAMPLES["env"].findings[0].severity, "m", fix)).fix
        assert (shown.text, shown.command, shown.edits) == ("do it", None, ())
    good = Fix("do it", command="run x", edits=(edit._replace(text="export X=1"),))
    assert mask_all(good) is good


NAMES = (
    "NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE",
    "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TORCH_DISTRIBUTED_DEBUG", "PYTORCH_CUDA_ALLOC_CONF", "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS", "http_proxy", "TMPDIR", "NCCL_NO_SUCH", "PET_NNODES",
)  # fmt: skip


def _world(folder: Path, planted: Planted) -> Any:
    cmdline = "\0".join(["/usr/bin/python3", "train.py", planted.text("option"), planted.text()]) + "\0"
    return recorded_world(
        folder,
        environ={name: planted.text().replace("\0", "") for name in NAMES},
        files={
            "/etc/nccl.conf": f"NCCL_DEBUG={planted.text('aws id')}\nNCCL_NET={planted.text('openai')}\n",
            "/etc/hosts": f"127.0.0.1 localhost {planted.text('hugging face')}\n",
            "/proc/4711/cmdline": cmdline,
            "/proc/4711/stat": "4711 (python3) S 4700 1 1 0 -1",
            "/proc/4700/cmdline": f"bash\0-c\0{planted.text()}\0",
            "/proc/4700/stat": "4700 (bash) S 1 1 1 0 -1",
        },
        addresses=[["lo", "ipv4", "127.0.0.1", "255.0.0.0"], ["eth0", "ipv4", "10.0.0.5", "255.255.255.0"]],
        limits={"nofile": [1024, 1048576], "memlock": [65536, 65536], "nproc": [4096, 4096]},
    )


@settings(quick, max_examples=4)
@given(seed=SEEDS, launched=st.booleans())
def test_no_variable_file_or_argument_of_a_host_shows_one(tmp_path: Path, seed: int, launched: bool) -> None:
    planted = Planted(seed)
    world = _world(tmp_path / str(seed), planted)
    words = ["torchrun", "--nproc-per-node", planted.text(), "--rdzv-id", planted.text(), "train.py", planted.text()]
    launch = make_launch(world.environ, launched=launched, command=None if launched else parse_command(words, {}))
    report = examine(launch, world, every_fact=True)
    assert report.findings
    for output_format in FORMATS:
        planted.assert_hidden(render(report, output_format, Style(verbose=2)), output_format)
    facts = {type(value): value for value in report.facts.values()}
    text = dump_facts({**facts, Launch: without_credentials(launch)}, tool_version="1", saved_at="now")
    planted.assert_hidden(text, "facts")
    planted.assert_hidden(redacted(text), "redacted facts")
    planted.assert_hidden(record_exchange.to_text(HostReport("node1", report, None)), "record")


def _run(*words: str) -> str:
    result = CliRunner().invoke(group, [*words], standalone_mode=False)
    assert result.exception is None or type(result.exception).__module__.startswith("click"), result.exception
    return str(result.output)


@settings(quick, max_examples=2)
@given(seed=SEEDS)
def test_no_source_file_shows_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    planted = Planted(seed)
    folder = tmp_path / str(seed)
    folder.mkdir()
    monkeypatch.chdir(folder)

    def line() -> str:
        return re.sub(r"[\n\\\"]", " ", planted.text())

    (folder / "train.py").write_text(
        "import os, torch\nimport torch.distributed as dist\n"
        f'dist.init_process_group("nccl", init_method="tcp://{line()}")\n'
        f'if os.environ["RANK"] == 0:  # {line()}\n'
        f'    torch.save({{}}, "{line()}")\n'
        f'torch.save({{}}, "{line()}")\n'
        f"torch.cuda.set_device(dist.get_rank())  # {line()}\n"
    )
    (folder / "job.sbatch").write_text(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
        f'export NCCL_ASYNC_ERROR_HANDLING="{line()}"\n'
        f"export NCCL_ASYNC_ERROR_HANDLING=1 # {line()}\n"
        f'srun torchrun --nnodes 4 --nproc-per-node 8 --rdzv-id "{line()}" train.py "{line()}"\n'
    )
    for output_format in FORMATS:
        text = _run("lint", "--isolated", "--no-cache", "-v", "--output-format", output_format, ".")
        assert output_format not in ("json", "full") or text.count("DC") >= 3
        planted.assert_hidden(text, output_format)
    planted.assert_hidden(_run("lint", "--isolated", "--no-cache", "--diff", "--unsafe-fixes", "."), "diff")


def test_no_log_shows_one(tmp_path: Path) -> None:
    planted = Planted(11)
    log = tmp_path / "train.log"
    lines = [
        "[rank0]: Traceback (most recent call last):",
        f'[rank0]:   File "/workspace/train.py", line 12, in {planted.text()}',
        f"[rank0]:     main({planted.text()})",
        f"[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen. port: 29500, "
        f"code: -98, name: EADDRINUSE, message: address already in use {planted.text()}",
        f"[rank1]: RuntimeError: {planted.text()}",
        f"[rank2]: ValueError: {planted.text('private key')}",
    ]
    log.write_text("\n".join(lines) + "\n")
    for output_format in ("full", "json", "html"):
        text = _run("log", "--isolated", "-v", "--output-format", output_format, str(log))
        planted.assert_hidden(text, output_format)
    planted.assert_hidden(_run("explain", "\n".join(lines)), "explain")
    with pytest.raises(NothingKnown) as refused:
        group.main(["explain", f"nothing knows this {planted.text('aws secret')} here"], standalone_mode=False)
    planted.assert_hidden(str(refused.value), "explain")


def test_a_difference_of_facts_shows_none(tmp_path: Path) -> None:
    planted = Planted(7)
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        # as a file that an older version saved
        plain = json.loads((ROOT / "docs" / "example-facts.json").read_text(encoding="utf-8"))
        plain["facts"]["Settings"]["items"] = [
            {"name": name, "value": planted.text(), "origin": "environment"} for name in NAMES
        ]
        path.write_text(json.dumps(plain))
    for output_format in ("full", "json"):
        text = _run("diff", "-v", "--output-format", output_format, *map(str, paths))
        assert MASK in text
        planted.assert_hidden(text.replace("\n", ""), output_format)
