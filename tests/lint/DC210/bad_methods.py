import os


def prepare(count):
    os.environ.setdefault("MASTER_PORT", 12355)  # expect: DC210
    os.environ.update(WORLD_SIZE=len(count))  # expect: DC210
    os.environ.update({"NODE_RANK": 0, "MASTER_ADDR": "127.0.0.1"})  # expect: DC210
    os.putenv("OMP_NUM_THREADS", 8)  # expect: DC210
