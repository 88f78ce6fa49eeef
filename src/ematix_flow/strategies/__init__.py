"""How incoming rows become a change: one strategy per mode, each a pure query over `incoming` and `target`."""
