"""The vocabulary of distributed training: what calls, variables, options, attributes and names stand for. Data only.

Names outside of the project are dotted and canonical: however a thing is imported, :func:`canonical` gives the one name
under which the tables here know it.
"""

# the lines of these tables are as long as they are
# ruff: noqa: E501

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from distcheck.core.patterns import lazy

from .values import Kind, Who


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, for tables of names."""
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


#: Longer spellings of one thing; the longest prefix that fits is replaced.
_SPELLINGS = {
    "torch.distributed.distributed_c10d.": "torch.distributed.",
    "torch.distributed.c10d.": "torch.distributed.",
    "deepspeed.comm.comm.": "torch.distributed.",
    "deepspeed.comm.": "torch.distributed.",
    "torch.nn.parallel.distributed.": "torch.nn.parallel.",
    "torch.nn.parallel.data_parallel.": "torch.nn.parallel.",
    "torch.nn.DataParallel": "torch.nn.parallel.DataParallel",
    "torch.utils.data.DistributedSampler": "torch.utils.data.distributed.DistributedSampler",
    "torch.utils.data.dataloader.": "torch.utils.data.",
    "torch.utils.data.sampler.": "torch.utils.data.",
    "torch.utils.data.dataset.": "torch.utils.data.",
    "torch.distributed.fsdp.fully_sharded_data_parallel.": "torch.distributed.fsdp.",
    "torch.distributed.fsdp._fully_shard.": "torch.distributed.fsdp.",
    "torch.distributed._composable.fsdp.": "torch.distributed.fsdp.",
    "torch.distributed._composable.": "torch.distributed.fsdp.",
    "torch.multiprocessing.spawn.": "torch.multiprocessing.",
    "torch.distributed.device_mesh.init_device_mesh": "torch.distributed.init_device_mesh",
    "torch.serialization.": "torch.",
    "torch.random.manual_seed": "torch.manual_seed",
    "torch.cuda.random.": "torch.cuda.",
    "torch.utils.tensorboard.writer.": "torch.utils.tensorboard.",
    "accelerate.accelerator.": "accelerate.",
    "accelerate.state.": "accelerate.",
    "accelerate.utils.operations.": "accelerate.utils.",
    "pytorch_lightning.": "lightning.pytorch.",
    "pytorch_lightning.trainer.": "lightning.pytorch.",
    "lightning.pytorch.trainer.": "lightning.pytorch.",
    "lightning.Trainer": "lightning.pytorch.Trainer",
    "lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning_fabric.": "lightning.fabric.",
    "transformers.training_args.": "transformers.",
    "transformers.training_args_seq2seq.": "transformers.",
    "transformers.hf_argparser.": "transformers.",
    "horovod.tensorflow.": "horovod.torch.",
    "deepspeed.runtime.engine.": "deepspeed.",
    "multiprocess.": "multiprocessing.",
}
_LONGEST = sorted(_SPELLINGS, key=len, reverse=True)
_FIRSTS = {spelling.split(".")[0] for spelling in _SPELLINGS}


@lru_cache(maxsize=100_000)
def canonical(dotted: str) -> str:
    """Return the one name of something outside of the project."""
    if dotted.split(".", 1)[0] not in _FIRSTS:
        return dotted
    for spelling in _LONGEST:
        if dotted.startswith(spelling):
            return _SPELLINGS[spelling] + dotted[len(spelling) :]
    return dotted


#: Packages that are never taken from the project, even where their own source is what is checked.
OUTSIDE = word_set(
    "torch torchvision torchaudio accelerate deepspeed lightning pytorch_lightning lightning_fabric transformers "
    "horovod ray composer numpy os sys time datetime random subprocess multiprocessing functools argparse click "
    "logging json pickle pathlib shutil glob wandb mlflow tensorboard tensorboardX io tempfile math re copy "
    "collections itertools urllib socket uuid typing contextlib dataclasses enum warnings string hashlib struct "
    "traceback inspect importlib operator threading signal platform gc zipfile tarfile csv builtins concurrent"
)

# collectives

D = "torch.distributed."
#: What all ranks of the group must call, by what it does.
COLLECTIVES: dict[str, str] = {
    **{D + name: "reduce" for name in ["all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base", "all_reduce_multigpu", "reduce_multigpu", "reduce_scatter_multigpu"]},
    **{D + name: "broadcast" for name in ["broadcast", "broadcast_multigpu"]},
    **{D + name: "gather" for name in ["all_gather", "all_gather_into_tensor", "all_gather_single", "_all_gather_base", "all_gather_coalesced", "gather", "all_gather_multigpu"]},
    **{D + name: "scatter" for name in ["scatter"]},
    **{D + name: "exchange" for name in ["all_to_all", "all_to_all_single"]},
    **{D + name: "object" for name in ["all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"]},
    **{D + name: "barrier" for name in ["barrier", "monitored_barrier"]},
    **{D + name: "group" for name in ["new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group", "init_device_mesh"]},
    **{D + "nn.functional." + name: "functional" for name in ["all_reduce", "all_gather", "broadcast", "reduce", "gather", "scatter", "reduce_scatter", "all_to_all", "all_to_all_single"]},
    **{D + "nn." + name: "functional" for name in ["all_reduce", "all_gather", "broadcast", "reduce", "gather", "scatter", "reduce_scatter", "all_to_all"]},
    **{D + "_functional_collectives." + name: "functional" for name in ["all_reduce", "all_gather_single", "all_gather_tensor", "reduce_scatter_single", "reduce_scatter_tensor", "broadcast", "all_to_all_single"]},
    **{"horovod.torch." + name: "framework" for name in ["allreduce", "allreduce_", "allgather", "broadcast", "broadcast_", "broadcast_parameters", "broadcast_optimizer_state", "broadcast_object", "allgather_object", "join", "barrier", "grouped_allreduce", "alltoall", "reducescatter"]},
    **{"accelerate.Accelerator." + name: "framework" for name in ["wait_for_everyone", "gather", "gather_for_metrics", "reduce", "pad_across_processes", "broadcast"]},
    **{"accelerate.PartialState." + name: "framework" for name in ["wait_for_everyone"]},
    **{"accelerate.utils." + name: "framework" for name in ["wait_for_everyone", "gather", "gather_object", "broadcast", "broadcast_object_list", "reduce", "pad_across_processes"]},
    **{"mmengine.dist." + name: "framework" for name in ["all_reduce", "barrier", "broadcast", "all_gather", "gather", "all_gather_object", "broadcast_object_list", "sync_random_seed", "collect_results", "all_reduce_dict", "all_reduce_params"]},
    **{"detectron2.utils.comm." + name: "framework" for name in ["synchronize", "all_gather", "gather", "shared_random_seed", "reduce_dict"]},
    **{"lightning.pytorch.LightningModule." + name: "framework" for name in ["all_gather"]},
    **{"lightning.fabric.Fabric." + name: "framework" for name in ["barrier", "all_gather", "all_reduce", "broadcast"]},
    **{"lightning.pytorch.LightningModule." + name: "framework" for name in ["all_gather"]},
    **{"torch_xla.core.xla_model." + name: "framework" for name in ["rendezvous", "mesh_reduce", "all_reduce", "all_gather"]},
    **{"ignite.distributed." + name: "framework" for name in ["all_reduce", "all_gather", "broadcast", "barrier"]},
    **{"mpi4py.MPI.COMM_WORLD." + name: "framework" for name in ["bcast", "Bcast", "scatter", "Scatter", "Scatterv", "gather", "Gather", "Gatherv", "allgather", "Allgather", "Allgatherv", "reduce", "Reduce", "allreduce", "Allreduce", "alltoall", "Alltoall", "Alltoallv", "scan", "exscan", "barrier", "Barrier"]},
    **{"composer.utils.dist." + name: "framework" for name in ["all_reduce", "all_gather", "all_gather_object", "broadcast", "broadcast_object_list", "barrier"]},
}  # fmt: skip
#: Sending from one rank to one other: normal in a branch by rank.
POINT_TO_POINT = frozenset(
    D + name for name in ["send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list"]
)
#: Collective although their names do not show it; the receiver or argument must be sharded.
SHARDED = word_set(
    "torch.distributed.checkpoint.save torch.distributed.checkpoint.load torch.distributed.checkpoint.async_save "
    "torch.distributed.checkpoint.save_state_dict torch.distributed.checkpoint.load_state_dict "
    "torch.distributed.checkpoint.state_dict.get_model_state_dict "
    "torch.distributed.checkpoint.state_dict.get_state_dict "
    "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict "
    "torch.distributed.checkpoint.state_dict.set_model_state_dict "
    "torch.distributed.checkpoint.state_dict.set_state_dict "
    "torch.distributed.fsdp.FullyShardedDataParallel.summon_full_params "
    "torch.distributed.fsdp.FullyShardedDataParallel.full_optim_state_dict "
    "torch.distributed.fsdp.FullyShardedDataParallel.optim_state_dict "
    "torch.distributed.fsdp.FullyShardedDataParallel.sharded_optim_state_dict"
)
INIT_GROUP = D + "init_process_group"
INIT = frozenset(
    {INIT_GROUP, "deepspeed.init_distributed", "torch.distributed.init_distributed", "horovod.torch.init"}
    | {"composer.utils.dist.initialize_dist", "bmtrain.init_distributed", "colossalai.launch_from_torch"}
)

#: What starts functions in processes of their own.
SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
PROCESSES = ("torch.multiprocessing.Process", "multiprocessing.Process", "multiprocessing.context.Process")

# sources of ranks and sizes

#: Calls that return a rank, a size or a test.
SOURCES: dict[str, tuple[str, Any]] = {
    D + "get_rank": (Kind.GLOBAL_RANK, None), D + "get_world_size": (Kind.WORLD_SIZE, None), D + "get_node_local_rank": (Kind.LOCAL_RANK, None),
    D + "get_local_rank": (Kind.LOCAL_RANK, None), D + "get_group_rank": (Kind.GROUP_RANK, None), D + "get_global_rank": (Kind.GLOBAL_RANK, "argument"),
    D + "is_initialized": ("test", Who.DISTRIBUTED), D + "is_available": ("test", Who.EVERYONE), D + "is_torchelastic_launched": ("test", Who.DISTRIBUTED),
    "torch.cuda.device_count": (Kind.DEVICE_COUNT, None), "torch.accelerator.device_count": (Kind.DEVICE_COUNT, None), "torch.xpu.device_count": (Kind.DEVICE_COUNT, None),
    "torch.npu.device_count": (Kind.DEVICE_COUNT, None), "torch.cuda.current_device": (Kind.LOCAL_RANK, "current device"), "torch.cuda.is_available": ("test", Who.EVERYONE),
    "horovod.torch.rank": (Kind.GLOBAL_RANK, None), "horovod.torch.local_rank": (Kind.LOCAL_RANK, None), "horovod.torch.size": (Kind.WORLD_SIZE, None),
    "horovod.torch.local_size": (Kind.LOCAL_WORLD_SIZE, None), "horovod.torch.cross_rank": (Kind.NODE_RANK, None),
    "mmengine.dist.get_rank": (Kind.GLOBAL_RANK, None), "mmengine.dist.get_local_rank": (Kind.LOCAL_RANK, None), "mmengine.dist.get_world_size": (Kind.WORLD_SIZE, None),
    "mmengine.dist.is_main_process": ("test", Who.MAIN), "mmengine.dist.is_distributed": ("test", Who.DISTRIBUTED), "mmengine.dist.get_local_size": (Kind.LOCAL_WORLD_SIZE, None),
    "detectron2.utils.comm.get_rank": (Kind.GLOBAL_RANK, None), "detectron2.utils.comm.get_local_rank": (Kind.LOCAL_RANK, None),
    "detectron2.utils.comm.get_world_size": (Kind.WORLD_SIZE, None), "detectron2.utils.comm.is_main_process": ("test", Who.MAIN), "detectron2.utils.comm.get_local_size": (Kind.LOCAL_WORLD_SIZE, None),
    "ignite.distributed.get_rank": (Kind.GLOBAL_RANK, None), "ignite.distributed.get_local_rank": (Kind.LOCAL_RANK, None), "ignite.distributed.get_world_size": (Kind.WORLD_SIZE, None),
    "ignite.distributed.get_nproc_per_node": (Kind.LOCAL_WORLD_SIZE, None), "ignite.distributed.get_node_rank": (Kind.NODE_RANK, None),
    "composer.utils.dist.get_global_rank": (Kind.GLOBAL_RANK, None), "composer.utils.dist.get_local_rank": (Kind.LOCAL_RANK, None),
    "composer.utils.dist.get_world_size": (Kind.WORLD_SIZE, None), "composer.utils.dist.get_local_world_size": (Kind.LOCAL_WORLD_SIZE, None), "composer.utils.dist.get_node_rank": (Kind.NODE_RANK, None),
    "torch_xla.core.xla_model.get_ordinal": (Kind.GLOBAL_RANK, None), "torch_xla.core.xla_model.xrt_world_size": (Kind.WORLD_SIZE, None),
    "torch_xla.core.xla_model.get_local_ordinal": (Kind.LOCAL_RANK, None), "torch_xla.core.xla_model.is_master_ordinal": ("test", Who.MAIN),
    "torch_xla.runtime.global_ordinal": (Kind.GLOBAL_RANK, None), "torch_xla.runtime.world_size": (Kind.WORLD_SIZE, None),
    "jax.process_index": (Kind.GLOBAL_RANK, None),
    "mpi4py.MPI.COMM_WORLD.Get_rank": (Kind.GLOBAL_RANK, None), "mpi4py.MPI.COMM_WORLD.Get_size": (Kind.WORLD_SIZE, None),
    "ray.train.get_context.get_world_rank": (Kind.GLOBAL_RANK, None), "ray.train.get_context.get_local_rank": (Kind.LOCAL_RANK, None),
    "ray.train.get_context.get_world_size": (Kind.WORLD_SIZE, None), "ray.train.get_context.get_node_rank": (Kind.NODE_RANK, None),
    "ray.train.get_context.get_local_world_size": (Kind.LOCAL_WORLD_SIZE, None),
}  # fmt: skip

#: Attributes of objects of frameworks, by the object's class.
ATTRIBUTES: dict[tuple[str, str], tuple[str, Any]] = {
    (owner, name): found
    for owner in ("accelerate.Accelerator", "accelerate.PartialState", "accelerate.AcceleratorState")
    for name, found in {
        "process_index": (Kind.GLOBAL_RANK, None), "local_process_index": (Kind.LOCAL_RANK, None), "num_processes": (Kind.WORLD_SIZE, None),
        "is_main_process": ("test", Who.MAIN), "is_local_main_process": ("test", Who.LOCAL_MAIN), "use_distributed": ("test", Who.DISTRIBUTED),
        "device": ("device", Kind.LOCAL_RANK), "is_last_process": ("test", "one rank"),
    }.items()
} | {
    (owner, name): found
    for owner in ("lightning.pytorch.Trainer", "lightning.fabric.Fabric", "lightning.pytorch.LightningModule", "lightning.Fabric")
    for name, found in {
        "global_rank": (Kind.GLOBAL_RANK, None), "local_rank": (Kind.LOCAL_RANK, None), "node_rank": (Kind.NODE_RANK, None), "world_size": (Kind.WORLD_SIZE, None),
        "is_global_zero": ("test", Who.MAIN), "device": ("device", Kind.LOCAL_RANK),
    }.items()
} | {
    (owner, name): found
    for owner in ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
    for name, found in {
        "local_rank": (Kind.LOCAL_RANK, None), "local_process_index": (Kind.LOCAL_RANK, None), "process_index": (Kind.GLOBAL_RANK, None),
        "world_size": (Kind.WORLD_SIZE, None), "should_save": ("test", Who.MAIN), "should_log": ("test", Who.MAIN), "device": ("device", Kind.LOCAL_RANK),
    }.items()
}  # fmt: skip
ATTRIBUTES |= {
    ("deepspeed.DeepSpeedEngine", "global_rank"): (Kind.GLOBAL_RANK, None),
    ("deepspeed.DeepSpeedEngine", "local_rank"): (Kind.LOCAL_RANK, None),
    ("deepspeed.DeepSpeedEngine", "world_size"): (Kind.WORLD_SIZE, None),
    ("deepspeed.DeepSpeedEngine", "device"): ("device", Kind.LOCAL_RANK),
}
#: Classes of options of a library that knows the ranks.
TRAINING_OPTIONS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")

#: Variables of launchers and schedulers.
VARIABLES: dict[str, str] = {
    **dict.fromkeys(["RANK", "GLOBAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "HOROVOD_RANK", "PALS_RANKID", "FLUX_TASK_RANK"], Kind.GLOBAL_RANK),
    **dict.fromkeys(["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID"], Kind.LOCAL_RANK),
    **dict.fromkeys(["NODE_RANK", "GROUP_RANK", "SLURM_NODEID", "MACHINE_RANK"], Kind.NODE_RANK),
    **dict.fromkeys(["WORLD_SIZE", "SLURM_NTASKS", "SLURM_NPROCS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE", "HOROVOD_SIZE"], Kind.WORLD_SIZE),
    **dict.fromkeys(["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", "NPROC_PER_NODE"], Kind.LOCAL_WORLD_SIZE),
}  # fmt: skip

# names as evidence, where nothing else is known; compared in lower case, without leading underscores

NAMES: dict[str, str] = {
    **dict.fromkeys(["global_rank", "world_rank", "globalrank", "dist_rank", "distributed_rank", "process_index", "global_process_index"], Kind.GLOBAL_RANK),
    **dict.fromkeys(["rank", "my_rank", "myrank", "cur_rank", "current_rank", "proc_id", "rank_id", "process_rank", "ddp_rank", "trainer_rank", "worker_rank", "this_rank"], Kind.RANK),
    **dict.fromkeys(["local_rank", "localrank", "local_process_index", "ddp_local_rank", "gpu", "gpu_id", "local_gpu", "local_rank_id", "device_rank"], Kind.LOCAL_RANK),
    **dict.fromkeys(["node_rank", "machine_rank", "noderank", "node_id"], Kind.NODE_RANK),
    **dict.fromkeys(["world_size", "worldsize", "num_processes", "ddp_world_size", "dist_world_size", "distributed_world_size", "n_ranks", "num_ranks", "global_world_size"], Kind.WORLD_SIZE),
    **dict.fromkeys(["local_world_size", "ngpus_per_node", "nproc_per_node", "gpus_per_node", "num_gpus_per_node", "n_gpus_per_node", "ngpus", "num_gpus", "n_gpus", "n_gpu", "gpu_count", "num_local_gpus", "local_size"], Kind.LOCAL_WORLD_SIZE),
}  # fmt: skip
#: Names (of variables, attributes, functions, methods) that mean a test.
TESTS: dict[str, str] = {
    **dict.fromkeys(
        ["is_main_process", "is_main", "is_master", "is_master_process", "master_process", "main_process", "is_rank_zero", "is_rank0", "is_rank_0", "rank_zero", "is_global_zero", "is_chief", "is_primary", "is_world_process_zero", "is_first_rank", "is_root", "is_root_process", "is_zero_rank", "is_rank_0", "rank0", "is_world_master", "is_global_master", "is_lead", "is_leader", "is_main_rank", "is_head", "is_coordinator", "should_log", "is_global_main", "is_last_rank", "is_primary_process", "is_global_main_process", "is_mainprocess", "is_main_proc", "is_logging_process", "main_proc", "on_main_process", "is_master_rank", "is_dist_avail_and_main", "is_first_worker", "is_master_ordinal", "is_r0", "am_i_main", "is_main_worker", "is_rank_zero_process", "is_head_process", "is_log_rank", "is_distributed_and_main"], Who.MAIN),
    **dict.fromkeys(["is_local_main_process", "is_local_zero", "is_local_process_zero", "is_local_master", "is_local_main", "is_local_rank_zero", "is_local_rank_0", "is_node_main", "is_first_local_rank", "local_main_process", "local_rank_zero", "is_local_leader"], Who.LOCAL_MAIN),
    **dict.fromkeys(
        ["distributed", "is_distributed", "is_dist", "is_dist_avail_and_initialized", "is_initialized", "ddp", "use_ddp", "is_ddp", "multi_gpu", "multiprocessing_distributed", "use_distributed", "dist_initialized", "is_dist_initialized", "is_parallel", "dist_enabled", "fsdp", "use_fsdp", "distributed_run", "dist_available", "is_distributed_initialized", "torch_distributed_initialized", "is_torchelastic_launched", "do_distributed", "enable_distributed"], Who.DISTRIBUTED),
}  # fmt: skip
#: Those that are attributes of one library's objects, and that library.
TESTS_OF_LIBRARIES = {
    "is_global_zero": ("lightning", "pytorch_lightning"),
    "is_main_process": ("accelerate",),
    "is_local_main_process": ("accelerate",),
    "is_world_process_zero": ("transformers",),
    "is_local_process_zero": ("transformers",),
}
#: Ranks that are attributes of one library's objects, and that library.
RANKS_OF_LIBRARIES = {
    "global_rank": ("lightning", "pytorch_lightning"),
    "process_index": ("accelerate",),
}
#: Decorators after which a function's body runs on one rank only.
DECORATORS: dict[str, str] = {
    **dict.fromkeys(["rank_zero_only", "master_only", "on_main_process", "main_process_only", "rank0_only", "rank_zero", "only_on_main", "run_on_main", "main_only", "only_main_process", "only_on_rank_zero", "on_rank_zero", "master_process_only", "run_on_main_process", "rank_zero_fn", "is_main_process_only", "primary_only", "main_rank_only", "log_on_main", "log_rank_0", "only_rank_0", "run_on_rank0", "run_once_on_master"], Who.MAIN),
    **dict.fromkeys(["on_local_main_process", "local_rank_zero_only", "local_main_process_only"], Who.LOCAL_MAIN),
}  # fmt: skip
#: Functions and methods that can't be seen and are called so give what ranks have agreed on.
AGREEING = lazy(r"reduce|gather|sync|broadcast|agree|across|check_trigger", re.IGNORECASE)
#: Contexts in which one rank goes first and all others follow.
MAIN_FIRST = word_set(
    "main_process_first local_main_process_first zero_first rank_zero_first torch_distributed_zero_first main_first "
    "wait_for_main_process rank0_first global_leader_first run_local_rank_zero_first "
    "local_rank_zero_download_and_wait rank_first global_rank_zero_first local_rank_first master_first "
    "zero_rank_first local_leader_first main_process_first_context one_rank_at_a_time"
)

# models, data, results

#: Constructors and functions that wrap a model, by the way that they do.
WRAPPERS: dict[str, str] = {
    "torch.nn.parallel.DistributedDataParallel": "ddp", "apex.parallel.DistributedDataParallel": "ddp", "fairscale.nn.ShardedDataParallel": "ddp",
    "mmengine.model.MMDistributedDataParallel": "ddp", "mmcv.parallel.MMDistributedDataParallel": "ddp", "fairscale.nn.data_parallel.ShardedDataParallel": "ddp",
    "torch.distributed.fsdp.FullyShardedDataParallel": "fsdp", "fairscale.nn.FullyShardedDataParallel": "fsdp", "fairscale.nn.data_parallel.FullyShardedDataParallel": "fsdp",
    "torch.distributed.fsdp.fully_shard": "fsdp2", "torch.nn.parallel.DataParallel": "dp",
}  # fmt: skip
#: Methods of a model that give back the model that they are called on.
OF_MODELS = word_set(
    "to cuda cpu train eval float half double bfloat16 requires_grad_ share_memory apply to_empty compile type"
)
#: Methods that give back what they are called on, as far as its kind goes.
SAME_OBJECT = OF_MODELS | word_set("detach contiguous clone squeeze unsqueeze view reshape flatten mean sum item")

#: Packages that own the process group, the loop or the guards.
FRAMEWORKS = (
    "lightning", "pytorch_lightning", "lightning_fabric", "accelerate", "deepspeed", "ray.train", "ray.util.sgd", "composer",
    "transformers.Trainer", "transformers.trainer", "transformers.TrainingArguments", "transformers.Seq2SeqTrainer", "ignite", "colossalai",
    "trl", "mmengine.runner", "mmcv.runner", "catalyst", "torchtitan", "nemo", "megatron", "fastai", "detectron2.engine", "torchpack",
)  # fmt: skip


#: Decorators that keep the name of a function, and call it by no other.
PLAIN_DECORATORS = word_set(
    "staticmethod classmethod property cached_property no_grad inference_mode contextmanager wraps lru_cache cache "
    "abstractmethod script rank_zero_only dataclass total_ordering overload autocast custom_fwd custom_bwd"
)
