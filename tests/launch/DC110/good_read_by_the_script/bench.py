import os

print(os.environ["NCCL_BENCH_SIZES"].split(","))
