#include "lookup/program.h"

#include <alloca.h>

#include <algorithm>
#include <cstring>

#include "lookup/operations.h"

namespace blade {
namespace {

using blade_lookup::TString;
using blade_lookup::View;
using blade_lookup::ViewOf;

size_t SizeOfElement(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return 1;
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kString:
      return sizeof(TString);
    default:
      return 8;
  }
}

}  // namespace

bool Program::Build(const std::vector<Operation>& operations,
                    const std::vector<ElementType>& values, const std::vector<int>& results,
                    std::string* error) {
  const int n = static_cast<int>(operations.size());
  for (const int result : results) {
    if (result < 0 || result >= n) {
      *error = "a result isn't there";
      return false;
    }
  }
  std::vector<Instruction> all;
  for (int i = 0; i < n; ++i) {
    const Operation& operation = operations[i];
    Instruction instruction = operation.fields;
    instruction.type = operation.type;
    std::vector<ElementType> types;
    for (size_t a = 0; a < operation.args.size(); ++a) {
      if (operation.args[a] < 0 || operation.args[a] >= i || a >= 3) {
        *error = "an operand isn't there";
        return false;
      }
      instruction.args[a] = operation.args[a];
      types.push_back(operations[operation.args[a]].type);
    }
    if (operation.name == "value") {
      if (instruction.at < 0 || instruction.at >= static_cast<int>(values.size()) ||
          values[instruction.at] != operation.type) {
        *error = "a value isn't there, or has another dtype";
        return false;
      }
    } else if (operation.name == "constants") {
      if (instruction.constants.empty() || operation.type == ElementType::kString ||
          operation.type == ElementType::kBool) {
        *error = "there are no constants, or they aren't numbers";
        return false;
      }
    } else {
      instruction.run = FindOperation(operation.name, operation.type, types, error);
      if (instruction.run == nullptr) return false;
    }
    const bool hashes = operation.name == "hash_fast" || operation.name == "hash_strong";
    if (hashes && instruction.buckets == 0) {
      *error = "a hash without buckets";
      return false;
    }
    if (operation.name == "find" &&
        (types[0] == ElementType::kString ? instruction.strings == nullptr
                                          : instruction.ints == nullptr)) {
      *error = "a vocabulary isn't there, or has keys of another dtype";
      return false;
    }
    if (operation.name == "hash_fast") {
      const Operation& text = operations[operation.args[0]];
      if (text.name == "as_string") {
        instruction.run = HashOfDecimal(operations[text.args[0]].type);
        instruction.args[0] = text.args[0];
      }
    }
    all.push_back(std::move(instruction));
  }

  // What no result needs is left out.
  std::vector<bool> needed(n, false);
  for (const int result : results) needed[result] = true;
  for (int i = n - 1; i >= 0; --i) {
    if (!needed[i]) continue;
    // Of a hash of a decimal text: the integer.
    for (size_t a = 0; a < operations[i].args.size(); ++a) needed[all[i].args[a]] = true;
  }
  std::vector<int> number(n, kNone);
  bytes_ = 0;
  for (int i = 0; i < n; ++i) {
    if (!needed[i]) continue;
    number[i] = static_cast<int>(instructions_.size());
    Instruction& instruction = all[i];
    instruction.result = number[i];
    for (size_t a = 0; a < operations[i].args.size(); ++a) {
      instruction.args[a] = number[instruction.args[a]];
    }
    offsets_.push_back(bytes_);
    bytes_ += RegisterBytes(operations[i].name, instruction.type);
    instructions_.push_back(std::move(instruction));
  }
  for (const int result : results) results_.push_back(number[result]);
  return true;
}

void Program::FingerprintResult(int i) {
  Instruction fingerprint;
  fingerprint.run = FingerprintOperation();
  fingerprint.type = ElementType::kI64;
  fingerprint.args[0] = results_[i];
  fingerprint.result = results_[i] = static_cast<int>(instructions_.size());
  offsets_.push_back(bytes_);
  bytes_ += sizeof(int64_t);
  instructions_.push_back(std::move(fingerprint));
}

bool Program::Run(const void* const* values, int64_t begin, int n, char* memory,
                  const void** results) const {
  const size_t count = instructions_.size();
  void** registers = static_cast<void**>(alloca(count * sizeof(void*)));
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = instructions_[i];
    registers[i] = memory + offsets_[i] * static_cast<size_t>(n);
    if (instruction.run != nullptr) {
      if (!instruction.run(instruction, registers, n)) return false;
    } else if (!instruction.constants.empty()) {
      CopyConstants(instruction, begin, n, registers[i]);
    } else if (instruction.type == ElementType::kString) {
      const TString* from = static_cast<const TString*>(values[instruction.at]) + begin;
      View* to = static_cast<View*>(registers[i]);
      for (int e = 0; e < n; ++e) to[e] = ViewOf(from[e]);
    } else {
      // Nothing writes to the register of a value.
      registers[i] = const_cast<char*>(static_cast<const char*>(values[instruction.at]) +
                                       begin * SizeOfElement(instruction.type));
    }
  }
  for (size_t i = 0; i < results_.size(); ++i) results[i] = registers[results_[i]];
  return true;
}

bool EvaluateStreamProgram(const void* args, const void* const* values, BladeInt begin, BladeInt n,
                           const blade_lookup::Elements& elements) {
  const StreamProgram& stream = *static_cast<const StreamProgram*>(args);
  const int most = static_cast<int>(std::min<BladeInt>(n, Program::kBlock));
  char* memory = static_cast<char*>(alloca(stream.program.MemoryFor(most) + 1));
  for (BladeInt at = 0; at < n; at += most) {
    const int block = static_cast<int>(std::min<BladeInt>(n - at, most));
    const void* results[3];
    if (!stream.program.Run(values, begin + at, block, memory, results)) return false;
    std::memcpy(elements.ids + at, results[0], sizeof(int64_t) * block);
    if (stream.filtered) std::memcpy(elements.keep + at, results[1], block);
    if (stream.weighted) {
      std::memcpy(elements.weights + at, results[1 + stream.filtered], sizeof(float) * block);
    }
  }
  return true;
}

bool EvaluateDenseProgram(const void* args, const void* const* values, BladeInt begin, BladeInt n,
                          float* out) {
  const Program& program = *static_cast<const Program*>(args);
  const int most = static_cast<int>(std::min<BladeInt>(n, Program::kBlock));
  char* memory = static_cast<char*>(alloca(program.MemoryFor(most) + 1));
  for (BladeInt at = 0; at < n; at += most) {
    const int block = static_cast<int>(std::min<BladeInt>(n - at, most));
    const void* result;
    if (!program.Run(values, begin + at, block, memory, &result)) return false;
    std::memcpy(out + at, result, sizeof(float) * block);
  }
  return true;
}

}  // namespace blade
