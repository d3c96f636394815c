"""Containers that compiled programs keep GPU code in, and the compression used there.

Invariant: bytes in, bytes out; input that lies about its sizes is a ``SourceError``, and nothing larger than it promised is ever made.
"""

from ptxgraft.binary.cubin import variable_names
from ptxgraft.binary.fatbin import FATBIN_MAGIC, Entry, fatbin_entries, is_fatbin
from ptxgraft.binary.images import kind_of, ptx_of, variables_of
from ptxgraft.binary.lz4 import decompress_lz4
from ptxgraft.binary.zstd import decompress_zstd

__all__ = [
    "FATBIN_MAGIC",
    "Entry",
    "decompress_lz4",
    "decompress_zstd",
    "fatbin_entries",
    "is_fatbin",
    "kind_of",
    "ptx_of",
    "variable_names",
    "variables_of",
]
