"""Statements to something that runs: the instances of ``Lanes``, and what the warp instance is compiled with.

Invariant: every instance gives the same bits for the same meaning; nothing here knows memory, launches or control flow facts.
"""
