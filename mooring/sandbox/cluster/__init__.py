"""A whole cluster in one process: the embedded API server, controllers, fake nodes and the scheduler."""
