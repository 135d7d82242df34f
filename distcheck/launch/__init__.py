"""How a job is started: the launch, the one parser of launch commands, schedulers, variables and their parsers.

Imports no other topic, so that every topic can ask it.
"""
