"""Everything that talks to live ranks: the smoke test, ``watch``, ``stuck`` and ``rehearse``."""
