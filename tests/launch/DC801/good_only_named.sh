# python -m torch.distributed.launch --nproc_per_node=8 train.py
echo "use torchrun instead of python -m torch.distributed.launch"
cat <<EOF
python -m torch.distributed.launch --nproc_per_node=8 train.py
EOF
grep -rn "torch.distributed.launch" scripts/ || true
torchrun --standalone --nproc_per_node=8 train.py
