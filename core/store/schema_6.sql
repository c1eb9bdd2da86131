-- What version 6 adds.

-- Files that the points of a sweep read, besides the text of its source. `digest` is the SHA-256 of
-- what a file holds; of more than 64 MiB that of its length, its first 32 MiB and its last.
CREATE TABLE sweep_input (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL,
  digest TEXT NOT NULL
) STRICT;
