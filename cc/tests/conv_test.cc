// Every implementation against the reference, over windows of every kind.
#include "conv/conv.h"

#include <cmath>
#include <cstdio>
#include <memory>

#include "aligned_buffer.h"
#include "tests/testing.h"
#include "thread_pool.h"

namespace blade {
namespace {

// Reproducible values in [-1, 1).
class Random {
 public:
  double Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) / (uint64_t{1} << 52) - 1;
  }
  BladeInt Below(BladeInt n) { return static_cast<BladeInt>((Next() + 1) / 2 * n); }

 private:
  uint64_t state_ = 88172645463325252u;
};

void ParallelFor(void* ctx, BladeInt total, double cost_cycles, BladeBody body, const void* args) {
  auto* pool = static_cast<ThreadPool*>(ctx);
  pool->ParallelFor(total, BlockSize(total, cost_cycles, pool->threads()), body, args);
}

// Elements in memory of exactly their size, so that a sanitizer sees what is read beyond.
template <typename T>
std::unique_ptr<T[]> Values(BladeInt n, Random* random) {
  std::unique_ptr<T[]> values(new T[n]);
  for (BladeInt i = 0; i < n; ++i) values[i] = static_cast<T>(random->Next());
  return values;
}

BladeInt Size(const BladeInt (&dims)[3]) { return dims[0] * dims[1] * dims[2]; }

template <typename T>
void Check(BladeConv conv, ThreadPool* pool, Random* random, bool bias) {
  conv.dtype = sizeof(T) == 8 ? BLADE_F64 : BLADE_F32;
  conv.filter_constant_input = -1;
  const BladeInt y_size = conv.batch * Size(conv.out) * conv.groups * conv.filters;
  const auto x = Values<T>(conv.batch * Size(conv.in) * conv.groups * conv.channels, random);
  const auto filter =
      Values<T>(Size(conv.window) * conv.channels * conv.groups * conv.filters, random);
  const auto b = Values<T>(conv.groups * conv.filters, random);
  const auto expected = Values<T>(y_size, random), got = Values<T>(y_size, random);
  conv.x = x.get(), conv.filter = filter.get(), conv.bias = bias ? b.get() : nullptr;

  const GemmHost host = {ParallelFor, pool, pool->threads(), nullptr};
  conv.y = expected.get();
  CHECK_EQ(kConvReference.run(conv, host, nullptr), BLADE_OK);
  conv.y = got.get();
  const auto packed = UsesPackedFilter(conv) ? PackB(FilterAsB(conv)) : nullptr;
  CHECK_EQ(RunConv(conv, host, random->Below(2) ? packed.get() : nullptr), BLADE_OK);
  const BladeInt k = Size(conv.window) * conv.channels;
  const double tolerance = (sizeof(T) == 8 ? 1e-15 : 6e-7) * (8 + static_cast<double>(k));
  for (BladeInt i = 0; i < y_size; ++i) {
    if (std::fabs(got[i] - expected[i]) <= tolerance) continue;
    char text[600];
    int n =
        std::snprintf(text, sizeof(text), "%s: batch %lld, %lld groups of %lld to %lld;",
                      ConvImplementationName(conv), (long long)conv.batch, (long long)conv.groups,
                      (long long)conv.channels, (long long)conv.filters);
    for (int d = 0; d < 3; ++d) {
      n += std::snprintf(text + n, sizeof(text) - n,
                         " in %lld window %lld out %lld stride %lld dilation %lld low %lld;",
                         (long long)conv.in[d], (long long)conv.window[d], (long long)conv.out[d],
                         (long long)conv.stride[d], (long long)conv.dilation[d],
                         (long long)conv.low[d]);
    }
    std::snprintf(text + n, sizeof(text) - n, " element %lld is %g, not %g", (long long)i,
                  (double)got[i], (double)expected[i]);
    testing::Fail(__FILE__, __LINE__, text);
    return;
  }
}

// Sets a dim so that windows may begin before x and end behind it.
void SetDim(BladeConv* conv, int d, BladeInt in, BladeInt window, BladeInt stride,
            BladeInt dilation, BladeInt low, BladeInt high) {
  const BladeInt extent = (window - 1) * dilation + 1;
  conv->in[d] = in, conv->window[d] = window, conv->stride[d] = stride;
  conv->dilation[d] = dilation, conv->low[d] = low;
  conv->out[d] = in + low + high < extent ? 0 : (in + low + high - extent) / stride + 1;
}

template <typename T>
void Sweep() {
  ThreadPool pool(3), alone(1);
  Random random;
  for (int round = 0; round < 1500; ++round) {
    BladeConv conv{};
    conv.batch = 1 + random.Below(3);
    const BladeInt kind = random.Below(4);  // 0: depthwise, 1: grouped
    conv.groups = kind < 2 ? 2 + random.Below(kind == 0 ? 70 : 3) : 1;
    conv.channels = kind == 0 ? 1 : 1 + random.Below(random.Below(2) ? 4 : 40);
    conv.filters = 1 + random.Below(kind == 0 ? 3 : random.Below(2) ? 5 : 70);
    const bool padded = random.Below(3) > 0;
    const BladeInt rank = 1 + random.Below(3);
    for (int d = 0; d < 3; ++d) {
      const BladeInt extent = d < 3 - rank ? 1 : 1 + random.Below(d == 2 ? 20 : 8);
      const BladeInt window = d < 3 - rank ? 1 : 1 + random.Below(4);
      const BladeInt dilation = 1 + random.Below(2) * random.Below(3);
      const BladeInt most = padded && d >= 3 - rank ? (window - 1) * dilation + 1 : 1;
      SetDim(&conv, d, extent, window, 1 + random.Below(2) * random.Below(3), dilation,
             random.Below(most), random.Below(most));
    }
    conv.activation = random.Below(2) ? BLADE_ACTIVATION_RELU : BLADE_ACTIVATION_NONE;
    Check<T>(conv, round % 2 ? &pool : &alone, &random, random.Below(2));
  }
}

TEST(Convolutions_of_f32_equal_the_reference) { Sweep<float>(); }

TEST(Convolutions_of_f64_equal_the_reference) { Sweep<double>(); }

TEST(Large_images_are_cut_into_blocks) {
  ThreadPool pool(3);
  Random random;
  BladeConv conv{};
  conv.batch = 2, conv.groups = 1, conv.channels = 24, conv.filters = 40;
  SetDim(&conv, 0, 1, 1, 1, 1, 0, 0);
  for (const BladeInt stride : {1, 2}) {
    for (const BladeInt dilation : {1, 3}) {
      SetDim(&conv, 1, 21, 3, stride, dilation, 2, 1);
      SetDim(&conv, 2, 1500, 3, stride, dilation, 1, 2);  // a row has no room
      Check<float>(conv, &pool, &random, true);
      SetDim(&conv, 2, 70, 3, stride, dilation, 1, 2);
      Check<float>(conv, &pool, &random, true);
    }
  }
  conv.groups = 90, conv.channels = conv.filters = 1;
  Check<float>(conv, &pool, &random, true);
  SetDim(&conv, 2, 1500, 5, 1, 2, 4, 4);
  Check<float>(conv, &pool, &random, false);
}

TEST(Few_filters_run_along_the_pixels) {
  ThreadPool pool(3), alone(1);
  Random random;
  for (int round = 0; round < 400; ++round) {
    BladeConv conv{};
    conv.batch = 1 + random.Below(2), conv.groups = 1, conv.filters = 1 + random.Below(9);
    conv.channels = 1 + random.Below(random.Below(2) ? 3 : 12);
    SetDim(&conv, 0, 1, 1, 1, 1, 0, 0);
    const BladeInt window = 1 + random.Below(9), dilation = 1 + random.Below(2) * random.Below(3);
    const BladeInt most = (window - 1) * dilation + 1;
    SetDim(&conv, 1, 1 + random.Below(6), 1 + random.Below(2), 1 + random.Below(2), 1,
           random.Below(2), random.Below(2));
    SetDim(&conv, 2, 16 + random.Below(random.Below(4) ? 200 : 6000), window,
           1 + random.Below(2) * random.Below(4), dilation, random.Below(most), random.Below(most));
    conv.activation = random.Below(2) ? BLADE_ACTIVATION_RELU : BLADE_ACTIVATION_NONE;
    Check<float>(conv, round % 2 ? &pool : &alone, &random, random.Below(2));
    if (round % 4 == 0) Check<double>(conv, &pool, &random, random.Below(2));
  }
  BladeConv conv{};
  conv.batch = conv.groups = 1, conv.channels = conv.filters = 2;
  SetDim(&conv, 0, 1, 1, 1, 1, 0, 0);
  SetDim(&conv, 1, 5, 3, 1, 1, 1, 1);
  SetDim(&conv, 2, 70, 3, 1, 1, 1, 1);
  conv.dtype = BLADE_F32;
  const std::string name = ConvImplementationName(conv);
  CHECK(name == "conv_planes" || name == "conv_indirect");  // by the width of vectors
}

TEST(What_no_copy_has_room_for_runs_by_the_reference) {
  ThreadPool pool(1);
  Random random;
  BladeConv conv{};
  conv.batch = conv.groups = 1, conv.channels = 30000, conv.filters = 2;
  SetDim(&conv, 0, 1, 1, 1, 1, 0, 0);
  SetDim(&conv, 1, 2, 3, 1, 1, 1, 1);
  SetDim(&conv, 2, 2, 3, 1, 1, 1, 1);
  Check<double>(conv, &pool, &random, true);
  CHECK(std::string(ConvImplementationName(conv)) == "conv_reference");
}

TEST(Nothing_is_written_for_an_empty_convolution) {
  const GemmHost host = {ParallelFor, nullptr, 1, nullptr};
  BladeConv conv{};
  conv.dtype = BLADE_F32;
  CHECK_EQ(RunConv(conv, host, nullptr), BLADE_OK);
  conv.dtype = BLADE_I32;
  CHECK_EQ(RunConv(conv, host, nullptr), BLADE_HOST_ERROR);
}

}  // namespace
}  // namespace blade
