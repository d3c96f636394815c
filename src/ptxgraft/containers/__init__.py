"""Files that carry PTX: executables, libraries, fat binaries; what is in them and where.

Invariant: nothing in a file is trusted: every offset and size is checked before it is used, what is wrong is a problem with a place and never an
exception, and what is unpacked is bounded.
"""

from ptxgraft.containers.cubin import variable_names
from ptxgraft.containers.fatbin import CUBIN, FATBIN_MAGIC, PTX, Member, fat_binaries, members_of, unpacked
from ptxgraft.containers.images import kind_of, ptx_of, variables_of
from ptxgraft.containers.scan import Extraction, Found, Problem, extract, module_hashes

__all__ = [
    "CUBIN", "FATBIN_MAGIC", "PTX", "Extraction", "Found", "Member", "Problem", "extract", "fat_binaries", "kind_of", "members_of", "module_hashes",
    "ptx_of", "unpacked", "variable_names", "variables_of",
]  # fmt: skip
