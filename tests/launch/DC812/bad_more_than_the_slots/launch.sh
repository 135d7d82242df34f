deepspeed --hostfile=hostfile --num_gpus=8 train.py --deepspeed_config ds.json  # expect: DC812=warning
