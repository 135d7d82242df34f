#!/bin/bash
cd "$(dirname "$0")"
srun python fit.py --batch 64 # expect: DC802
srun python fit.py --meet-at env:// # expect: DC802
