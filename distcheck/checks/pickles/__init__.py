"""Live objects and pickle or checkpoint files: what can't be pickled, and what loading a file would do.

Nothing that a file names is imported or called; a file is read as text of a small language, by a machine that
only takes notes.
"""
