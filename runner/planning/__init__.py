"""Tracing a training step without data or devices, to plan its memory and traffic."""
