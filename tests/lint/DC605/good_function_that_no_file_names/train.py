import torch
import torch.distributed as dist
from apply import replicate

# outputs = parallel_apply(replicas, inputs)


def main():
    dist.init_process_group("gloo")
    replicas = replicate(torch.nn.Linear(2, 2), 2)
    print(len(replicas))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
