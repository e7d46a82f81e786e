// Vocabularies as flat hash tables with linear probing, made of plain arrays: they may be static
// data of an executable, or built when a model is loaded.
//
// A slot holds (some bits of the key's hash, position + 1), or position 0 where it is free. At
// least one slot is free, so that every search ends.
#ifndef BLADE_LOOKUP_VOCABULARY_H_
#define BLADE_LOOKUP_VOCABULARY_H_

#include "hashes.h"

namespace blade_lookup {

// A slot of a string table: bits 32..63 of Fingerprint64, and the key's position + 1.
struct StringSlot {
  U32 hash, position;
};

// Keys are bytes[offsets[i]] .. bytes[offsets[i + 1]].
struct StringTable {
  U32 mask;  // slots - 1, slots being a power of two; a key's first slot is Fingerprint64 & mask
  const StringSlot* slots;
  const U32* offsets;
  const char* bytes;
  const BladeInt* values;  // of each position, or null where that is the position
};

struct IntSlot {
  BladeInt key, position;
};

struct IntTable {
  U32 mask;  // a key's first slot is HashOfInt & mask
  const IntSlot* slots;
  const BladeInt* values;
};

namespace {

static inline U64 HashOfInt(BladeInt key) {
  const U64 x = static_cast<U64>(key) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 32);
}

// The key's value, or `absent`.
static inline BladeInt Find(const StringTable& table, View key, BladeInt absent) {
  const U64 hash = Fingerprint64(key);
  const U32 tag = static_cast<U32>(hash >> 32);
  for (U32 i = static_cast<U32>(hash) & table.mask;; i = (i + 1) & table.mask) {
    const StringSlot slot = table.slots[i];
    if (slot.position == 0) return absent;
    if (slot.hash != tag) continue;
    const U32 position = slot.position - 1, begin = table.offsets[position];
    if (Equal({table.bytes + begin, table.offsets[position + 1] - begin}, key)) {
      return table.values != nullptr ? table.values[position] : BladeInt{position};
    }
  }
}

static inline BladeInt Find(const IntTable& table, BladeInt key, BladeInt absent) {
  for (U32 i = static_cast<U32>(HashOfInt(key)) & table.mask;; i = (i + 1) & table.mask) {
    const IntSlot& slot = table.slots[i];
    if (slot.position == 0) return absent;
    if (slot.key == key) {
      return table.values != nullptr ? table.values[slot.position - 1] : slot.position - 1;
    }
  }
}

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_VOCABULARY_H_
