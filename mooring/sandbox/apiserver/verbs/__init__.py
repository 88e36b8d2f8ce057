"""The verbs of the API, without HTTP: one module per verb."""
