"""Variables as real launchers and schedulers set them, and one call that judges a launch by all its modules.

Not a test itself: the tests of the reader, of the schedulers and of the launch modules share it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from distcheck.checks.host import launcher, rank_numbers, rendezvous  # noqa: F401 - for their probes
from distcheck.checks.host import scheduler as scheduler_checks  # noqa: F401 - for its probes
from distcheck.checks.host.processes import Ancestor, Ancestry
from distcheck.core import registry
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import LaunchOptions, make_launch
from distcheck.launch.schedulers import scheduler_of

NOW = 1_795_000_000.0
PROBE_MODULES = ("host.rendezvous.", "host.rank_numbers.", "host.scheduler.", "host.launcher.")
TERMINAL = Ancestry(
    (Ancestor(50, "bash", ("-bash",)), Ancestor(40, "sshd", ()), Ancestor(1, "systemd", ())),
    terminal=True,
    from_terminal=True,
)
UNDER_TORCHRUN = Ancestry(
    (Ancestor(60, "pt_elastic", ("/usr/bin/python3", "/usr/bin/torchrun")), *TERMINAL.ancestors),
    terminal=False,  # torchrun starts each rank in a session of its own
    launchers=("torchrun",),
    from_terminal=True,
)

#: torch 2.13, rank 1 of 2 (plain torchrun)
TORCHRUN_WORKER: Mapping[str, str] = {
    "RANK": "1",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
    "ROLE_NAME": "default",
    "ROLE_RANK": "1",
    "ROLE_WORLD_SIZE": "2",
    "MASTER_ADDR": "node1.example",
    "MASTER_PORT": "41235",
    "TORCHELASTIC_RUN_ID": "bd3f0d7c-5ff4-4e4e-a4ab-3a0b1d6b9a2e",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x/none_y/attempt_0/1/error.json",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "OMP_NUM_THREADS": "1",
}
#: body of a job script: two nodes, eight tasks on each; SLURM_PROCID is set, but there is no step
SBATCH_BODY: Mapping[str, str] = {
    "SLURM_JOB_ID": "200505",
    "SLURM_JOBID": "200505",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_NNODES": "2",
    "SLURM_JOB_NODELIST": "gpu[01-02]",
    "SLURM_NODELIST": "gpu[01-02]",
    "SLURM_NTASKS": "16",
    "SLURM_NPROCS": "16",
    "SLURM_NTASKS_PER_NODE": "8",
    "SLURM_TASKS_PER_NODE": "8(x2)",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_GTIDS": "0",
    "SLURM_TASK_PID": "16360",
    "SLURMD_NODENAME": "gpu01",
    "SLURM_GPUS_ON_NODE": "8",
    "SLURM_CPUS_PER_TASK": "8",
    "SLURM_JOB_END_TIME": str(int(NOW) + 7200),
}
#: a task of ``srun`` inside of that job: task 9 of 16
SRUN_TASK: Mapping[str, str] = {
    **SBATCH_BODY,
    "SLURM_STEP_ID": "0",
    "SLURM_STEPID": "0",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "8(x2)",
    "SLURM_STEP_NODELIST": "gpu[01-02]",
    "SLURM_PROCID": "9",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURMD_NODENAME": "gpu02",
}
#: ``srun --ntasks-per-node=1``: one task a node, as torchrun wants it
SRUN_TASK_A_NODE: Mapping[str, str] = {
    **SRUN_TASK,
    "SLURM_NTASKS": "2",
    "SLURM_NPROCS": "2",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_TASKS_PER_NODE": "1(x2)",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}
#: a pod of Kubeflow's PyTorchJob before its torchrun
PYTORCHJOB_POD: Mapping[str, str] = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "MASTER_ADDR": "job-master-0",
    "MASTER_PORT": "23456",
    "RANK": "1",
    "WORLD_SIZE": "2",
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "8",
    "PET_MASTER_ADDR": "job-master-0",
    "PET_MASTER_PORT": "23456",
}
OPENMPI_TASK: Mapping[str, str] = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "8",
    "PMIX_RANK": "3",
}


def make(
    environ: Mapping[str, str],
    *,
    command: str = "",
    options: LaunchOptions = LaunchOptions(),
    launched: bool = False,
    host_name: str = "node1",
) -> Launch:
    """A launch as the command line of distcheck would make it."""
    parsed = parse_command(shlex.split(command), environ) if command else None
    return make_launch(environ, options=options, command=parsed, launched=launched, host_name=host_name)


def judge(
    environ: Mapping[str, str], *facts: object, command: str = "", now: float = NOW, **how: object
) -> list[Finding]:
    """All findings of the modules that look at the launch; a fact that is not given can't be had."""
    launch = make(environ, command=command, **how)  # type: ignore[arg-type]
    scheduler = scheduler_of(environ, now_s=now) or Unavailable("no scheduler")
    known: dict[type, object] = {Launch: launch, Ancestry: TERMINAL, **{type(fact): fact for fact in facts}}
    found: list[Finding] = []
    for probe in registry.probes():
        if not probe.name.startswith(PROBE_MODULES):
            continue
        values = []
        for parameter in registry.parameters(probe.function):
            default = (
                scheduler if parameter.type.__name__ == "Scheduler" else Unavailable(f"no {parameter.type.__name__}")
            )
            values.append(known.get(parameter.type, default))
        lacking = [
            value
            for value, part in zip(values, registry.parameters(probe.function), strict=True)
            if isinstance(value, Unavailable) and not part.optional
        ]
        if lacking:
            continue
        try:
            found.extend(probe.function(*values))
        except Unavailable:
            continue
    return found


def codes(findings: list[Finding]) -> list[str]:
    """What speaks above info."""
    return sorted(finding.code for finding in findings if finding.severity > Severity.INFO)
