"""Workloads of Kubernetes' scheduler_perf, run from their own files."""
