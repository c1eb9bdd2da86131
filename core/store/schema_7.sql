-- What version 7 adds.

-- What a recording says of an op's kernel, besides its time: the innermost operator around its
-- launch that has shapes, as its profiler prints the arguments (NULL: none), and the kernel's grid.
-- Ops of which nothing is said have no row.
CREATE TABLE kernel_launch (
  run INTEGER NOT NULL,
  op INTEGER NOT NULL,
  operator INTEGER,           -- string: "aten::mm"
  shapes INTEGER,             -- string: sizes of its arguments, a JSON list
  types INTEGER,              -- string: their types, a JSON list
  arguments INTEGER,          -- string: values of the scalar ones of flash attention, a JSON list
  is_alone INTEGER NOT NULL,  -- 1: the operator launched no other kernel
  threads INTEGER NOT NULL,   -- of the whole grid; 0: not recorded
  PRIMARY KEY (run, op)
) STRICT, WITHOUT ROWID;
