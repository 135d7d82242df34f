"""What libraries make of the texts of variables."""

from __future__ import annotations

import ctypes
import errno
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distcheck.core.variable_table import Variable, VariableTable
from distcheck.launch.values import KINDS, ValueReading, c_integer, read_value, torch_integer, unknown_log_names

TABLE = VariableTable()
JUDGED = sorted(name for name in TABLE.names() if (found := TABLE.lookup(name)) and found.parse)


def read(name: str, text: str) -> ValueReading:
    variable = TABLE.lookup(name)
    assert variable is not None
    return read_value(variable, text)


@pytest.mark.parametrize(
    ("name", "text", "effective", "consequence"),
    [
        # numbers as C reads them
        pytest.param("NCCL_IB_DISABLE", "true", "0", "misread", id="a word is 0"),
        pytest.param("NCCL_IB_DISABLE", "yes", "0", "misread", id="yes is 0"),
        pytest.param("NCCL_SHM_DISABLE", "   ", "0", "misread", id="blanks are 0"),
        pytest.param("NCCL_DMABUF_ENABLE", "on", "0", "misread", id="on is off"),
        pytest.param("NCCL_IB_GID_INDEX", "auto", "0", "misread", id="a word for an index is index 0"),
        pytest.param("NCCL_BUFFSIZE", "4MB", "4", "misread", id="units are not known"),
        pytest.param("NCCL_BUFFSIZE", "8 MiB", "8", "misread", id="units after a blank"),
        pytest.param("NCCL_BUFFSIZE", "4k", "4", "misread", id="one letter"),
        pytest.param("NCCL_IB_TIMEOUT", "010", "8", "misread", id="octal"),
        pytest.param("NCCL_IB_TIMEOUT", "08", "0", "misread", id="no octal digit"),
        pytest.param("NCCL_SOCKET_NTHREADS", "1e1", "1", "misread", id="an exponent"),
        pytest.param("NCCL_IB_TIMEOUT", "22,", "22", "ignored", id="a rest"),
        pytest.param("NCCL_GIN_ERROR_QUERY_SEC", "10s", "10", "ignored", id="a unit of time"),
        pytest.param("NCCL_BUFFSIZE", "99999999999999999999", None, "fallback", id="too large"),
        pytest.param("NCCL_BUFFSIZE", "9" * 5000, None, "fallback", id="thousands of digits"),
        pytest.param("NCCL_IB_TIMEOUT", "40", "40", "fallback", id="out of range"),
        pytest.param("NCCL_IB_RETRY_CNT", "13", "13", "fallback", id="more than three bits"),
        pytest.param("NCCL_CROSS_NIC", "3", "3", "fallback", id="none of the three"),
        pytest.param("NCCL_P2P_DISABLE", "true", "0", "misread", id="P2P stays on"),
        pytest.param("NCCL_P2P_DISABLE", "2", "0", "ignored", id="only 1 disables P2P"),
        # torch's numbers and switches
        pytest.param("TORCH_FR_BUFFER_SIZE", "abc", None, "crash", id="no number of entries"),
        pytest.param("TORCH_FR_BUFFER_SIZE", "", None, "crash", id="empty is no number"),
        pytest.param("TORCH_FR_BUFFER_SIZE", "99999999999", None, "crash", id="more than an int"),
        pytest.param("TORCH_FR_BUFFER_SIZE", "5k", "5", "ignored", id="torch knows no units"),
        pytest.param("TORCH_NCCL_ASYNC_ERROR_HANDLING", "true", None, "crash", id="a word for a mode"),
        pytest.param("TORCH_NCCL_ASYNC_ERROR_HANDLING", "7", "7", "fallback", id="no such mode"),
        pytest.param("TORCH_GLOO_LAZY_INIT", "maybe", None, "crash", id="neither yes nor no"),
        pytest.param("TORCH_GLOO_LAZY_INIT", "on", None, "crash", id="on is not known"),
        pytest.param("TORCH_NCCL_BLOCKING_WAIT", "", None, "crash", id="an empty switch"),
        pytest.param("TORCH_NCCL_BLOCKING_WAIT", "1 ", None, "crash", id="a blank behind a switch"),
        pytest.param("TORCH_SHOW_CPP_STACKTRACES", "true", None, "ignored", id="only 0 and 1"),
        pytest.param("USE_LIBUV", "true", "0", "misread", id="true is off"),
        pytest.param("USE_LIBUV", "2", "0", "misread", id="2 is off"),
        pytest.param("TORCHELASTIC_USE_AGENT_STORE", "true", "False", "misread", id="only True"),
        pytest.param("PYTORCH_NO_CUDA_MEMORY_CACHING", "0", "1", "misread", id="0 switches it on"),
        pytest.param("RDMAV_FORK_SAFE", "", "1", "misread", id="set is on"),
        pytest.param("TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK", "0", "1", "misread", id="any text is on"),
        # what ends the import or the launcher
        pytest.param("TORCH_DISTRIBUTED_DEBUG", "1", None, "crash", id="no debug level"),
        pytest.param("TORCH_DISTRIBUTED_DEBUG", "TRUE", None, "crash", id="no debug level either"),
        pytest.param("TORCH_DISTRIBUTED_DEBUG", "", None, "crash", id="an empty debug level"),
        pytest.param("TORCH_DISTRIBUTED_DEBUG", "DETAIL ", None, "crash", id="a blank behind the level"),
        pytest.param("TORCH_LOGS", "", None, "crash", id="empty logs"),
        pytest.param("TORCH_LOGS", "foo", None, "crash", id="an unknown log"),
        pytest.param("TORCH_LOGS", "+dist", None, "crash", id="a log that is not called so"),
        pytest.param("TORCH_LOGS", "+dist_c10d", None, "crash", id="an outdated prefix"),
        pytest.param("TORCH_LOGS", "DYNAMO", None, "crash", id="upper case"),
        pytest.param("TORCH_LOGS", "1", None, "crash", id="a number"),
        pytest.param("TORCH_LOGS", "DEBUG", None, "crash", id="a level"),
        pytest.param("TORCH_LOGS", "++c10d", None, "crash", id="two signs"),
        pytest.param("TORCH_LOGS", "dynamo,", None, "crash", id="a comma at the end"),
        pytest.param("TORCH_LOGS", " dynamo", None, "crash", id="a blank in front"),
        pytest.param("TORCH_LOGS", '"c10d"', None, "crash", id="quotes"),
        pytest.param("TORCH_LOGS", "help", None, "crash", id="help ends the import"),
        pytest.param("LOGLEVEL", "debug", None, "crash", id="a level in lower case"),
        pytest.param("LOGLEVEL", "10", None, "crash", id="a level as a number"),
        pytest.param("LOGLEVEL", "", None, "crash", id="an empty level"),
        pytest.param("TORCH_CPP_LOG_LEVEL", "foo", None, "ignored", id="no C++ level"),
        pytest.param("TORCH_CPP_LOG_LEVEL", "5", None, "ignored", id="no C++ level either"),
        pytest.param("PET_STANDALONE", "true", None, "crash", id="torchrun wants a number"),
        pytest.param("PET_MAX_RESTARTS", "", None, "crash", id="torchrun wants any number"),
        pytest.param("PET_NNODES", "a", None, "crash", id="no number of nodes"),
        pytest.param("PET_NNODES", "4:2", None, "crash", id="least above most"),
        pytest.param("PET_NNODES", "0", None, "crash", id="no node"),
        pytest.param("PET_NPROC_PER_NODE", "0", None, "crash", id="no process"),
        pytest.param("PET_NPROC_PER_NODE", "GPU", None, "crash", id="gpu in upper case"),
        pytest.param("PET_RDZV_BACKEND", "foo", None, "crash", id="no such rendezvous"),
        pytest.param("PET_RDZV_CONF", "timeout", None, "crash", id="a key without a value"),
        pytest.param("PET_RDZV_ENDPOINT", "host:99999", None, "crash", id="no such port"),
        pytest.param("PET_RDZV_ENDPOINT", "http://host:29400", None, "crash", id="a URL"),
        pytest.param("PET_MONITOR_INTERVAL", "abc", None, "crash", id="no number of seconds"),
        pytest.param("TORCH_DIST_INIT_BARRIER", "true", None, "crash", id="init wants a number"),
        pytest.param("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30s", None, "crash", id="seconds without the s"),
        pytest.param("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments=True", None, "crash", id="= for :"),
        pytest.param("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:true", None, "crash", id="true in lower case"),
        pytest.param("PYTORCH_ALLOC_CONF", "expandable_segments", None, "crash", id="no value"),
        # gloo
        pytest.param("GLOO_DEVICE_TRANSPORT", "FOO", None, "crash", id="no such transport"),
        pytest.param("GLOO_DEVICE_TRANSPORT", "tcp", None, "crash", id="transport in lower case"),
        pytest.param("GLOO_DEVICE_TRANSPORT", "", None, "crash", id="the empty transport"),
        pytest.param("GLOO_DEVICE_TRANSPORT", "TCP_TLS", "TCP_TLS", "crash", id="a transport of other builds"),
        pytest.param("GLOO_SOCKET_IFNAME", "^lo", None, "crash", id="NCCL's exclusion"),
        pytest.param("GLOO_SOCKET_IFNAME", "lo, eth0", None, "crash", id="a blank in a list"),
        pytest.param("GLOO_SOCKET_IFNAME", ",lo", None, "crash", id="an empty name"),
        pytest.param("GLOO_SOCKET_IFNAME", "10.0.0.1", None, "crash", id="an address"),
        pytest.param("GLOO_LOG_LEVEL", "foo", None, "ignored", id="no level of gloo"),
        # OpenMP
        pytest.param("OMP_NUM_THREADS", "abc", None, "fallback", id="no number of threads"),
        pytest.param("OMP_NUM_THREADS", "0", None, "fallback", id="no threads"),
        pytest.param("OMP_NUM_THREADS", "-1", None, "fallback", id="less than none"),
        pytest.param("OMP_NUM_THREADS", "", None, "fallback", id="an empty number"),
        pytest.param("OMP_NUM_THREADS", "4,", None, "fallback", id="a comma behind"),
        pytest.param("OMP_NUM_THREADS", "4.5", None, "fallback", id="half a thread"),
        pytest.param("OMP_NUM_THREADS", "0x4", None, "fallback", id="no hexadecimal"),
        pytest.param("OMP_NUM_THREADS", "4 2", None, "fallback", id="two numbers without a comma"),
        pytest.param("OMP_NUM_THREADS", "99999999999999999999", None, "fallback", id="more than a long"),
        pytest.param("OMP_PROC_BIND", "1", None, "fallback", id="a number for a binding"),
        pytest.param("OMP_PROC_BIND", "true,close", None, "fallback", id="a switch in a list"),
        # NCCL's words
        pytest.param("NCCL_DEBUG", "ERROR", None, "ignored", id="no level of NCCL"),
        pytest.param("NCCL_DEBUG", "1", None, "ignored", id="a number for a level"),
        pytest.param("NCCL_DEBUG", "INFO ", None, "ignored", id="a blank behind, older NCCL"),
        pytest.param("NCCL_DEBUG_SUBSYS", "INIT,FOO", None, "fallback", id="no such subsystem"),
        pytest.param("NCCL_SET_THREAD_NAME", "yes", None, "fallback", id="yes is not known"),
        pytest.param("NCCL_NET_GDR_LEVEL", "pix", None, "ignored", id="a level in lower case, distance"),
        pytest.param("NCCL_P2P_LEVEL", "NVLINK", None, "ignored", id="no path type"),
        pytest.param("NCCL_P2P_LEVEL", "9", "SYS", "fallback", id="above the old scale"),
        pytest.param("NCCL_SOCKET_FAMILY", "ipv4", None, "ignored", id="no address family"),
        pytest.param("NCCL_SOCKET_FAMILY", "af_inet", None, "ignored", id="exact words only"),
        pytest.param("NCCL_ALGO", "Ring, Tree", None, "crash", id="a blank in a selection"),
        pytest.param("NCCL_ALGO", "Rign", None, "crash", id="no algorithm"),
        pytest.param("NCCL_PROTO", "LL;Simple", None, "crash", id="a second list without a function"),
        # interfaces
        pytest.param("NCCL_SOCKET_IFNAME", " eth0", None, "crash", id="a blank in front of the only name"),
        pytest.param("NCCL_SOCKET_IFNAME", "eth0, eth1", None, "ignored", id="a blank in front of the second"),
        pytest.param("NCCL_SOCKET_IFNAME", "=^eth0", None, "crash", id="marks in the wrong order"),
        pytest.param("NCCL_SOCKET_IFNAME", '"eth0"', None, "crash", id="quotes in the value"),
        pytest.param("NCCL_SOCKET_IFNAME", "eth0,^lo", None, "ignored", id="a mark inside the list"),
        pytest.param("NCCL_SOCKET_IFNAME", "e", None, "ignored", id="one character"),
        pytest.param("NCCL_SOCKET_IFNAME", ",".join(f"eth{i}" for i in range(17)), ..., "ignored", id="17 names"),
        pytest.param("NCCL_IB_HCA", " mlx5_0", None, "ignored", id="no device matches"),
        pytest.param("NCCL_COMM_ID", "node1", None, "fallback", id="no port"),
        pytest.param("NCCL_COMM_ID", "fe80::1:29500", None, "fallback", id="IPv6 without brackets"),
        pytest.param("NCCL_CONF_FILE", "~/.nccl", None, "ignored", id="nobody replaces the tilde"),
        pytest.param("CUDA_DEVICE_MAX_CONNECTIONS", "64", None, "fallback", id="more queues than there are"),
    ],
)
def test_bad_values(name: str, text: str, effective: object, consequence: str) -> None:
    reading = read(name, text)
    assert reading.problem
    assert reading.consequence == consequence
    if effective is not ...:
        assert reading.effective == effective


@pytest.mark.parametrize(
    ("name", "text", "effective"),
    [
        pytest.param("NCCL_IB_DISABLE", "1", "1", id="one"),
        pytest.param("NCCL_IB_DISABLE", "false", "0", id="false is 0, as it says"),
        pytest.param("NCCL_IB_DISABLE", "no", "0", id="no is 0, as it says"),
        pytest.param("NCCL_IB_DISABLE", "", None, id="empty is unset"),
        pytest.param("NCCL_IB_DISABLE", " 1 ", "1", id="blanks around a number"),
        pytest.param("NCCL_IB_TIMEOUT", "22 # longer", "22", id="a remark in a configuration file"),
        pytest.param("NCCL_IB_TIMEOUT", "22\r", "22", id="a file from Windows"),
        pytest.param("NCCL_IB_TIMEOUT", "22.0", "22", id="a YAML number"),
        pytest.param("NCCL_IB_TIMEOUT", "07", "7", id="octal that makes no difference"),
        pytest.param("NCCL_IB_TIMEOUT", "0x16", "22", id="hexadecimal"),
        pytest.param("NCCL_IB_GID_INDEX", "-1", "-1", id="automatic"),
        pytest.param("NCCL_MIN_CTAS", "-2", "-2", id="NCCL's own sign for unset"),
        pytest.param("NCCL_MIN_NCHANNELS", "112", "112", id="what AMD asks for"),
        pytest.param("NCCL_NET_GDR_READ", "2", "2", id="a switch takes any number"),
        pytest.param("NCCL_P2P_DISABLE", "1", "1", id="P2P off"),
        pytest.param("NCCL_P2P_DISABLE", "0", "0", id="P2P on"),
        pytest.param("NCCL_RAS_TIMEOUT_FACTOR", "1.5", "1.5", id="a number with a point, newer NCCL"),
        pytest.param("TORCH_FR_BUFFER_SIZE", "0", "0", id="no recorder"),
        pytest.param("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", "3", id="a mode"),
        pytest.param("TORCH_NCCL_BLOCKING_WAIT", "YES", "1", id="words of torch"),
        pytest.param("TORCH_GLOO_LAZY_INIT", "f", "0", id="one letter"),
        pytest.param("USE_LIBUV", "0", "0", id="the other store"),
        pytest.param("USE_LIBUV", "false", "0", id="off by any other word"),
        pytest.param("TORCHELASTIC_USE_AGENT_STORE", "True", "True", id="as torchrun sets it"),
        pytest.param("TORCHELASTIC_USE_AGENT_STORE", "False", "False", id="as torchrun sets it off"),
        pytest.param("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "1", id="on is on"),
        pytest.param("TORCH_DISTRIBUTED_DEBUG", "detail", "DETAIL", id="any case"),
        pytest.param("TORCH_LOGS", "+c10d,-ddp", "+c10d,-ddp", id="signs"),
        pytest.param("TORCH_LOGS", "+dynamo, aot", "+dynamo, aot", id="a blank after a comma"),
        pytest.param("TORCH_LOGS", "all", "all", id="all logs"),
        pytest.param("TORCH_LOGS", "torch.distributed", "torch.distributed", id="a module's name"),
        pytest.param("TORCH_LOGS", "+my_package.training", "+my_package.training", id="a module of the user"),
        pytest.param("LOGLEVEL", "WARN", "WARN", id="Python's short name"),
        pytest.param("TORCH_CPP_LOG_LEVEL", "info", "INFO", id="any case of a level"),
        pytest.param("TORCH_CPP_LOG_LEVEL", "", None, id="empty is unset, C++"),
        pytest.param("PET_STANDALONE", "1", "1", id="a flag of torchrun"),
        pytest.param("PET_NNODES", "1:4", "1:4", id="elastic"),
        pytest.param("PET_NPROC_PER_NODE", "gpu", "gpu", id="one for each GPU"),
        pytest.param("PET_RDZV_BACKEND", "c10d", "c10d", id="the built-in rendezvous"),
        pytest.param("PET_RDZV_CONF", "join_timeout=60,read_timeout=10", ..., id="pairs"),
        pytest.param("PET_RDZV_ENDPOINT", "[fe80::1]:29400", "[fe80::1]:29400", id="IPv6"),
        pytest.param("PET_RDZV_ENDPOINT", "node-1.cluster", "node-1.cluster", id="no port needed"),
        pytest.param("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:128", ..., id="options"),
        pytest.param("PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:[256:1,512:2,>:4]", ..., id="a nested list"),
        pytest.param("GLOO_DEVICE_TRANSPORT", "TCP", "TCP", id="the transport that is there"),
        pytest.param("GLOO_SOCKET_IFNAME", "lo,eth0", "lo,eth0", id="exact names"),
        pytest.param("GLOO_SOCKET_IFNAME", "lo,", "lo,", id="a comma at the end"),
        pytest.param("GLOO_SOCKET_IFNAME", "", None, id="empty is unset, gloo"),
        pytest.param("OMP_NUM_THREADS", "4,2", "4", id="nested"),
        pytest.param("OMP_NUM_THREADS", " 4 , 2", "4", id="blanks"),
        pytest.param("OMP_NUM_THREADS", "+4", "4", id="a sign"),
        pytest.param("OMP_PROC_BIND", "TRUE", "true", id="a switch in any case"),
        pytest.param("OMP_PROC_BIND", "close,spread", "close,spread", id="a list of bindings"),
        pytest.param("NCCL_DEBUG", "info", "INFO", id="any case, NCCL"),
        pytest.param("NCCL_DEBUG", "", None, id="an empty level, NCCL"),
        pytest.param("NCCL_DEBUG_SUBSYS", "^init,NET", "^INIT,NET", id="all but some"),
        pytest.param("NCCL_SET_THREAD_NAME", "TRUE", "1", id="a word of NCCL 2.30"),
        pytest.param("NCCL_NET_GDR_LEVEL", "PIX", "PIX", id="a path type"),
        pytest.param("NCCL_P2P_LEVEL", "3", "PHB", id="the old scale"),
        pytest.param("NCCL_P2P_LEVEL", "PXN", "PXN", id="a path type that the guide leaves out"),
        pytest.param("NCCL_SOCKET_FAMILY", "AF_INET6", "AF_INET6", id="a family"),
        pytest.param("NCCL_ALGO", "^nvls,NVLSTree", ..., id="all algorithms but two"),
        pytest.param("NCCL_ALGO", "ring;allreduce:tree,collnetdirect", ..., id="one for each function"),
        pytest.param("NCCL_PROTO", "^LL128;allreduce:LL128", ..., id="protocols"),
        pytest.param("NCCL_SOCKET_IFNAME", "eth", "eth", id="a prefix is legal"),
        pytest.param("NCCL_SOCKET_IFNAME", "^docker,lo", "^docker,lo", id="an exclusion"),
        pytest.param("NCCL_SOCKET_IFNAME", "^=docker0", "^=docker0", id="an exact exclusion"),
        pytest.param("NCCL_SOCKET_IFNAME", "=eth0", "=eth0", id="an exact name"),
        pytest.param("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1", ..., id="devices with ports"),
        pytest.param("NCCL_COMM_ID", "node1:29500", "node1:29500", id="a name and a port"),
        pytest.param("NCCL_COMM_ID", "[fe80::1]:29500", "[fe80::1]:29500", id="IPv6 in brackets"),
        pytest.param("NCCL_CONF_FILE", "/etc/mine.conf", "/etc/mine.conf", id="a path"),
        pytest.param("CUDA_DEVICE_MAX_CONNECTIONS", "1", "1", id="one queue"),
        pytest.param("NCCL_HOSTID", "any text at all", "any text at all", id="free text"),
        pytest.param("UCX_TLS", "rc,cuda", "rc,cuda", id="nobody knows how it is read"),
    ],
)
def test_good_values(name: str, text: str, effective: object) -> None:
    reading = read(name, text)
    assert reading.problem is None, reading
    assert reading.consequence is None
    if effective is not ...:
        assert reading.effective == effective


def test_an_unknown_log_may_be_a_module() -> None:
    assert unknown_log_names("+dynamo,-my_package, torch.fx,foo") == ("my_package", "foo")
    assert read("TORCH_LOGS", "+my_package").unless == "a module called 'my_package' can be imported"
    assert read("TORCH_LOGS", "DEBUG").unless is None, "no module is called so"


def test_a_hint_says_what_was_meant() -> None:
    assert "'c10d'" in str(read("TORCH_LOGS", "dist_c10d").problem)
    assert "4194304" in str(read("NCCL_BUFFSIZE", "4MB").problem)
    assert "DEBUG would do" in str(read("LOGLEVEL", "debug").problem)
    assert "PIX" in str(read("NCCL_NET_GDR_LEVEL", "pix").problem)


TEXTS = st.text(max_size=30) | st.from_regex(r"[ \t]?[+-]?0?[xX]?[0-9a-fA-F]{0,25}[ ,.:=^~kMGBe]*", fullmatch=True)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", sorted(KINDS))
@given(text=TEXTS)
@example(text="")
@example(text=",")
@example(text="^")
@example(text=":")
@example(text="0" * 6000 + "1")
@example(text="\udc80")
def test_no_text_whatever_raises(kind: str, text: str) -> None:
    for name in ("NCCL_IB_HCA", "NCCL_P2P_LEVEL", "TORCH_NCCL_ASYNC_ERROR_HANDLING"):
        variable = TABLE.lookup(name)
        assert variable is not None
        reading = read_value(variable._replace(parse=kind), text)
        assert (reading.problem is None) == (reading.consequence is None)
        assert reading.unless is None or reading.problem


@given(name=st.sampled_from(JUDGED), text=TEXTS)
def test_a_problem_has_a_consequence(name: str, text: str) -> None:
    reading = read(name, text)
    assert (reading.problem is None) == (reading.consequence is None)
    assert reading.problem is None or not reading.problem.endswith(".")


def test_what_nobody_knows_how_it_is_read_is_not_judged() -> None:
    assert read_value(Variable("X", True), "anything") == ValueReading("anything")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the reference is glibc's")
@given(text=TEXTS.filter(lambda text: "\0" not in text))
@example(text="0x")
@example(text="0xg")
@example(text="-0x10")
@example(text="+ 1")
@example(text="9223372036854775807")
@example(text="9223372036854775808")
@example(text="-9223372036854775808")
@example(text="-9223372036854775809")
@example(text="0" * 40 + "7")
@example(text="١")
def test_numbers_are_read_as_c_reads_them(text: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.strtoll.restype = ctypes.c_longlong
    library.strtoll.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int]
    raw = text.encode("utf-8", "surrogatepass")
    buffer = ctypes.create_string_buffer(raw)
    end = ctypes.c_char_p()
    ctypes.set_errno(0)
    value = library.strtoll(ctypes.cast(buffer, ctypes.c_char_p), ctypes.byref(end), 0)
    overflow = ctypes.get_errno() == errno.ERANGE
    rest = end.value or b""
    expected = (None if overflow else value, rest)
    found, found_rest = c_integer(text)
    assert (found, found_rest.encode("utf-8", "surrogatepass")) == expected


@given(number=st.integers(-(1 << 40), 1 << 40))
def test_torch_reads_whole_numbers_of_32_bits(number: int) -> None:
    fits = -(1 << 31) <= number < 1 << 31
    assert torch_integer(f" {number} entries") == (number if fits else None)


def test_numbers_of_torch_are_decimal() -> None:
    assert torch_integer("010") == 10
    assert torch_integer("0x10") == 0
    assert torch_integer("-" + "0" * 50 + "12") == -12
    assert torch_integer("") is None
