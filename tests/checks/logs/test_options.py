"""Values, options and arguments that nobody could use, as probes judge them from a timeline."""

from __future__ import annotations

import pytest

from distcheck.checks.logs.options import (
    ROWS,
    launcher_got_its_options,
    rendezvous_values_were_readable,
    script_took_the_local_rank,
)

from .made import SITE, code, found_by, said, timeline

_NUMBER = "ValueError: invalid literal for int() with base 10: '{}'"
_RENDEZVOUS = f"{SITE}/torch/distributed/rendezvous.py"


def test_a_service_of_kubernetes_is_known_without_a_traceback() -> None:
    ((rule, severity, message),) = found_by(
        rendezvous_values_were_readable, timeline(said(_NUMBER.format("tcp://10.43.7.12:29500")))
    )
    assert (rule, severity) == ("DC102", "error")
    assert "Kubernetes puts that there for a Service named 'master'" in message


@pytest.mark.parametrize("variable", ["RANK", "WORLD_SIZE", "MASTER_PORT"])
def test_the_code_names_the_variable(variable: str) -> None:
    frame = code(_RENDEZVOUS, f'x = int(_get_env_or_raise("{variable}"))', "_env_rendezvous_handler")
    ((_, _, message),) = found_by(rendezvous_values_were_readable, timeline(said(_NUMBER.format("abc"), frame)))
    assert message.startswith(f"{variable} is 'abc'")


def test_numbers_of_the_user_are_none_of_ours() -> None:
    frame = code("data.py", 'year = int(row["year"])')
    assert not found_by(rendezvous_values_were_readable, timeline(said(_NUMBER.format("n/a"), frame)))
    assert not found_by(rendezvous_values_were_readable, timeline(said(_NUMBER.format("n/a"))))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("ValueError: port must have value from 0 to 65535 but was 70000.", "MASTER_PORT is 70000"),
        ("OverflowError: bind(): port must be 0-65535.", "the port is none from 0 to 65535"),
        ("TypeError: TCPStore(): incompatible constructor arguments. The", "not what the store takes"),
        ("ValueError: TCPStore world size cannot be 0", "WORLD_SIZE is 0"),
        ("ValueError: The port number of the rendezvous endpoint 'a:b' must be an integer", "endpoint is 'a:b'"),
        ("ValueError: Unsupported nproc_per_node value: all", "Unsupported nproc_per_node value: all"),
        ("torchrun: error: unrecognized arguments: --nproc=8", "torchrun ended at once"),
        ("[c10d] The IPv6 network addresses of (tcp://node01, 29500) cannot be retrieved", "'tcp://node01'"),
    ],
)
def test_what_can_not_be_used(line: str, part: str) -> None:
    ((rule, severity, message),) = found_by(rendezvous_values_were_readable, timeline(said(line)))
    assert (rule, severity) == ("DC102", "error")
    assert part in message


@pytest.mark.parametrize(("value", "fix"), [("a:b", "write it as HOST:PORT"), ("127.0.0.1:99999", "take a port from")])
def test_a_port_that_is_a_number_is_too_large(value: str, fix: str) -> None:
    line = f"ValueError: The port number of the rendezvous endpoint '{value}' must be an integer between 0 and 65536."
    (finding,) = rendezvous_values_were_readable(timeline(said(line)))
    assert finding.fix.text.startswith(fix)


def test_a_plain_host_that_does_not_resolve_is_well_formed() -> None:
    line = "[c10d] The IPv6 network addresses of (node07.cluster.lan, 29500) cannot be retrieved (gai error: -2)"
    assert not found_by(rendezvous_values_were_readable, timeline(said(line)))


def test_one_value_is_said_once_for_all_ranks() -> None:
    lines = [said("ValueError: port must have value from 0 to 65535 but was 70000.", line=line) for line in range(1, 9)]
    (finding,) = rendezvous_values_were_readable(timeline(*lines))
    assert finding.evidence["lines"] == 8


def test_debug_level() -> None:
    line = "ValueError: The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL."
    assert [rule for rule, *_ in found_by(ROWS["debug_level_was_readable"], timeline(said(line)))] == ["DC112"]


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("train.py: error: unrecognized arguments: --local-rank=0", "--local-rank"),
        ("main.py: error: unrecognized arguments: --local_rank=3 --x", "--local_rank"),
        (
            "FATAL Flags parsing error: Unknown command line flag 'local-rank'. Did you mean: local_rank ?",
            "--local-rank",
        ),
        ("ERROR: Could not consume arg: --local_rank=0", "--local_rank"),
        ("Error: No such option: --local-rank", "--local-rank"),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--local-rank=0']",
            "--local-rank",
        ),
    ],
)
def test_a_script_that_refuses_the_local_rank(line: str, given: str) -> None:
    ((rule, severity, message),) = found_by(script_took_the_local_rank, timeline(said(line)))
    assert (rule, severity) == ("DC207", "error")
    assert f"adds {given} to the arguments" in message
    assert not found_by(launcher_got_its_options, timeline(said(line)))


def test_a_script_that_insists_on_the_local_rank() -> None:
    line = "train.py: error: the following arguments are required: --data, --local_rank"
    ((_, _, message),) = found_by(script_took_the_local_rank, timeline(said(line)))
    assert message == "train.py insists on --local_rank, which torchrun does not pass"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("--nproc_per_node=8", "--nproc_per_node"),
        ("--nnodes 2 --rdzv-backend c10d", "--nnodes and --rdzv-backend"),
        ("--num_processes 8 --machine_rank 1", "--num_processes and --machine_rank"),
    ],
)
def test_options_behind_the_script(arguments: str, names: str) -> None:
    made = timeline(said(f"train.py: error: unrecognized arguments: {arguments}"))
    (finding,) = launcher_got_its_options(made)
    assert finding.message.startswith(names + " stand")
    assert f"torchrun {arguments} train.py" in finding.fix.text


@pytest.mark.parametrize(
    "line",
    [
        "train.py: error: unrecognized arguments: --learning-rate 3e-4",
        "train.py: error: unrecognized arguments: --max_steps 5 --master",
        "train.py: error: the following arguments are required: --data",
    ],
)
def test_arguments_of_the_script_itself(line: str) -> None:
    made = timeline(said(line))
    assert not found_by(script_took_the_local_rank, made)
    assert not found_by(launcher_got_its_options, made)


def test_a_launcher_that_refuses_is_no_script() -> None:
    made = timeline(said("torchrun: error: unrecognized arguments: --num_machines 2 --local_rank 1"))
    assert not found_by(script_took_the_local_rank, made)
    assert not found_by(launcher_got_its_options, made)
    assert [rule for rule, *_ in found_by(rendezvous_values_were_readable, made)] == ["DC102"]
