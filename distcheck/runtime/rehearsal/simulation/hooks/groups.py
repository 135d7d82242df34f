"""The default process group: who makes it, with which backend and device, and whether it is destroyed."""

from __future__ import annotations

import os
import sys
from typing import Any

from distcheck.runtime.coordination.child_processes import rank_info_in
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

from .call_sites import called_by_script


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``groups.joins``, ``groups.made`` and ``groups.destroyed``."""

    def joins_rpc(real: Any, *args: Any, **kwargs: Any) -> Any:
        event_log.note("stage.not_simulated", what="RPC", instead="calls of RPC workers are not compared")
        return real(*args, **kwargs)

    def attach(torch: Any) -> None:
        import torch.distributed as dist

        if not dist.is_available():
            return
        c10d = dist.distributed_c10d

        def made(real: Any, *args: Any, **kwargs: Any) -> Any:
            with harmless(event_log, "groups.joins"):
                # before it waits for the others
                joins = rank_info_in(args, kwargs, os.environ)
                if joins is not None:
                    event_log.note("groups.joins", joined_as=joins[0], size=joins[1])
            result = real(*args, **kwargs)
            with harmless(event_log, "groups.made"):
                device = kwargs.get("device_id")
                event_log.note(
                    "groups.made",
                    backend=str(dist.get_backend()),
                    devices=_backends(c10d),
                    size=dist.get_world_size(),
                    device=_index(device),
                    # a library that makes the group for the script is not the script's to fix
                    direct=called_by_script(sys._getframe(1)),
                )
            return result

        def destroyed(real: Any, group: Any = None) -> Any:
            default = group is None or group is c10d.GroupMember.WORLD
            result = real(group)
            if default:
                event_log.note("groups.destroyed")
            return result

        wrap((c10d, dist), "init_process_group", made)
        wrap((c10d, dist), "destroy_process_group", destroyed)

    attach_to("torch", event_log, "groups", attach)
    attach_to("torch.distributed.rpc", event_log, "groups", lambda rpc: wrap(rpc, "init_rpc", joins_rpc))


def _backends(c10d: Any) -> str:
    """``cpu:gloo,cuda:nccl``."""
    return str(c10d._world.pg_backend_config.get(c10d.GroupMember.WORLD) or "")


def _index(device: Any) -> int | None:
    if device is None:
        return None
    return device if isinstance(device, int) else getattr(device, "index", None)
