"""The catalogue of variables: its data, looking names up, guessing what was meant, what may be collected."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.variable_table import OWNED_PREFIXES, PLUGIN_PREFIXES, VariableTable, edit_distance
from distcheck.launch.values import KINDS

ROOT = Path(__file__).parents[2]
TABLE = VariableTable()
FACTS = {entry["name"]: entry for entry in json.loads((ROOT / "tools" / "envvars.json").read_text())}
EXISTING = sorted(name for name, entry in FACTS.items() if entry["exists"])
SLIPS = sorted(name for name, entry in FACTS.items() if not entry["exists"])

#: Names with letters of their own that no test invents twice.
NAMES = st.text(alphabet="ABCDEFGHIKLMNOPRSTUVXY_0123456789", min_size=0, max_size=24)


def make_variables(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_variables.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_shipped_table_is_current() -> None:
    assert make_variables("--check").returncode == 0, "run tools/make_variables.py"


def test_an_outdated_table_is_noticed(tmp_path: Path) -> None:
    facts = [entry for entry in FACTS.values() if entry["name"] != "NCCL_NTHREADS"]
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    outcome = make_variables(str(tmp_path / "facts.json"), "--check")
    assert (outcome.returncode, "not current" in outcome.stdout) == (1, True)


def test_the_table_is_made_again_byte_by_byte(tmp_path: Path) -> None:
    facts = list(FACTS.values())
    (tmp_path / "facts.json").write_text(json.dumps(facts[::-1]))
    made = make_variables(str(tmp_path / "facts.json"), "-o", str(tmp_path / "made.jsonl"))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "made.jsonl").read_bytes() == (ROOT / "distcheck/core/variables.jsonl").read_bytes()


@pytest.mark.parametrize("name", EXISTING)
def test_an_existing_name_is_known_and_never_a_slip(name: str) -> None:
    variable = TABLE.lookup(name)
    assert variable is not None
    assert (variable.name, variable.exists, variable.suggest) == (name, True, None)
    assert TABLE.nearest(name) is None
    assert TABLE.bears_on_training(name)


@pytest.mark.parametrize("name", SLIPS)
def test_a_name_that_nothing_reads_is_listed_with_what_was_meant(name: str) -> None:
    variable = TABLE.lookup(name)
    assert variable is not None
    assert not variable.exists
    assert variable.suggest == FACTS[name].get("suggest")
    if variable.suggest is not None:
        meant = TABLE.lookup(variable.suggest)
        assert meant is not None
        assert meant.exists
    assert variable.meaning


def test_every_line_can_be_looked_up() -> None:
    assert TABLE.names() == frozenset(FACTS)
    for name in TABLE.names():
        variable = TABLE.lookup(name)
        assert variable is not None
        assert variable.parse is None or variable.parse in KINDS
        assert (variable.owner is None) == (not variable.exists)
        for low, high in variable.ranges:
            assert low is None or high is None or low <= high


def test_what_is_read_from_the_values() -> None:
    def known(name: str) -> tuple[tuple[tuple[int | None, int | None], ...], tuple[str, ...]]:
        variable = TABLE.lookup(name)
        assert variable is not None
        return variable.ranges, variable.words

    assert known("NCCL_IB_TIMEOUT") == (((0, 31),), ())
    assert known("NCCL_IB_TC") == (((0, 255), (-1, -1)), ())
    assert known("NCCL_IB_GID_INDEX") == (((-1, -1), (0, None)), ())
    assert known("NCCL_SOCKET_RETRY_CNT") == (((1, None),), ())
    assert known("NCCL_BUFFSIZE") == ((), ())
    assert known("TORCH_DISTRIBUTED_DEBUG") == ((), ("OFF", "INFO", "DETAIL"))
    assert known("NCCL_CFT_ENABLE") == ((), ()), "inferred values bind nobody"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_DISABLE_IB", "NCCL_IB_DISABLE"),
        ("NCCL_P2P_DISBALE", "NCCL_P2P_DISABLE"),
        ("NCCL_DEBG", "NCCL_DEBUG"),
        ("NCCL_BUFF_SIZE", "NCCL_BUFFSIZE"),
        ("NCCL_NAN_CHECK", "TORCH_NCCL_NAN_CHECK"),
        ("TORCH_NCCL_IB_DISABLE", "NCCL_IB_DISABLE"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLIN", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("TORCH_NCCL_ASYNC_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        ("GLOO_SOCKET_IFNAM", "GLOO_SOCKET_IFNAME"),
        ("TORCHELASTIC_MAX_RESTART", "TORCHELASTIC_MAX_RESTARTS"),
    ],
)
def test_bad_a_near_miss_is_guessed(written: str, meant: str) -> None:
    assert TABLE.nearest(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        # one word of a name, or two words less
        "TORCH_NCCL_DESYNC",
        "TORCH_NCCL_USE",
        "TORCH_NCCL_ERROR_HANDLING_OF_MINE",
        # a plug-in's or a tool's own
        "NCCL_FASTRAK_IFNAME",
        "NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
        "NCCL_IBEXT_DISABLE",
        "NCCL_TUNER_CONFIG_PATH",
        "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
        "NCCL_PROFILE_EVENT_MASK",
        "OFI_NCCL_PROTOCOLS",
        # a build's or a script's own
        "NCCL_LIB_DIRS",
        "NCCL_INCLUDE_DIRS",
        "NCCL_LIBRARY_PATH",
        "NCCL_ROOT_DIR",
        "NCCL_TESTS_DIR",
        "NCCL_TIMEOUT_SECOND",
        "NCCL_TIMEOUT_MINUTES",
        "NCCL_TEST",
        "NCCL_HOST",
        "NCCL_PORT",
        "NCCL_BACKEND",
        "GLOO_DIR",
        # a prefix that no library owns
        "MASTER_ADR",
        "WORLD_SIZES",
        "CUDA_VISIBLE_DEVICES_",
        "OMP_NUM_THREADZ",
        "NCCL",
        "NCCL_",
        "",
    ],
)
def test_good_no_guess(written: str) -> None:
    assert TABLE.nearest(written) is None


@given(prefix=st.sampled_from(OWNED_PREFIXES), rest=NAMES)
def test_a_guess_is_a_name_that_a_library_reads(prefix: str, rest: str) -> None:
    meant = TABLE.nearest(prefix + rest)
    if meant is not None:
        variable = TABLE.lookup(meant)
        assert variable is not None
        assert variable.exists


@given(prefix=st.sampled_from(PLUGIN_PREFIXES), rest=NAMES)
def test_a_plug_ins_name_is_no_slip(prefix: str, rest: str) -> None:
    assert TABLE.owned_prefix(prefix + rest) is None
    assert TABLE.nearest(prefix + rest) is None


@given(name=st.text(max_size=40))
@pytest.mark.slow
def test_no_text_whatever_raises(name: str) -> None:
    TABLE.lookup(name)
    TABLE.nearest(name)
    TABLE.bears_on_training(name)


def plain_distance(left: str, right: str) -> int:
    """Optimal string alignment, the textbook's way."""
    rows = [[i + j if i * j == 0 else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (left[i - 1] != right[j - 1]))
            if i > 1 and j > 1 and left[i - 1] == right[j - 2] and left[i - 2] == right[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(left=st.text("abc", max_size=9), right=st.text("abc", max_size=9), limit=st.integers(0, 4))
def test_the_bounded_distance_is_the_distance(left: str, right: str, limit: int) -> None:
    assert edit_distance(left, right, limit) == min(plain_distance(left, right), limit + 1)


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_ANYTHING",
        "OMPI_COMM_WORLD_RANK",
        "SLURM_PROCID",
        "SLURM_JOB_END_TIME",
        "PMI_RANK",
        "PMIX_RANK",
        "MV2_COMM_WORLD_RANK",
        "FI_PROVIDER",
        "UCX_TLS",
        "KUBERNETES_SERVICE_HOST",
        "MASTER_SERVICE_HOST",
        "RANK",
        "NNODES",
        "http_proxy",
        "LD_PRELOAD",
        "TMPDIR",
        "USE_LIBUV",
        "CUDA_LAUNCH_BLOCKING",
        "TORCHELASTIC_RUN_ID",
        "DS_ENV_FILE",
        "ACCELERATE_USE_FSDP",
    ],
)
def test_what_bears_on_training_is_collected(name: str) -> None:
    assert TABLE.bears_on_training(name)


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_JWT",
        "SLURM_JOB_USER",
        "SLURM_JOB_ACCOUNT",
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "WANDB_API_KEY",
        "HOME",
        "USER",
        "PATH",
        "SSH_AUTH_SOCK",
        "GITHUB_TOKEN",
        "rank",
        "",
    ],
)
def test_what_does_not_is_not(name: str) -> None:
    assert not TABLE.bears_on_training(name)


def test_the_table_loads_without_a_parser() -> None:
    """The door to the world needs the names only, at every start: no JSON, no regular expressions."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "from distcheck.core.variable_table import VariableTable\n"
        "VariableTable().bears_on_training('RANK')\n"
        "print(sorted({'json', 'difflib', 'dataclasses', 'importlib.metadata'} & (set(sys.modules) - before)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    assert answer.stdout.strip() == "[]"
