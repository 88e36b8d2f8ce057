"""Defaults by kind: functions that fill in what clients left out, one file per group."""
