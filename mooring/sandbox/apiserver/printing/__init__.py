"""Tables: the columns that `kubectl get` shows of each kind, as the API server words them."""
