"""CustomResourceDefinition: kinds that come and go while the server runs, and the schemas that describe
them."""
