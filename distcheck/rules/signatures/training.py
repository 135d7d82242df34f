"""What a training script does with its process group and its wrappers, as logs show it."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

# fmt: off
ROWS: tuple[Signature, ...] = (
    *spellings("group-missing", Kind.CAUSE, ("DC740",),
        (r"Default process group (?:has not been|is not) initialized",
         "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
         "RuntimeError: Default process group is not initialized"),
        (r"Invalid process group specified or has been destroyed",
         "ValueError: Invalid process group specified or has been destroyed."),
        (r"AssertionError: (?P<group>[a-z\- ]{0,40}) ?parallel (?:worker )?group is not initialized",
         "AssertionError: tensor model parallel group is not initialized"),
        (r"backend not set, please initialize it using init_process_group",
         "AssertionError: DeepSpeed backend not set, please initialize it using init_process_group()"),
        (r"AssertionError: Process group cannot be None", "AssertionError: Process group cannot be None")),
    *spellings("group-twice", Kind.CAUSE, ("DC741", "DC106"),
        (r"trying to initialize the default process group twice",
         "ValueError: trying to initialize the default process group twice!")),
    *spellings("list-of-root", Kind.CAUSE, ("DC709",),
        (r"Argument ``(?P<argument>gather_list|scatter_list)`` must NOT be specified on "
         r"non-(?P<root>destination|source) ranks",
         "ValueError: Argument ``gather_list`` must NOT be specified on non-destination ranks.",
         "ValueError: Argument ``scatter_list`` must NOT be specified on non-source ranks.")),
    *spellings("list-missing-on-root", Kind.CAUSE, ("DC709",),
        (r"Argument ``(?P<argument>gather_list|scatter_list)`` must be specified on (?P<root>destination|source) rank",
         "ValueError: Argument ``gather_list`` must be specified on destination rank.",
         "ValueError: Argument ``scatter_list`` must be specified on source rank.")),
    *spellings("tensor-of-other-size", Kind.CAUSE, ("DC709",),
        (r"ProcessGroupGloo::(?P<operation>[a-z_]{1,40}): invalid tensor (?P<what>size|type) at index "
         r"(?P<index>[0-9]{1,6}) \(expected (?P<expected>[^)]{1,60}\)?), got (?P<own>[^)]{1,60}\)?)\)",
         "RuntimeError: ProcessGroupGloo::allgather: invalid tensor size at index 0 (expected (4), got (2))",
         "RuntimeError: ProcessGroupGloo::scatter: invalid tensor size at index 2 (expected (4, 3), got (3, 3))")),
    *spellings("list-of-other-length", Kind.CAUSE, ("DC709",),
        (r"ProcessGroupGloo::(?P<operation>[a-z_]{1,40}): invalid (?P<what>output|input) tensor list at index "
         r"[0-9]{1,6} \(expected length (?P<expected>[0-9]{1,7}), got (?P<own>[0-9]{1,7})\)",
         "RuntimeError: ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length 3, "
         "got 2)")),
    *spellings("message-to-itself", Kind.CAUSE, ("DC709",),
        (r"Pair is not connected \(\[[^\]]{1,60}\]:[0-9]{1,5}\$[0-9]{1,6} <--> \[none\]\)",
         "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:801] state_ >= CONNECTED. "
         "1 vs 4. Pair is not connected ([127.0.0.1]:23469$0 <--> [none])"),
        (r"Invalid (?:destination|source) rank: (?:destination|source) rank should not be the same as the rank of the "
         r"current process",
         "ValueError: Invalid destination rank: destination rank should not be the same as the rank of the current "
         "process.")),
    *spellings("rank-not-in-group", Kind.CAUSE, ("DC715",),
        (r"Global rank (?P<of>[0-9]{1,7}) is not part of group",
         "ValueError: Global rank 0 is not part of group <torch.distributed.distributed_c10d.ProcessGroup object at "
         "0x7f2c4c0e1a70>")),
    *spellings("shuffle-with-sampler", Kind.CAUSE, ("DC731",),
        (r"sampler option is mutually exclusive with shuffle",
         "ValueError: sampler option is mutually exclusive with shuffle")),
    *spellings("group-not-destroyed", Kind.NOTICE, ("DC743",),
        (r"process group has NOT been destroyed before",
         "[rank0]:[W1122 08:12:40.1 ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has NOT been "
         "destroyed before we destruct ProcessGroupNCCL."),
        (r"destroy_process_group\(\) was not called before program exit",
         "[rank0]:[W1122 08:12:40.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not "
         "called before program exit, which can leak resources.")),
    *spellings("unused-parameters", Kind.CAUSE, ("DC754",),
        (r"Expected to have finished reduction in the prior iteration",
         "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."),
        (r"has parameters that were not used in producing the loss",
         "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss "
         "returned by training_step.")),
    *spellings("parameter-ready-twice", Kind.CAUSE, ("DC754",),
        (r"Expected to mark a variable ready only once",
         "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following"),
        (r"has been marked as ready twice",
         "Parameter at index 753 has been marked as ready twice. This means that multiple autograd engine hooks have "
         "fired for this particular parameter during this iteration.")),
    *spellings("unused-parameters-named", Kind.RECORD, ("DC754",),
        (r"Parameter indices which did not receive grad for rank (?P<of>[0-9]{1,7}): (?P<indices>[0-9 .]{1,200})",
         "Parameter indices which did not receive grad for rank 1: 2 3"),
        (r"Parameters which did not receive grad for rank (?P<of>[0-9]{1,7}): (?P<names>[^\r\n]{1,300})",
         "Parameters which did not receive grad for rank 1: head.weight, head.bias")),
    *spellings("unused-flag", Kind.NOTICE, ("DC754",),
        (r"find_unused_parameters=True was specified in DDP constructor, but did not find any unused",
         "[rank0]:[W reducer.cpp:1430] Warning: find_unused_parameters=True was specified in DDP constructor, but "
         "did not find any unused parameters in the forward pass.")),
    # what fails in a process and is no rule: named, so that the root-cause summary can show it
    *spellings("devices-differ", Kind.FAILURE, (),
        (r"Expected all tensors to be on the same device",
         "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and "
         "cuda:0!")),
    *spellings("device-map-spread", Kind.FAILURE, (),
        (r"You can't train a model that has been loaded with `?device_map='auto'`? in any distributed mode"
         r"|You can't train a model that has been loaded in \d-bit (?:or \d-bit )?precision on a different device",
         "ValueError: You can't train a model that has been loaded with `device_map='auto'` in any distributed mode. "
         "Please rerun your script specifying `--num_processes=1`")),
    *spellings("wrapper-attribute", Kind.FAILURE, (),
        (r"'(?:DistributedDataParallel|DataParallel|DeepSpeedEngine)' object has no attribute '\w{1,80}'",
         "AttributeError: 'DistributedDataParallel' object has no attribute 'generate'")),
    *spellings("ddp-on-cpu", Kind.FAILURE, (),
        (r"DistributedDataParallel device_ids and output_device arguments only work with",
         "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
         "single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, and "
         "module parameters {device(type='cpu')}.")),
    *spellings("ddp-frozen", Kind.FAILURE, (),
        (r"DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient",
         "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameters that require "
         "a gradient.")),
    *spellings("fsdp-layer-class", Kind.FAILURE, (),
        (r"Could not find the transformer layer class (?:\S{1,80} )?(?:to wrap )?in the model",
         "Exception: Could not find the transformer layer class to wrap in the model.",
         "ValueError: Could not find the transformer layer class LlamaLayer in the model.")),
    *spellings("tensor-not-contiguous", Kind.FAILURE, (),
        (r"Tensors must be contiguous", "ValueError: Tensors must be contiguous")),
    *spellings("parallel-sizes", Kind.FAILURE, (),
        (r"(?i)world[_ ]size ?\(?(?P<size>\d{1,7})\)? is not divisible by",
         "AssertionError: world size (8) is not divisible by tensor_model_parallel_size (3)",
         "RuntimeError: world_size (4) is not divisible by 3")),
    *spellings("fsdp-dtypes", Kind.FAILURE, (),
        (r"(?:Must flatten tensors with|`FlatParameter` requires) uniform dtype but got",
         "ValueError: Must flatten tensors with uniform dtype but got torch.float32 and torch.bfloat16")),
    *spellings("mixed-dtensor", Kind.FAILURE, (),
        (r"got mixed torch\.Tensor and DTensor",
         "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
         "DTensor before calling distributed operators!")),
    *spellings("checkpoint-key", Kind.FAILURE, (),
        (r"Missing key in checkpoint state_dict: (?P<key>[\w./]{1,200})",
         "RuntimeError: Missing key in checkpoint state_dict: model.2.weight.")),
    *spellings("fsdp-integers", Kind.FAILURE, (),
        (r"Cannot flatten integer dtype tensors", "ValueError: Cannot flatten integer dtype tensors")),
    *spellings("node-rank-missing", Kind.FAILURE, (),
        (r"[Kk]ey ?[Ee]rror: ['\"]?NODE_RANK\b", "KeyError: 'NODE_RANK'")),
    *spellings("fsdp-frozen", Kind.FAILURE, (),
        (r"(?:Must flatten tensors with|`FlatParameter` requires) uniform (?:values for )?`?requires_grad",
         "ValueError: Must flatten tensors with uniform requires_grad when use_orig_params=False")),
)
# fmt: on
