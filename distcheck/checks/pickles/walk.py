"""One pass over an object in pickle's order, without recursion and without writing a byte.

Each object is checked once. What would stop the pickler is recorded with the steps that led there, and the pass
continues. If anything was found, a second pass finds the other paths to it. The second pass runs no code of the
objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from threading import get_ident
from types import FunctionType
from typing import Any, NamedTuple, Protocol

from . import modes, object_layout
from . import nesting_depth as depths
from .modes import COPIED, HOOKED, LEAF, PLAIN, Expansion, Mode, PicklingRefused, TooMany, describe_error
from .paths import PathStep
from .real_pickling import outcome
from .time_limit import TimeLimit, TimeLimitExceeded

#: Most findings of one walk; an object with more of them is *incomplete*.
MOST_FINDINGS = 100_000
#: Steps that the notes may hold in all, for what is nested deep.
MOST_STEPS = 10_000_000
#: Hooks that are still called below the depth at which the pickler stops: they may make new objects forever.
MOST_HOOKS_BEYOND = 10_000
#: Entries up to which an object is small.
SMALL = 16
#: Objects that contain themselves and are given to the real pickler.
MOST_QUESTIONS = 20
#: Other ways to one object that are noted.
MOST_ALIASES = 10

#: where the pass is: the stack of what it comes back to, then container, kind and label of the current step
_Here = tuple[list[Any], Any, str, Any]
_WAITING = object()  # the label of a part of an object whose turn has not come


class WalkStop(NamedTuple):
    """A location where pickling stops."""

    steps: tuple[PathStep, ...]
    value: Any
    error: str
    #: levels, where it is nested too deep
    depth: int = 0
    #: the object is what users see as one; the pickler stops in its inner parts
    whole: bool = False


class Remark(NamedTuple):
    """A member that can be pickled and has a pitfall, or whose hook has a side effect."""

    steps: tuple[PathStep, ...]
    value: Any
    why: str
    fix: str
    kind: str


class Effects(NamedTuple):
    """What a hook did besides answering."""

    why: str
    fix: str
    #: ``side-effect``, or ``change`` where it is the object that is another one now
    kind: str = "side-effect"


class Cautions(Protocol):
    """The pitfalls of objects that can be pickled."""

    def interesting(self, kind: type) -> bool:
        """Whether instances of a type may have a pitfall."""
        ...

    def __call__(self, value: Any, at_top: bool) -> tuple[str, str, str] | None:
        """Return why, fix and kind for an instance. ``at_top``: it is the root."""
        ...

    def is_final(self, kind: type) -> bool:
        """Whether nothing more will be reported about instances of a type."""
        ...


class Walk:
    """The state of one walk.

    :param caution: what is to be reported about objects that can be pickled
    :param limit: objects to check, at most
    :param frames: Python frames between the user's code and the caller of :meth:`run`
    """

    def __init__(
        self,
        mode: Mode,
        *,
        watch: TimeLimit,
        limit: int | None,
        frames: int,
        caution: Cautions,
    ) -> None:
        self.mode = mode
        self.watch = watch
        self.limit = sys.maxsize if limit is None else limit
        self.frames = frames
        self.caution = caution
        self.findings: list[WalkStop] = []
        self.remarks: list[Remark] = []
        #: why not all was checked; empty where all was
        self.unfinished: list[str] = []
        self.memo: dict[int, Any] = {}
        #: how many objects were checked
        self.objects = 0
        #: what hooks answered: the second pass reads it here
        self.expansions: dict[int, Expansion] = {}
        #: objects that a deep copy makes by code of their own class
        self.to_rebuild: list[Any] = []
        #: dicts and sets whose keys or members are not plain: what those are copied to may have no hash
        self.hashed: list[Any] = []
        self.runs_del = False
        self.scale = depths.before_measuring(mode.copying)
        self.measured = False
        self._bad: dict[int, str] = {}
        self._open: set[int] = set()
        self._marked: set[int] = set()  # those two together
        self._plans: dict[type, int] = {}
        self._curious: set[type] = set()
        self._made_by_code: set[type] = set()
        self._refused_classes: dict[type, str] = {}
        #: classes whose instances are their attributes and nothing else, without pitfalls
        self._light: set[type] = set()
        self._shapes: set[tuple[Any, ...]] = set()
        self._steps = 0
        self._beyond = 0
        self._too_deep: set[int] = set()
        #: levels of the deepest object beyond the limit
        self.deepest = 0
        self._questions = 0
        self._stopped = False

    # the pass

    def run(self, root: Any) -> None:
        """Check an object and at all that pickling it would reach."""
        memo, plans, curious, marked = self.memo, self._plans, self._curious, self._marked
        made_by_code = self._made_by_code
        atoms, superset = self.mode.atoms, self.mode.atoms.issuperset
        shapes, limit, sets_first = self._shapes, self.limit, self.mode.sets_first
        copying, light, limited, passed = self.mode.copying, self._light, self.limit < sys.maxsize, 0
        _, sequence, mapping, flat, instance, arguments, _ = self.scale
        edge = self._edge()
        stack: list[tuple[Any, str, Any, int, Any, Any]] = []
        each: Iterator[tuple[Any, Any]] = iter([(None, root)])
        kind, container, depth, label = "root", None, 0, None
        opened: int | WalkStop | None = None
        while True:
            try:
                for label, child in each:
                    cls = type(child)
                    if cls in atoms:
                        continue
                    # a small container of plain data is checked again as quickly as remembered
                    if depth <= edge:
                        if cls in light:
                            number = id(child)
                            if number in memo:
                                if number in marked:
                                    self._again(child, number, opened, (stack, container, kind, label))
                                continue
                            state = child.__dict__
                            names = tuple(state)
                            if len(names) <= SMALL and names in shapes and type(state) is dict:
                                memo[number] = child
                                if limited and passed + len(memo) > limit:
                                    self._reach_limit()
                                    return
                                if superset(map(type, state.values())):
                                    continue
                                stack.append((each, kind, container, depth, opened, label))
                                each = iter(state.items())
                                kind, container, opened = "attribute", child, None
                                depth += instance + mapping
                                break
                        elif (
                            (cls is list or cls is tuple or cls is dict)
                            and len(child) <= SMALL
                            and superset(map(type, child))
                            and (cls is not dict or superset(map(type, child.values())))
                        ):
                            passed += 1
                            if limited and passed + len(memo) > limit:
                                self._reach_limit()
                                return
                            continue
                    number = id(child)
                    if number in memo:
                        if number in marked:
                            self._again(child, number, opened, (stack, container, kind, label))
                        continue
                    memo[number] = child
                    if limited and passed + len(memo) > limit:
                        self._reach_limit()
                        return
                    if depth > edge:
                        if not self.measured:
                            self._measure()
                            _, sequence, mapping, flat, instance, arguments, _ = self.scale
                            edge = self._edge()
                            depth = self._deepen(stack, kind, container, opened)
                        self._check_depth(child, cls, depth, (stack, container, kind, label))
                    if cls is dict:
                        plain_keys = superset(map(type, child))
                        if plain_keys and superset(map(type, child.values())):
                            continue
                        stack.append((each, kind, container, depth, opened, label))
                        each = iter(child.items()) if plain_keys else iter(_keys_and_values(child, atoms))
                        kind, container, opened = "item" if plain_keys else "step", child, None
                        if copying and not plain_keys:
                            self.hashed.append(child)
                        depth += mapping
                        break
                    if cls is list or cls is tuple:
                        if superset(map(type, child)):
                            continue
                        stack.append((each, kind, container, depth, opened, label))
                        each = iter(enumerate(child))
                        kind, container = "index", child
                        if cls is list:
                            depth += sequence
                            opened = None
                        else:
                            depth += flat
                            opened = number
                            self._open.add(number)  # as _open_up() does; tuples are many
                            marked.add(number)
                        break
                    if (cls is set or cls is frozenset) and not copying:
                        if superset(map(type, child)):
                            continue
                        stack.append((each, kind, container, depth, opened, label))
                        each = iter(enumerate(child))
                        kind, container = "member", child
                        depth += flat
                        opened = None
                        if cls is frozenset or not sets_first:
                            opened = number
                            self._open_up(number)
                        break
                    plan = plans.get(cls)
                    if plan is None:
                        plan = self._plan(cls)
                    if cls in curious:
                        self._remark(child, (stack, container, kind, label))
                    if plan == PLAIN:
                        if made_by_code and cls in made_by_code:
                            self.to_rebuild.append(child)
                        state = child.__dict__
                        names = tuple(state)
                        if type(state) is dict and (names in shapes or self._plain_names(names)):
                            refused = None
                            if self._refused_classes and cls in self._refused_classes:
                                refused = self._refuse(
                                    child, self._refused_classes[cls], (stack, container, kind, label)
                                )
                            if superset(map(type, state.values())):
                                if refused is not None:
                                    self._note(refused)
                                continue
                            if len(names) > SMALL:  # instances may share one
                                if id(state) in memo:
                                    if refused is not None:
                                        self._note(refused)
                                    continue
                                memo[id(state)] = state
                            stack.append((each, kind, container, depth, opened, label))
                            each = iter(state.items())
                            kind, container, opened = "attribute", child, refused
                            depth += instance + mapping
                            break
                        plan = HOOKED
                    if plan == LEAF:
                        continue
                    expansion = self._expand(child, cls, plan, depth, (stack, container, kind, label))
                    if self._stopped:
                        self.objects = passed + len(memo)
                        return
                    if expansion is None:
                        continue
                    before, after, refusal = expansion
                    refused = None
                    if refusal is not None:
                        refused = self._refuse(child, refusal, (stack, container, kind, label))
                    stack.append((each, kind, container, depth, opened, label))
                    kind, container = "step", child
                    depth += instance
                    each, opened = iter(after), refused
                    if before:
                        stack.append((each, kind, container, depth, opened, _WAITING))
                        each, opened = iter(before), number
                        depth += arguments
                        self._open_up(number)
                    break
                else:
                    if opened is not None:
                        self._close(opened)
                    if not stack:
                        self.objects = passed + len(memo)
                        return
                    each, kind, container, depth, opened, label = stack.pop()
            except Exception as error:  # noqa: BLE001 - what is omitted is reported
                # a dict or set changed while it was checked: by another thread, or by a hook of a member
                self._give_up(f"a {type(container).__name__} could not be checked to its end ({describe_error(error)})")
                each = iter(())

    def _reach_limit(self) -> None:
        self.objects = self.limit
        self.unfinished.append(f"the limit of {self.limit:,} objects was reached")

    # by type

    def _plan(self, cls: type) -> int:
        plan = self._plans[cls] = self.mode.plan(cls)
        if plan == PLAIN and not self.mode.copying:
            refusal = self.mode.refers(cls) if self.mode.plan(type(cls)) == modes.REFERENCE else ""
            if refusal == "":  # a metaclass with a reducer of its own
                plan = self._plans[cls] = HOOKED
            elif refusal is not None:
                self._refused_classes[cls] = refusal
        if self.caution.interesting(cls):
            self._curious.add(cls)
        if self.mode.runs_to_copy(cls, plan):
            self._made_by_code.add(cls)
        if type(object_layout.defined(cls, "__del__")) is FunctionType:
            self.runs_del = True
        if plan == PLAIN and not (cls in self._curious or cls in self._made_by_code or cls in self._refused_classes):
            self._light.add(cls)
        return plan

    def _plain_names(self, names: tuple[Any, ...]) -> bool:
        if not self.mode.ordinary_names(names):
            return False
        if len(names) <= 64:
            self._shapes.add(names)
        return True

    # by object

    def _expand(self, child: Any, cls: type, plan: int, depth: int, here: _Here) -> Expansion | None:
        """What follows from an object; None where nothing does, or where pickling stops."""
        if plan == HOOKED and depth > self.scale.capacity and self.measured:
            self._beyond += 1
            if self._beyond > MOST_HOOKS_BEYOND:
                self.unfinished.append("hooks of pickling make ever new objects: given up far below the depth limit")
                self._stopped = True
                return None
        try:
            if plan in (HOOKED, COPIED):
                expansion = self._run_hooks(child, cls, plan, here)
            else:
                expansion = self.mode.expand(child, cls, plan)
        except TooMany as error:
            self._give_up(str(error))
            return None
        except PicklingRefused as error:
            self._refused(child, error, here)
            return None
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - seven types are known, others will come
            self._found(child, describe_error(error), here)
            return None
        if cls in self._made_by_code:
            self.to_rebuild.append(child)
        elif self.mode.copying and issubclass(cls, (dict, set, frozenset)):
            self.hashed.append(child)
        if not expansion.before and not expansion.after and expansion.refusal is None:
            return None
        self.expansions[id(child)] = expansion
        return expansion

    def _run_hooks(self, child: Any, cls: type, plan: int, here: _Here) -> Expansion:
        """Reduce an object through the hooks of its class. Record their side effects."""
        shot = _snapshot(child)
        effects = None
        try:
            return self.watch.run(self.mode.expand, child, cls, plan)
        except TimeLimitExceeded:
            effects = Effects(
                f"{self._hook_of(cls)} did not come back within {self.watch.limit_s:g} s, and was broken off",
                "let it only give out what the object holds: no waiting for locks, threads, files or the network",
            )
            raise PicklingRefused(f"TimeoutError: it did not come back within {self.watch.limit_s:g} s") from None
        except (SystemExit, GeneratorExit) as error:
            effects = Effects(
                f"{self._hook_of(cls)} raises {type(error).__name__} while it is pickled, which ends the program",
                "raise TypeError where the object is not to be pickled",
            )
            raise
        finally:
            changes = _changes(shot, child)
            if changes:
                effects = Effects(
                    f"pickling it changes it: {self._hook_of(cls)} {changes}",
                    "work on a copy: state = self.__dict__.copy(), and change only that",
                    "change",
                )
            if effects is not None:
                steps = self._steps_to(here)
                self.remarks.append(Remark(steps, child, effects.why, effects.fix, effects.kind))

    def _hook_of(self, cls: type) -> str:
        """The method of a class that pickling runs, by name: ``Trainer.__getstate__``."""
        names = ["__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__"]
        for name in ["__deepcopy__", *names] if self.mode.copying else names:
            for base in object_layout.bases(cls)[:-1]:
                if name in object_layout.names_of(base):
                    return f"{type.__dict__['__name__'].__get__(base)}.{name}"
        return f"what pickling calls of {type.__dict__['__name__'].__get__(cls)}"

    def _remark(self, child: Any, here: _Here) -> None:
        pitfall = self.caution(child, not here[0])
        if self.caution.is_final(type(child)):
            self._curious.discard(type(child))
            if self._plans[type(child)] == PLAIN and type(child) not in self._made_by_code | {*self._refused_classes}:
                self._light.add(type(child))
        if pitfall is not None:
            why, fix, sort = pitfall
            self.remarks.append(Remark(self._steps_to(here), child, why, fix, sort))

    # findings

    def _steps_to(self, here: _Here) -> tuple[PathStep, ...]:
        stack, container, kind, label = here
        steps = [PathStep(entry[2], entry[1], entry[5]) for entry in stack if entry[5] is not _WAITING]
        steps.append(PathStep(container, kind, label))
        self._steps += len(steps)
        return tuple(steps)

    def _found(self, child: Any, error: str, here: _Here, depth: int = 0) -> None:
        if not depth:
            self._bad[id(child)] = error
            self._marked.add(id(child))
        self._note(WalkStop(self._steps_to(here), child, error, depth))

    def _refused(self, child: Any, refusal: PicklingRefused, here: _Here) -> None:
        """An object is refused, or a member of it that only its own code came to."""
        error, failing = str(refusal), refusal.failing
        name = None if failing is None or failing is child else object_layout.name_of_member(child, failing)
        if name is None:
            self._found(child, error, here)
            return
        self._bad[id(child)] = error
        self._marked.add(id(child))
        self.memo.setdefault(id(failing), failing)
        steps = (*self._steps_to(here), PathStep(child, "attribute", name))
        self._note(WalkStop(steps, failing, error))

    def _refuse(self, child: Any, error: str, here: _Here) -> WalkStop:
        """An object that is refused itself, while its parts are checked: it is noted after them."""
        self._bad[id(child)] = error
        self._marked.add(id(child))
        return WalkStop(self._steps_to(here), child, error)

    def _note(self, finding: WalkStop) -> None:
        if len(self.findings) >= MOST_FINDINGS or self._steps > MOST_STEPS:
            self._give_up(f"there are more than {len(self.findings):,} members: the others are not listed")
            return
        self.findings.append(finding)

    def _give_up(self, why: str) -> None:
        if why not in self.unfinished and len(self.unfinished) < 20:
            self.unfinished.append(why)

    def _open_up(self, number: int) -> None:
        """From here on an object is being pickled, and the pickler does not know it yet."""
        self._open.add(number)
        self._marked.add(number)

    def _close(self, opened: int | WalkStop) -> None:
        if isinstance(opened, WalkStop):
            self._note(opened)
            return
        self._open.discard(opened)
        if opened not in self._bad:
            self._marked.discard(opened)

    def _again(self, child: Any, number: int, opened: Any, here: _Here) -> None:
        """An object comes up again that was refused, or that is in the middle of being made."""
        error = self._bad.get(number)
        if error is not None:
            self._found(child, error, here)
            return
        # pickle starts again with it; that ends as soon as something on the way is known to the pickler
        stack, container, kind, label = here
        frames = [(container, kind, label, opened)]
        frames += [(entry[2], entry[1], entry[5], entry[4]) for entry in reversed(stack) if entry[5] is not _WAITING]
        endless = self._is_endless(frames, number)
        if endless is None:
            self._questions += 1
            if self._questions > MOST_QUESTIONS:
                self._give_up("many objects contain themselves in what they are made from: not all were followed")
                return
            endless = outcome(child, self.mode, self.watch).startswith("RecursionError")
        if endless:
            why = "RecursionError: it contains itself in what it is made from, so that pickling it never ends"
            self._note(WalkStop(self._steps_to(here), child, why))

    def _is_endless(self, frames: list[tuple[Any, str, Any, Any]], number: int) -> bool | None:
        """Whether the path from an object (by its id) to itself is new each time; None where only pickle knows.

        A hook makes its values again each time the object is pickled. So only known values that the objects really
        hold end the recursion.
        """
        below = []
        for frame in frames:
            below.append(frame)
            if frame[3] == number and type(frame[3]) is int:
                break
        held, doubtful = True, False
        for position in range(len(below) - 1, -1, -1):
            container, _, _, opened = below[position]
            if position < len(below) - 1:
                owner, kind, label, _ = below[position + 1]
                held = held and (
                    kind != "step"
                    or label[0] not in ("argument", "arguments", "state", "function", "setter")
                    or object_layout.attributes(owner) is container
                    or object_layout.name_of_member(owner, container) is not None
                )
            if type(opened) is not int:
                if held:
                    return False
                doubtful = True
        return None if doubtful else True

    # depth

    def _edge(self) -> int:
        """Units of depth beyond which each object is checked."""
        scale = self.scale
        return scale.capacity - 2 * (scale.instance + max(scale.mapping, scale.sequence))

    def _measure(self) -> None:
        self.measured = True
        with_ids = 4 if self.mode.name == "torch.save" else 0
        self.scale = depths.measure(
            copying=self.mode.copying, protocol=self.mode.protocol, with_ids=with_ids, frames=self.frames
        )

    def _deepen(self, stack: list[Any], kind: str, container: Any, opened: Any) -> int:
        """Count the depth again, of all that is under way, by the scale that was measured."""
        depth = 0
        counted: list[Any] = []
        for entry in stack:
            waits = entry[5] is _WAITING
            below = depth + self._units(entry[1], entry[2], None if waits else entry[4])
            counted.append((entry[0], entry[1], entry[2], below, entry[4], entry[5]))
            depth = depth if waits else below
        stack[:] = counted
        return depth + self._units(kind, container, opened)

    def _units(self, kind: str, container: Any, opened: Any) -> int:
        scale = self.scale
        if kind == "root":
            return 0
        if type(container) is dict:
            return scale.mapping
        if kind == "attribute":
            return scale.instance + scale.mapping
        if kind == "step":
            return scale.instance + (scale.arguments if type(opened) is int else 0)
        return scale.sequence if type(container) is list else scale.flat

    def _check_depth(self, child: Any, cls: type, depth: int, here: _Here) -> None:
        """Note an object that is the first one beyond the limit on the way to it."""
        scale = self.scale
        stack, container, _, _ = here
        self.deepest = max(self.deepest, len(stack))
        if cls is dict:
            need = scale.mapping if child else scale.flat
        elif cls is list:
            need = scale.sequence + scale.listing if child else scale.flat
        elif cls is tuple or cls is set or cls is frozenset:
            need = scale.flat
        else:
            need = scale.instance
            plan = self._plans.get(cls)
            if (self._plan(cls) if plan is None else plan) == PLAIN and child.__dict__:
                need += scale.mapping
        if depth + need <= scale.capacity:
            return
        self._too_deep.add(id(child))
        if id(container) not in self._too_deep:
            levels = sum(1 for entry in stack if entry[5] is not _WAITING)
            text = f"RecursionError: nested {levels} levels deep here"
            self._found(child, text, here, max(1, levels))

    # the second pass

    def other_paths(self, root: Any, some: set[int], every: set[int]) -> dict[int, list[tuple[PathStep, ...]]]:
        """Steps to objects (by their ids) by the ways that lead there after the first one; runs no code of the objects.

        :param some: objects of which some ways will do
        :param every: objects of which all are wanted
        """
        ways, circular = self._later_paths(root, some, every)
        if circular:
            # what leads back to an object was seen in it first, but may be reachable without it as well
            direct, _ = self._later_paths(root, set(), circular, shut=circular)
            for number, more in direct.items():
                ways[number] += more
        return ways

    def _later_paths(
        self, root: Any, some: set[int], every: set[int], shut: AbstractSet[int] = frozenset()
    ) -> tuple[dict[int, list[tuple[PathStep, ...]]], set[int]]:
        """The other ways of one pass; and of which wanted objects a way led through themselves, which is none.

        :param shut: objects (by their ids) that are not read
        """
        targets = some | every
        ways: dict[int, list[tuple[PathStep, ...]]] = {number: [] for number in targets}
        circular: set[int] = set()
        seen: set[int] = {id(root)}
        stack: list[tuple[Any, str, Any, Any]] = []
        edges, kind = self._edges(root)
        each, container, label = iter(edges), root, None
        atoms = self.mode.atoms
        steps_left = MOST_STEPS
        while True:
            for label, child in each:
                if type(child) in atoms:
                    continue
                number = id(child)
                if (
                    number in seen
                    and number in targets
                    and steps_left > 0
                    and (number in every or len(ways[number]) < MOST_ALIASES)
                ):
                    steps = [PathStep(None, "root", None)]
                    steps += [PathStep(entry[2], entry[1], entry[3]) for entry in stack]
                    steps.append(PathStep(container, kind, label))
                    steps_left -= len(steps)
                    if not any(step.container is child for step in steps):
                        ways[number].append(tuple(steps))
                    elif number in every:
                        circular.add(number)
                if number in seen:
                    continue
                seen.add(number)
                edges, edge_kind = self._edges(child)
                if not edges or number in shut:
                    continue
                stack.append((each, kind, container, label))
                each, kind, container = iter(edges), edge_kind, child
                break
            else:
                if not stack:
                    return ways, circular
                each, kind, container, label = stack.pop()

    def first_path(self, root: Any, target: Any) -> tuple[PathStep, ...] | None:
        """Steps to an object, as the first pass came there; None where it did not."""
        steps = [PathStep(None, "root", None)]
        if root is target:
            return tuple(steps)
        atoms, seen = self.mode.atoms, {id(root)}
        edges, kind = self._edges(root)
        each, container = iter(edges), root
        stack: list[tuple[Any, str, Any, Any]] = []
        while True:
            for label, child in each:
                if child is target:
                    steps += [PathStep(entry[2], entry[1], entry[3]) for entry in stack]
                    return (*steps, PathStep(container, kind, label))
                if type(child) in atoms or id(child) in seen:
                    continue
                seen.add(id(child))
                edges, below = self._edges(child)
                if edges:
                    stack.append((each, kind, container, label))
                    each, kind, container = iter(edges), below, child
                    break
            else:
                if not stack:
                    return None
                each, kind, container, label = stack.pop()

    def _edges(self, value: Any) -> tuple[list[tuple[Any, Any]], str]:
        """Where the first pass went from an object."""
        expansion = self.expansions.get(id(value))
        if expansion is not None:
            return [*expansion.before, *expansion.after], "step"
        cls, atoms = type(value), self.mode.atoms
        if cls is dict:
            if not atoms.issuperset(map(type, value)):
                return list(_keys_and_values(value, atoms)), "step"
            return [pair for pair in value.items() if type(pair[1]) not in atoms], "item"
        if cls is list or cls is tuple:
            return [pair for pair in enumerate(value) if type(pair[1]) not in atoms], "index"
        if (cls is set or cls is frozenset) and not self.mode.copying:
            return [pair for pair in enumerate(value) if type(pair[1]) not in atoms], "member"
        if self._plans.get(cls) == PLAIN:
            return list((object_layout.attributes(value) or {}).items()), "attribute"
        return [], "step"


def _keys_and_values(mapping: dict[Any, Any], atoms: frozenset[type]) -> Iterator[tuple[Any, Any]]:
    for number, (key, value) in enumerate(mapping.items()):
        if type(key) not in atoms:
            yield ("key", number), key
        yield ("paired", key, number), value


_Shot = tuple[dict[Any, tuple[Any, int]], int] | None
_SIZED = (list, dict, set, bytearray)


def _snapshot(value: Any) -> _Shot:
    """The attributes of an object as they are now: which objects they are, and the sizes of plain containers."""
    own = object_layout.attributes(value)
    if own is None or len(own) > 1000:
        return None
    return {name: (held, len(held) if type(held) in _SIZED else 0) for name, held in own.items()}, get_ident()


def _changes(shot: _Shot, value: Any) -> str:
    """What became of the attributes of an object since; empty where nothing did."""
    if shot is None:
        return ""
    before, after = shot[0], object_layout.attributes(value) or {}
    removed = [name for name in before if name not in after]
    added = [name for name in after if name not in before]
    changed = [
        name
        for name, (held, size) in before.items()
        if name in after and (after[name] is not held or (type(held) in _SIZED and len(held) != size))
    ]
    words = [
        f"{verb} {', '.join(str(name)[:60] for name in names[:5])}{' …' if len(names) > 5 else ''}"
        for verb, names in (("removed", removed), ("added", added), ("changed", changed))
        if names
    ]
    return ", ".join(words)
