#!/bin/bash
for seed in 1 2; do
  bash seed.sh $seed &  # expect: DC813=info
done
wait
