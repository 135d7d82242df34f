"""Launch commands and rendezvous variables, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

#: Names that torch.distributed has had since 1.0, but for builds without it (USE_DISTRIBUTED=0). Where a younger one is
#: missing (get_node_local_rank: 2.4), this torch is too old for it.
_ALWAYS_THERE = (
    "init_process_group|destroy_process_group|is_available|is_initialized|get_rank|get_world_size|get_backend|new_group|"
    "barrier|broadcast|all_reduce|reduce|all_gather|gather|scatter|send|recv|isend|irecv|ReduceOp|Backend|ProcessGroup"
)
_RANK_VARIABLES = "RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT"
_SCHEDULERS_VARIABLES = (
    "SLURM_PROCID|SLURM_LOCALID|SLURM_NTASKS|SLURM_NODEID|SLURM_NTASKS_PER_NODE|SLURM_JOB_NODELIST|SLURM_NODELIST|"
    "OMPI_COMM_WORLD_RANK|OMPI_COMM_WORLD_LOCAL_RANK|OMPI_COMM_WORLD_SIZE|PMI_RANK|PMI_SIZE|MV2_COMM_WORLD_RANK"
)

# fmt: off
ROWS: tuple[Signature, ...] = (
    # variables that are not set
    *spellings("rendezvous-env-missing", Kind.CAUSE, ("DC101",),
        (r"environment variable (?P<variable>[A-Z_]{4,20}) expected, but not set",
         "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
         "expected, but not set"),
        # the last frame of a traceback that is cut off below it
        (r"raise _env_error\([\"'](?P<variable>[A-Z_]{4,20})[\"']\)", '    raise _env_error("MASTER_ADDR")'),
        (rf"[Kk]ey ?[Ee]rror: ['\"]?(?P<variable>{_RANK_VARIABLES}|{_SCHEDULERS_VARIABLES})\b",
         "KeyError: 'LOCAL_RANK'",
         "3: KeyError: 'SLURM_PROCID'"),
        (r"(?P<variable>LOCAL_RANK) is not in the environment",
         "RuntimeError: LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
         "`get_node_local_rank` to work"),
        (r"Could not find '(?P<variable>[A-Z_]{4,20})' in the torch environment",
         "RuntimeError: Could not find 'RANK' in the torch environment, visit https://www.colossalai.org/ for more "
         "information on launching with torch"),
        (r"requires the (?P<variable>LOCAL_RANK) environment variable",
         "AssertionError: DeepSpeed requires the LOCAL_RANK environment variable, it is set by the launcher")),
    *spellings("rendezvous-argument-missing", Kind.CAUSE, ("DC101",),
        (r"rendezvous: (?P<argument>rank|world size) parameter missing",
         "ValueError: Error initializing torch.distributed using tcp:// rendezvous: rank parameter missing")),
    *spellings("mpi4py-missing", Kind.FAILURE, ("DC101",),
        (r"No module named '?mpi4py", "ModuleNotFoundError: No module named 'mpi4py'")),
    *spellings("no-launcher", Kind.RECORD, ("DC101",),
        (r"Not using the DeepSpeed or dist launchers",
         "[INFO] [comm.py:652:init_distributed] Not using the DeepSpeed or dist launchers, attempting to detect MPI")),
    *spellings("mpirun-ended", Kind.RECORD, (),
        (r"run detected that one or more processes",
         "mpirun detected that one or more processes exited with non-zero status, thus causing"),
        (r"run noticed that process rank [0-9]{1,6} with PID",
         "mpirun noticed that process rank 1 with PID 0 on node node01 exited on signal 9 (Killed).")),
    # values that can't be used
    *spellings("not-a-number", Kind.FAILURE, ("DC102",),
        (r"invalid literal for int\(\) with base 10: (?P<value>'[^']{0,80}'|\"[^\"]{0,80}\")",
         "ValueError: invalid literal for int() with base 10: 'tcp://10.1.2.3:29500'")),
    *spellings("port-out-of-range", Kind.CAUSE, ("DC102",),
        (r"port must have value from 0 to 65535(?: but was (?P<value>-?[0-9]{1,20}))?",
         "ValueError: port must have value from 0 to 65535 but was 70000."),
        (r": port must be 0-65535", "OverflowError: bind(): port must be 0-65535.")),
    *spellings("store-arguments", Kind.CAUSE, ("DC102",),
        (r"c10d\.TCPStore\((?:host_name|arg0): str",
         "    1. torch._C._distributed_c10d.TCPStore(host_name: str, port: int, world_size: int = -1)"),
        (r"TCPStore\(\): incompatible constructor arguments",
         "TypeError: TCPStore(): incompatible constructor arguments. The following argument types are supported:")),
    *spellings("world-size-zero", Kind.CAUSE, ("DC102",),
        (r"TCPStore world size cannot be 0", "ValueError: TCPStore world size cannot be 0")),
    *spellings("endpoint-malformed", Kind.CAUSE, ("DC102",),
        (r"The (?P<part>port number|hostname) of the rendezvous endpoint '(?P<value>[^']{0,200})' must be",
         "ValueError: The port number of the rendezvous endpoint 'node01:abc' must be an integer between 0 and "
         "65536.")),
    *spellings("option-malformed", Kind.CAUSE, ("DC102",),
        (r"Unsupported nproc_per_node value: (?P<value>[^\r\n]{0,60})",
         "ValueError: Unsupported nproc_per_node value: all"),
        (r"nnodes=(?P<value>[^\s]{1,60}) is not in \"MIN:MAX\" format",
         'RuntimeError: nnodes=1:2:3 is not in "MIN:MAX" format'),
        (r"min_nodes must be > 0 and <= max_nodes, got (?P<value>[^\r\n]{1,60})",
         "AssertionError: min_nodes must be > 0 and <= max_nodes, got min_nodes=0, max_nodes=0"),
        (r"The rendezvous backend '(?P<value>[^']{0,60})' is not registered",
         "ValueError: The rendezvous backend 'c10' is not registered. Did you forget to call `register`?")),
    *spellings("launcher-refused", Kind.CAUSE, ("DC102",),
        (r"(?P<launcher>torchrun|torch\.distributed\.run|Accelerate CLI tool|<command> \[<args>\](?: launch)?|"
         r"deepspeed): error: (?P<what>[^\r\n]{1,300})",
         "torchrun: error: unrecognized arguments: --nproc=4",
         "accelerate <command> [<args>]: error: unrecognized arguments: --num_process=2")),
    *spellings("address-malformed", Kind.CAUSE, ("DC102",),
        (r"network addresses of \((?P<address>[^),]{0,80}(?:://|[\s\"'$])[^),]{0,80}), ?(?P<port>[0-9]{1,6})\)",
         "[W socket.cpp:697] [c10d] The IPv6 network addresses of (tcp://10.0.0.4, 29500) cannot be retrieved (gai "
         "error: -2 - Name or service not known).")),
    *spellings("debug-level-invalid", Kind.CAUSE, ("DC112",),
        (r"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL",
         "ValueError: The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")),
    # numbers that contradict each other
    *spellings("rank-out-of-range", Kind.CAUSE, ("DC103",),
        (r"rank < size\. (?P<rank>-?[0-9]{1,7}) vs (?P<size>-?[0-9]{1,7})",
         "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/context.cc:23] rank < size. 3 vs 2"),
        (r"rank >= 0\. (?P<rank>-[0-9]{1,7}) vs 0",
         "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/context.cc:22] rank >= 0. -1 vs 0"),
        (r"Invalid rank requested : (?P<rank>-?[0-9]{1,7})/(?P<size>[0-9]{1,7})",
         "node01:4120:4120 [2] init.cc:1704 NCCL WARN Invalid rank requested : 9/8"),
        (r"Invalid rank (?P<rank>-?[0-9]{1,7}), rank should be in the interval \[0, (?P<last>[0-9]{1,7})\]",
         "ValueError: Invalid rank 4, rank should be in the interval [0, 3]"),
        (r"Cannot init process group where rank \((?P<rank>-?[0-9]{1,7})\) >= world_size \((?P<size>-?[0-9]{1,7})\)",
         "RuntimeError: Cannot init process group where rank (4) >= world_size (4)")),
    *spellings("local-ranks-differ", Kind.CAUSE, ("DC103",),
        (r"LOCAL_RANK \((?P<one>[0-9]{1,5})\) != (?P<variable>[A-Z_]{4,40}) \((?P<other>[0-9]{1,5})\)",
         "AssertionError: LOCAL_RANK (0) != OMPI_COMM_WORLD_LOCAL_RANK (1), not sure how to proceed as we're seeing "
         "conflicting local rank info.")),
    # what a launcher can't do
    *spellings("no-gpu-to-count", Kind.CAUSE, ("DC121",),
        (r"ValueError: (?P<device>Cuda|Xpu|Mtia|Hpu|Npu|gpu|xpu) is not available\.",
         "ValueError: Cuda is not available.")),
    *spellings("no-libuv", Kind.CAUSE, ("DC123",),
        (r"use_libuv was requested but PyTorch was buil[dt] without libuv support",
         "RuntimeError: use_libuv was requested but PyTorch was build without libuv support",
         "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was built without libuv support, "
         "run with USE_LIBUV=0 to disable it.")),
    *spellings("proxy-refused", Kind.NOTICE, ("DC124",),
        (r"ProxyError\(",
         "urllib3.exceptions.MaxRetryError: (Caused by ProxyError('Unable to connect to proxy', OSError()))"),
        (r"Tunnel connection failed: (?P<status>[0-9]{3})", "OSError: Tunnel connection failed: 403 Forbidden")),
    *spellings("etcd", Kind.RECORD, (),
        (r"etcd(?:_rendezvous|\.client|-v2|\.EtcdException|\.EtcdConnectionFailed)",
         "etcd.EtcdConnectionFailed: No more machines in the cluster")),
    # torch itself
    *spellings("module-shadowed", Kind.CAUSE, ("DC122",),
        (r"'torch' is not a package",
         "ModuleNotFoundError: No module named 'torch.distributed'; 'torch' is not a package"),
        (r"partially initialized module 'torch(?:\.distributed)?' (?P<why>[^\r\n]{0,120})",
         "AttributeError: partially initialized module 'torch' has no attribute 'nn' (most likely due to a circular "
         "import)")),
    *spellings("source-tree-shadows", Kind.CAUSE, ("DC122",),
        (r"It appears that PyTorch has loaded the .torch/_C. folder",
         "ImportError: It appears that PyTorch has loaded the `torch/_C` folder"),
        (r"from 'torch\._C' \(unknown location\)",
         "ImportError: cannot import name 'default_generator' from 'torch._C' (unknown location)"),
        (r"No module named 'torch\._C'", "ModuleNotFoundError: No module named 'torch._C'")),
    *spellings("backend-absent", Kind.CAUSE, ("DC120",),
        (r"Distributed package doesn't have (?P<backend>[A-Za-z]{2,10}) (?:\" \")?built in",
         "RuntimeError: Distributed package doesn't have NCCL built in",
         '    raise RuntimeError("Distributed package doesn\'t have NCCL " "built in")'),
        (r"Torch not compiled with (?P<device>[A-Za-z]{2,10}) enabled",
         "AssertionError: Torch not compiled with CUDA enabled")),
    *spellings("distributed-absent", Kind.CAUSE, ("DC120",),
        (rf"module 'torch\.distributed' has no attribute '(?P<attribute>{_ALWAYS_THERE})'",
         "AttributeError: module 'torch.distributed' has no attribute 'init_process_group'")),
    #: a warning, and harmless where gloo is requested in addition
    *spellings("nccl-not-compiled", Kind.NOTICE, ("DC120",),
        (r"NCCL support is not compiled",
         "distributed_c10d.py:613: UserWarning: Attempted to get default timeout for nccl backend, but NCCL support "
         "is not compiled")),
    *spellings("backend-absent", Kind.CAUSE, ("DC120",),
        (r"module 'torch\._C' has no attribute '(?P<attribute>_cuda_[A-Za-z]{2,40})'",
         "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'"),
        (r"Unknown (?:c10d )?backend type (?P<backend>[A-Za-z0-9_]{1,20})",
         "AssertionError: Unknown c10d backend type UCC")),
    *spellings("backend-for-other-device", Kind.CAUSE, ("DC714", "DC120"),
        (r"No backend type associated with device type (?P<device>[a-z]{2,10})",
         "RuntimeError: No backend type associated with device type cpu"),
        (r"Tensors must be (?P<wanted>CUDA) and dense", "RuntimeError: Tensors must be CUDA and dense")),
    *spellings("operation-absent", Kind.CAUSE, ("DC120",),
        (r"(?P<operation>monitored_barrier) is only implemented for (?P<backend>GLOO) backend",
         "ValueError: monitored_barrier is only implemented for GLOO backend."),
        (r"Cannot use (?P<operation>ReduceOp\.[A-Za-z_]{2,12}) with (?P<backend>[A-Za-z]{2,12})",
         "ValueError: Cannot use ReduceOp.AVG with Gloo"),
        (r"(?:Backend|ProcessGroup) ?(?P<backend>gloo|Gloo|GLOO|nccl|NCCL|mpi|MPI|ucc|UCC|xccl|XCCL) does not support "
         r"(?P<operation>[A-Za-z_]{3,40})",
         "RuntimeError: Backend gloo does not support reduce_scatter")),
    # arguments that a script refuses
    *spellings("arguments-refused", Kind.FAILURE, ("DC207", "DC803"),
        (r"nrecognized arguments: (?P<arguments>[^\r\n]{1,400})",
         "train.py: error: unrecognized arguments: --local-rank=0"),
        (r"Unrecognized options: (?P<arguments>[^\r\n]{1,400})", "| Unrecognized options: --local-rank=0 |"),
        (r"are not used by the HfArgumentParser: (?P<arguments>[^\r\n]{1,400})",
         "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--nproc_per_node', '8']"),
        (r"Unknown command line flag '(?P<arguments>[^']{1,60})'",
         "FATAL Flags parsing error: Unknown command line flag 'local-rank'. Did you mean: local_rank ?"),
        (r"Could not consume arg: (?P<arguments>[^\s]{1,100})", "ERROR: Could not consume arg: --local_rank=0"),
        (r"o such option: (?P<arguments>--[^\s]{1,100})", "Error: No such option: --local-rank")),
    *spellings("arguments-required", Kind.FAILURE, ("DC207",),
        (r"the following arguments are required: (?P<arguments>[^\r\n]{1,200})",
         "train.py: error: the following arguments are required: --local_rank")),
    # worth knowing, and no failure
    *spellings("renamed-variable", Kind.NOTICE, ("DC111",),
        (r"nvironment variable (?P<old>[A-Z_0-9]{4,60}) is deprecated; use (?P<new>[A-Z_0-9]{4,60}) instead",
         "[W Utils.hpp:164] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use "
         "TORCH_NCCL_ASYNC_ERROR_HANDLING instead (function operator())"),
        (r"(?P<old>PYTORCH_(?:CUDA|HIP)_ALLOC_CONF) is deprecated, use (?P<new>PYTORCH_ALLOC_CONF) instead",
         "Warning: PYTORCH_CUDA_ALLOC_CONF is deprecated, use PYTORCH_ALLOC_CONF instead (function operator())")),
    *spellings("omp-threads-default", Kind.NOTICE, ("DC115",),
        (r"Setting OMP_NUM_THREADS environment variable for each process to be (?P<threads>[0-9]{1,4}) in default",
         "W1122 08:03:24.677000 1147 torch/distributed/run.py:874] Setting OMP_NUM_THREADS environment variable for "
         "each process to be 1 in default, to avoid your system being overloaded")),
    *spellings("deprecated-launcher", Kind.NOTICE, ("DC801",),
        (r"torch\.distributed\.launch is deprecated",
         "FutureWarning: The module torch.distributed.launch is deprecated")),
    *spellings("node-rank-ignored", Kind.NOTICE, ("DC806",),
        (r"(?P<option>node_rank|master_addr) is only used for static rdzv_backend",
         "W1122 08:10:02.114000 811 torch/distributed/run.py:866] node_rank is only used for static rdzv_backend. "
         "It will be ignored for rdzv_backend=c10d.")),
)
# fmt: on
