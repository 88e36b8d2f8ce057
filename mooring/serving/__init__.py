"""What a scheduler serves over HTTPS: health, metrics, its configuration and its decisions."""
