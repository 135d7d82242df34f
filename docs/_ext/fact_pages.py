"""The facts that a probe may request, as one page: what each holds, and who reads it.

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

#: The packages whose modules register readers and probes, and what their facts are about.
PACKAGES = {
    "core": "The project and the site",
    "launch": "The launch",
    "checks.host": "One process and one host",
    "checks.cluster": "Many hosts, side by side",
    "runtime": "Live ranks",
    "checks.source": "Training scripts",
    "checks.launch_files": "Launch files",
    "checks.pickles": "Pickles and objects",
    "checks.logs": "Logs",
}
HEAD = """# Facts

A [probe of your own](plugins.md) names these types as annotations of its parameters and is called with their values;
with `| Unavailable` behind a name it is called where the fact can't be had as well. Facts with a reader are read when a
probe requests them; the others are given by the command: the launch to every run of `distcheck env`, the timeline to
`distcheck log`. All are immutable. Fields may come with a new release; none changes its meaning.

"""


def facts() -> dict[type, bool]:
    """Return every fact that a reader makes or a probe requests, by module and name; true if it has a reader."""
    for name in PACKAGES:
        package = importlib.import_module(f"distcheck.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"distcheck.{name}."):
            # what simulates devices needs torch, and holds no facts
            if ".fake_cuda" not in module.name:
                importlib.import_module(module.name)
    read = registry.readers()
    requested = {one.type for probe in registry.probes() for one in registry.parameters(probe.function)}
    found = {made for made in {*read, *requested} if made.__module__.startswith("distcheck.")}
    return {made: made in read for made in sorted(found, key=lambda made: (made.__module__, made.__name__))}


def fact_page() -> str:
    """The document, by package."""
    everything = facts()
    parts = [HEAD]
    for name, title in PACKAGES.items():
        here = [made for made in everything if made.__module__.startswith(f"distcheck.{name}.")]
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
    """Return the comments ``#:`` above the fields."""
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
