"""A live process group: are all ranks there, are results right, how fast is it, and who is to blame if not.

Nothing here imports torch when it is imported: workers do, after they were started.
"""
