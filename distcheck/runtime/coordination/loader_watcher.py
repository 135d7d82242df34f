"""Log which samples this rank gets: every loader, every pass over it, what its first batches hold.

The main process samples the indices, even if workers load. What is logged is what reaches the batch, after all
samplers that a framework adds to the script's own.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from .data_parallel import Before, Parallel
from .frames import is_own, shown_path
from .logged_events import EventSink
from .loops import loop_around
from .patching import harmless
from .sample_contents import (
    FIRST,
    IdentityCache,
    attribute,
    digest_of,
    held_by,
    layers_of,
    leaves_of,
    length_of,
    print_of,
    some_of,
)
from .samplers import describe, known_length, samplers_of

TOPIC = "samples"
_FRAMES = 4
_LIBRARIES = ("accelerate", "pytorch_lightning", "lightning", "transformers", "deepspeed", "megatron")


class RecordLimits(NamedTuple):
    """What is recorded."""

    #: batches of one pass that are written down one by one, passes over one loader, and passes of this process
    batches: int = 16
    passes: int = 8
    all_passes: int | None = None
    #: batches that a pass gives at most; None: all
    epoch_steps: int | None = None
    #: in a rehearsal: forwards of wrappers are observed, and batches are counted to the end of each pass
    thorough: bool = True


class _Loader:
    """A loader of this process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.passes = 0
        #: its row, and whether that stands in this process's event_log
        self.row: dict[str, Any] = {}
        self.logged = True
        #: what it gives indices of, as seen from below all subsets; None where they are the same
        self.indices: list[int] | None = None


class _LoaderPass:
    """One pass over a loader."""

    def __init__(self, number: int, loader: _Loader) -> None:
        self.number = number
        self.loader = loader
        self.drawn: deque[Any] = deque()
        self.requested = 0
        self.given = 0
        #: batches that were followed by a backward pass, and by one that fed a data-parallel wrapper
        self.trained = 0
        self.fed = 0
        self.with_gradients = False
        self.ended = False
        #: by ``epoch_steps``
        self.cut = False
        self.in_order = True


class Watcher:
    """What is known in this process."""

    def __init__(self, event_log: EventSink, limits: RecordLimits) -> None:
        self.event_log = event_log
        self.limits = limits
        self.parallel = Parallel(event_log, forwards=limits.thorough)
        self.loaders = IdentityCache()
        self.subsets = IdentityCache()
        self.samplers = IdentityCache()
        self.split_results: list[tuple[Any, str]] = []
        self._count = 0
        self._passes = 0
        self._open: list[tuple[Any, _LoaderPass]] = []
        #: those that have given a batch since the last backward pass
        self._fresh: dict[_LoaderPass, Any] = {}
        #: those whose last batch a backward pass followed, but none yet that fed a wrapper
        self._unfed: list[_LoaderPass] = []
        self._pid = os.getpid()

    def quietly(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call one of our functions; an error in it is counted and does not reach the script."""
        with harmless(self.event_log, TOPIC):
            if getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None) is not None:
                return None  # a loader's worker
            if os.getpid() != self._pid:
                self._renew()
            return function(*args)
        return None

    def _renew(self) -> None:
        """In a fork, which may become a rank: its own event log lacks the parent's rows."""
        self._pid = os.getpid()
        self._open, self._fresh, self._unfed = [], {}, []
        for _, state in self.loaders.alive():
            state.logged = False
        self.event_log.at_end.append(self.ending)

    # what is made

    def subset_made(self, subset: Any, caller: FrameType) -> None:
        """A ``Subset``, by the script or by ``random_split``."""
        maker: FrameType | None = caller
        if maker is not None and maker.f_code.co_name == "<listcomp>":  # before Python 3.12
            maker = maker.f_back
        made_by, seeded = "Subset", False
        if maker is not None and maker.f_code.co_name == "random_split" and not is_own(maker.f_code.co_filename):
            made_by = "random_split"
            seeded = maker.f_locals.get("generator") is not sys.modules["torch"].default_generator
        self.subsets.put(subset, (_places(maker), made_by, seeded))

    def sampler_made(self, sampler: Any, caller: FrameType) -> None:
        places = _places(caller, sampler)[:1]
        self.samplers.put(sampler, places)
        layers, base = layers_of(attribute(sampler, "dataset"))
        if layers:
            total = length_of(base)
            self.event_log.note(
                "samples.divided",
                place=places[0] if places else ("", ""),
                print=print_of(base),
                base_length=total,
                layers=[self._layer(subset, indices, total) for subset, indices in layers],
                replicas=attribute(sampler, "num_replicas"),
                part=attribute(sampler, "rank"),
            )

    def loader_made(self, loader: Any, caller: FrameType | None) -> None:
        """A loader, by the script, or by a framework from one of the script's."""
        self._count += 1
        state = _Loader(self._count)
        chain = samplers_of(loader)
        dataset = attribute(loader, "dataset")
        direct = _outside_of(caller, loader)
        of_library = direct is not None and not is_own(direct.f_code.co_filename)
        origin = self._origin(loader, chain) if of_library else None
        self.loaders.put(loader, state)
        places = _places(caller, loader)
        layers, base = layers_of(dataset)
        total = length_of(base)
        if layers:
            state.indices = layers[0].indices
        iterable = attribute(loader, "_dataset_kind") == 1
        state.row = {
            "place": places[0] if places else ("", ""),
            "loader": state.number,
            "chain": [place for place, _ in places],
            "type": type(loader).__name__,
            "of": origin.number if origin is not None else None,
            "of_library": of_library,
            "iterable": iterable,
            "dataset": type(dataset).__name__,
            "base": type(base).__name__,
            "length": None if iterable else length_of(dataset),
            "base_length": total,
            "print": print_of(base),
            "held": held_by(base),
            "batch_size": attribute(loader, "batch_size"),
            "layers": [self._layer(subset, indices, total) for subset, indices in layers],
            "sampler": describe(chain, self.samplers),
            "split": self._split_of(base),
            "libraries": [name for name in _LIBRARIES if name in sys.modules],
        }
        self.event_log.note("samples.loader", **state.row)

    def _origin(self, loader: Any, chain: list[Any]) -> _Loader | None:
        """Return the loader from which a framework made this one: it has one of its samplers, or at least its data."""
        candidates = [(other, state) for other, state in self.loaders.alive() if other is not loader]
        for other, state in candidates:
            if any(one is its for one in samplers_of(other) for its in chain):
                return state  # type: ignore[no-any-return]
        dataset = attribute(loader, "dataset")
        alike = [(other, state) for other, state in candidates if attribute(other, "dataset") is dataset]
        # of several, one of the script's own, and in a random order where the new one shuffles
        alike.sort(key=lambda pair: (pair[1].row["of_library"], _shuffles(samplers_of(pair[0])) != _shuffles(chain)))
        return alike[0][1] if alike else None

    def _layer(self, subset: Any, indices: list[int] | None, total: int | None) -> dict[str, Any]:
        places, made_by, seeded = self.subsets.get(subset) or ([], "Subset", False)
        return {
            "place": places[0][0] if places else "",
            "maker": made_by,
            "seeded": seeded,
            "length": None if indices is None else len(indices),
            "first": None if indices is None else indices[:8],
            "digest": None if indices is None else hash(tuple(indices)),
            "some": None if indices is None or total is None else some_of(indices, total),
        }

    def _split_of(self, base: Any) -> str:
        """Where a data set's contents were split by scikit-learn; "" where they were not."""
        held = list(getattr(base, "__dict__", {}).values())
        held += [one for value in held if isinstance(value, (list, tuple)) and len(value) < 8 for one in value]
        for value in held:
            for result, place in self.split_results:
                if value is result or _shares_memory(value, result):
                    return place
        return ""

    # passes

    def pass_begins(self, iterator: Any, loader: Any, caller: FrameType | None) -> None:
        limits = self.limits
        iterator._distcheck_pass = None
        if limits.all_passes is not None and self._passes >= limits.all_passes:
            return
        if self.loaders.get(loader) is None:
            self.loader_made(loader, caller)
        state: _Loader = self.loaders.get(loader)
        if not limits.thorough and state.passes >= limits.passes:
            return
        if not state.logged:
            state.logged = True
            self.event_log.note("samples.loader", **state.row)
        self._passes += 1
        one = _LoaderPass(self._passes, state)
        one.in_order = attribute(loader, "in_order") is not False
        iterator._distcheck_pass = one
        chain = samplers_of(loader)
        frames = _own_frames(caller, None)
        places = [
            (f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}", frame.f_code.co_name) for frame in frames
        ]
        line, bounded = loop_around(frames)
        self.event_log.note(
            "samples.pass",
            place=places[0] if places else ("", ""),
            number=one.number,
            loader=state.number,
            count=state.passes,
            length=known_length(loader, chain),
            loop=line,
            bounded=bounded,
            joined=self.parallel.joined > 0,
            unsplit=self.parallel.not_data_parallel(),
            sampler=describe(chain, self.samplers),
        )
        state.passes += 1
        self._open = [(other, its) for other, its in self._open if not its.ended and other() is not None]
        self._open.append((weakref.ref(iterator), one))

    def is_cut(self, one: _LoaderPass | None) -> bool:
        """Return whether a pass has given all batches that the rehearsal requests."""
        most = self.limits.epoch_steps
        if most is None or one is None:
            return False
        one.requested += 1
        one.cut = one.requested > most
        return one.cut

    def drawn(self, one: _LoaderPass, indices: Any) -> None:
        if one.given < self.limits.batches and one.loader.passes <= self.limits.passes:
            one.drawn.append(indices)

    def batch_given(self, iterator: Any, one: _LoaderPass, batch: Any) -> None:
        torch = sys.modules["torch"]
        if not self.limits.thorough and one.given >= self.limits.batches:
            self._leave(iterator, one)
            return
        one.with_gradients = bool(torch.is_grad_enabled())
        self._fresh[one] = weakref.ref(iterator)
        self._unfed.clear()
        number = one.given
        one.given += 1
        if number >= self.limits.batches or one.loader.passes > self.limits.passes:
            return
        drawn = one.drawn.popleft() if one.drawn else None
        listed = drawn if isinstance(drawn, (list, tuple)) else [drawn]
        ids = None if drawn is None or listed[0] is None else [self._sample(one, item) for item in listed]
        count = len(listed) if ids is not None else _first_length(batch)
        self.event_log.note(
            "samples.batch",
            number=one.number,
            index=number,
            count=count,
            ids=None if ids is None else ids[:FIRST],
            leaves=leaves_of(batch, count if one.in_order else 0),
            trained=one.trained,
            fed=one.fed,
            gradients=one.with_gradients,
        )

    def _leave(self, iterator: Any, one: _LoaderPass) -> None:
        """Stop to observe a pass of which enough batches are recorded."""
        iterator._distcheck_pass = None
        one.ended = True
        self._fresh.pop(one, None)
        self._unfed.clear()
        self._note_sum("samples.open", one)

    def unobserved_batch(self) -> None:
        """A pass gave a batch that is not observed: the next backward pass may be about that one."""
        if self._unfed:
            self._unfed.clear()

    @property
    def has_batches(self) -> bool:
        """Return whether a backward pass may be about a batch that is observed."""
        return bool(self._fresh or self._unfed)

    def fed_by_hand(self, ranks: tuple[int, ...]) -> None:
        """The script has reduced the gradients of the last backward pass over these ranks."""
        if self._unfed:
            self.parallel.note("samples.wrapped", list(ranks), "all_reduce")
            self._feed()

    def _sample(self, one: _LoaderPass, item: Any) -> Any:
        below = one.loader.indices
        try:
            number = int(item)
            return number if below is None else below[number]
        except (TypeError, ValueError, IndexError, OverflowError):
            return repr(item)[:40]

    def pass_ended(self, one: _LoaderPass) -> None:
        if not one.ended:
            one.ended = True
            self._note_sum("samples.end", one)

    def _note_sum(self, kind: str, one: _LoaderPass) -> None:
        self.event_log.note(
            kind,
            number=one.number,
            given=one.given,
            trained=one.trained,
            fed=one.fed,
            cut=one.cut,
            gradients=one.with_gradients,
        )

    def backward(self, before: Before | None) -> None:
        """The passes whose batches this backward pass may be about.

        :param before: what it found; None where that could not be seen
        """
        fed = before is not None and self.parallel.was_fed(before)
        alive = [one for one, reference in self._fresh.items() if reference() is not None and one.with_gradients]
        # one that has ended gave its batch long ago, unless no pass gave one since: frameworks prefetch one batch
        trained = [one for one in alive if not one.ended] or alive
        self._fresh.clear()
        self._unfed += trained
        for one in trained:
            one.trained += 1
        if fed:
            self._feed()
        for one in trained:
            if one.trained == 1 and not one.fed:
                self.event_log.note("samples.trained", number=one.number, trained=one.trained, fed=one.fed)

    def _feed(self) -> None:
        """The gradients of the batches that wait for it belong to a data-parallel model."""
        for one in self._unfed:
            one.fed += 1
            if one.fed == 1:
                self.event_log.note("samples.trained", number=one.number, trained=one.trained, fed=one.fed)
        self._unfed.clear()

    def ending(self) -> None:
        """At the end of this process."""
        for _, one in self._open:
            if not one.ended:
                self._note_sum("samples.open", one)

    # scikit-learn

    def was_split(self, arrays: tuple[Any, ...], options: dict[str, Any], result: Any, caller: FrameType) -> None:
        places = _places(caller)
        place = places[0] if places else ("", "")
        train, test = result[0], result[1]
        self.split_results += [(one, place[0]) for one in result if length_of(one)]
        self.event_log.note(
            "samples.split",
            place=place,
            given=digest_of(arrays[0]),
            train=digest_of(train),
            test=digest_of(test),
            first=[repr(one)[:60] for one in list(train[:4])] if hasattr(train, "__getitem__") else [],
            stated=options.get("random_state") is not None,
        )


def _shuffles(chain: list[Any]) -> bool:
    return any(attribute(one, "shuffle") is True or type(one).__name__.endswith("RandomSampler") for one in chain)


def _first_length(batch: Any) -> int:
    """Return the number of samples in a batch of an iterable data set, from its first part."""
    first = batch
    for _ in range(3):
        if hasattr(first, "shape"):
            return int(first.shape[0]) if len(first.shape) else 0
        if hasattr(first, "values") and callable(first.values):
            first = next(iter(first.values()), None)
        elif isinstance(first, (list, tuple)) and first and not isinstance(first[0], (str, bytes, int, float)):
            first = first[0]
        else:
            return len(first) if isinstance(first, (list, tuple)) else 0
    return 0


def _shares_memory(value: Any, result: Any) -> bool:
    start = getattr(getattr(result, "ctypes", None), "data", None)
    return start is not None and hasattr(value, "data_ptr") and value.device.type == "cpu" and value.data_ptr() == start


# frames


def _outside_of(frame: FrameType | None, made: Any) -> FrameType | None:
    """Return the frame that makes an object: the one outside its own constructors."""
    while frame is not None and frame.f_code.co_name == "__init__" and frame.f_code.co_varnames:
        if frame.f_locals.get(frame.f_code.co_varnames[0]) is not made:
            break
        frame = frame.f_back
    return frame


def _own_frames(frame: FrameType | None, made: Any) -> list[FrameType]:
    """The innermost frames of the user's code, without the constructors of what is made."""
    frame = _outside_of(frame, made) if made is not None else frame
    found: list[FrameType] = []
    while frame is not None and len(found) < _FRAMES:
        if is_own(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found


def _places(frame: FrameType | None, made: Any = None) -> list[tuple[str, str]]:
    return [
        (f"{shown_path(one.f_code.co_filename)}:{one.f_lineno}", one.f_code.co_name) for one in _own_frames(frame, made)
    ]
