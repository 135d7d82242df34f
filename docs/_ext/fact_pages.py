"""The facts that a probe may ask for, as one page: what each holds, and who reads it.

They are found as the checker finds them: by the annotations of all readers and probes that register themselves.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import Any

from error_index import code_span

import distcheck
from distcheck.core import registry

#: The rooms whose modules register readers and probes, and what their facts are about.
ROOMS = {
    "configuration": "The project and the site",
    "launch": "The launch",
    "environment": "One process and one host",
    "cluster": "Many hosts, side by side",
    "collectives": "A live process group",
    "source": "Training scripts",
    "launchfiles": "Launch files",
    "pickles": "Pickles and objects",
    "logs": "Logs",
    "rehearsal": "A job that runs",
}
HEAD = """# Facts

A [probe of your own](plugins.md) names these types as annotations of its parameters and is called with their values;
with `| Unavailable` behind a name it is called where the fact can't be had as well. Facts with a reader are read when a
probe asks for them; the others are given by the command: the launch to every run of `distcheck env`, the timeline to
`distcheck log`. All are immutable. Fields may come with a new release; none changes its meaning.

"""


def facts() -> dict[type, bool]:
    """Every fact that a reader makes or a probe of ours asks for, by module and name; true where it has a reader."""
    for room in ROOMS:
        package = importlib.import_module(f"distcheck.{room}")
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"distcheck.{room}."):
            # what pretends devices needs torch, and holds no facts
            if ".pretended" not in module.name:
                importlib.import_module(module.name)
    read = registry.readers()
    asked = {one.type for probe in registry.probes() for one in registry.parameters(probe.function)}
    found = {made for made in {*read, *asked} if made.__module__.startswith("distcheck.")}
    return {made: made in read for made in sorted(found, key=lambda made: (made.__module__, made.__name__))}


def fact_page() -> str:
    """The document, by room."""
    everything = facts()
    parts = [HEAD]
    for room, title in ROOMS.items():
        here = [made for made in everything if made.__module__.split(".")[1] == room]
        if here:
            parts.append(f"## {title}\n")
            parts.extend(_fact(made, has_reader=everything[made]) for made in here)
    return "\n".join(parts)


def _fact(made: type, *, has_reader: bool) -> str:
    origin = "" if has_reader else " It is given by the command."
    lines = [f"### {made.__name__}\n", f"{_markdown(inspect.getdoc(made) or '')}{origin}\n"]
    lines.append(f"```python\nfrom {_public_home(made)} import {made.__name__}\n```\n")
    notes = _notes(made)
    fields: tuple[str, ...] = getattr(made, "_fields", ())
    for name in fields:
        kind = made.__annotations__.get(name, "")
        lines.append(f"- `{name}`: {code_span(_type(kind))}" + (f": {_markdown(notes[name])}" if name in notes else ""))
    return "\n".join(lines) + "\n"


def _public_home(made: type) -> str:
    return "distcheck" if made.__name__ in distcheck.__all__ else made.__module__


def _type(annotation: Any) -> str:
    for name in ("__forward_arg__", "__name__"):
        if hasattr(annotation, name):
            return str(getattr(annotation, name))
    return str(annotation)


def _notes(made: type) -> dict[str, str]:
    """What the comments ``#:`` above the fields say."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    for line in inspect.getsource(made).splitlines():
        text = line.strip()
        if text.startswith("#:"):
            waiting.append(text.removeprefix("#:").strip())
            continue
        match = re.match(r"(\w+): ", text)
        if match and waiting:
            found[match[1]] = " ".join(waiting)
        waiting = []
    return found


def _markdown(text: str) -> str:
    """A docstring's reStructuredText as Markdown: its literals, its roles, its lists of parameters."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", text)
    text = re.sub(r"``(.+?)``", lambda match: code_span(match[1]), text, flags=re.DOTALL)
    text = re.sub(r"^:param (\w+):", r"- `\1`:", text, flags=re.MULTILINE)
    return re.sub(r"(?<!\n)\n(- `)", r"\n\n\1", text, count=1)
