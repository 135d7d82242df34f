import argparse

parser = argparse.ArgumentParser(fromfile_prefix_chars="@")
parser.add_argument("--batch_size", type=int)
print(parser.parse_args())
