"""Only defined here."""
import torch.multiprocessing as mp


def launch(function, world, args=()):
    return mp.spawn(function, args=(world, *args), nprocs=world)


def launch_context(function, world):
    context = mp.get_context("spawn")
    processes = [context.Process(target=function, args=(rank, world)) for rank in range(world)]
    for process in processes:
        process.start()
    return processes


start = launch
