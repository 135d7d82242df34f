from loop import run

run()
