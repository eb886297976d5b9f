"""Recorded trajectories of references, and those that users bring from their own runs."""
