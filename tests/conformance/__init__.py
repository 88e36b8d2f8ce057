"""Kubernetes' own end-to-end tests against a sandbox cluster, and the published list of their results."""
