"""Subresources. Status needs nothing here: it is the object, written in part."""
