import json

import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        with open("notes.json", "w") as file:
            json.dump({"step": 1}, file)
    if rank == 0:
        with open("notes.json") as file:
            print(json.load(file))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
