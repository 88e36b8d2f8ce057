"""The scheduler at work on a live cluster: its client, the loop that drives it, and the process around it."""
