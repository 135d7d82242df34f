import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int)
print(parser.parse_args([]))
