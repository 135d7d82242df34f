#!/bin/bash
python prepare.py
mpirun -np 8 -H node1:4,node2:4 bash rank.sh || exit
rm -f rank.sh
