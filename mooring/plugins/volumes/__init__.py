"""What the volume plugins share: claims, CSI nodes, CSI migration, watched objects."""
