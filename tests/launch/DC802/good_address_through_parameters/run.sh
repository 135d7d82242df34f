#!/bin/bash
cd "$(dirname "$0")"
mpirun -n 4 python fit.py --url "file:///shared/meeting"
