"""What containers would do by their command lines: how long they run, how they end, what they log."""
