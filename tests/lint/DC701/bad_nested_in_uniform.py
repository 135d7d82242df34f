import torch
import torch.distributed as dist


def sync_counts(counts: torch.Tensor, verbose: bool) -> None:
    if dist.is_initialized() and dist.get_world_size() > 1:
        if not verbose:
            return
        if dist.get_rank() < 1:
            with torch.no_grad():
                try:
                    dist.all_reduce(counts)  # expect: DC701
                finally:
                    print(counts)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    sync_counts(torch.zeros(2), True)
    dist.destroy_process_group()
