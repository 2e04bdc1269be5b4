"""Training time, passes, rounds and bytes."""
