def announce(global_rank, text):
    if global_rank == 0:  # expect: DC209
        print(text)
