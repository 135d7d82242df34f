#!/bin/bash
make solver
mpirun -np 8 -H node1:4,node2:4 bash solve.sh
echo done
