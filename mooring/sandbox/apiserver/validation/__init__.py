"""Validation of objects: rules shared by kinds, and those of each kind."""
