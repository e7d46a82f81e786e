// Element-wise expressions, interpreted: one loop an operation over a block of elements.
#ifndef BLADE_LOOKUP_PROGRAM_H_
#define BLADE_LOOKUP_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/plan.h"
#include "kernels/vocabulary.h"

namespace blade {

// dtypes of elements: i32, i64, f32, f64, bool (a byte) or string (a View).
enum class ElementType { kI32, kI64, kF32, kF64, kBool, kString };

// A value without its type: an integer or bool, the bits of an f64, or a string.
struct Scalar {
  int64_t integer = 0;
  double real = 0;
  std::string bytes;
};

struct Instruction {
  using Function = bool (*)(const Instruction&, void* const* registers, int n);

  Function run = nullptr;  // null: the value is in the source, number `at`, or in `constants`
  ElementType type;        // of the result
  int at = 0;              // a "value"'s
  int result = 0;          // number of the register
  int args[3] = {};        // numbers of registers
  Scalar scalar;
  uint64_t buckets = 0;
  uint64_t key[2] = {};
  std::vector<float> boundaries;
  std::vector<Scalar> constants;  // numbers; they stand for "constants", which has no `run`
  const blade_lookup::StringTable* strings = nullptr;
  const blade_lookup::IntTable* ints = nullptr;
};

// What Build needs to know of an operation beyond its operands.
struct Operation {
  std::string name;  // a key of EXPRESSIONS in spec.py
  ElementType type;
  std::vector<int> args;  // numbers of earlier operations
  Instruction fields;     // at, scalar, buckets, key, boundaries, constants, strings, ints
};

// Straight-line code for some expressions. Immutable; any number of threads may run it.
class Program {
 public:
  static constexpr int kBlock = 128;  // elements that are computed together
  static constexpr int kNone = -1;

  // `operations` in order, operands first; `results` are those wanted. `values` are the types of
  // the source's values. False, with a message, if an operation doesn't fit its operands.
  bool Build(const std::vector<Operation>& operations, const std::vector<ElementType>& values,
             const std::vector<int>& results, std::string* error);

  // Makes the result i, strings, their fingerprints.
  void FingerprintResult(int i);

  ElementType type_of_result(int i) const { return instructions_[results_[i]].type; }

  // Whether the result i is the source's value 0 as it is.
  bool IsValue0(int i) const {
    const Instruction& instruction = instructions_[results_[i]];
    return instruction.run == nullptr && instruction.constants.empty() && instruction.at == 0;
  }

  // The results of elements [begin, begin + n), n <= kBlock, are put where results[i] points
  // afterwards; they stay valid until `memory` is written to. False when one has no value.
  // `memory` has MemoryFor(n) bytes, 8-byte aligned.
  bool Run(const void* const* values, int64_t begin, int n, char* memory,
           const void** results) const;
  size_t MemoryFor(int n) const { return bytes_ * static_cast<size_t>(n); }

  size_t size() const { return instructions_.size(); }

 private:
  std::vector<Instruction> instructions_;
  std::vector<size_t> offsets_;  // by register: where in the memory of one element
  std::vector<int> results_;
  size_t bytes_ = 0;  // memory for one element
};

// How plans run programs: args is a StreamProgram.
struct StreamProgram {
  Program program;  // results: ids, then keep and weight where the stream has them
  bool filtered = false, weighted = false;
};
bool EvaluateStreamProgram(const void* args, const void* const* values, BladeInt begin, BladeInt n,
                           const blade_lookup::Elements& elements);

// args is a Program whose one result is f32.
bool EvaluateDenseProgram(const void* args, const void* const* values, BladeInt begin, BladeInt n,
                          float* out);

}  // namespace blade

#endif  // BLADE_LOOKUP_PROGRAM_H_
