"""What Flower loads; all of it is in the installed package."""
