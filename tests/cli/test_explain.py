"""Texts as people paste them, and what ``distcheck explain`` answers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from distcheck.cli import fast_path
from distcheck.cli.main import group

from .test_cli import distcheck, environment


def explain(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(group, ["explain", *words], input=text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Cuda failure 'invalid device function'", "DC335"),
        (
            "[node1][[38971,1],2][btl_tcp_endpoint.c:796:mca_btl_tcp_endpoint_complete_connect] connect() to 172.17.0.1 "
            "failed: Connection refused (111)",
            "DC411",
        ),
        ("Failed to modify QP to RTR: Connection timed out", "DC415"),
        ("NCCL WARN Net : Socket creation failed : Address family not supported by protocol", "DC406"),
        ("RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64", "DC512"),
        (
            "ERROR:torch.distributed.elastic.agent.server.api:Error waiting on exit barrier. Elapsed: 307.2 seconds",
            "DC518",
        ),
        ("Note that --use_env is set by default in torchrun.", "DC801"),
        # the line of code above the last one of a traceback
        ('raise RuntimeError("Distributed package doesn\'t have NCCL " "built in")', "DC120"),
        (
            "DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system "
            "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
            "DC512",
        ),
        ("NCCL error in: ... unhandled system error", "DC512"),
        ("Runtime error: NCCL Error unhandled system error main.cu:43", "DC512"),
        ("ibv_create_qp: Cannot allocate memory(12)", "DC322"),
        (
            "node01 NCCL WARN NET/OFI Request 0x7f1 completed with error. RC: 107. Error: 4122 (Unreachable remote)",
            "DC417",
        ),
        # cut off, with something before it that is in no message
        ("[rank0]: AssertionError: Check batch related parameters. train_batch_size is not equal to …", "DC812"),
        ("[E socket.cpp:860] [c10d] The client socket has timed out after 60s while tr...", "DC403"),
        ("ImportError: undefined symbol: ncclCommRegister", "DC331"),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0. Some of your processes may have been",
            "DC323",
        ),
        ("Bus error (core dumped)", "DC320"),
        ("EADDRINUSE", "DC401"),
        # wrapped by a terminal, between words and inside one
        ("environment variable MASTER_ADDR\nexpected, but not set", "DC101"),
        ("ProcessGroupNCCL'\ns watchdog got stuck for 480 seconds without making pro\ngress", "DC511"),
        # from an address, from a web page, out of a word processor, quoted
        ("libtorch_cuda.so:%20undefined%20symbol:%20ncclCommRegister", "DC331"),
        ("TypeError: cannot pickle &#39;_thread.lock&#39; object", "DC601"),
        ("train.py: error: unrecognized arguments: –local_rank=1", "DC207"),
        ("NCCL error：unhandled system error", "DC512"),
        ("Key Error: LOCAL_RANK", "DC101"),
        ("> environment variable RANK\n> expected, but not set", "DC101"),
        # the shortest message that holds the word
        ("Killed", "DC323"),
        # a record of torchrun's error handler
        ('    "message": "RendezvousTimeoutError: ",', "DC501"),
        ("AssertionError: Micro batch size per gpu: 0 has to be greater than 0", "DC812"),
        ("torch.AcceleratorError: HIP error: invalid device function", "DC335"),
        ("node08:27106:27302 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied", "DC327"),
        # cut off, as titles are
        ("RuntimeError: NCCL error in: ../x/ProcessGroupNCCL.cpp:45, unhandled sys", "DC512"),
        ("[rank1]:[E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective opera...", "DC511"),
        # in the colours of a terminal
        ("\x1b[31mreturn code = -7\x1b[0m", "DC320"),
        # code behind something else
        ('[rank3]: raise RuntimeError("trying to initialize the default process group " "twice!")', "DC741"),
    ],
)
def test_a_text_leads_to_its_rule(text: str, code: str) -> None:
    result = explain("-", text=text)
    assert result.exit_code == 0, result.output
    assert f"# {code} " in result.output


@pytest.mark.parametrize(
    "text",
    [
        "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "raise ChildFailedError(",
        "-- Process 0 terminated with the following error:",
        "proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x55a51966cc80",
        "RuntimeError: Socket Timeout",
        "RuntimeError: NCCL communicator was aborted on rank 0.",
        "subprocess.CalledProcessError: Command returned non-zero exit status 1",
        # of Slingshot, not of EFA
        "NET/OFI Request 0x7f14cc5b60c0 completed with error. RC: 113. Error: 2 (UNDELIVERABLE). Completed length: 0",
        "Received sigquit from a child process. It usually means the child failed.",
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading. It is",
        # parts of such lines, and lines that are cut off
        "ChildFailedError",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Connection closed by peer [10.0",
        "[rank0]:[E626 06:24:44.160366013 ProcessGroupNCCL.cpp:636] [Rank 0] To avoid data inconsistency, we are tak",
        "Some NCCL operations have failed",
        # not the signal 1 of DC117
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 2612 got signal: 15",
    ],
)
def test_a_consequence_is_named_as_one(text: str) -> None:
    result = explain(text)
    assert result.exit_code == 0
    assert result.output.startswith("The text is a consequence, not the cause: ")
    assert "distcheck log FILE" in result.output
    assert "\n# DC" not in result.output


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("RuntimeError: CUDA error: device-side assert triggered", "CUDA_LAUNCH_BLOCKING=1"),
        (
            "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no 10.0.0.5 hostname' returned non-zero "
            "exit status 255.",
            "ssh-copy-id",
        ),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "compute-sanitizer"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "a smaller batch"),
        ("illegal memory access", "compute-sanitizer"),
        ("Memory access fault by GPU node-1", "AMD_SERIALIZE_KERNEL=3"),
        ("There are not enough slots available in the system to satisfy the 16", "node0 slots=8"),
        ("ORTE was unable to reliably start one or more daemons.", "--prefix"),
        ("Segmentation fault (core dumped)", "PYTHONFAULTHANDLER=1"),
    ],
)
def test_a_failure_that_no_rule_describes_gets_a_hint(text: str, hint: str) -> None:
    result = explain(text)
    assert result.exit_code == 0
    assert result.output.startswith("No rule describes this failure: ")
    assert hint in result.output
    (row,) = json.loads(explain("--output-format", "json", text).output)
    assert row["code"] is None and row["verdict"].startswith("No rule describes")


@pytest.mark.parametrize(
    "text",
    [
        "the quick brown fox jumps over the lazy dog",
        'raise ValueError(f"File {path} has no columns")',
        # words like those of DC320's signal 7 and DC323's signal 9, and another number
        "Signal 12 (SIGUSR2) was received by the application",
        "loss is not going down after 30 minutes",
        # in the messages of many rules
        "RuntimeError:",
        "timeout",
        "rank 0",
        # long ends that are in no message
        "the training job was stopped by the following...",
        # no failure of NCCL, of a launcher, of RDMA, of a GPU
        "handler for an unhandled system error of the server",
        "Command that returned a list",
        "malloc: Cannot allocate memory in the pool",
        "Memory access of node-1",
        # a part of a number: "exited with code 137"
        "exited with code 13",
        # the name of a package, and a beginning that every one of many lines has
        "an error in torch.distributed",
        "[Rank 0] NCCL watchdog thread terminated with ex",
    ],
)
def test_likeness_of_words_is_no_answer(text: str) -> None:
    result = explain(text)
    assert result.exit_code == 2, result.output
    assert "Usage:" not in result.output
    assert len(result.output.splitlines()) == 1


def test_the_message_and_the_fix_of_the_log_stand_before_the_page() -> None:
    """A page describes a rule; its finding shows what to do in this case."""
    text = "RuntimeError: Expected to mark a variable ready only once."
    lines = explain(text).output.splitlines()
    assert lines[0].startswith("The text fits DC754: ")
    assert lines[1].startswith("the gradient of a parameter came twice")
    assert lines[2].startswith("fix: ") and "use_reentrant=False" in lines[2]
    row = json.loads(explain("--output-format", "json", text).output)[0]
    assert row["code"] == "DC754" and "use_reentrant=False" in row["fix"] and row["why"] == lines[1]


def test_a_rule_that_the_line_does_not_show_is_only_possible() -> None:
    result = explain("RuntimeError: Error(s) in loading state_dict for Net:")
    assert result.output.startswith("The text shows that something failed, and not why.")
    assert "DC614" in result.output and "# DC614" not in result.output
    # the key shows it
    shown = explain('Unexpected key(s) in state_dict: "module.conv1.weight", "module.conv1.bias"')
    assert "# DC614 " in shown.output


def test_a_line_that_is_cut_before_it_decides_is_undecided() -> None:
    """It may go on with one signal or another."""
    result = explain("RuntimeError: DataLoader worker (pid 26471) is killed by s")
    assert result.output.startswith("The text shows that something failed, and not why.")
    assert "DC320" in result.output and "DC323" in result.output and "# DC320" not in result.output


def test_the_wrapped_line_of_a_known_cause_is_more_than_a_consequence() -> None:
    wrapped = (
        "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no 192.168\n.3.100 hostname' returned"
    )
    assert explain("-", text=wrapped).output.startswith("No rule describes this failure: ")


def test_a_notice_is_named_as_one() -> None:
    """A job can run with it, so that the line proves no rule."""
    line = "[c10d] The client socket has failed to connect to [node01]:29500 (errno: 22 - Invalid argument)."
    nameless = (
        "[W122 20:05:19.749124012 socket.cpp:204] [c10d] The hostname of the client socket cannot be retrieved. err=-3"
    )
    assert explain(nameless).output.startswith("The text is a notice")
    assert explain("[c10d] The client socket has failed to connect to [gpu-box]:61215").output.startswith(
        "The text is a"
    )
    result = explain(line)
    assert result.output.startswith("The text is a notice: ")
    assert "DC403" in result.output and "# DC403" not in result.output
    assert "distcheck log FILE" in result.output


@pytest.mark.parametrize(
    "line",
    [
        "[I ProcessGroupWrapper.cpp:562] [Rank 2] Running collective: CollectiveFingerPrint(OpType=ALLREDUCE)",
        "[rank2]:[I1122 07:43:25.123456789 ProcessGroupNCCL.cpp:991] [PG ID 0] using a default device",
        "INFO:trainer:the data is shuffled",
    ],
)
def test_a_line_at_the_level_of_information_is_a_notice(line: str) -> None:
    assert explain(line).output.startswith("The text is a notice: ")


@pytest.mark.parametrize(
    "line", ["INFO:trainer:the worker died", "[E ProcessGroupWrapper.cpp:562] [Rank 2] Running", "the data is shuffled"]
)
def test_a_line_without_that_level_or_with_a_failure_is_unknown(line: str) -> None:
    assert "no rule knows the message" in explain(line).output


def test_the_last_line_of_a_traceback_is_no_notice() -> None:
    """A stale handle ends a process where it is an exception's text; where a program prints it, the job may go on."""
    words = "[Errno 116] Stale file handle: '/data/cache/text'"
    assert explain(f"OSError: {words}").output.startswith("The text shows that something failed")
    assert explain(f"retry after {words}").output.startswith("The text is a notice: ")


def test_a_line_below_the_error_names_the_line_to_read() -> None:
    result = explain(
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below"
    )
    assert result.exit_code == 0 and "the line above" in result.output
    result = explain("Indexing.cu:1237: block: [2,0,0], thread: [17,0,0] Assertion `i < n` failed.")
    assert "an index that is out of range" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("DC401",),
        ("master-port-in-use", "EADDRINUSE"),
        ("TypeError: cannot pickle &#39;_thread.lock&#39; object",),
        ("libtorch_cuda.so:%20undefined%20symbol:%20ncclCommRegister",),
        ("no rule knows this sentence",),
        ("DC4011",),
        ("a page of its-own",),
        ("",),
    ],
)
def test_without_options_the_answer_is_that_of_click(words: tuple[str, ...]) -> None:
    """Without click, then with it: an option makes the difference."""
    assert fast_path.fast_explain(["explain", *words], {}) is not None
    short, long = distcheck("explain", *words), distcheck("explain", "--output-format", "full", *words)
    assert (short.stdout, short.stderr, short.returncode) == (long.stdout, long.stderr, long.returncode)
    assert short.stdout or short.stderr


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (["explain"], {}),
        (["explain", "-"], {}),
        (["explain", "--help"], {}),
        (["explain", "DC401", "--output-format=json"], {}),
        (["explain", "DC401"], {"DISTCHECK_EXPLAIN_OUTPUT_FORMAT": "json"}),
        (["explain", "DC401"], {"_DISTCHECK_COMPLETE": "bash_source"}),
        (["rules"], {}),
        ([], {}),
    ],
)
def test_what_click_must_read_goes_the_long_way(words: list[str], environ: dict[str, str]) -> None:
    assert fast_path.fast_explain(words, environ) is None


def test_a_text_is_explained_without_click_re2_or_the_literals_of_all_patterns() -> None:
    program = (
        "import sys, os; os._exit = lambda status: None\n"
        "from distcheck.checks.logs import patterns; read = []; own = patterns.required_literals\n"
        "patterns.required_literals = lambda pattern: read.append(pattern) or own(pattern)\n"
        "from distcheck.cli.fast_path import main\n"
        "sys.argv = ['distcheck', 'explain', 'environment variable RANK expected, but not set']; main()\n"
        "assert not {'click', 're2', 'html', 'json', 'difflib', 'torch'} & set(sys.modules), 'imported'\n"
        "assert not read, read\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("The text fits DC101")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("nccl timeout", "DC511", "Ranks wait for one that does not come"),
        ("NCCL Timeout Error", "DC511", "Ranks wait for one that does not come"),
        ("Connection refused", "DC403", "Nothing listens at that address"),
        ("cuda oom", "DC303", "no rule describes"),
        ("rendezvous timeout", "DC501", "Fewer nodes joined"),
        ("rendezvous timed out", "DC501", "Fewer nodes joined"),
        ("exit code -9", "DC323", "Signal 9 (SIGKILL)"),
        ("exit code 135", "DC320", "Signal 7 (SIGBUS)"),
        ("exit code -11", None, "Signal 11 (SIGSEGV)"),
        ("exit code 143", "DC518", "Signal 15 (SIGTERM)"),
        ("training hangs", "DC511", "'distcheck stuck'"),
        ("port already in use", "DC401", "Another process uses the port"),
        ("loss is nan", None, "No rule describes"),
    ],
)
def test_a_few_words_lead_to_what_to_search_for(text: str, code: str | None, words: str) -> None:
    result = explain(text)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("These words fit several messages, and decide none.\n")
    assert words in result.output
    assert "'distcheck log FILE'" in result.output
    assert len(result.output.splitlines()) <= 8
    (row,) = json.loads(explain("--output-format", "json", text).output)
    assert row["code"] is None
    assert row["possible"][:1] == ([] if code is None else [code])


@pytest.mark.parametrize(
    "text",
    [
        "exit code -12",
        "timeout in my data loader",
        "connection refused by the database of users",
        "nccl",
        "timed out",
        "signal 8",
    ],
)
def test_other_words_are_no_shorthand(text: str) -> None:
    assert explain(text).exit_code == 2
