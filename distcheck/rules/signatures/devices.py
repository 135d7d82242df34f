"""Ranks and their devices, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

_BEYOND = ("DC301", "DC201", "DC202", "DC203", "DC205")

# fmt: off
ROWS: tuple[Signature, ...] = (
    *spellings("invalid-device", Kind.CAUSE, _BEYOND,
        (r"invalid device ordinal",
         "RuntimeError: CUDA error: invalid device ordinal",
         "torch.AcceleratorError: CUDA error: invalid device ordinal",
         "RuntimeError: HIP error: invalid device ordinal",
         "RuntimeError: cuda runtime error (101) : invalid device ordinal at /pytorch/torch/csrc/cuda/Module.cpp:59",
         "node01:71:71 [0] init.cc:97 NCCL WARN Cuda failure 101 'invalid device ordinal'"),
        (r"device >= 0 && device < num_gpus",
         "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "
         '"../aten/src/ATen/cuda/CUDAContext.cpp":50, please report a bug to PyTorch. device=1, num_gpus=1'),
        (r"AssertionError: Invalid device id", "AssertionError: Invalid device id"),
        (r"Invalid device argument ?(?P<device>[0-9]{0,3}) ?: did you call init",
         "RuntimeError: Invalid device argument 4: did you call init?")),
    *spellings("too-few-gpus", Kind.CAUSE, ("DC301",),
        (r"local_world_size \((?P<ranks>[0-9]{1,4})\) must be less than or equal to the number of visible devices "
         r"\((?P<gpus>[0-9]{1,4})\)",
         "AssertionError: local_world_size (8) must be less than or equal to the number of visible devices (4)."),
        (r"world_size \((?P<ranks>[0-9]{1,4})\) is less than than max local gpu count \((?P<gpus>[0-9]{1,4})\)",
         "RuntimeError: please ensure that world_size (2) is less than than max local gpu count (1)"),
        (r"orld size \((?P<ranks>[0-9]{1,4})\) is larger than the number of available GPUs \((?P<gpus>[0-9]{1,4})\)",
         "ValidationError: World size (8) is larger than the number of available GPUs (4) in this node."),
        (r"No slot '(?P<device>[0-9]{1,3})' specified on host '(?P<on>[^']{1,80})'",
         "ValueError: No slot '4' specified on host 'localhost'"),
        (r"ProcessGroupNCCL is only supported with GPUs, no GPUs found",
         "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!"),
        (r"Accelerator.? can not run on your system since the accelerator is not available",
         "MisconfigurationException: `CUDAAccelerator` can not run on your system since the accelerator is not "
         "available."),
        (r"No supported gpu backend found",
         "lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!")),
    *spellings("devices-missing", Kind.CAUSE, ("DC203", "DC301"),
        (r"But your machine only has: \[(?P<have>[0-9, ]{0,120})\]", " But your machine only has: [0]")),
    *spellings("devices-wanted", Kind.RECORD, ("DC203", "DC301"),
        (r"You requested (?:gpu|GPUs|gpus): \[(?P<wanted>[0-9, ]{0,120})\]",
         "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, 1, 2, 3]")),
    *spellings("visible-devices", Kind.RECORD, ("DC202", "DC203", "DC204", "DC205"),
        (r"(?P<variable>CUDA|HIP|ROCR)_VISIBLE_DEVICES['\"]?\]? ?[=:] ?['\"]?\[?(?P<mask>[0-9A-Za-z, \-]{0,120})",
         "LOCAL_RANK: 1 - CUDA_VISIBLE_DEVICES: [0,1]",
         "+ export CUDA_VISIBLE_DEVICES=0,1,1")),
    *spellings("one-gpu-a-task", Kind.RECORD, ("DC203",),
        (r"--gpu(?:s-per-task|-bind)[= ](?P<value>[^\s]{1,60})",
         "+ srun --ntasks-per-node=4 --gpus-per-task=1 python train.py")),
    *spellings("no-cuda-gpus", Kind.CAUSE, ("DC204",),
        (r"No (?P<maker>CUDA|HIP) GPUs are available", "RuntimeError: No CUDA GPUs are available")),
    *spellings("rocm-masks", Kind.CAUSE, ("DC205",),
        (r"use HIP_VISIBLE_DEVICES instead of ROCR_VISIBLE_DEVICES",
         "RuntimeError: Please use HIP_VISIBLE_DEVICES instead of ROCR_VISIBLE_DEVICES"),
        (r"HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES",
         "RuntimeError: HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES"),
        (r"Please use either HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES",
         "ValueError: Inconsistent values found. Please use either HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES."),
        (r"don't set ROCR_VISIBLE_DEVICES when",
         "ValueError: Please don't set ROCR_VISIBLE_DEVICES when HIP/CUDA_VISIBLE_DEVICES is set.")),
    *spellings("device-guessed", Kind.NOTICE, ("DC206",),
        (r"using (?:best-guess )?GPU (?P<gpu>[0-9]{0,4}) (?:to perform barrier )?as devices? used by this process",
         "[rank1]:[W1122 08:10:11.034140532 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 1]  using GPU 1 as "
         "device used by this process is currently unknown.",
         "[W ProcessGroupNCCL.cpp:1856] Rank 3 using best-guess GPU 3 to perform barrier as devices used by this "
         "process are currently unknown."),
        (r"Guessing device ID based on global rank",
         "UserWarning: Guessing device ID based on global rank. This can cause a hang if rank to GPU mapping is"),
        (r"barrier\(\): using the device under current context",
         "UserWarning: barrier(): using the device under current context. You can specify `device_id` in")),
    *spellings("cuda-in-fork", Kind.CAUSE, ("DC218",),
        (r"Cannot re-initialize (?P<device>[A-Za-z]{2,8}) in forked subprocess",
         "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
         "use the 'spawn' start method")),
)
# fmt: on
