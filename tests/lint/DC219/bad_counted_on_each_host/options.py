import argparse


def get_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hostfile", default="hosts.txt")
    parser.add_argument("--num_nodes", type=int, default=2)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--address", required=True)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=None)
    return parser.parse_args()
