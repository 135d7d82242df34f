"""Whether a hung rank could report what it waits for: torch's flight recorder and its pipe, before the launch.

``distcheck stuck`` needs nothing of the launch to read stacks. Which collective of which group is open only the
recorder of NCCL's process group knows, and its pipe must be named before the ranks start. Read in torch's headers,
2.4.0 to 2.13.0 (``ProcessGroupNCCL.hpp``: DumpPipe; ``FlightRecorder.hpp``).
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Unavailable, Where
from distcheck.core.registry import probe
from distcheck.launch.model import Launch
from distcheck.launch.settings import Settings

from .platform import Platform
from .software import Software, Version, version_numbers

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
#: What the pipe needs, in every release; the recorder itself has a newer name for it as well.
BUFFER = "TORCH_NCCL_TRACE_BUFFER_SIZE"
NEW_BUFFER = "TORCH_FR_BUFFER_SIZE"
#: Without it a rank reads its pipe as rarely as its watchdog reads the heartbeat: every eight minutes.
DUMP = "TORCH_NCCL_DUMP_ON_TIMEOUT"
#: From here on the recorder and its dumps are on by themselves.
_ON_BY_ITSELF = (2, 11)
#: From here on the recorder's own names are TORCH_FR_…
_NEW_NAMES = (2, 8)
#: What is assumed where the release is unknown.
_SUPPOSED = (2, 13)


@probe(rules.DC127)
def a_hang_can_be_inspected(
    launch: Launch,
    settings: Settings,
    software: Software | Unavailable,
    platform: Platform | Unavailable,
) -> Iterator[Finding]:
    """Ranks that talk through NCCL have a pipe, and a recorder that can answer."""
    if launch.stage != "planned" or _ranks(launch) < 2 or not _talks_through_nccl(launch, software):
        return
    if isinstance(platform, Platform) and platform.system != "linux":
        return
    torch = () if isinstance(software, Unavailable) else version_numbers(software.torch)
    lacking = list(_lacking(settings, torch or _SUPPOSED))
    if not lacking:
        return
    names = [name for name, _ in lacking]
    off = [name for name in (BUFFER, NEW_BUFFER, DUMP) if _is_zero(settings.get(name))]
    why = f"{off[0]}={settings.get(off[0])}" if off else f"{names[0]} is not set"
    yield rules.DC127.found(
        f"{why}: a rank of this launch that hangs cannot report its last collectives",
        where=Where(variable=off[0] if off else names[0]),
        evidence={"lacking": names, "torch": ".".join(map(str, torch)) or None},
        fix=Fix(
            "set this where the ranks start. While they run, 'distcheck stuck' reads the recorder of each rank, "
            "and the job continues",
            command="\n".join(f"export {name}={value}" for name, value in lacking),
            where="job-script",
        ),
    )


def _ranks(launch: Launch) -> int:
    """Of the whole job, as far as it is known."""
    return launch.world_size or (launch.ranks_here or 1) * (launch.nnodes or 1)


def _talks_through_nccl(launch: Launch, software: Software | Unavailable) -> bool:
    """It is known that it does."""
    if isinstance(software, Software) and "nccl" not in software.backends:
        return False
    return "nccl" in launch.backend if launch.backend is not None else isinstance(software, Software)


def _lacking(settings: Settings, torch: Version) -> Iterator[tuple[str, str]]:
    """What has to be set so that a rank answers, and is not."""
    needed: list[tuple[str, str]] = []
    if torch < _ON_BY_ITSELF:
        needed += [(BUFFER, "2000")]
        needed += [(NEW_BUFFER, "2000")] if torch >= _NEW_NAMES else []
        needed += [(DUMP, "1")]
    else:
        needed += [(name, "2000") for name in (BUFFER, NEW_BUFFER) if _is_zero(settings.get(name))]
        needed += [(DUMP, "1")] if _is_zero(settings.get(DUMP)) else []
    if not settings.get(PIPE):
        # the name has the user in it: a pipe of another user would end the start of the job
        yield PIPE, "/tmp/$USER-ask-"
        if torch >= _NEW_NAMES:
            yield "TORCH_FR_DUMP_TEMP_FILE", "/tmp/$USER-dump-"
        else:
            yield "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/tmp/$USER-dump-"
    for name, value in needed:
        found = settings.get(name)
        # the recorder takes either of its names
        if not found or _is_zero(found):
            yield name, value


def _is_zero(value: str | None) -> bool:
    return value is not None and value.strip().lower() in ("0", "false", "no", "n", "f")
