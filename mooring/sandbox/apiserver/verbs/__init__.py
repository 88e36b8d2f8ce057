"""What may be asked of the API, without HTTP: one module per verb."""
