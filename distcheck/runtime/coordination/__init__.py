"""What the live ranks of a job share: rank info, heartbeats, call records, stacks, hang detection."""
