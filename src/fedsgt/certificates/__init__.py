"""Signed certificates of deletions: their content, signatures and keys."""
