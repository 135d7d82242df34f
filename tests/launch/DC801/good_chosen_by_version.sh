if python -c "import torch, sys; sys.exit(torch.__version__ >= '1.10')"; then
  LAUNCH="$LEGACY_LAUNCHER"
else
  LAUNCH="torchrun"
fi
$LAUNCH --nproc_per_node=8 train.py
