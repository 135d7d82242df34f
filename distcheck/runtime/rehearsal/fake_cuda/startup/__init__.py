"""The folder that stands on PYTHONPATH of Pythons that a rehearsed script starts."""
