import os

import torch.multiprocessing as mp


def main() -> None:
    context = mp.get_context("spawn")
    results = context.SimpleQueue()

    def run(index: int) -> None:
        results.put(index * os.getpid())

    processes = [context.Process(target=run, args=(index,)) for index in range(2)]  # expect: DC605
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
