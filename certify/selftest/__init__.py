"""The certifier certified: seeded faults in tiny runs, and which gate sees each of them.

`cases` reads the models; `trials` says what is run for each fault; `launch` runs it; `outcome`
judges the records; `table` shows what came out.
"""
