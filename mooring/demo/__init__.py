"""Stories that Mooring tells by itself: each brings up a cluster, and checks what comes of what it does."""
