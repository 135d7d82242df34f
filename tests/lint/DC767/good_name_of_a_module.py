"""A random name keeps imported modules and temporary files apart; the port is what stands in them."""

import importlib
import os
import shutil
import uuid

import settings_store
import torch.distributed as dist


def load(path):
    name = f"settings_{uuid.uuid4().hex}"
    shutil.copyfile(path, f"{name}.py")
    module = importlib.import_module(name)
    return module.settings()


class Job:
    def __init__(self, path):
        self.settings = load(path)
        self.stored = settings_store.open_copy(path, f"copy-{uuid.uuid4()}")

    def start(self):
        os.environ["MASTER_ADDR"] = self.stored.address
        os.environ["MASTER_PORT"] = str(self.stored.port)
        dist.init_process_group("gloo", init_method=self.settings.init_method, rank=int(os.environ["RANK"]), world_size=4)
        os.makedirs(getattr(importlib.import_module(f"names_{uuid.uuid4().hex}"), "folder"), exist_ok=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    Job("settings.py").start()
