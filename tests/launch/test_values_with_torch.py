"""Our parsers against torch itself: what they say of a text is what torch does with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from distcheck.core.variable_table import VariableTable
from distcheck.launch.values import TORCH_LOG_NAMES, read_value

pytestmark = pytest.mark.torch

TABLE = VariableTable()
WORDS = [
    "",
    "1",
    "0",
    "-1",
    "8",
    "a",
    "gpu",
    "foo",
    "detail",
    "OFF",
    "DEBUG",
    "debug",
    "True",
    "1:2",
    "2:1",
    " 3 ",
    "1_0",
]
TEXTS = st.sampled_from(WORDS) | st.text("abzAZ019_:.,=+- \t[]", max_size=12)
#: One rank of gloo on this machine: what it prints, it has survived.
ONE_RANK = """
import os, torch, torch.distributed as dist
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", GLOO_SOCKET_IFNAME="lo")
os.environ.update(GIVEN)
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("survived", flush=True)
dist.destroy_process_group()
"""


def crashes(name: str, text: str) -> bool:
    variable = TABLE.lookup(name)
    assert variable is not None
    return read_value(variable, text).consequence == "crash"


def raises(function: Callable[[], Any]) -> bool:
    try:
        function()
    except (ValueError, AssertionError, RuntimeError, ImportError):
        return True
    return False


def test_the_names_of_logs_are_those_of_torch() -> None:
    from torch._logging._internal import log_registry

    registered = set(log_registry.log_alias_to_log_qnames) | log_registry.artifact_names
    # logs that were named by their module, by other tests, carry a dot
    assert {name for name in registered if "." not in name} | {"all"} == TORCH_LOG_NAMES


LOGS = r"""c10d|+c10d,-ddp|+dynamo, aot|all|torch.hub|DYNAMO|++c10d|dynamo,| dynamo|dynamo |foo|1|DEBUG|dist_c10d
"c10d"|help|c10d;ddp|+|,|c10d,,ddp"""


@pytest.mark.parametrize("text", LOGS.replace("\n", "|").split("|"))
def test_logs(text: str) -> None:
    from torch._logging._internal import _parse_log_settings

    assert crashes("TORCH_LOGS", text) == raises(lambda: _parse_log_settings(text))


@pytest.mark.parametrize("text", ["OFF", "info", "Detail", "1", "", "TRUE", " OFF", "DETAIL "])
def test_debug_levels(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", text)
    before = dist.get_debug_level()
    try:
        assert crashes("TORCH_DISTRIBUTED_DEBUG", text) == raises(dist.set_debug_level_from_env)
    finally:
        dist.set_debug_level(before)


@pytest.mark.parametrize("text", ["DEBUG", "WARN", "FATAL", "NOTSET", "debug", "10", "", "TRACE", "INFO "])
def test_the_launchers_log_level(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.elastic.utils.logging import get_logger

    monkeypatch.setenv("LOGLEVEL", text)
    assert crashes("LOGLEVEL", text) == raises(lambda: get_logger("distcheck.test"))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=TEXTS)
@example(text="http://host:29400")
@example(text="[fe80::1]:29400")
@example(text="host:99999")
@example(text="host:")
def test_rendezvous_endpoints(text: str) -> None:
    from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

    assert crashes("PET_RDZV_ENDPOINT", text) == raises(lambda: parse_rendezvous_endpoint(text, 29400))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=TEXTS)
@example(text="join_timeout=60,read_timeout=10")
@example(text="a=b,")
def test_rendezvous_options(text: str) -> None:
    from torch.distributed.elastic.rendezvous.utils import _parse_rendezvous_config

    assert crashes("PET_RDZV_CONF", text) == raises(lambda: _parse_rendezvous_config(text))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=TEXTS)
def test_numbers_of_nodes(text: str) -> None:
    from torch.distributed.run import parse_min_max_nnodes

    def as_torchrun_does() -> None:
        least, most = parse_min_max_nnodes(text)
        assert 0 < least <= most

    assert crashes("PET_NNODES", text) == raises(as_torchrun_does)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=TEXTS.filter(lambda text: text not in ("gpu", "xpu")))
def test_numbers_of_processes(text: str) -> None:
    from torch.distributed.run import determine_local_world_size

    def as_torchrun_does() -> None:
        assert determine_local_world_size(text) > 0

    assert crashes("PET_NPROC_PER_NODE", text) == raises(as_torchrun_does)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TORCH_FR_BUFFER_SIZE", "abc"),
        ("TORCH_FR_BUFFER_SIZE", "5k"),
        ("TORCH_GLOO_LAZY_INIT", "on"),
        ("GLOO_DEVICE_TRANSPORT", "tcp"),
        ("GLOO_SOCKET_IFNAME", ",lo"),
        ("GLOO_SOCKET_IFNAME", "lo,"),
        ("TORCH_DIST_INIT_BARRIER", "true"),
        ("USE_LIBUV", "true"),
    ],
)
@pytest.mark.sampled(every=4)
def test_the_start_of_a_process_group(name: str, text: str) -> None:
    program = ONE_RANK.replace("GIVEN", repr({name: text}))
    expected = crashes(name, text)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=15 if expected else 120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        # the flight recorder's bad values abort the process or hang it, by chance
        assert expected
    else:
        assert expected == ("survived" not in done.stdout), done.stderr[-400:]


@pytest.mark.parametrize(
    ("name", "text"), [("TORCH_LOGS", ""), ("TORCH_DISTRIBUTED_DEBUG", "1"), ("TORCH_LOGS", "ddp")]
)
@pytest.mark.sampled(every=4)
def test_the_import(name: str, text: str) -> None:
    environ = {**os.environ, name: text}
    done = subprocess.run(
        [sys.executable, "-c", "import torch"], capture_output=True, text=True, timeout=120, env=environ, check=False
    )
    assert crashes(name, text) == (done.returncode != 0), done.stderr[-400:]
