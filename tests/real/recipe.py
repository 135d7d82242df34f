"""What a recipe states: how a public script is run on tiny data, how far it gets, and what is reported of it.

A recipe holds no code of the script. It builds and installs nothing of a checkout.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.real import recipes

#: Where ranks ended, if not in a line of the script: after enough steps or with the script; with the script; waiting.
STEPS, FINISHED, HUNG = "steps", "finished", "stands"


class Judged(NamedTuple):
    """A finding that was read and judged."""

    code: str
    #: ``train.py:30``, relative to the folder of the run
    place: str
    true: bool
    #: one sentence
    why: str
    #: ``watch`` reports it, not ``rehearse``
    by_watch: bool = False


class Recipe(NamedTuple):
    """One script, at one commit."""

    #: owner/name
    repository: str
    commit: str
    #: relative to ``folder``; or ``-m package.module``
    script: str
    #: vision, language, diffusion, rl, …
    kind: str
    #: behind the script, in the rehearsal; ``{data}`` is the folder that ``make_data`` filled
    arguments: tuple[str, ...] = ()
    #: before the script, without options that name nodes and ranks; empty: the script starts its ranks itself
    launcher: tuple[str, ...] = ("torchrun",)
    #: folder of the checkout in which it runs
    folder: str = "."
    #: packages that it needs besides torch
    install: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    #: where ``make_data`` writes, relative to ``folder``; empty: outside the checkout
    data: str = ""
    #: nodes of the rehearsal: 2 of 2 ranks, or 1 of 4 for a script that only runs on one
    nodes: int = 2
    #: more options of ``distcheck rehearse``
    options: tuple[str, ...] = ()
    #: arguments of the run on 2 CPU ranks, if they differ
    cpu_arguments: tuple[str, ...] | None = None
    #: why the script can't run on CPUs; empty: it can
    no_cpu: str = ""
    #: optimizer steps that the rehearsal reaches at least
    steps: int = 3
    #: STEPS, FINISHED, HUNG, or the line in which the script fails
    ends: str = STEPS
    #: why the rehearsal does not get as far as GPUs would; empty: it does
    limit: str = ""
    findings: tuple[Judged, ...] = ()


class Loaded(NamedTuple):
    """A recipe and the function that makes its data."""

    name: str
    recipe: Recipe
    make_data: Callable[[Path], None]


def load(names: Iterable[str] = (), package: ModuleType = recipes) -> list[Loaded]:
    """All recipes of a package, or those whose name holds one of ``names``.

    :raises LookupError: no recipe has such a name
    """
    every = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    wanted = list(names)
    if unknown := [name for name in wanted if not any(name in one for one in every)]:
        raise LookupError(f"no recipe is called {', '.join(unknown)}")
    chosen = [one for one in every if not wanted or any(name in one for name in wanted)]
    return [_loaded(name, package) for name in chosen]


def _loaded(name: str, package: ModuleType) -> Loaded:
    module = importlib.import_module(f"{package.__name__}.{name}")
    return Loaded(name, module.RECIPE, getattr(module, "make_data", _no_data))


def _no_data(folder: Path) -> None:
    """The script makes its data itself."""
