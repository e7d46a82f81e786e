// Fourier transforms of real numbers behind BladeHost::fft.
#ifndef BLADE_FFT_FFT_H_
#define BLADE_FFT_FFT_H_

#include "blade_abi.h"
#include "gemm/gemm.h"

namespace blade {

// Runs `fft`, rows shared out among threads. Returns 0, BLADE_OUT_OF_MEMORY, or BLADE_HOST_ERROR:
// the dtype isn't f32, the processor is older than TensorFlow asks for, or the build had no DUCC.
int RunFft(const BladeFft& fft, const GemmHost& host);

}  // namespace blade

#endif  // BLADE_FFT_FFT_H_
