"""Configuration files of launchers as launch files."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.launcher_configs import REPEATED, read_accelerate, read_deepspeed, read_hostfile

TEXT = """\
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'  # one
num_machines: 2
main_process_ip: null
gpu_ids: 0,1
deepspeed_config:
  zero_stage: 2
"""


def test_a_configuration_of_accelerate_has_its_values() -> None:
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


def test_a_malformed_yaml_has_a_problem_and_its_readable_part() -> None:
    file = read_accelerate("a.yaml", "num_machines: 2\nnum_processes: 8\n\tmachine_rank: 0\n")
    assert file.problems
    assert file.problems[0][1] == 3


def test_a_list_is_no_configuration() -> None:
    assert read_accelerate("a.yaml", "- num_machines: 2\n").configurations == ()


def test_a_configuration_of_deepspeed_has_its_values() -> None:
    file = read_deepspeed("conf/ds.json", '{\n  "train_batch_size": "auto",\n  "zero_optimization": {"stage": 2}\n}\n')
    (config,) = file.configurations
    assert (file.kind, config.launcher) == ("deepspeed", "deepspeed")
    assert config.values["zero_optimization.stage"].value == 2
    assert config.values["train_batch_size"].value == "auto"
    assert config.get(REPEATED) is None


def test_keys_that_stand_twice_are_kept_for_the_rule() -> None:
    file = read_deepspeed("ds.json", '{"a": 1, "a": 2,\n "b": 1, "b": 2}')
    repeated = file.configurations[0].get(REPEATED)
    assert repeated is not None
    assert repeated.value == "a, b"
    assert (repeated.span.line, repeated.span.column) == (1, 10)


def test_a_malformed_json_has_a_problem_and_its_readable_part() -> None:
    file = read_deepspeed("ds.json", '{"train_batch_size": 8\n "fp16": {}}')
    assert file.configurations[0].values["train_batch_size"].number == 8
    ((said, line, _),) = file.problems
    assert "no valid JSON" in said
    assert line == 1


def test_a_file_of_nothing_has_no_configuration() -> None:
    assert read_deepspeed("ds.json", "").configurations == ()


def test_hosts_with_their_slots_and_places() -> None:
    file = read_hostfile("conf/hostfile", "# nodes\nworker-1 slots=8\r\n\n  worker-2 slots=4 max_slots=8 # small\n")
    assert [(host.host, host.slots, host.span.line, host.span.column) for host in file.hosts] == [
        ("worker-1", 8, 2, 1),
        ("worker-2", 4, 4, 3),
    ]
    assert file.comments == ((1, "# nodes"), (4, "# small"))


@pytest.mark.parametrize(
    ("line", "host", "slots"),
    [
        ("10.0.0.1 slots=8", "10.0.0.1", 8),
        ("n1", "n1", None),
        ("n1:4", "n1", 4),
        ("n1 slots = 2", "n1", 2),
        ("[fe80::1] slots=2", "[fe80::1]", 2),
        ("n1 max_slots=8", "n1", None),
    ],
)
def test_spellings_of_a_line(line: str, host: str, slots: int | None) -> None:
    assert [(one.host, one.slots) for one in read_hostfile("hostfile", line).hosts] == [(host, slots)]


def test_a_line_of_a_million_characters_takes_no_time() -> None:
    assert read_hostfile("hostfile", "n1 " + "slots " * 200_000).hosts[0].slots is None
