"""The patch types of Kubernetes, on trees."""
