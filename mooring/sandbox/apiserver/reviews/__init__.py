"""Kinds that are questions: they are answered, not stored."""
