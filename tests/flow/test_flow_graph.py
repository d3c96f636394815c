"""Blocks, dominators, liveness and def-use, each against its definition by brute force."""

from __future__ import annotations

from flow_kernels import bodies, flow, reach, successors
from hypothesis import given, settings

from ptxgraft.flow import Cfg

random_bodies = settings(deadline=None, max_examples=150)


def block_edges(cfg: Cfg) -> list[list[int]]:
    return [list(b.successors) for b in cfg.blocks]


@random_bodies
@given(bodies())
def test_blocks_partition_the_program_and_edges_are_where_control_goes(body: str):
    facts = flow(body)
    program, cfg = facts.program, facts.cfg
    assert [i for b in cfg.blocks for i in range(b.start, b.stop)] == list(range(len(program.instructions)))
    edges = successors(program)
    for block in cfg.blocks:
        assert all(edges[i] == [i + 1] for i in range(block.start, block.stop - 1))
        assert {cfg.blocks[s].start for s in block.successors} == set(edges[block.stop - 1])
        assert all(cfg.block_of(i) is block for i in range(block.start, block.stop))
        assert all(block.index in cfg.blocks[s].predecessors for s in block.successors)
        assert all(block.index in cfg.blocks[p].successors for p in block.predecessors)


@random_bodies
@given(bodies())
def test_dominators(body: str):
    cfg = flow(body).cfg
    edges = block_edges(cfg)
    reachable = reach(edges, 0)
    for b in reachable:
        for a in range(len(cfg.blocks)):
            assert cfg.dominates(a, b) == ((a in reachable and b not in reach(edges, 0, without=a)) or a == b)


@random_bodies
@given(bodies())
def test_immediate_postdominators(body: str):
    cfg = flow(body).cfg
    edges = block_edges(cfg)
    exits = {b.index for b in cfg.blocks if not b.successors}
    for b in range(len(cfg.blocks)):
        ends = reach(edges, b) & exits
        if not ends:
            continue  # it never leaves
        after = {a for a in range(len(cfg.blocks)) if a != b and not reach(edges, b, without=a) & exits}
        nearest = [a for a in after if all(c == a or c in {x for x in after if not reach(edges, a, without=x) & exits} for c in after)]
        assert cfg.immediate_postdominator[b] == (nearest[0] if nearest else -1)


@random_bodies
@given(bodies())
def test_liveness(body: str):
    facts = flow(body)
    program = facts.program
    edges = successors(program)
    live = facts.liveness.before(range(len(program.instructions) + 1))
    for register in range(len(program.registers)):
        kills = {i.index for i in program.instructions if register in i.writes and i.guard is None and register not in i.reads}
        reads = {i.index for i in program.instructions if register in i.reads}
        blocked = [[] if i in kills else followers for i, followers in enumerate(edges)]
        for point in range(len(program.instructions)):
            assert (register in live[point]) == bool(reach(blocked, point) & reads)
    assert live[len(program.instructions)] == frozenset()


@random_bodies
@given(bodies())
def test_reaching_writes(body: str):
    facts = flow(body)
    program = facts.program
    edges = successors(program)
    for register in range(len(program.registers)):
        writes = [i.index for i in program.instructions if register in i.writes]
        certain = {w for w in writes if program.instructions[w].guard is None}
        blocked = [[] if i in certain else followers for i, followers in enumerate(edges)]
        came = {w: set().union(*(reach(blocked, n) for n in edges[w])) if edges[w] else set() for w in writes}
        unwritten = reach(blocked, 0)
        for point in reach(edges, 0):
            expected = {w for w in writes if w in reach(edges, 0) and point in came[w]} | ({-1} if point in unwritten else set())
            found = facts.defuse.reaching(register, point)
            assert set(found) & ({-1} | reach(edges, 0)) == expected
            assert list(found) == sorted(found)
            single = facts.defuse.single(register, point)
            assert single == (found[0] if len(found) == 1 and found[0] in certain else None)


def test_an_indirect_branch_goes_to_all_its_targets():
    facts = flow("mov.u32 %r1, 1;\nT: .branchtargets A, B;\nbrx.idx %r1, T;\nA:\nmov.u32 %r2, 1;\nret;\nB:\nmov.u32 %r2, 2;\nret;")
    branch = next(b for b in facts.cfg.blocks if len(b.successors) == 2)
    assert {facts.program.line(facts.cfg.blocks[s].start) for s in branch.successors} == {15, 18}


def test_a_guarded_write_keeps_the_old_value():
    facts = flow("mov.u32 %r1, 1;\nsetp.lt.u32 %p1, %r1, %r2;\n@%p1 mov.u32 %r1, 2;\nst.shared.u32 [tile], %r1;\nret;")
    names = {r.name: r.id for r in facts.program.registers}
    assert facts.defuse.reaching(names["%r1"], 3) == (0, 2)
    assert names["%r1"] in facts.liveness.before([2])[2]
    assert facts.defuse.single(names["%r1"], 3) is None
