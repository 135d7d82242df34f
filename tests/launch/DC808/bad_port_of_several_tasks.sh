#!/bin/bash
MASTER_PORT=29511 # expect: DC808
mpirun -np 8 python train.py
