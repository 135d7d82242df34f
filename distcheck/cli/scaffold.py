"""Decide what ``distcheck init`` writes into a repository: the configuration, and the file that runs distcheck in CI.

This module reads the repository and writes nothing. Existing content is kept byte for byte: a file is only added to,
and only if the result, parsed again, is the old file plus our part. Otherwise a note shows what to add by hand.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.checks.source.discovery import DEFAULT_EXCLUDES, LAUNCH_SUFFIXES, SUFFIXES
from distcheck.core.files import read_ordinary
from distcheck.reporters.locations import checkout_of

from .installation import Installation

#: The systems that a file can be written for.
SYSTEMS = ("github", "gitlab", "pre-commit")
BASELINE = "distcheck-baseline.json"
GITHUB_FILE = ".github/workflows/distcheck.yml"
GITLAB_FILE, GITLAB_JOB = ".gitlab-ci.yml", ".gitlab/distcheck.yml"
PRE_COMMIT_FILES = (".pre-commit-config.yaml", ".pre-commit-config.yml")
#: Folders with third-party code.
_FOREIGN = ("third_party", "thirdparty", "3rdparty", "vendor", "vendored", "external", "submodules")
#: The most bytes of a file that is read: these files are written by hand.
_LONGEST = 4 << 20
#: The most values of a YAML file, with what its aliases stand for: values are compared one by one.
_MOST_VALUES = 1_000_000
#: Names of the files that lint reads, as a pattern of pre-commit.
HOOK_FILES = (
    r"(?i)(\.("
    + "|".join(suffix[1:] for suffix in (*SUFFIXES, *LAUNCH_SUFFIXES))
    + r")|(^|/)((docker|container|(gnu)?make)file([._-][^/]*)?|[^/]*[._-](docker|container)file"
    + r"|[^/]*(host|machine)[_-]?file[^/]*))$"
)


class Unreadable(Exception):  # noqa: N818 - a state of a file
    """A file to add to can't be read, or is not valid; the message names it and the error."""


class ProposedFile(NamedTuple):
    """A file that would be written."""

    #: relative to the repository, with slashes
    path: str
    new: bytes
    #: the bytes that are there; None where there is no such file
    old: bytes | None = None


class Proposal(NamedTuple):
    """All changes that are proposed."""

    changes: tuple[ProposedFile, ...] = ()
    #: what already exists, in a sentence each
    settled: tuple[str, ...] = ()
    #: what to do by hand, in a sentence each, followed by lines to add
    notes: tuple[str, ...] = ()

    def __add__(self, other: object) -> Proposal:
        if not isinstance(other, Proposal):
            return NotImplemented
        return Proposal(self.changes + other.changes, self.settled + other.settled, self.notes + other.notes)


def detected(folder: str) -> dict[str, str]:
    """Return the CI systems that this repository uses, each with the evidence."""
    found: dict[str, str] = {}
    remotes = _remotes(folder)
    if os.path.isdir(os.path.join(folder, ".github")):
        found["github"] = ".github is there"
    elif "github" in remotes:
        found["github"] = "a remote of the repository is on GitHub"
    if os.path.lexists(os.path.join(folder, GITLAB_FILE)):
        found["gitlab"] = f"{GITLAB_FILE} is there"
    elif "gitlab" in remotes:
        found["gitlab"] = "a remote of the repository is on GitLab"
    name = _first(folder, PRE_COMMIT_FILES)
    if name is not None:
        found["pre-commit"] = f"{name} is there"
    return found


def propose(
    folder: str, systems: Sequence[str], *, installation: Installation, baseline: bytes | None = None
) -> Proposal:
    """Return what to write so that CI checks the repository.

    :param installation: how CI installs distcheck
    :param baseline: the text of a baseline, or None
    :raises Unreadable: a file to add to can't be read
    """
    known = Proposal()
    if baseline is not None:
        known = _baseline(folder, baseline)
    whole = _configuration(folder, with_baseline=baseline is not None) + known
    needed = False
    for system in SYSTEMS:
        if system in systems:
            write = {"github": _github, "gitlab": _gitlab, "pre-commit": _pre_commit}[system]
            part = write(folder, installation)
            whole += part
            needed = needed or bool(part.changes or part.notes)
    return whole + _copy(folder, installation) if needed else whole


def _copy(folder: str, installation: Installation) -> Proposal:
    """Return a copy of the file that CI installs or runs."""
    notes = () if installation.note is None else (installation.note,)
    if installation.path is None or installation.source is None:
        return Proposal(notes=notes)
    try:
        with open(installation.source, "rb") as file:
            new = file.read()
    except OSError as error:
        raise Unreadable(f"{installation.source} can't be read: {error.strerror}") from None
    path = path_of(folder, installation.path)
    if not os.path.lexists(path):
        return Proposal((ProposedFile(installation.path, new),), notes=notes)
    with contextlib.suppress(OSError):
        if read_ordinary(path) == new:
            return Proposal(settled=(f"{installation.path} is this distcheck",), notes=notes)
    return Proposal(notes=(*notes, f"{installation.path} is another version of distcheck, and is not changed"))


# the configuration


def _configuration(folder: str, *, with_baseline: bool) -> Proposal:
    from distcheck.core.configuration import PROJECT_FILES

    texts = {name: _read(folder, name) for name, _ in PROJECT_FILES}
    for name, text in texts.items():
        if text is None or b"distcheck" not in text:
            continue
        table = _own_table(name, _plain(name, text))
        if table is None:
            continue
        if not with_baseline or "baseline" in table:
            return Proposal(settled=(f"{name} has a section for distcheck",))
        return _with_key(name, text, "baseline", BASELINE)
    lines: list[tuple[str, str | list[str]]] = [("fail-on", "error")]
    lines += [("extend-exclude", _foreign(folder))] if _foreign(folder) else []
    lines += [("baseline", BASELINE)] if with_baseline else []
    there = next((name for name, text in texts.items() if text is not None), None)
    # a pyproject.toml would change how pip builds a project that has none
    name = there or ("setup.cfg" if os.path.exists(os.path.join(folder, "setup.py")) else "pyproject.toml")
    old = texts[name]
    section = _section(name, lines)
    if old is None:
        return Proposal((ProposedFile(name, section.encode()),))
    new = _added(old, section)
    before, after = _plain(name, old), _plain(name, new, ours=True)
    if _without_us(name, after) != _without_us(name, before) or _own_table(name, after) is None:
        return Proposal(notes=(f"add this to {name}:\n{section}",))
    return Proposal((ProposedFile(name, new, old),))


def _section(name: str, settings: Sequence[tuple[str, str | list[str]]]) -> str:
    """Return our section as text."""
    lines = ["# see 'distcheck rules' for what can be selected and ignored"]
    if name.endswith(".toml"):
        lines.append("[tool.distcheck]")
        lines.extend(f"{key} = {_toml_value(value)}" for key, value in settings)
    else:
        lines.append("[distcheck]")
        lines.extend(f"{key} = {value if isinstance(value, str) else ','.join(value)}" for key, value in settings)
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    import json

    # of texts, JSON's form is one that TOML reads as well (TOML 1.0, basic strings)
    return json.dumps(value, ensure_ascii=False)


def _with_key(name: str, old: bytes, key: str, value: str) -> Proposal:
    """Return a proposal with one more key in our section."""
    is_toml = name.endswith(".toml")
    line = f"{key} = {_toml_value(value) if is_toml else value}"
    header = (
        rb"(?m)^[ \t]*\[[ \t]*tool[ \t]*\.[ \t]*distcheck[ \t]*\][^\r\n]*"
        if is_toml
        else rb"(?m)^\[distcheck\][^\r\n]*"
    )
    match = re.search(header, old)
    by_hand = Proposal(notes=(f"add this to distcheck's section in {name}:\n{line}\n",))
    if match is None:
        return by_hand
    end = _newline(old)
    new = old[: match.end()] + end + line.encode() + old[match.end() :]
    before, after = _plain(name, old), _plain(name, new, ours=True)
    expected = {**(_own_table(name, before) or {}), key: value}
    if _own_table(name, after) != expected or _without_us(name, after) != _without_us(name, before):
        return by_hand
    return Proposal((ProposedFile(name, new, old),))


def _plain(name: str, data: bytes, *, ours: bool = False) -> Mapping[str, Any]:
    """Return the tables of a configuration file; {} if our own change made it invalid."""
    from distcheck.core.configuration import parse_settings

    try:
        return parse_settings(name, data.decode("utf-8").removeprefix("\ufeff"))
    except Exception as error:
        # the parsers raise their own errors, all with a message that shows the location
        from configparser import Error

        if not isinstance(error, (ValueError, Error)):
            raise
        if ours:
            return {}
        raise Unreadable(f"{name} can't be read, and is not changed: {str(error).splitlines()[0]}") from None


def _own_table(name: str, plain: Mapping[str, Any]) -> Mapping[str, Any] | None:
    tool = plain.get("tool", {}) if name.endswith(".toml") else plain
    table = tool.get("distcheck") if isinstance(tool, Mapping) else None
    return table if isinstance(table, Mapping) else None


def _without_us(name: str, plain: Mapping[str, Any]) -> Mapping[str, Any]:
    if not name.endswith(".toml"):
        return {key: value for key, value in plain.items() if key != "distcheck"}
    tool = {key: value for key, value in plain.get("tool", {}).items() if key != "distcheck"}
    return {**{key: value for key, value in plain.items() if key != "tool"}, **({"tool": tool} if tool else {})}


def _foreign(folder: str) -> list[str]:
    """Return folders with third-party code: by their names, and the submodules."""
    found = [name for name in _FOREIGN if os.path.isdir(os.path.join(folder, name))]
    modules = _read(folder, ".gitmodules")
    if modules is not None:
        text = modules.decode("utf-8", "replace")
        found += [match[1].strip() for match in re.finditer(r"(?m)^[ \t]*path[ \t]*=(.*)$", text)]
    inside = [name for name in dict.fromkeys(found) if name and name.split("/")[0] not in DEFAULT_EXCLUDES]
    # folders below an excluded folder are excluded with it
    # a pattern could exclude all files
    inside = [name for name in inside if re.fullmatch(r"[\w+-][\w ./+-]*", name)]
    return [name for name in inside if not any(name.startswith(f"{other}/") for other in inside)]


def _baseline(folder: str, text: bytes) -> Proposal:
    if _read(folder, BASELINE) is not None:
        return Proposal(settled=(f"{BASELINE} is there",))
    return Proposal((ProposedFile(BASELINE, text),))


# GitHub


def _github(folder: str, installation: Installation) -> Proposal:
    workflows = os.path.join(folder, ".github", "workflows")
    names = sorted(os.listdir(workflows)) if os.path.isdir(workflows) else []
    for name in names:
        is_one = name.endswith((".yml", ".yaml")) and os.path.isfile(os.path.join(workflows, name))
        text = _read(folder, f".github/workflows/{name}") if is_one else None
        if text is not None and b"distcheck" in text:
            return Proposal(settled=(f".github/workflows/{name} runs distcheck",))
    if os.path.lexists(os.path.join(folder, GITHUB_FILE)):
        return Proposal(notes=(f"{GITHUB_FILE} exists and does not name distcheck; it is not changed",))
    return Proposal((ProposedFile(GITHUB_FILE, github_workflow(installation).encode()),))


def github_workflow(installation: Installation) -> str:
    """Return a workflow that checks each pull request."""
    steps = _steps(installation, "      - run: ")
    return f"""\
# written by 'distcheck init', and yours to change
name: distcheck

on:
  push:
    branches: [main, master]
  pull_request:

permissions:
  contents: read

jobs:
  distcheck:
    runs-on: ubuntu-latest
    timeout-minutes: 10
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v6
        with:
          python-version: "3.12"
{steps}      - run: {installation.program} ci --profile ci --output-format github --summary "$GITHUB_STEP_SUMMARY"
"""


# GitLab


def _steps(installation: Installation, start: str) -> str:
    """Return the line that installs distcheck, with a comment; "" if it runs from a file."""
    if not installation.requirement:
        return ""
    column = " " * (len(start) - len(start.lstrip()))
    comment = f"{column}# where torch is installed as well, two ranks verify every collective\n"
    return f'{comment}{start}python -m pip install "{installation.requirement}"\n'


def _gitlab(folder: str, installation: Installation) -> Proposal:
    old = _read(folder, GITLAB_FILE)
    if old is not None and b"distcheck" in old:
        return Proposal(settled=(f"{GITLAB_FILE} runs distcheck",))
    if old is None:
        return Proposal((ProposedFile(GITLAB_FILE, gitlab_job(installation).encode()),))
    keys = _top_level(GITLAB_FILE, old)
    stages = keys.get("stages")
    names = [name for name in stages if isinstance(name, str)] if isinstance(stages, list) else []
    stage = None if "test" in names else next(iter(names), None)
    job: tuple[ProposedFile, ...] = ()
    if _read(folder, GITLAB_JOB) is None:
        job = (ProposedFile(GITLAB_JOB, gitlab_job(installation, stage).encode()),)
    line = f"  - local: {GITLAB_JOB}\n"
    if "include" in keys:
        return Proposal(job, notes=(f"add this to the list under 'include:' in {GITLAB_FILE}:\n{line}",))
    new = _added(old, f"include:\n{line}")
    try:
        after = _top_level(GITLAB_FILE, new)
    except Unreadable:
        after = {}
    if after != {**keys, "include": [{"local": GITLAB_JOB}]}:
        return Proposal(job, notes=(f"add this to {GITLAB_FILE}:\ninclude:\n{line}",))
    return Proposal((*job, ProposedFile(GITLAB_FILE, new, old)))


def gitlab_job(installation: Installation, stage: str | None = None) -> str:
    """Return a job whose findings are shown in the merge request."""
    steps = _steps(installation, "    - ")
    if stage is not None and not re.fullmatch(r"[A-Za-z][\w-]*", stage):
        stage = _toml_value(stage)  # YAML reads it as well, and a line break stays in the text
    where = f"  stage: {stage}\n" if stage is not None else ""
    return f"""\
# written by 'distcheck init', and yours to change
distcheck:
{where}  image: python:3.12-slim
  script:
{steps}    - {installation.program} ci --profile ci --also gitlab=gl-code-quality-report.json
  artifacts:
    when: always
    reports:
      codequality: gl-code-quality-report.json
"""


# pre-commit


def _pre_commit(folder: str, installation: Installation) -> Proposal:
    name = _first(folder, PRE_COMMIT_FILES) or PRE_COMMIT_FILES[0]
    old = _read(folder, name)
    if old is None:
        return Proposal((ProposedFile(name, b"repos:\n" + _indented(pre_commit_hook(installation), 2).encode()),))
    if b"distcheck" in old:
        return Proposal(settled=(f"{name} runs distcheck",))
    hook = pre_commit_hook(installation)
    by_hand = Proposal(notes=(f"add this to 'repos:' in {name}:\n{_indented(hook, 2)}",))
    keys = _top_level(name, old)
    place = _end_of_list(old, "repos")
    if place is None or not isinstance(keys.get("repos"), list):
        return by_hand
    position, column = place
    text = _indented(hook, column).encode().replace(b"\n", _newline(old))
    before = old[:position]
    new = before + (b"" if before.endswith(b"\n") else _newline(old)) + text + old[position:]
    import yaml

    try:
        after = _top_level(name, new)
    except Unreadable:
        return by_hand
    if after != {**keys, "repos": [*keys["repos"], *yaml.safe_load(hook)]}:
        return by_hand
    return Proposal((ProposedFile(name, new, old),))


def pre_commit_hook(installation: Installation) -> str:
    """Return an item of the list of repositories: our linter, installed by pre-commit."""
    # pre-commit resolves a path in its own folder, so the installed distcheck runs instead
    how = f'language: python\n      additional_dependencies: ["{installation.requirement}"]'
    return f"""\
- repo: local
  hooks:
    - id: distcheck-lint
      name: distcheck lint
      entry: {installation.program} lint --force-exclude
      {how if installation.anywhere else "language: system"}
      files: '{HOOK_FILES}'
      require_serial: true
"""


def _end_of_list(data: bytes, key: str) -> tuple[int, int] | None:
    """Return where to add an item to a top-level list of a YAML file: the byte, and the column of its dash.

    None if the list is in brackets, or empty.
    """
    import yaml

    text = data.decode("utf-8")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for name, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if name.value != key or not isinstance(value, yaml.SequenceNode) or value.flow_style or not value.value:
            continue
        # the node ends where the next one begins: comments and empty lines between the two belong to that
        lines = text[: value.end_mark.index].splitlines(keepends=True)
        while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            lines.pop()
        return len("".join(lines).encode("utf-8")), value.start_mark.column
    return None


def _top_level(name: str, data: bytes) -> Mapping[str, Any]:
    """Return the last document of a YAML file. A tag of a CI system (``!reference``) is read as its value."""
    import yaml

    class AnyTagLoader(yaml.SafeLoader):
        """A loader that accepts all tags."""

    def of_any_tag(loader: Any, _suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    AnyTagLoader.add_multi_constructor("!", of_any_tag)
    try:
        text = data.decode("utf-8")
        if any(_expanded(node, {}) > _MOST_VALUES for node in yaml.compose_all(text, Loader=AnyTagLoader)):
            raise Unreadable(f"{name} can't be read, and is not changed: its aliases stand for too many values")
        documents = list(yaml.load_all(text, Loader=AnyTagLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(f"{name} can't be read, and is not changed: {' '.join(str(error).split())}") from None
    last = documents[-1] if documents else None
    if last is not None and not isinstance(last, dict):
        raise Unreadable(f"{name} can't be read, and is not changed: it is not a mapping")
    return last or {}


def _expanded(node: Any, known: dict[int, float]) -> float:
    """Return how many values a node stands for, with each use of an alias; infinity if it holds itself.

    :param known: the same by the identity of nodes
    """
    if id(node) not in known:
        known[id(node)] = float("inf")
        parts = [] if isinstance(node.value, str) else node.value
        known[id(node)] = 1 + sum(
            _expanded(one, known) for part in parts for one in (part if isinstance(part, tuple) else (part,))
        )
    return known[id(node)]


# files


def path_of(folder: str, name: str) -> str:
    """Return the path of a file of the repository; raises Unreadable if a link leads out of the checkout."""
    path = os.path.join(folder, *name.split("/"))
    root, target = os.path.realpath(checkout_of(os.path.abspath(folder)) or folder), os.path.realpath(path)
    if not target.startswith(os.path.join(root, "")):
        raise Unreadable(f"a link leads from {name} to {target}, outside of the checkout, and nothing is written")
    return path


def _read(folder: str, name: str) -> bytes | None:
    """Return the bytes of a file of the repository, or None."""
    path = path_of(folder, name)
    try:
        return read_ordinary(path, _LONGEST) if os.path.lexists(path) else None
    except OSError as error:
        raise Unreadable(f"{name} can't be read, and is not changed: {error.strerror}") from None


def _first(folder: str, names: Sequence[str]) -> str | None:
    return next((name for name in names if os.path.lexists(os.path.join(folder, name))), None)


def _remotes(folder: str) -> str:
    """Return the addresses of the repository's remotes, in lower case."""
    try:
        data = _read(folder, ".git/config")
    except Unreadable:
        return ""
    text = (data or b"").decode("utf-8", "replace").lower()
    return "\n".join(match[1] for match in re.finditer(r"(?m)^[ \t]*(?:push)?url[ \t]*=(.*)$", text))


def _added(old: bytes, section: str) -> bytes:
    """Return a file with a section appended, with the line endings of the file."""
    end = _newline(old)
    gap = b"" if not old.strip() else (b"" if old.endswith(b"\n") else end) + end
    return old + gap + section.encode().replace(b"\n", end)


def _newline(data: bytes) -> bytes:
    return b"\r\n" if data.count(b"\r\n") * 2 > data.count(b"\n") else b"\n"


def _indented(text: str, columns: int) -> str:
    import textwrap

    return textwrap.indent(text, " " * columns)
