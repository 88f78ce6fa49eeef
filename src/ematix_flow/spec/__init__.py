"""Records of what users declare."""
