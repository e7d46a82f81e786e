// Clients of a TensorFlow session, and the row gather that no lookup can beat.
//
// Built by client.py when first needed. TensorFlow's functions come in as pointers: linking against
// libtensorflow_cc takes longer than everything else here.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "tensorflow/c/c_api.h"

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs body(0..threads-1) at the same moment, the last one here; seconds from start to end of all.
template <typename Body>
double Together(int threads, const Body& body) {
  std::atomic<int> waiting{threads};
  auto start_and_run = [&](int index) {
    waiting.fetch_sub(1);
    while (waiting.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    body(index);
  };
  std::vector<std::thread> others;
  for (int index = 0; index + 1 < threads; ++index) others.emplace_back(start_and_run, index);
  while (waiting.load(std::memory_order_acquire) > 1) std::this_thread::yield();
  const Clock::time_point start = Clock::now();
  start_and_run(threads - 1);
  for (std::thread& other : others) other.join();
  return SecondsSince(start);
}

}  // namespace

extern "C" {

struct Api {
  decltype(&TF_SessionRun) run;
  decltype(&TF_DeleteTensor) delete_tensor;
  decltype(&TF_NewStatus) new_status;
  decltype(&TF_DeleteStatus) delete_status;
  decltype(&TF_GetCode) code;
  decltype(&TF_Message) message;
};

// A signature with its feeds: the arguments of TF_SessionRun that stay the same.
struct Call {
  TF_Session* session;
  const TF_Output* inputs;
  TF_Tensor* const* tensors;
  int input_count;
  const TF_Output* outputs;
  int output_count;
};

// Each of `clients` threads makes `rounds` calls, going round the `count` calls from a place of its
// own. `seconds` [clients * rounds] receives each call's time. Returns the time of all, or -1 with
// TensorFlow's words in `error` when a call failed.
double bench_run(const Api* api, const Call* calls, int count, int clients, int64_t rounds,
                 double* seconds, char* error, size_t error_size) {
  std::atomic<bool> failed{false};
  const double all = Together(clients, [&](int client) {
    TF_Status* status = api->new_status();
    std::vector<TF_Tensor*> results(calls[0].output_count);
    for (int64_t round = 0; round < rounds && !failed.load(std::memory_order_relaxed); ++round) {
      const Call& call = calls[(round + client * count / clients) % count];
      const Clock::time_point start = Clock::now();
      api->run(call.session, nullptr, call.inputs, call.tensors, call.input_count, call.outputs,
               results.data(), call.output_count, nullptr, 0, nullptr, status);
      if (api->code(status) != TF_OK) {
        if (!failed.exchange(true)) std::snprintf(error, error_size, "%s", api->message(status));
        break;
      }
      for (TF_Tensor* result : results) api->delete_tensor(result);
      seconds[client * rounds + round] = SecondsSince(start);
    }
    api->delete_status(status);
  });
  return failed ? -1.0 : all;
}

// One column of a batch: row r sums up the rows ids[splits[r]..splits[r+1]) of its table.
struct Gather {
  const float* table;
  const int64_t* ids;
  const int64_t* splits;
  int64_t dim;
  int64_t offset;  // of its result in a row of the output
};

}  // extern "C"

namespace {

constexpr int kAhead = 12;  // ids between a prefetch and its use

void Prefetch(const Gather& column, int64_t at) {
  const float* row = column.table + column.ids[at] * column.dim;
  for (int64_t part = 0; part < column.dim; part += 16) __builtin_prefetch(row + part);
}

template <int kDim>
void GatherColumn(const Gather& column, int64_t begin, int64_t end, float* __restrict__ out,
                  int64_t width) {
  const int64_t last = column.splits[end];
  for (int64_t row = begin; row < end; ++row) {
    float sum[kDim] = {};  // in registers: the loops over kDim are unrolled and vectorised
    for (int64_t at = column.splits[row]; at < column.splits[row + 1]; ++at) {
      if (at + kAhead < last) Prefetch(column, at + kAhead);
      const float* from = column.table + column.ids[at] * kDim;
      for (int part = 0; part < kDim; ++part) sum[part] += from[part];
    }
    float* to = out + row * width + column.offset;
    for (int part = 0; part < kDim; ++part) to[part] = sum[part];
  }
}

// Columns of rows [begin, end), whose output fits the cache if there are few.
void GatherBlock(const Gather* columns, int count, int64_t begin, int64_t end, float* out,
                 int64_t width) {
  for (int index = 0; index < count; ++index) {
    const Gather& column = columns[index];
    if (index + 1 < count) {  // its first ids have nobody else to ask for them in time
      const Gather& next = columns[index + 1];
      const int64_t first = next.splits[begin], last = next.splits[end];
      for (int64_t at = first; at < last && at < first + kAhead; ++at) Prefetch(next, at);
    }
    switch (column.dim) {
      case 8:
        GatherColumn<8>(column, begin, end, out, width);
        break;
      case 16:
        GatherColumn<16>(column, begin, end, out, width);
        break;
      case 32:
        GatherColumn<32>(column, begin, end, out, width);
        break;
    }
  }
}

}  // namespace

extern "C" {

// Fills out [rows, width] from `columns` for each of `batches` batches (their columns follow each
// other), `rounds` times over. Each thread has rows of its own and waits for nobody. Dims are 8, 16
// or 32. Returns the seconds of all.
double bench_gather(const Gather* columns, int count, int batches, int64_t rows, int64_t width,
                    float* out, int threads, int64_t rounds) {
  constexpr int64_t kBlock = 32;
  return Together(threads, [&](int thread) {
    const int64_t first = rows * thread / threads, end = rows * (thread + 1) / threads;
    for (int64_t round = 0; round < rounds; ++round) {
      const Gather* batch = columns + (round % batches) * count;
      for (int64_t begin = first; begin < end; begin += kBlock) {
        const int64_t stop = begin + kBlock < end ? begin + kBlock : end;
        GatherBlock(batch, count, begin, stop, out, width);
      }
    }
  });
}

}  // extern "C"
