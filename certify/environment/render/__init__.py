"""Verdicts in words: text for people, JSON, markdown for issues, JUnit."""
