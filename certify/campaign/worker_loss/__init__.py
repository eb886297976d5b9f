"""The worker-loss phase: a run whose ranks, launcher, disk and checkpoints are attacked from
outside, and that must go on by itself.

`schedule` fixes what will be done, from a seed, before launch; `supervise` is the process that
starts launcher and heartbeat and starts a lost launcher again; `inject` does the harm and proves
that it was done.
"""
