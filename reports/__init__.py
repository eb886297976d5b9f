"""The static pages: what people send each other. Reads results, computes no verdict."""
