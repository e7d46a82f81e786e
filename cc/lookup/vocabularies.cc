#include "lookup/vocabularies.h"

#include <utility>

namespace blade {
namespace {

using blade_lookup::U32;
using blade_lookup::U64;

// At most half of the slots are taken.
size_t SlotsFor(size_t keys) {
  size_t slots = 4;
  while (slots < 2 * keys) slots *= 2;
  return slots;
}

}  // namespace

StringVocabulary::StringVocabulary(const std::vector<std::string>& keys,
                                   std::vector<BladeInt> values)
    : slots_(SlotsFor(keys.size())), values_(std::move(values)) {
  const U32 mask = static_cast<U32>(slots_.size() - 1);
  offsets_.push_back(0);
  for (size_t k = 0; k < keys.size(); ++k) {
    bytes_ += keys[k];
    offsets_.push_back(static_cast<U32>(bytes_.size()));
    const U64 hash = blade_lookup::Fingerprint64({keys[k].data(), keys[k].size()});
    U32 i = static_cast<U32>(hash) & mask;
    while (slots_[i].position != 0) i = (i + 1) & mask;
    slots_[i] = {static_cast<U32>(hash >> 32), static_cast<U32>(k + 1)};
  }
  table_ = {mask, slots_.data(), offsets_.data(), bytes_.data(),
            values_.empty() ? nullptr : values_.data()};
}

IntVocabulary::IntVocabulary(const std::vector<BladeInt>& keys, std::vector<BladeInt> values)
    : slots_(SlotsFor(keys.size())), values_(std::move(values)) {
  const U32 mask = static_cast<U32>(slots_.size() - 1);
  for (size_t k = 0; k < keys.size(); ++k) {
    U32 i = static_cast<U32>(blade_lookup::HashOfInt(keys[k])) & mask;
    while (slots_[i].position != 0) i = (i + 1) & mask;
    slots_[i] = {keys[k], static_cast<BladeInt>(k + 1)};
  }
  table_ = {mask, slots_.data(), values_.empty() ? nullptr : values_.data()};
}

}  // namespace blade
