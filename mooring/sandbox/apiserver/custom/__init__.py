"""CustomResourceDefinition: kinds that are added and removed at runtime, and their schemas."""
