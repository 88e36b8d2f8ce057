"""Versions, history and watches of encoded objects; independent of kinds."""
