"""GitHub workflows and composite actions: the commands of their steps, with the variables of three levels.

Source: GitHub's reference (docs.github.com, workflow syntax). The ``env`` of a step overrides that of its job, and this
that of the workflow. The shell of ``run`` follows the same order. ``${{ }}`` is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .fragments import Fragment
from .model import FileSetting, LaunchFile, LookUp
from .plain_commands import FileContents, as_written, with_lost
from .yaml_text import Node, read_yaml

#: Limit of jobs and steps in a file; real ones have tens.
_MAX_STEPS = 5000


_NAME = lazy(r"\b([A-Za-z_]\w*)(?==|<<)")


class _WorkflowStep(NamedTuple):
    run: Node
    environ: Mapping[str, FileSetting]
    #: of the job
    name: str
    folder: str | None
    conditions: tuple[str, ...]


def read_workflow(path: str, text: str, look_up: LookUp) -> LaunchFile:
    """Return the contents of a workflow. Never raises: unreadable parts are problems of the file."""
    from .shell import read_shell

    yaml = read_yaml(Fragment(text, path))
    contents = FileContents()
    contents.problems.extend(yaml.problems)
    contents.comments.extend(yaml.comments)
    lost: dict[str, FileSetting] = {}
    handed_on: dict[str, FileSetting] = {}
    job: str | None = None
    lines = text.split("\n")
    for document in yaml.documents:
        for found in _settings_and_steps(document):
            if isinstance(found, FileSetting):
                contents.settings.append(found)
                continue
            if found.name != job:
                job, lost, handed_on = found.name, {}, {}
            fragment = found.run.fragment()
            read = read_shell(fragment, look_up, kind="workflow", environ={**handed_on, **found.environ})
            sites = (
                site._replace(
                    routine=found.name,
                    conditions=(*found.conditions, *site.conditions),
                    folder=_below(found.folder, site.folder),
                )
                for site in as_written(with_lost(read.sites, lost), path, lines)
            )
            contents.add(read._replace(sites=tuple(sites)))
            # each step is a separate shell
            lost.update({setting.name: setting for setting in read.settings if setting.reach == "exported"})
            if "GITHUB_ENV" in fragment.text:
                # later steps get what a step writes there, with a value that only the shell knows
                for name in _NAME.findall(fragment.text):
                    lost.pop(name, None)
                    handed_on[name] = FileSetting(name, None, found.run.span, found.run.span, None, "workflow", False)
    return contents.file(path, "workflow")


def _settings_and_steps(root: Node) -> Iterator[FileSetting | _WorkflowStep]:
    """Yield the variables that the file sets and the steps with commands, in order."""
    own = table_of_variables(root.get("env"))
    yield from own.values()
    jobs = root.get("jobs")
    left = _MAX_STEPS
    for name, job in jobs.table.items() if jobs is not None else ():
        of_job = table_of_variables(job.get("env"))
        yield from of_job.values()
        in_container = table_of_variables(job.get("container", "env"))
        yield from in_container.values()
        steps = job.get("steps")
        windows = "windows" in _text(job.get("runs-on")).lower()
        for step in steps.items if steps is not None else ():
            left -= 1
            if left < 0:
                return
            of_step = table_of_variables(step.get("env"))
            yield from of_step.values()
            shell = _first_text(
                step.get("shell"), job.get("defaults", "run", "shell"), root.get("defaults", "run", "shell")
            )
            run = step.get("run")
            if run is None or not _text(run).strip() or not _is_shell(shell, windows=windows):
                continue
            folder = _first_text(
                step.get("working-directory"),
                job.get("defaults", "run", "working-directory"),
                root.get("defaults", "run", "working-directory"),
            )
            conditions = tuple(text for text in (_text(job.get("if")), _text(step.get("if"))) if text)
            yield _WorkflowStep(run, {**own, **of_job, **in_container, **of_step}, name, folder, conditions)
    steps = root.get("runs", "steps")
    for step in steps.items[:_MAX_STEPS] if steps is not None else ():
        of_step = table_of_variables(step.get("env"))
        yield from of_step.values()
        run = step.get("run")
        if run is not None and _text(run).strip() and _is_shell(_first_text(step.get("shell")), windows=False):
            condition = _text(step.get("if"))
            yield _WorkflowStep(
                run, of_step, "runs", _first_text(step.get("working-directory")), (condition,) if condition else ()
            )


def table_of_variables(node: Node | None) -> dict[str, FileSetting]:
    """Return the variables of an ``env`` that is a table, with their locations."""
    found: dict[str, FileSetting] = {}
    for name, value in node.table.items() if node is not None else ():
        if value.kind != "value":
            continue
        key = node.keys[name] if node is not None else value
        # GitHub uses the text as written; a plain word is no number or truth value
        known = None if value.open_ended or "${{" in value.text else value.text
        span = key.source.fragment.span(key.start, max(value.end, key.end))
        found[name] = FileSetting(name, known, span, key.span, value.span, "workflow", written=value.written)
    return found


def _text(node: Node | None) -> str:
    return node.text if node is not None and node.kind == "value" else ""


def _first_text(*nodes: Node | None) -> str | None:
    """Return the text of the first existing node, or None. A syntax error may hide a node."""
    for node in nodes:
        if node is not None and (node.text or not node.open_ended):
            return node.text if node.kind == "value" else None
    return None


def _is_shell(shell: str | None, *, windows: bool) -> bool:
    if shell is None:
        return not windows
    program = shell.split()[0].rpartition("/")[2] if shell.strip() else ""
    return program in ("bash", "sh", "zsh") or shell.startswith("${{")


def _below(folder: str | None, inner: str | None) -> str | None:
    """Return the folder of a command: a step starts in the folder of the repository, like the paths here."""
    if folder is None:
        return inner
    if "${{" in folder or inner is None or inner.startswith("/"):
        return None
    return f"{folder.removeprefix('./').rstrip('/')}/{inner}".rstrip("/.") or folder
