from multiprocessing import Process

import torch
import torch.distributed as dist


def start(rank, size, function, args):
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=size)
    function(args)
    dist.destroy_process_group()


def train(args):
    print(dist.get_rank(), args.gpus)


def main(args):
    if args.gpus > 1:
        processes = [Process(target=start, args=(rank, args.gpus, train, args)) for rank in range(args.gpus)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            raise SystemExit(1)
    else:
        torch.cuda.set_device(0)
        start(0, args.gpus, train, args)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=1)
    main(parser.parse_args())
