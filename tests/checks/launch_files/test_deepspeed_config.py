"""Configurations of DeepSpeed as launch files."""

from __future__ import annotations

from distcheck.checks.launch_files.deepspeed_config import REPEATED, read_deepspeed


def test_a_configuration_says_its_values() -> None:
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


def test_a_malformed_file_has_a_problem_and_what_could_be_read() -> None:
    file = read_deepspeed("ds.json", '{"train_batch_size": 8\n "fp16": {}}')
    assert file.configurations[0].values["train_batch_size"].number == 8
    ((said, line, _),) = file.problems
    assert "no valid JSON" in said
    assert line == 1


def test_a_file_of_nothing_has_no_configuration() -> None:
    assert read_deepspeed("ds.json", "").configurations == ()
