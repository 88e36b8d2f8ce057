"""The commands of the small shell, by theme: those whose effect is known without running them."""
