import torch
import torch.distributed as dist


def reduce(tensor, how="sum"):
    output = dist.all_reduce(tensor)
    if how == "mean":
        return output / dist.get_world_size()
    return output


def main():
    dist.init_process_group("gloo")
    ones = torch.ones(1)
    reduce(ones)
    reduce(ones, how="sum")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
