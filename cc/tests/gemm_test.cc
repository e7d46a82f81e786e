// Every implementation against the reference, over sizes around every tile's edge.
#include "gemm/gemm.h"

#include <cmath>
#include <memory>
#include <vector>

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
    return static_cast<double>(state_ >> 11) / (1ull << 52) - 1;
  }

 private:
  unsigned long long state_ = 42;
};

// A matrix batch of exactly as many elements as may be read: a sanitizer sees one more. Elements
// between rows are NaN: whoever reads them for a result is found out.
template <typename T>
std::unique_ptr<T[]> Matrix(BladeInt batch, BladeInt rows, BladeInt columns, BladeInt ld,
                            BladeInt stride, Random* random, BladeInt* size) {
  *size = (batch - 1) * stride + (rows > 0 ? (rows - 1) * ld + columns : 0);
  std::unique_ptr<T[]> data(new T[*size > 0 ? *size : 1]);
  for (BladeInt i = 0; i < *size; ++i) data[i] = static_cast<T>(NAN);
  for (BladeInt b = 0; b < batch; ++b) {
    for (BladeInt i = 0; i < rows; ++i) {
      for (BladeInt j = 0; j < columns; ++j) {
        data[b * stride + i * ld + j] = static_cast<T>(random ? random->Next() : 7);
      }
    }
  }
  return data;
}

void ParallelFor(void* ctx, BladeInt total, double cost_cycles, BladeBody body, const void* args) {
  auto* pool = static_cast<ThreadPool*>(ctx);
  // As if all work were large, so that small cases are split too.
  pool->ParallelFor(total, BlockSize(total, cost_cycles * 1e4, pool->threads()), body, args);
}

// Columns of A that were the same in all rows, in the last product that made use of it.
BladeInt repeated = 0;

void Count(void*, int event, BladeInt times) {
  if (event == BLADE_EVENT_REPEATED_ROWS) repeated = times;
}

struct Case {
  BladeInt batch, m, n, k;
  bool transpose_a, transpose_b, bias, relu, one_b, padded;
  double same = 0;  // share of A's columns that hold the same in all rows, if A isn't transposed

  // These vary with the sizes.
  double scale() const { return (m + n + k) % 5 < 2 ? 0.3 : 1; }
  bool residual() const { return (m + n + k) % 3 == 0; }
};

// Makes a share of the columns the same in all rows: some whole ranges, and some single columns.
template <typename T>
void Repeat(double share, BladeInt batch, BladeInt m, BladeInt k, BladeInt lda, BladeInt stride,
            Random* random, T* a) {
  for (BladeInt b = 0; b < batch; ++b) {
    bool same = false;
    for (BladeInt p = 0; p < k; ++p) {
      if (p % 5 == 0 || p % 8 == 0) same = (random->Next() + 1) / 2 < share;
      for (BladeInt i = 1; i < m && same; ++i) a[b * stride + i * lda + p] = a[b * stride + p];
    }
  }
}

template <typename T>
void Check(const Case& c, ThreadPool* pool) {
  Random random;
  BladeGemm gemm{};
  gemm.dtype = sizeof(T) == 8 ? BLADE_F64 : BLADE_F32;
  gemm.transpose_a = c.transpose_a;
  gemm.transpose_b = c.transpose_b;
  gemm.batch = c.batch, gemm.m = c.m, gemm.n = c.n, gemm.k = c.k;
  const BladeInt pad = c.padded ? 3 : 0;
  const BladeInt a_rows = c.transpose_a ? c.k : c.m, a_columns = c.transpose_a ? c.m : c.k;
  const BladeInt b_rows = c.transpose_b ? c.n : c.k, b_columns = c.transpose_b ? c.k : c.n;
  gemm.lda = a_columns + pad, gemm.ldb = b_columns + pad, gemm.ldc = c.n + pad;
  gemm.a_stride = a_rows * gemm.lda + pad;
  gemm.b_stride = c.one_b ? 0 : b_rows * gemm.ldb + pad;
  gemm.c_stride = c.m * gemm.ldc + pad;
  BladeInt size;
  const auto a = Matrix<T>(c.batch, a_rows, a_columns, gemm.lda, gemm.a_stride, &random, &size);
  if (!c.transpose_a) {
    Repeat(c.same, c.batch, c.m, c.k, gemm.lda, gemm.a_stride, &random, a.get());
  }
  const auto b =
      Matrix<T>(c.one_b ? 1 : c.batch, b_rows, b_columns, gemm.ldb, gemm.b_stride, &random, &size);
  const auto bias = Matrix<T>(1, 1, c.n, c.n, c.n, &random, &size);
  const auto residual = Matrix<T>(c.batch, c.m, c.n, gemm.ldc, gemm.c_stride, &random, &size);
  const auto got = Matrix<T>(c.batch, c.m, c.n, gemm.ldc, gemm.c_stride, nullptr, &size);
  const auto expected = Matrix<T>(c.batch, c.m, c.n, gemm.ldc, gemm.c_stride, nullptr, &size);
  gemm.a = a.get(), gemm.b = b.get(), gemm.bias = c.bias ? bias.get() : nullptr;
  gemm.activation = c.relu ? BLADE_ACTIVATION_RELU : BLADE_ACTIVATION_NONE;
  gemm.scale = c.scale();
  gemm.residual = c.residual() ? residual.get() : nullptr;
  gemm.b_constant_input = -1;

  const GemmHost host = {ParallelFor, pool, pool->threads(), Count};
  gemm.c = expected.get();
  kGemmReference.run(gemm, host, nullptr);
  gemm.c = got.get();
  for (const bool constant_b : {false, true}) {
    const auto packed = constant_b ? PackB(gemm) : nullptr;
    for (BladeInt i = 0; i < size; ++i) {
      if (!std::isnan(got[i])) got[i] = 7;
    }
    CHECK_EQ(RunGemm(gemm, host, packed.get()), BLADE_OK);
    // A sum of k terms below 1, in the type's precision.
    const double tolerance = (sizeof(T) == 8 ? 1e-15 : 6e-7) * (8 + static_cast<double>(c.k));
    for (BladeInt i = 0; i < size; ++i) {
      const bool same = std::isnan(expected[i]) ? std::isnan(got[i])
                                                : std::fabs(got[i] - expected[i]) <= tolerance;
      if (same) continue;
      char text[300];
      std::snprintf(
          text, sizeof(text),
          "%s: batch %lld m %lld n %lld k %lld%s%s%s%s%s%s%s%s%s: element %lld is %g, not %g",
          GemmImplementationName(gemm, packed.get()), (long long)c.batch, (long long)c.m,
          (long long)c.n, (long long)c.k, c.transpose_a ? " transpose_a" : "",
          c.transpose_b ? " transpose_b" : "", c.bias ? " bias" : "", c.relu ? " relu" : "",
          c.one_b ? " one_b" : "", c.padded ? " padded" : "", c.scale() != 1 ? " scale" : "",
          c.residual() ? " residual" : "", constant_b ? " packed" : "", (long long)i,
          (double)got[i], (double)expected[i]);
      testing::Fail(__FILE__, __LINE__, text);
    }
  }
}

template <typename T>
void Sweep() {
  ThreadPool pool(3);
  int i = 0;
  for (const BladeInt m : {1, 2, 3, 4, 5, 6, 7, 8, 14, 15, 29, 70}) {
    for (const BladeInt n : {1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 100}) {
      for (const BladeInt k : {0, 1, 2, 3, 8, 33, 200, 300}) {
        for (int flags = 0; flags < 4; ++flags) {
          // All combinations of transposes; the rest varies with the sizes.
          ++i;
          const Case c = {1 + i % 3,        m,         n,         k,          (flags & 1) != 0,
                          (flags & 2) != 0, i % 5 < 3, i % 7 < 3, i % 2 == 0, i % 11 < 5};
          Check<T>(c, &pool);
        }
      }
    }
  }
}

TEST(Products_of_f32_equal_the_reference) { Sweep<float>(); }

TEST(Products_of_f64_equal_the_reference) { Sweep<double>(); }

TEST(Large_products_are_blocked_and_split) {
  ThreadPool pool(3);
  Check<float>({1, 260, 150, 700, false, false, true, true, false, false}, &pool);
  Check<float>({1, 260, 150, 700, true, true, true, false, false, true}, &pool);
  Check<double>({2, 130, 90, 600, false, true, false, true, true, false}, &pool);
}

TEST(Columns_of_a_that_are_the_same_in_all_rows_are_computed_once) {
  ThreadPool pool(3), alone(1);
  int i = 0;
  for (const BladeInt m : {2, 15, 16, 37, 150, 300}) {
    for (const BladeInt n : {1, 20, 32, 33, 100}) {
      for (const BladeInt k : {20, 64, 130, 700}) {
        for (const double same : {0.05, 0.5, 0.9, 1.0}) {
          ++i;
          const Case c = {1 + i % 2, m,         n,          k,          i % 13 == 0, i % 3 == 0,
                          i % 5 < 3, i % 7 < 3, i % 4 == 0, i % 11 < 5, same};
          Check<float>(c, i % 3 ? &pool : &alone);
          if (i % 3 == 0) Check<double>(c, &pool);
        }
      }
    }
  }
  repeated = 0;
  Check<float>({1, 64, 64, 500, false, false, true, true, false, false, 1.0}, &pool);
  CHECK_EQ(repeated, 500);
  repeated = 0;
  Check<float>({1, 64, 64, 35000, false, false, false, false, false, true, 1.0}, &alone);
  CHECK(repeated > 0 && repeated < 35000);  // it looks at the first columns only
  repeated = 0;
  Check<float>({1, 64, 64, 500, false, false, true, true, false, false, 0.0}, &pool);
  CHECK_EQ(repeated, 0);
}

// Large enough for a matrix unit to be used, where there is one.
TEST(Products_of_bf16_parts_equal_the_reference) {
  ThreadPool pool(3), alone(1);
  int i = 0;
  for (const BladeInt m : {32, 47, 64, 131}) {
    for (const BladeInt n : {64, 65, 100}) {
      for (const BladeInt k : {64, 130, 530}) {
        ++i;
        const Case c = {1 + i % 2,  m,         n,         k,          false,
                        i % 3 == 0, i % 5 < 3, i % 7 < 3, i % 4 == 0, i % 11 < 5};
        Check<float>(c, i % 3 ? &pool : &alone);
      }
    }
  }
}

// C = A * B for m x k and k x n numbers that lie side by side, B packed or not.
std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b, BladeInt m,
                           BladeInt n, BladeInt k, bool packed, bool reference = false) {
  BladeGemm gemm{};
  gemm.dtype = BLADE_F32;
  gemm.scale = 1;
  gemm.batch = 1, gemm.m = m, gemm.n = n, gemm.k = k;
  gemm.lda = k, gemm.ldb = n, gemm.ldc = n;
  gemm.a = a.data(), gemm.b = b.data();
  gemm.b_constant_input = -1;
  std::vector<float> c(m * n);
  gemm.c = c.data();
  ThreadPool pool(2);
  const GemmHost host = {ParallelFor, &pool, pool.threads(), nullptr};
  const auto panels = packed ? PackB(gemm) : nullptr;
  if (reference) {
    kGemmReference.run(gemm, host, nullptr);
  } else {
    RunGemm(gemm, host, panels.get());
  }
  return c;
}

TEST(Products_of_numbers_of_all_sizes_are_as_accurate_as_f32) {
  constexpr BladeInt m = 130, n = 200, k = 530;
  Random random;
  std::vector<float> a(m * k), b(k * n), a_size(m * k), b_size(k * n);
  const auto fill = [&](std::vector<float>& x, std::vector<float>& size) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(random.Next() * std::exp2(20 * random.Next()));
      size[i] = std::fabs(x[i]);
    }
  };
  fill(a, a_size);
  fill(b, b_size);
  const auto exact = Product(a, b, m, n, k, false, true);
  const auto sizes = Product(a_size, b_size, m, n, k, false, true);
  for (const bool packed : {false, true}) {
    const auto got = Product(a, b, m, n, k, packed);
    for (size_t i = 0; i < got.size(); ++i) {
      // Some hundreds of terms are added up one after the other.
      CHECK(std::fabs(got[i] - exact[i]) <= 2e-6 * sizes[i]);
    }
  }
}

TEST(Numbers_that_have_no_parts_give_what_f32_gives) {
  constexpr BladeInt m = 130, n = 200, k = 130;
  Random random;
  for (const float special : {INFINITY, -INFINITY, NAN, 3.4e38f, 1e-40f}) {
    for (const int where : {0, 1, 2}) {  // A, B, both
      std::vector<float> a(m * k), b(k * n);
      for (float& x : a) x = static_cast<float>(random.Next());
      for (float& x : b) x = static_cast<float>(random.Next());
      if (where != 1) a[77 * k + 55] = special;
      if (where != 0) b[55 * n + 60] = special;
      const auto expected = Product(a, b, m, n, k, false, true);
      for (const bool packed : {false, true}) {
        const auto got = Product(a, b, m, n, k, packed);
        for (size_t i = 0; i < got.size(); ++i) {
          const bool same = std::isnan(expected[i])   ? std::isnan(got[i])
                            : std::isinf(expected[i]) ? got[i] == expected[i]
                                                      : std::fabs(got[i] - expected[i]) <=
                                                            1e-6 * (k + std::fabs(expected[i]));
          CHECK(same);
        }
      }
    }
  }
}

TEST(Nothing_is_written_for_an_empty_product) {
  BladeGemm gemm{};
  gemm.dtype = BLADE_F32;
  gemm.scale = 1;
  const GemmHost host = {ParallelFor, nullptr, 1, nullptr};
  for (const auto& [batch, m, n] : {std::tuple{0, 2, 2}, {1, 0, 2}, {1, 2, 0}}) {
    gemm.batch = batch, gemm.m = m, gemm.n = n, gemm.k = 3;
    CHECK_EQ(RunGemm(gemm, host, nullptr), BLADE_OK);
  }
  gemm.dtype = BLADE_I32;
  CHECK_EQ(RunGemm(gemm, host, nullptr), BLADE_HOST_ERROR);
}

TEST(Nan_passes_through_relu) {
  const float a = NAN, b = 1;
  float c = 0;
  BladeGemm gemm{};
  gemm.dtype = BLADE_F32;
  gemm.scale = 1;
  gemm.batch = gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = 1;
  gemm.a = &a, gemm.b = &b, gemm.c = &c;
  gemm.activation = BLADE_ACTIVATION_RELU;
  RunGemm(gemm, {ParallelFor, nullptr, 1, nullptr}, nullptr);
  CHECK(std::isnan(c));
}

TEST(Packed_constants_are_found_by_what_they_are) {
  const std::vector<float> b(64, 1), other(64, 2);
  BladeGemm gemm{};
  gemm.dtype = BLADE_F32;
  gemm.scale = 1;
  gemm.batch = 1, gemm.m = 2, gemm.n = 8, gemm.k = 8, gemm.ldb = 8;
  gemm.b = b.data();
  gemm.b_constant_input = 1;
  PackedConstants constants(2);
  CHECK(constants.Find(gemm) == nullptr);
  const PackedB* packed = constants.FindOrPack(gemm, nullptr);
  CHECK(packed != nullptr);
  CHECK_EQ(constants.Find(gemm), packed);
  CHECK_EQ(constants.FindOrPack(gemm, nullptr), packed);
  gemm.m = 5;  // another batch size is the same constant
  CHECK_EQ(constants.Find(gemm), packed);
  gemm.transpose_b = 1;
  CHECK(constants.Find(gemm) == nullptr);
  gemm.transpose_b = 0;
  gemm.b = other.data();
  CHECK(constants.Find(gemm) == nullptr);
  CHECK(constants.FindOrPack(gemm, nullptr) != packed);
  gemm.b_constant_input = 2;  // there is no input 2
  CHECK(constants.FindOrPack(gemm, nullptr) == nullptr);
  gemm.b_constant_input = -1;
  CHECK(constants.Find(gemm) == nullptr);
}

TEST(An_input_that_changes_forever_is_not_packed_forever) {
  std::vector<std::vector<float>> matrices(100, std::vector<float>(64, 1));
  PackedConstants constants(1);
  BladeGemm gemm{};
  gemm.dtype = BLADE_F32;
  gemm.scale = 1;
  gemm.batch = 1, gemm.m = 2, gemm.n = 8, gemm.k = 8, gemm.ldb = 8;
  int packed = 0;
  for (const auto& matrix : matrices) {
    gemm.b = matrix.data();
    packed += constants.FindOrPack(gemm, nullptr) != nullptr;
  }
  CHECK(packed > 0 && packed < 20);
}

}  // namespace
}  // namespace blade
