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
         "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following")),
    *spellings("unused-parameters-named", Kind.RECORD, ("DC754",),
        (r"Parameter indices which did not receive grad for rank (?P<of>[0-9]{1,7}): (?P<indices>[0-9 .]{1,200})",
         "Parameter indices which did not receive grad for rank 1: 2 3"),
        (r"Parameters which did not receive grad for rank (?P<of>[0-9]{1,7}): (?P<names>[^\r\n]{1,300})",
         "Parameters which did not receive grad for rank 1: head.weight, head.bias")),
    *spellings("unused-flag", Kind.NOTICE, ("DC754",),
        (r"find_unused_parameters=True was specified in DDP constructor, but did not find any unused",
         "[rank0]:[W reducer.cpp:1430] Warning: find_unused_parameters=True was specified in DDP constructor, but "
         "did not find any unused parameters in the forward pass.")),
)
# fmt: on
