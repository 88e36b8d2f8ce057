"""Who may do what: RBAC."""
