import torch
import torch.multiprocessing as mp


def child(index):
    print(torch.ones(1).cuda() + index)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    torch.cuda.init()
    process = mp.Process(target=child, args=(1,))
    process.start()
    process.join()
