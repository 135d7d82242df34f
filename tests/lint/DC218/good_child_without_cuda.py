import torch
import torch.multiprocessing as mp


def child(queue):
    queue.put("ready")


def main():
    torch.cuda.init()
    queue = mp.Queue()
    process = mp.Process(target=child, args=(queue,))
    process.start()
    print(queue.get())
    process.join()


if __name__ == "__main__":
    main()
