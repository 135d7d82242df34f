"""Names, addresses and ports, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

#: An endpoint as torch's store writes it.
_PAIR = r"\((?P<host>[^,()]{0,255}), (?P<port>\d{1,5})\)"
#: How the system names an error of a socket: few words, no sentence.
_WHY = r"(?P<why>[A-Z][\w' ]{3,80})"
#: An address as NCCL writes it: ``10.0.0.5<43210>``.
_NCCL_ADDRESS = r"(?P<address>[\w.:%-]{2,80})<(?P<port>\d{1,5})>"
#: An address as gloo writes it: ``[10.0.0.5]:43210``.
_GLOO_ADDRESS = r"\[(?P<address>[^\]\s]{2,80})\]:(?P<port>\d{1,5})"

# fmt: off
ROWS: tuple[Signature, ...] = (
    # a port that another process has
    *spellings("port-taken", Kind.CAUSE, ("DC401", "DC106"),
        (r"failed to listen on any local network address\. (?:port: (?P<port>\d+), )?useIpv6: \w+, "
         r"code: (?P<code>-?\d+), name: EADDRINUSE",
         "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
         "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
         "RuntimeError: The server socket has failed to listen on any local network address. useIpv6: 0, code: -98, "
         "name: EADDRINUSE, message: address already in use",
         "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
         "port: 29500, useIpv6: false, code: -48, name: EADDRINUSE, message: address already in use"),
        (r"failed to listen on any local network address\. The server socket has failed to bind to "
         r"\S{0,255}:(?P<port>\d{1,5}) \((?:errno|system error): (?P<code>98|48|10048)\b",
         "RuntimeError: The server socket has failed to listen on any local network address. The server socket has "
         "failed to bind to [::]:29500 (errno: 98 - Address already in use). The server socket has failed to bind "
         "to 0.0.0.0:29500 (errno: 98 - Address already in use).",
         "RuntimeError: The server socket has failed to listen on any local network address. The server socket has "
         "failed to bind to [lab-pc]:29500 (system error: 10048 - Only one usage of each socket address "
         "(protocol/network address/port) is normally permitted.).")),
    *spellings("port-taken", Kind.CAUSE, ("DC401",),
        (r"Tried to launch distributed communication on port `(?P<port>\d{1,5})`, but another process is utilizing it",
         "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is "
         "utilizing it. Please specify a different port (such as using the `--main_process_port` flag or specifying "
         "a different `main_process_port` in your config file) and rerun your script.")),
    *spellings("bind-tried", Kind.NOTICE, ("DC401",),
        (r"The server socket has failed to bind to \S{0,255}:(?P<port>\d{1,5}) "
         r"\((?:errno|system error): (?P<code>98|48|10048)\b",
         "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already "
         "in use).")),
    *spellings("listen-failed", Kind.FAILURE, ("DC401",),
        (r"The server socket has failed to listen on any local network address",
         "[E socket.cpp:462] [c10d] The server socket has failed to listen on any local network address.")),
    *spellings("address-in-use", Kind.NOTICE, ("DC401",),
        (r"(?i)address already in use",
         "RuntimeError: Address already in use",
         "OSError: [Errno 98] Address already in use",
         "RuntimeError: [/opt/gloo/gloo/transport/tcp/device.cc:128] bind: Address already in use")),
    *spellings("port-of-another", Kind.CAUSE, ("DC401",),
        (r"Ping failed, invalid value returned from server\. Expected: \d+, Got: (?P<got>\d+)",
         "torch.distributed.DistNetworkError: Ping failed, invalid value returned from server. Expected: 23946, "
         "Got: 1347703880")),
    # a master that does not answer
    *spellings("client-timeout", Kind.TIMEOUT, ("DC403", "DC404", "DC408", "DC411"),
        (r"The client socket has timed out after (?P<waited>\d+ ?m?s) while trying to connect to " + _PAIR,
         "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect "
         "to (10.0.0.4, 29500).",
         "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to (node01, "
         "29400).")),
    *spellings("client-timeout", Kind.TIMEOUT, ("DC403", "DC404", "DC408", "DC411"),
        (r"The client socket has timed out after (?P<waited>\d+ ?m?s) while trying to connect to "
         r"\[?(?P<host>[^\s(),\]]{1,255})\]?:(?P<port>\d{1,5})\b",
         "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to "
         "10.0.0.4:29500")),
    *spellings("client-timeout", Kind.TIMEOUT, ("DC403",),
        (r"connect\(\) timed out\. Original timeout was (?P<waited>\d+ ms)",
         "RuntimeError: connect() timed out. Original timeout was 1800000 ms.")),
    *spellings("client-retry", Kind.NOTICE, ("DC403",),
        (r"TCP client failed to connect/validate to host (?P<host>\S{0,255}):(?P<port>\d{1,5}) - retrying "
         r"\(try=(?P<tried>\d+)",
         "[W1119 08:12:44.120331 TCPStore.cpp:343] [c10d] TCP client failed to connect/validate to host "
         "node01:29500 - retrying (try=0, timeout=300000ms, delay=1204ms): Interrupted system call"),
        (r"The server socket on \[?(?P<host>\S{1,255}?)\]?:(?P<port>\d{1,5}) (?:is not yet listening|has timed out)"
         r"[^\r\n]{0,80}, will retry",
         "[W416 15:12:21.131066630 socket.cpp:933] [c10d] The server socket on [::ffff:10.0.0.4]:38405 has timed out, "
         "will retry.",
         "[I socket.cpp:524] [c10d - debug] The server socket on [node01]:29500 is not yet listening (errno: 111 - "
         "Connection refused), will retry.")),
    *spellings("client-failed", Kind.FAILURE, ("DC403", "DC404", "DC411"),
        (r"The client socket has failed to connect to any network address of " + _PAIR,
         "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of "
         "(node01, 29500). The client socket has failed to connect to node01:29500 (errno: 113 - No route to host).")),
    *spellings("client-tried", Kind.NOTICE, ("DC403", "DC404"),
        (r"The client socket (?:has failed|cannot be initialized) to connect to \[?(?P<host>[^\s\]]{0,255}?)\]?:"
         r"(?P<port>\d{1,5})(?: \((?:errno|system error): (?P<code>\d+) - (?P<why>[^()]{1,80}))?",
         "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node01]:29500 (errno: 110 - "
         "Connection timed out).",
         "[W socket.cpp:697] [c10d] The client socket has failed to connect to [lab-pc]:29500 (system error: 10061 "
         "- No connection could be made because the target machine actively refused it.).",
         "[W socket.cpp:697] [c10d] The client socket has failed to connect to [lab-pc]:61215")),
    *spellings("rendezvous-connection", Kind.FAILURE, ("DC403", "DC404", "DC408"),
        (r"The connection to the C10d store has failed",
         "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has "
         "failed. See inner exception for details.")),
    *spellings("connect-failed", Kind.NOTICE, ("DC403",),
        (r"Error: (?:\[Errno \d+\] )?(?P<why>Connection refused|No route to host|Connection timed out|"
         r"Network is unreachable)",
         "RuntimeError: Connection refused",
         "RuntimeError: No route to host",
         "OSError: [Errno 113] No route to host")),
    *spellings("store-host", Kind.RECORD, (),
        (r"hosts the TCP store for the C10d rendezvous backend",
         "INFO: Process 4711 hosts the TCP store for the C10d rendezvous backend.")),
    # names
    *spellings("name-unresolved", Kind.NOTICE, ("DC404",),
        (r"network addresses of " + _PAIR
         + r" cannot be retrieved \((?:gai )?error: (?P<code>-?\d+) - (?P<why>[^()]{1,80})\)",
         "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node07, 29500) cannot be retrieved (gai error: "
         "-2 - Name or service not known).",
         "[W socket.cpp:601] [c10d] The IPv4 network addresses of (node07, 29500) cannot be retrieved (gai error: "
         "-3 - Temporary failure in name resolution).",
         "[W socket.cpp:438] [c10d] The IPv6 network addresses of (Labs-Mac.local, 59319) cannot be retrieved (gai "
         "error: 8 - nodename nor servname provided, or not known).")),
    *spellings("host-not-found", Kind.CAUSE, ("DC404",),
        (r"\bhost not found: (?P<why>[\w ,]{4,80})",
         "ValueError: host not found: Name or service not known",
         "Rank -1 received an Exception. Detailed message: host not found: Name or service not known")),
    *spellings("ssh-name-unresolved", Kind.NOTICE, ("DC404",),
        (r"\bssh: Could not resolve hostname (?P<host>\S{1,255}): (?P<why>[\w ,]{4,80})",
         "ssh: Could not resolve hostname node01: Name or service not known",
         "node02: ssh: Could not resolve hostname node01: Temporary failure in name resolution")),
    #: git, scp and rsync, which use ssh as well
    *spellings("ssh-of-a-copy", Kind.RECORD, (),
        (r"Could not read from remote repository", "fatal: Could not read from remote repository."),
        (r"\bscp: Connection closed|\brsync: connection unexpectedly closed",
         "scp: Connection closed",
         "rsync: connection unexpectedly closed (0 bytes received so far) [sender]")),
    *spellings("name-exception", Kind.NOTICE, ("DC404",),
        (r"gaierror: \[Errno (?P<code>-?\d+)\] (?P<why>[\w ,]{4,80})",
         "socket.gaierror: [Errno -2] Name or service not known",
         "socket.gaierror: [Errno -3] Temporary failure in name resolution")),
    *spellings("docker-desktop", Kind.NOTICE, ("DC404",),
        (r"failed to connect to \[?kubernetes\.docker\.internal\]?:(?P<port>\d{1,5}) \(system error: (?P<code>\d+)",
         "[W socket.cpp:663] [c10d] The client socket has failed to connect to [kubernetes.docker.internal]:29500 "
         "(system error: 10049 - The requested address is not valid in its context.).")),
    # gloo's own connections
    *spellings("gloo-connect", Kind.FAILURE, ("DC405", "DC411", "DC412"),
        (r"[\] ]SO_ERROR: " + _WHY + r", remote=" + _GLOO_ADDRESS,
         "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:153] "
         "timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:56240",
         "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:153] "
         "timed out connecting: SO_ERROR: Connection timed out, remote=[10.0.0.5]:41877"),
        (r"connect " + _GLOO_ADDRESS + r": " + _WHY,
         "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:761] connect "
         "[127.0.1.1]:24573: Connection refused",
         "RuntimeError: [/opt/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.5]:8914: No "
         "route to host")),
    *spellings("gloo-connect", Kind.FAILURE, ("DC412",),
        (r"(?P<why>Connect timeout) (?:\[none\]|" + _GLOO_ADDRESS + r")",
         "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:562] Connect timeout [10.0.0.5]:41877",
         "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.h:311] "
         "Connect timeout [none]")),
    *spellings("gloo-tried", Kind.NOTICE, (),
        (r"failed to connect, willRetry=(?P<again>[01]), .{0,120}remote=" + _GLOO_ADDRESS,
         "[/pytorch/third_party/gloo/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=1, "
         "retry=1, retryLimit=3, rank=1, size=2, local=[10.0.0.5]:41022, remote=[127.0.1.1]:56240, error=SO_ERROR: "
         "Connection refused, remote=[127.0.1.1]:56240")),
    *spellings("gloo-loopback", Kind.NOTICE, ("DC405",),
        (r"Unable to resolve hostname to a \(local\) address\. Using the loopback address as fallback",
         "[W ProcessGroupGloo.cpp:524] Warning: Unable to resolve hostname to a (local) address. Using the loopback "
         "address as fallback. Manually set the network interface to bind to with GLOO_SOCKET_IFNAME.")),
    *spellings("gloo-interface", Kind.CAUSE, ("DC407",),
        (r"Unable to find address for: (?P<name>[^\n]{0,80})",
         "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. "
         "Unable to find address for: ^lo",
         "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. "
         "Unable to find address for: ib0")),
    *spellings("gloo-interface", Kind.CAUSE, ("DC407", "DC405"),
        (r"Unable to find interface for: \[?(?P<address>[^\]\s]{1,80})",
         "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:151] ifa != "
         "nullptr. Unable to find interface for: [0.0.0.17]")),
    # NCCL's own connections
    *spellings("nccl-connect", Kind.FAILURE, ("DC412", "DC411"),
        (r"onnect to " + _NCCL_ADDRESS + r" returned (?P<why>[^,]{4,80}), exceeded error retry count",
         "node02:4711:4900 [1] misc/socket.cc:544 NCCL WARN socketPollConnect: connect to 10.0.0.5<43210> returned "
         "Connection timed out, exceeded error retry count after 35 attempts",
         "node02:4711:4900 [1] os/linux.cc:200 NCCL WARN ncclOsSocketPollConnect: connect to 10.0.0.5<37857> "
         "returned Connection refused, exceeded error retry count after 35 attempts")),
    *spellings("nccl-connect", Kind.FAILURE, ("DC412",),
        (r"connect returned (?P<why>[^,]{4,80}), exceeded error retry count",
         "node02:4711:4900 [1] misc/socket.cc:544 NCCL WARN socketPollConnect: connect returned Connection refused, "
         "exceeded error retry count (35)")),
    *spellings("nccl-connect", Kind.FAILURE, ("DC412", "DC411"),
        (r"Connect to " + _NCCL_ADDRESS + r" failed ?: " + _WHY,
         "node02:4711:4900 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.5<45763> failed : "
         "Software caused connection abort",
         "node02:4711:4900 [0] include/socket.h:361 NCCL WARN Net : Connect to 10.0.0.5<45763> failed : No route to "
         "host"),
        (r"Connect to " + _NCCL_ADDRESS + r" returned \d+\((?P<why>[^()]{4,80})\)",
         "node02:4711:4900 [1] misc/socket.cc:536 NCCL WARN socketPollConnect: Connect to 10.0.0.5<43210> returned "
         "110(Connection timed out) errno 115")),
    *spellings("nccl-connect", Kind.FAILURE, ("DC412",),
        (r"Call to connect (?:to (?P<address>[\w.:%-]{2,80})<(?P<port>\d{1,5})> )?failed ?: " + _WHY,
         "node02:4711:4900 [1] include/socket.h:403 NCCL WARN Call to connect failed : Connection timed out",
         "node02:4711:4900 [1] misc/socket.cc:403 NCCL WARN Call to connect to 10.0.0.5<43210> failed: Connection "
         "timed out"),
        (r"Call to connect (?P<why>timeout|timed out)",
         "node02:4711:4900 [1] include/socket.h:401 NCCL WARN Call to connect timeout"),
        (r"socketPollConnect poll\(\) (?:returned 1, no POLLOUT|failed, ret \d+, error (?P<why>[^,]{4,80}))",
         "node02:4711:4900 [1] misc/socket.cc:586 NCCL WARN socketPollConnect poll() returned 1, no POLLOUT events",
         "node02:4711:4900 [1] misc/socket.cc:602 NCCL WARN socketPollConnect poll() failed, ret 1, error "
         "Connection timed out, revents 8, connect to 10.0.0.5:39953")),
    *spellings("nccl-connect-tried", Kind.NOTICE, (),
        (r"onnect (?:to (?P<address>[\w.:%-]{2,80})<(?P<port>\d{1,5})> )?returned (?P<why>[^,]{4,80}), retrying",
         "node02:4711:4900 [1] NCCL INFO Call to connect returned Connection refused, retrying",
         "node02:4711:4900 [1] NCCL INFO socketPollConnect: connect to 10.0.0.5<43210> returned Connection timed "
         "out, retrying (1/34) after sleep for 100 msec")),
    # the connections of MPI
    *spellings("mpi-connect", Kind.FAILURE, ("DC412", "DC411"),
        (r"UCX +ERROR +connect\(fd=\d+, dest_addr=(?P<address>[\w.:%]{2,64}):(?P<port>\d{1,5})\) failed: " + _WHY,
         "[1763797405.440877] [node01:4711 :0]            sock.c:323  UCX  ERROR   connect(fd=48, "
         "dest_addr=10.0.0.5:42887) failed: Connection refused")),
    # noise of half a network
    *spellings("ipv6-noise", Kind.NOTICE, ("DC409",),
        (r"errno: (?P<code>97) - Address family not supported by protocol",
         "[W socket.cpp:436] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address "
         "family not supported by protocol).")),
    *spellings("reverse-name-noise", Kind.NOTICE, ("DC409",),
        (r"The hostname of the client socket cannot be retrieved\. err=(?P<code>-?\d+)",
         "[W1119 08:12:44.120331 socket.cpp:752] [c10d] The hostname of the client socket cannot be retrieved. "
         "err=-3")),
)
# fmt: on
