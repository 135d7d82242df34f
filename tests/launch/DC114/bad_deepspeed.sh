export CUDA_HOME=/usr/local/cuda/
export NCCL_P2P_DISABLE=1  # expect: DC114
deepspeed --include localhost:0,1 pretrain_clm.py --train_files data.txt
