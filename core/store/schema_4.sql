-- What version 4 adds.
--   state          0 complete 1 under way, or cut short 2 failed

-- Runs that were written while they happened. Rows of their ops are in order of arrival, those of
-- several ranks in turns: a reader sorts them by step. A run without a row here is complete.
CREATE TABLE recording (
  run INTEGER PRIMARY KEY,
  state INTEGER NOT NULL
) STRICT;

-- What the kernels of a run are, where its producer knows: `kernel` is the source of their ops.
CREATE TABLE kernel_work (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  kernel INTEGER NOT NULL,       -- string
  kind INTEGER NOT NULL,         -- of op
  dtype INTEGER NOT NULL,        -- 0 f32 1 bf16 2 f16 3 f64 4 f8e4m3 5 f8e5m2 6 i64 7 i32 8 u8 9 boolean
  kernels INTEGER NOT NULL,      -- launches that it stands for
  flops INTEGER NOT NULL,
  bytes_read INTEGER NOT NULL,
  bytes_written INTEGER NOT NULL,
  m INTEGER NOT NULL,            -- of a product: batch × (m×k)·(k×n)
  n INTEGER NOT NULL,
  k INTEGER NOT NULL,
  batch INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
