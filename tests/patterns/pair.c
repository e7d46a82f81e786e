// Two results of three arguments, all of one shape: x + y and x * z.
#include "blade_abi.h"

static int run(const BladeHost* host, void* ctx, const BladeTensor* in) {
  BladeInt count = 1;
  for (int d = 0; d < in[0].rank; ++d) count *= in[0].dims[d];
  for (int i = 1; i < 3; ++i) {
    if (in[i].rank != in[0].rank) return 1;
    for (int d = 0; d < in[0].rank; ++d) {
      if (in[i].dims[d] != in[0].dims[d]) return 1;
    }
  }
  const float *x = (const float*)in[0].data, *y = (const float*)in[1].data;
  const float* z = (const float*)in[2].data;
  float* sum = (float*)host->allocate_output(ctx, 0, in[0].rank, in[0].dims);
  float* product = (float*)host->allocate_output(ctx, 1, in[0].rank, in[0].dims);
  if (sum == 0 || product == 0) return BLADE_OUT_OF_MEMORY;
  for (BladeInt i = 0; i < count; ++i) sum[i] = x[i] + y[i], product[i] = x[i] * z[i];
  return BLADE_OK;
}

static const BladeVariant variants[] = {{ISA, run}};
static const char* const refusals[] = {"the shapes differ"};
static const BladeExecutable executable = {
    BLADE_ABI_VERSION, 3, 2, 1, variants, 1, refusals, "pair",
};

__attribute__((visibility("default"))) const BladeExecutable* blade_executable(void) {
  return &executable;
}
