"""Decision records as a person reads them."""
