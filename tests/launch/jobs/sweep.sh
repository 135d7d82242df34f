#!/bin/bash
# one GPU for each run
i=0
for lr in 1e-3 3e-4 1e-4; do
  for seed in 0 1; do
    CUDA_VISIBLE_DEVICES=$((i % 4)) nohup python train.py --lr $lr --seed $seed > logs/$lr-$seed.log 2>&1 &
    i=$((i + 1))
    [ $((i % 4)) -eq 0 ] && wait
  done
done
wait
parallel -j 4 CUDA_VISIBLE_DEVICES='$(({%} - 1))' python eval.py {} ::: out/*.pt
ls out/*.pt | xargs -n 1 -P 2 python convert.py
tmux new -d -s tb 'tensorboard --logdir out'
