import torch.distributed as dist

if __name__ == "__main__":
    dist.init_process_group("gloo")
    dist.broadcast_object_list([1], src=dist.get_global_rank(dist.group.WORLD, dist.get_rank()))  # expect: DC709=error
    dist.destroy_process_group()
