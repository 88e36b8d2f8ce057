"""What there is: resources, their types, and the sieve that objects pass."""
