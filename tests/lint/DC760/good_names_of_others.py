import mylib.distributed as dist


class Group:
    def reduce_op(self, x):
        return x

    def all_reduce_coalesced(self, parts):
        return [self.reduce_op(part) for part in parts]


def run(group, parts):
    dist.all_reduce_multigpu(parts)
    dist._all_gather_base(parts, parts)
    return Group().all_reduce_coalesced(parts) or group.all_reduce_coalesced(parts)
