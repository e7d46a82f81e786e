// Running lookups: from many threads at once, and on inputs that are wrong in every way.
#include <thread>

#include "tests/lookup_columns.h"
#include "tests/testing.h"

namespace blade {
namespace {

using testing::ColumnInputs;
using testing::ColumnRun;
using testing::ParseColumns;

TEST(A_lookup_gives_the_same_on_any_number_of_threads) {
  const auto lookup = ParseColumns();
  ThreadPool pool(3);
  for (const int batch : {1, 2, 31, 700}) {
    const ColumnInputs inputs(batch, batch);
    const ColumnRun alone(*lookup, inputs, nullptr), together(*lookup, inputs, &pool);
    CHECK_EQ(alone.status, BLADE_OK);
    CHECK_EQ(alone.outputs.size(), static_cast<size_t>(batch * (57 + 16)));
    CHECK(alone.outputs == together.outputs);
    // The second output is the sum of two bags of the first.
    for (int i = 0; i < batch * 16; ++i) {
      const float* row = alone.outputs.data() + i / 16 * 57 + i % 16;
      CHECK_EQ(alone.outputs[batch * 57 + i], row[0] + row[35]);
    }
  }
}

TEST(Many_threads_run_one_lookup) {
  const auto lookup = ParseColumns();
  ThreadPool pool(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const ColumnInputs inputs(1 + (7 * t + i) % 300, i);
        const ColumnRun plain(*lookup, inputs, nullptr, false);
        const ColumnRun run(*lookup, inputs, t % 2 ? &pool : nullptr);
        CHECK_EQ(run.status, BLADE_OK);
        CHECK(run.outputs == plain.outputs);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Rows_that_repeat_are_counted) {
  const auto lookup = ParseColumns();
  ColumnInputs inputs(50, 1);
  auto* strings = reinterpret_cast<blade_lookup::TString*>(inputs.buffers[3].get());
  for (int i = 2; i < 100; ++i) strings[i] = strings[i % 2];
  const ColumnRun run(*lookup, inputs, nullptr), plain(*lookup, inputs, nullptr, false);
  CHECK(run.repeated > 0);
  CHECK_EQ(plain.repeated, 0);
  CHECK(run.outputs == plain.outputs);
}

TEST(Integers_of_any_value_are_answered_or_refused) {
  const auto lookup = ParseColumns();
  ThreadPool pool(2);
  std::mt19937_64 random(0);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    ColumnInputs inputs(1 + static_cast<int>(random() % 40), i);
    const int list[] = {0, 1, 2, 4, 5};
    const int input = list[random() % 5];
    if (inputs.sizes[input] == 0) continue;
    BladeInt& changed = inputs.integers(input)[random() % inputs.sizes[input]];
    const BladeInt far = static_cast<BladeInt>(random());
    const BladeInt values[] = {0, 1, -1, changed + 1, changed - 1, far, far >> 40, far >> 20};
    // Large sparse shapes are fine for the lookup, but not for the memory.
    const BladeInt value = values[random() % 8];
    changed = input == 2 && value > 1000 ? 1000 : value;
    const ColumnRun run(*lookup, inputs, i % 2 ? &pool : nullptr);
    CHECK(run.status >= BLADE_OK);
    if (run.status != BLADE_OK) {
      ++refused;
      CHECK(!lookup->Reason(run.status).empty());
    }
  }
  CHECK(refused > 500);
}

TEST(Shapes_of_any_kind_are_answered_or_refused) {
  const auto lookup = ParseColumns();
  std::mt19937 random(0);
  for (int i = 0; i < 2000; ++i) {
    ColumnInputs inputs(2 + static_cast<int>(random() % 5), i);
    // Only smaller: the memory is what it is.
    BladeTensor& tensor = inputs.tensors[random() % inputs.tensors.size()];
    std::vector<BladeInt>& dims = *inputs.dims[&tensor - inputs.tensors.data()];
    switch (random() % 3) {
      case 0:
        tensor.rank = static_cast<int>(random() % (dims.size() + 1));
        if (tensor.rank == 0) break;  // a scalar
        [[fallthrough]];
      case 1: {
        BladeInt& dim = dims[random() % dims.size()];
        if (dim > 0) --dim;
        break;
      }
      default:
        tensor.dtype = BLADE_F64 + static_cast<int>(random() % 2) * 2;
    }
    CHECK(ColumnRun(*lookup, inputs, nullptr).status >= BLADE_OK);
  }
}

TEST(A_refusal_names_the_column) {
  const auto lookup = ParseColumns();
  ColumnInputs inputs(5, 3);
  inputs.integers(1)[0] = 7;
  const ColumnRun run(*lookup, inputs, nullptr);
  CHECK_EQ(lookup->Reason(run.status), "column 's': an id is outside its table");
}

}  // namespace
}  // namespace blade
