#!/bin/bash
# Options first, then one of the ways to start.
NPROC=8
MODE=node
while [[ $# -gt 0 ]]; do
  case $1 in
    -n|--nproc) NPROC="$2"; shift 2 ;;
    --debug) DEBUG=1; shift ;;
    -m|--mode) MODE="$2"; shift 2 ;;
    --) shift; break ;;
    *) echo "unknown option $1" >&2; exit 64 ;;
  esac
done

if [ -n "$DEBUG" ]; then
  NPROC=1
  export CUDA_LAUNCH_BLOCKING=1 TORCH_DISTRIBUTED_DEBUG=DETAIL
fi

: "${CUDA_VISIBLE_DEVICES:=0,1,2,3,4,5,6,7}"
export CUDA_VISIBLE_DEVICES

case "$MODE" in
  node)    torchrun --standalone --nproc_per_node="$NPROC" train.py "$@" ;;
  spawn)   python train_spawn.py --gpus "$NPROC" "$@" ;;
  slurm)   sbatch --nodes=2 --wrap "srun python train.py $*" ;;
  *)       exit 1 ;;
esac
