# one process, as for a debugger
export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500
python -m pdb train.py
RANK=0 WORLD_SIZE=2 python train.py &
RANK=1 WORLD_SIZE=2 python train.py &
wait
