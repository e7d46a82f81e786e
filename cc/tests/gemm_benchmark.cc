// gemm_benchmark [THREADS [M N K]]: the matrix product's speed, B packed ahead, as it is, and
// packed with 70 % of A's columns the same in every row; for one shape in f32 or for a list of
// them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "cpu_features.h"
#include "gemm/gemm.h"
#include "thread_pool.h"

namespace {

using blade::AlignedBuffer;

void ParallelFor(void* ctx, BladeInt total, double cost_cycles, BladeBody body, const void* args) {
  auto* pool = static_cast<blade::ThreadPool*>(ctx);
  pool->ParallelFor(total, blade::BlockSize(total, cost_cycles, pool->threads()), body, args);
}

struct Shape {
  BladeInt batch, m, n, k;
  bool transpose_b;
  int dtype;
};

// One thread is timed by its own processor time, so that other work on the machine matters less.
double Now(bool one_thread) {
  timespec time;
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of the fastest of the runs that fit into a third of a second.
template <typename F>
double Time(bool one_thread, F f) {
  double fastest = 1e9;
  const double start = Now(false);
  for (int i = 0; i < 5 || (i < 2000 && Now(false) - start < 0.3); ++i) {
    const double before = Now(one_thread);
    f();
    fastest = std::min(fastest, Now(one_thread) - before);
  }
  return fastest;
}

// Makes 7 of 10 groups of 16 columns of A the same in every row.
void RepeatRows(const BladeGemm& gemm, BladeInt size, char* a) {
  constexpr BladeInt kGroup = 16;
  for (BladeInt p = 0; p < gemm.k; p += kGroup) {
    if (p / kGroup * 7 % 10 >= 7) continue;
    const BladeInt width = std::min(kGroup, gemm.k - p);
    for (BladeInt i = 0; i < gemm.batch * gemm.m; ++i) {
      std::memcpy(a + (i * gemm.k + p) * size, a + p * size, width * size);
    }
  }
}

void Measure(const Shape& s, blade::ThreadPool* pool) {
  const BladeInt size = s.dtype == BLADE_F64 ? 8 : 4;
  BladeGemm gemm{};
  gemm.dtype = s.dtype;
  gemm.transpose_b = s.transpose_b;
  gemm.batch = s.batch, gemm.m = s.m, gemm.n = s.n, gemm.k = s.k;
  gemm.lda = s.k, gemm.ldb = s.transpose_b ? s.k : s.n, gemm.ldc = s.n;
  gemm.a_stride = s.m * s.k, gemm.b_stride = s.k * s.n, gemm.c_stride = s.m * s.n;
  AlignedBuffer a(s.batch * s.m * s.k * size), b(s.batch * s.k * s.n * size),
      c(s.batch * s.m * s.n * size);
  constexpr BladeInt kPeriod = 1009;  // divides no k, or all rows of A would be the same
  const auto fill = [&](const AlignedBuffer& buffer, BladeInt n) {
    for (BladeInt i = 0; i < n; ++i) {
      if (size == 8) {
        static_cast<double*>(buffer.data())[i] = 0.25 * static_cast<double>(i % kPeriod);
      } else {
        static_cast<float*>(buffer.data())[i] = 0.25f * static_cast<float>(i % kPeriod);
      }
    }
  };
  fill(a, s.batch * s.m * s.k);
  fill(b, s.batch * s.k * s.n);
  gemm.a = a.data(), gemm.b = b.data(), gemm.c = c.data();
  gemm.scale = 1;
  gemm.b_constant_input = -1;
  const auto packed = blade::PackB(gemm);
  const blade::GemmHost host = {ParallelFor, pool, pool->threads(), nullptr};
  const double flop = 2.0 * s.batch * s.m * s.n * s.k;
  const double with = Time(pool->threads() == 1, [&] { blade::RunGemm(gemm, host, packed.get()); });
  const double without = Time(pool->threads() == 1, [&] { blade::RunGemm(gemm, host, nullptr); });
  blade::GemmHost finding = host;
  finding.count = [](void*, int, BladeInt) {};
  const double in_vain =
      Time(pool->threads() == 1, [&] { blade::RunGemm(gemm, finding, packed.get()); });
  RepeatRows(gemm, size, static_cast<char*>(a.data()));
  const double repeated =
      Time(pool->threads() == 1, [&] { blade::RunGemm(gemm, finding, packed.get()); });
  std::printf(
      "%s %4lld x %5lld x %5lld x %5lld %s  %9.1f us %7.1f GFLOP/s  %9.1f us %7.1f  %9.1f us  "
      "%9.1f us  %s\n",
      s.dtype == BLADE_F64 ? "f64" : "f32", (long long)s.batch, (long long)s.m, (long long)s.n,
      (long long)s.k, s.transpose_b ? "b^T" : "b  ", with * 1e6, flop / with * 1e-9, without * 1e6,
      flop / without * 1e-9, in_vain * 1e6, repeated * 1e6,
      blade::GemmImplementationName(gemm, nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  blade::ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  std::printf("%s, %d threads\n", blade::IsaName(blade::BestIsa()), pool.threads());
  std::printf(
      "     batch     m       n       k       B packed ahead               B as it is           "
      "looked for    70 %% repeated\n");
  if (argc == 5) {
    Measure({1, std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), false, BLADE_F32},
            &pool);
    return 0;
  }
  for (const int dtype : {BLADE_F32, BLADE_F64}) {
    for (const bool transpose_b : {false, true}) {
      for (const BladeInt m : {1, 2, 4, 8, 16, 32})
        Measure({1, m, 1024, 1024, transpose_b, dtype}, &pool);
      Measure({1, 1024, 1024, 1024, transpose_b, dtype}, &pool);
      if (dtype == BLADE_F64) continue;
      Measure({1, 512, 64, 256, transpose_b, dtype}, &pool);
      Measure({1, 1, 256, 100, transpose_b, dtype}, &pool);
      Measure({1, 512, 1, 256, transpose_b, dtype}, &pool);
      Measure({1, 128, 384, 384, transpose_b, dtype}, &pool);
      Measure({1, 128, 32, 128, transpose_b, dtype}, &pool);
      Measure({96, 128, 128, 32, transpose_b, dtype}, &pool);
      Measure({96, 128, 32, 128, transpose_b, dtype}, &pool);
      Measure({1, 512, 33, 17, transpose_b, dtype}, &pool);
    }
  }
  return 0;
}
