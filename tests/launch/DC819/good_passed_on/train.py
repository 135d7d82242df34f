import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int)
args, rest = parser.parse_known_args()
print(args, rest)
