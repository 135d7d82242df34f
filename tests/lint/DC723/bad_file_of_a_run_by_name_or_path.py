import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_name_or_path", required=True)
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    state = os.path.join(args.model_name_or_path, "optimizer.pt")
    optimizer.load_state_dict(torch.load(state, weights_only=True))  # expect: DC723
    if dist.get_rank() == 0:
        torch.save(optimizer.state_dict(), state)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
