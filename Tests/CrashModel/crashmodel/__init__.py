"""A small model of sections 5 and 6 of the volume format: files, crashes, epochs, write orders and recovery."""
