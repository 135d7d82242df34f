"""What a host has too little of: memory, shared memory, descriptors, threads, disk, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

# fmt: off
ROWS: tuple[Signature, ...] = (
    # /dev/shm
    *spellings("shm-full", Kind.CAUSE, ("DC320",),
        (r"Call to posix_fallocate failed ?: (?P<why>No space left on device)",
         "node01:4711:4900 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device"),
        (r"failed to extend (?P<file>/dev/shm/\S{1,120}) to (?P<bytes>\d+) bytes",
         "node01:4711:4900 [3] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a1B2c3 to "
         "9637892 bytes"),
        (r"Error while creating shared memory segment (?P<file>/dev/shm/\S{1,120}) \(size (?P<bytes>\d+)\)"
         r"(?:, error: (?P<why>[\w ]{4,60}))?",
         "node01:4711:4900 [3] misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment "
         "/dev/shm/nccl-a1B2c3 (size 9637888)",
         "Error while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 33030528), error: No space left on "
         "device (28)"),
        (r"unable to allocate shared memory\(shm\) for file <(?P<file>[^>]{1,200})>(?:: (?P<why>[\w ]{4,60}))?",
         "RuntimeError: unable to allocate shared memory(shm) for file </torch_4711_2893014401_7>: No space left on "
         "device (28)"),
        (r"unable to mmap \d{1,20} bytes from file <(?P<file>/torch_[^>]{1,200})>(?:: (?P<why>[\w ]{4,60}))?",
         "RuntimeError: unable to mmap 1024 bytes from file </torch_4711_2893014401_7>: Cannot allocate memory (12)"),
        (r"unable to write to file <(?P<file>/torch_[^>]{1,200})>",
         "RuntimeError: unable to write to file </torch_4711_2893014401_7>"),
        (r"unable to open shared memory object <(?P<file>[^>]{1,200})> in read-write mode: (?P<why>No space left)",
         "RuntimeError: unable to open shared memory object </torch_4711_2893014401_7> in read-write mode: No space "
         "left on device (28)"),
        (r"Unexpected bus error encountered in worker\. This might be caused by insufficient shared memory",
         "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
         "(shm)."),
        (r"DataLoader (?:worker|process) \(pid(?:\(s\))? +(?P<pid>\d+)[\d, ]{0,80}\) (?:exited )?is killed by signal: "
         r"Bus error",
         "RuntimeError: DataLoader worker (pid 4811) is killed by signal: Bus error. It is possible that "
         "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.")),
    *spellings("shm-is-small", Kind.NOTICE, ("DC320",),
        (r"/dev/shm has only (?P<bytes>\d{1,20}) bytes available",
         "WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes "
         "available.")),
    *spellings("shm-manager", Kind.FAILURE, (),
        (r"Shared memory manager connection has timed out",
         "RuntimeError: Shared memory manager connection has timed out")),
    *spellings("bus-error", Kind.TABLE, ("DC320",),
        (r"(?:Signal 7 )?\(SIGBUS\)(?: received by PID (?P<pid>\d+))?",
         "  traceback : Signal 7 (SIGBUS) received by PID 4711",
         "  exitcode  : -7 (pid: 4711)  (SIGBUS)"),
        (r"(?:failed \(exitcode: |exits with return code = |crashed with exit code |exited with code )-7\b",
         "E1119 08:14:02.120331 4700 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: -7) "
         "local_rank: 2 (pid: 4713) of binary: /opt/conda/bin/python",
         "[2026-11-19 08:14:02,118] [ERROR] [launch.py:321:sigkill_handler] exits with return code = -7",
         "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7."),
        (r"died with <Signals\.SIGBUS: 7>|terminated with signal SIGBUS",
         "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGBUS")),
    *spellings("bus-error", Kind.FAILURE, ("DC320",),
        (r"Fatal Python error: Bus error", "Fatal Python error: Bus error"),
        # a shell
        (r"\bBus error +\(core dumped\)",
         "Bus error (core dumped)",
         "run.sh: line 12:  4711 Bus error               (core dumped) python train.py"),
        # UCX, Open MPI and MPICH
        (r"Caught signal 7 \(Bus error|Bus error: nonexistent physical address",
         "[node01:4711 :0:5704] Caught signal 7 (Bus error: nonexistent physical address)"),
        (r"Signal: Bus error \(7\)", "[node01:04711] Signal: Bus error (7)"),
        (r"EXIT STRING: Bus error \(signal 7\)", "APPLICATION TERMINATED WITH THE EXIT STRING: Bus error (signal 7)")),
    # descriptors
    *spellings("too-many-files", Kind.CAUSE, ("DC321",),
        (r"Too many open files",
         "OSError: [Errno 24] Too many open files: '/workspace/data/shard-00017.tar'",
         "node01:4711:4900 [1] misc/socket.cc:420 NCCL WARN socketTryAccept: Accept failed: Too many open files"),
        (r"received 0 items of ancdata", "RuntimeError: received 0 items of ancdata")),
    *spellings("shared-object-not-opened", Kind.FAILURE, ("DC321", "DC320"),
        (r"unable to open shared memory object <(?P<file>/torch_[^>]{1,200})> in read-write mode",
         "RuntimeError: unable to open shared memory object </torch_4711_2893014401_7> in read-write mode")),
    # locked memory
    *spellings("locked-memory", Kind.CAUSE, ("DC322",),
        (r"Call to ibv_(?P<call>reg_mr|reg_dmabuf_mr|create_cq|create_qp|create_srq|alloc_pd)\w{0,12} "
         r"failed(?: with error| with \d+)? (?P<why>Cannot allocate memory)",
         "node01:4711:4900 [3] misc/ibvwrap.cc:213 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
         "allocate memory",
         "node01:4711:4900 [3] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_create_cq failed with error Cannot "
         "allocate memory",
         "node01:4711:4900 [3] misc/ibvwrap.cc:131 NCCL WARN Call to ibv_create_qp failed with 12 Cannot allocate "
         "memory"),
        (r"\bibv_(?P<call>reg_mr|reg_dmabuf_mr|create_cq|create_qp|create_srq|alloc_pd)\w{0,12}(?:\([^()]{0,160}\))?"
         r"(?: failed)?: (?P<why>Cannot allocate memory)",
         "[1752012345.201] [node01:4711 :0] ib_md.c:349 UCX  ERROR ibv_reg_mr(address=0x7f12, length=8192, "
         "access=0xf) failed: Cannot allocate memory",
         "libfabric:4711:1710000000::verbs:ep_ctrl:vrb_ep_create_qp():912<warn> ibv_create_qp: Cannot allocate "
         "memory(12)"),
        (r"\bWARN Call to ibv_(?P<call>reg_mr|create_cq|create_qp|alloc_pd)\w{0,12} failed",
         "node01:4711:4900 [3] misc/ibvwrap.cc:98 NCCL WARN Call to ibv_create_cq failed",
         "node01:4711:4900 [3] misc/ibvwrap.cu:269 WARN Call to ibv_create_qp failed"),
        (r"NET/OFI Unable to register memory.{0,60}Error: (?P<why>Cannot allocate memory)",
         "node01:149:298 [5] register_mr_buffers:465 NCCL WARN NET/OFI Unable to register memory (type = 1) for "
         "device 0. RC: 12, Error: Cannot allocate memory"),
        (r"Please set max locked memory \(ulimit -l\) to .{0,24}\(current: (?P<current>[\w ]{1,24})\)",
         "[1752012345.201] [node01:4711 :0] ib_md.c:349 UCX  ERROR ibv_reg_mr(address=0x7f12, length=8192, "
         "access=0xf) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' "
         "(current: 64 kbytes)"),
        (r"failed to initialize while trying to allocate some locked memory",
         "The OpenFabrics (openib) BTL failed to initialize while trying to allocate some locked memory.")),
    *spellings("locked-memory-small", Kind.NOTICE, ("DC322",),
        (r"libibverbs: Warning: RLIMIT_MEMLOCK is (?P<bytes>\d+) bytes",
         "libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.")),
    # the host's memory
    *spellings("oom-killed", Kind.CAUSE, ("DC323",),
        (r"Detected (?P<count>\d+) oom[-_]kill event",
         "slurmstepd: error: Detected 1 oom_kill event in StepId=88123.0. Some of the step tasks have been OOM "
         "Killed.",
         "slurmstepd: error: Detected 2 oom-kill event(s) in step 88123.batch cgroup. Some of your processes may "
         "have been killed by the cgroup out-of-memory handler."),
        (r"srun: error: (?P<node>[\w.-]{1,80}): tasks? (?P<tasks>[\d,-]{1,80}): Out Of Memory",
         "srun: error: node03: task 3: Out Of Memory"),
        (r"exceeded (?:job |step )?memory limit(?: \((?P<used>\d+) > (?P<limit>\d+)\))?, being killed",
         "slurmstepd: error: Step 88123.0 exceeded memory limit (734003200 > 524288000), being killed"),
        (r"(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<name>[^)]{1,64})\)",
         "[812345.120331] Out of memory: Killed process 4711 (python) total-vm:182345612kB, anon-rss:120331212kB, "
         "file-rss:0kB, shmem-rss:1024kB, UID:1000 pgtables:261120kB oom_score_adj:0",
         "kernel: Memory cgroup out of memory: Killed process 4711 (python3) total-vm:91234560kB",
         "[812345.120331] Out of memory: Kill process 4711 (python) score 912 or sacrifice child"),
        (r"oom-kill:constraint=\w+.{0,400}task=(?P<name>[^,\s]{1,64}),pid=(?P<pid>\d+)",
         "[812345.120320] "
         "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker/4f,task_memcg=/docker/4f,task=python,pid=4711,uid=0"),
        (r"\w{1,15} invoked oom-killer: ",
         "[812345.120110] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
        (r"OOMKill(?:ed|ing)?\b",
         "    Reason:       OOMKilled",
         "pod train-worker-3 terminated: OOMKilled (exit code 137)",
         "Restart Reason: OOMKill (memory exceeded limit, SIGKILL)"),
        (r"killed due to (?:the node running low on memory|memory pressure \(OOM\))",
         "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
         "(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other "
         "reasons at node (ID: 4f12, IP: 10.0.0.5) over the last time period."),
        (r"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
         "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."),
        (r"DataLoader (?:worker|process) \(pid(?:\(s\))? +(?P<pid>\d+)[\d, ]{0,80}\) (?:exited )?is killed by signal: "
         r"Killed",
         "RuntimeError: DataLoader worker (pid 4811) is killed by signal: Killed.",
         "SystemError: (Fatal) DataLoader process (pid   4811) exited is killed by signal: Killed.")),
    *spellings("host-allocation", Kind.CAUSE, ("DC323",),
        (r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate (?P<bytes>\d+) bytes",
         "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
         "you tried to allocate 17179869184 bytes. Error code 12 (Cannot allocate memory)",
         "RuntimeError: [enforce fail at alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried "
         "to allocate 17179869184 bytes."),
        (r"MemoryError: Unable to allocate (?P<size>[\d.]+ [KMGTP]?i?B) for an array",
         "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 62.1 GiB for an array with shape "
         "(8335000000,) and data type float64",
         "MemoryError: Unable to allocate 62.1 GiB for an array with shape (8335000000,) and data type float64"),
        (r"Error: \[Errno 12\] (?P<why>Cannot allocate memory)", "OSError: [Errno 12] Cannot allocate memory")),
    *spellings("host-allocation", Kind.FAILURE, ("DC323",),
        (r"std::bad_alloc", "terminate called after throwing an instance of 'std::bad_alloc'")),
    *spellings("sigkilled", Kind.TABLE, ("DC323",),
        (r"Signal 9 \(SIGKILL\) received by PID (?P<pid>\d+)",
         "  traceback : Signal 9 (SIGKILL) received by PID 4713"),
        (r"failed \(exitcode: -9\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)",
         "E1119 08:14:02.120331 4700 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: -9) "
         "local_rank: 2 (pid: 4713) of binary: /opt/conda/bin/python"),
        (r"process (?P<index>\d+) terminated with signal SIGKILL",
         "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL"),
        (r"died with <Signals\.SIGKILL: 9>",
         "subprocess.CalledProcessError: Command '['/opt/conda/bin/python', '-u', 'train.py']' died with "
         "<Signals.SIGKILL: 9>."),
        (r"exits with return code = -9\b",
         "[2026-11-19 08:14:02,118] [ERROR] [launch.py:321:sigkill_handler] exits with return code = -9"),
        (r"process rank (?P<mpi_rank>\d+) with PID (?P<pid>\d+) on node (?P<node>[\w.-]{1,80}) exited on signal 9",
         "mpirun noticed that process rank 3 with PID 4713 on node node01 exited on signal 9 (Killed)."),
        (r": line \d+: {1,9}(?P<pid>\d+) Killed {2,}",
         "/workspace/run.sh: line 14:  4711 Killed                  python train.py"),
        (r"(?i)exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)(?::| =)? {0,9}137\b",
         "command terminated with exit code 137",
         "    Exit Code:    137",
         "exitcode: 137"),
        (r"srun: error: (?P<node>[\w.-]{1,80}): tasks? (?P<tasks>[\d,-]{1,80}): Killed",
         "srun: error: node03: task 3: Killed")),
    *spellings("forced-kill", Kind.SIGNAL, (),
        (r"Unable to shutdown process (?P<pid>\d+) via .{0,24}, forcefully exit",
         "W1119 08:14:32.120331 4700 torch/distributed/elastic/multiprocessing/api.py:900] Unable to shutdown "
         "process 4712 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL")),
    # processes and threads
    *spellings("thread-limit", Kind.CAUSE, ("DC324",),
        (r"pthread_create failed(?: for thread (?P<thread>\d+) of (?P<threads>\d+))?: Resource temporarily unavailable",
         "OpenBLAS blas_thread_init: pthread_create failed for thread 34 of 64: Resource temporarily unavailable",
         "RuntimeError: pthread_create failed: Resource temporarily unavailable"),
        (r"can't start new thread", "RuntimeError: can't start new thread"),
        (r"fork: (?:retry: )?(?:Resource temporarily unavailable|No child processes)",
         "/bin/bash: fork: retry: Resource temporarily unavailable",
         "-bash: fork: Resource temporarily unavailable"),
        (r"BlockingIOError: \[Errno 11\] Resource temporarily unavailable",
         "BlockingIOError: [Errno 11] Resource temporarily unavailable"),
        (r"libgomp: Thread creation failed: Resource temporarily unavailable",
         "libgomp: Thread creation failed: Resource temporarily unavailable"),
        (r"what\(\):  Resource temporarily unavailable", "  what():  Resource temporarily unavailable"),
        (r"OMP: Error #\d+: System unable to allocate necessary resources for OMP thread",
         "OMP: Error #34: System unable to allocate necessary resources for OMP thread:")),
    # processors
    *spellings("many-workers", Kind.NOTICE, ("DC325",),
        (r"This DataLoader will create (?P<workers>\d+) worker processes in total\. Our suggested max number of worker "
         r"in current system is (?P<most>\d+)",
         "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker "
         "in current system is 2, which is smaller than what this DataLoader is going to create.")),
    # disks
    *spellings("disk-full", Kind.CAUSE, ("DC327", "DC320"),
        (r"No space left on device(?:: '(?P<file>[^']{1,300})')?",
         "OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_800.pt'")),
    *spellings("disk-full", Kind.CAUSE, ("DC327",),
        (r"(?P<quota>Disk quota exceeded)(?:: '(?P<file>[^']{1,300})')?",
         "OSError: [Errno 122] Disk quota exceeded: '/home/trainer/ckpt/step_800.pt'")),
    *spellings("write-failed", Kind.FAILURE, ("DC327",),
        (r"inline_container\.cc:\d+\] \. unexpected pos (?P<at>\d+) vs (?P<expected>\d+)",
         "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 7372817344 vs 7372817236",
         "RuntimeError: [enforce fail at inline_container.cc:337] . unexpected pos 640 vs 534"),
        (r"PytorchStreamWriter failed writing file (?P<member>\S{1,120}): file write failed",
         "RuntimeError: [enforce fail at inline_container.cc:778] . PytorchStreamWriter failed writing file "
         "data/213: file write failed")),
    *spellings("stale-handle", Kind.NOTICE, ("DC327",),
        (r"\[Errno 116\] Stale file handle(?:: '(?P<file>[^']{1,300})')?",
         "OSError: [Errno 116] Stale file handle: '/home/trainer/.triton/cache/5PHVWX/cuda_utils.so'",
         "OSError: [Errno 116] Stale file handle"),
        (r"\[Errno 16\] Device or resource busy: '(?P<file>[^']{1,300})'",
         "OSError: [Errno 16] Device or resource busy: '/home/trainer/.triton/cache/5PHVWX/cuda_utils.so'"),
        (r"\[Errno (?:37|77)\] No locks available(?:: '(?P<file>[^']{1,300})')?",
         "OSError: [Errno 37] No locks available: '/home/trainer/.cache/torchinductor/locks/c4.lock'")),
    *spellings("socket-path", Kind.CAUSE, ("DC327",),
        (r"AF_UNIX path too long", "OSError: AF_UNIX path too long")),
    *spellings("shm-refused", Kind.CAUSE, ("DC327",),
        (r"Call to shm_open failed ?: Permission denied",
         "node01:4711:4900 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied"),
        (r"unable to open shared memory object <[^>]{1,200}> in read-write mode: Permission denied",
         "RuntimeError: unable to open shared memory object </torch_4711_2893014401_7> in read-write mode: Permission "
         "denied (13)")),
    *spellings("no-scratch", Kind.CAUSE, ("DC327",),
        (r"No usable temporary directory found in",
         "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/workspace']")),
)
# fmt: on
