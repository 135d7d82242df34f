"""NCCL's transports and the networks below them, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

_INFO = "gpu03:1201:1288 [0] NCCL INFO "

# fmt: off
ROWS: tuple[Signature, ...] = (
    # what each process logs of the transport; of the channels the first only, which shows as much as all
    *spellings("nccl-info", Kind.RECORD, ("DC503",),
        (r"[NR]CCL version ?:? ?(?P<version>\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)",
         "NCCL version 2.21.5+cuda12.4",
         _INFO + "NCCL version 2.27.7+cuda13.0",
         "RCCL version : 2.22.3-develop")),
    *spellings("nccl-info", Kind.RECORD, ("DC406",),
        (r"(?:Bootstrap ?: Using (?:\[\d+\])?|NET : Using interface )"
         r"(?P<interface>[A-Za-z0-9_.@-]{1,40}):(?P<address>[0-9a-fA-F:.]{2,45})",
         _INFO + "Bootstrap : Using eth0:10.0.0.4<0>",
         _INFO + "NET : Using interface lo:127.0.0.1<0>",
         _INFO + "Bootstrap : Using [0]docker0:172.17.0.1<0>")),
    *spellings("nccl-info", Kind.RECORD, ("DC413", "DC516"),
        (r"NCCL INFO Using (?:internal )?[nN]etwork (?P<network>[A-Za-z0-9_.-]{1,40})",
         _INFO + "Using network Socket",
         _INFO + "Using network AWS Libfabric",
         _INFO + "Using internal Network IB")),
    *spellings("nccl-info", Kind.RECORD, ("DC413",),
        (r"NCCL INFO NET/(?P<net>[A-Za-z0-9_ ]{1,30}?) ?: Using \[0\]",
         _INFO + "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.4<0>",
         _INFO + "NET/Socket : Using [0]eth0:10.0.0.4<0>")),
    *spellings("nccl-info", Kind.RECORD, ("DC416",),
        (r"GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA \d+ '(?P<hca>\w{1,40})'",
         _INFO + "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")),
    *spellings("nccl-info", Kind.RECORD, ("DC334",),
        (r"NCCL INFO (?:NET/Plugin ?: )?(?:Loaded net plugin|P2P plugin) (?P<plugin>[A-Za-z0-9_ ]{2,40})",
         _INFO + "NET/Plugin: Loaded net plugin AWS Libfabric (v10)",
         _INFO + "P2P plugin IBext")),
    *spellings("nccl-info", Kind.RECORD, (),
        (r"NCCL INFO comm 0x[0-9a-f]{1,16} rank (?P<rank>\d+) n[rR]anks (?P<ranks>\d+)",
         _INFO + "comm 0x55d0c8e0 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0",
         _INFO + "comm 0x7f1208000b50 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 5d000 commId 0x41 - Init COMPLETE")),
    *spellings("nccl-info", Kind.RECORD, ("DC516",),
        (r"(?:Channel|Ring) 00(?:/0)? : \d+(?:\[\w{1,8}\])? -> \d+(?:\[\w{1,8}\])?(?: \[(?:send|receive)\])? via "
         r"(?P<via>NET/|SHM|direct shared memory)",
         _INFO + "Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA",
         _INFO + "Channel 00 : 0[1a000] -> 1[1b000] via SHM/direct/direct",
         _INFO + "Ring 00 : 0[1a000] -> 1[1b000] via direct shared memory")),
    *spellings("nccl-info", Kind.RECORD, (),
        (r"NVLS multicast support is (?P<no>not )?available",
         _INFO + "NVLS multicast support is not available on dev 3 (NVLS_NCHANNELS 0)")),
    *spellings("nccl-setting", Kind.RECORD, ("DC113", "DC114"),
        (r"(?P<name>NCCL_[A-Z0-9_]{2,40}) set (?:by environment )?to (?P<value>\S{1,80})",
         _INFO + "NCCL_IB_DISABLE set by environment to 1.",
         _INFO + "NCCL_SOCKET_IFNAME set by environment to eth0",
         _INFO + "NCCL_P2P_DISABLE set to 1")),
    *spellings("shell-setting", Kind.RECORD, ("DC113", "DC114"),
        (r"\+ export "
         r"(?P<name>CUDA_LAUNCH_BLOCKING|TORCH_DISTRIBUTED_DEBUG|TORCH_CPP_LOG_LEVEL|NCCL_DEBUG|NCCL_IB_DISABLE"
         r"|NCCL_P2P_DISABLE|NCCL_SHM_DISABLE)=['\"]?(?P<value>\w{1,20})",
         "+ export CUDA_LAUNCH_BLOCKING=1",
         "++ export NCCL_P2P_DISABLE=1")),
    # why a network is not taken; normal where nothing better is there
    *spellings("nccl-trouble", Kind.RECORD, ("DC413",),
        (r"NET/IB ?: No device found", _INFO + "NET/IB : No device found."),
        (r"Failed to open libibverbs\.so",
         "gpu03:1201:1288 [0] misc/ibvwrap.cc:94 NCCL WARN Failed to open libibverbs.so[.1]")),
    *spellings("nccl-plugin", Kind.RECORD, ("DC334",),
        (r"Failed to find nccl(?P<kind>Net|CollNet)Plugin_(?P<wanted>v\d+) symbol",
         _INFO + "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol."),
        (r"Plugin load \((?P<plugin>[^)\s]{1,120})\) returned \d+ : (?P<missing>[^:\s]{1,160}): (?P<why>[a-z][\w "
         r":]{3,60})",
         _INFO
         + "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: "
         "No such file or directory",
         _INFO
         + "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libfabric.so.1: cannot open shared object file"),
        (r"NET/Plugin: Could not find: (?P<plugin>[^\s]{1,120})",
         _INFO + "NET/Plugin: Could not find: ofi libnccl-net-ofi.so. Using internal net plugin.")),
    *spellings("nccl-plugin-unusable", Kind.CAUSE, ("DC334",),
        (r"External network plugin (?P<plugin>[^\s]{1,80}) is unsupported",
         "gpu03:1201:1288 [0] net.cc:540 NCCL WARN External network plugin libnccl-net.so is unsupported"),
        (r"Failed to initialize any NET plugin",
         "gpu03:1201:1288 [0] plugin/net.cc:300 NCCL WARN Failed to initialize any NET plugin")),
    *spellings("nccl-network-missing", Kind.CAUSE, ("DC334", "DC413", "DC417", "DC418"),
        (r"Error: network (?P<network>[A-Za-z0-9_./-]{1,60}(?: [A-Z]\w{1,30})?) not found",
         "gpu03:1201:1288 [0] net.cc:632 NCCL WARN Error: network FasTrak not found.",
         "Error: network IB not found.")),
    # DC406
    *spellings("no-interface", Kind.CAUSE, ("DC406",),
        (r"[nN]o socket interface found",
         "gpu03:1201:1288 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
         "Bootstrap : no socket interface found"),
        (r"NET/IB ?: No IP interface found",
         "gpu03:1201:1288 [0] transport/net_ib.cc:204 NCCL WARN NET/IB : No IP interface found."),
        (r"No usable listening interface found",
         "gpu03:1201:1288 [0] NCCL WARN NET/Socket : No usable listening interface found"),
        # of a socket whose address family is that of no interface
        (r"WARN (?:Net : )?Socket creation failed ?: Address family not supported",
         "gpu03:1201:1288 [0] include/socket.h:318 NCCL WARN Net : Socket creation failed : Address family not "
         "supported by protocol",
         "gpu03:1201:1288 [0] include/socket.h:344 NCCL WARN Socket creation failed : Address family not supported by "
         "protocol"),
        (r"is neither AF_INET\(\d+\) nor AF_INET6",
         "gpu03:1201:1288 [0] misc/socket.cc:742 NCCL WARN ncclSocketInit: connecting to address  with family 0 is "
         "neither AF_INET(2) nor AF_INET6(10)"),
        (r"[nN]o device found (?:matching|after excluding)",
         "gpu03:1201:1288 [0] NCCL WARN Bootstrap : no device found matching NCCL_SOCKET_IFNAME=eth7")),
    # DC414, DC415
    *spellings("ib-async-event", Kind.NOTICE, ("DC414",),
        (r"NET/IB ?: (?:(?P<hca>\w{2,40}):\d+ )?(?:Got (?:non-fatal )?async event ?: ?|async fatal event(?: on "
         r"[A-Z]{2,4}"
         r"(?: #\w{1,20})?)?: ?)(?P<event>[A-Za-z][A-Za-z -]{3,60})",
         "gpu03:1201:1299 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error",
         "gpu03:1201:1299 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error",
         "gpu03:1201:1299 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port "
         "error(10)",
         "gpu03:1201:1299 [0] NCCL WARN NET/IB : mlx5_3:1 async fatal event: local catastrophic error")),
    #: the card itself gave up, unlike one of its ports
    *spellings("ib-adapter-broken", Kind.CAUSE, ("DC414",),
        (r"async (?:fatal )?event(?: on [A-Z]{2,4}(?: #\w{1,20})?)? ?: ?local catastrophic error",
         "gpu03:1201:1299 [0] transport/net_ib.cu:80 NCCL WARN NET/IB : Got async event : local catastrophic error",
         "gpu03:1201:1299 [0] NCCL WARN NET/IB : mlx5_3:1 async fatal event: local catastrophic error")),
    *spellings("ib-link-down", Kind.NOTICE, ("DC414",),
        (r"mlx5_core (?P<pci>[0-9a-f:.]{7,14})(?: (?P<hca>\w{2,20}))?: (?:Port: \d+ )?Link (?:DOWN|down)",
         "[81021.5] mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN",
         "[81021.5] mlx5_core 0000:1a:00.0 ens1f0: Link down")),
    *spellings("mlx5-completion", Kind.LOST, ("DC415", "DC414"),
        (r"mlx5: \S{1,64}: got completion with error", "mlx5: node01: got completion with error:")),
    *spellings("ib-completion", Kind.LOST, ("DC415", "DC414"),
        (r"Got completion from peer (?P<address>\S{3,80}) with (?:status|error)[= "
         r"](?:IBV_WC_\w{3,24}\()?(?P<status>\d{1,2})\b",
         "gpu03:1201:1299 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.0.0.5<33092> "
         "with error 12, opcode 0, len 0, vendor err 129 (Recv)",
         "gpu03:1201:1299 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.5<54862> with "
         "status=12 opcode=0 len=0 vendor err 129 (Recv) localGid ::ffff:10.9.0.4 remoteGids::ffff:10.9.0.5",
         "[2026-03-03 12:11:38] gpu03:1201:1299 [1] transport/net_ib.cc:2453 NCCL WARN NET/IB: Got completion from "
         "peer 10.0.0.5<51161> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129 hca "
         "mlx5_1"),
        (r"NET/IB ?: Got completion with error (?P<status>\d{1,2})\b",
         "gpu03:1201:1299 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error 12, opcode 1, "
         "len 32600, vendor err 129")),
    *spellings("ib-modify-qp", Kind.CAUSE, ("DC415", "DC414"),
        (r"Call to ibv_modify_qp failed with (?:error )?(?:\d{1,3} )?(?P<why>[A-Z][A-Za-z ]{5,40})",
         "gpu03:1201:1299 [0] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
         "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state "
         "RTR, local GID index 3, local GID ::ffff:10.9.0.4, remote GID ::ffff:10.9.0.5")),
    # DC416
    *spellings("ib-gpu-memory", Kind.CAUSE, ("DC416",),
        (r"Call to ibv_reg_(?:dmabuf_)?mr(?:_iova2)? failed with (?:error )?(?P<why>Bad address|Invalid argument"
         r"|Operation not (?:supported|permitted))",
         "gpu03:1201:1299 [0] misc/ibvwrap.cc:182 NCCL WARN Call to ibv_reg_mr failed with error Bad address",
         "Call to ibv_reg_mr_iova2 failed with error Bad address")),
    # DC417
    *spellings("efa-unusable", Kind.NOTICE, ("DC417",),
        (r"NET/OFI (?:Initializing plugin failed|Failed to initialize|Could(?:n't| not) find any optimal provider"
         r"|Unable to find a protocol that worked|No eligible providers were found)",
         _INFO + "NET/OFI Could not find any optimal provider",
         "10.0.0.4: WARN: Function: find_ofi_provider Line: 543: NET/OFI Couldn't find any optimal provider",
         "gpu03:1201:1288 [0] nccl_net_ofi_create_plugin:213 NCCL WARN NET/OFI Unable to find a protocol that "
         "worked. Failing initialization.",
         _INFO + "NET/OFI Initializing plugin failed"),
        (r"NET/OFI OFI fi_getinfo\(\) call failed: No data available",
         "gpu03:1201:1288 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data "
         "available"),
        (r"aws-ofi-nccl initialization failed",
         "gpu03:1201:1288 [0] nccl_net_ofi_init:140 NCCL WARN NET/OFI aws-ofi-nccl initialization failed"),
        (r"provider efa output empty list",
         "libfabric:1201:1710000000::core:core:fi_getinfo_():1357<warn> fi_getinfo: provider efa output empty list")),
    *spellings("efa-endpoint", Kind.CAUSE, ("DC417",),
        (r"NET/OFI (?P<what>Couldn't open AV|Creating new endpoint for domain \w{1,20} failed|Unable to insert remote "
         r"address into address vector for device \d{1,3})",
         "gpu03:1201:1299 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: "
         "Invalid argument",
         "gpu03:1201:1299 [3] nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new endpoint for domain "
         "0x7f9befa99380 failed: Invalid argument",
         "gpu03:1201:1299 [1] get_address:702 NCCL WARN NET/OFI Unable to insert remote address into address vector "
         "for device 1. RC: -22")),
    *spellings("efa-unreachable", Kind.LOST, ("DC417",),
        (r"\(Unreachable remote\)",
         "gpu03:1201:1299 [0] NCCL WARN NET/OFI Request 0x7f1 completed with error. RC: 107. Error: 4122 "
         "(Unreachable remote). Completed length: 0"),
        (r"reachable by EFA device but handshake failed",
         "NET/OFI Request completed with error. RC: 5. Error: 4126 (Unresponsive receiver (reachable by EFA device "
         "but handshake failed))"),
        (r"NET/OFI (?P<failed>Request \S{1,24}|Operation with NULL context) completed with error"
         r"(?:\. RC: \d{1,5}\. Error: \d{1,5} \((?P<slingshot>[A-Z_]{4,40})\))?",
         "gpu03:1201:1299 [5] ofi_process_cq:1039 NCCL WARN NET/OFI Request 0x7f1 completed with error. RC: 20. Error: "
         "unknown error. Completed length: 0, Request: { buffer_index: 255, dev: 1, size: 0, state: CREATED, "
         "direction: SEND }",
         "gpu03:1201:1299 [0] process_err_completion:1723 NCCL WARN NET/OFI Operation with NULL context completed with "
         "error")),
    # DC418
    *spellings("topology-file", Kind.NOTICE, ("DC418",),
        (r"Could not open XML topology file (?P<file>[^\s]{1,160})",
         "gpu03:1201:1288 [0] graph/xml.cc:340 NCCL WARN Could not open XML topology file "
         "/opt/microsoft/ndv4-topo.xml : No such file or directory")),
    *spellings("vendor-plugin", Kind.CAUSE, ("DC418",),
        (r"NCCL WARN NET/(?P<plugin>FasTrak|GPUDirectTCPX\w{0,10}|FastSocket) ?:? "
         r"?(?P<why>.{0,80}(?:mismatch|[fF]ail|[eE]rror))",
         "a3-node-1:88:131 [2] NCCL WARN NET/FasTrak : environment mismatch: NCCL_FASTRAK_CTRL_DEV is not set",
         "a3-node-1:88:131 [2] NCCL WARN NET/GPUDirectTCPX failed to get a unix domain socket client"),
        (r"(?P<plugin>FasTrak|GPUDirectTCPX\w{0,10}) config(?:uration)? check(?:er)?.{0,40}(?:mismatch|failed)",
         "a3-node-1:88:131 [2] NCCL WARN FasTrak config checker: 2 mismatches, see above: failed")),
    # DC420
    *spellings("nvls-failure", Kind.CAUSE, ("DC420",),
        (r"transport/nvls\.cc:\d+ (?:\(\w{2,60}\) )?NCCL WARN Cuda failure (?:\d+ )?'(?P<why>[^']{3,80})'",
         "gpu03:1201:1288 [4] transport/nvls.cc:245 NCCL WARN Cuda failure 'initialization error'")),
    *spellings("nvls-failure", Kind.CAUSE, ("DC420", "DC312"),
        (r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory of size \d+[^:]{0,60}: CUDA error \d+ "
         r"'(?P<why>[^']{3,80})'",
         "gpu03:1201:1288 [4] transport/nvls.cc:166 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory "
         "of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'.")),
    *spellings("imex-permission", Kind.CAUSE, ("DC420",),
        (r"CUDA_ERROR_NOT_PERMITTED",
         "RuntimeError: cuMemImportFromShareableHandle failed: CUDA_ERROR_NOT_PERMITTED (800)"),
        (r"Cuda failure (?:800 )?'operation not permitted'",
         "gpu03:1201:1288 [4] transport/p2p.cc:262 NCCL WARN Cuda failure 800 'operation not permitted'")),
    *spellings("cumem-host", Kind.NOTICE, ("DC420",),
        (r"cuMem host allocations do not appear to be working; falling back to a /dev/shm",
         _INFO
         + "cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based implementation. "
         "This could be due to the container runtime disabling NUMA support.")),
    # DC503, DC506
    *spellings("nccl-versions", Kind.CAUSE, ("DC503",),
        (r"Mismatched NCCL version detected ?: rank (?P<rank>\d+) version (?P<version>\d+) rank (?P<other>\d+) version "
         r"(?P<expected>\d+)",
         "gpu03:1201:1288 [0] bootstrap.cc:620 NCCL WARN Mismatched NCCL version detected : rank 8 version 22703 "
         "rank 0 version 22602")),
    *spellings("nccl-truncated", Kind.CAUSE, ("DC503",),
        (r"Message truncated ?: received (?P<got>\d+) bytes instead of (?P<wanted>\d+)",
         "gpu03:1201:1288 [0] bootstrap.cc:101 NCCL WARN Message truncated : received 256 bytes instead of 4"),
        (r"socketFinalizeAccept: wrong type (?P<got>\d+) != (?P<wanted>\d+)",
         "gpu03:1201:1288 [0] misc/socket.cc:588 NCCL WARN socketFinalizeAccept: wrong type 4 != 3")),
    *spellings("shm-attach", Kind.FAILURE, ("DC506",),
        (r"Error while attaching to shared memory segment (?P<segment>/dev/shm/nccl-\w{1,20})",
         "gpu03:1201:1288 [1] misc/shmutils.cc:160 NCCL WARN Error while attaching to shared memory segment "
         "/dev/shm/nccl-Hq3sXw (size 9637888)")),
)
# fmt: on
