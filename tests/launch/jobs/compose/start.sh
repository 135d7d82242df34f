#!/bin/sh
docker compose up --build --detach
docker compose run --rm trainer torchrun --standalone --nproc_per_node=4 eval.py
