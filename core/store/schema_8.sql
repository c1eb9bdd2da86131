-- What version 8 adds.

-- Files that a prediction read, besides the text of its source. `digest` is as in sweep_input.
CREATE TABLE run_input (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  path TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
