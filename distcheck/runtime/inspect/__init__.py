"""Inspects a job that runs without *watch*: finds its ranks and reads their states from outside, without a signal."""
