"""The public Python interface, which `fedsgt` exports and the command line calls."""
