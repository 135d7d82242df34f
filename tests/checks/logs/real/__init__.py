"""Jobs that really fail on this machine, and what is told of their output."""
