"""Recording the kernel launches of any CUDA program.

Invariant: the program runs as it would without us; what it launched is in the capture or in words why not.
"""

from ptxgraft.run.recorder.building import build_library, find_compiler, find_cupti, pattern_fault
from ptxgraft.run.recorder.program import Choice, Recording, record

__all__ = ["Choice", "Recording", "build_library", "find_compiler", "find_cupti", "pattern_fault", "record"]
