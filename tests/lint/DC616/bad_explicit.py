from torch.distributed import recv_object_list, send_object_list


def pass_on(rank, items):
    if rank == 0:
        send_object_list(items, dst=1)
    else:
        recv_object_list(items, src=0, weights_only=False)  # expect: DC616
    return items
