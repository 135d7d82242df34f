#!/bin/bash
read -r -d '' HELP <<'EOF'
torchrun --nnodes=2 train.py --nproc_per_node=8
export GLOO_IB_DISABLE=1
EOF
echo "$HELP"
printf '%s\n' "nohup torchrun train.py &"
python - <<'PY'
import os
os.system("torchrun train.py --nproc_per_node=8")
NCCL_SOCKET_IFNAMES = "eth0"
PY
sed -i 's/torch.distributed.launch/torchrun/' run_*.sh
grep -q "srun torchrun" job.sh && echo found
which torchrun && command -v srun
alias tr8='torchrun --standalone --nproc_per_node=8'
pip install torchrun-helper deepspeed accelerate
accelerate config default
accelerate env; deepspeed --help; torchrun --help
ds_report
git commit -m "torchrun train.py --nproc_per_node=8"
trap 'kill $(pgrep -f torchrun)' EXIT
[[ "$LAUNCH" == "torchrun --nnodes=2" ]] && true
