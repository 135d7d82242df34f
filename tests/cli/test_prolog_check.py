"""``distcheck env --profile prolog``: the one door that fails open, whatever happens to it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from distcheck import rules
from distcheck.cli import prolog_guard, prolog_words
from distcheck.cli.prolog_check import DRAINING, RULES, WARNING_ONLY, examine_node, verdict
from distcheck.core.model import Fix, NotChecked, Report, Severity
from tests import warm
from tests.test_hosts import cases, facts_of, world_of

ROOT = Path(__file__).parent.parent.parent
#: Seconds after which a run has waited for something that never comes; a busy machine takes long to start a Python.
FOR_EVER = 15
#: What is said where the child does not answer.
NO_ANSWER = "no answer in time: this node is very busy, or a driver or a file system hangs"
#: Rules that look at the disks of the machine that runs the tests.
DISKS = "DC320,DC327,DC414,DC416"
#: A machine with eight good GPUs, as far as the driver is asked; its processes are none of ours.
GPUS = """
import distcheck.core.world
from tests.fake_nvml import FakeCard, FakeNvml
cards = [FakeCard(uuid=f"GPU-{n}", pci=f"00000000:{n + 16:02X}:00.0") for n in range(8)]
distcheck.core.world.World.nvml = lambda self: FakeNvml(cards)
"""
LOST = GPUS + "cards[3] = cards[3]._replace(remapped=(0, 1, 1, 0))\n"
#: A driver that never answers. Who hangs in it writes its number into a file first.
HANGS = """
import distcheck.core.world, os, time
def nvml(self):
    with open({marker!r}, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)
distcheck.core.world.World.nvml = nvml
"""


def program(before: str, *words: str) -> list[str]:
    """A command line that runs distcheck with nothing of the environment, after ``before``."""
    start = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{before}\nsys.argv = ['distcheck', *{list(words)!r}]\n"
    return [sys.executable, "-c", start + "from distcheck.cli.fast_path import main\nmain()\n"]


def run(
    *words: str, before: str = GPUS, cwd: Path | str = "/", imported: bool = True, **more: Any
) -> subprocess.CompletedProcess[str]:
    """A run in an empty environment; every run keeps what is promised of all.

    ``imported`` is False where ``before`` changes what an import of distcheck does.
    """
    command = ("env", "--profile", "prolog", *words)
    if imported and more.keys() <= {"env"}:
        result = warm.run(command, environ=more.get("env", {}), cwd=cwd, before=before)
    else:
        options = {"env": {}, "cwd": cwd, "capture_output": True, "text": True, "timeout": 60, **more}
        result = subprocess.run(program(before, *command), check=False, **options)
    keeps_its_promises(result)
    return result


def keeps_its_promises(result: subprocess.CompletedProcess[str]) -> None:
    """One line on standard error that fits, nothing on standard output, 1 only with FAILED."""
    assert not result.stdout
    assert result.returncode in (0, 1), result.stderr
    if result.stderr is not None:
        assert re.fullmatch(r"distcheck prolog: (ok|warning|FAILED|NOT CHECKED): [ -~]+\n", result.stderr)
        assert len(result.stderr) <= prolog_words.LONGEST_LINE + 1
        assert (result.returncode == 1) == result.stderr.startswith("distcheck prolog: FAILED: DC")


# what it says of a node


def test_a_good_node() -> None:
    result = run("--ignore", DISKS)
    assert result.returncode == 0
    assert re.fullmatch(
        r"distcheck prolog: ok: 8 GPUs, 5 rules, \d\.\d s; ignored: DC320 DC327 DC414 DC416\n", result.stderr
    )


def test_a_broken_gpu_takes_the_node_out_of_service() -> None:
    result = run("--ignore", DISKS, before=LOST)
    assert result.returncode == 1
    assert result.stderr.startswith(
        "distcheck prolog: FAILED: DC309 GPU 3 (NVIDIA H100 80GB HBM3, 0000:13:00.0) reports"
    )


def test_a_rule_that_is_ignored_takes_no_node_out_of_service() -> None:
    assert run("--ignore", f"{DISKS},DC309", before=LOST).returncode == 0
    assert run("--ignore", f"{DISKS},gpu-hardware-error", before=LOST).returncode == 0
    assert run("--ignore", "DC3", before=LOST).returncode == 0


def test_what_is_slow_is_said_only() -> None:
    hot = GPUS + "cards[5] = cards[5]._replace(clock_reasons=0x40, temperature=96)\n"
    result = run("--ignore", DISKS, before=hot)
    assert result.returncode == 0
    assert result.stderr.startswith("distcheck prolog: warning: DC310 GPU 5 is slowed down at 96 C by")


def test_without_a_driver_nothing_is_said_to_be_fine() -> None:
    result = run("--ignore", DISKS, before=NO_DRIVER)
    assert result.returncode == 0
    assert "NOT CHECKED: NVML: Driver Not Loaded (DC309 DC312 DC313" in result.stderr


NO_DRIVER = (
    "import distcheck.core.world\nfrom distcheck.core.model import Unavailable\n"
    "def nvml(self): raise Unavailable('NVML: Driver Not Loaded')\n"
    "distcheck.core.world.World.nvml = nvml\n"
)


UNDRIVEN = "distcheck prolog: FAILED: DC309 not checked: NVML: Driver Not Loaded"


def test_a_site_can_drain_a_node_that_lost_its_driver() -> None:
    result = run("--ignore", DISKS, "--must-check", "DC309", before=NO_DRIVER)
    assert result.returncode == 1
    assert result.stderr == f"{UNDRIVEN}\n"
    named = run("--ignore", DISKS, "--must-check=gpu-hardware-error", before=NO_DRIVER)
    assert (named.returncode, named.stderr) == (result.returncode, result.stderr)
    empty = run("--ignore", DISKS, "--must-check", "DC309", before=GPUS + "cards.clear()\n")
    assert empty.returncode == 1
    assert "DC309 not checked: the driver is loaded and finds no GPU" in empty.stderr


def test_what_must_be_checked_and_was_drains_nothing() -> None:
    assert run("--ignore", DISKS, "--must-check", "DC309").returncode == 0
    # what the site ignores is not required
    assert run("--ignore", f"{DISKS},DC309", "--must-check", "DC309", before=NO_DRIVER).returncode == 0
    for wrong in ("DC401", "nothing"):
        result = run("--ignore", DISKS, "--must-check", wrong, before=NO_DRIVER)
        assert result.returncode == 0
        assert "NOT CHECKED" in result.stderr


def test_a_driver_without_gpus_is_not_fine() -> None:
    result = run("--ignore", DISKS, before=GPUS + "cards.clear()\n")
    assert result.returncode == 0
    assert result.stderr == "distcheck prolog: NOT CHECKED: the driver is loaded and finds no GPU\n"


#: The recorded launches whose machine has a fault that every job dies of.
BROKEN = {
    "docker-default: the container has lost its GPUs": "DC314",
    "hgx-h100-infiniband: a GPU has fallen off the bus": "DC309",
    "hgx-h100-infiniband: a GPU waits for a reset after memory errors": "DC309",
    "hgx-h100-infiniband: NVSwitch's fabric manager has not finished": "DC312",
    "hgx-h100-infiniband: the driver was upgraded and not reloaded": "DC313",
}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the file trees of the recorded machines stand."""
    return tmp_path_factory.mktemp("hosts")


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(("host", "case"), cases())
def test_recorded_machines(host: str, case: Mapping[str, Any], trees: Path) -> None:
    """Whatever a user's launch on it is, only the node's own faults count."""
    name = f"{host}: {case['name']}"
    world = world_of(host, case, trees)
    world.environ = {}
    report = examine_node(world, facts=dict(facts_of(host, case)))
    status, line = verdict(report, RULES, 0.1)
    assert status == (name in BROKEN), line
    if name in BROKEN:
        assert line.startswith(f"FAILED: {BROKEN[name]} ")
    assert {finding.code for finding in report.findings} <= set(RULES)


def test_the_broken_machines_are_among_the_recorded_ones() -> None:
    names = {f"{host}: {case['name']}" for host, case in (parameters.values for parameters in cases())}
    assert set(BROKEN) <= names
    assert set(BROKEN.values()) == set(DRAINING)


@pytest.mark.parametrize("name", ["hgx-h100-infiniband", "a100-pcie", "efa-p4d", "rocm-mi300x"])
def test_healthy_machines_get_an_ok(name: str, trees: Path) -> None:
    world = world_of(name, {"name": "as it is"}, trees)
    world.environ = {}
    report = examine_node(world, facts=dict(facts_of(name, {})))
    status, line = verdict(report, RULES, 0.1)
    assert (status, line.partition(":")[0]) == (0, "ok"), line
    # before Hopper NVML does not tell the state of the fabric, and nobody may call that fine
    assert ("not checked: DC312" in line) == (name == "efa-p4d")


# the rules


def test_rules_that_drain_are_errors_and_the_others_never_do() -> None:
    known = rules.known()
    assert all(known[code].severity is Severity.ERROR for code in DRAINING)
    assert not set(DRAINING) & set(WARNING_ONLY)
    for code in RULES:
        finding = known[code].found("trouble", fix=Fix("fix it"), severity=known[code].severities[-1])
        worst = finding._replace(severity=Severity.ERROR)
        status, line = verdict(Report("env", findings=(worst,), checked=frozenset(RULES)), RULES, 0.1)
        assert status == (code in DRAINING)
        assert code in line
        mild = finding._replace(severity=Severity.WARNING)
        assert verdict(Report("env", findings=(mild,), checked=frozenset(RULES)), RULES, 0.1)[0] == 0


def test_what_drains_stands_before_what_is_worse_known_and_what_is_missing_is_named() -> None:
    known = rules.known()
    findings = tuple(known[code].found(f"trouble of {code}", fix=Fix("fix it")) for code in ("DC320", "DC310", "DC312"))
    report = Report(
        "env",
        findings=findings,
        checked=frozenset({"DC320", "DC310", "DC312"}),
        not_checked=(NotChecked("DC309, DC414", "why not"),),
    )
    codes = ("DC312", "DC309", "DC310", "DC320")
    assert verdict(report, codes, 0.1) == (1, "FAILED: DC312 trouble of DC312 (+2 more); 1 rule not checked")


def test_a_reason_stands_beside_its_own_rules_only() -> None:
    unseen = (NotChecked("DC309, DC310", "no driver"), NotChecked("DC320", "no /dev/shm"))
    codes = ("DC309", "DC310", "DC320", "DC327")
    report = Report("env", not_checked=unseen)
    assert verdict(report, codes, 0.1) == (0, "NOT CHECKED: no driver (DC309 DC310 and 2 more)")


def test_the_page_and_the_code_name_the_same_rules() -> None:
    page = (ROOT / "docs" / "scheduler.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[?(DC\d+)\b.*\| (1|0) \|$", page, re.MULTILINE))
    assert rows == {code: "1" if code in DRAINING else "0" for code in RULES}


@pytest.mark.slow
def test_the_page_shows_lines_that_were_printed(trees: Path) -> None:
    page = (ROOT / "docs" / "scheduler.md").read_text(encoding="utf-8")
    shown = {re.sub(r"\d\.\d s", "0.4 s", line) for line in re.findall(r"^distcheck prolog: .*$", page, re.MULTILINE)}
    printed = set()
    hosts = ("hgx-h100-infiniband", "infiniband-dead-port", "efa-p4d", "laptop-no-gpu")
    for host, case in (parameters.values for parameters in cases() if parameters.values[0] in hosts):
        world = world_of(host, case, trees)
        world.environ = {}
        line = verdict(examine_node(world, facts=dict(facts_of(host, case))), RULES, 0.4)[1]
        printed.add(prolog_words.one_line(prolog_words.NAME + line))
    # of these, other tests hold that they are printed
    printed |= {
        f"{prolog_words.NAME}{prolog_words.NOT_CHECKED}: {why}"
        for why in (_of_words("--foo"), _of_words("--profile=prologue"))
    }
    printed |= {f"{prolog_words.NAME}{prolog_words.NOT_CHECKED}: {why}" for why in (NO_ANSWER, "ended by SIGTERM")}
    printed.add(UNDRIVEN)
    assert len(shown) > 8
    assert shown <= printed


def _of_words(*words: str) -> str:
    """What is said of a command line that is not understood."""
    with pytest.raises(prolog_guard.Misused) as misused:
        prolog_guard.read(["env", "--profile", "prolog", *words])
    return str(misused.value)


# the line


@given(some.text(max_size=400))
def test_any_text_becomes_one_line_that_fits(text: str) -> None:
    line = prolog_words.one_line(text)
    assert len(line) <= prolog_words.LONGEST_LINE
    assert all(" " <= char <= "~" for char in line)


@given(some.text(min_size=1, max_size=400).filter(str.strip), some.integers(1, 4))
@example("0" * 74 + "\x1b" + "0" * 32, 2)  # four characters on the line
def test_the_code_and_the_count_survive_a_long_message(message: str, count: int) -> None:
    finding = rules.DC309.found(message, fix=Fix("fix it"))
    report = Report("env", findings=(finding,) * count, checked=frozenset(RULES))
    status, line = verdict(report, RULES, 0.1)
    shown = prolog_words.one_line(prolog_words.NAME + line)
    assert status == 1
    assert shown.startswith("distcheck prolog: FAILED: DC309 ")
    assert count == 1 or f"(+{count - 1} more)" in shown


def test_an_odd_device_breaks_no_line() -> None:
    odd = LOST.replace("remapped=", "name='evil\\nexport LD_PRELOAD=x\\x1b[2J\\u2028', remapped=")
    result = run("--ignore", DISKS, before=odd)
    assert result.returncode == 1
    assert r"\x1b[2J" in result.stderr


# where it runs


def test_with_closed_streams_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    for redirections in ("<&- >&- 2>&-", "<&- >&-"):
        gone = tmp_path / "gone"
        gone.mkdir()
        words = program(LOST, "env", "--profile", "prolog", "--ignore", DISKS)
        script = f'rmdir "$PWD"; exec "$@" {redirections}'
        result = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *words], env={}, cwd=gone, capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 1, (redirections, result.stderr)
        assert result.stdout == ""
        assert not gone.exists()


def test_with_full_disks(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        result = run("--ignore", DISKS, before=LOST, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        assert result.returncode == 1
        assert run("--ignore", DISKS, before=LOST, capture_output=False, stdout=full, stderr=full).returncode == 1
        assert run("--ignore", DISKS, capture_output=False, stdout=full, stderr=full).returncode == 0


def test_in_a_root_without_devices() -> None:
    words = program(LOST + "import os\nos.devnull = '/nowhere/null'\n", "env", "--profile", "prolog", "--ignore", DISKS)
    for redirections in ("", "<&- >&- 2>&-"):
        result = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", *words],
            env={},
            cwd="/",
            timeout=60,
            capture_output=True,
        )
        assert result.returncode == 1, result.stderr


def test_it_writes_nothing_where_it_is_started(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    folder.chmod(0o555)
    assert run("--ignore", DISKS, cwd=folder).returncode == 0
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_reader_of_standard_error_that_never_reads() -> None:
    read_end, write_end = os.pipe()
    try:
        os.set_blocking(write_end, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(write_end, b"x" * 4096)
        os.set_blocking(write_end, True)
        start = time.monotonic()
        result = run("--ignore", DISKS, before=LOST, capture_output=False, stdout=subprocess.PIPE, stderr=write_end)
        assert result.returncode == 1
        assert time.monotonic() - start < FOR_EVER
    finally:
        os.close(read_end)
        os.close(write_end)


def test_variables_of_a_user_count_for_nothing() -> None:
    environ = {
        "DISTCHECK_ENV_IGNORE": "ALL",
        "DISTCHECK_ENV_EXIT_ZERO": "1",
        "DISTCHECK_ENV_SELECT": "DC110",
        "CUDA_VISIBLE_DEVICES": "0",
        "RANK": "zero",
        "NCCL_IB_HCA": "nothing",
        "SLURM_JOB_ID": "7",
    }
    assert run("--ignore", DISKS, before=LOST, env=environ).returncode == 1
    assert run("--ignore", DISKS, env=environ).stderr.startswith("distcheck prolog: ok: 8 GPUs")


def test_the_profile_may_come_from_its_variable() -> None:
    words = program(LOST, "env", "--ignore", DISKS)
    result = subprocess.run(
        words, env={"DISTCHECK_ENV_PROFILE": "prolog"}, cwd="/", capture_output=True, text=True, timeout=60
    )
    keeps_its_promises(result)
    assert result.returncode == 1


def test_it_is_the_same_through_the_parser_of_options() -> None:
    words = program(LOST, "env", "--profile", "prolog", "--ignore", DISKS)
    words[2] = words[2].replace("distcheck.cli.fast_path", "distcheck.cli.main")
    result = subprocess.run(words, env={}, cwd="/", capture_output=True, text=True, timeout=60)
    keeps_its_promises(result)
    assert result.returncode == 1


# configuration


def configured(text: str | None, folder: Path) -> str:
    """What makes this text the site's file."""
    path = folder / "distcheck.toml"
    if text is None:
        path.mkdir()  # something is there, and it can't be read
    else:
        path.write_text(text, encoding="utf-8")
    return f"import distcheck.core.configuration\ndistcheck.core.configuration.SITE_FILE = {str(path)!r}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ignore = [", "it is not valid TOML"),
        ("ignored = ['DC309']", "no setting is called 'ignored'"),
        (None, "it can't be read"),
    ],
)
def test_a_site_file_that_is_wrong(text: str | None, says: str, tmp_path: Path) -> None:
    result = run(before=LOST + configured(text, tmp_path), imported=False)
    assert result.returncode == 0
    assert "NOT CHECKED" in result.stderr
    # a long path leaves little room on the line
    assert says[:9] in result.stderr or result.stderr.endswith("...\n")


def test_the_site_may_silence_rules_and_name_those_of_plug_ins(tmp_path: Path) -> None:
    site = configured(f"ignore = {json.dumps([*DISKS.split(','), 'DC309', 'XY100'])}\nfail-on = 'never'", tmp_path)
    result = run(before=LOST + site, imported=False)
    assert result.returncode == 0
    assert result.stderr.startswith("distcheck prolog: ok: ")
    site = configured(f"ignore = {json.dumps(DISKS.split(','))}\nfail-on = 'never'", tmp_path)
    assert run(before=LOST + site, imported=False).returncode == 1, (
        "which findings drain is not the configuration's to say"
    )
    assert run("--isolated", before=LOST + configured("ignore = [", tmp_path), imported=False).returncode == 1


def test_a_projects_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.distcheck]\nignore = ['ALL']\n", encoding="utf-8")
    assert run("--ignore", DISKS, before=LOST, cwd=tmp_path).returncode == 1
    named = tmp_path / "prolog.toml"
    named.write_text("ignore = ['DC309']\n", encoding="utf-8")
    result = run("--ignore", DISKS, "--config", "prolog.toml", before=LOST, cwd=tmp_path)
    assert result.returncode == 0
    assert "ignored: DC309" in result.stderr


# used wrongly


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--foo"], "'--foo' is no option; expected --ignore, --must-check, --timeout, --config or --isolated"),
        (["--ignore", "DC3O9"], "DC3O9"),
        (["--ignore", "ALL"], "every rule of this profile is ignored"),
        (["--config", "/nowhere.toml"], "/nowhere.toml: it can't be read"),
    ],
)
def test_used_wrongly(words: list[str], says: str) -> None:
    result = run(*words, before=LOST)
    assert result.returncode == 0
    assert says in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--", "torchrun", "train.py"], "'--' is no option"),
        (["--output-format", "json"], "'--output-format' is no option"),
        (["-v"], "'-v' is no option"),
        (["--help"], "'--help' is no option"),
        (["--isolated=no"], "'--isolated=no' is no option"),
        (["--ignore"], "--ignore needs a value"),
        (["--timeout", "soon"], "expected seconds, at most 5"),
        (["--timeout", "-1"], "expected more than 0 seconds"),
        (["--timeout=nan"], "expected more than 0 seconds"),
        (["--profile", "prologue"], "there is no profile 'prologue'; expected prolog"),
    ],
)
def test_words_that_are_not_understood(words: list[str], says: str) -> None:
    with pytest.raises(prolog_guard.Misused, match=re.escape(says)):
        prolog_guard.read(["env", "--profile", "prolog", *words])


def test_words_before_the_command_are_read_as_well() -> None:
    with pytest.raises(prolog_guard.Misused, match="'--foo' is no option"):
        prolog_guard.read(["--foo", "env", "--profile", "prolog"])


def test_words_that_are_understood() -> None:
    words = ["env", "--profile", "prolog", "--ignore", "DC3", "--ignore=DC4,DC5", "--timeout", "9", "--isolated"]
    assert prolog_guard.read(words) == prolog_words.PrologOptions(("DC3", "DC4,DC5"), prolog_guard.LIMIT_S, None, True)
    assert prolog_guard.read(["env", "--timeout=0.5", "--config", "a.toml"]) == prolog_words.PrologOptions(
        (), 0.5, "a.toml", False
    )


def test_only_a_prologue_comes_this_way() -> None:
    asked = prolog_guard.is_prolog
    assert asked(["env", "--profile", "prolog"], {})
    assert asked(["--foo", "env", "-x", "--profile=Prologue"], {})
    assert asked(["env"], {"DISTCHECK_ENV_PROFILE": "prolog"})
    assert not asked(["env", "--profile", "ci"], {"DISTCHECK_ENV_PROFILE": "prolog"})
    assert not asked(["env", "--", "torchrun", "--profile", "prolog"], {})
    assert not asked(["lint", "--profile", "prolog"], {})
    assert not asked(["env"], {})
    result = subprocess.run(program("", "env", "--profile", "ci"), env={}, cwd="/", capture_output=True, timeout=60)
    assert result.returncode == 2, "what is no prologue does not fail open"


# what does not import, and what crashes


def test_what_is_installed_may_be_broken() -> None:
    broken = "".join(
        f"sys.modules[{name!r}] = None\n"
        for name in ("click", "netifaces", "psutil", "yaml", "re2", "tree_sitter", "tabulate", "pathspec")
    )
    assert run("--ignore", DISKS, before=LOST + broken, imported=False).returncode == 1


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("sys.modules['distcheck.core.checker'] = None", "a library is missing or broken"),
        ("sys.modules['distcheck.cli.prolog_guard'] = None", "the installation is broken"),
        (
            "import distcheck.core.checker as c\ndef run(*a, **b): raise SystemExit(3)\nc.Plan.run = run",
            "failed: SystemExit: 3",
        ),
        ("import distcheck.core.checker as c\ndef run(*a, **b): raise MemoryError\nc.Plan.run = run", "MemoryError"),
        (
            "import distcheck.cli.prolog_check as c, os\ndef check_node(*a): os.abort()\nc.check_node = check_node",
            "ended by signal 6",
        ),
        (
            "import distcheck.cli.prolog_check as c, os\ndef check_node(*a): os._exit(1)\nc.check_node = check_node",
            "distcheck was ended",
        ),
        (
            "import distcheck.cli.prolog_check as c\nc.check_node = lambda *a: print('export X=1') or (0, 'ok: 1')",
            "ok: 1",
        ),
        ("import os\ndef fork(): raise BlockingIOError(11, 'no more processes')\nos.fork = fork", "no more processes"),
        ("import os\ndel os.fork", "has no fork"),
    ],
)
def test_a_crash_is_no_fault_of_the_node(before: str, says: str) -> None:
    result = run(before=LOST + before, imported="sys.modules" not in before)
    assert result.returncode == 0
    assert says in result.stderr


def test_a_driver_that_crashes_costs_its_own_rules_only() -> None:
    before = "import distcheck.core.world, os\ndistcheck.core.world.World.nvml = lambda self: os.abort()\n"
    result = run("--ignore", DISKS, before=before)
    assert result.returncode == 0
    assert "ended by signal 6 (DC309" in result.stderr


def test_no_plug_in_has_a_say(tmp_path: Path) -> None:
    info = tmp_path / "site_plug-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[distcheck.plugins]\nsite = site_plug\n", encoding="utf-8")
    (info / "METADATA").write_text("Name: site-plug\nVersion: 1.0\n", encoding="utf-8")
    marker = tmp_path / "imported"
    (tmp_path / "site_plug.py").write_text(f"open({str(marker)!r}, 'w').close()\n", encoding="utf-8")
    here = f"sys.path.insert(0, {str(tmp_path)!r})\n"
    assert run("--ignore", DISKS, before=GPUS + here).returncode == 0
    assert not marker.exists()
    subprocess.run(program(here, "env"), env={}, cwd="/", capture_output=True, timeout=60, check=True)
    assert marker.exists(), "a plug-in that nobody imports proves nothing"


# time


def gone(pid: int) -> bool:
    """Whether a process ends within two seconds."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
def test_a_driver_that_hangs(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    start = time.monotonic()
    result = run("--timeout", "3", "--ignore", DISKS, imported=False, before=HANGS.format(marker=str(marker)))
    assert time.monotonic() - start < FOR_EVER
    assert result.returncode == 0
    assert "NOT CHECKED: the time limit of the whole run was over before host.gpus.read_gpus" in result.stderr
    assert gone(int(marker.read_text()))


@pytest.mark.slow
def test_a_driver_that_hangs_hides_nothing_else(tmp_path: Path) -> None:
    full = "distcheck.core.world.World.space = lambda self, path: distcheck.core.world.Space(1 << 40, 1 << 20)\n"
    hangs = HANGS.format(marker=str(tmp_path / "pid"))
    result = run("--timeout", "3", imported=False, before=hangs + full)
    assert "warning: DC327 /tmp (TMPDIR) has only 1 MiB free" in result.stderr
    assert result.stderr.endswith("; 5 rules not checked\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "hangs",
    [
        # in Python, where a signal would help
        "import distcheck.core.checker as c, time\ndef run(*a, **b): time.sleep(60)\nc.Plan.run = run\n",
        # where no signal helps and no other thread runs
        "import distcheck.core.checker as c, signal\ndef run(*a, **b):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n    while True: pass\nc.Plan.run = run\n",
        # in a process that can't be killed, as one that hangs in the kernel
        "import distcheck.core.checker as c, os, signal, time\ndef run(*a, **b):\n    os.setsid() if os.getpgid(0) != os.getpid() else None\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n    time.sleep(16)\nc.Plan.run = run\nos.killpg = lambda *a: None\n",
        # while it is imported
        "import time\nclass Slow:\n    def find_spec(self, name, *a):\n        if name == 'distcheck.core.checker': time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n",
    ],
)
def test_whatever_hangs_is_left(hangs: str) -> None:
    start = time.monotonic()
    result = run("--timeout", "3", imported=False, before=GPUS + hangs)
    # standard error is at its end as well: nobody holds it open
    assert time.monotonic() - start < FOR_EVER
    assert result.returncode == 0
    assert NO_ANSWER in result.stderr


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A file that nobody can write to, and whoever tries hangs in the kernel, where no signal ends him."""
    if any(shutil.which(tool) is None for tool in ("mkfs.ext4", "mount", "umount", "fsfreeze")):
        pytest.skip("needs mkfs.ext4, mount and fsfreeze")
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True, timeout=60)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(folder)], capture_output=True, text=True, timeout=60
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    path = folder / "file"
    path.touch()
    subprocess.run(["fsfreeze", "-f", str(folder)], check=True, timeout=60)
    try:
        yield path
    finally:
        subprocess.run(["fsfreeze", "-u", str(folder)], check=True, timeout=60)
        for _ in range(50):  # those who hung are dead as soon as they can be
            if subprocess.run(["umount", str(folder)], capture_output=True, timeout=60).returncode == 0:
                break
            time.sleep(0.1)


@pytest.mark.root
@pytest.mark.slow
def test_who_hangs_in_the_kernel_is_left(frozen: Path) -> None:
    write = f"open({str(frozen)!r}, 'w').write('x')"
    reader = f"import distcheck.core.world\ndistcheck.core.world.World.nvml = lambda self: {write}\n"
    judge = f"import distcheck.core.checker as c\nc.Plan.run = lambda *a, **b: {write}\n"
    for before, says in ((reader, "NOT CHECKED: the time limit of the whole run was over"), (judge, NO_ANSWER)):
        start = time.monotonic()
        result = run("--ignore", DISKS, imported=False, before=before)
        assert time.monotonic() - start < FOR_EVER
        assert result.returncode == 0
        assert says in result.stderr
    states = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if str(frozen) in (process / "cmdline").read_text(errors="replace"):
                states.append((process / "stat").read_text().rpartition(")")[2].split()[0])
    assert states.count("D") == 2, "nobody hung, so that nothing was proved"


@pytest.mark.slow
def test_five_seconds_in_all(tmp_path: Path) -> None:
    hangs = HANGS.format(marker=str(tmp_path / "pid"))
    commands = [program(hangs, "env", "--profile", "prolog") for _ in range(3)]
    # what Python itself takes to start counts
    for command, seconds in zip(commands, (0, 2, 4.5), strict=True):
        command[2] = f"import time; time.sleep({seconds})\n{command[2]}"
    start = time.monotonic()
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={}, cwd="/")
        for command in commands
    ]
    said = []
    for process in runs:
        out, error = process.communicate(timeout=30)
        # a second for a busy machine; the last one is late before it begins
        assert time.monotonic() - start < prolog_guard.LIMIT_S + 1 or process is runs[-1]
        keeps_its_promises(subprocess.CompletedProcess(process.args, process.returncode, out, error))
        assert process.returncode == 0
        said.append(error)
    assert "read_gpus" in said[0]
    assert "read_gpus" in said[1] or NO_ANSWER in said[1]
    assert "NOT CHECKED: Python took 4." in said[2] or "NOT CHECKED: Python took 5." in said[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.slow
def test_a_signal_ends_it_openly(number: signal.Signals, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    # what a shell starts in the background ignores SIGINT and SIGQUIT, and so does all that it starts
    default = f"import signal\nsignal.signal({int(number)}, signal.SIG_DFL)\n"
    words = program(default + HANGS.format(marker=str(marker)), "env", "--profile", "prolog")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={}, cwd="/")
    while not (marker.exists() and marker.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    start = time.monotonic()
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    assert time.monotonic() - start < FOR_EVER
    assert (out, process.returncode) == ("", 0)
    assert error == f"distcheck prolog: NOT CHECKED: ended by {number.name}\n"
    assert gone(int(marker.read_text()))


def test_an_ignored_hangup_stays_ignored() -> None:
    wait = "import distcheck.core.checker as c, os, time, signal\nold = c.Plan.run\ndef run(*a, **b):\n"
    wait += "    os.kill(os.getppid(), signal.SIGHUP)\n    time.sleep(0.3)\n    return old(*a, **b)\nc.Plan.run = run\n"
    wait += "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    result = run("--ignore", DISKS, imported=False, before=GPUS + wait)
    assert result.stderr.startswith("distcheck prolog: ok: 8 GPUs")


def test_the_age_of_a_process_is_about_right() -> None:
    script = "import sys, time; sys.path.insert(0, sys.argv[1]); time.sleep(0.5); from distcheck.cli import prolog_guard as prolog; "
    result = subprocess.run(
        [sys.executable, "-c", script + "print(prolog.process_age_s())", str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert 0.5 <= float(result.stdout) < 5
