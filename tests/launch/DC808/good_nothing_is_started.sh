# read by our own tool
NCCL_SOCKET_IFNAME=eth0
echo "interface: $NCCL_SOCKET_IFNAME"
