docker run --rm --ipc=host --gpus '"device=0,1"' img torchrun --standalone --nproc_per_node=4 train.py  # expect: DC301
docker run --rm --ipc=host --gpus 2 img torchrun --standalone --nproc_per_node=4 train.py  # expect: DC301
