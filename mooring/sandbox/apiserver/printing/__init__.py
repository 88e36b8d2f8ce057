"""Tables: the columns that `kubectl get` shows of each kind."""
