import multiprocessing
import threading


def main() -> None:
    results = multiprocessing.Queue()
    lock = threading.Lock()

    def run(index: int) -> None:
        with lock:
            results.put(index)

    processes = [multiprocessing.get_context("fork").Process(target=run, args=(index,)) for index in range(2)]
    thread = threading.Thread(target=lambda: run(3))
    thread.start()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    thread.join()


if __name__ == "__main__":
    main()
