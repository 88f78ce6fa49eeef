"""Systems: one file each, behind the contract of `base`."""
