#!/bin/bash
sudo sysctl -w net.ipv4.ip_local_reserved_ports=41000
export MASTER_PORT=41000
