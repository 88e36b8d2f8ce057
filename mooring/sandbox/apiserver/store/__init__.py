"""Versions, history and watches of encoded objects; knows keys and bytes, no kinds."""
