-- What version 2 adds. References and enumerators as in schema.sql; moreover:
--   level          0 op 1 scope_kind 2 scope_phase 3 phase
--   cause          10 persistent 11 unknown: of recorded runs

-- Host threads that were recorded.
CREATE TABLE thread (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  rank_class INTEGER NOT NULL,
  process INTEGER,            -- string
  name INTEGER,               -- string
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Calls of the CUDA or HIP runtime and driver, as recorded: what a replay needs of the host.
CREATE TABLE call (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  thread INTEGER NOT NULL,
  name INTEGER,               -- string
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- The call that launched an op. Ops whose launch was not recorded have no row.
CREATE TABLE launch (
  run INTEGER NOT NULL,
  op INTEGER NOT NULL,
  call INTEGER NOT NULL,
  PRIMARY KEY (run, op)
) STRICT, WITHOUT ROWID;

-- Waits of streams for events, as recorded.
CREATE TABLE stream_wait (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  stream INTEGER NOT NULL,
  call INTEGER,               -- that made the stream wait
  recorded INTEGER,           -- the call that recorded the event
  awaited INTEGER,            -- string: the stream that the event is of, as its tool names it
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- What a recording says of its collectives.
CREATE TABLE collective (
  run INTEGER NOT NULL,
  op INTEGER NOT NULL,
  name INTEGER,               -- string: of the call, "_allgather_base"
  dtype INTEGER,              -- string: as the recording names it
  process_group INTEGER,      -- string
  ranks INTEGER,              -- string: list of the group's ranks, perhaps cut
  in_elements INTEGER NOT NULL,
  out_elements INTEGER NOT NULL,
  group_size INTEGER NOT NULL,   -- 0: not said
  sequence INTEGER,              -- on the group
  PRIMARY KEY (run, op)
) STRICT, WITHOUT ROWID;

-- Steps whose causes of memory are concluded from when it was allocated and freed.
CREATE TABLE inferred_causes (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;

-- Two steps of runs of this database, compared op by op.
CREATE TABLE comparison (
  id INTEGER PRIMARY KEY,
  first_run INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  second_run INTEGER NOT NULL,
  second_step INTEGER NOT NULL
) STRICT;

-- Ops of both steps that share `key` at `level`, or of one step alone (NULL).
CREATE TABLE compared_group (
  comparison INTEGER NOT NULL,
  id INTEGER NOT NULL,
  level INTEGER,
  kind INTEGER NOT NULL,      -- of op, at levels that know it
  phase INTEGER NOT NULL,
  key TEXT NOT NULL,
  first_ops INTEGER NOT NULL,
  first_ns INTEGER NOT NULL,     -- sum of durations
  second_ops INTEGER NOT NULL,
  second_ns INTEGER NOT NULL,
  PRIMARY KEY (comparison, id)
) STRICT, WITHOUT ROWID;

-- The group of every op of both steps.
CREATE TABLE compared_op (
  comparison INTEGER NOT NULL,
  side INTEGER NOT NULL,      -- 0: of the first step, 1: of the second
  op INTEGER NOT NULL,
  compared_group INTEGER NOT NULL,
  PRIMARY KEY (comparison, side, op)
) STRICT, WITHOUT ROWID;
