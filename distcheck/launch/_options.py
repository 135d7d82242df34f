"""The options of the launchers: torchrun and its deprecated form, accelerate, DeepSpeed.

Sources: torch 2.13.0 and 2.15.0 ``torch/distributed/run.py`` and ``launch.py`` (every option exists with dashes and
with
underscores), accelerate 1.15.0 ``accelerate/commands/launch.py`` (no abbreviations), DeepSpeed
``deepspeed/launcher/runner.py`` as of 2025 (underscores only). ``_launchers.py`` gives the names their meaning.
"""

from __future__ import annotations

from ._arguments import OptionTable


def _spellings(names: str) -> dict[str, str]:
    """Return both spellings of each long option, with its name with dashes."""
    return {spelling: name for name in names.split() for spelling in (f"--{name}", f"--{name.replace('-', '_')}")}


# help and print-completion end the program, so that no script is needed.
_TORCHRUN_FLAGS = "standalone module no-python run-path virtual-local-rank help"
_TORCHRUN_VALUED = """
    nnodes nproc-per-node node-rank master-addr master-port local-addr
    rdzv-backend rdzv-endpoint rdzv-id rdzv-conf
    max-restarts monitor-interval start-method event-log-handler role
    log-dir redirects tee local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters
    log-line-prefix-template logs-specs numa-binding signals-to-handle shutdown-timeout print-completion
"""
_TORCHRUN_SHORT = {"-m": "module", "-r": "redirects", "-t": "tee", "-h": "help"}

TORCHRUN = OptionTable(
    "torchrun",
    {**_TORCHRUN_SHORT, **_spellings(_TORCHRUN_FLAGS), **_spellings(_TORCHRUN_VALUED)},
    frozenset(_TORCHRUN_FLAGS.split()),
    release="up to torch 2.15",
)

LAUNCH = OptionTable(
    "torch.distributed.launch",
    {**TORCHRUN.options, **_spellings("use-env")},
    TORCHRUN.flags | {"use-env"},
    release="up to torch 2.15",
)

#: Options without a PET_ variable: they do not use ``torch.distributed.argparse_util.env``.
WITHOUT_VARIABLE = frozenset({"help", "use-env", "logs-specs", "numa-binding", "print-completion"})

#: Options of torchrun that argparse converts and that are no fields of the command.
TORCHRUN_NUMBERS = {"monitor-interval": float, "shutdown-timeout": int}
TORCHRUN_CHOICES = {
    "start-method": ("spawn", "fork", "forkserver"),
    "numa-binding": ("node", "socket", "exclusive", "core-complex"),
}

# ipex, use-xpu, use-mps-device and mpirun-ccl: accelerate before about 1.9.
_ACCELERATE_FLAGS = """
    cpu multi-gpu tpu ipex use-xpu use-mps-device enable-cpu-affinity
    dynamo-use-fullgraph dynamo-use-dynamic dynamo-use-regional-compilation
    use-deepspeed use-fsdp use-parallelism-config use-megatron-lm same-network
    module no-python tpu-cluster no-tpu-cluster tpu-use-sudo downcast-bf16
    fp8-use-autocast-during-eval debug quiet help
"""
_ACCELERATE_VALUED = """
    config-file mixed-precision num-processes num-machines num-cpu-threads-per-process
    dynamo-backend dynamo-mode gpu-ids machine-rank main-process-ip main-process-port
    tee log-dir role rdzv-backend rdzv-conf max-restarts monitor-interval
    vm env main-training-function zero-stage offload-optimizer-device offload-param-device
    offload-optimizer-nvme-path offload-param-nvme-path gradient-accumulation-steps gradient-clipping
    zero3-init-flag zero3-save-16bit-model aws-access-key-id aws-secret-access-key
    mpirun-hostfile mpirun-ccl
"""
ACCELERATE = OptionTable(
    "accelerate launch",
    {
        "-m": "module",
        "-q": "quiet",
        "-t": "tee",
        "-h": "help",
        **_spellings(_ACCELERATE_FLAGS),
        **_spellings(_ACCELERATE_VALUED),
    },
    frozenset(_ACCELERATE_FLAGS.split()),
    abbreviations=False,
    complete=False,
    families=("--fsdp_", "--megatron_lm_", "--fp8_", "--parallelism_config_", "--deepspeed_", "--tp_"),
)

_DEEPSPEED_FLAGS = """
    module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid elastic_training bind_cores_to_rank help
"""
_DEEPSPEED_VALUED = """
    hostfile include exclude num_nodes min_elastic_nodes max_elastic_nodes num_gpus master_port master_addr node_rank
    launcher launcher_args enable_each_rank_log autotuning comment account bind_core_list ssh_port venv_script
"""
DEEPSPEED = OptionTable(
    "deepspeed",
    {
        "-H": "hostfile",
        "-i": "include",
        "-e": "exclude",
        "-h": "help",
        "--num_accelerators": "num_gpus",
        **{f"--{name}": name for name in (_DEEPSPEED_FLAGS + _DEEPSPEED_VALUED).split()},
    },
    frozenset(_DEEPSPEED_FLAGS.split()),
    complete=False,
)
