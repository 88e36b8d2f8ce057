"""The types of built-in kinds, and decoding objects by them."""
