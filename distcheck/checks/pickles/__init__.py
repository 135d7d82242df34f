"""Live objects and pickle or checkpoint files: what can't be pickled, and what loading a file would do.

Nothing that a file names is imported or called. A symbolic machine reads the opcodes of a pickle and records them.
"""
