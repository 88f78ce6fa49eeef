"""Plans and runs: from a declared pipeline to a finished load."""
