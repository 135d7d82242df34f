import torch.distributed as dist

if __name__ == "__main__":
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        dist.barrier()  # expect: DC701
    dist.destroy_process_group()
