"""API aggregation: groups that other API servers serve, which APIServices with a `spec.service` name."""
