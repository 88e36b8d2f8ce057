"""Bind claims to volumes, or have them provisioned, where the pod goes."""
