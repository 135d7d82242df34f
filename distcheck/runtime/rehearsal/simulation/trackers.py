"""Experiment trackers in a rehearsal: the variables that keep them from the network, as data, and what none can do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distcheck.runtime.coordination.logged_events import LoggedEvent

from .plan import Rehearsal


class TrackerVariable(NamedTuple):
    """One variable of one tracker."""

    tracker: str
    name: str
    #: ``{private}`` stands for a folder that is removed at the end
    value: str
    #: where it is documented, or read
    source: str


#: What the ranks get. Each was read in the tracker's documentation or source, in the version that is named.
VARIABLES = (
    TrackerVariable("Weights & Biases", "WANDB_MODE", "offline", "docs.wandb.ai, save metrics offline"),
    TrackerVariable("Weights & Biases", "WANDB_SILENT", "true", "wandb 0.31, env.py"),
    TrackerVariable("MLflow", "MLFLOW_TRACKING_URI", "file://{private}/mlflow", "mlflow.org 2.21, backend stores"),
    # mlflow 3 refuses the store in files otherwise
    TrackerVariable("MLflow", "MLFLOW_ALLOW_FILE_STORE", "true", "mlflow 3.17, environment_variables.py"),
    TrackerVariable("Comet", "COMET_START_ONLINE", "0", "comet_ml 3.58, config_map.py: comet.start.online"),
    TrackerVariable("Comet", "COMET_OFFLINE_DIRECTORY", "{private}/comet", "comet.com, fallback to offline"),
    TrackerVariable("Neptune", "NEPTUNE_MODE", "offline", "neptune 1.14, envs.py; neptune_scale 0.30, util/envs.py"),
    TrackerVariable("ClearML", "CLEARML_OFFLINE_MODE", "1", "clear.ml, offline mode"),
    TrackerVariable("SwanLab", "SWANLAB_MODE", "offline", "docs.swanlab.cn, swanlab offline"),
    TrackerVariable("DVCLive", "DVC_STUDIO_OFFLINE", "true", "dvc_studio_client 0.23, config.py"),
    TrackerVariable("Hugging Face", "HF_HUB_DISABLE_TELEMETRY", "1", "huggingface_hub 2.4, constants.py"),
)
#: Variables that send runs elsewhere, and have no offline value: the ranks do not get them.
REMOVED = {"TRACKIO_SPACE_ID": "Trackio", "TRACKIO_SERVER_URL": "Trackio"}
#: Calls that begin a run on the tracker's server whatever a variable is set to.
NEVER_OFFLINE = ("comet_ml.Experiment",)
#: Variables by which a script switches a tracker off on some ranks.
SWITCHES: Mapping[str, tuple[str, ...]] = {
    "WANDB_MODE": ("disabled",),
    "WANDB_DISABLED": ("true", "1"),
    "NEPTUNE_MODE": ("debug",),
    "SWANLAB_MODE": ("disabled",),
}
#: Arguments for runs with several processes.
FOR_SEVERAL = ("group", "settings", "resume_id", "experiment_key", "system_tracking_interval")


def environment(environ: Mapping[str, str], private: str) -> dict[str, str]:
    """Return the additional variables of the ranks; "" for those that are removed.

    :param private: a folder that is removed at the end
    """
    folder = os.path.join(private, "trackers")
    own = {
        one.name: one.value.format(private=folder)
        for one in VARIABLES
        # a tracker that is disabled stays disabled
        if environ.get(one.name, "").lower() not in SWITCHES.get(one.name, ())
    }
    return {**own, **{name: "" for name in REMOVED if environ.get(name)}}


def notes(rehearsal: Rehearsal) -> tuple[str, ...]:
    """Return what could not be kept offline, and what was redirected, once for each line."""
    found: dict[str, None] = {}
    for row in rehearsal.of("trackers."):
        if row.kind != "trackers.start":
            what = str(row.data["what"])
            found[f"{row.place}: {what}" if row.place else what] = None
    return tuple(found)


def offline_note(rows: Iterable[LoggedEvent]) -> str:
    """Return the line of the report about trackers that were started offline; "" if there were none."""
    started = dict.fromkeys(str(row.data["tracker"]) for row in rows if row.kind == "trackers.start")
    offline = [name for name in started if name != "SummaryWriter" and name not in NEVER_OFFLINE]
    return f"offline: {', '.join(offline)}" if offline else ""
