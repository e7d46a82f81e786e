// By DUCC, as in TensorFlow, which ships its headers. This file is compiled for AVX, without which
// TensorFlow doesn't start: the same numbers come out.
#include "fft/fft.h"

#ifdef BLADE_HAS_DUCC

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <functional>
#include <new>
#include <vector>

#include "ducc0/fft/fft.h"
#include "ducc0/fft/fft1d_impl.h"
#include "ducc0/fft/fftnd_impl.h"

// What DUCC asks of a thread pool. Ours shares out rows, so that each transform is one thread's.
namespace ducc0 {
namespace detail_threading {
namespace {

class OneThread : public Scheduler {
 public:
  explicit OneThread(size_t work) : range_(0, work) {}
  size_t num_threads() const override { return 1; }
  size_t thread_num() const override { return 0; }
  Range getNext() override {
    const Range range = range_;
    range_ = Range();
    return range;
  }

 private:
  Range range_;
};

}  // namespace

size_t adjust_nthreads(size_t) { return 1; }

void execStatic(size_t work, size_t, size_t, std::function<void(Scheduler&)> function) {
  OneThread scheduler(work);
  function(scheduler);
}

void execParallel(size_t, std::function<void(Scheduler&)> function) {
  OneThread scheduler(1);
  function(scheduler);
}

}  // namespace detail_threading
}  // namespace ducc0

namespace blade {
namespace {

using Complex = std::complex<float>;

// Rows done at a time: DUCC transforms a vector's worth of them together.
constexpr BladeInt kBlock = 16;

struct Rows {
  const BladeFft& fft;
  std::atomic<bool> failed{false};

  void Run(BladeInt begin, BladeInt end) {
    try {
      std::vector<Complex> spectra(kBlock * (fft.length / 2 + 1));
      for (; begin < end; begin += kBlock) {
        const BladeInt rows = std::min(kBlock, end - begin);
        fft.inverse ? Inverse(begin, rows, spectra.data()) : Forward(begin, rows, spectra.data());
      }
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  }

  void Forward(BladeInt begin, BladeInt rows, Complex* spectra) const {
    const size_t count = rows, length = fft.length, half = length / 2 + 1;
    const float* const x = static_cast<const float*>(fft.x) + begin * length;
    ducc0::r2c(ducc0::cfmav<float>(x, {count, length}),
               ducc0::vfmav<Complex>(spectra, {count, half}), 1, true, 1.0f, 1);
    float* const real = static_cast<float*>(fft.y) + begin * half;
    float* const imaginary = real + fft.rows * half;
    for (size_t i = 0; i < count * half; ++i) {
      real[i] = spectra[i].real();
      imaginary[i] = spectra[i].imag();
    }
  }

  void Inverse(BladeInt begin, BladeInt rows, Complex* spectra) const {
    const size_t count = rows, length = fft.length, half = length / 2 + 1;
    const float* const real = static_cast<const float*>(fft.x) + begin * half;
    const float* const imaginary = static_cast<const float*>(fft.imaginary) + begin * half;
    for (size_t i = 0; i < count * half; ++i) spectra[i] = {real[i], imaginary[i]};
    float* const y = static_cast<float*>(fft.y) + begin * length;
    ducc0::c2r(ducc0::cfmav<Complex>(spectra, {count, half}),
               ducc0::vfmav<float>(y, {count, length}), 1, false, 1.0f / static_cast<float>(length),
               1);
  }
};

bool IsSupported() {
#if defined(__x86_64__)
  static const bool supported = __builtin_cpu_supports("avx");
  return supported;
#else
  return true;
#endif
}

}  // namespace

int RunFft(const BladeFft& fft, const GemmHost& host) {
  if (fft.dtype != BLADE_F32 || !IsSupported()) return BLADE_HOST_ERROR;
  if (fft.rows == 0) return BLADE_OK;
  Rows rows{fft};
  Rows* const args = &rows;
  const double length = static_cast<double>(fft.length);
  const double cost_cycles = length * (2 + std::log2(length));
  host.parallel_for(
      host.ctx, fft.rows, cost_cycles,
      [](const void* args, BladeInt begin, BladeInt end) {
        (*static_cast<Rows* const*>(args))->Run(begin, end);
      },
      &args);
  return rows.failed ? BLADE_OUT_OF_MEMORY : BLADE_OK;
}

}  // namespace blade

#else

namespace blade {

int RunFft(const BladeFft&, const GemmHost&) { return BLADE_HOST_ERROR; }

}  // namespace blade

#endif
