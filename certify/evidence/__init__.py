"""Evidence: what a campaign leaves behind, in one file that anybody can check.

A bundle is written by `certify.evidence.bundle`, signed by `attest` and `keys`, and checked by
`verify`. Standard library only: checking needs neither torch nor a network nor a database.
"""
