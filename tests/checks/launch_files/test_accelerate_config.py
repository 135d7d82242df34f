"""Configurations of accelerate as launch files."""

from __future__ import annotations

from distcheck.checks.launch_files.accelerate_config import read_accelerate

TEXT = """\
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'  # one
num_machines: 2
main_process_ip: null
gpu_ids: 0,1
deepspeed_config:
  zero_stage: 2
"""


def test_a_configuration_says_its_values() -> None:
    file = read_accelerate("conf/a.yaml", TEXT)
    (config,) = file.configurations
    machines, address = config.values["num_machines"], config.values["main_process_ip"]
    assert (machines.number, machines.span.line, machines.span.column) == (2, 3, 15)
    assert address.known
    assert address.value is None
    assert config.values["distributed_type"].value == "NO"
    assert config.values["gpu_ids"].value == "0,1"
    assert config.values["deepspeed_config.zero_stage"].value == 2
    assert config.get("machine_rank") is None
    assert (2, "# one") in file.comments


def test_a_template_is_unknown() -> None:
    config = read_accelerate("a.yaml", "num_machines: {{ nodes }}\nnum_processes: ${N}\n").configurations[0]
    assert not config.values["num_machines"].known
    assert not config.values["num_processes"].known


def test_what_a_template_may_have_put_there_is_unknown_and_not_absent() -> None:
    text = "num_machines: 2\n{{ include 'address' }}\nnum_processes: 8\n"
    address = read_accelerate("a.yaml", text).configurations[0].get("main_process_ip")
    assert address is not None
    assert not address.known


def test_carriage_returns_don_t_count() -> None:
    config = read_accelerate("a.yaml", TEXT.replace("\n", "\r\n")).configurations[0]
    assert config.values["num_machines"].number == 2
    assert config.values["num_machines"].span.line == 3


def test_a_malformed_file_has_a_problem_and_what_could_be_read() -> None:
    file = read_accelerate("a.yaml", "num_machines: 2\nnum_processes: 8\n\tmachine_rank: 0\n")
    assert file.problems
    assert file.problems[0][1] == 3


def test_a_list_is_no_configuration() -> None:
    assert read_accelerate("a.yaml", "- num_machines: 2\n").configurations == ()
