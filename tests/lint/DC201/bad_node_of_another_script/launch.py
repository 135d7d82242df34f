import argparse

from job.worker import work

parser = argparse.ArgumentParser()
parser.add_argument("--num-machines", type=int, default=1)

if __name__ == "__main__":
    work(parser.parse_args())
