import os


def is_main():
    return os.environ.get("RANK", "0") == "0"


def is_first_here():
    return os.environ["LOCAL_RANK"] in ("0", "-1")


def mixed(value=os.environ.get("SLURM_PROCID", "0")):
    return value in (0, "0")
