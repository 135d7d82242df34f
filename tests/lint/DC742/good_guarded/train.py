import logs


def main():
    logs.info("started")


if __name__ == "__main__":
    main()
