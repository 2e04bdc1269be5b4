"""Commands of `fedsgt`, each in a file of its own."""
