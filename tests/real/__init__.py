"""Public training scripts under ``rehearse`` and ``watch``: recipes, and a runner that fetches nothing.

``python -m tests.real CHECKOUTS`` runs them, see ``docs/real-scripts.md``.
"""
