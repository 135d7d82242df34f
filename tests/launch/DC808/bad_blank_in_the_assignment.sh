#!/bin/bash
FILE_NAME = xsum  # expect: DC808
STEP= 80000  # expect: DC808
MODEL= hub/model-7b  # expect: DC808
torchrun --standalone --nproc-per-node=8 generate.py exp.name=$FILE_NAME load_step=${STEP} --model "$MODEL"
