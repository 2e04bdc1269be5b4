"""The one error a person may see: what was wrong, where, and what is allowed, in one line."""


class InputError(ValueError):
    """Something given from outside is wrong. The command line prints its message alone, with exit code 2."""
