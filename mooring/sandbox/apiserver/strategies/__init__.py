"""What is particular to kinds: one class per kind that differs, in files by group."""
