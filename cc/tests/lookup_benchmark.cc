// lookup_benchmark [COLUMNS [DIM [THREADS]]]: nanoseconds a column of an interpreted lookup, for
// several batch sizes, and of a plain gather of the same table rows into the same places, which is
// the floor. Half of the columns are sparse integers, 2 a row, half dense strings that are hashed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu_features.h"
#include "host_standalone.h"
#include "kernels/hashes.h"
#include "lookup/lookup.h"
#include "thread_pool.h"

namespace {

using blade_lookup::TString;

constexpr int kRows = 100000;  // of a table
constexpr int kTables = 100;   // columns share them when there are more

// One thread is timed by its own processor time, so that other work on the machine matters less.
double Now(bool one_thread) {
  timespec time;
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Median seconds of a run.
template <typename F>
double Time(bool one_thread, F f) {
  std::vector<double> seconds;
  const double start = Now(false);
  for (int i = 0; i < 7 || (i < 3000 && Now(false) - start < 0.4); ++i) {
    const double before = Now(one_thread);
    f();
    seconds.push_back(Now(one_thread) - before);
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

// The inputs of a lookup, its text, and the table rows each output vector is the mean of.
struct Workload {
  std::string text;
  std::vector<std::vector<BladeInt>> dims, integers;
  std::vector<std::vector<TString>> strings;
  std::vector<BladeTensor> inputs;
  std::vector<std::vector<const float*>> gathered;  // by column, in the order of elements
  std::vector<int> elements;                        // of a row, by column

  void Add(const void* data, std::vector<BladeInt> shape, int dtype) {
    dims.push_back(std::move(shape));
    inputs.push_back(
        {const_cast<void*>(data), dims.back().data(), static_cast<int>(dims.back().size()), dtype});
  }
};

Workload Make(const std::vector<std::vector<float>>& tables, int columns, int dim, int batch,
              bool repeated) {
  Workload work;
  const size_t most = 5 * static_cast<size_t>(columns);
  work.dims.reserve(most), work.integers.reserve(most), work.strings.reserve(most);
  std::mt19937 random(batch);
  std::uniform_int_distribution<int> id(0, kRows - 1);
  std::string types, streams, bags, parts;
  for (int c = 0; c < columns; ++c) {
    const std::vector<float>& table = tables[c % kTables];
    const std::string first = std::to_string(work.inputs.size());
    std::vector<const float*> rows;
    if (c % 2 == 0) {
      std::vector<BladeInt> indices, values;
      for (int r = 0; r < batch; ++r) {
        for (int k = 0; k < 2; ++k) {
          indices.insert(indices.end(), {r, k});
          values.push_back(repeated && r > 0 ? values[k] : id(random));
          rows.push_back(table.data() + values.back() * dim);
        }
      }
      work.integers.push_back(std::move(indices));
      work.Add(work.integers.back().data(), {2 * batch, 2}, BLADE_I64);
      work.integers.push_back(std::move(values));
      work.Add(work.integers.back().data(), {2 * batch}, BLADE_I64);
      work.integers.push_back({batch, 2});
      work.Add(work.integers.back().data(), {2}, BLADE_I64);
      types += " i64 i64 i64 f32";
      const int at = std::stoi(first);
      streams += "sparse 1 " + std::to_string(at + 1) + " " + first + " " + std::to_string(at + 2) +
                 " 1 1 0 0 0 1 value i64 0 0 0\n";
    } else {
      std::vector<TString> values(batch);
      for (int r = 0; r < batch; ++r) {
        const std::string text =
            "item" + std::to_string(repeated && r > 0 ? 7 * c : 10 * id(random));
        values[r].raw[0] = static_cast<unsigned char>(text.size() << 2);
        std::memcpy(values[r].raw + 1, text.data(), text.size());
        const auto hash = blade_lookup::Fingerprint64({text.data(), text.size()});
        rows.push_back(table.data() + hash % kRows * dim);
      }
      work.strings.push_back(std::move(values));
      work.Add(work.strings.back().data(), {batch, 1}, BLADE_STRING);
      types += " string f32";
      streams += "dense 1 " + first +
                 " 0 0 1 0 4 value string 0 0 const string 0 x ne bool 2 0 1 " +
                 "hash_fast i64 1 0 100000 3 2\n";
    }
    work.gathered.push_back(std::move(rows));
    work.elements.push_back(c % 2 == 0 ? 2 : 1);
    const std::string table_input = std::to_string(work.inputs.size());
    work.Add(table.data(), {kRows, dim}, BLADE_F32);
    bags += std::to_string(c) + " " + std::to_string(dim) + " table 1 " + table_input +
            " mod mean none none 0 x\n";
    parts +=
        " " + std::to_string(c * dim) + " " + std::to_string(dim) + " bag " + std::to_string(c);
  }
  const std::string n = std::to_string(columns);
  work.text = "lookup 1 inputs " + std::to_string(work.inputs.size()) + types +
              "\nvocabularies 0\nstreams " + n + "\n" + streams + "bags " + n + "\n" + bags +
              "outputs 1\n1 " + std::to_string(columns * dim) + " 0 " + n + parts + "\n";
  return work;
}

// Reads the rows and writes their mean, with nothing to compute or to check.
void Gather(const Workload& work, int batch, int dim, float* out) {
  constexpr size_t kAhead = 16;
  const size_t width = work.gathered.size() * static_cast<size_t>(dim);
  for (size_t c = 0; c < work.gathered.size(); ++c) {
    const std::vector<const float*>& rows = work.gathered[c];
    const int k = work.elements[c];
    for (int r = 0; r < batch; ++r) {
      float* to = out + static_cast<size_t>(r) * width + c * static_cast<size_t>(dim);
      const size_t at = static_cast<size_t>(r * k);
      for (size_t e = at; e < at + static_cast<size_t>(k); ++e) {
        if (e + kAhead < rows.size()) __builtin_prefetch(rows[e + kAhead]);
      }
      if (k == 1) {
        std::memcpy(to, rows[at], sizeof(float) * dim);
      } else {
        for (int d = 0; d < dim; ++d) to[d] = (rows[at][d] + rows[at + 1][d]) * 0.5f;
      }
    }
  }
}

void Measure(const std::vector<std::vector<float>>& tables, int columns, int dim, int batch,
             bool repeated, blade::ThreadPool* pool) {
  const Workload work = Make(tables, columns, dim, batch, repeated);
  std::string error;
  const auto lookup = blade::Lookup::Parse(work.text, &error);
  if (lookup == nullptr) {
    std::fprintf(stderr, "%s\n", error.c_str());
    std::exit(1);
  }
  // A host that keeps its memory, as TensorFlow's allocator does.
  struct Memory {
    std::vector<float> output;
    std::vector<char> temp;
    blade::ThreadPool* pool;
  } memory = {std::vector<float>(static_cast<size_t>(batch) * columns * dim),
              std::vector<char>(1 << 22), pool};
  BladeHost host{};
  host.allocate_output = [](void* ctx, int, int, const BladeInt*) -> void* {
    return static_cast<Memory*>(ctx)->output.data();
  };
  host.allocate_temp = [](void* ctx, BladeInt) -> void* {
    return static_cast<Memory*>(ctx)->temp.data();
  };
  host.parallel_for = [](void* ctx, BladeInt total, double cost, BladeBody body, const void* args) {
    blade::ThreadPool* threads = static_cast<Memory*>(ctx)->pool;
    threads->ParallelFor(total, blade::BlockSize(total, cost, threads->threads()), body, args);
  };
  host.count = [](void*, int, BladeInt) {};
  const auto run = [&] {
    const int status = lookup->Run(host, &memory, work.inputs.data());
    if (status == BLADE_OK) return;
    std::fprintf(stderr, "%s\n", lookup->Reason(status).c_str());
    std::exit(1);
  };
  const bool one_thread = pool->threads() == 1;
  const double fused = Time(one_thread, run);
  const double floor = Time(true, [&] { Gather(work, batch, dim, memory.output.data()); });
  std::printf("%5d %8s %12.1f %12.1f %8.2f\n", batch, repeated ? "repeated" : "",
              1e9 * fused / columns, 1e9 * floor / columns, fused / floor);
}

}  // namespace

int main(int argc, char** argv) {
  const int columns = argc > 1 ? std::atoi(argv[1]) : 100;
  const int dim = argc > 2 ? std::atoi(argv[2]) : 16;
  blade::ThreadPool pool(argc > 3 ? std::atoi(argv[3]) : 1);
  std::vector<std::vector<float>> tables(std::min(columns, kTables));
  for (auto& table : tables) table.assign(static_cast<size_t>(kRows) * dim, 0.5f);
  std::printf("%s, %d threads, %d columns of %d floats\n", blade::IsaName(blade::BestIsa()),
              pool.threads(), columns, dim);
  std::printf("batch          ns a column  gather alone    ratio\n");
  for (const bool repeated : {false, true}) {
    for (const int batch : {1, 16, 100, 512}) Measure(tables, columns, dim, batch, repeated, &pool);
  }
  return 0;
}
