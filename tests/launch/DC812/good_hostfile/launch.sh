deepspeed --hostfile hostfile train.py --deepspeed_config ds.json
deepspeed --hostfile hostfile --include "worker-1:0,1@worker-2:0,1" train.py --deepspeed_config ds.json
deepspeed --hostfile=hostfile --num_nodes 1 --num_gpus 4 train.py --deepspeed_config ds.json
