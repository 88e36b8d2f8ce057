"""What clients may leave out, by kind: functions that fill it in, one file per group."""
