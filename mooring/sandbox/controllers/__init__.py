"""The controllers of kube-controller-manager; `all_controllers` makes one of each kind."""
