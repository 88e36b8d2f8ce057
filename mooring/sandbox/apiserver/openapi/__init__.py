"""Schemas of everything that is served, as OpenAPI v2 and v3 documents."""
