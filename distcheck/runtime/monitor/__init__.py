"""``watch``: a side thread in each rank of the user's job that reports hangs and stragglers."""
