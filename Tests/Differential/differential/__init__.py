"""A tester that plays the same system calls on a mount and on ext4, and compares what they do."""
