import argparse

parser = argparse.ArgumentParser()
parser.add_argument("tool")
parser.add_argument("rest", nargs=argparse.REMAINDER)
print(parser.parse_args())
