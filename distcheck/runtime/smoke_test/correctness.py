"""One rank's part of the correctness check: it calls each collective and compares the result.

It judges nothing and sends nothing: its results return as a value, which :mod:`.correctness_checks` judges.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .cases import COPIES, NOT_VERIFIED, OBJECTS, REDUCTIONS, SUMS, Case, distances, make_plan
from .inputs import INTEGERS, ITEM_BYTES, PREMUL_FACTOR, RandomTables, mix
from .live_group import LiveGroup
from .model import RankCorrectness, Step, WrongResult

#: The copy from GPU to GPU, without any backend, and its size.
PEER_COPY = "peer copy"
PEER_COPY_BYTES = 1 << 24
#: What is appended to the name of a collective that changed what it was only to send.
INPUT = " (input)"
#: Share of what the late rank slept that the others must have waited at least; the rest is for clocks that do not run
#: alike.
WAITED_SHARE = 0.9
#: How often a flag is sent by which ranks agree.
VOICES = 64
#: Characters of an object that are shown.
_SHOWN = 60
#: Wrong elements that are inspected to find the rank whose contribution is wrong.
SAMPLE = 64


class CollectiveFailed(Exception):  # noqa: N818 - the name states the outcome of the collective
    """A collective raised on this rank. The group is unusable afterwards: the check ends.

    :param step: what was being done
    :param text: the exception's type and text
    :param proof: what was verified until then, with the failure in it
    """

    def __init__(self, step: Step, text: str, proof: RankCorrectness) -> None:
        super().__init__(text)
        self.step = step
        self.text = text
        self.proof = proof


class CorrectnessRun:
    """The state of one correctness check on one rank."""

    def __init__(self, live: LiveGroup) -> None:
        self.live = live
        self.tables = RandomTables(live.rank, live.size, live.device)
        self.torch: Any = self.tables.torch
        self.checks = 0
        self.mismatches: dict[tuple[str, str], WrongResult] = {}
        self.skipped: dict[tuple[str, str], None] = {}
        self.collectives: dict[str, None] = {}
        self.dtypes: dict[str, None] = {}
        self.failures: list[tuple[str, str]] = []
        self.begun = time.monotonic()

    def result(self) -> RankCorrectness:
        """What has been proved so far."""
        return RankCorrectness(
            self.live.rank,
            self.checks,
            tuple(self.mismatches.values()),
            tuple(self.skipped),
            tuple(self.failures),
            round(time.monotonic() - self.begun, 4),
            tuple(self.collectives),
            tuple(self.dtypes),
        )

    def verify(self) -> RankCorrectness:
        live = self.live
        cuda = live.device.type == "cuda"
        if live.size == 1:
            self.skip("send_recv, barrier", "needs two ranks")
        elif cuda and live.backend == "gloo":
            self.skip("send_recv", "gloo sends tensors of processors only")
        crowded, no_numpy = self.agree(not cuda and live.ranks_here > live.cores, not _has_numpy(self.torch))
        if no_numpy:
            self.skip(", ".join(OBJECTS), "torch needs NumPy for them, and it is not to be had on every host")
        without = self.reductions_missing()
        for repetition in range(max(1, live.options.check)):
            plan = make_plan(
                live.size, backend=live.backend, device=live.device.type, crowded=crowded, objects=not no_numpy,
                without=without, repetition=repetition,
            )  # fmt: skip
            self.run(plan.essential)
            if not crowded:
                self.run(plan.additional)
        if crowded:
            self.skip("some sizes, and copies in other dtypes than float32", "more ranks than cores on a host")
        if cuda:
            self.peer_copy()
        return self.result()

    def skip(self, what: str, why: str) -> None:
        self.skipped[what, why] = None

    def agree(self, *mine: bool) -> list[bool]:
        """Return which of these flags any rank raised: all ranks must test the same.

        Each flag is sent many times, and more than half of them count: ranks proceed together even where this very
        collective is what is broken.
        """
        if self.live.size == 1:
            return list(mine)
        words = self.torch.tensor([[int(word)] * VOICES for word in mine], dtype=self.torch.int64).flatten()
        words = words.to(self.live.device)
        step = Step("verify", "all_reduce", "int64", len(words) * ITEM_BYTES["int64"])
        self.live.announce(step)
        try:
            self.live.operations.all_reduce(words)
        except Exception as error:  # as in run()
            raise self.failed(step, error) from error
        self.live.synchronize()
        return [sum(value != 0 for value in part.tolist()) > VOICES // 2 for part in words.split(VOICES)]

    def reductions_missing(self) -> tuple[str, ...]:
        """Return the reductions that this backend lacks on some rank, and report what it has and is not verified.

        gloo refuses one before it sends anything. NCCL has had all of them since 2.11.
        """
        live = self.live
        for what, why in NOT_VERIFIED.get(live.backend, ()):
            self.skip(what, why)
        if live.backend != "gloo":
            return ()
        refused = []
        for collective, (name, _) in REDUCTIONS.items():
            step = Step("verify", collective, "float32", ITEM_BYTES["float32"])
            live.announce(step)
            one = self.torch.ones(1, dtype=self.torch.float32, device=live.device)
            try:
                live.operations.all_reduce_by(one, name, PREMUL_FACTOR)
            except Exception as error:  # as in run()
                if "Cannot use ReduceOp" not in str(error):
                    raise self.failed(step, error) from error
                refused.append(collective)
        flags = self.agree(*(collective in refused for collective in REDUCTIONS))
        return tuple(collective for collective, flag in zip(REDUCTIONS, flags, strict=True) if flag)

    def run(self, trials: Iterable[Case]) -> None:
        """Run one after another; an exception ends the check."""
        for trial in trials:
            self.live.announce(trial.step)
            try:
                self.attempt(trial)
            except Exception as error:  # every backend raises errors of its own; they are passed on, with the step
                raise self.failed(trial.step, error) from error
            self.collectives[trial.collective] = None
            if trial.dtype in ITEM_BYTES:
                self.dtypes[trial.dtype] = None

    def failed(self, step: Step, error: Exception) -> CollectiveFailed:
        """Return the end of the check, with what was verified until then."""
        text = f"{type(error).__name__}: {error}"
        self.failures.append((step.text, text))
        return CollectiveFailed(step, text, self.result())

    def attempt(self, trial: Case) -> None:
        if trial.collective in SUMS:
            self.attempt_sum(trial)
        elif trial.collective in REDUCTIONS:
            self.attempt_reduction(trial)
        elif trial.collective in COPIES:
            self.attempt_copy(trial)
        elif trial.collective == "send_recv":
            self.attempt_sends(trial)
        elif trial.collective == "barrier":
            self.attempt_barrier(trial)
        else:
            self.attempt_objects(trial)

    def attempt_sum(self, trial: Case) -> None:
        live, tables, operations = self.live, self.tables, self.live.operations
        scattered = trial.collective == "reduce_scatter"
        tensor = tables.empty(trial.dtype, trial.elements * (live.size if scattered else 1))
        tables.sum_input(trial.dtype, trial.stream, 0, tensor)
        if trial.collective == "all_reduce":
            operations.all_reduce(tensor)
            live.synchronize()
            self.compare_sum(trial, tensor, 0)
        elif trial.collective == "reduce":
            operations.reduce(tensor, trial.root)
            live.synchronize()
            if live.rank == trial.root:
                self.compare_sum(trial, tensor, 0)
        else:
            kept = tensor.clone()
            output = tables.empty(trial.dtype, trial.elements)
            operations.reduce_scatter(output, tensor)
            live.synchronize()
            self.compare_sum(trial, output, live.rank * trial.elements)
            self.unchanged(trial, kept, tensor)

    def attempt_reduction(self, trial: Case) -> None:
        """An all_reduce that is no sum."""
        live, tables = self.live, self.tables
        tensor = tables.empty(trial.dtype, trial.elements)
        tables.reduction_input(trial.collective, trial.dtype, trial.stream, tensor)
        live.operations.all_reduce_by(tensor, REDUCTIONS[trial.collective][0], PREMUL_FACTOR)
        live.synchronize()
        # an average is divided before or after it is summed up, and so rounded; the right ones are whole numbers
        seen = tensor.round() if trial.collective == "all_reduce_avg" else tensor
        made = (trial.collective, trial.dtype, trial.stream, len(seen))
        wrong = self.differences(seen, [(0, 0, len(seen))], lambda _low, _high: tables.reduction_blocks(*made))
        if wrong is not None:
            count, first, _, _ = wrong
            blocks = tables.reduction_blocks(*made)
            right = next(block[first - low] for low, high, block in blocks if low <= first < high)
            self.report(
                trial, trial.collective, count, len(seen), first, str(right.item()), str(tensor[first].item()), None
            )

    def attempt_copy(self, trial: Case) -> None:
        # index g of the stream belongs to part g // elements: what each rank sends is its part
        live, tables, operations = self.live, self.tables, self.live.operations
        size, rank, root, part = live.size, live.rank, trial.root, trial.elements
        mine = tables.empty(trial.dtype, part)
        kept = None
        if trial.collective == "broadcast":
            if rank == root:
                tables.copy_input(trial.dtype, trial.stream, 0, mine)
            operations.broadcast(mine, root)
            live.synchronize()
            self.compare_copy(trial, mine, [(0, 0, part, root)])
        elif trial.collective in ("all_gather", "gather"):
            tables.copy_input(trial.dtype, trial.stream, rank * part, mine)
            kept = mine.clone()
            everything = [(0, 0, part * size, None)]
            if trial.collective == "all_gather":
                output = tables.empty(trial.dtype, part * size)
                operations.all_gather(output, mine)
                live.synchronize()
                self.compare_copy(trial, output, everything)
            elif rank == root:
                output = tables.empty(trial.dtype, part * size)
                operations.gather(list(output.split(part)), mine, root)
                live.synchronize()
                self.compare_copy(trial, output, everything)
            else:
                operations.gather(None, mine, root)
                live.synchronize()
            self.unchanged(trial, kept, mine)
        elif trial.collective == "all_to_all":
            tensor = tables.empty(trial.dtype, part * size)
            tables.copy_input(trial.dtype, trial.stream, rank * part * size, tensor)
            kept = tensor.clone()
            output = tables.empty(trial.dtype, part * size)
            operations.all_to_all(output, tensor)
            live.synchronize()
            self.compare_copy(
                trial, output, [(peer * part, (peer * size + rank) * part, part, peer) for peer in range(size)]
            )
            self.unchanged(trial, kept, tensor)
        else:
            inputs = None
            if rank == root:
                tensor = tables.empty(trial.dtype, part * size)
                tables.copy_input(trial.dtype, trial.stream, 0, tensor)
                kept = tensor.clone()
                inputs = list(tensor.split(part))
            operations.scatter(mine, inputs, root)
            live.synchronize()
            self.compare_copy(trial, mine, [(0, rank * part, part, root)])
            if kept is not None:
                self.unchanged(trial, kept, tensor)

    def attempt_sends(self, trial: Case) -> None:
        # what goes from one rank to another is a stream of its own
        live, tables, operations = self.live, self.tables, self.live.operations
        size, rank, part = live.size, live.rank, trial.elements

        def buffers(ahead: int) -> tuple[int, int, Any, Any]:
            target, source = (rank + ahead) % size, (rank - ahead) % size
            outgoing, incoming = tables.empty(trial.dtype, part), tables.empty(trial.dtype, part)
            tables.copy_input(trial.dtype, mix(trial.stream, ahead, rank), 0, outgoing)
            return target, source, outgoing, incoming

        def compare(ahead: int, source: int, incoming: Any, kept: Any, outgoing: Any) -> None:
            live.synchronize()
            sent = trial._replace(stream=mix(trial.stream, ahead, source))
            self.compare_copy(sent, incoming, [(0, 0, part, source)])
            self.unchanged(trial, kept, outgoing)

        if trial.way == "exchange":
            for ahead in distances(size):
                target, source, outgoing, incoming = buffers(ahead)
                kept = outgoing.clone()
                operations.exchange(outgoing, incoming, target, source)
                compare(ahead, source, incoming, kept, outgoing)
            return
        ahead = 1 if trial.way == "right" else -1
        target, source, outgoing, incoming = buffers(ahead)
        kept = outgoing.clone()
        # even ranks send first: with an odd number two of them are neighbours, and the first of these is free in time
        if rank % 2 == 0:
            operations.send(outgoing, target)
            operations.receive(incoming, source)
        else:
            operations.receive(incoming, source)
            operations.send(outgoing, target)
        compare(ahead, source, incoming, kept, outgoing)

    def attempt_barrier(self, trial: Case) -> None:
        """One rank comes late; the others must wait for it.

        No clock of another process is needed: that the late rank holds the sum of all means that all had begun that
        sum. Only then it begins to be late. So from the beginning of its sum to the end of its barrier every other
        rank must have spent what the late one slept, whatever else held it up.
        """
        live = self.live
        arrived = self.torch.ones(1, dtype=self.torch.float32, device=live.device)
        begun = time.monotonic()
        live.operations.all_reduce(arrived)
        live.synchronize()
        if live.rank == trial.root:
            arrived.item()
            time.sleep(trial.late_s)
        live.operations.barrier()
        live.synchronize()
        waited = time.monotonic() - begun
        if live.rank == trial.root:
            return
        self.checks += 1
        if waited < WAITED_SHARE * trial.late_s:
            self.found(
                WrongResult(
                    live.rank, "barrier", "", 0, 1, 1, 0, f"at least {1e3 * trial.late_s:g} ms",
                    f"{1e3 * waited:.1f} ms", trial.seed, trial.root,
                )
            )  # fmt: skip

    def attempt_objects(self, trial: Case) -> None:
        live, operations = self.live, self.live.operations
        size, rank, root = live.size, live.rank, trial.root
        everything: list[object] = [_object(trial.stream, peer) for peer in range(size)]
        seen: list[object]
        expected: list[object]
        if trial.collective == "all_gather_object":
            seen, expected = operations.all_gather_object(everything[rank], size), everything
        elif trial.collective == "broadcast_object":
            value = everything[root] if rank == root else None
            device = live.device if live.backend == "nccl" else None
            seen, expected = [operations.broadcast_object(value, root, device)], [everything[root]]
        elif trial.collective == "gather_object":
            gathered = operations.gather_object(everything[rank], root, rank, size)
            seen, expected = ([] if gathered is None else gathered), (everything if rank == root else [])
        else:
            values = everything if rank == root else None
            seen, expected = [operations.scatter_object(values, root)], [everything[rank]]
        if not expected:
            return
        self.checks += 1
        wrong = [
            index
            for index, value in enumerate(expected)
            if index >= len(seen) or type(seen[index]) is not type(value) or seen[index] != value
        ]
        if wrong or len(seen) != len(expected):
            index = wrong[0] if wrong else len(expected)
            from_all = trial.collective in ("all_gather_object", "gather_object")
            source = (index if len(wrong) == 1 else None) if from_all else root
            right, got = _where_they_differ(*(values[index : index + 1] for values in (expected, seen)))
            self.found(
                WrongResult(
                    rank, trial.collective, trial.dtype, 0, max(1, len(wrong)), len(expected), index, right, got,
                    trial.seed, source,
                )
            )  # fmt: skip

    def compare_sum(self, trial: Case, seen: Any, start: int) -> None:
        """Compare a sum by value: the buffer holds the indices from ``start`` on."""
        tables = self.tables
        blocks = [(0, start, len(seen))]
        wrong = self.differences(
            seen, blocks, lambda low, high: tables.sum_blocks(trial.dtype, trial.stream, low, high)
        )
        if wrong is None:
            return
        count, first, _, samples = wrong
        sums = [next(tables.sum_blocks(trial.dtype, trial.stream, start + i, start + i + 1))[2] for i in samples]
        expected = [block.item() for block in sums]
        values = [seen[index].item() for index in samples]
        source = self.whose(trial, [start + index for index in samples], expected, values)
        self.report(trial, trial.collective, count, len(seen), first, str(expected[0]), str(values[0]), source)

    def whose(self, trial: Case, indices: list[int], expected: list[Any], seen: list[Any]) -> int | None:
        """The one rank whose contribution is missing, or counted twice, at all of some wrong indices; else None."""
        if self.live.size == 1:
            return None
        off = [value - right for value, right in zip(seen, expected, strict=True)]
        # what is counted twice may make a sum larger than is exact, and be rounded
        slack = 0 if trial.dtype in INTEGERS else 2
        fitting = [
            rank
            for rank, numbers in enumerate(self.tables.contributions(trial.dtype, trial.stream, indices))
            if all(too_much == -number for too_much, number in zip(off, numbers, strict=True))
            or all(abs(too_much - number) <= slack for too_much, number in zip(off, numbers, strict=True))
        ]
        # so many different numbers must be possible that a fit by chance is out of the question
        largest = max(map(abs, self.tables.sums(trial.dtype).all_terms))
        certain = len(indices) * math.log((largest + 1) / (2 * slack + 1)) > math.log(1000 * self.live.size)
        return fitting[0] if len(fitting) == 1 and certain else None

    def compare_copy(
        self,
        trial: Case,
        seen: Any,
        parts: Sequence[tuple[int, int, int, int | None]],
        tables: RandomTables | None = None,
    ) -> None:
        """Compare bit by bit. A part: index in the buffer, index in the stream, elements, and who sent it.

        With None for who sent it, index g of the stream was sent by rank g // trial.elements.
        """
        tables = self.tables if tables is None else tables
        bits = seen.view(tables.bits_dtype(trial.dtype))
        blocks = [(place, start, length) for place, start, length, _ in parts]
        wrong = self.differences(
            bits, blocks, lambda low, high: tables.copy_blocks(trial.dtype, trial.stream, low, high)
        )
        if wrong is None:
            return
        count, first, last, _ = wrong

        def sender(index: int) -> int | None:
            for place, start, length, source in parts:
                if place <= index < place + length:
                    return (start + index - place) // trial.elements if source is None else source
            return None

        source = sender(first) if sender(first) == sender(last) else None
        place, start, _, _ = next(part for part in parts if part[0] <= first < part[0] + part[2])
        index = start + first - place
        right = next(tables.copy_blocks(trial.dtype, trial.stream, index, index + 1))[2].view(tables.dtype(trial.dtype))
        self.report(
            trial, trial.collective, count, len(seen), first, str(right.item()), str(seen[first].item()), source
        )

    def differences(
        self,
        seen: Any,
        blocks: Sequence[tuple[int, int, int]],
        expected: Callable[[int, int], Iterator[tuple[int, int, Any]]],
    ) -> tuple[int, int, int, list[int]] | None:
        """How many elements are wrong, the first, the last, and the first few of them; None: all are right.

        A block: index in the buffer, index in the stream, elements. Counted on the device.
        """
        self.checks += 1
        counts = []
        for place, start, length in blocks:
            for low, high, right in expected(start, start + length):
                counts.append((seen[place + low - start : place + high - start] != right).sum())
        total = int(self.torch.stack(counts).sum().item())
        if not total:
            return None
        found: list[int] = []
        last = 0
        for place, start, length in blocks:
            for low, high, right in expected(start, start + length):
                indices = (seen[place + low - start : place + high - start] != right).nonzero().flatten()
                if len(indices):
                    begin = place + low - start
                    last = begin + int(indices[-1].item())
                    found.extend(begin + int(index) for index in indices[: SAMPLE - len(found)].tolist())
        return total, found[0], last, found

    def unchanged(self, trial: Case, kept: Any, sent: Any) -> None:
        """What a collective was only to send must be as it was."""
        self.checks += 1
        made = self.tables.bits_dtype(trial.dtype)
        different = kept.view(made) != sent.view(made)
        count = int(different.sum().item())
        if count:
            first = int(different.nonzero()[0].item())
            self.report(
                trial, trial.collective + INPUT, count, len(kept), first,
                str(kept[first].item()), str(sent[first].item()), None,
            )  # fmt: skip

    def report(
        self, trial: Case, name: str, count: int, elements: int, first: int, right: str, seen: str, source: int | None
    ) -> None:
        self.found(
            WrongResult(
                self.live.rank, name, trial.dtype, trial.size_bytes, count, elements, first, right, seen,
                trial.seed, source,
            )
        )  # fmt: skip

    def found(self, mismatch: WrongResult) -> None:
        """Keep the first result of each collective and dtype, or a later one that shows whose contribution is wrong."""
        key = (mismatch.collective, mismatch.dtype)
        known = self.mismatches.setdefault(key, mismatch)
        if known.source is None and mismatch.source is not None:
            self.mismatches[key] = known._replace(source=mismatch.source)

    # GPU to GPU, without any backend

    def peer_copy(self) -> None:
        """Copy from this rank's GPU to the next one that it sees, and back."""
        # every rank announces it, whatever it can do: who has begun fewer steps counts as behind
        step = Step("verify", PEER_COPY, "float32", PEER_COPY_BYTES)
        self.live.announce(step)
        cuda = self.torch.cuda
        count = cuda.device_count()
        if count < 2:
            return
        own = self.live.device.index if self.live.device.index is not None else cuda.current_device()
        other = (own + 1) % count
        if not cuda.can_device_access_peer(own, other):
            self.skip(PEER_COPY, "GPUs here have no direct access to each other's memory")
            return
        try:
            self.copy_to(self.torch.device("cuda", other))
        except RuntimeError as error:  # torch.OutOfMemoryError and CUDA's errors are RuntimeErrors
            text = str(error)
            if "out of memory" not in text and "busy or unavailable" not in text:
                raise self.failed(step, error) from error
            self.skip(PEER_COPY, "the other GPU has no room for a process more")

    def copy_to(self, other: Any, copy: Callable[[Any, Any], Any] | None = None) -> None:
        """Compare what arrives on another device, and what comes back from it.

        :param copy: called with target and source, ``torch.Tensor.copy_`` without one
        """
        copy = self.torch.Tensor.copy_ if copy is None else copy
        elements = PEER_COPY_BYTES // ITEM_BYTES["float32"]
        trial = Case(PEER_COPY, "float32", elements, PEER_COPY_BYTES, stream=mix(0xC0))
        near = self.tables.empty("float32", elements)
        self.tables.copy_input("float32", trial.stream, 0, near)
        there = RandomTables(self.live.rank, self.live.size, other)
        far, back = there.empty("float32", elements), self.tables.empty("float32", elements)
        copy(far, near)
        copy(back, far)
        for device in (other, self.live.device):
            if device.type == "cuda":
                self.torch.cuda.synchronize(device)
        for tables, buffer in ((there, far), (self.tables, back)):
            self.compare_copy(trial, buffer, [(0, 0, elements, None)], tables)
        self.collectives[PEER_COPY] = None


def _has_numpy(torch: Any) -> bool:
    """Whether torch can make arrays of tensors, by which its object collectives work."""
    try:
        torch.zeros(1).numpy()
    except RuntimeError:
        return False
    return True


def _object(stream: int, rank: int) -> dict[str, object]:
    """An object of a rank; pickled, those of two ranks differ in length as well."""
    word = mix(stream, rank)
    return {"rank": rank, "word": word, "text": "é" * (word % 61), "bytes": word.to_bytes(8, "big") * (1 + rank % 5)}


def _where_they_differ(expected: list[object], seen: list[object]) -> tuple[str, str]:
    """Two objects as texts of at most ``_SHOWN`` characters, from a little before they differ; each in a list."""
    texts = ["".join(repr(value) for value in values) or "nothing" for values in (expected, seen)]
    same = next((place for place, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), None)
    start = max(0, (min(map(len, texts)) if same is None else same) - _SHOWN // 4)
    return _cut(texts[0], start), _cut(texts[1], start)


def _cut(text: str, start: int) -> str:
    end = start + _SHOWN - 2
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
