"""Captures: recorded kernel launches, on disk and in memory.

Invariant: this package knows no instruction and no device; both forms on disk give the same model.
"""

from ptxgraft.capture.contents import Contents
from ptxgraft.capture.directory import read_directory
from ptxgraft.capture.directory_write import write_directory
from ptxgraft.capture.image_record import ADDRESS_MODES, FILTERS, Image, Mipmaps
from ptxgraft.capture.images import FORMATS, Format, decode, encode, image_bytes, image_format, texels
from ptxgraft.capture.model import Allocation, BadLaunch, Capture, Launch, Pointer, Variable
from ptxgraft.capture.opening import convert, open_capture
from ptxgraft.capture.package import PackageWriter, package_writer, read_package, write

__all__ = [
    "ADDRESS_MODES",
    "FILTERS",
    "FORMATS",
    "Allocation",
    "BadLaunch",
    "Capture",
    "Contents",
    "Format",
    "Image",
    "Launch",
    "Mipmaps",
    "PackageWriter",
    "Pointer",
    "Variable",
    "convert",
    "decode",
    "encode",
    "image_bytes",
    "image_format",
    "open_capture",
    "package_writer",
    "read_directory",
    "read_package",
    "texels",
    "write",
    "write_directory",
]
