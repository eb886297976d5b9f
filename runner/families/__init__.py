"""Tries model families: whether a configuration trains, resumes, exports and reloads."""
