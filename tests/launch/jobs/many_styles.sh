#!/usr/bin/env bash
# One script for a laptop, a node and a cluster: which one is chosen by its first argument.
set -Eeuo pipefail
shopt -s nullglob

readonly SCRIPT=src/train.py
declare -a COMMON=(--config "${CONFIG:-configs/base.yaml}" --workers 8)

usage() {
  cat <<'USAGE'
usage: many_styles.sh laptop|node|cluster [NODES]

  cluster   sbatch, e.g. torchrun --nnodes=4 train.py --nproc_per_node=8
USAGE
  exit 64
}

gpus() {
  local count
  count=$(nvidia-smi -L 2>/dev/null | wc -l)
  echo "${count:-0}"
}

laptop() {
  CUDA_VISIBLE_DEVICES="" torchrun --standalone --nproc_per_node=2 "$SCRIPT" "${COMMON[@]}" --backend gloo "$@"
}

node() {
  local n
  n=$(gpus)
  (( n > 0 )) || { echo "no GPU" >&2; return 1; }
  torchrun --standalone --nproc_per_node="$n" "$SCRIPT" "${COMMON[@]}" "$@"
}

cluster() {
  local nodes=${1:-2}; shift || true
  sbatch --nodes="$nodes" --ntasks-per-node=1 --gpus-per-node=8 <<EOF
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --time=12:00:00
HEAD=\$(scontrol show hostnames "\$SLURM_JOB_NODELIST" | head -n1)
srun torchrun --nnodes=$nodes --nproc_per_node=8 --rdzv_id=\$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=\$HEAD:29400 $SCRIPT ${COMMON[*]} $*
EOF
}

case "${1:-}" in
  laptop|node|cluster) "$@" ;;
  -h|--help|*) usage ;;
esac
