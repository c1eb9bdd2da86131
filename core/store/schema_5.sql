-- What version 5 adds.

-- What whoever made a run said of it: what to know before believing it.
CREATE TABLE warning (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Damaged events of the files that a run was made from.
CREATE TABLE dropped (
  run INTEGER NOT NULL,
  id INTEGER NOT NULL,
  reason TEXT NOT NULL,
  events INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
