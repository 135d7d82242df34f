accelerate launch --config_file cluster.yaml train.py
