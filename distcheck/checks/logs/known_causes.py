"""Causes that a log names and that are no rule's: data, by the signature of the line.

No mistake of a distributed job, so that no check but the log's can see them. Each has a meaning and a fix.
"""

from __future__ import annotations

from typing import NamedTuple


class KnownCause(NamedTuple):
    """A cause that a log names and that is no rule's: it is no mistake of a distributed job."""

    #: in a few words
    name: str
    meaning: str
    hint: str
    #: where the hint is carried out
    where: str = "code"


#: By the signature of the line.
KNOWN_CAUSES = {
    "cuda-out-of-memory": KnownCause(
        "a GPU is out of memory",
        "the memory of a GPU ran out; that is no mistake of the launch, and no rule of distcheck",
        "the model, its activations or the batch don't fit into this GPU: a smaller batch, activation checkpointing, "
        "or sharding (FSDP); PYTORCH_ALLOC_CONF=expandable_segments:True where much is reserved and not allocated",
    ),
    "interrupted": KnownCause(
        "stopped from outside",
        "the job was stopped from outside; that is no mistake, and no rule of distcheck",
        "the job was stopped (Ctrl-C, scancel, kill): there is nothing to fix",
        "launch-line",
    ),
    "cuda-device-assert": KnownCause(
        "an assertion failed on a GPU",
        "a kernel on the GPU received an invalid value; that is a bug of the program, and no rule of distcheck",
        "search for an index that is out of range (a label beyond the classes, a token beyond the vocabulary); one run "
        "with CUDA_LAUNCH_BLOCKING=1 makes the traceback end at the call",
    ),
    "cuda-memory-access": KnownCause(
        "a kernel on a GPU accessed memory that is not its own",
        "a kernel on the GPU read or wrote outside of its memory; the error appears at a later call",
        "one run with CUDA_LAUNCH_BLOCKING=1 makes the traceback end at the faulty call; compute-sanitizer names the "
        "kernel",
    ),
    "rocm-memory-access": KnownCause(
        "a kernel on a GPU accessed memory that is not its own",
        "a kernel on the GPU read or wrote outside of its memory, and the runtime of ROCm ended the process",
        "one run with AMD_SERIALIZE_KERNEL=3 and PYTHONFAULTHANDLER=1 prints the Python line that waits for the kernel",
    ),
    "rocm-gpu-hang": KnownCause(
        "a GPU hung",
        "the driver reported that a GPU hung, and ended the processes that use it",
        "read what the driver logged before (dmesg -T | grep amdgpu); if it happens again on this node alone, have the "
        "GPU checked, otherwise update the driver and its firmware",
        "host",
    ),
    "cuda-error-note": KnownCause(
        "a call to CUDA failed",
        "a call to CUDA failed, and the line above this one names the error",
        "explain the line above, 'CUDA error: …'; one run with CUDA_LAUNCH_BLOCKING=1 makes the traceback end at the "
        "call",
    ),
    "cuda-launch-failure": KnownCause(
        "a kernel on a GPU failed",
        "a kernel on the GPU failed; the error appears at a later call",
        "one run with CUDA_LAUNCH_BLOCKING=1 makes the traceback end at the faulty call; compute-sanitizer names the "
        "kernel",
    ),
    "cuda-library": KnownCause(
        "cuBLAS or cuDNN could not start on a GPU",
        "cuBLAS or cuDNN could not start on the GPU: mostly its memory is full, or an earlier kernel failed",
        "see whether the memory of the GPU is full (nvidia-smi), and try a smaller batch; else one run with "
        "CUDA_LAUNCH_BLOCKING=1 makes the traceback end at the call that failed first",
    ),
    "driver-absent": KnownCause(
        "no NVIDIA driver answers",
        "no NVIDIA driver answers in this process: the host has none, or the container was started without GPUs",
        "run nvidia-smi on the host; if it answers there, start the container with its GPUs (docker run --gpus all)",
        "host",
    ),
    "cuda-library-missing": KnownCause(
        "a library of CUDA is missing",
        "a library of CUDA is missing: the package that needs it was built for another CUDA than torch",
        "compare its version with that of torch: python -c 'import torch; print(torch.version.cuda)'; then install the "
        "package that the traceback names for that version",
        "this-shell",
    ),
    "ddp-on-cpu": KnownCause(
        "DDP got device_ids, and a model that is not on that GPU",
        "DDP got device_ids, and the parameters of its model are not all on that one GPU",
        "move the model before it is wrapped: model.to(local_rank), then DDP(model, device_ids=[local_rank])",
    ),
    "ddp-frozen": KnownCause(
        "DDP got a model without trained parameters",
        "DDP got a model of which no parameter is trained, so that there is nothing to reduce",
        "use the model as it is; wrap only models that are trained",
    ),
    "fsdp-layer-class": KnownCause(
        "FSDP's wrap policy names a class that the model does not have",
        "the class that FSDP's wrap policy names is not in the model",
        "print(model) shows the names of its classes; write the one of its layers into "
        "fsdp_transformer_layer_cls_to_wrap",
    ),
    "tensor-not-contiguous": KnownCause(
        "a collective got a tensor that is not contiguous",
        "a collective got a tensor that is not contiguous in memory (a slice, a transposed tensor)",
        "call .contiguous() on the tensor before the collective",
    ),
    "parallel-sizes": KnownCause(
        "the number of ranks does not fit the model-parallel sizes",
        "the number of ranks is no multiple of the model-parallel sizes (tensor, pipeline, context)",
        "start as many ranks as these sizes divide (nodes times --nproc-per-node), or choose smaller sizes",
        "launch-line",
    ),
    "slurm-refused": KnownCause(
        "Slurm refused a request",
        "Slurm refused the request: the partition, the nodes or the allocation lack what it needs",
        "compare the request with the partition (sinfo -o '%P %D %c %m %G'); inside of a job, srun can use only what "
        "sbatch was given",
        "job-script",
    ),
    "devices-differ": KnownCause(
        "an operation got tensors of two devices",
        "an operation got tensors of two devices; that is a bug of the program, and no rule of distcheck",
        "move the model and each batch to the device of the rank, torch.device('cuda', local_rank); search for a fixed "
        "'cuda:0', for 'cuda' before torch.cuda.set_device(local_rank), and for device_map='auto', which spreads one "
        "model over all GPUs",
    ),
    "device-map-spread": KnownCause(
        "a model is spread over several GPUs, or on the GPU of another rank",
        "device_map='auto' spreads one copy of the model over all GPUs, but each rank trains a copy of its own",
        "load the model with device_map={'': int(os.environ['LOCAL_RANK'])}; to train one copy that is spread over all "
        "GPUs, start one process",
    ),
    "wrapper-attribute": KnownCause(
        "an attribute of the model is read from its wrapper",
        "the wrapper has no such attribute; the model inside it has",
        "read it from the wrapped model, model.module, and keep model(batch) for the forward pass that is trained",
    ),
    "fsdp-dtypes": KnownCause(
        "FSDP got parameters of several dtypes",
        "FSDP joins the parameters of a module into one tensor, and they have several dtypes",
        "cast the model before it is wrapped: model.to(torch.bfloat16); with QLoRA give bnb_4bit_quant_storage the "
        "dtype of the other parameters",
    ),
    "mixed-dtensor": KnownCause(
        "sharded and plain tensors are mixed",
        "an operation got a parameter that is sharded (DTensor) and a plain tensor",
        "call the sharded module itself: FSDP2 gathers its parameters in forward() only, and in other methods after "
        "register_fsdp_forward_method(model, 'name'); with parallelize_module, name the module in the plan",
    ),
    "checkpoint-key": KnownCause(
        "a distributed checkpoint lacks a key",
        "the distributed checkpoint has no tensor of the name that the program loads",
        "load under the names that were saved; list(FileSystemReader(folder).read_metadata().state_dict_metadata) "
        "shows them; if new tensors shall keep their values: dcp.load(state, checkpoint_id=folder, "
        "planner=DefaultLoadPlanner(allow_partial_load=True))",
    ),
    "fsdp-integers": KnownCause(
        "FSDP got quantized parameters",
        "FSDP joins parameters into one tensor of a floating-point dtype, and some of them are quantized integers",
        "4-bit QLoRA: set bnb_4bit_quant_storage to torch.bfloat16; 8-bit weights can't be wrapped, so load them in "
        "bfloat16",
    ),
    "node-rank-missing": KnownCause(
        "NODE_RANK is not set",
        "the script reads NODE_RANK, which torchrun does not set",
        "read GROUP_RANK, which torchrun sets, or export NODE_RANK on each node before the launch",
        "job-script",
    ),
    "shm-manager": KnownCause(
        "torch_shm_manager did not answer",
        "torch_shm_manager, which shares the tensors of loader workers, did not answer in time",
        "start fewer loader workers, raise the limit of open files (ulimit -n 65536), or share by descriptors: "
        "torch.multiprocessing.set_sharing_strategy('file_descriptor')",
    ),
    "checkpoint-of-ranks": KnownCause(
        "a distributed checkpoint failed on some ranks",
        "saving or loading a distributed checkpoint failed on the ranks that the line lists",
        "read the 'Traceback (most recent call last): (RANK …)' below this line: it holds the exception of each rank",
    ),
    "fsdp-frozen": KnownCause(
        "FSDP got frozen and trained parameters in one module",
        "FSDP joins the parameters of a module into one tensor, and only some of them are trained",
        "FSDP(model, use_orig_params=True); Accelerate: fsdp_use_orig_params: true",
    ),
    "state-partition": KnownCause(
        "a checkpoint holds empty partitions of ZeRO stage 3",
        "the checkpoint was saved while ZeRO stage 3 held the parameters in partitions, so that it has empty tensors",
        "make whole parameters with the script zero_to_fp32.py that DeepSpeed wrote into the folder of its checkpoint; "
        "for the next run set stage3_gather_16bit_weights_on_model_save to true",
    ),
    "state-into-partition": KnownCause(
        "a state is loaded into partitions of ZeRO stage 3",
        "ZeRO stage 3 holds the parameters of this model in partitions, so that a rank sees empty tensors",
        "load the state before the model is partitioned (deepspeed.zero.Init(), deepspeed.initialize()), or inside "
        "deepspeed.zero.GatheredParameters(params, modifier_rank=0)",
    ),
    "state-shapes": KnownCause(
        "a checkpoint belongs to another model",
        "the tensors of the checkpoint have other shapes than those of the model",
        "make the model with the configuration of the checkpoint (classes, vocabulary, layers), or remove these keys "
        "from the state and load the rest with strict=False",
    ),
    "loader-worker-exited": KnownCause(
        "a worker of a data loader exited",
        "a worker process of a data loader exited, and this line does not show why",
        "read the lines above it; one run with num_workers=0 raises the error in the process itself, and 'dmesg -T' "
        "shows whether the kernel had no memory left",
    ),
    "native-crash": KnownCause(
        "a process crashed in native code",
        "a process crashed in native code, and the text does not show where",
        "let Python print its stack at the crash: export PYTHONFAULTHANDLER=1, and run again",
        "job-script",
    ),
    "ssh-refused": KnownCause(
        "a host can't be reached by ssh",
        "DeepSpeed's launcher starts the ranks of each host by ssh without a password, and a host refused that",
        "let 'ssh HOST hostname' work without a password from this host to each one of the hostfile, this one "
        "included (ssh-copy-id); or start torchrun on each node",
        "host",
    ),
    "mpi-slots": KnownCause(
        "mpirun has too few slots",
        "mpirun is to start more processes than its hosts have slots",
        "name the slots of each host, one a GPU: mpirun --host node0:8,node1:8, or 'node0 slots=8' in the hostfile. In "
        "a Slurm job request as many tasks (--ntasks)",
        "launch-line",
    ),
    "mpi-daemon": KnownCause(
        "mpirun could not start its daemon on a host",
        "mpirun starts a daemon on each host by ssh, and one did not start or did not answer",
        "let 'ssh HOST which orted' work without a password from the first host; install the same Open MPI on all "
        "hosts, or name its folder: mpirun --prefix FOLDER",
        "host",
    ),
    "node-failed": KnownCause(
        "a node failed",
        "a node of the job failed, and the scheduler ended the job; that is no mistake of the launch, and no rule of "
        "distcheck",
        "see why that node failed with its administrator ('scontrol show node NODE', its dmesg), and start again "
        "without it: sbatch --exclude=NODE",
        "host",
    ),
}
KNOWN_CAUSES["cuda-assertion"] = KNOWN_CAUSES["cuda-device-assert"]
