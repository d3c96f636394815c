"""Files that carry PTX: executables, libraries, fat binaries; what is in them and where.

Invariant: nothing in a file is trusted: every offset and size is checked before it is used, what is wrong is a problem with a place and never an
exception, and what is unpacked is bounded.
"""

from ptxgraft.containers.fatbin import FATBIN_MAGIC, Member, fat_binaries, unpacked
from ptxgraft.containers.scan import Extraction, Found, Problem, extract, module_hashes

__all__ = ["FATBIN_MAGIC", "Extraction", "Found", "Member", "Problem", "extract", "fat_binaries", "module_hashes", "unpacked"]
