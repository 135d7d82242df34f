"""Launchers, schedulers and signals, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

# The failure report of torchrun (torch/distributed/elastic/multiprocessing/errors/__init__.py), the heads and rows
# of it
# that are distinguished from other text. What stands between them is read by logs/torchrun_report.py.
# fmt: off
_REPORT = (
    *spellings("elastic-report", Kind.TABLE, (),
        (r"(?:elastic\.multiprocessing\.errors\.(?:\w{1,20}\.)?)?ChildFailedError:",
         "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
        (r"Root Cause(?: \(first observed failure\))?:",
         "Root Cause (first observed failure):",
         "[rank0]: Root Cause:"),
        (r"rank {0,8}: \d+ \(local_rank: \d+\)", "  rank      : 3 (local_rank: 3)", "  rank: 3 (local_rank: 3)"),
        (r"exitcode {0,4}: -?\d+ \(pid: \d+\)",
         "  exitcode  : -11 (pid: 7566)  (SIGSEGV)",
         "  exitcode: 1 (pid: 4711)"),
        (r"error_file {0,4}: <N/A>", "  error_file: <N/A>"),
        (r"To enable traceback see: https://pytorch\.org",
         "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"),
        (r"Signal \d+ \(SIG\w+\) received by PID \d+", "  traceback : Signal 9 (SIGKILL) received by PID 4711")),
    *spellings("signalled", Kind.TABLE, (),
        (r"Signal (?P<number>\d+) \(SIG\w+\) received by PID (?P<pid>\d+)",
         "  traceback : Signal 11 (SIGSEGV) received by PID 4711")),
)
# fmt: on

# One line for one worker: logs/torchrun_report.py makes a row of the table of each.
# fmt: off
_WORKERS = (
    *spellings("worker-ended", Kind.TABLE, (),
        (r"failed \(exitcode: (?P<exitcode>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)",
         "E1122 07:56:31.183000 7560 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
         "local_rank: 2 (pid: 4711) of binary: /opt/conda/bin/python",
         "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 4711) of "
         "binary: /usr/bin/python3"),
        (r"Child process (?P<pid>\d+) \(local_rank (?P<local_rank>\d+)\) FAILED \(exitcode (?P<exitcode>-?\d+)\)",
         "Child process 4711 (local_rank 1) FAILED (exitcode 1)"),
        (r"[Pp]rocess (?P<local_rank>\d+) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<exitcode>\d+))",
         "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
         "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 1",
         "Exception: process 3 terminated with signal SIGSEGV"),
        (r"ProcessRaisedException:", "torch.multiprocessing.spawn.ProcessRaisedException: "),
        (r"-- Process (?P<local_rank>\d+) terminated with the following error:",
         "-- Process 1 terminated with the following error:"),
        (r"exits with return code = (?P<exitcode>-?\d+)",
         "[2026-11-22 07:58:01,093] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', "
         "'--local_rank=3', '--deepspeed', 'ds.json'] exits with return code = -9"),
        (r"srun: error: (?P<host>[\w.-]{1,64}): task (?P<task>\d+): (?:Exited with exit code (?P<exitcode>\d+)"
         r"|(?P<how>Killed|Terminated|Segmentation fault|Aborted|Bus error|Out Of Memory|Hangup))",
         "srun: error: node02: task 5: Exited with exit code 1",
         "srun: error: node02: task 5: Killed",
         "srun: error: node02: task 1: Segmentation fault (core dumped)",
         "srun: error: node02: task 1: Out Of Memory"),
        (r"noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node(?: (?P<host>[\w.-]{1,64}))? exited "
         r"on signal (?P<number>\d+)",
         "mpirun noticed that process rank 3 with PID 4711 on node node02 exited on signal 9 (Killed).",
         "mpirun noticed that process rank 0 with PID 0 on node exited on signal 4 (Illegal instruction)."),
        (r"Process name: (?:\[(?:\[\d+,\d+\]|[\w.@-]{1,100}),(?P<rank>\d+)\]|(?P<task>\d+))",
         "  Process name: [[29973,1],3]",
         "  Process name: [prterun-node01-4711@1,3]",
         "Process name: 1"),
        (r"exited due to process rank (?P<rank>\d+) with PID \d+ on",
         "mpirun has exited due to process rank 1 with PID 0 on",
         "prterun has exited due to process rank 2 with PID 4711 on node node02 exiting"),
        (r"RANK (?P<rank>\d+) PID (?P<pid>\d+) RUNNING AT (?P<host>[\w.-]{1,64})",
         "=   RANK 5 PID 4711 RUNNING AT node02"),
        (r"\(first noticed rank (?P<rank>\d+)\) terminated with signal (?P<number>\d+)",
         "ERROR:  One or more process (first noticed rank 5) terminated with signal 11 (core dumped)"),
        (r"Process (?P<rank>\d+) exit with status code (?P<exitcode>-?[1-9]\d*)",
         "Process 1 exit with status code 137."),
        (r"\brank (?P<rank>\d+) (?:died from signal (?P<number>\d+)|exited with code (?P<exitcode>[1-9]\d*))",
         "node02.hsn: rank 0 died from signal 11 and dumped core",
         "node02.hsn: rank 3 exited with code 1"),
        (r"PE RANK (?P<rank>\d+) exit signal (?P<how>Killed|Terminated|Segmentation fault|Aborted|Bus error)",
         "_pmiu_daemon(SIGCHLD): [NID 00214] [c3-0c1s9n2] [Sun Nov 22 08:42:32 2026] PE RANK 5 exit signal "
         "Segmentation fault"),
        (r"\bRank (?P<rank>\d+) crashed with exit code (?P<exitcode>-?[1-9]\d*)",
         "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -6"),
        (r"Global rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) exited with code (?P<exitcode>-?[1-9]\d*)",
         "Global rank 3 (PID 4711) exited with code 1"),
        (r"MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator (?:MPI_COMM_WORLD|MPI COMMUNICATOR \d{1,4} DUP "
         r"FROM 0\b)",
         "MPI_ABORT was invoked on rank 2 in communicator MPI COMMUNICATOR 5 DUP FROM 0",
         "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD"),
        (r"Abort\(-?[1-9]\d*\) on node \d+ \(rank (?P<rank>\d+) in comm 0\)",
         "Abort(1) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3"),
        (r"application called MPI_Abort\(MPI_COMM_WORLD, -?[1-9]\d*\) - process (?P<rank>\d+)",
         "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3"),
        (r"trainer process with rank=\[(?P<rank>\d+)\] was aborted",
         "ERROR 2026-11-22 09:12:41,611 launch_utils.py:545] ABORT!!! Out of all 4 trainers, the trainer process with "
         "rank=[3] was aborted. Please check its log."),
        (r"FATAL: (?:doom|task-exit): .{0,200}\brank (?P<rank>\d+) on host (?P<host>[\w.-]{1,64}) "
         r"(?:exited|failed) and ",
         "flux-shell[0]: FATAL: doom: sh: rank 3 on host node02 exited and exit-timeout=30s has expired",
         "0.037s: flux-shell[0]: FATAL: task-exit: sh: task rank 1 on host node01 failed and exit-on-error is set"),
        (r"Error pod (?P<host>[\w.-]{1,253}) container \S{1,63} exitCode: (?P<exitcode>[1-9]\d*)",
         "DEBUG events Error pod bert-worker-0 container pytorch exitCode: 1 terminated message:"),
        (r"Pod: [\w-]{1,63}\.(?P<host>[\w.-]{1,190}) exited with code (?P<exitcode>[1-9]\d*)",
         "DEBUG events Pod: training.bert-worker-0 exited with code 1"),
        (r"Worker proc VllmWorker-(?P<rank>\d+) died unexpectedly",
         "ERROR 11-22 07:56:31 [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down "
         "executor."),
        (r"Child process with PID (?P<pid>\d+) terminated with code (?P<exitcode>-?\d+)\.",
         "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all other processes.")),
    *spellings("ssh-refused", Kind.CAUSE, (),
        (r"Command 'ssh (?:-[^\s']{1,40} ){0,4}PasswordAuthentication=no (?:-p \d+ )?(?P<host>\S{1,80}) hostname' "
         r"returned",
         "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no node02 hostname' returned non-zero "
         "exit status 255.")),
    *spellings("mpi-slots", Kind.CAUSE, (),
        (r"not enough slots available in the system to satisfy the \d+",
         "There are not enough slots available in the system to satisfy the 8")),
    *spellings("mpi-daemon", Kind.CAUSE, (),
        (r"ORTE was unable to reliably start one or more daemons|An ORTE daemon has unexpectedly failed after launch",
         "ORTE was unable to reliably start one or more daemons.",
         "An ORTE daemon has unexpectedly failed after launch and before communicating back to mpirun.")),
    *spellings("workers-ended", Kind.TABLE, (),
        (r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
         "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
        (r"flux-job: task\(s\) exited with exit code [1-9]",
         "flux-job: task(s) exited with exit code 1"),
        (r"trainer process with rank=\[(?P<tasks>\d+(?:, \d+){1,1000})\] was aborted",
         "ABORT!!! Out of all 4 trainers, the trainer process with rank=[0, 2] was aborted. Please check its log."),
        (r"srun: error: (?P<host>[\w.,\[\]-]{1,64}): tasks (?P<tasks>[\d,-]{1,80}): "
         r"(?:Exited with exit code (?P<exitcode>\d+)|(?P<how>Killed|Terminated|Segmentation fault|Aborted))",
         "srun: error: node02: tasks 4-7: Exited with exit code 1",
         "srun: error: node02: tasks 0,2-3: Killed"),
        (r"subprocess\.CalledProcessError: Command (?:'|returned non-zero exit status \d)",
         "subprocess.CalledProcessError: Command returned non-zero exit status 1",
         "subprocess.CalledProcessError: Command '['/opt/conda/bin/python', '-u', 'train.py', '--local_rank=7']' "
         "returned non-zero exit status 1.",
         "subprocess.CalledProcessError: Command '['/opt/conda/bin/python', '-u', 'train.py', '--local_rank=1']' "
         "died with <Signals.SIGKILL: 9>.",
         "subprocess.CalledProcessError: Command '['/opt/conda/bin/python', 'train.py', '--fp16']' returned "
         "non-zero exit status 1."),
        (r"Primary job +terminated normally, but (?P<count>\d+) process",
         "Primary job  terminated normally, but 1 process returned"),
        (r"(?:mpirun|prterun|Horovod) detected that one or more processes exited with non-zero status",
         "mpirun detected that one or more processes exited with non-zero status, thus causing",
         "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job "
         "to be terminated. The first process to do so was:"),
        (r"Received sig(?:quit|term) from a child process\. It usually means the child failed",
         "Received sigquit from a child process. It usually means the child failed."),
        (r"worker group (?:failed|FAILED)|Worker group FAILED|Local worker group finished \(WorkerState\.FAILED\)",
         "ERROR:torch.distributed.elastic.agent.server.local_elastic_agent:[default] worker group failed",
         "INFO:torch.distributed.elastic.agent.server.api:Local worker group finished (WorkerState.FAILED). Waiting "
         "300 seconds for other agents to finish")),
)

_SIGNALS = (
    *spellings("exit-barrier", Kind.LOST, ("DC518",),
        (r"Error waiting on exit barrier\. Elapsed: (?P<seconds>\d+(?:\.\d+)?)",
         "E1122 07:56:31.183000 7560 torch/distributed/elastic/agent/server/api.py:1008] Error waiting on exit "
         "barrier. Elapsed: 300.1 seconds",
         "ERROR:torch.distributed.elastic.agent.server.api:Error waiting on exit barrier. Elapsed: 0.5 seconds")),
    *spellings("closing-signal", Kind.SIGNAL, (),
        (r"[Pp]rocess (?P<pid>\d+) (?:closing|via) signal (?P<signal>SIG(?:TERM|INT|KILL|QUIT))",
         "W1122 07:56:25.308000 7520 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 7525 "
         "closing signal SIGTERM",
         "WARNING:torch.distributed.elastic.multiprocessing.api:Closing process 4711 via signal SIGTERM"),
        (r"Unable to shutdown process (?P<pid>\d+) via",
         "Unable to shutdown process 4711 via 15, forcefully exiting via 9"),
        (r"Killing subprocess (?P<pid>\d+)",
         "[2026-11-22 07:58:00,412] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711",
         "Killing subprocess 4711")),
    *spellings("told-to-stop", Kind.SIGNAL, ("DC125",),
        (r"Received (?:15|Signals\.SIGTERM|SIGTERM) death signal, shutting down workers",
         "W1122 09:12:41.020000 3001 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, "
         "shutting down workers",
         "WARNING:torch.distributed.elastic.agent.server.api:Received Signals.SIGTERM death signal, shutting down "
         "workers"),
        (r"SignalException: Process \d+ got signal: 15\b",
         "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3001 got signal: 15")),
    *spellings("hangup", Kind.CAUSE, ("DC117",),
        (r"Received (?:1|Signals\.SIGHUP|SIGHUP) death signal, shutting down workers",
         "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers",
         "W1122 09:12:41.020000 3001 torch/distributed/elastic/agent/server/api.py:753] Received Signals.SIGHUP "
         "death signal, shutting down workers"),
        (r"rocess (?P<pid>\d+) (?:closing|via) signal SIGHUP",
         "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4711 closing signal SIGHUP",
         "WARNING:torch.distributed.elastic.multiprocessing.api:Closing process 4711 via signal SIGHUP"),
        (r"SignalException: Process \d+ got signal: 1\b",
         "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3001 got signal: 1")),
    *spellings("interrupted", Kind.FAILURE, (),
        (r"(?:Received (?:2|Signals\.SIGINT|SIGINT) death signal|got signal: 2\b|rocess \d+ (?:closing|via) "
         r"signal SIGINT)"
         r"|KeyboardInterrupt\b",
         "W1122 09:12:41.020000 3001 torch/distributed/elastic/agent/server/api.py:753] Received 2 death signal, "
         "shutting down workers",
         "KeyboardInterrupt",
         "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3001 got signal: 2",
         "W1122 09:12:41.020000 3001 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 7525 "
         "closing signal SIGINT")),
)

_SCHEDULERS = (
    *spellings("time-limit", Kind.CAUSE, ("DC125",),
        (r"\*\*\* (?:JOB|STEP) (?P<job>[\w.+]{1,40}) (?:ON (?P<host>[\w.-]{1,64}) )?CANCELLED AT "
         r"(?P<at>[\dT:-]{10,25}) DUE TO TIME LIMIT",
         "slurmstepd: error: *** JOB 88123 ON node01 CANCELLED AT 2026-11-22T09:12:41 DUE TO TIME LIMIT ***",
         "slurmstepd: error: *** STEP 88123.0 ON node01 CANCELLED AT 2026-11-22T09:12:41 DUE TO TIME LIMIT ***"),
        (r"(?:PBS: job killed: walltime|TERM_RUNLIMIT: job killed)",
         "=>> PBS: job killed: walltime 3621 exceeded limit 3600",
         "TERM_RUNLIMIT: job killed after reaching LSF run time limit."),
        (r"DeadlineExceeded.{0,40}Job was active longer than specified deadline",
         "Warning  DeadlineExceeded  2m  job-controller  Job was active longer than specified deadline")),
    *spellings("preempted", Kind.CAUSE, ("DC125",),
        (r"\*\*\* (?:JOB|STEP) (?P<job>[\w.+]{1,40}) (?:ON (?P<host>[\w.-]{1,64}) )?CANCELLED AT "
         r"(?P<at>[\dT:-]{10,25}) DUE TO (?:PREEMPTION|JOB REQUEUE)",
         "slurmstepd: error: *** JOB 88123 ON node01 CANCELLED AT 2026-11-22T09:12:41 DUE TO PREEMPTION ***",
         "slurmstepd: error: *** JOB 88123 ON node01 CANCELLED AT 2026-11-22T09:12:41 DUE TO JOB REQUEUE ***"),
        (r"(?:Reason: +Evicted|Status: +Failed {1,4}Reason: +Evicted|Preempted by (?:pod|higher)|The node was low on "
         r"resource: (?P<resource>[\w-]+))",
         "Reason:       Evicted",
         "The node was low on resource: ephemeral-storage. Container train was using 40Gi, request is 0."),
        (r"the actor's node was preempted",
         "\tthe actor's node was preempted: the instance will be reclaimed"),
        (r"Caught signal SIG\w+ on (?P<host>[\w.-]{1,64}): this job is (?:preempted|timed-out)",
         "submitit WARNING (2026-11-22 09:12:40,453) - Caught signal SIGUSR2 on node01: this job is preempted.")),
    #: a shell's word for SIGABRT, by which watchdogs end a rank as well
    *spellings("worker-aborted", Kind.TABLE, (),
        (r": line \d{1,6}: {1,5}\d{1,8} Aborted {1,40}",
         "/workspace/start.sh: line 41: 71233 Aborted                 (core dumped) python train.py")),
    *spellings("slurm-refused", Kind.FAILURE, (),
        (r"srun: error: Unable to (?:create step|allocate resources)[^\r\n]{0,40}: (?P<why>[\w ,()/-]{4,120})",
         "srun: error: Unable to create step for job 88123: More processors requested than permitted",
         "srun: error: Unable to allocate resources: Requested node configuration is not available"),
        (r"Batch job submission failed: (?P<why>[\w ,()/-]{4,120})",
         "sbatch: error: Batch job submission failed: Requested node configuration is not available")),
    *spellings("node-failed", Kind.FAILURE, (),
        (r"Node failure on (?P<host>[\w.-]{1,64})", "srun: error: Node failure on node07"),
        (r"CANCELLED AT [\dT:-]{10,25} DUE TO NODE FAILURE",
         "slurmstepd: error: *** JOB 88123 ON node01 CANCELLED AT 2026-11-22T09:12:41 DUE TO NODE FAILURE ***")),
    *spellings("interrupted", Kind.FAILURE, (),
        (r"\*\*\* JOB [\w.+]{1,40} (?:ON [\w.-]{1,64} )?CANCELLED AT [\dT:-]{10,25} (?:DUE to SIGNAL Terminated "
         r")?\*\*\*",
         "slurmstepd: error: *** JOB 88123 ON node01 CANCELLED AT 2026-11-22T09:12:41 ***")),
    *spellings("step-cancelled", Kind.SIGNAL, (),
        (r"\*\*\* STEP [\w.+]{1,40} (?:ON [\w.-]{1,64} )?CANCELLED AT [\dT:-]{10,25} (?:DUE to SIGNAL \w+ )?\*\*\*",
         "slurmstepd: error: *** STEP 88123.0 ON node01 CANCELLED AT 2026-11-22T09:12:41 ***"),
        (r"srun: (?:Job step aborted: Waiting up to|Terminating (?:StepId=|job step )|Force Terminated)",
         "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
         "srun: Terminating StepId=88123.0",
         "srun: Terminating job step 88123.0")),
)
# fmt: on

ROWS: tuple[Signature, ...] = (*_REPORT, *_WORKERS, *_SIGNALS, *_SCHEDULERS)
