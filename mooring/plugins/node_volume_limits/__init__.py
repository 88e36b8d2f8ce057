"""The number of volumes that can be attached to a node."""
