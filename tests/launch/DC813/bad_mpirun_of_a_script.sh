#!/bin/bash
cat > rank.sh <<'EOF'
export RANK=$OMPI_COMM_WORLD_RANK
python train.py
EOF
mpirun -np 8 -H node1:4,node2:4 bash rank.sh  # expect: DC813=info
rm -f rank.sh
