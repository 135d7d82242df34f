docker run --gpus all --shm-size=16g img torchrun --standalone --nproc-per-node=8 train.py
docker run --gpus all --shm-size 16g img torchrun --standalone --nproc-per-node=8 train.py
docker run --gpus all --ipc=host img torchrun --standalone --nproc-per-node=8 train.py
docker run --gpus all -v /dev/shm:/dev/shm img torchrun --standalone --nproc-per-node=8 train.py
docker run --gpus '"device=0"' img python train.py
docker run $DOCKER_OPTS img torchrun --standalone --nproc-per-node=8 train.py
