"""Admission plugins: what the server adds to objects, and what it rejects beyond validation."""
