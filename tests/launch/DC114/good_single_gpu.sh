export NCCL_P2P_DISABLE=1
export NCCL_IB_DISABLE=1
python train.py --device cuda:0
