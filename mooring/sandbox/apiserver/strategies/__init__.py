"""Strategies of kinds that differ from the base class, in files by group."""
