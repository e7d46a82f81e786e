// A lookup with a column of every kind, and inputs for it.
#ifndef BLADE_TESTS_LOOKUP_COLUMNS_H_
#define BLADE_TESTS_LOOKUP_COLUMNS_H_

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host_standalone.h"
#include "kernels/text.h"
#include "lookup/lookup.h"

namespace blade::testing {

// Inputs: 0-2 a sparse i64, 3 strings [B, 2], 4-5 a ragged i64, 6-7 tables of 7 and 5 rows of 16
// and 3 floats, 8 f32 [B, 2].
inline const char kColumns[] = R"(lookup 1
inputs 9 i64 i64 i64 string i64 i64 f32 f32 f32
vocabularies 1
strings 3 x61 x x6c6f6e6765722074686167 0
streams 4
sparse 1 1 0 2 1 1 2 0 0 1 value i64 0 0 0
dense 1 3 0 0 1 0 4 value string 0 0 const string 0 x61 ne bool 2 0 1 hash_fast i64 1 0 7 3 2
ragged 1 4 5 0 1 4 value i64 0 0 cast f32 1 0 const i64 0 5 floor_mod i64 2 0 2 3 1
cross 2 0 1 7 123 0 0 1 value i64 0 0 0
bags 5
0 16 table 1 6 mod mean none none 0 x73
1 16 table 1 6 mod sqrtn 3 3ff0000000000000 0 x74
2 3 table 1 7 mod sum none none 0 x72
3 16 table 1 6 mod sum none none 0 x63
2 4 indicator sum none none 0 x69
outputs 2
1 57 0 6 0 16 bag 0 16 16 bag 1 32 3 bag 2 35 16 bag 3 51 4 bag 4 55 2 dense 1 8 1 value f32 0 0 0
1 16 1 2 0 16 bag 0 0 16 bag 3
)";

inline std::shared_ptr<const Lookup> ParseColumns() {
  std::string error;
  return Lookup::Parse(kColumns, &error);
}

// Every array is memory of its own, of exactly its size, so that a sanitizer sees what is read.
struct ColumnInputs {
  explicit ColumnInputs(int batch, unsigned seed) {
    std::mt19937 random(seed);
    const auto number = [&random](int n) { return static_cast<BladeInt>(random() % n); };
    std::vector<BladeInt> indices, sparse, ragged, splits = {0};
    for (int r = 0; r < batch; ++r) {
      for (BladeInt k = 0, n = number(4); k < n; ++k) {
        indices.insert(indices.end(), {r, k});
        sparse.push_back(number(7));
      }
      for (BladeInt k = 0, n = number(4); k < n; ++k) ragged.push_back(number(100));
      splits.push_back(static_cast<BladeInt>(ragged.size()));
    }
    const auto count = [](const std::vector<BladeInt>& list) {
      return static_cast<BladeInt>(list.size());
    };
    Add(indices, {count(sparse), 2}, BLADE_I64);
    Add(sparse, {count(sparse)}, BLADE_I64);
    Add(std::vector<BladeInt>{batch, 3}, {2}, BLADE_I64);
    for (int i = 0; i < 2 * batch; ++i) {
      texts.emplace_back(new std::string(number(3) * 20, static_cast<char>('a' + number(3))));
    }
    std::vector<blade_lookup::TString> strings;
    for (const auto& text : texts) {
      blade_lookup::TString string{};
      const uint64_t view = text->size() << 2 | 3;
      const char* data = text->data();
      std::memcpy(string.raw, &view, 8);
      std::memcpy(string.raw + 8, &data, 8);
      strings.push_back(string);
    }
    Add(strings, {batch, 2}, BLADE_STRING);
    Add(ragged, {count(ragged)}, BLADE_I64);
    Add(splits, {batch + 1}, BLADE_I64);
    std::vector<float> floats(7 * 16);
    for (float& f : floats) f = static_cast<float>(number(64)) / 8;
    Add(floats, {7, 16}, BLADE_F32);
    floats.resize(5 * 3);
    Add(floats, {5, 3}, BLADE_F32);
    Add(std::vector<float>(2 * batch, 1.5f), {batch, 2}, BLADE_F32);
  }

  template <class T>
  void Add(const std::vector<T>& values, std::vector<BladeInt> shape, int dtype) {
    buffers.emplace_back(new char[values.size() * sizeof(T) + 1]);
    if (!values.empty())
      std::memcpy(buffers.back().get(), values.data(), values.size() * sizeof(T));
    sizes.push_back(values.size());
    dims.emplace_back(new std::vector<BladeInt>(std::move(shape)));
    tensors.push_back(
        {buffers.back().get(), dims.back()->data(), static_cast<int>(dims.back()->size()), dtype});
  }

  BladeInt* integers(int input) { return reinterpret_cast<BladeInt*>(buffers[input].get()); }

  std::vector<std::unique_ptr<char[]>> buffers;
  std::vector<size_t> sizes;
  std::vector<std::unique_ptr<std::vector<BladeInt>>> dims;
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<BladeTensor> tensors;
};

// A run on a pool, and its outputs as floats.
struct ColumnRun {
  ColumnRun(const Lookup& lookup, const ColumnInputs& inputs, ThreadPool* pool,
            bool find_repeats = true) {
    StandaloneRun run(
        [&](const BladeHost& host, void* ctx, const BladeTensor* tensors) {
          return lookup.Run(host, ctx, tensors, find_repeats);
        },
        lookup.n_inputs(), {BLADE_F32, BLADE_F32}, pool);
    status = run.Execute(inputs.tensors);
    repeated = run.repeated_rows();
    if (status != BLADE_OK) return;
    for (const StandaloneOutput& output : run.outputs()) {
      BladeInt n = 1;
      for (const BladeInt d : output.dims) n *= d;
      const float* data = static_cast<const float*>(output.buffer.data());
      outputs.insert(outputs.end(), data, data + n);
    }
  }

  int status;
  BladeInt repeated;
  std::vector<float> outputs;
};

}  // namespace blade::testing

#endif  // BLADE_TESTS_LOOKUP_COLUMNS_H_
