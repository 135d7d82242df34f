import os


def claim(port=12355, rank=None):
    port = str(port)
    os.environ["MASTER_PORT"] = port
    rank = 0 if rank is None else rank
    os.environ["RANK"] = str(rank)
    os.environ["NODE_RANK"] = "0" if rank == 0 else "1"
    os.environ["LOCAL_RANK"] = os.environ.get("SLURM_LOCALID") or "0"
