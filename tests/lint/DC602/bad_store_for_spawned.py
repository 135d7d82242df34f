import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank: int, store: dist.TCPStore, world_size: int) -> None:
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    store = dist.TCPStore("localhost", 0, is_master=True)
    mp.spawn(worker, args=(store, 2), nprocs=2)  # expect: DC602


if __name__ == "__main__":
    main()
