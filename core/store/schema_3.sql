-- What version 3 adds: sweeps. A database holds one sweep, or runs.
--   status         0 fits 1 out of memory 2 failed

-- What was asked for: one row.
CREATE TABLE sweep (
  id INTEGER PRIMARY KEY,
  tool TEXT NOT NULL,         -- program and version that made it
  source TEXT NOT NULL,       -- the path as given
  source_text TEXT NOT NULL,  -- its content
  options TEXT NOT NULL,      -- --set, --what-if and --where, one a line
  points INTEGER NOT NULL     -- of the grid
) STRICT;

-- What varies, in order; the last axis changes fastest.
CREATE TABLE sweep_axis (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,         -- the dotted key
  written TEXT NOT NULL       -- its values, as the command line has them
) STRICT;

-- One row a point that was looked at. With `sweep` and `settings` its configuration is whole: the
-- source, what the options change, then the settings. Columns as the fields of `simulate --json`.
CREATE TABLE point (
  id INTEGER PRIMARY KEY,     -- number in the grid
  status INTEGER NOT NULL,
  settings TEXT NOT NULL,     -- KEY=VALUE of the axes, one a line
  error TEXT,                 -- of one that failed
  hardware TEXT,
  strategy TEXT,
  world_size INTEGER,
  parameters INTEGER,
  tokens_per_rank_step INTEGER,
  capacity_bytes INTEGER,
  outside_allocator_bytes INTEGER,
  step_time_ns INTEGER,
  first_step_time_ns INTEGER,
  compute_busy_ns INTEGER,
  comm_busy_ns INTEGER,
  exposed_comm_ns INTEGER,
  comm_wait_ns INTEGER,
  host_bound_ns INTEGER,
  bytes_on_wire INTEGER,
  ops INTEGER,
  tokens_per_s_per_gpu REAL,
  mfu REAL,
  peak_requested_bytes INTEGER,
  peak_allocated_bytes INTEGER,
  peak_active_bytes INTEGER,
  peak_reserved_bytes INTEGER,
  first_peak_requested_bytes INTEGER,
  first_peak_allocated_bytes INTEGER,
  first_peak_active_bytes INTEGER,
  first_peak_reserved_bytes INTEGER,
  margin_bytes INTEGER,
  oom_op TEXT,
  oom_requested_bytes INTEGER,
  warnings INTEGER NOT NULL
) STRICT;
