"""The cluster in columns: node table, pods on nodes, counts, and what-if views of them."""
