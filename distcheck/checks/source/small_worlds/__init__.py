"""The communication of a script, followed for each rank of a small world: two, three and four ranks.

Nothing of the script is run. ``interpreter.py`` walks over the syntax tree with values of its own, and stops where a
value is not known that decides what a rank communicates. ``torch_calls.py`` knows what torch's functions return.
``world.py`` matches what the ranks call, and finds a rank that can never go on.
"""
