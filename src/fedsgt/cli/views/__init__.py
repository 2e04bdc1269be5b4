"""Texts and pictures that commands show; a view asks for nothing and changes nothing."""
