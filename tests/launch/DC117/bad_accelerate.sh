nohup accelerate launch --config_file configs/two_gpus.yaml train.py &> out.log & # expect: DC117
disown
