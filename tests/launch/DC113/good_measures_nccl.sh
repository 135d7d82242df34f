NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -e 4G -f 2 -g 8
NCCL_DEBUG=INFO mpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG ./build/all_reduce_perf -b 1G -e 4G -f 2 -g 1
