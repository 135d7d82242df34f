"""The stage of a rehearsal: starts the ranks, gives each the world that it would have, and judges what they did."""
