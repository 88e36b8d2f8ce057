"""Serve HTTP: one stack for the scheduler's endpoints, extenders and the sandbox's API server.

A user brings a `Service`, which answers requests, and `Limits`. The rest is here: connections with bounds on
size, time and number, TLS with certificates that may change, and an orderly end.
"""
