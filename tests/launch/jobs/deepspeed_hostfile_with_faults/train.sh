#!/bin/bash
export NCCL_SOCKET_IFNAMES=bond0 # expect: DC110
deepspeed --hostfile hostfile main.py --deepspeed --deepspeed_config ds.json
