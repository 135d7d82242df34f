"""What a training script does with its process group and its wrappers, as logs show it."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

ROWS: tuple[Signature, ...] = (
    Signature(
        "group-missing",
        Kind.CAUSE,
        r"Default process group (?:has not been|is not) initialized",
        (
            "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
            "RuntimeError: Default process group is not initialized",
        ),
        ("DC740",),
    ),
    Signature(
        "group-missing",
        Kind.CAUSE,
        r"Invalid process group specified or has been destroyed",
        ("ValueError: Invalid process group specified or has been destroyed.",),
        ("DC740",),
    ),
    Signature(
        "group-missing",
        Kind.CAUSE,
        r"AssertionError: (?P<group>[a-z\- ]{0,40}) ?parallel (?:worker )?group is not initialized",
        ("AssertionError: tensor model parallel group is not initialized",),
        ("DC740",),
    ),
    Signature(
        "group-missing",
        Kind.CAUSE,
        r"backend not set, please initialize it using init_process_group",
        ("AssertionError: DeepSpeed backend not set, please initialize it using init_process_group()",),
        ("DC740",),
    ),
    Signature(
        "group-missing",
        Kind.CAUSE,
        r"AssertionError: Process group cannot be None",
        ("AssertionError: Process group cannot be None",),
        ("DC740",),
    ),
    Signature(
        "group-twice",
        Kind.CAUSE,
        r"trying to initialize the default process group twice",
        ("ValueError: trying to initialize the default process group twice!",),
        ("DC741", "DC106"),
    ),
    Signature(
        "group-not-destroyed",
        Kind.NOTICE,
        r"process group has NOT been destroyed before",
        (
            "[rank0]:[W1122 08:12:40.1 ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has NOT been "
            "destroyed before we destruct ProcessGroupNCCL.",
        ),
        ("DC743",),
    ),
    Signature(
        "group-not-destroyed",
        Kind.NOTICE,
        r"destroy_process_group\(\) was not called before program exit",
        (
            "[rank0]:[W1122 08:12:40.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not "
            "called before program exit, which can leak resources.",
        ),
        ("DC743",),
    ),
    Signature(
        "unused-parameters",
        Kind.CAUSE,
        r"Expected to have finished reduction in the prior iteration",
        ("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",),
        ("DC754",),
    ),
    Signature(
        "unused-parameters",
        Kind.CAUSE,
        r"has parameters that were not used in producing the loss",
        (
            "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss "
            "returned by training_step.",
        ),
        ("DC754",),
    ),
    Signature(
        "parameter-ready-twice",
        Kind.CAUSE,
        r"Expected to mark a variable ready only once",
        ("RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following",),
        ("DC754",),
    ),
    Signature(
        "unused-parameters-named",
        Kind.RECORD,
        r"Parameter indices which did not receive grad for rank (?P<of>[0-9]{1,7}): (?P<indices>[0-9 .]{1,200})",
        ("Parameter indices which did not receive grad for rank 1: 2 3",),
        ("DC754",),
    ),
    Signature(
        "unused-parameters-named",
        Kind.RECORD,
        r"Parameters which did not receive grad for rank (?P<of>[0-9]{1,7}): (?P<names>[^\r\n]{1,300})",
        ("Parameters which did not receive grad for rank 1: head.weight, head.bias",),
        ("DC754",),
    ),
    Signature(
        "unused-flag",
        Kind.NOTICE,
        r"find_unused_parameters=True was specified in DDP constructor, but did not find any unused",
        (
            "[rank0]:[W reducer.cpp:1430] Warning: find_unused_parameters=True was specified in DDP constructor, but "
            "did not find any unused parameters in the forward pass.",
        ),
        ("DC754",),
    ),
)
