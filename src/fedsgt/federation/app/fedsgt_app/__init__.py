"""The Flower app, whose code is all in the installed package."""
