#!/bin/bash
for lr in 0.1 0.01; do
  qsub -l select=2:ncpus=64:ngpus=8 -j oe -N "run-$lr" <<EOF
#!/bin/bash
HEAD=\$(head -n1 "\$PBS_NODEFILE")
torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint="\$HEAD:29400" train.py # expect: DC108
EOF
done
