// Builds the flat hash tables of kernels/vocabulary.h.
#ifndef BLADE_LOOKUP_VOCABULARIES_H_
#define BLADE_LOOKUP_VOCABULARIES_H_

#include <string>
#include <vector>

#include "kernels/vocabulary.h"

namespace blade {

// A string table and its arrays. Not copied: the table points to them.
class StringVocabulary {
 public:
  // Distinct keys of less than 4 GB together; `values` are as many, or none.
  StringVocabulary(const std::vector<std::string>& keys, std::vector<BladeInt> values);
  StringVocabulary(const StringVocabulary&) = delete;
  StringVocabulary& operator=(const StringVocabulary&) = delete;

  const blade_lookup::StringTable& table() const { return table_; }

 private:
  std::vector<blade_lookup::StringSlot> slots_;
  std::vector<blade_lookup::U32> offsets_;
  std::string bytes_;
  std::vector<BladeInt> values_;
  blade_lookup::StringTable table_;
};

class IntVocabulary {
 public:
  IntVocabulary(const std::vector<BladeInt>& keys, std::vector<BladeInt> values);
  IntVocabulary(const IntVocabulary&) = delete;
  IntVocabulary& operator=(const IntVocabulary&) = delete;

  const blade_lookup::IntTable& table() const { return table_; }

 private:
  std::vector<blade_lookup::IntSlot> slots_;
  std::vector<BladeInt> values_;
  blade_lookup::IntTable table_;
};

}  // namespace blade

#endif  // BLADE_LOOKUP_VOCABULARIES_H_
