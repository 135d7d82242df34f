import argparse

parser = argparse.ArgumentParser()
for name in dir(argparse):
    parser.add_argument(f"--{name}")
print(parser.parse_args())
