"""Admission: what the server itself adds to objects, and what it refuses beyond validation."""
