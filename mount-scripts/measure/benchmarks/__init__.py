"""The parts of the benchmark: peers, fixtures, rows, results, and the tables and the plot that are made of them."""
