"""Speed and memory, ours beside the obvious alternatives in one run: `make bench`."""
