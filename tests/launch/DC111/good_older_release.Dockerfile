FROM pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime
ENV NCCL_ASYNC_ERROR_HANDLING=1
ENTRYPOINT ["torchrun", "--standalone", "--nproc_per_node=8", "/app/train.py"]
