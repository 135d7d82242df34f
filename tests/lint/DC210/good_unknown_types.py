import argparse
import os


def set_port(port):
    os.environ["MASTER_PORT"] = port


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", default="12355")
    parser.add_argument("--threads")
    args = parser.parse_args()
    set_port(args.port)
    if args.threads:
        os.environ["OMP_NUM_THREADS"] = args.threads


if __name__ == "__main__":
    main()
