#!/bin/bash
export CUDA_VISIBLE_DEVICES='"0,1,2,3"' # expect: DC204
python infer.py
