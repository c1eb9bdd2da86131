// Commands in Markdown pages, with the output that the page shows.
//
// Of the indented and fenced blocks those run that begin with "$ ":
//
//     $ foregather simulate traces/samples/tiny_fsdp2.toml --json |
//         grep step_time_ns
//     "step_time_ns": 1234,
//     …                        any lines
//
// A shell runs each command, in an empty directory of the page that has the repository's folders
// as links. A command goes on in the next line behind a "|" or "\". Standard error is shown, too.
#pragma once

#include <string>
#include <vector>

namespace foregather::test {

struct PageBlock {
  std::size_t first = 0, last = 0;  ///< lines of the page: the block's, and the one behind
  std::string indent;
  std::vector<std::string> lines;  ///< without it
};

/// The blocks of a page that run.
std::vector<PageBlock> runnable_blocks(const std::string& page);

/// The block as the commands answer now. `directory` stays the same for all blocks of a page.
std::vector<std::string> run_block(const PageBlock& block, const std::string& directory);

/// Do lines read as a page shows them, where "…" stands for any?
bool reads_as(const std::vector<std::string>& shown, const std::vector<std::string>& lines);

/// The page with these lines in place of the blocks, by block.
std::string with_blocks(const std::string& page, const std::vector<PageBlock>& blocks,
                        const std::vector<std::vector<std::string>>& lines);

/// Makes the folders of the repository reachable from a directory.
void link_repository(const std::string& directory);

}  // namespace foregather::test
