"""A Kubernetes cluster in one process: API server, controllers, kubelets."""
