// What a Lookup's plan points to. Everything is in deques: elements never move.
#ifndef BLADE_LOOKUP_STORAGE_H_
#define BLADE_LOOKUP_STORAGE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lookup/lookup.h"
#include "lookup/program.h"
#include "lookup/vocabularies.h"

namespace blade {

struct Lookup::Storage {
  std::deque<std::vector<int>> ints;
  std::deque<std::vector<BladeInt>> dims;
  std::deque<std::vector<blade_lookup::Place>> places;
  std::deque<StringVocabulary> string_vocabularies;
  std::deque<IntVocabulary> int_vocabularies;
  std::deque<StreamProgram> stream_programs;
  std::deque<Program> dense_programs;
  std::vector<blade_lookup::StreamPlan> streams;
  std::vector<blade_lookup::BagPlan> bags;
  std::vector<blade_lookup::DensePlan> dense;
  std::vector<blade_lookup::OutputPlan> outputs;
};

}  // namespace blade

#endif  // BLADE_LOOKUP_STORAGE_H_
