import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, results):
    try:
        dist.init_process_group("gloo", rank=rank, world_size=2)
        dist.barrier()
        results.put(None)
    except Exception as error:
        results.put(str(error))
        raise


def main():
    results = mp.Queue()
    ranks = []
    for rank in range(2):
        process = mp.Process(target=run, args=(rank, results))
        process.start()
        ranks.append(process)
    errors = [results.get() for _ in ranks]
    for process in ranks:
        process.join()
    assert not any(errors), errors


if __name__ == "__main__":
    main()
