"""Which GPUs the ranks bound, named, could not use, used in collectives, and loaded checkpoints onto, as one fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distcheck.core.model import NotApplicable
from distcheck.core.registry import fact

from .plan import Rehearsal, RehearsalPlan

#: Rows about one GPU that a rank took.
_TAKES = ("bind", "taken", "refused")


class Bound(NamedTuple):
    """A GPU that a rank used, or could not use."""

    rank: int
    #: as the rank counts the GPUs that it sees
    number: int
    place: str
    #: ``bind`` (set_device), ``device_id`` (of init_process_group), ``taken`` (named by a tensor or a model, for the
    #: first time), ``refused``
    how: str
    #: identifies it among the GPUs of its node; "" if there is none
    card: str = ""
    #: GPUs that the rank sees
    visible: int = 0
    #: CUDA_VISIBLE_DEVICES then, and as the launcher gave it; None: not set
    mask: str | None = None
    given_mask: str | None = None
    #: seconds since the rehearsal began
    at_s: float = 0.0

    @property
    def binds(self) -> bool:
        """Whether it selects the rank's default GPU."""
        return self.how in ("bind", "device_id")


class GroupDevice(NamedTuple):
    """A GPU with which a rank takes part in the collectives of a group, as it did for the first time."""

    rank: int
    #: as the rank counts the GPUs that it sees
    number: int
    card: str
    place: str
    operation: str
    #: name of the group
    group: str
    nccl: bool
    #: torch took the current device, or guessed
    guessed: bool
    #: it is the current device
    current: bool
    #: seconds since the rehearsal began
    at_s: float = 0.0


class Load(NamedTuple):
    """A checkpoint that was loaded without map_location."""

    rank: int
    place: str
    file: str
    #: card → bytes
    cards: Mapping[str, int]
    #: why it failed
    why: str = ""


class Taken(NamedTuple):
    """What the ranks of a rehearsal did with GPUs, in the order of time."""

    #: the job as it is simulated
    plan: RehearsalPlan
    #: GPUs that ranks used, or could not use
    bound: tuple[Bound, ...] = ()
    #: GPUs with which ranks take part in collectives
    parts: tuple[GroupDevice, ...] = ()
    #: checkpoints that were loaded without map_location
    loads: tuple[Load, ...] = ()
    #: rank → line that reduced its mask
    masked: Mapping[int, str] = {}
    #: rank → line that made the default group
    groups: Mapping[int, str] = {}

    def local(self, rank: int) -> int:
        """The number of a rank on its node."""
        return rank % self.plan.nproc_per_node

    def own_card(self, rank: int) -> str:
        """Return the GPU that a rank selected; "" if unknown."""
        bound = [one.card for one in self.bound if one.rank == rank and one.card and one.binds]
        used = [one.card for one in self.parts if one.rank == rank and not one.guessed]
        return (bound or used or [""])[-1]


@fact(of_this_host=False)
def read_taken(rehearsal: Rehearsal) -> Taken:
    """Return what the ranks logged."""
    plan = rehearsal.plan
    if not plan.gpus_per_node:
        raise NotApplicable("the rehearsal has no GPUs")
    made = list(rehearsal.of_ranks("groups.made"))
    bound = []
    for row in rehearsal.of_ranks("devices."):
        how = row.kind.removeprefix("devices.")
        if how in _TAKES:
            bound.append(row.fill(Bound, number=row.data["index"], how=how, card=row.data.get("card") or ""))
    named = [row for row in made if row.data.get("device") is not None]
    bound += [row.fill(Bound, number=row.data["device"], how="device_id") for row in named]
    return Taken(
        plan,
        tuple(bound),
        tuple(row.fill(GroupDevice, number=row.data["index"]) for row in rehearsal.of_ranks("devices.collective")),
        tuple(row.fill(Load) for row in rehearsal.of_ranks("devices.load")),
        {row.rank: row.place for row in rehearsal.of_ranks("devices.mask") if row.rank is not None},
        {row.rank: row.place for row in made if row.rank is not None},
    )
