// The inner kernels of the matrix product, as one table for each ISA level and element type.
//
// kernels_impl.h defines them in terms of vector extensions; kernels_<isa>.cc compile it. Nothing
// but those files is compiled for more than the base ISA.
#ifndef BLADE_GEMM_KERNELS_H_
#define BLADE_GEMM_KERNELS_H_

#include "blade_abi.h"

namespace blade {

// How a computed element is stored.
template <typename T>
struct Epilogue {
  bool accumulate;              // add to what C holds
  bool relu;                    // x < 0 ? 0 : x, so that NaN stays NaN
  const T* bias;                // one for each column, or null
  T scale = 1;                  // of the sum, before anything is added
  const T* residual = nullptr;  // added last; from where C's first element is, rows as C's; or null
};

// One register tile: C[rows][n] = A[rows][k] * B[k][n], with `rows` fixed by the kernel.
template <typename T>
struct Tile {
  const T* a;
  BladeInt a_row, a_k;  // A(i, p) = a[i * a_row + p * a_k]
  const T* b;
  BladeInt b_k;     // B(p, j) = b[p * b_k + j]; a whole panel of columns can be read
  const T* next_b;  // the panel to fetch into cache meanwhile; anything, it is not read
  BladeInt k;
  T* c;
  BladeInt ldc;
  BladeInt n;  // columns to store, at most the panel's width
  Epilogue<T> epilogue;
};

// A block of inner products: C(i, j) = sum over p of A(i, p) * B(j, p), all rows contiguous.
template <typename T>
struct Dot {
  const T* a;
  BladeInt lda;
  const T* b;
  BladeInt ldb;
  BladeInt k;
  T* c;
  BladeInt ldc;
  BladeInt m, n;
  Epilogue<T> epilogue;
};

// C[m][n] = A[m][k] * B[k][n] for few rows, B read row by row in the order it lies in memory.
template <typename T>
struct Axpy {
  const T* a;
  BladeInt a_row, a_k;
  const T* b;
  BladeInt ldb;
  BladeInt k;
  T* c;
  BladeInt ldc;
  BladeInt m, n;
  Epilogue<T> epilogue;
};

// A contiguous piece of what a convolution's window sees: `a` elements from where the window's row
// of A begins; its first element meets row `b` of B.
struct Tap {
  BladeInt a, b;
};

// A register tile of a convolution: C[i][n] = sum over taps and p < k of
// a[rows[i] + tap.a + p * step] * B[tap.b + p][n].
template <typename T>
struct WindowTile {
  const T* a;
  const BladeInt* rows;
  const Tap* taps;
  BladeInt n_taps;
  BladeInt k, step;
  const T* b;  // a panel of B, Kernels::columns wide
  T* c;
  BladeInt ldc;
  BladeInt n;  // as in Tile
  Epilogue<T> epilogue;
};

// Channels that see only themselves: C[i][j] = sum over taps of a[rows[i] + tap.a + j] *
// b[tap.b * ldb + j], for i < m and j < n.
template <typename T>
struct ChannelTile {
  const T* a;
  const BladeInt* rows;
  const Tap* taps;
  BladeInt n_taps;
  const T* b;
  BladeInt ldb;
  T* c;
  BladeInt ldc;
  BladeInt m, n;
  Epilogue<T> epilogue;
};

// Few filters over planes: C[i][f] = sum over taps of a[tap.a + i] * b[tap.b * ldb + f], for i < m
// and f < n. Up to four vectors beyond a[tap.a + m] are read, whatever they hold.
template <typename T>
struct PlaneTile {
  const T* a;
  const Tap* taps;
  BladeInt n_taps;
  const T* b;
  BladeInt ldb;
  T* c;
  BladeInt ldc;
  BladeInt m;
  Epilogue<T> epilogue;
};

template <typename T>
struct Kernels {
  static constexpr int kMaxRows = 16;
  static constexpr int kMaxColumns = 128 / sizeof(T);  // of a panel
  static constexpr int kMaxPlaneFilters = 8;
  static constexpr int kMaxPanelBytes = 24 * 1024;  // of columns * block elements

  const char* isa;
  int lanes;       // elements of a vector
  int rows;        // most rows of a tile
  int columns;     // width of a panel of B: two vectors
  BladeInt block;  // how much of k is done at a time, so that a panel of B stays in cache

  // Indexed [one vector or two][rows - 1]; the second table is for A with a_row == 1.
  void (*tile[2][kMaxRows])(const Tile<T>&);
  void (*tile_packed_a[2][kMaxRows])(const Tile<T>&);
  void (*dot)(const Dot<T>&);
  void (*axpy)(const Axpy<T>&);
  void (*window_tile[2][kMaxRows])(const WindowTile<T>&);
  void (*channels)(const ChannelTile<T>&);
  void (*planes[kMaxPlaneFilters])(const PlaneTile<T>&);  // indexed [filters - 1]

  // out[p * width + i] = i < rows ? in[i * stride + p] : 0, for p in [0, k) and i in [0, width).
  void (*interleave)(const T* in, BladeInt stride, BladeInt rows, BladeInt k, int width, T* out);
  // The same for in[p * stride + i], and for any number of columns: each `width` of them go to the
  // next k * width elements of `out`.
  void (*copy)(const T* in, BladeInt stride, BladeInt columns, BladeInt k, int width, T* out);
};

// The best table for this processor.
template <typename T>
const Kernels<T>& BestKernels();

}  // namespace blade

#endif  // BLADE_GEMM_KERNELS_H_
