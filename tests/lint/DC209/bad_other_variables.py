import os

VERBOSE = os.environ.get("VERBOSE", 0) == 1  # expect: DC209=info
NODES = os.environ.get("SLURM_NNODES", "1") > 1  # expect: DC209


def threads():
    if os.environ.get("OMP_NUM_THREADS", "1") == 1:  # expect: DC209=warning
        return 1
    return int(os.environ["OMP_NUM_THREADS"]) // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
