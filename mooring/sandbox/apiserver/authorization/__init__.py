"""Authorization by roles (RBAC), and the users it is about."""
