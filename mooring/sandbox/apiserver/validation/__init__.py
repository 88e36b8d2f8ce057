"""What may be written: rules shared by kinds, and those of each kind."""
