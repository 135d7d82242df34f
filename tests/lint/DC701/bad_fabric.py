from lightning.fabric import Fabric


def main() -> None:
    fabric = Fabric(devices=2)
    fabric.launch()
    if fabric.global_rank == 0:
        print("evaluating")
        fabric.barrier()  # expect: DC701


if __name__ == "__main__":
    main()
