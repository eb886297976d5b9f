"""Reads upstream documents: tables out of Markdown and HTML (`tables`), statements out of tables
(`documents`), and what is new, changed or dropped against the matrix (`compare`)."""
