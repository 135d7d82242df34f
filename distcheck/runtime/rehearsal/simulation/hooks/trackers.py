"""Logs which trackers this rank starts, and keeps those offline whose arguments request online mode.

Variables (:mod:`..trackers`) set the default; an argument in the script overrides a variable.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from distcheck.runtime.coordination.patching import attach_to, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.trackers import FOR_SEVERAL, NEVER_OFFLINE, SWITCHES


class _Tracker(NamedTuple):
    """A call that starts a run: a function or a constructor."""

    module: str
    #: ``init``, ``Task.init``, ``Experiment.__init__``
    attribute: str
    #: as the user writes it
    shown: str
    #: argument → value that keeps it from the network, and the values that it takes the place of
    offline: tuple[str, object, tuple[object, ...]] | None = None


_ONLINE = ("online", "shared", "cloud", "async", "sync")
_TRACKERS = (
    _Tracker("wandb", "init", "wandb.init", ("mode", "offline", _ONLINE)),
    _Tracker("swanlab", "init", "swanlab.init", ("mode", "offline", _ONLINE)),
    _Tracker("trackio", "init", "trackio.init", ("space_id", None, ())),
    _Tracker("mlflow", "start_run", "mlflow.start_run"),
    _Tracker("comet_ml", "start", "comet_ml.start", ("online", False, (True,))),
    _Tracker("comet_ml", "Experiment.__init__", "comet_ml.Experiment"),
    _Tracker("neptune", "init_run", "neptune.init_run", ("mode", "offline", _ONLINE)),
    _Tracker("clearml", "Task.init", "Task.init"),
    _Tracker("aim", "Run.__init__", "aim.Run"),
    _Tracker("torch.utils.tensorboard.writer", "SummaryWriter.__init__", "SummaryWriter"),
    _Tracker("tensorboardX.writer", "SummaryWriter.__init__", "SummaryWriter"),
)
#: What would change something that others see: methods of ``HfApi``.
_UPLOADS = (
    "create_repo", "delete_repo", "create_commit", "create_branch", "create_tag", "upload_file", "upload_folder",
    "upload_large_folder", "delete_file", "delete_folder", "preupload_lfs_files", "create_pull_request",
    "create_discussion", "update_repo_settings", "update_repo_visibility", "move_repo", "super_squash_history",
)  # fmt: skip


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Around each tracker, once it is imported."""
    attaching: list[tuple[str, Callable[[Any], None]]] = [
        *((tracker.module, functools.partial(_attach, event_log, tracker)) for tracker in _TRACKERS),
        ("mlflow", functools.partial(_keep_mlflow_here, event_log)),
        ("huggingface_hub.hf_api", functools.partial(_keep_from_the_hub, event_log)),
    ]
    for module, attach in attaching:
        attach_to(module, event_log, f"trackers ({module})", attach)


def _attach(event_log: EventLog, tracker: _Tracker, module: Any) -> None:
    def start(real: Any, *args: Any, **kwargs: Any) -> Any:
        given = args[1:] if tracker.attribute.endswith("__init__") else args
        event_log.note(
            "trackers.start", tracker=tracker.shown, given=zlib.crc32(_text((given, sorted(kwargs.items()))).encode()),
            off=_is_off(kwargs), several=any(kwargs.get(word) is not None for word in FOR_SEVERAL),
        )  # fmt: skip
        if tracker.offline is not None:
            argument, value, online = tracker.offline
            if kwargs.get(argument) in online or (not online and kwargs.get(argument) is not None):
                kwargs[argument] = value
        elif tracker.shown in NEVER_OFFLINE:
            event_log.note("trackers.online", what=f"{tracker.shown}() has no offline mode: its run is a real one")
        return real(*args, **kwargs)

    wrap(module, tracker.attribute, start)


def _text(value: object) -> str:
    """Return the text of an argument as far as it is comparable between ranks."""
    if isinstance(value, (str, int, float, bool, bytes, type(None), os.PathLike)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_text(one) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_text(one)}' for key, one in value.items())}}}"
    return type(value).__name__


def _is_off(kwargs: dict[str, Any]) -> bool:
    """Return whether the script disables the tracker on this rank, by an argument or a variable."""
    if kwargs.get("mode") in ("disabled", "debug") or kwargs.get("disabled") is True:
        return True
    return any(os.environ.get(name, "").lower() in values for name, values in SWITCHES.items())


def _keep_mlflow_here(event_log: EventLog, module: Any) -> None:
    def set_tracking_uri(real: Any, uri: Any) -> None:
        if str(uri).startswith(("http:", "https:", "databricks", "uc:")):
            event_log.note("trackers.led", what="mlflow.set_tracking_uri() uses a folder that is removed at the end")
            uri = os.environ.get("MLFLOW_TRACKING_URI", "")
        real(uri)

    if not hasattr(module, "set_tracking_uri"):
        raise AttributeError("mlflow has no set_tracking_uri()")
    wrap(module, "set_tracking_uri", set_tracking_uri)


def _keep_from_the_hub(event_log: EventLog, module: Any) -> None:
    """Allow downloads and skip uploads."""
    for name in _UPLOADS:
        wrap(module.HfApi, name, functools.partial(_skip_upload, event_log, module))
    # the functions of the module are methods of one HfApi, bound when it was imported
    api = getattr(module, "api", None)
    for name in _UPLOADS if api is not None else ():
        if hasattr(module, name) and hasattr(api, name):
            setattr(module, name, getattr(api, name))


def _skip_upload(event_log: EventLog, module: Any, real: Any, *args: Any, **kwargs: Any) -> Any:
    name = real.__name__
    event_log.note("trackers.led", what=f"HfApi.{name}() was not called: a rehearsal uploads nothing")
    repository = str(kwargs.get("repo_id") or (args[1] if len(args) > 1 else "rehearsal"))
    # the hub puts the user's own name before it
    repository = repository if "/" in repository else f"rehearsal/{repository}"
    address = f"https://huggingface.co/{repository}"
    if name == "create_repo":
        return module.RepoUrl(address)
    if name in ("create_commit", "upload_file", "upload_folder", "delete_file", "delete_folder"):
        return module.CommitInfo(
            commit_url=f"{address}/commit/0", commit_message="", commit_description="", oid="0" * 40
        )
    return None
