"""How a job is started: the launch, the parser of launch commands, schedulers, variables and their parsers.

It imports no other topic, so that every topic can use it.
"""
