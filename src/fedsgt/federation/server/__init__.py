"""The server's side of a federation: desk, SuperLink, tasks and registered clients."""
