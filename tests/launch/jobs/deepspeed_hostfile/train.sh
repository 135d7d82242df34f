#!/bin/bash
set -e
OUT=${1:-out/$(date +%Y%m%d-%H%M)}
mkdir -p "$OUT"
deepspeed --hostfile hostfile --master_port 29600 \
    main.py \
    --model_name_or_path facebook/opt-1.3b \
    --per_device_train_batch_size 4 \
    --deepspeed --deepspeed_config ds_zero3.json \
    --output_dir "$OUT" &> "$OUT/training.log"
