-- The database of Foregather: runs, predicted or measured, as core/run/rows.h has them.
--
--   application_id  0x466F7265 ("Fore")     user_version  8
--
-- These are the tables of version 1; schema_2.sql and so on have those that the next versions add. A
-- version only adds tables, so that an older database reads as one whose newer tables are empty.
--
-- Times are integer nanoseconds on the run's own clock, sizes integer bytes. A row is named by
-- (run, id), where id counts from 0 without gaps; references to another table of the same run are
-- such ids, NULL where there is none. Rows are written in the order of their primary key, so each
-- table is clustered and a run is one contiguous range. There is no secondary index: readers scan a
-- run's range.
--
-- Enumerators are frozen. They are the values of core/ir/kinds.h and core/run/enums.h:
--   kind of run    0 predicted 1 measured
--   kind of step   0 first 1 steady 2 other
--   kind of op     0 gemm 1 attention 2 norm 3 elementwise 4 softmax 5 embedding 6 cross_entropy
--                  7 reduction 8 optimizer 9 copy 10 cast 11 fill 12 fused 13 host_to_device
--                  14 device_to_host 15 all_gather 16 reduce_scatter 17 all_reduce 18 broadcast
--                  19 reduce 20 all_to_all 21 send_recv 22 barrier 23 other 24 sleep
--   role           0 compute 1 copy_in 2 cast 3 gather 4 copy_out 5 pre_scale 6 reduce 7 post_scale
--                  8 accumulate 9 optimizer 10 clip 11 offload 12 other
--   phase          0 forward 1 backward 2 recompute 3 optimizer 4 other
--   change         0 held when the step began 1 allocated 2 released 3 mapped 4 unmapped
--   reason         0 start 1 host 2 stream 3 event 4 communicator 5 rendezvous 6 dependency
--   cause          0 parameter_shard 1 unsharded_parameter 2 gradient 3 reduced_gradient
--                  4 activation 5 optimizer_state 6 communication_buffer 7 cast_copy 8 temporary
--                  9 cache

-- One row a run. `name` selects it: RUN.db:NAME.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  kind INTEGER NOT NULL,
  tool TEXT NOT NULL,         -- program and version that made it
  source TEXT NOT NULL,       -- what was asked for: the path as given
  source_text TEXT NOT NULL,  -- its content
  options TEXT NOT NULL,      -- what the command line changed, one a line
  hardware TEXT NOT NULL,
  strategy TEXT NOT NULL,
  world_size INTEGER NOT NULL,
  parameters INTEGER NOT NULL,               -- of the model, each storage counted once
  tokens_per_rank_step INTEGER NOT NULL,     -- 0: not a language model
  model_flops_per_rank_step INTEGER NOT NULL,
  capacity INTEGER NOT NULL,                 -- bytes of one device, 0: unknown
  outside_allocator INTEGER NOT NULL         -- bytes held by the context and libraries
) STRICT;

-- Texts that rows refer to.
CREATE TABLE string (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Ranks that do the same at the same time: a predicted class, or one recorded rank.
CREATE TABLE rank_class (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  name INTEGER,               -- string
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Ranks `first` … `last` belong to the class; a class may have several rows.
CREATE TABLE class_ranks (
  run INTEGER NOT NULL,
  rank_class INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  PRIMARY KEY (run, rank_class, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE stream (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  rank_class INTEGER NOT NULL,
  name INTEGER,               -- string
  priority INTEGER NOT NULL,  -- CUDA's: lower is more urgent
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- In-order queues of collectives.
CREATE TABLE communicator (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  name INTEGER,               -- string
  ranks INTEGER NOT NULL,     -- of one group
  nodes INTEGER NOT NULL,     -- that one group spans
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- One step of one class. It begins where the device ended the step before.
CREATE TABLE step (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  rank_class INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  number INTEGER NOT NULL,    -- the step of op keys
  begin_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  host_end_ns INTEGER NOT NULL,  -- the host has issued everything
  peak_requested INTEGER NOT NULL,
  peak_allocated INTEGER NOT NULL,
  peak_active INTEGER NOT NULL,
  peak_reserved INTEGER NOT NULL,
  peak_at INTEGER,            -- op launched next after `allocated` was largest
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- One execution of one op. Ops of one step are consecutive.
-- `source` of a measured op is the name of its kernel.
CREATE TABLE op (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  stream INTEGER NOT NULL,
  micro_batch INTEGER NOT NULL,
  scope INTEGER,              -- string: module path
  phase INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,   -- among the ops that share the rest of the key
  role INTEGER NOT NULL,
  unit INTEGER,               -- string: module path of its shard group
  communicator INTEGER,       -- of a collective
  sequence INTEGER NOT NULL,  -- of a collective on its communicator
  issued_ns INTEGER NOT NULL,    -- the host had launched it; measured: its call began
  start_ns INTEGER NOT NULL,     -- it occupies its stream
  transfer_ns INTEGER NOT NULL,  -- a collective: all ranks have arrived; else start_ns
  end_ns INTEGER NOT NULL,
  alone_ns INTEGER NOT NULL,     -- predicted: how long it takes with nothing beside it; 0: unknown
  reason INTEGER NOT NULL,       -- why it did not start earlier
  bound_by INTEGER,              -- the op that `reason` means
  bound_by_previous_step INTEGER NOT NULL,  -- 1: nothing in this step held it back
  source INTEGER,             -- string: the model or table that its duration came from
  bytes INTEGER NOT NULL,     -- collective: NCCL's message size; else device memory read + written
  wire_bytes INTEGER NOT NULL,  -- a collective: sent by one rank
  flops INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- The life of one allocation, in host order.
CREATE TABLE binding (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  name INTEGER,               -- string: what it holds
  scope INTEGER,              -- string: module path
  cause INTEGER NOT NULL,
  bytes INTEGER NOT NULL,        -- as requested
  block_bytes INTEGER NOT NULL,  -- rounded and with slack
  address INTEGER NOT NULL,      -- unsigned 64 bits, stored as signed
  allocated_ns INTEGER NOT NULL,
  freed_ns INTEGER NOT NULL,     -- the step's end if still bound
  before_op INTEGER,             -- launched next after the allocation
  from_before INTEGER NOT NULL,  -- 1: bound when the step began
  still_bound INTEGER NOT NULL,  -- 1: at the step's end
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- What the allocator holds from the driver, in host order.
CREATE TABLE segment (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  stream INTEGER NOT NULL,
  change INTEGER NOT NULL,
  large INTEGER NOT NULL,        -- 1: of the large pool
  expandable INTEGER NOT NULL,   -- 1: a mapped range of an expandable segment
  time_ns INTEGER NOT NULL,
  address INTEGER NOT NULL,      -- unsigned 64 bits, stored as signed
  bytes INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- The memory curve where it changed.
CREATE TABLE memory (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  requested INTEGER NOT NULL,
  allocated INTEGER NOT NULL,
  active INTEGER NOT NULL,
  reserved INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Bytes by cause at the allocated peak of a step.
CREATE TABLE peak_cause (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  cause INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Allocations that found no memory. The run ends there: its last step is as far as it came. The op
-- that was to be launched next is named as in its key; it may not have a row.
CREATE TABLE out_of_memory (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  name INTEGER,               -- string: what was to be allocated
  bytes INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,   -- host
  micro_batch INTEGER NOT NULL,
  scope INTEGER,              -- string: module path
  phase INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
