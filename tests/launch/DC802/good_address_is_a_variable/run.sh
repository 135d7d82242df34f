#!/bin/bash
cd "$(dirname "$0")"
export MEETING=tcp://10.0.0.1:29611
srun python fit.py
