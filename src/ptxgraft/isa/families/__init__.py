"""One file per instruction family, in the manual's grouping. Each declares its instructions with ``isa.table.instruction``."""
