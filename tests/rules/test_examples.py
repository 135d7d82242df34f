"""The examples of every rule page are carried out: the bad one gives the rule, the good one does not, or more quietly."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from distcheck import rules
from distcheck.checks.host.examine import examine
from distcheck.checks.pickles.api import find_unpicklable, report_of, scan_pickle
from distcheck.cli import lint_inputs, lint_run
from distcheck.cli.lint import command, lint_options
from distcheck.core.configuration import Configuration
from distcheck.core.model import Finding
from distcheck.reporters.progress import Progress
from distcheck.rules import Selection
from distcheck.testing import RanksFailed, run_ranks
from distcheck.testing.ranks import import_torch
from tests.checks.logs.cases import told
from tests.test_hosts import facts_of, launch_of, world_of

from .circumstances import FILES, MACHINES, NOT_EXECUTED, PICKLES, RUN_ON_RANKS, SCRIPTS, Files, Pickle, on_a_machine
from .clusters import MEANINGS, compared
from .examples import Block, Example, Script, codes, examples, script

#: Objects and files are made by carrying the blocks out, which for some needs torch.
EXECUTED = [code for code in codes() if code not in NOT_EXECUTED]
#: Rules that are reported where a block leads to, and not in it: in a script that it starts, in a function that it calls.
FOUND_BESIDE = {"DC106", "DC704"}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the file trees of the machines stand."""
    return tmp_path_factory.mktemp("machines")


def marked(code: str) -> Any:
    needs_torch = code in RUN_ON_RANKS or (code in PICKLES and PICKLES[code].torch)
    return pytest.param(code, marks=[pytest.mark.torch] if needs_torch else [])


@pytest.mark.parametrize("code", [marked(code) for code in EXECUTED])
def test_the_examples_of_a_page_do_what_it_says(code: str, trees: Path) -> None:
    assert complaint(code, trees) is None


@pytest.mark.parametrize("code", sorted(NOT_EXECUTED))
def test_what_is_not_carried_out_would_not_do_it(code: str, trees: Path) -> None:
    """The list is no longer than it must be: a page that does what it says is taken off it."""
    assert complaint(code, trees) is not None


def complaint(code: str, trees: Path) -> str | None:
    """What is wrong with the examples of a page; None where they do what it says."""
    bad, good = examples(code)
    found = {"bad": carried_out(bad, trees), "good": carried_out(good, trees)}
    quietest = min(loudest(findings) for findings in found["bad"])
    if not quietest:
        return f"a bad example does not give {code}"
    sources = [str(finding.evidence.get("source", "")).strip() for findings in found["bad"] for finding in findings]
    if any(sources) and code not in FOUND_BESIDE and not any(source and source in bad.text for source in sources):
        return f"it is found in what stands around it: {sources}"
    if max(loudest(findings) for findings in found["good"]) >= quietest:
        return str([finding.message for findings in found["good"] for finding in findings])
    return None


def loudest(findings: Iterable[Finding]) -> int:
    """The worst severity; 0 without a finding."""
    return max((finding.severity for finding in findings), default=0)


def carried_out(example: Example, trees: Path) -> list[list[Finding]]:
    """What the rule finds in each of the example's blocks, or in all of them where they belong together."""
    if example.code in MEANINGS:
        return [own(example.code, compared(example.code, block.text)) for block in example.blocks]
    if example.code in RUN_ON_RANKS:
        return [
            own(example.code, run_on_ranks(block, RUN_ON_RANKS[example.code], trees / f"{example.name}-{number}"))
            for number, block in enumerate(example.blocks)
        ]
    if example.code in PICKLES:
        return [
            own(example.code, pickled(block, PICKLES[example.code], trees / f"{example.name}-{number}"))
            for number, block in enumerate(example.blocks)
        ]
    ways = set(rules.find(example.code).ways)
    languages = {block.language for block in example.blocks}
    given = FILES.get(example.code, Files())
    if example.code not in MACHINES and (languages & {"python", "yaml", "json"} or ways & {"launch"} or given.together):
        groups = [example.blocks] if given.together else [(block,) for block in example.blocks]
        return [
            own(example.code, linted(example.code, blocks, given, trees / f"{example.name}-{number}"))
            for number, blocks in enumerate(groups)
        ]
    return [own(example.code, examined(example, number, trees)) for number in range(len(example.blocks))]


def own(code: str, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


# scripts and launch files


def linted(code: str, blocks: Iterable[Block], given: Files, folder: Path) -> list[Finding]:
    """What ``distcheck lint`` finds in the blocks as files of a project."""
    files = dict(given.beside)
    for block in blocks:
        if block.language == "python":
            around = SCRIPTS.get(code, Script())
            files[around.name] = script(block.text, around)
            files.update(around.beside)
        else:
            name = _name(block, given)
            files[name] = _begin(name, block.text) + (
                textwrap.indent(block.text, "  ") if name == "pod.yaml" else block.text
            )
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    given_words = ["--isolated", "--no-cache", "--no-respect-gitignore", "--jobs", "1", "--extend-select", code]
    before = os.getcwd()
    os.chdir(folder)
    try:
        options = command.make_context("lint", given_words, auto_envvar_prefix=None).params
        asked = lint_options(options, Configuration())
        looked = lint_run.look(
            asked, lint_inputs.inputs_of(asked), {}, lint_inputs.DelayedProgress(Progress(io.StringIO()), 0.0)
        )
    finally:
        os.chdir(before)
    report = looked.report
    assert not [run.traceback for run in report.probes if run.status == "failed"]
    unread = [finding for finding in report.findings if finding.code == "DC904" != code]
    assert not unread, unread
    return list(report.findings)


def _name(block: Block, given: Files) -> str:
    if given.name != Files().name:
        return given.name
    if block.text.startswith("containers:"):
        return "pod.yaml"
    return {"yaml": "accelerate.yaml", "json": "ds_config.json"}.get(block.language, given.name)


def _begin(name: str, text: str) -> str:
    if name == "pod.yaml":
        return "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n"
    return "#!/bin/bash\n" if name.endswith(".sh") and "#!" not in text else ""


# objects and files


def pickled(block: Block, given: Pickle, folder: Path) -> list[Finding]:
    """What ``distcheck pickle`` finds in what the block makes. The block is run: it is ours."""
    inner = textwrap.indent(block.text, "    ") if given.inside else block.text
    text = script(given.before + given.inside + inner + given.after, Script(setup=False))
    folder.mkdir()
    # what is pickled by its import path must be found there
    module = types.ModuleType(f"example_{folder.name.replace('-', '_')}")
    sys.modules[module.__name__] = module
    before = os.getcwd()
    os.chdir(folder)
    try:
        with saving(given) as saved:
            exec(compile(text, "<example>", "exec"), module.__dict__)
        if given.what == "file":
            (file,) = folder.glob("*.pt*")
            return list(scan_pickle(file).findings)
        made = module.__dict__["made"] if "made" in module.__dict__ else saved[0]
        return list(report_of(find_unpicklable(made)).findings)
    finally:
        os.chdir(before)
        del sys.modules[module.__name__]


@contextlib.contextmanager
def saving(given: Pickle) -> Iterator[list[object]]:
    """What ``torch.save`` was given, in the process group of one rank; without torch where it isn't needed."""
    saved: list[object] = []
    if not given.torch:
        yield saved
        return
    import torch
    import torch.distributed as dist

    original = torch.save

    def save(value: object, *arguments: Any) -> None:
        saved.append(value)
        if given.what == "file":
            original(value, *arguments)

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.save = save
    try:
        yield saved
    finally:
        torch.save = original
        dist.destroy_process_group()


# ranks


def run_on_ranks(block: Block, before: str, folder: Path) -> list[Finding]:
    """What ``distcheck log`` finds in what the ranks say that run the block."""
    text = compile(script(before + block.text, Script(setup=False)), "<example>", "exec")

    def body() -> None:
        exec(text, {})

    # torch reads the mode when it is imported, and breaks where it is another one later (torch 2.13, DDP's logger)
    import_torch()
    try:
        with pytest.MonkeyPatch.context() as patch:
            # torch compares every call before it is made
            patch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
            run_ranks(2, body, timeout=30)
    except RanksFailed as failed:
        lines = [
            f"[rank{failure.rank}]: {line}\n"
            for failure in failed.failures.values()
            for line in failure.text.splitlines()
        ]
        folder.mkdir()
        return list(told({"train.log": "".join(lines).encode()}, folder).findings)
    return []


# machines


def examined(example: Example, number: int, trees: Path) -> list[Finding]:
    """Return what ``distcheck env`` finds on the machine for the launch that the session describes."""
    host, case = on_a_machine(example, number)
    world = world_of(host, case, trees)
    report = examine(
        launch_of(case, world), world, facts=facts_of(host, case), selection=Selection(extend_select=(example.code,))
    )
    failed = [run.traceback for run in report.probes if run.status == "failed"]
    assert not failed, failed
    return list(report.findings)


# the tables


def test_every_page_is_carried_out_or_says_why_not() -> None:
    assert set(NOT_EXECUTED) <= set(codes())
    assert all(NOT_EXECUTED.values())


@pytest.mark.parametrize(
    "table",
    [SCRIPTS, FILES, MACHINES, PICKLES, MEANINGS, RUN_ON_RANKS],
    ids=["scripts", "files", "machines", "pickles", "hosts", "ranks"],
)
def test_circumstances_are_those_of_pages_that_are_carried_out(table: Mapping[str, object]) -> None:
    assert set(table) <= set(EXECUTED)


@pytest.mark.parametrize("code", sorted((*MACHINES, *MEANINGS)))
def test_a_text_that_means_something_stands_in_an_example(code: str) -> None:
    bad, good = examples(code)
    for text in MACHINES[code].says if code in MACHINES else MEANINGS[code]:
        assert text.removeprefix("!") in bad.text + good.text, f"{text!r} stands in no example of {code}"
