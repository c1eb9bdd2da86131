// Golden transcripts: commands and what a user sees.
//
//   # a comment
//   $ foregather simulate nothing.toml
//   standard output, line by line
//   ! standard error
//   [exit 2]            only if not 0
//   [files run.db]      files in the transcript's directory, only if there are any
//
// Commands run in the root of the repository. $TMP is an empty directory of the transcript; a last
// word "> FILE" redirects standard output. Words may be quoted with '. Wall times read "*".
#pragma once

#include <string>

namespace foregather::test {

/// Runs the commands of a transcript and returns it as it is now.
std::string replay(const std::string& transcript);

}  // namespace foregather::test
