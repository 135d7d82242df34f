"""The registry of readers, probes and rules: the decorators ``@fact`` and ``@probe``, and plug-ins.

Modules register what they have when they are imported. Annotations are resolved once, and only for what a plan needs,
so that an import costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .model import Finding, Rule, Unavailable

if TYPE_CHECKING:
    from .signature import Signature

Function = TypeVar("Function", bound=Callable[..., Any])

#: The entry-point group whose modules register their own facts, probes and rules when they are imported.
PLUG_IN_GROUP = "distcheck.plugins"


class RegistrationError(Exception):
    """The declaration of a fact or probe can't work."""


class Parameter(NamedTuple):
    """A fact that a reader or probe needs; ``optional`` if it also accepts Unavailable."""

    name: str
    type: type
    optional: bool


class Reader(NamedTuple):
    """A function that makes one fact."""

    type: type
    function: Callable[..., Any]
    #: its time limit in seconds, or a function of the same facts that returns it
    limit_s: float | Callable[..., float]
    #: run in a child process, because it may hang in the kernel
    isolated: bool
    #: it describes this host or this process: unavailable for a job that runs elsewhere
    of_this_host: bool
    #: it describes what one launch names (its port, its script): invalid for another launch
    of_launch: bool

    def limit_for(self, values: list[Any]) -> float:
        """Return the time limit in seconds for these facts."""
        return self.limit_s(*values) if callable(self.limit_s) else self.limit_s


class Probe(NamedTuple):
    """A pure function from facts to findings."""

    name: str
    rules: tuple[Rule, ...]
    function: Callable[..., Iterable[Finding]]
    #: ``host``: the result is the same for all ranks of a host; ``process``: it may differ by rank
    per: str


class _Registry:
    """The only mutable module state of distcheck."""

    def __init__(self) -> None:
        self.readers: dict[type, Reader] = {}
        self.probes: dict[str, Probe] = {}
        self.rules: dict[str, Rule] = {}
        self.signatures: list[Signature] = []


_registry = _Registry()


def fact(
    *,
    limit_s: float | Callable[..., float] = 1.0,
    isolated: bool = False,
    of_this_host: bool = True,
    of_launch: bool = False,
) -> Callable[[Function], Function]:
    """Register a reader. Its return annotation names the fact. Its annotated parameters are the facts that it needs.

    :param limit_s: seconds after which the fact is unavailable (DC902); a function gets what the reader gets
    :param isolated: read it in a child process, forked before any thread: for what may hang in the kernel.
        Such a reader may need only facts that are given to the run
    :param of_this_host: false for what is also known about a job that runs elsewhere (its command, its settings)
    :param of_launch: it describes what one launch names (its port, its script), and is invalid for another launch
    :raises RegistrationError: the return annotation is no type that the module knows
    """

    def register(function: Function) -> Function:
        made, _ = _resolve(function, function.__annotations__.get("return"))
        _registry.readers[made] = Reader(made, function, limit_s, isolated, of_this_host, of_launch)
        return function

    return register


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a reader or a probe as reports show it: ``host.ports.master_port_is_free``."""
    module = function.__module__.removeprefix("distcheck.").removeprefix("checks.").removeprefix("runtime.")
    return f"{module}.{function.__name__}"


def probe(*rules: Rule, per: str = "host") -> Callable[[Function], Function]:
    """Register a probe for one or more rules. Its annotated parameters are the facts that it needs.

    With ``Gpus | Unavailable`` it also runs if that fact can't be read. Its name is ``module.function``.

    :param rules: the rules of its findings
    :param per: ``process`` if the result may differ between the ranks of a host, else ``host``
    :raises RegistrationError: no rule, or another value of ``per``
    """
    if not rules or per not in ("host", "process"):
        raise RegistrationError("a probe names at least one rule, and judges per 'host' or per 'process'")

    def register(function: Function) -> Function:
        name = name_of(function)
        _registry.probes[name] = Probe(name, rules, function, per)
        return function

    return register


def register_rule(rule: Rule) -> Rule:
    """Register a rule, so that it can be selected, listed and explained.

    :param rule: the rule; the code of a plug-in's rule does not begin with ``DC``
    :returns: the same rule, for ``SITE101 = register_rule(Rule(…))``
    """
    _registry.rules[rule.code] = rule
    return rule


def register_signature(signature: Signature) -> Signature:
    """Register a text to search for in logs. A plug-in's probe finds it in the timeline by its name.

    :param signature: the text
    :returns: the same signature
    """
    _registry.signatures.append(signature)
    return signature


def plug_in_signatures() -> tuple[Signature, ...]:
    """Return the signatures of plug-ins."""
    return tuple(_registry.signatures)


def readers() -> dict[type, Reader]:
    """Return all readers by the type of their fact."""
    return dict(_registry.readers)


def probes() -> tuple[Probe, ...]:
    """Return all probes, in the order of their registration."""
    return tuple(_registry.probes.values())


def rules() -> dict[str, Rule]:
    """Return all rules by code: those of the catalogue, once :mod:`distcheck.rules` is imported, and of plug-ins."""
    return dict(_registry.rules)


def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the facts that a reader or probe needs; raises RegistrationError for a parameter without a known type."""
    function = getattr(function, "__wrapped__", function)
    found = []
    code = function.__code__
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        made, optional = _resolve(function, function.__annotations__.get(name), name)
        found.append(Parameter(name, made, optional))
    return tuple(found)


def _resolve(function: Callable[..., Any], annotation: Any, name: str = "return") -> tuple[type, bool]:
    """Return an annotation as a type, and whether it includes Unavailable."""
    place = f"{function.__module__}.{function.__name__}"
    if annotation is None:
        raise RegistrationError(f"{place}: {name!r} has no annotation; name the fact's type")
    if isinstance(annotation, str):
        parts = [_look_up(function, part.strip(), place) for part in annotation.split("|")]
    else:
        parts = list(getattr(annotation, "__args__", (annotation,)))
    optional = Unavailable in parts
    types = [part for part in parts if part is not Unavailable]
    if len(types) != 1 or not isinstance(types[0], type):
        raise RegistrationError(f"{place}: {name!r} names no single fact: {annotation}")
    return types[0], optional


def _look_up(function: Callable[..., Any], dotted: str, place: str) -> Any:
    first, *rest = dotted.split(".")
    found = function.__globals__.get(first)
    for part in rest:
        found = getattr(found, part, None)
    if found is None:
        raise RegistrationError(f"{place}: {dotted!r} is not known in that module")
    return found


def load_plug_ins(python_path: Iterable[str]) -> Iterator[tuple[str, BaseException | None]]:
    """Import the modules of the entry-point group. Yield each name with its error, or None.

    This reads the ``entry_points.txt`` of the installed packages directly. importlib.metadata takes longer than the
    rest of the start of a run without plug-ins.
    """
    for name, module in _find_plug_ins(python_path):
        try:
            __import__(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in is foreign code: the others must load
            yield name, error
        else:
            yield name, None


def has_plug_ins(python_path: Iterable[str]) -> bool:
    """Return whether a package with plug-ins is installed, or a plug-in has registered a rule."""
    foreign = any(not code.startswith("DC") for code in _registry.rules)
    return foreign or any(True for _ in _find_plug_ins(python_path))


def _find_plug_ins(python_path: Iterable[str]) -> Iterator[tuple[str, str]]:
    import os

    group = f"[{PLUG_IN_GROUP}]".encode()
    seen = set()
    for folder in dict.fromkeys(python_path):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb", buffering=0) as file:
                    text = file.read()
            except OSError:
                continue
            if group not in text:
                continue
            for line in text.split(group, 1)[1].decode("utf-8", "replace").splitlines()[1:]:
                if line.startswith("["):
                    break
                plug_in, equals, module = line.partition("=")
                if equals and plug_in.strip() not in seen:
                    seen.add(plug_in.strip())
                    yield plug_in.strip(), module.split(":")[0].split("[")[0].strip()
