"""Digests models that no wrapper holds, right before the steps of their optimizers, and counts what ranks exchange.

A model is the outermost module that holds a parameter of an optimizer. Which collectives the script makes between the
steps shows whether the ranks train one model from parts of the data, or something else: :mod:`.copies` judges that.
"""

from __future__ import annotations

import gc
import re
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import FrameType
from typing import Any, NamedTuple

from distcheck.core.model import grouped

from .call_signatures import KINDS
from .copies import ANY, ModelStep, ParameterCopy, TrainedModels
from .digests import Digest, Digests
from .flat_gradients import holds_gradients
from .model import CollectiveCall
from .wrapped_models import HOOK

#: Elements of a tensor that a script may reduce only to report a number, or to decide together.
FEW = 16
#: Parameters of one model that are digested, and steps of it that make a row.
_MOST_PARAMETERS, _MOST_ROWS = 32, 64
#: Buffers of one model that are digested.
_MOST_BUFFERS = 8
#: Rows that are made in addition, because the script has exchanged parameters since the last step.
_MOST_EXTRA = 12
#: Elements of a parameter that show whether it is constant.
_CHECKED = 4096
#: Elements of a buffer that show whether it may be drawn.
_SHOWN = 256
#: Collectives that a hook averages gradients with.
_AVERAGING = frozenset({"all_reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather_into_tensor"})
#: Calls that wait for the next step, which shows what their tensors are; call sites that are known.
_MOST_CALLS, _MOST_SITES = 4096, 1024
#: Calls of one call site whose tensors are compared with gradients: an early one may come before the first gradient.
MOST_COMPARED = 4
#: Calls of this process that are compared so, whatever their call sites.
_MOST_COMPARED_IN_ALL = 64


#: Modules and buffers that differ on purpose: statistics of a rank's own batches, and what a rank keeps for itself.
_OWN_STATISTICS = re.compile(r"Norm|Observer|FakeQuant")
OWN_BUFFERS = re.compile(r"queue|bank|memory|cache|rng|seed|count|noise|perturb|(?<![a-z])rank", re.IGNORECASE)


class CopyRow(NamedTuple):
    """A model of one rank right before a step, as it is sent."""

    rank: int
    #: numbers of the model and of its row, which all ranks count alike
    model: int
    nth: int
    network: str
    place: str
    #: of the optimizer, this one included
    step: int
    calls: dict[str, int]
    #: ``(name, varied, gradient, parameter)``
    parameters: tuple[tuple[str, bool, Digest | None, Digest], ...]
    rates: tuple[float, ...]
    #: name → calls that got this parameter, since the first row; "": all at once
    synced: dict[str, int]
    #: DDP wraps another model
    wrapped: bool
    #: ranks share out models, or may do so
    divided: bool
    #: hooks that call a collective are on parameters of another model, and none on this one
    hooked_elsewhere: bool
    #: why DDP, which wraps this model, does not average its gradients; "": it does not wrap it
    unreduced: str = ""
    #: as in :class:`~.copies.ModelStep`
    reduced_among: Mapping[str, tuple[int, ...]] = {}
    divides_data: bool = False
    #: name → buffer, if it may be drawn
    buffers: Mapping[str, Digest] = {}


def row_of(values: Iterable[Any]) -> CopyRow:
    """Return a row that was written as JSON."""
    row = CopyRow(*values)
    return row._replace(
        parameters=tuple(
            (name, varied, None if gradient is None else Digest(*gradient), Digest(*value))
            for name, varied, gradient, value in row.parameters
        ),
        reduced_among={name: tuple(ranks) for name, ranks in row.reduced_among.items()},
        buffers={name: Digest(*value) for name, value in row.buffers.items()},
    )


def models_of(
    rows: Iterable[CopyRow],
    ranks: int,
    at_end: Iterable[Mapping[Any, tuple[int, Mapping[str, int]]]],
    *,
    finished: bool,
) -> TrainedModels:
    """Return the models of which all compared ranks have made the same rows.

    :param ranks: how many are compared
    :param at_end: what :meth:`CopyObserver.last` returned on each rank; none: the script goes on
    :param finished: all ranks have come to the end of the script
    """
    listed = list(rows)
    steps: dict[int, dict[int, tuple[ModelStep, ...]]] = {}
    for (number, count), together in sorted(grouped(listed, lambda row: (row.model, row.nth)).items()):
        if len(together) == ranks and len({row.network for row in together}) == 1:
            steps.setdefault(number, {})[count] = tuple(map(_step, sorted(together)))
    synced: dict[int, dict[str, int]] = {}
    for last in at_end:
        for name_of_model, (_, counts) in last.items():
            known = synced.setdefault(int(name_of_model), {})
            known.update({name: max(count, known.get(name, 0)) for name, count in counts.items()})
    return TrainedModels(
        steps, finished, any(row.divided for row in listed), any(row.wrapped for row in listed), synced
    )


def _step(row: CopyRow) -> ModelStep:
    parameters = {name: ParameterCopy(varied, gradient, value) for name, varied, gradient, value in row.parameters}
    return ModelStep(
        row.rank, row.model, row.network, row.place, row.step, row.calls, parameters, tuple(row.rates), row.synced,
        row.hooked_elsewhere, row.unreduced, row.reduced_among, row.divides_data, row.buffers,
    )  # fmt: skip


class _Call(NamedTuple):
    """A call whose tensors are not known yet."""

    site: tuple[str, str, int]
    addresses: tuple[int, ...]
    numel: int


class _Copy:
    """A model that this process steps."""

    def __init__(self, number: int, root: Any, optimizer: Any) -> None:
        self.number = number
        #: the module, or else the optimizer, holds its parameters
        self.root = None if root is None else weakref.ref(root)
        self.optimizer = weakref.ref(optimizer)
        self.network = "" if root is None else type(root).__name__
        self.rows = self.extra = 0
        self.total = 0
        self.synced: Counter[str] = Counter()
        #: number of exchanges of its parameters when the last step was made
        self.synced_before = 0
        #: names of parameters that are no constants
        self.varied: dict[str, bool] = {}
        self.hooked_elsewhere = False
        #: as in :class:`CopyRow`
        self.unreduced = ""

    def named(self) -> list[tuple[str, Any]]:
        """Return the parameters with their names."""
        if self.root is not None:
            root = self.root()
            return [] if root is None else list(root.named_parameters())
        optimizer = self.optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        return [
            (f"{at} of group {index}", one)
            for index, group in enumerate(groups)
            for at, one in enumerate(group["params"])
        ]


class CopyObserver:
    """Makes the rows of this process.

    :param rank: returns the global rank
    """

    def __init__(self, rank: Callable[[], int]) -> None:
        self.rows: deque[CopyRow] = deque(maxlen=_MOST_ROWS)
        #: returns whether ranks share out models, so that parts may look like copies
        self.divided: Callable[[], bool] = lambda: False
        #: a sampler divides data among all ranks
        self.divides_data = False
        self._rank = rank
        self._copies: list[_Copy] = []
        self._of_optimizer: weakref.WeakKeyDictionary[Any, list[_Copy]] = weakref.WeakKeyDictionary()
        self._calls: Counter[str] = Counter()
        #: an optimizer has made a step; calls after it, and before a model was found here, that got other tensors
        self._begun = False
        self._others_before = 0
        #: calls with objects, or with more than a few numbers
        self._exchanges = 0
        self._waiting: list[_Call] = []
        self._sites: dict[tuple[str, str, int], str] = {}
        #: line and operation → calls whose tensors held no gradients
        self._compared: Counter[tuple[str, str]] = Counter()
        self._compared_in_all = 0
        #: why no more tensors are compared with gradients; "": they are
        self.error = ""
        #: address of a parameter → its model and name
        self._parameters: dict[int, tuple[_Copy, str]] = {}

    def forget(self) -> None:
        """Forget the parent's models, in a fork."""
        self.rows.clear()
        self._copies.clear()
        self._of_optimizer.clear()
        self._waiting.clear()
        self._parameters.clear()

    def last(self) -> dict[int, tuple[int, dict[str, int]]]:
        """Return the rows that each model made, and the calls that got its parameters until now."""
        return {one.number: (one.rows, {**one.synced, ANY: self._exchanges}) for one in self._copies}

    def kinds_of_calls(self) -> dict[str, int]:
        """Return the calls since the first step by what their tensors were: ``few`` numbers, ``model``, ``other``."""
        return {**self._calls, "other": self._calls["other"] + self._others_before}

    # collectives

    def on_call(self, call: CollectiveCall, tensors: Sequence[Any], ranks: int) -> None:
        """Count a call by what its tensors are; those of unknown ones until the next step.

        :param ranks: of its group
        """
        if not (self._copies or self._begun):
            return
        numel = sum(one.numel() for one in tensors)
        if not self._copies:
            exchanges = KINDS[call.operation].pair or "all_to_all" in call.operation or numel > FEW
            self._others_before += exchanges and not is_of_fsdp(sys._getframe(1))
            return
        self._exchanges += numel > FEW or "object" in call.operation
        if KINDS[call.operation].pair or "all_to_all" in call.operation:
            self._exchanges += 1
            self._calls["other"] += 1
            return
        if numel <= FEW:
            self._calls["few"] += 1
        site = (call.place, call.operation, numel)
        if (kind := self._sites.get(site)) is None and numel > FEW:
            kind = "model" if is_of_fsdp(sys._getframe(1)) else ""
            self._keep(site, kind)
        addresses = tuple(map(address_of, tensors))
        known = [self._parameters[address] for address in addresses if address in self._parameters]
        for copy, name in known:
            copy.synced[name] += 1
        whole = [copy for copy in self._copies if copy.total == numel]
        for copy in whole:
            copy.synced[""] += 1
        if numel <= FEW:
            return
        if whole or (known and len(known) == len(addresses)) or self._is_of_hook():
            kind = "model"
        if not kind and call.operation == "all_reduce" and self._hold_gradients(call, tensors, numel, ranks):
            kind = "model"
            self._keep(site, kind)
        if kind:
            self._calls[kind] += 1
        elif len(self._waiting) < _MOST_CALLS:
            self._waiting.append(_Call(site, addresses, numel))

    def _is_of_hook(self) -> bool:
        """Return whether a communication hook of DDP makes a call: it does so in a backward pass."""
        in_backward = sys.modules["torch"]._C._current_graph_task_id() != -1
        return in_backward and any(copy.unreduced == HOOK for copy in self._copies)

    def _keep(self, site: tuple[str, str, int], kind: str) -> None:
        if site in self._sites or len(self._sites) < _MOST_SITES:
            self._sites[site] = kind

    def _hold_gradients(self, call: CollectiveCall, tensors: Sequence[Any], numel: int, ranks: int) -> bool:
        """Return whether all tensors of a call consist of gradients; False if too many were compared before."""
        torch, line = sys.modules["torch"], (call.place, call.operation)
        if self.error or self._compared_in_all >= _MOST_COMPARED_IN_ALL or self._compared[line] >= MOST_COMPARED:
            return False
        if torch.compiler.is_compiling() or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
            return False
        self._compared[line] += 1
        gradients = [one.grad for copy in self._copies for _, one in copy.named() if one.grad is not None]
        gradients = [one for one in gradients if one.numel() <= numel]
        if not gradients:
            return False
        self._compared_in_all += 1
        from torch.utils._python_dispatch import _disable_current_modes

        try:
            with torch.no_grad(), _disable_current_modes():
                found = all(holds_gradients(one, gradients, ranks) for one in tensors)
        except Exception as error:  # noqa: BLE001 - the comparison of replicas goes on
            self.error = f"{type(error).__name__}: {error}"
            return False
        self._compared[line] -= found
        return found

    def _resolve(self) -> None:
        """Find out which of the waiting calls got gradients."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        gradients = {
            address_of(one.grad)
            for copy in self._copies
            for _, one in copy.named()
            if one.grad is not None and not hasattr(one, "device_mesh")
        }
        # gradients of an iteration without a step may have been freed: one of two calls at a line shows what both are
        of_gradients = {call.site for call in waiting if gradients.issuperset(call.addresses)}
        for call in waiting:
            kind = "model" if call.site in of_gradients else "other"
            self._calls[kind] += 1
            self._keep(call.site, kind)

    # steps

    def before_step(
        self, torch: Any, digests: Digests, optimizer: Any, owned: Callable[[], set[int]], place: str, step: int, *,
        due: bool, wrapped: bool, reduced_among: Callable[[Any], tuple[int, ...]],
    ) -> None:  # fmt: skip
        """Make a row for each model of an optimizer that no wrapper holds.

        :param owned: returns the IDs of parameters that wrappers hold
        :param reduced_among: returns the part of the ranks among which the script has reduced the gradient of a
            parameter since the last step; (): all ranks, or none
        :param due: this step is compared
        """
        self._begun = True
        copies = self._of_optimizer.get(optimizer)
        if copies is None:
            copies = self._of_optimizer[optimizer] = list(self._found(optimizer, owned()))
        self._resolve()
        for copy in copies:
            exchanged = copy.synced.total() > copy.synced_before
            copy.synced_before = copy.synced.total()
            extra = not due and exchanged and copy.rows and copy.extra < _MOST_EXTRA
            copy.extra += extra
            if (due or extra) and copy.rows < _MOST_ROWS:
                self._note(
                    torch, digests, copy, owned(), place, step, learning_rates(optimizer), wrapped, reduced_among
                )

    def add_wrapped(self, module: Any, optimizer: Any, why: str) -> None:
        """Compare a model from now on that DDP wraps, and whose gradients it does not average by itself."""
        copy = self._new(module, optimizer)
        copy.unreduced = why
        if optimizer in self._of_optimizer:
            self._of_optimizer[optimizer].append(copy)

    def _found(self, optimizer: Any, owned: set[int]) -> Iterator[_Copy]:
        """Yield the models of an optimizer, the known ones and new ones."""
        mine = {id(one) for group in optimizer.param_groups for one in group["params"]} - owned
        for copy in self._copies:
            held = {id(one) for _, one in copy.named()}
            if held & mine:
                mine -= held
                yield copy
        roots = list(roots_of_models()) if mine else []
        for root in roots:
            held = {id(one) for one in root.parameters()}
            if held & mine:
                mine -= held
                copy = self._new(root, optimizer)
                copy.hooked_elsewhere = hooked_elsewhere(held, roots)
                yield copy
        if mine:
            yield self._new(None, optimizer)

    def _new(self, root: Any, optimizer: Any) -> _Copy:
        copy = _Copy(len(self._copies), root, optimizer)
        self._copies.append(copy)
        plain = [(name, one) for name, one in copy.named() if not hasattr(one, "device_mesh")]
        copy.total = sum(one.numel() for _, one in plain) or -1
        self._parameters.update({address_of(one): (copy, name) for name, one in plain})
        return copy

    def _note(
        self, torch: Any, digests: Digests, copy: _Copy, owned: set[int], place: str, step: int,
        rates: tuple[float, ...], wrapped: bool, reduced_among: Callable[[Any], tuple[int, ...]],
    ) -> None:  # fmt: skip
        named = [(name, one) for name, one in copy.named() if id(one) not in owned]
        stride = -(-len(named) // _MOST_PARAMETERS) or 1
        tensors: dict[tuple[str, bool], Any] = {}
        among: dict[str, tuple[int, ...]] = {}
        for name, one in named[::stride]:
            if ranks := reduced_among(one):
                among[name] = ranks
            local, gradient = local_of(one), local_of(one.grad)
            if not is_plain(torch, local):
                continue
            tensors[name, False] = local
            if name not in copy.varied:
                copy.varied[name] = _is_varied(local)
            if is_plain(torch, gradient):
                tensors[name, True] = gradient
        found = dict(zip(tensors, digests.of_several(list(tensors.values()), 0), strict=True))
        copy.rows += 1
        self.rows.append(
            CopyRow(
                self._rank(), copy.number, copy.rows, copy.network, place, step, dict(self._calls),
                tuple((name, copy.varied[name], found.get((name, True)), found[name, False])
                      for name, is_gradient in tensors if not is_gradient),
                rates, dict(copy.synced), wrapped, self.divided(), copy.hooked_elsewhere, copy.unreduced,
                among, self.divides_data, self._buffers(torch, digests, copy),
            )
        )  # fmt: skip

    def _buffers(self, torch: Any, digests: Digests, copy: _Copy) -> dict[str, Digest]:
        """Return the digests of buffers that may be drawn: what is computed from the rank differs on purpose."""
        root = copy.root() if copy.root is not None and not copy.unreduced else None
        named = [] if root is None else list(buffers_of(root))
        chosen = {
            name: local_of(one)
            for name, one in named[:: -(-len(named) // _MOST_BUFFERS) or 1]
            if is_plain(torch, one) and one.is_floating_point() and one.numel() > 1
        }
        chosen = {name: one for name, one in chosen.items() if _may_be_drawn(one)}
        return dict(zip(chosen, digests.of_several(list(chosen.values()), 0), strict=True))


def local_of(tensor: Any) -> Any:
    """Return the part of a tensor that this rank holds."""
    return None if tensor is None else getattr(tensor, "_local_tensor", tensor).detach()


def address_of(tensor: Any) -> int:
    """Return the address of the storage of a tensor, or of its local part; that of the object if it has no storage."""
    local = local_of(tensor)
    return int(local.untyped_storage().data_ptr()) if str(local.layout) == "torch.strided" else id(tensor)


def is_plain(torch: Any, tensor: Any) -> bool:
    """Return whether a tensor has elements that can be read."""
    if not isinstance(tensor, torch.Tensor) or hasattr(tensor, "device_mesh"):
        return False
    return bool(tensor.layout is torch.strided and not tensor.is_meta and tensor.numel())


def _is_varied(tensor: Any) -> bool:
    """Return whether the first elements of a tensor differ."""
    some = tensor.reshape(-1)[:_CHECKED]
    return bool((some != some[0]).any())


def _may_be_drawn(tensor: Any) -> bool:
    """Return whether a tensor is neither a mask, a one-hot vector or a row of positions, nor has few elements."""
    some = tensor.reshape(-1)[:_SHOWN].tolist()
    steps = {round(after - before, 6) for before, after in pairwise(some)}
    return len(set(some)) > max(2, len(some) // 2) and len(steps) > 2


def is_of_fsdp(frame: FrameType | None) -> bool:
    """Return whether the innermost function of torch that calls a collective is a part of FSDP."""
    while frame is not None:
        path = frame.f_code.co_filename
        if "fsdp" in path.rpartition("torch")[2]:
            return True
        if "distributed" not in path and "distcheck" not in path:
            return False
        frame = frame.f_back
    return False


def hooked_elsewhere(held: set[int], roots: Sequence[Any]) -> bool:
    """Return whether hooks that call a collective are on parameters of modules, and on none of those that are held."""
    hooked = [id(one) for root in roots for one in root.parameters() if _reduces_in_hook(one)]
    return bool(hooked) and held.isdisjoint(hooked)


def roots_of_models() -> Iterator[Any]:
    """Yield the outermost modules that have parameters."""
    kind = sys.modules["torch.nn.modules.module"].Module
    # isinstance() would call a proxy
    modules = [one for one in gc.get_objects() if kind in type(one).__mro__ and "_modules" in vars(one)]
    inner = {id(child) for one in modules for child in one._modules.values() if child is not None}
    for one in modules:
        if id(one) not in inner and next(one.parameters(), None) is not None:
            yield one


def buffers_of(network: Any) -> Iterator[tuple[str, Any]]:
    """Yield the buffers that a checkpoint holds and that should be equal, with their names."""
    for path, module in network.named_modules():
        if _OWN_STATISTICS.search(type(module).__name__):
            continue
        for name, buffer in module._buffers.items():
            if name not in module._non_persistent_buffers_set and not OWN_BUFFERS.search(name):
                yield f"{path}.{name}".lstrip("."), buffer


def _reduces_in_hook(parameter: Any) -> bool:
    """Return whether a hook of Python on a parameter calls a collective by its name."""
    for hooks in (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None)):
        for hook in (hooks or {}).values():
            code = getattr(hook, "__code__", None)
            if code is not None and not _AVERAGING.isdisjoint(code.co_names):
                return True
    return False


def learning_rates(optimizer: Any) -> tuple[float, ...]:
    """Return the learning rates of the groups of an optimizer."""
    return tuple(float(group["lr"]) for group in optimizer.param_groups if "lr" in group)
