deepspeed --hostfile=hostfile train.py --deepspeed_config=ds.json
