"""The command line as a process: interrupts, pipes whose reader leaves, terminals and their width. Few of them: a process takes its time."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from command_line import HERE

COMMAND = [sys.executable, "-c", "from ptxgraft.cli import main; main()"]


def run(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_pipe_whose_reader_leaves_is_quiet_and_the_verdict_stands(layer, package, closed):
    reader, writer = os.pipe()
    os.close(reader)
    # The verdict is 'same'; a note on standard error comes before it.
    command = [*COMMAND, "probe", str(layer), "--at", "p0", "--run", str(package), "--engine", "numpy", "-o", str(layer.parent / "p.ptx")]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writer}
    ended = subprocess.run(command, text=True, timeout=120, check=False, **streams)
    os.close(writer)
    assert ended.returncode == 0
    assert ended.stderr == f"wrote {layer.parent}/p.ptx\n" if closed == "stdout" else "other outputs: same" in ended.stdout


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_stream_that_the_caller_closed_leads_nowhere(layer, closed):
    """``ptxgraft ls FILE >&-``: Python has no such stream then."""
    number = 1 if closed == "stdout" else 2
    for path, code in ((layer, 0), (layer.parent / "none.ptx", 2)):
        shell = f'exec "$@" {number}>&-'
        ended = subprocess.run(
            ["sh", "-c", shell, "sh", *COMMAND, "ls", str(path)], capture_output=True, text=True, timeout=120, check=False
        )
        assert ended.returncode == code
        assert "Traceback" not in ended.stderr


def test_an_interrupt_while_the_verbs_are_loaded():
    """Loading them takes a good part of a second."""
    late = "import sys; sys.modules['ptxgraft.cli.app'] = None; import ptxgraft.cli as c, builtins; real = builtins.__import__\n"
    late += "def interrupted(name, *more, **other):\n    if name == 'ptxgraft.cli.app': raise KeyboardInterrupt\n    return real(name, *more, **other)\n"
    late += "builtins.__import__ = interrupted; c.main()"
    ended = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "ptxgraft: stopped\n")


def test_the_package_is_a_command_too(layer):
    ended = subprocess.run([sys.executable, "-m", "ptxgraft", "ls", str(layer)], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0 and ended.stdout == run("ls", layer).stdout


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_an_interrupt_ends_it_cleanly(tmp_path, engine):
    """Ctrl-C while a kernel is compiled or runs."""
    kernel = ["run", HERE / "faults.ptx", "-e", "busy", "--grid", "1", "--block", "64", "-a", "u32[16]", "--save", tmp_path / "x.npz"]
    arguments = [*map(str, kernel), "--engine", engine, "--step-budget", "1000000000000"]
    ready = "import sys; from ptxgraft.cli import main; print('ready', file=sys.stderr, flush=True); main()"
    started = subprocess.Popen([sys.executable, "-c", ready, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stderr is not None and started.stderr.readline() == "ready\n"
    time.sleep(1)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=120)
    assert (started.returncode, out, err) == (130, "", "ptxgraft: stopped\n")
    assert list(tmp_path.iterdir()) == []


def on_a_terminal(columns: int, *arguments: object) -> str:
    """What a verb prints on a terminal of this width, colours taken out."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    started = subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    said = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    started.wait(timeout=120)
    os.close(leader)
    return re.sub(r"\x1b\[[0-9;?]*[a-z]", "", said.decode().replace("\r\n", "\n"))


def test_a_terminal_of_80_columns_and_a_pipe(layer):
    narrow = on_a_terminal(80, "spec", layer)
    assert max(len(line) for line in narrow.split("\n")) <= 80
    assert "    A: 1 shared; B: 2 weights; C: 1 constant; weights: 1024 bytes in 0x0..0x700;" in narrow
    piped = run("spec", layer).stdout
    assert "    0  56-57  m16n8k16 f16.f16.f16.f16    2  1x2x1      1 shared    2 weights" in piped
    assert not any(line != line.rstrip() for line in piped.split("\n")) and "\x1b" not in piped


def test_a_name_that_the_encoding_lacks_is_escaped(tmp_path):
    ended = run("ls", tmp_path / "größe.ptx", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ended.returncode == 2 and "gr\\xf6\\xdfe.ptx: no such file" in ended.stderr and "Traceback" not in ended.stderr
