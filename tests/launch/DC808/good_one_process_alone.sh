#!/bin/bash
# no rank and no number of ranks: this process forms no group, and reads no port
MASTER_PORT=$(shuf -n 1 -i 10000-30000)
python3 -m retrieval.filter --bsize 256
