"""Fresh names are used nowhere in the text and handed out once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.errors import UsageError
from ptxgraft.text import Document, FreshNames

HEADER = ".version 8.0\n.target sm_80\n"


def names(body: str = "", prefix: str = "pg_") -> FreshNames:
    return FreshNames(Document.parse(f"{HEADER}.entry k()\n{{\n{body}\n}}\n"), prefix)


def test_names_in_order():
    n = names()
    assert [n.name("%r"), n.name("%r"), n.name("%r"), n.name("$L"), n.name("r2"), n.name()] == [
        "%pg_r", "%pg_2r", "%pg_3r", "$pg_L", "pg_r2", "pg_x",
    ]  # fmt: skip


def test_what_the_text_uses_is_taken():
    n = names('\t.reg .b32 %pg_r, %pg_s<4>, pg_t7;\n\t// pg_u_1 and $pg_v\n\t.pragma "pg_w";')
    assert [n.name("%r"), n.name("u"), n.name("u"), n.name("v"), n.name("%w")] == ["%pg_2r", "pg_u", "pg_2u", "pg_2v", "%pg_2w"]


def test_blocks_hold_no_name_seen_or_given():
    n = names("\t.reg .b32 %pg_s<4>, pg_t7, %pg_u;")
    assert n.name("s") == "pg_2s", "it would not clash, but the text has it"
    assert n.name("s3") == "pg_2s3" and n.name("s4") == "pg_2s4", "members of %pg_s<N>, whatever N"
    assert n.block("%s") == "%pg_3s" and n.block("%t") == "%pg_2t" and n.block("%u") == "%pg_2u"
    assert n.block("%r") == "%pg_r"
    assert n.name("r3") == "pg_2r3", "a member of the block %pg_r<N>"
    assert n.block("%r") == "%pg_3r", "pg_2r3 was given out"


@given(st.lists(st.tuples(st.sampled_from(["%r", "$L", "x", "%r1", "x_1", "", "%r_", "1", "%22"]), st.booleans()), max_size=12))
def test_no_two_names_meet(wanted):
    n = names("\t.reg .b32 %pg_r<4>, pg_x_1;\n")
    singles, bases = {"pg_r0", "pg_r1", "pg_r2", "pg_r3", "pg_x_1"}, {"pg_r"}
    for hint, block in wanted:
        given_name = (n.block if block else n.name)(hint).lstrip("%$")
        if block:
            assert given_name not in bases
            assert not any(s.startswith(given_name) and s[len(given_name) :].isdigit() for s in singles)
            for b in bases:
                for long, short in ((b, given_name), (given_name, b)):
                    assert not (long.startswith(short) and long[len(short) :].isdigit())
            bases.add(given_name)
        else:
            assert given_name not in singles
            assert not any(given_name.startswith(b) and given_name[len(b) :].isdigit() for b in bases)
            singles.add(given_name)


@pytest.mark.parametrize("prefix", ["", "1x", "%p", "a b"])
def test_bad_prefixes(prefix):
    with pytest.raises(UsageError, match="cannot begin a PTX name"):
        names(prefix=prefix)


@pytest.mark.parametrize("hint", ["a b", "%%", "é", "a%"])
def test_bad_hints(hint):
    with pytest.raises(UsageError, match="cannot be part of a PTX name"):
        names().name(hint)
