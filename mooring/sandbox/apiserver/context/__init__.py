"""What every request handler receives: the API's shared state, resources and their contracts, the write."""
