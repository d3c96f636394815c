"""Results for people: terminal tables, JSON, pictures.

Invariant: nothing is decided here; a report shows what its result holds.
"""

from ptxgraft.report.pictures import difference_rgb, plane_rgb, save_png
from ptxgraft.report.plain import plain
from ptxgraft.report.tables import bisection_view, capture_view, launch_view, proof_view, spec_view, table, verdict_view

__all__ = [
    "bisection_view", "capture_view", "difference_rgb", "launch_view", "plain", "plane_rgb", "proof_view", "save_png", "spec_view", "table", "verdict_view",
]  # fmt: skip
