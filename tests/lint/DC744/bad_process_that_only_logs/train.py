import os

import connect
import torch
import torch.distributed as dist


def write_lines(queue):
    for line in iter(queue.get, None):
        print(line)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    writer = context.Process(target=write_lines, args=(queue,))
    writer.start()
    rank = connect.join_group()
    queue.put(f"{rank} of {dist.get_world_size()}")
    queue.put(None)
    writer.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
