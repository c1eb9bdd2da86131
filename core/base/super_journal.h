// Journals of SQLite that tell it to delete other files.
#pragma once

#include <array>
#include <cstring>
#include <fstream>
#include <string>

namespace foregather {

/// Does the rollback journal beside a database end with the name of a super-journal? SQLite opens
/// the file of that name, wherever it is, and deletes it after rolling back. Only transactions over
/// several databases write one: ours never do. Header alone, for the injection library. Source:
/// SQLite's file format, "The Rollback Journal"; readSuperJournal() of its pager.
inline bool has_super_journal(const std::string& database) {
  constexpr std::array<unsigned char, 8> kMagic{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  std::ifstream journal(database + "-journal", std::ios::binary);
  std::array<char, kMagic.size()> end{};
  journal.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end);
  return journal.read(end.data(), end.size()) &&
         std::memcmp(end.data(), kMagic.data(), end.size()) == 0;
}

}  // namespace foregather
