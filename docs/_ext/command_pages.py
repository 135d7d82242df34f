"""The pages of the commands for the documentation, from click's own declarations.

sphinx-click would make one list of all options; ours stand in the sections that ``--help`` has, with the variable that
mirrors each.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import click
from error_index import code_span

from distcheck.cli.main import COMMANDS, CONTEXT, SYMPTOMS, group
from distcheck.cli.options import GroupedCommand

#: The page that describes a command at length, where its name is another one.
GUIDES = {"run": "log", "pickle": "pickle", "diff": "env", "explain": "errors", "rules": "rules"}


def pages(documents: Iterable[str]) -> dict[str, str]:
    """All documents about commands by name; ``documents`` are those that guides may link to."""
    guides = set(documents)
    settings: dict[str, Any] = dict(CONTEXT)
    context = click.Context(group, info_name="distcheck", **settings)
    made = {"cli/index": overview()}
    for name in COMMANDS:
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(f"the table of commands names {name!r}, and click does not know it")
        guide = GUIDES.get(name, name)
        made[f"cli/{name}"] = command_page(
            name, command, context, guide if guide in guides or guide == "errors" else None
        )
    return made


def overview() -> str:
    """The group: from symptom to command, then the commands."""
    symptoms = "\n".join(f"| {text} | {code_span(command)} |" for text, command in SYMPTOMS)
    commands = "\n".join(f"| [`distcheck {name}`]({name}.md) | {text} |" for name, (_, text) in COMMANDS.items())
    entries = "\n".join(COMMANDS)
    return (
        f"# Commands\n\n## What you see, and what to type\n\n| you see | type |\n| --- | --- |\n{symptoms}\n\n"
        f"## All commands\n\n| command | what it does |\n| --- | --- |\n{commands}\n\n"
        "Each option has a variable that is equivalent, for cases where a command line can't be changed. The line "
        "wins over the variable, and the variable over the configuration.\n\n"
        f"## Exit status\n\n{_prose(group.help or '').rsplit('Exit status: ', 1)[-1]}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    )


def command_page(name: str, command: click.Command, parent: click.Context, guide: str | None) -> str:
    """One command: usage, what it does, its options by section, its epilog."""
    settings: dict[str, Any] = {"auto_envvar_prefix": f"DISTCHECK_{name.upper()}", **command.context_settings}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"# distcheck {name}\n", f"```text\n{usage}\n```\n", _prose(command.help or "")]
    if guide is not None:
        parts.append(f"[What it does in detail](../{guide}.md)\n")
    for title, options in _sections(command, context).items():
        if options:
            parts.append(f"## {title}\n")
            parts.extend(_option(option, context) for option in options)
    if command.epilog:
        parts.append("## More\n")
        parts.append(_prose(command.epilog))
    return "\n".join(parts)


def _sections(command: click.Command, context: click.Context) -> Mapping[str, list[click.Option]]:
    """The options by the title under which ``--help`` shows them."""
    grouped = command if isinstance(command, GroupedCommand) else None
    found: dict[str, list[click.Option]] = {title: [] for title in (grouped.sections if grouped else ("Options",))}
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            title = grouped.section_of(parameter.name) if grouped else "Options"
            found.setdefault(title, []).append(parameter)
    return found


def _option(option: click.Option, context: click.Context) -> str:
    """One option as an entry of a definition list."""
    # hidden options were dropped before
    spelling, text = option.get_help_record(context) or (f"--{option.name}", "")
    variable = _variable(option, context)
    lines = [f"{code_span(spelling)}", f": {_escape(text) or 'See above.'}"]
    if variable:
        lines.append(f"  Variable: `{variable}`.")
    return "\n".join(lines) + "\n"


def _variable(option: click.Option, context: click.Context) -> str | None:
    """Return the variable that is equivalent to an option, None where it has none."""
    if option.is_eager:  # --help, --version
        return None
    if option.envvar is not None:
        return option.envvar if isinstance(option.envvar, str) else ", ".join(option.envvar)
    if not option.allow_from_autoenv or context.auto_envvar_prefix is None or option.name is None:
        return None
    return f"{context.auto_envvar_prefix}_{option.name.upper()}"


def _prose(text: str) -> str:
    """Help as Markdown: paragraphs are prose, and what click must not wrap stays as it is."""
    made = []
    for block in inspect.cleandoc(text.replace("\f", "")).split("\n\n"):
        if block.startswith("\b"):
            body = block.removeprefix("\b").strip("\n")
            first, _, rest = body.partition("\n")
            if rest and first.endswith(":") and not first.startswith(" "):
                made.append(_escape(first) + "\n")
                body = rest
            if not body.startswith(" ") and "\n" not in body:
                made.append(_escape(body) + "\n")
            else:
                made.append(f"```text\n{inspect.cleandoc(body)}\n```\n")
        else:
            made.append(_escape(" ".join(block.split())) + "\n")
    return "\n".join(made)


def _escape(text: str) -> str:
    """Plain text in Markdown: what would be markup there is shown as it stands."""
    for sign in "\\`*_<>[]{}|$":
        text = text.replace(sign, "\\" + sign)
    return text.replace("--", "\\-\\-")
