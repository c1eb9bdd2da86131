// The opcodes of Python pickles that are known here; names as in Python's pickletools.
#pragma once

#include <cstdint>

namespace foregather::traces {

enum class PickleOp : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binunicode = 'X',
  append = 'a',
  dict = 'd',
  empty_dict = '}',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  list = 'l',
  empty_list = ']',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
};

/// The name of an opcode that is refused because it names code, calls it or reads elsewhere; null
/// for any other byte.
constexpr const char* refused_opcode(std::uint8_t byte) {
  switch (byte) {
    case 'c': return "GLOBAL";
    case 0x93: return "STACK_GLOBAL";
    case 'i': return "INST";
    case 'o': return "OBJ";
    case 0x81: return "NEWOBJ";
    case 0x92: return "NEWOBJ_EX";
    case 'R': return "REDUCE";
    case 'b': return "BUILD";
    case 0x82: return "EXT1";
    case 0x83: return "EXT2";
    case 0x84: return "EXT4";
    case 'P': return "PERSID";
    case 'Q': return "BINPERSID";
    case 0x97: return "NEXT_BUFFER";
    case 0x98: return "READONLY_BUFFER";
    default: return nullptr;
  }
}

}  // namespace foregather::traces
