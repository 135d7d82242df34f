"""Looks at a job that was not started under *watch*: its ranks, found and read from outside, without a signal."""
