"""`python -m fedsgt` is the `fedsgt` command."""

from fedsgt.cli import main

if __name__ == "__main__":
    main()
