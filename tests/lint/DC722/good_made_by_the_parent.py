"""The process that starts the ranks has made the folders of the options, and one of a fixed name."""

import argparse
import os

import torch.distributed as dist
import torch.multiprocessing as mp


class Settings:
    pass


def get_settings():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="first")
    args = parser.parse_args()
    folder = os.path.join("logs", args.name)
    if not os.path.exists(folder):
        os.makedirs(folder)
    settings = Settings()
    settings.folder = folder
    settings.images = os.path.join(folder, "images")
    return settings


def get_logger(folder):
    if not os.path.exists(folder):
        os.makedirs(folder)
    return folder


def worker(rank, settings):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    get_logger(settings.folder)
    get_logger("logs/all")
    if not os.path.isdir(settings.images):
        os.mkdir(settings.images)
    dist.destroy_process_group()


def main():
    settings = get_settings()
    os.makedirs("logs/all", exist_ok=True)
    os.makedirs(settings.images, exist_ok=True)
    mp.spawn(worker, args=(settings,), nprocs=2)


if __name__ == "__main__":
    main()
