"""One process and one host: what a launch will find here. Importing it registers its readers and probes."""

from __future__ import annotations

from . import (  # noqa: F401 - imported for what they register
    cloud_networks,
    connectivity,
    devices,
    fabric,
    flight_recorder,
    gpu_health,
    gpus,
    hostnames,
    interface_checks,
    interfaces,
    launcher,
    launcher_files,
    limits,
    platform,
    ports,
    processes,
    rank_numbers,
    rendezvous,
    scheduler,
    software,
    storage,
    variables,
)
