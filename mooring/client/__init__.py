"""The port to the cluster and its adapters."""
