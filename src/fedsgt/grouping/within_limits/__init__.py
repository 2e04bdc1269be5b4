"""Find an assignment of slices to groups that keeps group sizes and the clients' limits."""
