"""Statistics of two runs' evidence, one module per kind of artefact. See `runner.compare`."""
