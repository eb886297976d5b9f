"""Does a recipe fit, and what does a step cost? Closed formulas, standard library only.

From published facts to a `Plan`: `facts` reads a recipe and a model's public configuration into
an `Architecture`; `weights` lists its tensors; `layout` holds the parallel dimensions; `flops`,
`memory_fsdp2`, `memory_mcore`, `communication` and `timing` are pure formulas; `make` puts them
together; `changes` and `suggest` vary the layout; `trace` compares with ``runner.plan_trace``.
"""
