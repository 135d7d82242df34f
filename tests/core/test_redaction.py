"""Credentials never get through, and ordinary settings stay readable."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.redaction import MASK, mask, mask_arguments, mask_forms
from distcheck.core.world import LONGEST_VALUE, collect_variables


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("http://me:hunter2@proxy:3128", "http_proxy"),
        ("AKIAIOSFODNN7EXAMPLE", "NCCL_X"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "MASTER_ADDR"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "TORCH_HOME"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "SLURM_X"),
        ("--api-key=hunter2secret", ""),
        ("token=hunter2", ""),
        ("0123456789abcdef0123456789abcdef", "NCCL_X"),
        ("anything at all", "WANDB_API_KEY"),
        ("me:hunter2@proxy:3128", "https_proxy"),
        ("http://me:hun/ter2@proxy:3128", "http_proxy"),
        ("Authorization: Bearer hunter2", ""),
        ("nvapi-abcdefghijklmnop1234", "NCCL_X"),
        ("anything at all", "HF_TOKEN"),
        ("anything at all", "SLURM_JWT"),
    ],
)
def test_bad_credentials_are_masked(text: str, name: str) -> None:
    masked = mask(text, name=name)
    assert MASK in masked
    assert "hunter2" not in masked
    assert masked != text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("eth0,^docker", "NCCL_SOCKET_IFNAME"),
        ("GPU-5e2f2b0c-8c1d-4c0e-9d8f-1a2b3c4d5e6f", "CUDA_VISIBLE_DEVICES"),
        ("tcp://10.0.0.1:29500", "MASTER_PORT"),
        ("/usr/local/nvidia/lib64:/opt/hpcx/lib", "LD_LIBRARY_PATH"),
        ("gpu[001-128]", "SLURM_JOB_NODELIST"),
        ("mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1", "NCCL_IB_HCA"),
        ("ip-10-0-3-14.us-west-2.compute.internal", "MASTER_ADDR"),
        ("train-job-master-0.train-job.default.svc.cluster.local", "MASTER_ADDR"),
        ("expandable_segments:True,max_split_size_mb:512", "PYTORCH_CUDA_ALLOC_CONF"),
        ("SIGTERM,SIGINT,SIGHUP,SIGQUIT", "TORCHELASTIC_SIGNALS_TO_HANDLE"),
        ("pytorch-task-llama-finetune-master-0", "MASTER_ADDR"),
        ("/mnt/disk-nvme-scratch-shared/tmp", "TMPDIR"),
        ("/opt/tokenizers:/usr/local/cuda/lib64:/opt/nccl/lib", "LD_LIBRARY_PATH"),
        ("/home/me/tokenizer:/home/me/src", "PYTHONPATH"),
        ("/srv/pypi-mirror-internal-cache", "TMPDIR"),
        ("89ab1d54-3f66-4a12-9d54-0f9bd1f7a1aa", "TORCHELASTIC_RUN_ID"),
    ],
)
def test_good_settings_stay(text: str, name: str) -> None:
    assert mask(text, name=name) == text


def test_command_lines() -> None:
    line = ["python", "train.py", "--api-key", "hunter2", "--token=hunter2", "--lr", "3", "--password"]
    assert mask_arguments(line) == (
        "python",
        "train.py",
        "--api-key",
        MASK,
        f"--token={MASK}",
        "--lr",
        "3",
        "--password",
    )


@given(
    st.text(string.ascii_letters + string.digits, min_size=8, max_size=30),
    st.sampled_from(["_TOKEN", "_SECRET", "_API_KEY", "_PASSWORD"]),
)
def test_what_a_name_says_is_secret_never_gets_through(secret: str, ending: str) -> None:
    assert secret not in collect_variables({f"NCCL_MY{ending}": secret}).values()
    assert all(secret not in part for part in mask_arguments(["x", "--my" + ending.lower().replace("_", "-"), secret]))


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_no_environment_breaks_collecting(environ: dict[str, str]) -> None:
    for value in collect_variables(environ).values():
        value.encode("utf-8")
        assert len(value) <= LONGEST_VALUE * 8


def test_only_what_bears_on_training_is_kept() -> None:
    kept = collect_variables(
        {"RANK": "0", "NCCL_DEBUG": "INFO", "EDITOR": "vi", "AWS_PROFILE": "x", "NCCL_LONG": "x" * 10**6}
    )
    assert set(kept) == {"RANK", "NCCL_DEBUG", "NCCL_LONG"}
    assert len(kept["NCCL_LONG"]) == LONGEST_VALUE + 1


def test_forms_are_masked_wherever_they_stand_and_names_alone_hide_nothing() -> None:
    token = "hf_" + "aB3" * 8
    assert mask_forms(f"the backend {token} of https://me:pw@host/x") == f"the backend {MASK} of https://{MASK}@host/x"
    assert mask_forms("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800, MAX_TOKEN=8") == (
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800, MAX_TOKEN=8"
    )
