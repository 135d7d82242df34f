"""Observes the optimizers of this rank, and digests the replicated parameters and gradients at some of their steps.

Replicated is what DDP wraps, what the mesh of a DTensor replicates, and a parameter whose gradient the script itself
passes to ``all_reduce``. Models that none of these holds are digested by :mod:`.copy_observer`. No collective is added.
"""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.digests import Digest, Digests
from distcheck.runtime.coordination.frames import innermost_own
from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.coordination.model import CollectiveCall, RecordedCall
from distcheck.runtime.coordination.reduction_observer import ReductionObserver
from distcheck.runtime.coordination.reductions import MOST_RANKS, GradientStep
from distcheck.runtime.coordination.unwaited_handles import UnwaitedGradients

from .clipping import ClipObserver, ClippedGradients
from .copy_observer import OWN_BUFFERS, CopyObserver, buffers_of, is_of_fsdp, learning_rates
from .drift import AVERAGE, COMPUTED_INPUTS, MODES, OF_LOSS, OUTSIDE, ReplicaRow
from .fully_sharded import FullyShardedModels
from .mesh_replicas import DividedModules, local_of
from .moving_averages import MovingAverages
from .patching import wrap
from .updates import PATIENT, IdleOptimizer, Patience, ScheduleBurst, UpdateObserver
from .wrapped_models import ALL_IN_NO_SYNC, HOOK, NOT_SHARDED, WrappedModel, count_no_sync, modes_of

#: Steps that are all compared: a fault of the first steps is reported early, and a short job is compared as well. Until
#: the first step of the interval, the powers of two follow, each with the step after it, which confirms a difference.
_FIRST_STEPS = 8
#: Parameters of one model that are digested at one step; others follow at later ones.
_MOST_PARAMETERS = 32
#: Parameters of a model in DDP that no optimizer steps: frozen ones, and copies of which an optimizer steps others.
_MOST_OTHERS = 8
#: Loss functions whose weights are digested, and their buffers with weights. Weights that a script computes again for
#: each batch may differ: they count once they were the same at so many compared steps, and never changed.
_MOST_LOSSES, _LOSS_WEIGHTS, _WEIGHTS_HELD = 8, ("weight", "pos_weight"), 4
#: Those of them whose state in the optimizer is digested as well.
_MOST_STATES = 4
#: ``error`` after a script has entered Join.
_JOIN = "Join"
#: All-reduces that are remembered.
_MOST_REDUCED = 4096
#: Steps with gradients that were not waited for that are kept until the side thread reports them.
_MOST_UNWAITED = 8
#: Gradients of first steps that are kept.
_MOST_GRADIENTS = 288
#: Inputs of tensor parallel modules that are compared for each mesh.
_MOST_INPUTS = 16
#: What one rank finds by itself.
AtStep = UnwaitedGradients | IdleOptimizer | ScheduleBurst | ClippedGradients


class _Reduced(NamedTuple):
    """The last all-reduce of a tensor."""

    numel: int
    group: str
    #: its number in this process
    at: int
    call: CollectiveCall
    on_cpu: bool


class _Steps:
    """The steps of one optimizer."""

    def __init__(self) -> None:
        self.count = 0
        #: all-reduces of this process until the last step, and until the one before it
        self.reduces = self.reduces_before = 0
        #: key of a model → collectives of C++ in its group, and entries of no_sync(), until the last step
        self.until: dict[str, tuple[int, int]] = {}
        #: keys of models → this optimizer steps parameters of it
        self.trains: dict[str, bool] = {}


class TrainingObserver:
    """Makes the rows of this process.

    :param every: steps between two rows
    :param digests: digest parameters and gradients; else the rows hold learning rates only
    :param first: so many steps make a row each, whatever ``every`` is
    :param copies: observes models that no wrapper holds
    """

    def __init__(
        self, calls: CallRecorder, every: int, *, digests: bool, first: int = _FIRST_STEPS,
        patience: Patience = PATIENT, copies: CopyObserver | None = None,
    ) -> None:  # fmt: skip
        self.copies = copies
        self.rows: deque[ReplicaRow] = deque(maxlen=64)
        #: what steps of this process used without waiting
        self.unwaited: deque[UnwaitedGradients] = deque()
        #: which of its steps change nothing
        self.updates = UpdateObserver(self._rank_and_sizes, patience)
        #: gradients that were clipped before they were reduced
        self.clipping = ClipObserver(first, self._pending_at)
        #: gradients of the first steps, before and after their reduction
        self.reductions: deque[GradientStep] = deque(maxlen=_MOST_GRADIENTS)
        self._reduction_observer: ReductionObserver | None = None
        #: why no more gradients are observed before and after their reduction; "": they are, or all have been
        self.reduction_error = ""
        #: why no more rows are made; "": they are
        self.error = ""
        self._calls = calls
        self._torch: Any = None
        self._every = every
        self._first = first
        self._wants_digests = digests
        self._digests: Digests | None = None
        self._wrapped: list[WrappedModel] = []
        #: keys of models whose ranks DDP keeps equal only if the script does its part
        self._loose: set[str] = set()
        #: modules that compute a loss, in the order in which the script made them
        self._losses: list[weakref.ref[Any]] = []
        #: such a module and the name of its weights → the first digest, and steps that had it; -1: not all had
        self._held_weights: dict[tuple[weakref.ref[Any], str], tuple[Digest, int]] = {}
        self._averages = MovingAverages()
        self._divided = DividedModules()
        self._sharded = FullyShardedModels()
        #: ranks send each other parts: they may hold parts of a model, such as experts
        self._exchanges_parts = False
        #: the last ``GradScaler`` that made a step
        self._scaler: weakref.ref[Any] | None = None
        self._optimizers: weakref.WeakKeyDictionary[Any, _Steps] = weakref.WeakKeyDictionary()
        #: key of the rows of a mesh → inputs of tensor parallel modules that were observed
        self._inputs: dict[str, int] = {}
        #: key of replicas → optimizers that step them: ranks may have others, and in another order
        self._of_replicas: dict[str, tuple[weakref.WeakKeyDictionary[Any, int], Iterator[int]]] = {}
        #: address of a tensor → its last all-reduce
        self._reduced: dict[int, _Reduced] = {}
        self._reduces = 0
        #: ranks among which the script reduced the gradients of a step
        self._on_reduced: Callable[[tuple[int, ...]], None] | None = None
        self._waits_for_reduced: Callable[[], bool] = lambda: False
        #: optimizers that made a step, and rows with digests
        self._seen = self._digested = 0

    def unchecked(self) -> str:
        """Return why replicas were not compared, or not to the end; "" if they were, or need not be."""
        if self.error not in ("", _JOIN):
            return self.error
        if not self._wants_digests:
            return ""
        if self.error == _JOIN:
            return "the script uses Join, so ranks make different numbers of steps"
        if not self._seen:
            return "no optimizer of torch made a step"
        if self.copies is not None and self.copies.last():
            return ""  # what became of these is known when all ranks have ended
        if not self._digested:
            return (
                "no optimizer steps a model in DDP, parameters that a mesh replicates, or parameters whose gradients "
                "the script passes to all_reduce"
            )
        return ""

    def install(self) -> None:
        """Observe optimizers and wrappers as soon as the script imports them."""
        when_imported("torch.optim.optimizer", self._attach_optimizers)
        when_imported("torch.optim.lr_scheduler", self.updates.attach_schedulers)
        when_imported("torch.nn.parallel.distributed", self._attach_ddp)
        when_imported("torch.amp.grad_scaler", self._attach_scaler)
        when_imported("torch.nn.utils", self.clipping.attach)
        when_imported("torch.distributed.algorithms.join", self._attach_join)
        when_imported("torch.utils.data.distributed", self._attach_sampler)
        when_imported("torch.distributed.tensor.parallel.api", self._divided.attach)
        fsdp = "torch.distributed.fsdp._fully_shard."
        when_imported(f"{fsdp}_fsdp_param_group", self._sharded.attach)
        if self._wants_digests:
            when_imported("torch.nn.modules.loss", self._attach_losses)
            when_imported(
                f"{fsdp}_fsdp_state", lambda module: self._sharded.attach_backward(module, self._after_backward)
            )
            self._divided.observe_inputs(self._on_input)
            when_imported("torch.distributed.tensor._api", self._divided.attach_inputs)
        self._calls.observe_arguments(self._on_call)

    def observe_reduced(self, waits: Callable[[], bool], observer: Callable[[tuple[int, ...]], None]) -> None:
        """Call a function before each step whose gradients the script itself reduced, with the ranks.

        :param waits: returns whether that matters at this step
        """
        self._waits_for_reduced, self._on_reduced = waits, observer

    def forget(self) -> None:
        """Forget the parent's models, in a fork."""
        self.rows.clear()
        self.unwaited.clear()
        self.updates.forget()
        self.clipping.forget()
        self.reductions.clear()
        if self._reduction_observer is not None:
            self._reduction_observer.forget()
        if self.copies is not None:
            self.copies.forget()
        self._wrapped.clear()
        self._loose.clear()
        self._losses.clear()
        self._held_weights.clear()
        self._averages.forget()
        self._divided.forget()
        self._sharded.forget()
        self._reduced.clear()
        self._optimizers.clear()
        self._of_replicas.clear()
        self._inputs.clear()
        self._seen = self._digested = 0

    @property
    def reductions_are_complete(self) -> bool:
        """Return whether no more gradients are added to ``reductions``."""
        return self._reduction_observer is not None and self._reduction_observer.done

    def _attach_optimizers(self, module: Any) -> None:
        self._torch = sys.modules["torch"]
        if self._wants_digests:
            self._reduction_observer = ReductionObserver(self._torch, self._safely_reduced, self._on_clamped)
        register = getattr(module, "register_optimizer_step_pre_hook", None)
        if register is not None:  # torch 2.0
            register(self._before_step)
            # an optimizer may wait for its gradients in its step
            module.register_optimizer_step_post_hook(self._after_step)
            self.updates.observe_clearing(self._torch, module.Optimizer)
            self.updates.observe_clearing(self._torch, sys.modules["torch.nn.modules.module"].Module)

    def _attach_ddp(self, module: Any) -> None:
        kind = module.DistributedDataParallel
        # the last part of its constructor: warnings of the constructor keep naming the script's line
        real = kind._ddp_init_helper

        @functools.wraps(real)
        def init_helper(ddp: Any, *args: Any, **kwargs: Any) -> None:
            real(ddp, *args, **kwargs)
            self._safely(lambda: self._own(ddp))

        kind._ddp_init_helper = init_helper
        count_no_sync(kind, self._wrapped, self._safely)

    def _attach_scaler(self, module: Any) -> None:
        real = module.GradScaler.step

        @functools.wraps(real)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._scaler = weakref.ref(scaler)
            return real(scaler, optimizer, *args, **kwargs)

        module.GradScaler.step = step

    def _loss_scale(self) -> float:
        """Return the scale of the scaler that steps an optimizer; 0 if there is none."""
        scaler = self._scaler() if self._scaler is not None else None
        return float(scaler.get_scale()) if scaler is not None and scaler.is_enabled() else 0.0

    def _attach_losses(self, module: Any) -> None:
        def begin(real: Any, loss: Any, *args: Any, **kwargs: Any) -> None:
            real(loss, *args, **kwargs)
            if len(self._losses) < _MOST_LOSSES:
                self._losses.append(weakref.ref(loss))

        wrap(module._Loss, "__init__", begin)

    def _attach_join(self, module: Any) -> None:
        real = module.Join.__enter__

        def enter(join: Any) -> Any:
            # ranks make different numbers of steps, and are equal again at its end
            self.error = self.error or _JOIN
            return real(join)

        module.Join.__enter__ = enter

    def _attach_sampler(self, module: Any) -> None:
        def begin(real: Any, sampler: Any) -> Any:
            self._safely(lambda: self._see_division(sampler))
            return real(sampler)

        wrap(module.DistributedSampler, "__iter__", begin)

    def _see_division(self, sampler: Any) -> None:
        """Note a sampler that divides data among all ranks; one of an evaluation runs without gradients."""
        distributed = sys.modules.get("torch.distributed.distributed_c10d")
        if self.copies is None or distributed is None or not distributed.is_initialized():
            return
        here = distributed.get_rank(), distributed.get_world_size()
        if sys.modules["torch"].is_grad_enabled() and here == (sampler.rank, sampler.num_replicas):
            self.copies.divides_data = True

    def _safely(self, do: Callable[[], None]) -> None:
        if self.error:
            return
        try:
            do()
        except Exception as error:  # noqa: BLE001 - no error may reach the job
            self.error = f"{type(error).__name__}: {error}"

    def _safely_reduced(self, do: Callable[[], None]) -> None:
        """Run a function that observes reductions; its error ends this observation, and nothing else."""
        observer = self._reduction_observer
        if self.error or observer is None or observer.done:
            return
        try:
            do()
        except Exception as error:  # noqa: BLE001 - no error may reach the job
            self.reduction_error = f"{type(error).__name__}: {error}"
            self.reductions.clear()
            observer.stop()

    def _own(self, ddp: Any) -> None:
        if any(item.ddp() is ddp for item in self._wrapped):
            return
        distributed = sys.modules["torch.distributed.distributed_c10d"]
        group = ddp.process_group
        ranks = tuple(distributed.get_process_group_ranks(group))
        number = sum(item.ranks == ranks for item in self._wrapped)
        self._wrapped.append(WrappedModel(ddp, f"{group.group_name}.ddp{number}", ranks, self._collectives(group)[1]))

    def _on_call(self, recorded: RecordedCall, given: Mapping[str, Any], _: bool) -> None:
        call = recorded.call
        tensor: Any = given.get("tensor")

        def note() -> None:
            ranks = len(self._calls.groups.get(call.group, ()))
            if self.copies is not None:
                self.copies.on_call(call, list(self._tensors_of(given)), ranks)
            observer = self._reduction_observer
            if observer is not None:
                self._safely_reduced(lambda: observer.on_call(call, tensor, ranks))
            self._exchanges_parts = self._exchanges_parts or (self._torch is not None and self._is_exchange(call))
            if call.operation != "all_reduce" or call.reduce not in ("sum", "avg"):
                return
            if not hasattr(tensor, "data_ptr") or not _has_address(tensor):
                return
            self._reduces += 1
            if len(self._calls.groups[call.group]) > 1:
                self.clipping.reduced(self._rank_and_sizes()[0], tensor, call.place)
            if len(self._reduced) >= _MOST_REDUCED:
                self._reduced.clear()
            self._reduced[tensor.data_ptr()] = _Reduced(
                tensor.numel(), call.group, self._reduces, call, tensor.device.type == "cpu"
            )

        self._safely(note)

    def _is_exchange(self, call: CollectiveCall) -> bool:
        """Return whether a call shares out activations: an all-to-all, or one that the script makes in backward()."""
        if "all_to_all" in call.operation:
            return True
        return bool(self._torch._C._current_graph_task_id() != -1) and not is_of_fsdp(sys._getframe(1))

    def _tensors_of(self, given: Mapping[str, Any]) -> Iterator[Any]:
        for value in given.values():
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, self._torch.Tensor):
                    yield one

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # compiled steps are not traced; an optimizer inside of backward() sees a part of the gradients
        torch = self._torch
        if torch.compiler.is_compiling() or self.error or torch._C._current_graph_task_id() != -1:
            return
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return
        closure = kwargs.get("closure") or next((one for one in args[1:] if callable(one)), None)
        place = innermost_own(sys._getframe(1))[0]
        self._safely(lambda: self._observe(optimizer, place, with_gradients=closure is None))

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if self._torch.compiler.is_compiling() or self.error:
            return
        place = innermost_own(sys._getframe(1))[0]
        self._safely(lambda: self.updates.after_step(self._torch, optimizer, place))
        if self._calls.pending:
            self._safely(lambda: self._find_unwaited(optimizer, place))

    def found(self, *, final: bool = False) -> Iterator[AtStep]:
        """Yield what this process has found by itself since the last call.

        :param final: the script has ended
        """
        if final:
            self.updates.finish()
        for one in (self.unwaited, self.updates.found, self.clipping.found):
            while one:
                yield one.popleft()

    def _rank_and_sizes(self) -> tuple[int, frozenset[int]]:
        distributed = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or not distributed.is_initialized():
            return 0, frozenset()
        sizes = {len(item.ranks) for item in self._wrapped}
        return distributed.get_rank(), frozenset({*sizes, distributed.get_world_size()})

    def _pending_at(self, gradient: Any) -> str:
        """Return the line of the ``all_reduce`` of a gradient that was not waited for; with NCCL a stream may wait."""
        last = self._reduced.get(gradient.data_ptr()) if _has_address(gradient) else None
        if last is None or not last.on_cpu or last.numel != gradient.numel():
            return ""
        return last.call.place if id(last.call) in self._calls.pending else ""

    def _on_clamped(self, parameter: Any, place: str) -> None:
        """A hook of the script has limited a gradient, which DDP averages if it holds the parameter."""
        models = [wrapped.ddp() for wrapped in self._wrapped if len(wrapped.ranks) > 1]
        if any(parameter is one for ddp in models if ddp is not None for one in ddp.parameters()):
            self.clipping.clamped(sys.modules["torch.distributed.distributed_c10d"].get_rank(), place)

    def _find_unwaited(self, optimizer: Any, place: str) -> None:
        """Note gradients that this step used while their reduction was not waited for; with NCCL a stream may wait."""
        steps = self._optimizers.get(optimizer)
        if steps is None:
            return
        pending: dict[str, int] = {}
        gradients = [one.grad for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        for gradient in gradients:
            last = self._reduced.get(gradient.data_ptr()) if _has_address(gradient) else None
            if last is not None and last.on_cpu and last.at > steps.reduces_before and last.numel == gradient.numel():
                pending[last.call.place] = pending.get(last.call.place, 0) + (id(last.call) in self._calls.pending)
        rank = sys.modules["torch.distributed.distributed_c10d"].get_rank()
        for site, count in pending.items():
            if count and len(self.unwaited) < _MOST_UNWAITED:
                self.unwaited.append(UnwaitedGradients(rank, site, place, count, len(gradients), steps.count))

    def _observe(self, optimizer: Any, place: str, *, with_gradients: bool) -> None:
        steps = self._optimizers.get(optimizer)
        if steps is None:
            steps = self._optimizers[optimizer] = _Steps()
            self._seen += 1
        steps.count += 1
        self.clipping.before_step()
        if with_gradients:
            self.updates.before_step(self._torch, optimizer, place)
            self._observe_reductions(optimizer, place)
        due = self._is_due(steps.count)
        owned: set[int] = set()
        trained = {id(one) for group in optimizer.param_groups for one in group["params"]} if due else set()
        for wrapped in self._wrapped:
            ddp = wrapped.ddp()
            if ddp is not None:
                owned.update(self._observe_wrapped(wrapped, ddp, optimizer, steps, place, trained, with_gradients))
        if due:
            self._add_of_shards(optimizer, steps, place, owned, with_gradients=with_gradients)
        if due and self._wants_digests:
            owned.update(self._add_of_meshes(optimizer, steps, place, owned, with_gradients=with_gradients))
        wanted = self._waits_for_reduced()
        if due or wanted:
            for title, named in self._reduced_by_hand(optimizer, steps, owned):
                if wanted and self._on_reduced is not None:
                    self._on_reduced(self._calls.groups[title])
                if due:
                    self._add_by_hand(optimizer, steps, place, title, named)
        if self.copies is not None:
            self.copies.before_step(
                self._torch, self._digests_made(), optimizer, lambda: self._held_by_wrappers(optimizer), place,
                steps.count, due=due, wrapped=bool(self._wrapped),
                reduced_among=functools.partial(self._reduced_among, steps),
            )  # fmt: skip
        steps.reduces_before, steps.reduces = steps.reduces, self._reduces

    def _observe_wrapped(
        self, wrapped: WrappedModel, ddp: Any, optimizer: Any, steps: _Steps, place: str, trained: set[int],
        with_gradients: bool,
    ) -> set[int]:  # fmt: skip
        """Add a row for a model in DDP, if this step is compared; return the IDs of its parameters.

        :param trained: IDs of the optimizer's parameters; none: this step is not compared
        """
        number, of_cpp = self._collectives(ddp.process_group)
        before, entered = steps.until.get(wrapped.key, (wrapped.of_cpp, 0))
        steps.until[wrapped.key] = of_cpp, wrapped.entered
        reduced = of_cpp > before
        why = wrapped.unreduced(ddp, reduced=reduced, entered=wrapped.entered > entered)
        named = [(name, one) for name, one in ddp.module.named_parameters() if id(one) in trained] if trained else []
        if trained:
            steps.trains[wrapped.key] = bool(named)
        loose = why in (HOOK, ALL_IN_NO_SYNC) and wrapped.key not in self._loose and steps.trains.get(wrapped.key)
        if loose and self.copies is not None:
            # a hook may average as it likes, and a script its parameters: the end shows what it did
            self._loose.add(wrapped.key)
            self.copies.add_wrapped(ddp.module, optimizer, why)
        # an optimizer may step copies of the parameters in another format
        of_copies = (
            trained
            and not named
            and reduced
            and not any(one.trains.get(wrapped.key) for one in self._optimizers.values())
        )
        if (named or of_copies) and why != HOOK and (reduced or ddp.require_forward_param_sync):
            kept = [(name, one) for name, one in named if name not in wrapped.ignored]
            values, rest = self._digests_of(kept, optimizer, steps, with_gradients=with_gradients, ddp=ddp)
            rest |= self._others_of(wrapped, ddp, steps)
            if self._wants_digests:
                stepped, digests = self._stepped(), self._digests_made()
                averages = self._averages.of(wrapped.key, ddp.module, stepped, steps.count, digests)
                rest |= {f"{AVERAGE} {name}": digest for name, digest in averages.items()}
                rest |= {f"{MODES} {kind}": digest for kind, digest in modes_of(ddp.module)}
            if wrapped is self._wrapped[0]:
                rest |= self._weights_of_losses()
            changed = wrapped.changed({name: one for name, one in kept if name in values})
            row = ReplicaRow(
                0, self._numbered(wrapped.key, optimizer), wrapped.ranks, steps.count, number, wrapped.network, place,
                learning_rates(optimizer), values, rest, unreduced={"": why, **dict(changed)},
            )  # fmt: skip
            self._add(row)
        return {id(one) for _, one in named}

    def _others_of(self, wrapped: WrappedModel, ddp: Any, steps: _Steps) -> dict[str, Digest]:
        """Return the digests of some parameters in DDP that no optimizer steps."""
        if not self._wants_digests:
            return {}
        stepped = self._stepped()
        others = [
            (name, one)
            for name, one in ddp.module.named_parameters()
            if id(one) not in stepped
            and name not in wrapped.ignored
            and not OWN_BUFFERS.search(name)
            and name in wrapped.members
            and self._is_comparable(one)
        ]
        turn = steps.count // self._every
        chosen = dict(_some(others, turn, _MOST_OTHERS))
        found = self._digests_made().of_several(list(chosen.values()), turn)
        return {f"{OUTSIDE} {name}": digest for name, digest in zip(chosen, found, strict=True)}

    def _weights_of_losses(self) -> dict[str, Digest]:
        """Return the digests of the weights by which loss functions weigh classes.

        A rank may have further losses, as for an evaluation, so weights of one kind are named by their number.
        """
        if not self._wants_digests:
            return {}
        chosen = {
            (reference, name): one
            for reference in self._losses
            if (loss := reference()) is not None
            for name in _LOSS_WEIGHTS
            if (one := getattr(loss, name, None)) is not None and self._is_comparable(one) and one.numel()
        }
        kinds: dict[str, list[Digest]] = {}
        for key, digest in zip(chosen, self._digests_made().of_several(list(chosen.values()), 0), strict=True):
            first, held = self._held_weights.get(key, (digest, 0))
            held = held + 1 if held >= 0 and first.checksum == digest.checksum else -1
            self._held_weights[key] = first, held
            if held >= _WEIGHTS_HELD:
                kinds.setdefault(f"{OF_LOSS} {type(key[0]()).__name__}.{key[1]}", []).append(digest)
        return {
            f"{kind}{f' {number} of {len(of_kind)}' * (len(of_kind) > 1)}": digest
            for kind, of_kind in kinds.items()
            for number, digest in enumerate(of_kind, 1)
        }

    def _observe_reductions(self, optimizer: Any, place: str) -> None:
        observer = self._reduction_observer
        distributed = sys.modules.get("torch.distributed.distributed_c10d")
        if observer is None or distributed is None or not distributed.is_initialized():
            return
        if not 1 < distributed.get_world_size() <= MOST_RANKS:
            return
        rank, scaled = distributed.get_rank(), self._scaler is not None
        self._safely_reduced(
            lambda: self.reductions.extend(observer.before_step(optimizer, rank=rank, place=place, scaled=scaled))
        )

    def _add_of_meshes(
        self, optimizer: Any, steps: _Steps, place: str, owned: set[int], *, with_gradients: bool
    ) -> Iterator[int]:
        """Add a row for each set of replicas that a mesh holds; yield the IDs of their parameters."""
        for replicas in self._divided.replicas(optimizer, owned):
            title = f"mesh {','.join(map(str, replicas.ranks))}{' computed' * replicas.computed}"
            row = ReplicaRow(
                0, self._numbered(title, optimizer), replicas.ranks, steps.count, 0, "", place,
                learning_rates(optimizer),
                *self._digests_of(replicas.named, optimizer, steps, with_gradients=with_gradients),
                computed=replicas.computed,
            )  # fmt: skip
            self._add(row)
            yield from (id(one) for _, one in replicas.named)

    def _after_backward(self) -> None:
        """Keep gradients of shards as a backward pass gave them, until all first steps are made."""
        torch = self._torch
        if torch is None or torch.compiler.is_compiling():
            return
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return
        observed = max((one.count for one in self._optimizers.values()), default=0) <= self._first
        self._safely(lambda: self._sharded.see_gradients(self._digests_made() if observed else None))

    def _add_of_shards(
        self, optimizer: Any, steps: _Steps, place: str, owned: set[int], *, with_gradients: bool
    ) -> None:
        """Add a row for each mesh of ``fully_shard``, and one for what stays outside, whose IDs come to ``owned``."""
        digests = self._digests_made() if self._wants_digests and with_gradients else None
        row = ReplicaRow(0, "", (), steps.count, 0, "", place, (), {})
        for group, ranks, shards in self._sharded.treatment(optimizer, self._stepped(), digests):
            key = self._numbered(f"shards {','.join(map(str, ranks))}", optimizer)
            self._add(row._replace(key=key, ranks=ranks, number=self._collectives(group)[0], shards=shards))
        named = [(name, one) for name, one in self._sharded.outside(optimizer) if id(one) not in owned]
        ranks = self._sharded.ranks_of_all() if named and self._wants_digests and not self._exchanges_parts else ()
        if len(ranks) > 1:
            values, rest = self._digests_of(named, optimizer, steps, with_gradients=with_gradients)
            key = self._numbered(f"outside {','.join(map(str, ranks))}", optimizer)
            self._add(row._replace(key=key, ranks=ranks, values=values, rest=rest, unreduced={"": NOT_SHARDED}))
            owned.update(id(one) for _, one in named)

    def _stepped(self) -> set[int]:
        """Return the IDs of the parameters of all optimizers that made a step."""
        return {id(one) for each in self._optimizers for group in each.param_groups for one in group["params"]}

    def _on_input(self, tensor: Any, mesh: Any) -> None:
        """Add a row for an input that all ranks of a mesh should have alike."""
        if self.error or self._torch is None or self._torch.compiler.is_compiling():
            return
        self._safely(lambda: self._add_input(tensor, mesh))

    def _add_input(self, tensor: Any, mesh: Any) -> None:
        ranks = tuple(sorted(mesh.mesh.flatten().tolist()))
        # what this rank has computed may differ because of its parameters and random numbers
        title = f"{COMPUTED_INPUTS if tensor.requires_grad else 'inputs'} {','.join(map(str, ranks))}"
        nth = self._inputs[title] = self._inputs.get(title, 0) + 1
        if nth > _MOST_INPUTS or not self._is_comparable(tensor):
            return
        place = innermost_own(sys._getframe(3))[0]
        (digest,) = self._digests_made().of_several([tensor], 0)
        rest = {"input of a tensor parallel module": digest}
        self._add(ReplicaRow(0, title, ranks, nth, 0, "", place, (), {}, rest, computed=True))

    def _is_due(self, step: int) -> bool:
        """Return whether a step is compared."""
        if step <= self._first or step % self._every == 0:
            return True
        return step < self._every and (step & (step - 1) == 0 or (step - 1) & (step - 2) == 0)

    def _held_by_wrappers(self, optimizer: Any) -> set[int]:
        """Return the IDs of all parameters in DDP, and of those of an optimizer that a mesh replicates."""
        models = (wrapped.ddp() for wrapped in self._wrapped if wrapped.key not in self._loose)
        held = {id(one) for ddp in models if ddp is not None for one in ddp.parameters()}
        return held.union(*({id(one) for _, one in each.named} for each in self._divided.replicas(optimizer, held)))

    def _digests_made(self) -> Digests:
        if self._digests is None:
            self._digests = Digests(self._torch)
        return self._digests

    def _numbered(self, key: str, optimizer: Any) -> str:
        """Return a key of replicas with the number of an optimizer among those that step them."""
        # the number of one that was collected is not used again
        known, numbers = self._of_replicas.setdefault(key, (weakref.WeakKeyDictionary(), itertools.count()))
        if optimizer not in known:
            known[optimizer] = next(numbers)
        return f"{key}.{known[optimizer]}"

    def _collectives(self, group: Any) -> tuple[int, int]:
        """Return the collectives of a group, and those of them that torch's own code made."""
        title = group.group_name
        number = self._calls.count(group, title)
        return number, number - self._calls.compared(title) + self._calls.of_torch.get(title, 0)

    def _reduced_by_hand(
        self, optimizer: Any, steps: _Steps, owned: set[int]
    ) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
        """Yield each group with the parameters whose gradients the script reduced in it since the last step."""
        groups: dict[str, list[tuple[str, Any]]] = {}
        total = 0
        for index, group in enumerate(optimizer.param_groups):
            for position, one in enumerate(group["params"]):
                if id(one) in owned or one.grad is None:
                    continue
                last = self._reduced_since(steps, one)
                # a sparse gradient counts if the script reduces its values
                total += last is not None or _has_address(one.grad)
                if last is not None:
                    groups.setdefault(last.group, []).append((f"{position} of parameter group {index}", one))
        # an address alone may be a coincidence
        return ((title, named) for title, named in groups.items() if 2 * len(named) > total)

    def _reduced_among(self, steps: _Steps, parameter: Any) -> tuple[int, ...]:
        """Return the part of the ranks among which the script has reduced a gradient since the last step; (): all."""
        last = self._reduced_since(steps, parameter)
        ranks = () if last is None else tuple(self._calls.groups[last.group])
        all_ranks = sys.modules["torch.distributed.distributed_c10d"].get_world_size() if ranks else 0
        return ranks if len(ranks) < all_ranks else ()

    def _reduced_since(self, steps: _Steps, parameter: Any) -> _Reduced | None:
        """Return the last all-reduce of the gradient of a parameter since the last step."""
        gradient = _stored(parameter.grad)
        last = self._reduced.get(gradient.data_ptr()) if gradient is not None and _has_address(gradient) else None
        return last if last is not None and last.at > steps.reduces and last.numel == gradient.numel() else None

    def _add_by_hand(self, optimizer: Any, steps: _Steps, place: str, title: str, named: list[tuple[str, Any]]) -> None:
        row = ReplicaRow(
            0, self._numbered(f"{title}.manual", optimizer), self._calls.groups[title], steps.count,
            self._calls.entered.get(title, 0), "", place, learning_rates(optimizer),
            *self._digests_of(named, optimizer, steps, with_gradients=True),
            reduced=tuple(self._reduced[_stored(one.grad).data_ptr()].call.number for _, one in named),
        )  # fmt: skip
        self._add(row)

    def _digests_of(
        self, named: list[tuple[str, Any]], optimizer: Any, steps: _Steps, *, with_gradients: bool, ddp: Any = None
    ) -> tuple[dict[str, tuple[Digest | None, Digest]], dict[str, Digest]]:
        """Return the digests of some parameters with their gradients, and those of optimizer state and buffers."""
        if not self._wants_digests:
            return {}, {}
        digests = self._digests_made()
        turn = steps.count // self._every
        tensors: dict[tuple[str, str], Any] = {}
        # other optimizers may keep a part of the state on each rank, or its errors
        states = optimizer.state if type(optimizer).__module__.startswith("torch.optim.") else {}
        chosen = list(_some(named, turn))
        stride = -(-len(chosen) // _MOST_STATES) or 1
        for position, (name, one) in enumerate(chosen):
            tensors["parameter", name] = one
            if with_gradients:
                tensors["gradient", name] = one.grad
            if position % stride == turn % stride:
                state = states.get(one, {})
                tensors.update({("optimizer state", f"{key} of {name}"): value for key, value in state.items()})
        if ddp is not None and not ddp.broadcast_buffers:
            buffers = _some(list(buffers_of(ddp.module)), turn)
            tensors.update({("buffer", name): value for name, value in buffers})
        tensors = {key: local_of(one) for key, one in tensors.items()}
        tensors = {key: one for key, one in tensors.items() if self._is_comparable(one)}
        found = dict(zip(tensors, digests.of_several(list(tensors.values()), turn), strict=True))
        values = {
            name: (found.get(("gradient", name)), one) for (what, name), one in found.items() if what == "parameter"
        }
        rest = {f"{what} {name}": one for (what, name), one in found.items() if what in ("optimizer state", "buffer")}
        return values, rest

    def _is_comparable(self, tensor: Any) -> bool:
        torch = self._torch
        if not isinstance(tensor, torch.Tensor) or hasattr(tensor, "device_mesh"):
            return False
        return tensor.layout is torch.strided and not tensor.is_meta

    def _add(self, row: ReplicaRow) -> None:
        if len(row.ranks) > 1:
            distributed = sys.modules["torch.distributed.distributed_c10d"]
            self._digested += bool(row.values) or any(name.startswith(OUTSIDE) for name in row.rest)
            pairs = self._calls.pairs
            paired = bool(pairs.posted or pairs.incomplete)
            self.rows.append(row._replace(rank=distributed.get_rank(), paired=paired, scale=self._loss_scale()))


def _has_address(tensor: Any) -> bool:
    """Return whether a tensor is no DTensor and not sparse."""
    return not hasattr(tensor, "device_mesh") and str(tensor.layout) == "torch.strided"


def _stored(gradient: Any) -> Any:
    """Return the stored values of a sparse gradient, and another one as it is."""
    return gradient._values() if gradient is not None and gradient.is_sparse else gradient


def _some(named: list[tuple[str, Any]], turn: int, most: int = _MOST_PARAMETERS) -> Iterator[tuple[str, Any]]:
    """Yield a part of the parameters, another one at each turn; always the first and the last."""
    stride = -(-len(named) // most) or 1
    for position, item in enumerate(named):
        if position % stride == turn % stride or position in (0, len(named) - 1):
            yield item
