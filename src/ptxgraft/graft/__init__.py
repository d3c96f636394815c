"""Cuts, probes, recipe files, callee skeletons, compiled bodies and module merge.

Invariant: whatever is put into a text goes in through an ``EditScript`` over the same document; every other byte stays.
"""

from ptxgraft.graft.bodies import Body, function_body, identity_body, text_body, wrong_fragment_body
from ptxgraft.graft.check import AssembleResult, Usage, assemble, find_nvcc, find_ptxas
from ptxgraft.graft.compile_body import compile_body
from ptxgraft.graft.cut import STYLES, Cut, Cuts, cut
from ptxgraft.graft.interface import Interface, Passed
from ptxgraft.graft.merge import Merged, merge_function
from ptxgraft.graft.probe_diff import StageDifference, ValueDifference, compare_stored, paired
from ptxgraft.graft.probe_sites import probe_lines, probe_stages
from ptxgraft.graft.probes import FILL, Probe, Reading, read_probe, touched
from ptxgraft.graft.probing import probe, probe_many
from ptxgraft.graft.recipes import Applied, apply
from ptxgraft.graft.region_choice import RegionChoice

__all__ = [
    "FILL",
    "STYLES",
    "Applied",
    "AssembleResult",
    "Body",
    "Cut",
    "Cuts",
    "Interface",
    "Merged",
    "Passed",
    "Probe",
    "Reading",
    "RegionChoice",
    "StageDifference",
    "Usage",
    "ValueDifference",
    "apply",
    "assemble",
    "compare_stored",
    "compile_body",
    "cut",
    "find_nvcc",
    "find_ptxas",
    "function_body",
    "identity_body",
    "merge_function",
    "paired",
    "probe",
    "probe_lines",
    "probe_many",
    "probe_stages",
    "read_probe",
    "text_body",
    "touched",
    "wrong_fragment_body",
]  # fmt: skip
