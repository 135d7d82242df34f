import torch
import torch.distributed as dist


def validate(total):
    try:
        dist.all_reduce(total)
    except RuntimeError:
        print("failed")
        raise
    try:
        dist.barrier()
    except Exception:
        dist.destroy_process_group()
        raise SystemExit(1) from None
    return total


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    validate(torch.ones(1).cuda())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
