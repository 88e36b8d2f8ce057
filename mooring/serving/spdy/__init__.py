"""SPDY/3.1, as clients of Kubernetes speak it to kubelets: frames, compressed headers, streams."""
