docker run --gpus all --ipc=host img torchrun --standalone --nproc-per-node=gpu train.py
docker run --runtime=nvidia --ipc=host img torchrun --standalone --nproc-per-node=gpu train.py
nvidia-docker run --ipc=host img torchrun --standalone --nproc-per-node=gpu train.py
podman run --device nvidia.com/gpu=all --ipc=host img torchrun --standalone --nproc-per-node=gpu train.py
