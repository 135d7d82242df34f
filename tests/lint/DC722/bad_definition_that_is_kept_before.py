"""The first definition is used, or kept, before the second one replaces it."""

import os

import torch.distributed as dist


def save(folder, model):
    if not os.path.exists(folder):
        os.makedirs(folder)  # expect: DC722
    print(model)


save_on_all = save


def save(folder, model):
    if dist.get_rank() == 0:
        save_on_all(folder, model)


if os.name == "posix":

    def prepare(folder):
        if not os.path.exists(folder):
            os.makedirs(folder)  # expect: DC722

else:

    def prepare(folder):
        os.makedirs(folder, exist_ok=True)


def main(folder="checkpoints"):
    dist.init_process_group("gloo")
    prepare(folder)
    save_on_all(folder, None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
