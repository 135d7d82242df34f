#!/bin/bash
OFFLINE= python prepare.py
LEVEL= ./tools/prepare.sh --fast
IFS= read -r NAME < name.txt
UNUSED = 4
LATER = 5
LATER=5
cat <<'EOF'
SEED = 3
EOF
torchrun --standalone --nproc-per-node=8 train.py --name "$NAME" --later $LATER --seed $SEED --offline "$OFFLINE"
