"""Ranks that wait, that do not come, that differ, that lost another: as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

_PREFIX = r"(?:\[(?:PG (?P<group>[^\]]{1,80}) )?Rank (?P<rank>\d+)\] ?)?"

# torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 1.9 to 2.13
# fmt: off
_WATCHDOG = (
    *spellings("watchdog-timeout", Kind.TIMEOUT, ("DC511", "DC517", "DC519", "DC701", "DC726"),
        (_PREFIX + r"(?:NCCL watchdog thread terminated with exception: )?"
         r"[Ww]atchdog caught collective operation timeout: "
         r"Work(?:NCCL|HCCL|XCCL|MCCL)?\((?:SeqNum=(?P<sequence>\d+), )?"
         r"OpType=(?P<operation>\w+)(?P<covered>\[\d{1,9}/\d{1,9}\])?(?:, TensorShape=\[(?P<shape>[^\]]{0,80})\])?"
         r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?"
         r"(?:, Timeout\(ms\)=(?P<timeout_ms>\d+)\))?(?: ran for (?P<ran_ms>\d+) milliseconds)?",
         "[rank3]:[E1122 07:43:25.123456789 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation "
         "timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 "
         "milliseconds before timing out.",
         "[E ProcessGroupNCCL.cpp:587] [Rank 1] Watchdog caught collective operation timeout: "
         "WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1807645 milliseconds before timing out.",
         "[E ProcessGroupNCCL.cpp:737] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, "
         "OpType=BROADCAST, TensorShape=[512, 8], Timeout(ms)=1800000) ran for 1803170 milliseconds before timing "
         "out.")),
    *spellings("watchdog-timeout", Kind.TIMEOUT, ("DC511", "DC517", "DC519", "DC701", "DC726"),
        (_PREFIX + r"Work Work(?:NCCL|HCCL|XCCL|MCCL)\((?:SeqNum=(?P<sequence>\d+), )?OpType=(?P<operation>\w+)"
         r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?"
         r"(?:, Timeout\(ms\)=(?P<timeout_ms>\d+))?\) timed out in blocking wait",
         "[rank1]:[E1122 07:43:25.123456789 ProcessGroupNCCL.cpp:756] [Rank 1] Work WorkNCCL(SeqNum=5, "
         "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) timed out in blocking wait.")),
    #: without what it waited for, as titles are cut
    *spellings("watchdog-timeout", Kind.TIMEOUT, ("DC511", "DC701"),
        (_PREFIX + r"[Ww]atchdog caught collective operation timeout",
         "NCCL watchdog thread terminated with exception: [Rank 7] Watchdog caught collective operation timeout")),
    *spellings("watchdog-place", Kind.TIMEOUT, (),
        (_PREFIX + r"(?:Exception \(either an error or timeout\) detected by watchdog at work|Timeout at NCCL work)"
         r": (?P<sequence>\d+), last enqueued NCCL work: (?P<enqueued>-?\d+), "
         r"last completed NCCL work: (?P<completed>-?\d+)",
         "[rank1]:[E1122 07:43:25.833575187 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank 1] Exception (either "
         "an error or timeout) detected by watchdog at work: 63, last enqueued NCCL work: 63, last completed NCCL "
         "work: 62.",
         "[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1, "
         "last completed NCCL work: 76280750235782912."),
        (_PREFIX + r"failure detected by watchdog at work sequence id: (?P<sequence>\d+) PG status: "
         r"last enqueued work: (?P<enqueued>-?\d+), last completed work: (?P<completed>-?\d+)",
         "[rank1]:[E1122 07:43:25.833575187 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank 1]  "
         "failure detected by watchdog at work sequence id: 22 PG status: last enqueued work: 22, last completed "
         "work: 21")),
    *spellings("watchdog-dump", Kind.TIMEOUT, (),
        (_PREFIX + r"Received a (?:dump signal|global timeout)(?: due to a collective timeout)?"
         r"(?: from +(?:rank (?P<from>\d+)|this local rank|another rank))?[^.]{0,120}\.? "
         r"Last enqueued NCCL work: (?P<enqueued>-?\d+), last completed NCCL work: (?P<completed>-?\d+)",
         "[rank2]:[E1122 07:43:26.019283746 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank 2] "
         "Received a dump signal due to a collective timeout from rank 1 and we will try our best to dump the debug "
         "info. Last enqueued NCCL work: 61, last completed NCCL work: 61.This is most likely caused by incorrect "
         "usages of collectives.",
         "[rank2]:[E1122 07:43:26.019283746 ProcessGroupNCCL.cpp:1316] [PG 0 (default_pg) Rank 2] Received a global "
         "timeout from another rank and will start to dump the debug info. Last enqueued NCCL work: 61, last "
         "completed NCCL work: 61.")),
    *spellings("watchdog-end", Kind.TIMEOUT, (),
        (r"timed out after waiting for \d+ms flight recorder dumps to finish",
         "[rank3]:[W1122 07:43:26.489301002 ProcessGroupNCCL.cpp:2111] [PG ID 1 PG GUID 1 Rank 3] timed out after "
         "waiting for 60000ms flight recorder dumps to finish."),
        (r"Some NCCL operations have failed or timed out|To avoid (?:this inconsistency|data inconsistency), we are "
         r"taking the entire process down",
         "[rank2]:[E1122 07:43:26.019283746 ProcessGroupNCCL.cpp:621] [Rank 2] Some NCCL operations have failed or "
         "timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
         "corrupted/incomplete data.",
         "[E ProcessGroupNCCL.cpp:583] [Rank 7] To avoid data inconsistency, we are taking the entire process down."),
        (r"NCCL communicator was aborted on rank (?P<rank>\d+)",
         "RuntimeError: NCCL communicator was aborted on rank 0. Original reason for failure was: [Rank 0] Watchdog "
         "caught collective operation timeout")),
    *spellings("heartbeat-timeout", Kind.TIMEOUT, ("DC511",),
        (_PREFIX + r"(?:ProcessGroupNCCL's watchdog got stuck for (?P<seconds>\d+) ?(?:seconds|ms)"
         r"|Heartbeat monitor timed out!)",
         "[rank0]:[F1122 08:11:02.331245678 ProcessGroupNCCL.cpp:1553] [PG ID 0 PG GUID 0(default_pg) Rank 0] "
         "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
         "collectives.",
         "[E ProcessGroupNCCL.cpp:1161] [PG 0 Rank 3] Heartbeat monitor timed out! Process will be terminated after "
         "dumping debug info. workMetaList_.size()=1")),
    *spellings("desync-behind", Kind.CAUSE, ("DC701", "DC511"),
        (r"\[(?P<ranks>\d[\d, ]{0,200})\] finished collective #(?P<finished>\d+), but didn't join collective "
         r"#(?P<sequence>\d+)",
         "\t   - [2, 5] finished collective #411, but didn't join collective #412 (count from 1)")),
    *spellings("desync-waiting", Kind.TIMEOUT, (),
        (r"\[(?P<ranks>\d[\d, ]{0,200})\] joined but didn't finish collective #(?P<sequence>\d+)",
         "\t   - [0] joined but didn't finish collective #412 (count from 1)")),
)

_OTHER_WAITS = (
    *spellings("gloo-timeout", Kind.TIMEOUT, ("DC511", "DC701"),
        (r"Timed out waiting (?P<timeout_ms>\d+)ms for (?P<operation>recv|send) operation to complete",
         "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for "
         "recv operation to complete")),
    *spellings("gloo-timeout", Kind.TIMEOUT, ("DC511",),
        (r"Application timeout caused pair closure",
         "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:133] Application timeout caused "
         "pair closure")),
    # HCCL, the collectives of Ascend NPUs
    *spellings("hccl-timeout", Kind.TIMEOUT, ("DC511",),
        (r"EI0002: .{0,80}The wait execution of the Notify register times out"
         r"(?:.{0,80}from remote rank:? ?\[(?P<peer>\w{1,10})\])?(?:.{0,120}tag ?\[(?P<operation>[A-Za-z]{3,20}))?",
         "EI0002: [PID: 2969] 2025-10-11-15:09:34.713.335 The wait execution of the Notify register times out. Reason: "
         "The Notify register has not received the Notify record from remote rank: [24]. base information: "
         "[streamID:[109], taskID[38], taskType[Notify Wait], tag[AllReduce_group_name_1], AlgType(level "
         "0-1-2):[ring-NHR-NHR].]"),
        (r"EI0006: .{0,80}(?P<connecting>Getting socket times out)",
         "EI0006: [PID: 2969] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not send "
         "the data in time. Please check the reason for the rank being stuck"),
        (r"Communication_Error_Get_Socket\((?P<connecting>EI0006)\)", "Communication_Error_Get_Socket(EI0006)")),
    *spellings("npu-call-failed", Kind.FAILURE, ("DC511",),
        (r"RankID: ?(?P<rank>\d{1,6})\) ERR\d{5} (?:PTA|OPS|DIST) call \w{3,8} api failed",
         "[ERROR] 2025-04-08-18:07:20 (PID:4711, Device:1, RankID:1) ERR01100 OPS call acl api failed.")),
    *spellings("monitored-barrier", Kind.TIMEOUT, ("DC511",),
        (r"\[Rank (?P<rank>\d+)\]: Ranks? (?P<missing>\d[\d, ]{0,400}) failed to pass monitoredBarrier in "
         r"(?P<timeout_ms>\d+) ms",
         "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms",
         "RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 4000 ms")),
    *spellings("monitored-barrier-peer", Kind.LOST, (),
        (r"Rank (?P<rank>\d+) successfully reached monitoredBarrier, but received errors while waiting for send/recv "
         r"from rank (?P<peer>\d+)",
         "RuntimeError: Rank 2 successfully reached monitoredBarrier, but received errors while waiting for "
         "send/recv from rank 0. Please check rank 0 logs for faulty rank.")),
)
# fmt: on

# torch's store: who did not come to the rendezvous
# fmt: off
_STORE = (
    *spellings("store-key-missing", Kind.TIMEOUT, ("DC501",),
        (r"wait timeout after (?P<timeout_ms>\d+)ms, keys: "
         r"(?:/[\w.-]{1,60}){0,4}/{1,2}(?:cpu|cuda)//\d+/(?P<missing>\d+)\b",
         "torch.distributed.DistStoreError: wait timeout after 8000ms, keys: /default_pg/0//cpu//0/3"),
        (r"(?:wait|barrier) timeout after (?P<timeout_ms>\d+)ms, keys?: (?P<key>\S{1,120})",
         "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
         "torch.distributed.DistStoreError: barrier timeout after 300000ms, key: torchelastic/barrier")),
    *spellings("native-crash", Kind.FAILURE, (),
        (r"Segmentation fault \(core dumped\)", "Segmentation fault (core dumped)"),
        (r"Fatal Python error: (?:Segmentation fault|Aborted)",
         "Fatal Python error: Segmentation fault",
         "Fatal Python error: Aborted"),
        (r"Unexpected segmentation fault encountered in worker",
         "ERROR: Unexpected segmentation fault encountered in worker."),
        (r"DataLoader (?:worker|process) \(pid(?:\(s\))? +(?P<pid>\d+)[\d, ]{0,80}\) (?:exited )?is killed by signal: "
         r"(?:Aborted|Segmentation)",
         "RuntimeError: DataLoader worker (pid 4811) is killed by signal: Segmentation fault."),
        (r"double free or corruption|(?:free|realloc|munmap_chunk)\(\): invalid (?:pointer|size|next size)"
         r"|malloc\(\): (?:corrupted|memory corruption|invalid)",
         "double free or corruption (!prev)",
         "free(): invalid pointer")),
    #: its own error stands before it, or a signal ended it
    *spellings("loader-worker-exited", Kind.FAILURE, (),
        (r"DataLoader worker \(pid\(s\) [\d, ]{1,80}\) exited unexpectedly",
         "RuntimeError: DataLoader worker (pid(s) 4811, 4812) exited unexpectedly")),
    *spellings("store-timeout", Kind.TIMEOUT, (),
        (r"(?:RuntimeError|DistStoreError|TimeoutError): Socket Timeout", "RuntimeError: Socket Timeout"),
        (r"Rank \d+ timed out in monitoredBarrier after \d+ ms",
         "RuntimeError: Rank 0 timed out in monitoredBarrier after 4000 ms."),
        (r"While waitForInput, poolFD failed with \(errno: \d+",
         "[rank5]:[W socket.cpp:432] [c10d] While waitForInput, poolFD failed with (errno: 0 - Success).")),
    *spellings("store-wait-ended", Kind.NOTICE, ("DC726",),
        (r"waitForInput: socket SocketImpl\(fd=\d+, addr=.{1,250}\) timed out after (?P<timeout_ms>\d+)ms",
         "[rank1]:[W1122 14:34:56.854597329 socket.cpp:489] [c10d] waitForInput: socket SocketImpl(fd=79, "
         "addr=[node01]:41170, remote=[node01]:29500) timed out after 1800000ms")),
    *spellings("clients-missing", Kind.TIMEOUT, ("DC501",),
        (r"Timed out after (?P<seconds>\d+) seconds waiting for (?:clients\. |workers\. |workers to arrive\.? ?)"
         r"(?P<joined>\d+)/(?P<expected>\d+) (?:clients|workers) joined",
         "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined."),
        #: shortened in a title
        (r"DistStoreError: (?P<joined>\d+)/(?P<expected>\d+) (?:clients|workers) joined",
         "torch.distributed.DistStoreError: 1/2 clients joined")),
    *spellings("store-barrier-timeout", Kind.TIMEOUT, ("DC501", "DC502"),
        (r"Timed out initializing process group in store based barrier on rank(?:: |\s)(?P<rank>\d+),? for key: "
         r"store_based_barrier_key:\d+ \(world_size=(?P<expected>\d+), "
         r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)",
         "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
         "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
         "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 0, "
         "for key: store_based_barrier_key:1 (world_size=2, num_workers_joined=1, timeout=0:30:00 error=Timeout)")),
    *spellings("store-barrier-waiting", Kind.RECORD, ("DC501", "DC502"),
        (r"Waiting in store based barrier to initialize process group for (?:rank: |\d+ seconds, rank: "
         r")?(?P<rank>\d+)?,? ?"
         r"(?:key: store_based_barrier_key:\d+ )?\(world_size=(?P<expected>\d+), "
         r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)",
         "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for "
         "rank: 0, key: store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)")),
    *spellings("rendezvous-timeout", Kind.TIMEOUT, ("DC501",),
        (r"Rendezvous(?:Timeout|Closed)Error",
         "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
         '    "message": "RendezvousTimeoutError: ",',
         "torch.distributed.elastic.rendezvous.api.RendezvousClosedError")),
    *spellings("unique-id-timeout", Kind.TIMEOUT, ("DC511",),
        (r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retr(?:ie|ei)ving ncclUniqueId from \[(?P<peer>\d+)\] "
         r"via c10d "
         r"key-value store by key '[^']{0,60}', but store->get\('[^']{0,60}'\) got error: "
         r"(?:Socket Timeout|Timeout|timeout|wait timeout)",
         "RuntimeError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
         "store by key '0', but store->get('0') got error: Socket Timeout",
         "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from "
         "[0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, "
         "keys: /default_pg/0//cuda//0")),
    *spellings("ranks-not-loaded", Kind.TIMEOUT, (),
        (r"could finish the model loading, but there are other ranks that didn't finish loading",
         "ValueError: TP rank 0 could finish the model loading, but there are other ranks that didn't finish loading. "
         "It is likely due to unexpected failures (e.g., OOM) or a slow node.")),
    *spellings("rank-doubled", Kind.CAUSE, ("DC502",),
        (r"[Bb]ootstrap[ \w]{0,12}: rank (?P<doubled>\d+) of (?P<world_size>\d+) ranks has already checked in",
         "node01:4711:4802 [0] bootstrap.cc:341 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in")),
)
# fmt: on

# ranks that call different things, or hold different models
# fmt: off
_MISMATCH = (
    *spellings("collective-mismatch", Kind.CAUSE, ("DC517",),
        (r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running "
         r"(?:inconsistent )?collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<sequence>\d+), ?)?"
         r"OpType=(?P<operation>\w+)(?:, TensorShape=(?P<shape>\[[^\]]{0,80}\]))?",
         "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
         "CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[5], TensorDtypes=Float, "
         "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)), but Rank 0 is running collective: "
         "CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4], "
         'TensorDtypes=Float).Collectives differ in the following aspects: \t Tensor Tensor shapes: 5vs 4',
         "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
         "CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[4]).",
         "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running inconsistent collective: "
         "CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[34112], TensorDtypes=Float).")),
    *spellings("collective-mismatch-with", Kind.CAUSE, ("DC517",),
        (r"but Rank (?P<rank>\d+) is running (?:inconsistent )?collective: CollectiveFingerPrint\("
         r"(?:SequenceNumber=(?P<sequence>\d+), ?)?OpType=(?P<operation>\w+)"
         r"(?:, TensorShape=(?P<shape>\[[^\]]{0,80}\]))?",
         "but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=BROADCAST, "
         "TensorShape=[4], TensorDtypes=Float)")),
    *spellings("gloo-size-mismatch", Kind.CAUSE, ("DC517",),
        (r"op\.preamble\.length <= op\.nbytes\. (?P<sent>\d+) vs (?P<expected>\d+)",
         "  what():  [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= "
         "op.nbytes. 8 vs 4. Received data size doesn't match expected size.")),
    *spellings("list-out-of-step", Kind.CAUSE, ("DC517", "DC519"),
        (r"all_gather_list requires all workers to enter the function together",
         "Exception: Unable to unpickle data from other workers. all_gather_list requires all workers to enter the "
         "function together, so this error usually indicates that the workers have fallen out of sync somehow.")),
    *spellings("nccl-mismatch", Kind.CAUSE, ("DC517",),
        (r"(?i)mismatched collective detected|collective mismatch error"
         r"|message truncated : receiving (?P<sent>\d+) bytes instead of (?P<expected>\d+)",
         "node01:4711:4802 [0] NCCL WARN Mismatched collective detected, please check your collective calls at and "
         "around rank 1.",
         "node01:4711:4802 [0] transport/net_socket.cc:519 NCCL WARN NET/Socket : peer 10.0.0.5<40112> message "
         "truncated : receiving 65536 bytes instead of 4096.")),
    *spellings("ddp-model-differs", Kind.CAUSE, ("DC709", "DC507"),
        (r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<own>\d+) params, while rank "
         r"(?P<other>\d+) has inconsistent (?P<others>-?\d+) params",
         "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 has "
         "inconsistent 2 params.")),
    *spellings("ddp-param-differs", Kind.CAUSE, ("DC709", "DC507"),
        (r"params\[(?P<index>\d+)\] in this process with (?P<what>sizes|strides) (?P<own>\[[^\]]{0,80}\]) appears "
         r"not to "
         r"match (?:sizes|strides) of the same param in process (?P<other>\d+)",
         "RuntimeError: [1]: params[0] in this process with sizes [20, 10] appears not to match sizes of the same "
         "param in process 0.")),
    *spellings("uneven-inputs", Kind.CAUSE, ("DC519",),
        (r"Detected at least one rank that exhausted inputs\. Throwing across all ranks",
         "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.")),
)
# fmt: on

# NCCL's classes of results: they show that it failed, and rarely why
# fmt: off
_CLASSES = (
    *spellings("nccl-error", Kind.FAILURE, ("DC512",),
        (r"nccl(?P<class>UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidArgument): ",
         "ncclUnhandledCudaError: Call to CUDA function failed.",
         "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. ",
         "ncclInternalError: Internal check failed.",
         "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."),
        (r"NCCL error in: ?\S{1,200}?:\d+, (?P<words>unhandled cuda error|unhandled system error|internal error"
         r"|invalid usage|invalid argument)(?:[^,]{0,80})?(?:, NCCL version (?P<version>[\d.]+))?",
         "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1331, unhandled cuda "
         "error, NCCL version 2.14.3",
         "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, "
         "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
         "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, "
         "internal error - please report this issue to the NCCL developers, NCCL version 2.20.5"),
        (r"NCCL [Ee]rror(?: \d+:)? (?P<words>unhandled cuda error|unhandled system error|internal error|invalid usage)",
         "RuntimeError: NCCL Error 1: unhandled cuda error",
         "Runtime error: NCCL Error unhandled system error bench.cu:43",
         "RuntimeError: NCCL Error 5: invalid usage"),
        (r"(?:NCCL error: ?|Test NCCL failure \S{1,80}:\d+ ')(?P<words>unhandled cuda error|unhandled system error"
         r"|internal error|invalid usage|invalid argument)",
         "Collective WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) raised the "
         "following async exception: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL "
         "version 2.25.1",
         "node01: Test NCCL failure common.cu:958 'internal error - please report this issue to the NCCL developers "
         "/ '"),
        (r"Proxy Call to rank \d+ failed \(\w{1,40}\)",
         "node01:4711:4802 [0] proxy.cc:1119 NCCL WARN Proxy Call to rank 0 failed (Connect)",
         "Last error: Proxy Call to rank 0 failed (Connect)"),
        (r"NCCL WARN \[Proxy Service \d+\] Failed to execute operation \w+ from rank \d+, retcode [1-5]\b",
         "node01:4711:4802 [0] proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute operation Connect from "
         "rank 0, retcode 2")),
    #: NCCL's own words, which its class of result lacks
    *spellings("nccl-warn", Kind.NOTICE, ("DC512",),
        (r"NCCL WARN (?P<said>[^\r\n]{8,200})",
         "node01:4711:4802 [0] misc/socket.cc:28 NCCL WARN Net : Call to bind failed : Cannot assign requested "
         "address")),
    *spellings("nccl-last-error", Kind.RECORD, (),
        (r"Last error:", "Last error:", "Last error: Cuda failure 'out of memory'")),
    *spellings("invalid-scalar-type", Kind.FAILURE, ("DC512",),
        (r"RuntimeError: Invalid scalar type|FP8 reduction support begins with sm90",
         "RuntimeError: Invalid scalar type")),
)
# fmt: on

# another process has exited
# fmt: off
_LOST = (
    *spellings("peer-lost", Kind.LOST, ("DC518",),
        (r"Connection (?:reset|closed|refused) by (?:remote )?peer ?\[(?P<host>[^\]]{1,64})\]:(?P<port>\d+)",
         "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
         "[10.0.0.5]:40112"),
        (r"(?:Read|Write) error \[(?P<host>[^\]]{1,64})\]:(?P<port>\d+): (?:Connection reset by peer|Broken pipe)",
         "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.5]:40112: "
         "Connection reset by peer"),
        (r"(?:writev|readv) \[(?P<host>[^\]]{1,64})\]:(?P<port>\d+): (?:Connection reset by peer|Broken pipe)",
         "RuntimeError: [gloo/transport/tcp/pair.cc:398] writev [10.0.0.5]:40112: Connection reset by peer"),
        (r"(?:recvValue|recvVector|recvBytes|sendBytes) failed on SocketImpl\(fd=-?\d+, addr=\[[^\]]{0,80}\]:\d+, "
         r"remote=\[(?P<host>[^\]]{1,80})\]:(?P<port>\d+)\)",
         "[W1122 07:44:02.118273645 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=68, "
         "addr=[node02]:41612, remote=[node01]:29500): failed to recv, got 0 bytes"),
        (r"(?:Connection closed by remote peer|Connection reset by peer|remote process exited or there was a network "
         r"error)[ ,:]{1,3}(?P<host>[\w.-]{1,64})<(?P<port>\d+)>",
         "node02:4711:4802 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer "
         "node01<45678>"),
        (r"Call to recv from (?P<host>[^\s<]{1,64})<(?P<port>\d+)> failed : (?:Connection reset by peer|Broken pipe)",
         "node02:4711:4802 [0] misc/socket.cc:49 NCCL WARN Call to recv from 10.0.0.4<45678> failed : Broken pipe")),
    *spellings("connection-lost", Kind.LOST, ("DC518",),
        (r"(?i)connection (?:reset|closed) by (?:remote )?peer",
         "RuntimeError: Connection reset by peer",
         "ConnectionResetError: [Errno 104] Connection reset by peer"),
        (r"NCCL WARN Socket recv failed while polling for opId=",
         "node02:4711:4802 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x55a51966cc80"),
        (r"[Bb]roken pipe", "RuntimeError: Broken pipe", "BrokenPipeError: [Errno 32] Broken pipe"),
        (r"Horovod has been shut down|caused by an exception on one of the ranks or an attempt to allreduce",
         "RuntimeError: Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt "
         "to allreduce, allgather or broadcast a tensor after one of the ranks finished execution.")),
    #: threads of gloo or of a loader that run while the process exits
    *spellings("ended-with-threads", Kind.FAILURE, ("DC702",),
        (r"terminate called without an active exception", "terminate called without an active exception")),
    *spellings("store-lost", Kind.LOST, ("DC518",),
        (r"(?i)failed to recv, got 0 bytes",
         "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the "
         "remote server shutdown or crash?"),
        (r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retr(?:ie|ei)ving ncclUniqueId from \[(?P<peer>\d+)\] "
         r"via c10d "
         r"key-value store by key '[^']{0,60}', but store->get\('[^']{0,60}'\) got error: "
         r"(?:Connection|Broken|Failed|failed)",
         "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from "
         "[0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer")),
    *spellings("nccl-remote-error", Kind.LOST, ("DC518",),
        (r"ncclRemoteError|remote process exited or there was a network error|NCCL [Ee]rror 6: "
         r"|\[Proxy Service \d+\] Failed to execute operation \w+ from rank \d+, retcode 6\b",
         "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
         "[E ProcessGroupNCCL.cpp:475] [Rank 1] NCCL watchdog thread terminated with exception: NCCL error: remote "
         "process exited or there was a network error, NCCL version 2.17.1")),
    *spellings("worker-lost", Kind.LOST, ("DC518",),
        (r"(?:worker died or was killed while executing a task|The actor died unexpectedly before finishing this task"
         r"|The actor is dead because its worker process has died)",
         "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
         "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."),
        (r"Worker IP address: (?P<ip>[\w.:]{1,45}) Worker port: \d{1,5} Worker PID: (?P<pid>\d{1,10}) Worker exit "
         r"type: SYSTEM_ERROR",
         "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP "
         "address: 10.0.0.5 Worker port: 10046 Worker PID: 4711 Worker exit type: SYSTEM_ERROR"),
        #: verl names an actor after its placement group and its number in it: in the first group, that is its rank
        (r"\bname: \w{0,60}WorkerDict_0:(?P<peer>\d{1,4})\b",
         "        name: gxgUtgWorkerDict_0:3"),
        (r"(?:Trainer|Controller) pid=\d{1,10}(?:, ip=[\w.:]{1,45})?\) Worker (?P<peer>\d{1,6}) has failed\.",
         "(TorchTrainer pid=4700) Worker 3 has failed.")),
    *spellings("rendezvous-left", Kind.LOST, ("DC518",),
        (r"has failed to (?:shutdown|close|send a keep-alive heartbeat to) the rendezvous",
         "The node 'node02_3001_0' has failed to shutdown the rendezvous '88123' due to an error of type "
         "RendezvousConnectionError.")),
)
# fmt: on

ROWS: tuple[Signature, ...] = (*_WATCHDOG, *_OTHER_WAITS, *_STORE, *_MISMATCH, *_CLASSES, *_LOST)
