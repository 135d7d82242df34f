"""GPUs, drivers and libraries, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

_SIZE = r"[0-9.]{1,12} [KMGT]iB"

# fmt: off
ROWS: tuple[Signature, ...] = (
    # DC303: NCCL up to 2.29, and from 2.30 on; torch repeats the line below "Last error:"
    *spellings("duplicate-gpu", Kind.CAUSE, ("DC303",),
        (r"Duplicate GPU detected ?: rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device "
         r"(?P<device>[0-9a-f]+)",
         "gpu03:1201:1288 [0] init.cc:806 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device "
         "1b000",
         "Duplicate GPU detected : rank 5 and rank 4 both on CUDA device f000"),
        (r"Multiple Ranks are using the same GPU/Partition",
         "gpu03:1201:1288 [0] init.cc:1212 (initTransportsRank) NCCL WARN Multiple Ranks are using the same "
         "GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration.")),
    # DC304
    *spellings("driver-too-old", Kind.CAUSE, ("DC304",),
        (r"NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)",
         "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU "
         "driver by downloading and installing a new version"),
        (r"CUDA driver version is insufficient for CUDA runtime version",
         "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
         "gpu03:77:98 [1] init.cc:402 NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime "
         "version'"),
        (r"the provided PTX was compiled with an unsupported toolchain",
         "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.")),
    # out of memory: of the own model no rule; DC305 where others hold the memory, DC303 where ranks of the job do
    *spellings("cuda-out-of-memory", Kind.CAUSE, (),
        (r"(?:CUDA|HIP) out of memory\. Tried to allocate (?P<wanted>" + _SIZE + r")"
         r"(?:\.? \(?GPU (?P<gpu>\d+)(?: has a total capaci?ty of (?P<total>" + _SIZE + r") of which (?P<free>" + _SIZE
         + r") is" r" free|; (?P<whole>" + _SIZE + r") total capacity; (?P<held>" + _SIZE
         + r") already allocated; (?P<left>" + _SIZE + r")" r" free; (?P<own>" + _SIZE + r") (?:reserved|cached)))?",
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
         "79.15 GiB of which 1.21 GiB is free. Including non-PyTorch memory, this process has 77.93 GiB memory in "
         "use. Of the allocated memory 75.10 GiB is allocated by PyTorch, and 1.40 GiB is reserved by PyTorch but "
         "unallocated.",
         "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacty "
         "of 79.15 GiB of which 20.25 MiB is free. Process 4711 has 70.00 GiB memory in use.",
         "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 39.59 GiB total capacity; 1.18 GiB "
         "already allocated; 5.31 MiB free; 1.20 GiB reserved in total by PyTorch)"),
        (r"(?:CUDA|HIP) error: out of memory", "RuntimeError: CUDA error: out of memory"),
        (r"Cuda failure (?:2 )?'out of memory'",
         "gpu03:1201:1288 [0] include/alloc.h:185 NCCL WARN Cuda failure 'out of memory'",
         "Cuda failure 2 'out of memory'")),
    #: what this process itself holds; far behind in the line of an out-of-memory
    *spellings("gpu-memory-own", Kind.RECORD, (),
        (r"Of the allocated memory (?P<allocated>" + _SIZE + r") is allocated by PyTorch",
         "… this process has 77.93 GiB memory in use. Of the allocated memory 75.10 GiB is allocated by PyTorch, and")),
    *spellings("gpu-memory-taken", Kind.CAUSE, ("DC305",),
        (r"Free memory on device (?:cuda:(?P<gpu>\d+) )?\((?P<free>[0-9.]+)/(?P<total>[0-9.]+) GiB\) on startup is "
         r"less than",
         "ValueError: Free memory on device (4.51/79.10 GiB) on startup is less than desired GPU memory utilization "
         "(0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.")),
    # what fails in a process and is no rule: named, so that the root-cause summary can show it
    *spellings("cuda-device-assert", Kind.CAUSE, (),
        (r"device-side assert triggered",
         "RuntimeError: CUDA error: device-side assert triggered",
         "RuntimeError: transform: failed to synchronize: cudaErrorAssert: device-side assert triggered",
         "gpu03:1201:1299 [1] include/alloc.h:125 NCCL WARN Cuda failure 710 'device-side assert triggered'")),
    #: what the kernel itself checked
    *spellings("cuda-assertion", Kind.RECORD, (),
        (r"thread: \[\d{1,10},\d{1,10},\d{1,10}\] (?P<said>Assertion `[^`]{1,200}` failed)",
         "../aten/src/ATen/native/cuda/Indexing.cu:1237: indexSelectSmallIndex: block: [2,0,0], thread: [17,0,0] "
         "Assertion `srcIndex < srcSelectDimSize` failed.")),
    *spellings("cuda-memory-access", Kind.FAILURE, (),
        (r"an illegal memory access was encountered",
         "RuntimeError: CUDA error: an illegal memory access was encountered",
         "Failed: CUDA error /workspace/csrc/kernel.cpp:89 'an illegal memory access was encountered'")),
    *spellings("rocm-memory-access", Kind.FAILURE, (),
        (r"Memory access fault by GPU node-\d+",
         "Memory access fault by GPU node-2 (Agent handle: 0x5581f2a0) on address 0x7f4c2a000000. Reason: Page not "
         "present or supervisor privilege.")),
    #: torch prints it below the line that names the error
    *spellings("cuda-error-note", Kind.RECORD, (),
        (r"kernel errors might be asynchronously reported at some other API call",
         "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
         "be incorrect.")),
    *spellings("cuda-launch-failure", Kind.FAILURE, (),
        (r"(?:CUDA|HIP) error: (?:unspecified launch failure|misaligned address|an illegal instruction was encountered"
         r"|invalid program counter|the launch timed out and was terminated)",
         "RuntimeError: CUDA error: unspecified launch failure",
         "RuntimeError: CUDA error: misaligned address")),
    *spellings("cuda-library", Kind.FAILURE, (),
        (r"(?:CUBLAS_STATUS_ALLOC_FAILED|CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_NOT_INITIALIZED"
         r"|CUDNN_STATUS_ALLOC_FAILED)",
         "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
         "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED")),
    *spellings("cuda-library-missing", Kind.FAILURE, (),
        (r"lib(?:cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink)\.so[.\d]{0,12}: "
         r"cannot open shared object file",
         "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory")),
    *spellings("driver-absent", Kind.FAILURE, (),
        (r"Found no NVIDIA driver on your system", "RuntimeError: Found no NVIDIA driver on your system."),
        (r"couldn't communicate with the NVIDIA driver",
         "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")),
    # DC306
    *spellings("mig-device", Kind.RECORD, ("DC306",),
        (r"MIG-[0-9a-f]{8}-[0-9a-f]{4}", "CUDA_VISIBLE_DEVICES=MIG-09f04cbb-4d8f-5d1c-a6d5-3f1bb9d7c7e9"),
        (r"MIG-GPU-[0-9a-f]{8}-", "CUDA_VISIBLE_DEVICES=MIG-GPU-5a2e0c6b-91a1-77f5-aa57-3f1bb9d7c7e9/1/0"),
        (r"MIG \d+g\.\d+gb", "  MIG 3g.40gb     Device  0: (UUID: MIG-09f04cbb-4d8f-5d1c-a6d5-3f1bb9d7c7e9)")),
    *spellings("device-index-assert", Kind.FAILURE, ("DC306",),
        (r"device >= 0 && device < num_gpus INTERNAL ASSERT FAILED",
         "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "
         '"../aten/src/ATen/cuda/CUDAContext.cpp":49, please report a bug to PyTorch. device=1, num_gpus=1')),
    # DC307
    *spellings("gpu-busy", Kind.CAUSE, ("DC307",),
        (r"CUDA-capable device(?:\(s\)|s) (?:is/)?are busy or unavailable",
         "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
         "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable")),
    # DC308
    *spellings("gpu-imbalance", Kind.NOTICE, ("DC308",),
        (r"imbalance between your GPUs\. You may want to exclude GPU (?P<gpu>\d+)",
         "UserWarning: There is an imbalance between your GPUs. You may want to exclude GPU 1 which has less than "
         "75% of the memory or cores of GPU 0.")),
    *spellings("gpu-model", Kind.RECORD, ("DC308",),
        (r"Rank +(?P<rank>\d+) (?:Group +\d+ )?Pid +\d+ on +(?P<host>\S{1,80}) device +\d+ \[0x[0-9a-f:.]+\] "
         r"(?P<model>[A-Z][A-Za-z0-9 .-]{2,60})",
         "#  Rank  0 Group  0 Pid   5950 on     node01 device  0 [0x34] NVIDIA H800",
         "#   Rank  3 Pid   5953 on     node02 device  1 [0x48] Tesla V100-SXM2-32GB")),
    # DC309
    *spellings("gpu-xid", Kind.CAUSE, ("DC309",),
        (r"NVRM: Xid \((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]{4,16})\): (?P<xid>\d{1,3}),",
         "[412377.100452] NVRM: Xid (PCI:0000:3b:00): 79, pid=5120, GPU has fallen off the bus.",
         "Mar 11 02:14:07 gpu07 kernel: NVRM: Xid (PCI:0000:b3:00): 48, pid='<unknown>', name=<unknown>, DBE "
         "(double bit error) ECC Error (Video DRAM)",
         "[  982.113] NVRM: Xid (0000:02:00): 13, Graphics Exception: ESR 0x404490=0x80000002")),
    *spellings("gpu-off-the-bus", Kind.CAUSE, ("DC309",),
        (r"NVRM: .{0,60}fallen off the bus",
         "[74889.644141] NVRM: GPU at 0000:3b:00.0 has fallen off the bus.",
         "               NVRM: fallen off the bus and is not responding to commands."),
        (r"GPU is lost",
         "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover "
         "this GPU",
         "pynvml.NVMLError_GpuIsLost: GPU is lost")),
    *spellings("gpu-no-handle", Kind.CAUSE, ("DC309",),
        (r"Unable to determine the device handle for [gG][pP][uU] ?(?:\d{1,2}: )?(?P<gpu>[0-9a-fA-F:.]{7,16}): "
         r"(?P<what>[A-Z][A-Za-z ]{2,40})",
         "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error",
         "Unable to determine the device handle for GPU2: 0000:81:00.0: Unknown Error",
         "Unable to determine the device handle for gpu 0000:02:00.0: Unable to communicate with GPU because it is "
         "insufficiently powered.")),
    *spellings("rocm-gpu-hang", Kind.FAILURE, (),
        (r"HW Exception by GPU node-\d+ \(Agent handle: \w{1,20}\) reason ?: ?GPU Hang",
         "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang")),
    *spellings("gpu-ecc", Kind.CAUSE, ("DC309",),
        (r"[uU]ncorrectable ECC error",
         "RuntimeError: CUDA error: uncorrectable ECC error encountered",
         "gpu03:1201:1288 [0] enqueue.cc:1423 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"),
        (r"HW Exception by GPU node-\d+ \(Agent handle: \w{1,20}\) reason ?: ?ECC",
         "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :ECC")),
    *spellings("gpu-nvlink-error", Kind.CAUSE, ("DC309",),
        (r"uncorrectable NVLink error",
         "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution"),
        (r"Invalid access of peer GPU memory over nvlink or a hardware error",
         "torch.AcceleratorError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error")),
    *spellings("gpu-nvlink-error", Kind.CAUSE, ("DC309", "DC336"),
        (r"P2P is disabled between NVLINK connected GPUs (?P<gpu>\d+) and (?P<other>\d+)",
         "gpu03:1201:1288 [0] graph/paths.cc:330 NCCL WARN P2P is disabled between NVLINK connected GPUs 5 and 4. "
         "This should not be the case given their connectivity, and is probably due to a hardware issue.")),
    # DC312
    *spellings("fabric-manager", Kind.CAUSE, ("DC312",),
        (r"Error 802: system not yet initialized",
         "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
         "functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet "
         "initialized (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:109.)"),
        (r"Cuda failure (?:802 )?'system not yet initialized'",
         "gpu03:1201:1288 [0] init.cc:1804 NCCL WARN Cuda failure 'system not yet initialized'",
         "Cuda failure 802 'system not yet initialized'"),
        (r"CUDA error: system not yet initialized", "RuntimeError: CUDA error: system not yet initialized"),
        # torch 1.0 to 1.6
        (r"error ?(?:\(802\)|=802) : system not yet initialized",
         "RuntimeError: cuda runtime error (802) : system not yet initialized at aten/src/THC/THCGeneral.cpp:50",
         "THCudaCheck FAIL file=aten/src/THC/THCGeneral.cpp line=50 error=802 : system not yet initialized")),
    # DC313
    *spellings("nvml-mismatch", Kind.CAUSE, ("DC313",),
        (r"Driver/library version mismatch",
         "Failed to initialize NVML: Driver/library version mismatch",
         "pynvml.NVMLError_LibRmVersionMismatch: Driver/library version mismatch"),
        (r"RM has detected an NVML/RM version mismatch",
         "nvmlInit_v2() failed: RM has detected an NVML/RM version mismatch."),
        (r"NVRM: API mismatch: ", "[ 2211.4] NVRM: API mismatch: the client has the version 550.90.07, but")),
    # DC314
    *spellings("nvml-unknown", Kind.CAUSE, ("DC314",),
        (r"Failed to initialize NVML: (?P<what>Unknown Error|Insufficient Permissions)",
         "Failed to initialize NVML: Unknown Error",
         "Failed to initialize NVML: Insufficient Permissions"),
        (r"NVMLError_(?P<what>Unknown|NoPermission): ", "pynvml.nvml.NVMLError_Unknown: Unknown Error")),
    # DC331, DC332, DC333
    *spellings("nccl-symbol", Kind.CAUSE, ("DC331",),
        (r"undefined symbol:? (?P<symbol>p?nccl\w+)",
         "ImportError: /opt/env/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: "
         "ncclCommRegister",
         "python: symbol lookup error: libtorch_cuda.so: undefined symbol: ncclCommWindowRegister")),
    *spellings("nccl-missing", Kind.CAUSE, ("DC332",),
        (r"lib(?:nccl|rccl)\.so(?:\.\d+)?: cannot open shared object file",
         "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory"),
        (r"libnccl\.so\.\*\[0-9\] not found in the system path",
         "ValueError: libnccl.so.*[0-9] not found in the system path ['/workspace', '/usr/lib/python311.zip']")),
    *spellings("cuda-compat", Kind.CAUSE, ("DC333",),
        (r"forward compatibility was attempted on non supported HW",
         "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 804: forward "
         "compatibility was attempted on non supported HW (Triggered internally at "
         "../c10/cuda/CUDAFunctions.cpp:108.)"),
        (r"system has unsupported display driver / cuda driver combination",
         "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display "
         "driver / cuda driver combination")),
    # DC335
    *spellings("no-kernel-image", Kind.CAUSE, ("DC335",),
        (r"no kernel image is available for execution on the device",
         "RuntimeError: CUDA error: no kernel image is available for execution on the device",
         "gpu03:1201:1288 [0] enqueue.cc:96 NCCL WARN Cuda failure 'no kernel image is available for execution on "
         "the device'"),
        (r"(?:(?:Cuda|HIP) failure:? (?:98 )?'|(?:CUDA|HIP) error: )invalid device function",
         "RuntimeError: CUDA error: invalid device function",
         "torch.AcceleratorError: HIP error: invalid device function",
         "[FATAL ERROR]: HIP failure: 'invalid device function'",
         "gpu03:1201:1288 [0] enqueue.cc:123 NCCL WARN Cuda failure 'invalid device function'"),
        (r"hipErrorNoBinaryForGpu", '"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"'),
        (r"CUDA error: device kernel image is invalid", "RuntimeError: CUDA error: device kernel image is invalid")),
    *spellings("nccl-no-kernel", Kind.CAUSE, ("DC335",),
        (r"Cuda failure (?:500 )?'named symbol not found'",
         "gpu03:1201:1288 [0] enqueue.cc:201 NCCL WARN Cuda failure 'named symbol not found'")),
    *spellings("architecture-warning", Kind.NOTICE, ("DC335",),
        (r"with CUDA capability sm_(?P<sm>\d+) is not compatible with the current PyTorch",
         "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
         "installation.")),
    # DC336
    *spellings("iommu-warning", Kind.NOTICE, ("DC336",),
        (r'Missing "iommu=pt" from kernel command line',
         'node01:3011:3050 [0] init.cc:108 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to '
         "system instability or hang!")),
    *spellings("p2p-disabled", Kind.NOTICE, ("DC336",),
        (r"P2P is disabled between connected GPUs (?P<gpu>\d+) and (?P<other>\d+)",
         "node01:3011:3050 [0] NCCL INFO P2P is disabled between connected GPUs 2 and 1. You can repress this message "
         "with NCCL_IGNORE_DISABLED_P2P=1.")),
    *spellings("geforce-guard", Kind.CAUSE, ("DC336",),
        (r"Using RTX (?P<series>\d{4})(?: or \d{4})? series (?:or newer )?doesn't support faster communication",
         "NotImplementedError: Using RTX 4000 series doesn't support faster communication broadband via P2P or IB. "
         'Please set `NCCL_P2P_DISABLE="1"` and `NCCL_IB_DISABLE="1" or use `accelerate launch` which will do this '
         "automatically.",
         "NotImplementedError: Using RTX 3090 or 4000 series doesn't support faster communication speedups. Please "
         "set")),
    *spellings("no-peer-access", Kind.CAUSE, ("DC336",),
        (r"peer access is not supported between these two devices",
         "gpu03:1201:1288 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 'peer access is not supported between "
         "these two devices'")),
    # DC337
    *spellings("wsl", Kind.RECORD, ("DC337",),
        (r"DESKTOP(?:-[A-Z0-9]{7})?:\d+:\d+ \[\d+\]",
         "DESKTOP-4K7Q2MZ:411:502 [0] NCCL INFO Bootstrap : Using eth0:172.22.118.4<0>"),
        (r"microsoft-standard-WSL", "Linux box 5.15.153.1-microsoft-standard-WSL2 #1 SMP x86_64 GNU/Linux")),
    *spellings("cuda-unknown", Kind.FAILURE, ("DC337",),
        (r"Cuda failure (?:999 )?'unknown error'",
         "DESKTOP-4K7Q2MZ:411:502 [0] init.cc:300 NCCL WARN Cuda failure 999 'unknown error'")),
    *spellings("no-pci-path", Kind.FAILURE, ("DC337",),
        (r"Could not find real path of /sys/class/pci_bus",
         "DESKTOP-4K7Q2MZ:411:502 [0] graph/xml.cc:332 NCCL WARN Could not find real path of "
         "/sys/class/pci_bus/0000:21/../../0000:21:00.0")),
)
# fmt: on
