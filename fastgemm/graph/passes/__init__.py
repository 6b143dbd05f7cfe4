"""Passes: each takes a graph and returns one that means the same."""
