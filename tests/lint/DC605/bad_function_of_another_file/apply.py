import torch.multiprocessing as mp


def parallel_apply(modules, inputs):
    def worker(i, module, given):
        module(given)

    context = mp.get_context("spawn")
    workers = [
        context.Process(target=worker, args=(i, module, given))  # expect: DC605
        for i, (module, given) in enumerate(zip(modules, inputs))
    ]
    for one in workers:
        one.start()


def replicate(module, count):
    return [module] * count
