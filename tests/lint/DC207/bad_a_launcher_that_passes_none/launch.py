import argparse
import os
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("script")
    args = parser.parse_args()
    started = []
    for number in range(args.processes):
        environment = {**os.environ, "RANK": str(number), "WORLD_SIZE": str(args.processes)}
        command = [sys.executable, args.script]
        started.append(subprocess.Popen(command, env=environment))
    for process in started:
        process.wait()


if __name__ == "__main__":
    main()
