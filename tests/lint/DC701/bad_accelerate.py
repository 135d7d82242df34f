from accelerate import Accelerator


def main() -> None:
    accelerator = Accelerator()
    score = 0.5
    if accelerator.is_main_process:
        print("waiting for the others", score)
        accelerator.wait_for_everyone()  # expect: DC701
    accelerator.end_training()


if __name__ == "__main__":
    main()
