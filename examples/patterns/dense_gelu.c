// y = gelu(x @ w + b) in one pass. docs/patterns.md has the command that compiles it, and a model
// that it becomes part of.
#include <math.h>

#include "blade_abi.h"

enum { ROWS = 4, COLUMNS = 32 };  // of y at a time: the sums stay in registers

typedef struct Work {
  const float *x, *w, *b;
  float* y;
  BladeInt m, n, k;
} Work;

static BladeInt smaller(BladeInt a, BladeInt b) { return a < b ? a : b; }

// Sums of up to ROWS x COLUMNS elements; whole tiles have sizes that the compiler knows.
static inline __attribute__((always_inline)) void tile(const Work* work, BladeInt row,
                                                       BladeInt column, BladeInt rows,
                                                       BladeInt columns) {
  float sums[ROWS][COLUMNS] = {{0}};
  for (BladeInt k = 0; k < work->k; ++k) {
    const float* w = work->w + k * work->n + column;
    for (BladeInt i = 0; i < rows; ++i) {
      const float x = work->x[(row + i) * work->k + k];
      for (BladeInt j = 0; j < columns; ++j) sums[i][j] += x * w[j];
    }
  }
  for (BladeInt i = 0; i < rows; ++i) {
    float* y = work->y + (row + i) * work->n + column;
    for (BladeInt j = 0; j < columns; ++j) {
      const float sum = sums[i][j] + work->b[column + j];
      y[j] = 0.5f * sum * erfcf(-0.70710678f * sum);
    }
  }
}

// Blocks of ROWS rows, from block `begin` to `end`.
static void blocks(const void* args, BladeInt begin, BladeInt end) {
  const Work* work = (const Work*)args;
  for (BladeInt row = begin * ROWS; row < smaller(end * ROWS, work->m); row += ROWS) {
    const BladeInt rows = smaller(ROWS, work->m - row);
    for (BladeInt column = 0; column < work->n; column += COLUMNS) {
      const BladeInt columns = smaller(COLUMNS, work->n - column);
      if (rows == ROWS && columns == COLUMNS) {
        tile(work, row, column, ROWS, COLUMNS);
      } else {
        tile(work, row, column, rows, columns);
      }
    }
  }
}

static int run(const BladeHost* host, void* ctx, const BladeTensor* inputs) {
  const BladeTensor *x = &inputs[0], *w = &inputs[1], *b = &inputs[2];
  // A refusal is no error: TensorFlow's nodes then answer, or fail as they always did.
  if (x->rank != 2 || w->rank != 2 || b->rank != 1) return 1;
  if (x->dims[1] != w->dims[0] || b->dims[0] != w->dims[1]) return 1;
  const BladeInt dims[2] = {x->dims[0], w->dims[1]};
  float* y = (float*)host->allocate_output(ctx, 0, 2, dims);
  if (y == 0) return BLADE_OUT_OF_MEMORY;
  const Work work = {(const float*)x->data,
                     (const float*)w->data,
                     (const float*)b->data,
                     y,
                     dims[0],
                     dims[1],
                     x->dims[1]};
  const BladeInt count = (work.m + ROWS - 1) / ROWS;
  const double cycles = ROWS * (double)work.n * ((double)work.k / 8 + 20);  // of one block
  if (count > 0) host->parallel_for(ctx, count, cycles, blocks, &work);
  return BLADE_OK;
}

static const BladeVariant variants[] = {{ISA, run}};
static const char* const refusals[] = {"the shapes are not those of x @ w + b for matrices"};
static const BladeExecutable executable = {
    BLADE_ABI_VERSION, 3, 1, 1, variants, 1, refusals, "dense_gelu",
};

__attribute__((visibility("default"))) const BladeExecutable* blade_executable(void) {
  return &executable;
}
