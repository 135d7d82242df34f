"""One process and one host: what a launch will find here. Importing it registers its readers and probes."""

from __future__ import annotations

from . import (  # noqa: F401 - imported for what they register
    cloud_networks,
    devices,
    fabric,
    gpu_health,
    gpus,
    interfaces,
    launcher_files,
    launching,
    limits,
    names,
    numbering,
    platform,
    ports,
    processes,
    reach,
    recorder,
    rendezvous,
    scheduling,
    software,
    storage,
    variables,
)
