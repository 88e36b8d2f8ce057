"""The network inside a sandbox cluster, in memory: no socket is opened, whatever a user asks for."""
