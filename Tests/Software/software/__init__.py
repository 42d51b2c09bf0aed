"""Real programs on a mount and beside it: what each item does, and the comparison of both sides."""
