"""``distcheck pickle`` as a user calls it: verdicts, findings, folders, standard input, live objects, exit status."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from distcheck.checks.pickles.api import FileReport
from distcheck.cli import fast_path
from distcheck.cli.pickle_confirm import _compared
from distcheck.reporters import FORMATS
from tests.checks.pickles.assembly import build, call, checkpoint, mapping, name, new, plain, tensor, text, whole
from tests.checks.pickles.assembly import torch_zip as in_torch_zip

from .test_cli import SCHEMA, distcheck, environment, report_of

#: Six float32 zeros, as one storage of a torch zip.
STORAGES = {"0": bytes(24)}
STATE = checkpoint({"layer.weight": tensor(), "layer.bias": tensor()}, STORAGES)
WRAPPED = checkpoint({"module.layer.weight": tensor(), "module.layer.bias": tensor()}, STORAGES)
ON_A_GPU = checkpoint({"layer.weight": tensor(location="cuda:7")}, STORAGES)
NAMESPACE = build(new(name("argparse", "Namespace")), mapping({"lr": plain(0.1)}))
WITH_ARGUMENTS = checkpoint({"layer.weight": tensor(), "args": NAMESPACE}, STORAGES)
#: Never loaded; if it ever were, it would leave this file behind.
EVIDENCE = "distcheck-pickle-was-run"
DANGEROUS = whole(mapping({"a": call(name("os", "system"), text(f"touch {EVIDENCE}\x1b[2J"))}))
OF_OTHERS = whole(build(new(name("their_project.net", "Net")), mapping({"a": plain(1)})))
SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c" + bytes(200)


def pickled(folder: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    result = distcheck("pickle", *arguments, cwd=folder, **extra)
    assert "Traceback" not in result.stderr, result.stderr
    assert not (folder / EVIDENCE).exists()
    return result


def verdicts(folder: Path, *arguments: str, **extra: str) -> dict[str, dict[str, Any]]:
    plain_report = report_of("pickle", *arguments, cwd=folder, **extra)
    return {file["path"]: file for file in plain_report["subject"]["verdicts"]}


def codes(folder: Path, *arguments: str, **extra: str) -> set[tuple[str, str]]:
    return {
        (item["code"], item["severity"]) for item in report_of("pickle", *arguments, cwd=folder, **extra)["findings"]
    }


def files_in(folder: Path, **contents: bytes) -> Path:
    """``sub__model_pt`` is sub/model.pt."""
    for key, content in contents.items():
        *folders, base = key.split("__")
        stem, _, ending = base.rpartition("_")
        path = folder.joinpath(*folders, f"{stem}.{ending}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


# files


def test_good_a_state_dict(tmp_path: Path) -> None:
    files_in(tmp_path, model_pt=STATE)
    result = pickled(tmp_path, "model.pt")
    assert result.returncode == 0, result.stdout
    assert "model.pt: torch zip, loads with weights_only=True\n" in result.stdout
    assert result.stderr == ""
    (file,) = verdicts(tmp_path, "model.pt").values()
    assert (file["verdict"], file["weights_only"]["answer"], file["complete"]) == ("safe", "accept", True)
    assert file["locations"] == {"cpu": 2}
    assert file["size_bytes"] == len(STATE)


def test_bad_dc610_a_call_is_shown_and_not_made(tmp_path: Path) -> None:
    files_in(tmp_path, bad_pkl=DANGEROUS, bad_pt=in_torch_zip(DANGEROUS))
    result = pickled(tmp_path, "bad.pkl", "bad.pt")
    assert result.returncode == 1
    assert "os.system('touch distcheck-pickle-was-run" in result.stdout
    assert "\x1b" not in result.stdout
    assert "(bad.pt, archive/data.pkl, byte " in result.stdout
    assert "do not load this file" in result.stdout
    assert "add_safe_globals" not in result.stdout
    for file in verdicts(tmp_path, "bad.pkl", "bad.pt").values():
        assert file["verdict"] == "dangerous"
        assert file["dangers"][0]["global"] == "os.system"


def test_good_dc610_words_are_no_calls(tmp_path: Path) -> None:
    words = {"os.system": tensor(), "eval": plain("__import__('os').system('id')"), "cos\nsystem\n": plain([1])}
    files_in(tmp_path, model_pt=checkpoint(words, STORAGES), data_pkl=pickle.dumps({"os.system": b"cos\nsystem\n(tR."}))
    assert codes(tmp_path, "model.pt", "data.pkl") == set()


def test_bad_dc611_lines_to_paste(tmp_path: Path) -> None:
    files_in(tmp_path, model_pt=WITH_ARGUMENTS)
    result = pickled(tmp_path, "model.pt")
    assert result.returncode == 0
    assert "DC611" in result.stdout
    assert "        torch.serialization.add_safe_globals([argparse.Namespace])\n" in result.stdout
    assert pickled(tmp_path, "model.pt", "--fail-on", "warning").returncode == 1
    assert verdicts(tmp_path, "model.pt")["model.pt"]["verdict"] == "needs-allow-listing"
    allowed = verdicts(tmp_path, "model.pt", "--allow", "argparse.Namespace")["model.pt"]
    assert (allowed["verdict"], allowed["weights_only"]["answer"]) == ("safe", "accept")
    assert codes(tmp_path, "--for", "pickle", "model.pt") == set()


def test_bad_dc611_unknown_code_is_an_error(tmp_path: Path) -> None:
    files_in(tmp_path, model_pt=in_torch_zip(OF_OTHERS), data_pkl=OF_OTHERS)
    assert codes(tmp_path, "model.pt") == {("DC611", "error")}
    assert codes(tmp_path, "data.pkl") == {("DC611", "error")}
    result = pickled(tmp_path, "data.pkl")
    assert result.returncode == 1
    assert "their_project.net.Net" in result.stdout
    assert "--allow their_project.net.Net" in result.stdout
    assert pickled(tmp_path, "data.pkl", "--allow", "their_project.net.Net").returncode == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (STATE[: len(STATE) // 2], "malformed"),
        (pickle.dumps(list(range(1000)))[:-5], "malformed"),
        (b"", "empty"),
        (b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>", "download"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
        (checkpoint({"layer.weight": tensor()}), "not in it"),
    ],
    ids=["cut zip", "cut pickle", "empty", "page", "pointer", "no storage"],
)
def test_bad_dc612_what_is_broken(tmp_path: Path, content: bytes, words: str) -> None:
    files_in(tmp_path, model_pt=content)
    result = pickled(tmp_path, "model.pt")
    assert result.returncode == 1
    assert "DC612" in result.stdout
    assert words in result.stdout


def test_bad_dc613_and_dc614(tmp_path: Path) -> None:
    files_in(tmp_path, gpu_pt=ON_A_GPU, ddp_pt=WRAPPED)
    assert codes(tmp_path, "gpu.pt") == {("DC613", "warning")}
    assert codes(tmp_path, "ddp.pt") == {("DC614", "info")}
    assert "machine with 4 GPUs" in " ".join(pickled(tmp_path, "gpu.pt", "--gpus", "4").stdout.split())
    assert 'torch.load("gpu.pt", map_location="cpu")' in pickled(tmp_path, "gpu.pt").stdout
    assert "consume_prefix_in_state_dict_if_present" in pickled(tmp_path, "ddp.pt").stdout
    assert verdicts(tmp_path, "ddp.pt")["ddp.pt"]["prefixes"] == {"module.": 2}


def test_what_can_not_be_opened_is_never_fine(tmp_path: Path) -> None:
    files_in(tmp_path, weights_7z=SEVEN_ZIP, ok_pt=STATE, bad_pkl=DANGEROUS)
    result = pickled(tmp_path, "weights.7z", "ok.pt")
    assert result.returncode == 3
    assert "not checked\n  weights.7z: " in result.stdout
    assert "not all of weights.7z could be checked" in result.stderr
    assert pickled(tmp_path, "weights.7z", "bad.pkl").returncode == 1
    assert pickled(tmp_path, "weights.7z", "--exit-zero").returncode == 0
    assert pickled(tmp_path, "weights.7z", "--select", "DC610").returncode == 3


def test_the_torch_whose_tables_count(tmp_path: Path) -> None:
    files_in(tmp_path, model_pt=STATE)
    assert "as torch 2.6 has it" in pickled(tmp_path, "model.pt", "--torch", "2.6").stdout
    newer = pickled(tmp_path, "model.pt", "--torch", "9.1")
    assert newer.returncode == 0
    assert "9.1 is newer" in newer.stdout
    wrong = pickled(tmp_path, "model.pt", "--torch", "new")
    assert wrong.returncode == 2
    assert "'new'" in wrong.stderr


@pytest.mark.parametrize("output_format", FORMATS)
def test_every_format(tmp_path: Path, output_format: str) -> None:
    files_in(tmp_path, a_pt=STATE, b_pkl=DANGEROUS)
    result = pickled(tmp_path, "a.pt", "b.pkl", "--output-format", output_format)
    assert result.returncode == 1
    assert "DC610" in result.stdout
    assert "\x1b" not in result.stdout
    if output_format == "json":
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(result.stdout))


def test_the_text_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    files_in(tmp_path, a_pt=WITH_ARGUMENTS, b_pkl=DANGEROUS, c_pt=ON_A_GPU, d_pt=WRAPPED, e_pt=b"", f_pkl=OF_OTHERS)
    for line in pickled(tmp_path, ".").stdout.splitlines():
        # lines to paste are never broken
        assert len(line) <= 80 or re.match(r" {6,}\S*(torch\.|import |from )", line), line


def test_colours_only_where_they_are_wanted(tmp_path: Path) -> None:
    files_in(tmp_path, b_pkl=DANGEROUS)
    assert "\x1b[31" in pickled(tmp_path, "b.pkl", "--color", "always").stdout
    assert "\x1b" not in pickled(tmp_path, "b.pkl", NO_COLOR="1").stdout


def test_quiet_and_a_file_for_the_report(tmp_path: Path) -> None:
    files_in(tmp_path, b_pkl=DANGEROUS)
    assert len(pickled(tmp_path, "b.pkl", "-q").stdout.splitlines()) == 1
    result = pickled(tmp_path, "b.pkl", "--output-format", "json", "-o", "report.json")
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads((tmp_path / "report.json").read_text())["command"] == "pickle"


def test_what_hides_findings_is_said(tmp_path: Path) -> None:
    files_in(tmp_path, b_pkl=DANGEROUS)
    result = pickled(tmp_path, "b.pkl", "--ignore", "DC610")
    assert result.returncode == 0
    assert "--ignore DC610" in result.stdout
    assert "dangerous: " in result.stdout
    (tmp_path / "pyproject.toml").write_text('[tool.distcheck]\nignore = ["DC610"]\n')
    configured = pickled(tmp_path, "b.pkl")
    assert configured.returncode == 0
    assert "pyproject.toml" in configured.stdout
    assert pickled(tmp_path, "b.pkl", "--isolated").returncode == 1


def test_names_of_files_are_escaped_and_import_nothing(tmp_path: Path) -> None:
    evil = "x\x1b[2J\r.pkl"
    (tmp_path / evil).write_bytes(DANGEROUS)
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')")
    (tmp_path / "loud:thing").write_bytes(whole(plain([1])))
    for output_format in ("full", "concise"):
        result = pickled(tmp_path, evil, "loud:thing", "--output-format", output_format)
        assert result.returncode == 1
        assert not set("\x1b\r") & set(result.stdout)
    assert "imported" not in pickled(tmp_path, "loud:thing").stderr


def test_torch_is_not_imported_nor_what_a_file_names(tmp_path: Path) -> None:
    files_in(tmp_path, a_pt=WITH_ARGUMENTS, b_pkl=OF_OTHERS)
    for module in ("torch", "their_project"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('imported')")
    program = (
        "import sys, os; os._exit = lambda status: None\n"
        "from distcheck.cli.fast_path import main; sys.argv = ['distcheck', 'pickle', 'a.pt', 'b.pkl']; main()\n"
        "assert not {'torch', 'their_project', 'numpy', 'click', 'pickle'} & set(sys.modules), 'imported'\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert "imported" not in result.stdout + result.stderr


# folders


def test_a_folder_is_walked_in_order_and_what_is_no_pickle_is_left_alone(tmp_path: Path) -> None:
    files_in(
        tmp_path,
        models__b_pt=STATE,
        models__a_bin=DANGEROUS,
        models__deep__er__c_unknown=STATE,
        models__README_md=b"# a model",
        models__config_json=b"{}",
        models__train_py=b"import os",
        models__text_pt=b"not a model",
    )
    (tmp_path / "models" / ".hidden").write_bytes(DANGEROUS)
    (tmp_path / "models" / ".git").mkdir()
    (tmp_path / "models" / ".git" / "x.pkl").write_bytes(DANGEROUS)
    found = verdicts(tmp_path, "models")
    assert {path: file["verdict"] for path, file in found.items()} == {
        "models/.hidden": "dangerous",
        "models/a.bin": "dangerous",
        "models/text.pt": "malformed",
        "models/b.pt": "safe",
        "models/deep/er/c.unknown": "safe",
    }
    assert list(found) == [
        "models/.hidden",
        "models/a.bin",
        "models/text.pt",
        "models/b.pt",
        "models/deep/er/c.unknown",
    ]
    # a file that is named is looked at whatever it is
    assert verdicts(tmp_path, "models/README.md")["models/README.md"]["verdict"] == "malformed"
    assert set(verdicts(tmp_path, "models", "--exclude", "deep,*.bin,.hidden")) == {"models/text.pt", "models/b.pt"}
    assert set(verdicts(tmp_path / "models", ".")) == {path.removeprefix("models/") for path in found}


def test_links_are_not_followed_in_circles_and_a_file_is_read_once(tmp_path: Path) -> None:
    files_in(tmp_path, blobs__0123_abc=STATE)
    blob = (tmp_path / "blobs" / "0123.abc").rename(tmp_path / "blobs" / "0123abc")
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "model.bin").symlink_to(blob)
    (tmp_path / "snapshots" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert set(verdicts(tmp_path, ".")) == {"snapshots/model.bin"}
    # a link that is named is followed
    assert set(verdicts(tmp_path, "snapshots/again/snapshots")) == {"snapshots/again/snapshots/model.bin"}


def test_a_distributed_checkpoint_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "step100"
    folder.mkdir()
    (folder / ".metadata").write_bytes(whole(mapping({"a": plain(1)})))
    (folder / "__0_0.distcp").write_bytes(STATE)
    (folder / "other.pkl").write_bytes(DANGEROUS)
    found = verdicts(tmp_path, ".")
    assert set(found) == {"step100", "step100/other.pkl"}
    assert found["step100"]["format"] == "distributed checkpoint"
    (folder / "__1_0.distcp").write_bytes(in_torch_zip(DANGEROUS))
    assert verdicts(tmp_path, "step100")["step100"]["verdict"] == "dangerous"


def test_what_is_skipped_is_counted_and_listed(tmp_path: Path) -> None:
    files_in(tmp_path, models__a_pt=STATE, models__old__b_pt=STATE, models__README_md=b"# a model", models__x_git=b"")
    (tmp_path / "models" / ".git").mkdir()
    (tmp_path / "models" / ".git" / "c.pt").write_bytes(STATE)
    result = pickled(tmp_path, "models", "--exclude", "old")
    assert result.stdout.splitlines()[0].endswith(" · 4 skipped")
    assert "skipped:" not in result.stderr
    listed = pickled(tmp_path, "models", "--exclude", "old", "--list-skipped")
    expected = ["models/.git", "models/README.md", "models/old", "models/x.git"]
    assert listed.stderr.splitlines() == [f"skipped: {path}" for path in expected]
    plain = json.loads(
        pickled(tmp_path, "models", "--exclude", "old", "--list-skipped", "--output-format", "json").stdout
    )
    assert (plain["subject"]["skipped"], plain["subject"]["skipped_paths"]) == (4, expected)
    assert "skipped" not in pickled(tmp_path, "models/a.pt").stdout


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    files_in(tmp_path, models__README_md=b"# nothing")
    result = pickled(tmp_path, "models")
    assert result.returncode == 0
    assert "nothing in it is a pickle or a checkpoint" in result.stderr
    assert pickled(tmp_path, "models", "--strict").returncode == 3


def test_many_files_in_several_processes_give_what_one_gives(tmp_path: Path) -> None:
    for number in range(60):
        content = DANGEROUS if number % 20 == 7 else WITH_ARGUMENTS if number % 5 == 1 else STATE
        files_in(tmp_path, **{f"m__file{number:02}_pt": content})

    def reported(jobs: str) -> dict[str, Any]:
        plain_report = report_of("pickle", "m", "-j", jobs, cwd=tmp_path)
        for probe in plain_report["probes"]:
            probe["elapsed_s"] = 0
        plain_report["summary"]["elapsed_s"] = 0
        return plain_report

    one = reported("1")
    assert one == reported("3")
    assert one["subject"]["verdict_counts"]["dangerous"] == 3
    text_of = pickled(tmp_path, "m").stdout
    assert "safe                " in text_of
    assert "file00.pt" not in text_of, "files that are fine are counted only"
    assert "m/file07.pt, m/file27.pt, m/file47.pt" in text_of


# standard input


def from_stdin(folder: Path, content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "distcheck", "pickle", "-", *arguments],
        input=content,
        capture_output=True,
        env=environment(),
        cwd=folder,
        timeout=60,
    )


def test_standard_input_short_and_long(tmp_path: Path) -> None:
    assert from_stdin(tmp_path, STATE).returncode == 0
    bad = from_stdin(tmp_path, DANGEROUS, "--output-format", "json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["subject"]["verdicts"][0]["path"] == "-"
    large = checkpoint(
        {"layer.weight": tensor(shape=(5_000_000,)), "a": call(name("os", "system"), text("id"))},
        {"0": bytes(20_000_000)},
    )
    assert from_stdin(tmp_path, large).returncode == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how memory is counted differs")
@pytest.mark.slow
def test_memory_is_bounded_whatever_comes_in(tmp_path: Path) -> None:
    size = 200_000_000
    (tmp_path / "large.pt").write_bytes(checkpoint({"w": tensor(shape=(size // 4,))}, {"0": bytes(size)}))
    program = (
        "import os, sys\n"
        "process = os.fork()\n"
        "if not process: os.execv(sys.executable, [sys.executable, '-m', 'distcheck', 'pickle', *sys.argv[1:]])\n"
        "_, status, usage = os.wait4(process, 0)\n"
        "print(os.waitstatus_to_exitcode(status), usage.ru_maxrss // 1024)"
    )
    for arguments in (["large.pt"], ["-"]):
        with (tmp_path / "large.pt").open("rb") as file:
            result = subprocess.run(
                [sys.executable, "-c", program, *arguments],
                stdin=file,
                capture_output=True,
                text=True,
                env=environment(),
                cwd=tmp_path,
                timeout=60,
            )
        status, mebibytes = map(int, result.stdout.split()[-2:])
        assert status == 0
        assert mebibytes <= 64


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no names of descriptors here")
def test_a_pipe_of_the_shell_can_be_named(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, DANGEROUS)
    os.close(write)
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "pickle", f"/dev/fd/{read}"],
        pass_fds=(read,),
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=60,
    )
    os.close(read)
    assert result.returncode == 1, result.stdout
    assert "DC610" in result.stdout


# used wrongly


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--object"),
        (["nowhere.pt"], "nowhere.pt: there is no such file"),
        (["a.pt", "nowhere.pt"], "nowhere.pt"),
        (["train:trainer"], "--object module:name"),
        (["-", "-"], "once"),
        (["a.pt", "--object", "train:trainer"], "one of them"),
        (["a.pt", "--call"], "--call belongs to --object"),
        (["a.pt", "--mode", "spawn"], "--mode belongs to --object"),
        (["a.pt", "--show-fix"], "--show-fix"),
        (["--object", "train:trainer", "--gpus", "2"], "--gpus is about files"),
        (["--object", "train:trainer", "--for", "pickle"], "--for is about files"),
        (["--object", "train"], "module:name"),
        (["--object", "os;id:x"], "module:name"),
        (["--object", "no_such_module_here:x"], "does not import"),
        (["--object", "os.path:no_such_name"], "has no attribute 'no_such_name'"),
        (["--object", "json:decodr"], "did you mean 'decoder'"),
        (["--object", "sys:maxsize", "--call"], "can't be called"),
        (["a.pt", "--torch", "two"], "'two'"),
        (["a.pt", "--allow", "Namespace"], "module.Name"),
        (["a.pt", "--allow", "os;id.x"], "module.Name"),
        (["a.pt", "--gpus", "-1"], "-1"),
        (["a.pt", "--for", "torch"], "weights-only"),
        (["a.pt", "--select", "DC301"], "leaves no rule"),
        (["a.pt", "-o", "no/such/folder/x"], "does not exist"),
        (["a.pt", "--config", "nowhere.toml"], "nowhere.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_used_wrongly_is_one_line_and_status_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    files_in(tmp_path, a_pt=STATE)
    result = pickled(tmp_path, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert words in line


def test_options_have_their_variables(tmp_path: Path) -> None:
    files_in(tmp_path, model_pt=WITH_ARGUMENTS, gpu_pt=ON_A_GPU)
    assert codes(tmp_path, "model.pt", DISTCHECK_PICKLE_FOR="pickle") == set()
    assert codes(tmp_path, "model.pt", DISTCHECK_PICKLE_ALLOW="argparse.Namespace") == set()
    assert "4 GPUs" in " ".join(pickled(tmp_path, "gpu.pt", DISTCHECK_PICKLE_GPUS="4").stdout.split())
    # one that is set for all runs is no contradiction in the runs that it says nothing to
    assert pickled(tmp_path, "--object", "sys:maxsize", DISTCHECK_PICKLE_GPUS="4").returncode == 0
    assert pickled(tmp_path, "gpu.pt", DISTCHECK_PICKLE_MODE="spawn").returncode == 0


def test_what_can_not_be_read_is_dc904(tmp_path: Path) -> None:
    (tmp_path / "gone.pt").symlink_to("nowhere")
    files_in(tmp_path, ok_pt=STATE)
    alone = pickled(tmp_path, "gone.pt")
    assert alone.returncode == 2
    assert "none of the input could be read" in alone.stderr
    beside = pickled(tmp_path, "gone.pt", "ok.pt")
    assert beside.returncode == 1
    assert "DC904" in beside.stdout
    assert pickled(tmp_path, "gone.pt", "ok.pt", "--ignore", "DC904").returncode == 3
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.pt")
        assert "pipe" in pickled(tmp_path, "pipe.pt", "ok.pt").stdout


# the short way


def test_the_short_way_says_what_the_long_one_says(tmp_path: Path) -> None:
    files_in(tmp_path, a_pt=STATE, b_pkl=DANGEROUS, c_pt=WITH_ARGUMENTS)

    def said(**extra: str) -> tuple[int, str, str]:
        result = pickled(tmp_path, "a.pt", "b.pkl", "c.pt", **extra)
        return result.returncode, re.sub(r"\d+\.\d\d s", "", result.stdout), result.stderr

    assert said() == said(DISTCHECK_PICKLE_JOBS="1")


@pytest.mark.parametrize(
    ("words", "environ", "plain_way"),
    [
        (["pickle", "a.pt"], {}, True),
        (["pickle", "a.pt", "."], {"DISTCHECK_LINT_SELECT": "DC7"}, True),
        (["pickle"], {}, False),
        (["lint", "a.pt"], {}, False),
        (["pickle", "-"], {}, False),
        (["pickle", "a.pt", "-q"], {}, False),
        (["pickle", "--help"], {}, False),
        (["pickle", "nowhere.pt"], {}, False),
        (["pickle", ""], {}, False),
        (["pickle", "a.pt"], {"DISTCHECK_PICKLE_FAIL_ON": "info"}, False),
        (["pickle", "a.pt"], {"_DISTCHECK_COMPLETE": "bash_source"}, False),
    ],
    ids=str,
)
def test_only_what_is_plain_goes_the_short_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], environ: dict[str, str], plain_way: bool
) -> None:
    files_in(tmp_path, a_pt=STATE)
    monkeypatch.chdir(tmp_path)
    assert (fast_path.fast_pickle(words, environ) is not None) is plain_way


def test_a_configuration_goes_the_long_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files_in(tmp_path, below__a_pt=STATE)
    monkeypatch.chdir(tmp_path / "below")
    (tmp_path / "setup.cfg").write_text("[flake8]\n")
    assert fast_path.fast_pickle(["pickle", "a.pt"], {}) is not None
    (tmp_path / "setup.cfg").write_text("[distcheck]\nfail-on = never\n")
    assert fast_path.fast_pickle(["pickle", "a.pt"], {}) is None


# confirmation


def test_confirm_without_torch_is_not_checked(tmp_path: Path) -> None:
    files_in(tmp_path, model_pt=STATE)
    program = (
        "import sys\n"
        "from distcheck.checks.pickles import torch_globals\n"
        "torch_globals.installed_torch_version = lambda: None\n"
        "from distcheck.cli.main import main; sys.argv = ['distcheck', 'pickle', '--confirm', 'model.pt']; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert "--confirm: torch is not installed for this Python" in result.stdout


@pytest.mark.parametrize(("answer", "loads"), [("accept", False), ("allowlist", True), ("never", True)])
def test_bad_dc901_torch_says_otherwise(answer: str, loads: bool) -> None:
    report = FileReport("model.pt", "torch zip", 10, "safe", "loads with weights_only=True", answer)
    compared = _compared(report, {"loads": loads, "error": "UnpicklingError: x"}, "2.13.0")
    assert compared.confirmation
    assert [finding.code for finding in compared.findings] == ["DC901"]
    agreed = _compared(report, {"loads": not loads, "error": ""}, "2.13.0")
    assert agreed.confirmation == ""
    assert agreed.findings == ()


@pytest.mark.torch
def test_confirm_asks_torch_and_not_the_torch_of_the_folder(tmp_path: Path) -> None:
    files_in(tmp_path, model_pt=STATE, args_pt=WITH_ARGUMENTS, bad_pt=in_torch_zip(DANGEROUS))
    (tmp_path / "torch.py").write_text(f"open({EVIDENCE!r}, 'w')")
    found = verdicts(tmp_path, "--confirm", "model.pt", "args.pt", "bad.pt")
    assert found["model.pt"]["confirmation"] == ""
    assert found["args.pt"]["confirmation"] == ""
    assert found["bad.pt"]["confirmation"] is None, "torch is not asked about what is dangerous"
    assert not (tmp_path / EVIDENCE).exists()
    other = pickled(tmp_path, "--confirm", "--torch", "2.4", "model.pt")
    assert "--confirm: the installed torch is" in other.stdout


# live objects

MODULE = """
import threading
print("loud while it is imported")


class Trainer:
    def __init__(self):
        self.name = "a"
        self.lock = threading.Lock()
        self.parts = [{"callback": lambda: 1}]


trainer = Trainer()
plain = {"a": [1, 2, 3]}


def make():
    print("loud while it is called")
    return Trainer()


def fail():
    raise RuntimeError("first\\nlast \\x1b line")
"""


def test_bad_dc601_every_member_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODULE)
    result = pickled(tmp_path, "--object", "train:trainer")
    assert result.returncode == 1
    assert "distcheck: importing train, as --object requires" in result.stderr
    assert "trainer.lock" in result.stdout
    assert "trainer.parts[0]['callback']" in result.stdout
    assert "loud" not in result.stdout
    assert "loud while it is imported" in result.stderr


def test_good_an_object_that_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODULE)
    result = pickled(tmp_path, "--object", "train:plain", "--confirm")
    assert result.returncode == 0, result.stdout
    assert "the real pickler agrees" in result.stdout


def test_an_object_that_a_call_gives_in_json(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODULE)
    plain_report = report_of("pickle", "--object", "train:make", "--call", "--mode", "torch.save", cwd=tmp_path)
    seen = plain_report["subject"]["object"]
    assert (seen["mode"], seen["ok"], seen["complete"]) == ("torch.save", False, True)
    assert {item["path"] for item in seen["offenders"]} == {"make().lock", "make().parts[0]['callback']"}
    concise = pickled(tmp_path, "--object", "train:make", "--call", "--output-format", "concise").stdout
    assert re.search(r"^make\(\)\.lock: DC601 error: ", concise, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("later", "find_unpicklable(later)"),
        ("Trainer", "train:Trainer --call"),
        ("make", "train:make --call checks that"),
    ],
)
def test_none_a_class_and_a_function_are_not_checked(name: str, words: str, tmp_path: Path) -> None:
    """What pickle writes for them says nothing about the object that the program makes."""
    (tmp_path / "train.py").write_text(MODULE + "\nlater = None\n")
    result = pickled(tmp_path, "--object", f"train:{name}")
    assert result.returncode == 3, result.stdout
    assert words in " ".join(result.stdout.split())
    assert "no object was checked" in result.stderr
    report = report_of("pickle", "--object", f"train:{name}", cwd=tmp_path)
    assert [item["what"] for item in report["not_checked"]] == [name]


def test_a_call_that_returns_none_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def make():\n    pass\n")
    result = pickled(tmp_path, "--object", "train:make", "--call")
    assert result.returncode == 3, result.stdout
    assert "make(): the call returned None; name a function that returns" in " ".join(result.stdout.split())
    assert "find_unpicklable(obj)" in result.stdout


def test_a_function_that_takes_arguments_is_what_spawn_pickles(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def worker(rank, world_size=2):\n    pass\n")
    assert pickled(tmp_path, "--object", "train:worker").returncode == 0


def test_a_class_that_pickle_refuses_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def make():\n    class Local: pass\n    return Local\nLocal = make()\n")
    result = pickled(tmp_path, "--object", "train:Local")
    assert result.returncode == 1 and "DC601" in result.stdout


def test_the_call_that_not_checked_names_gives_the_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODULE)
    assert "Trainer().lock" in pickled(tmp_path, "--object", "train:Trainer", "--call").stdout
    code = "import distcheck, train; print(distcheck.find_unpicklable(train.trainer))"
    printed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "obj.lock" in printed.stdout


def test_show_fix_prints_methods_that_compile(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODULE)
    result = pickled(tmp_path, "--object", "train:trainer", "--show-fix")
    assert "def __getstate__(self)" in result.stdout
    assert "def __setstate__(self, state)" in result.stdout


def test_what_the_user_named_may_raise(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODULE)
    (tmp_path / "ends.py").write_text("raise SystemExit(0)")
    raised = pickled(tmp_path, "--object", "train:fail", "--call")
    assert raised.returncode == 2
    assert "RuntimeError: last \\x1b line" in raised.stderr
    assert "\x1b" not in raised.stderr
    assert pickled(tmp_path, "--object", "ends:x").returncode == 2


def test_the_rules_that_are_seen_here_are_listed_and_found_by_their_messages() -> None:
    listed = {
        row["code"] for row in json.loads(distcheck("rules", "--way", "pickle", "--output-format", "json").stdout)
    }
    assert {"DC601", "DC602", "DC603", "DC604", *(f"DC61{number}" for number in range(6))} <= listed
    for message, code in (
        ("_pickle.UnpicklingError: Weights only load failed. This file can still be loaded", "DC611"),
        ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "DC612"),
        (
            "RuntimeError: Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 1.",
            "DC613",
        ),
        ('Missing key(s) in state_dict: "conv1.weight"', "DC614"),
    ):
        assert code in distcheck("explain", message).stdout, message


def test_what_c_code_and_children_print_does_not_get_into_the_report(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import os\nos.write(1, b'raw on import\\n')\n"
        "class Loud:\n    def __getstate__(self):\n        os.write(1, b'raw in getstate\\n')\n        return {}\n"
        "def make():\n    os.system('echo from a child')\n    return [Loud()]\n"
    )
    result = pickled(tmp_path, "--object", "loud:make", "--call", "--output-format", "json")
    assert json.loads(result.stdout)["subject"]["object"]["ok"] is True
    assert "raw on import" in result.stderr
    assert "raw in getstate" in result.stderr
    assert "from a child" in result.stderr


def test_a_file_in_place_of_a_module_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('imported')")
    result = pickled(tmp_path, "--object", "./train.py:trainer")
    assert result.returncode == 2
    assert "./train.py is a file; name it as import does: --object train:trainer" in result.stderr
    assert "imported" not in result.stderr


def test_a_module_that_reads_the_command_line_is_not_given_ours(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', default=0.1)\n"
        "args = parser.parse_args()\n"
    )
    result = pickled(tmp_path, "--object", "train:args")
    assert result.returncode == 0, result.stderr


def test_an_index_is_no_name(tmp_path: Path) -> None:
    result = pickled(tmp_path, "--object", "train:trainers[0]")
    assert result.returncode == 2
    assert "write a function that returns it, and add --call" in result.stderr


def test_an_archive_without_a_pickle_is_no_finding_of_a_folder(tmp_path: Path) -> None:
    """Folders hold archives of all kinds; one that is named, or is called like a model, is said not to be known."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with zipfile.ZipFile(folder / "sources.dat", "w") as archive:
        archive.writestr("README.txt", "nothing to load")
    assert pickled(tmp_path, "folder").returncode == 0
    assert "sources.dat" not in pickled(tmp_path, "folder").stdout
    assert pickled(tmp_path, "folder/sources.dat").returncode == 3
    (folder / "sources.dat").rename(folder / "model.pt")
    assert pickled(tmp_path, "folder").returncode == 3
