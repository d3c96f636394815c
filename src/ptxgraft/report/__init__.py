"""Results for people: terminal listings, JSON, pictures, and the files they go to.

Invariant: nothing is decided here; a report shows what its result holds.
"""

from ptxgraft.report.files import arrays_file, check_target, file_stem, make_folder, write_file, write_files
from ptxgraft.report.job_results import Ended, ResultsFile, check_results, ended, settled
from ptxgraft.report.launch_arguments import arguments_of
from ptxgraft.report.listing import Listing
from ptxgraft.report.pictures import difference_rgb, plane_rgb, png_bytes, save_png
from ptxgraft.report.plain import plain
from ptxgraft.report.tables import VERDICT_STYLES, bisection_view, capture_view, launch_view, proof_view, spec_view, verdict_view
from ptxgraft.report.timings import bench_view

__all__ = [
    "VERDICT_STYLES", "Ended", "Listing", "ResultsFile", "arguments_of", "arrays_file", "bench_view", "bisection_view", "capture_view", "check_results", "check_target", "difference_rgb", "ended", "file_stem", "launch_view", "make_folder", "plain", "plane_rgb",
    "png_bytes", "proof_view", "save_png", "settled", "spec_view", "verdict_view", "write_file", "write_files",
]  # fmt: skip
