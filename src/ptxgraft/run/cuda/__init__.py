"""Launches on a GPU through the CUDA driver.

Invariant: importing this needs neither the driver nor its package; a kernel that faults or never ends costs a child process, not this one.
"""

from ptxgraft.run.cuda.driver import Buffer, Card, Device
from ptxgraft.run.cuda.executor import availability, card, run, run_here, run_work
from ptxgraft.run.cuda.images import Image, Images
from ptxgraft.run.cuda.session import Session, exchanged
from ptxgraft.run.cuda.work import Code, Left, Work, stack_for, take, work_from_capture, work_of
from ptxgraft.run.cuda.worker import DEFAULT_TIMEOUT, Worker, borrow, close_all
from ptxgraft.run.launch import asks_for_workspace

__all__ = [
    "DEFAULT_TIMEOUT", "Buffer", "Card", "Code", "Device", "Image", "Images", "Left", "Session", "Work", "Worker", "asks_for_workspace", "availability", "borrow", "card", "close_all",
    "exchanged", "run", "run_here", "run_work", "stack_for", "take", "work_from_capture", "work_of",
]  # fmt: skip
