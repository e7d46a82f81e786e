// Running executables on the standalone host: alone, refused, from many threads at once.
#include "executable.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host_standalone.h"
#include "tests/testing.h"

namespace blade {
namespace {

using testing::Program;

std::shared_ptr<const Executable> Load(const char* program) {
  std::string error;
  auto executable = Executable::Load(Program(program), &error);
  CHECK(executable != nullptr);
  return executable;
}

// A tensor of f32 with elements base, base + 1, ...
struct Floats {
  Floats(std::vector<BladeInt> dims, float base) : dims(std::move(dims)) {
    BladeInt n = 1;
    for (const BladeInt d : this->dims) n *= d;
    buffer = AlignedBuffer(n * sizeof(float));
    for (BladeInt i = 0; i < n; ++i) data()[i] = base + static_cast<float>(i % 1000);
  }
  float* data() const { return static_cast<float*>(buffer.data()); }
  BladeTensor tensor() const {
    return {buffer.data(), dims.data(), static_cast<int>(dims.size()), BLADE_F32};
  }
  std::vector<BladeInt> dims;
  AlignedBuffer buffer;
};

void CheckAdds(const Executable& executable, ThreadPool* pool, BladeInt n) {
  const Floats a({n}, 1), b({n}, 2);
  StandaloneRun run(executable, {BLADE_F32, BLADE_F32}, pool);
  CHECK_EQ(run.Execute({a.tensor(), b.tensor()}), BLADE_OK);
  const auto& [y, row] = std::tie(run.outputs()[0], run.outputs()[1]);
  CHECK_EQ(y.dims, std::vector<BladeInt>{n});
  const float* data = static_cast<const float*>(y.buffer.data());
  for (BladeInt i = 0; i < n; ++i) CHECK_EQ(data[i], a.data()[i] + b.data()[i]);
  CHECK_EQ(row.input, 0);
}

TEST(An_executable_runs_at_any_size) {
  const auto add = Load("add");
  ThreadPool pool(3);
  for (const BladeInt n : {0, 1, 7, 1000, 200000}) {
    CheckAdds(*add, nullptr, n);
    CheckAdds(*add, &pool, n);
  }
}

TEST(A_refusal_has_its_reason) {
  const auto add = Load("add");
  const Floats a({2, 3}, 0), row({3}, 0), other({2, 4}, 0);
  StandaloneRun run(*add, {BLADE_F32, BLADE_F32}, nullptr);
  CHECK_EQ(run.Execute({a.tensor(), row.tensor()}), 1);
  CHECK_EQ(run.Execute({a.tensor(), other.tensor()}), 2);
}

TEST(Outputs_of_another_dtype_than_the_forwarded_input_are_a_host_error) {
  const auto add = Load("add");
  const Floats a({4}, 0);
  StandaloneRun run(*add, {BLADE_F32, BLADE_I32}, nullptr);
  CHECK_EQ(run.Execute({a.tensor(), a.tensor()}), BLADE_HOST_ERROR);
}

TEST(An_output_no_machine_can_hold_is_out_of_memory) {
  const auto huge = Load("huge");
  const Floats a({1}, 0);
  StandaloneRun run(*huge, {BLADE_F32}, nullptr);
  CHECK_EQ(run.Execute({a.tensor()}), BLADE_OUT_OF_MEMORY);
}

TEST(Many_threads_run_one_executable_with_one_packed_constant) {
  const auto dense = Load("dense");
  PackedConstants packed(dense->n_inputs());
  const Floats w({33, 40}, -7), bias({40}, 1);
  ThreadPool pool(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const BladeInt m = 1 + (t + i) % 9;
        const Floats x({m, 33}, static_cast<float>(t));
        StandaloneRun run(*dense, {BLADE_F32}, t % 2 ? &pool : nullptr);
        run.UseConstants({1}, &packed);
        CHECK_EQ(run.Execute({x.tensor(), w.tensor(), bias.tensor()}), BLADE_OK);
        const float* y = static_cast<const float*>(run.outputs()[0].buffer.data());
        for (BladeInt row = 0; row < m; ++row) {
          for (BladeInt column = 0; column < 40; ++column) {
            double sum = bias.data()[column];
            for (BladeInt p = 0; p < 33; ++p) {
              sum += double{x.data()[row * 33 + p]} * w.data()[p * 40 + column];
            }
            const double expected = sum < 0 ? 0 : sum;
            const double difference = y[row * 40 + column] - expected;
            CHECK(difference * difference <= 1e-8 * expected * expected + 1e-6);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads_load_and_unload_at_the_same_time) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 10; ++i) {
        const auto executable = Load((t + i) % 2 ? "add" : "dense");
        if ((t + i) % 2) CheckAdds(*executable, nullptr, 10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace blade
