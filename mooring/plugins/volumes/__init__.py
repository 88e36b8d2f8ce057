"""What the volume plugins share: claims, volumes and their nodes, CSI migration, assumed bindings."""
