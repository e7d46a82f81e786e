// What the implementations of the matrix product share.
#ifndef BLADE_GEMM_GEMM_INTERNAL_H_
#define BLADE_GEMM_GEMM_INTERNAL_H_

#include <algorithm>
#include <type_traits>

#include "blade_abi.h"
#include "gemm/gemm.h"
#include "gemm/kernels.h"

namespace blade {

// A product whose element type is known.
template <typename T>
struct TypedGemm {
  explicit TypedGemm(const BladeGemm& g)
      : gemm(g),
        a_row(g.transpose_a ? 1 : g.lda),
        a_k(g.transpose_a ? g.lda : 1),
        bias(static_cast<const T*>(g.bias)),
        residual(static_cast<const T*>(g.residual)),
        scale(static_cast<T>(g.scale)),
        relu(g.activation == BLADE_ACTIVATION_RELU) {}

  const T* a(BladeInt batch) const { return static_cast<const T*>(gemm.a) + batch * gemm.a_stride; }
  const T* b(BladeInt batch) const { return static_cast<const T*>(gemm.b) + batch * gemm.b_stride; }
  T* c(BladeInt batch) const { return static_cast<T*>(gemm.c) + batch * gemm.c_stride; }

  // The epilogue of C from (row, column) on, for a part of k: the first one doesn't accumulate,
  // bias, activation and residual wait for the last one.
  Epilogue<T> epilogue(BladeInt batch, BladeInt row, BladeInt column, bool first, bool last) const {
    if (!last) return {!first, false, nullptr, scale};
    const BladeInt place = batch * gemm.c_stride + row * gemm.ldc + column;
    return {!first, relu, bias != nullptr ? bias + column : nullptr, scale,
            residual != nullptr ? residual + place : nullptr};
  }

  const BladeGemm& gemm;
  BladeInt a_row, a_k;  // A(i, p) = a[i * a_row + p * a_k]
  const T* bias;
  const T* residual;
  T scale;
  bool relu;
};

// Calls f(TypedGemm) for the product's element type.
template <typename F>
void WithType(const BladeGemm& gemm, F f) {
  if (gemm.dtype == BLADE_F64) {
    f(TypedGemm<double>(gemm));
  } else {
    f(TypedGemm<float>(gemm));
  }
}

inline int Lanes(const BladeGemm& gemm) {
  return gemm.dtype == BLADE_F64 ? BestKernels<double>().lanes : BestKernels<float>().lanes;
}

// Cycles that m x n x k multiply-adds take: two vector instructions a cycle, or, when few rows use
// each element of B, the time it takes to read B.
inline double EstimatedCycles(const BladeGemm& gemm, BladeInt m, BladeInt n, BladeInt k) {
  const double size = gemm.dtype == BLADE_F64 ? 8 : 4;
  const double compute = static_cast<double>(m) * n * k / (1.6 * Lanes(gemm));
  const double memory = static_cast<double>(n) * k * size / 16;
  return std::max(compute, memory) + 50;
}

// A product cut into tasks: each one does some rows and some columns of one batch entry.
struct Grid {
  BladeInt batch, row_parts, column_parts;
  BladeInt rows_per_part, columns_per_part;

  BladeInt tasks() const { return batch * row_parts * column_parts; }
};

struct Part {
  BladeInt batch, m0, m1, n0, n1;
};

// Cuts a product so that `threads` threads have enough to do and no task is too small to pay for
// handing it over. Parts begin at multiples of row_unit and column_unit.
Grid MakeGrid(const BladeGemm& gemm, int threads, BladeInt row_unit, BladeInt column_unit);

// The rows and columns of one task.
Part PartOf(const BladeGemm& gemm, const Grid& grid, BladeInt task);

// Calls f(Part) for every task of the grid, in parallel where it pays: each takes so many cycles.
template <typename F>
void ForEachPart(const BladeGemm& gemm, const GemmHost& host, const Grid& grid, double cycles,
                 const F& f) {
  const BladeInt tasks = grid.tasks();
  if (tasks == 1) return f(PartOf(gemm, grid, 0));
  struct Args {
    const BladeGemm& gemm;
    const Grid& grid;
    const F& f;
  };
  const Args args{gemm, grid, f};
  host.parallel_for(
      host.ctx, tasks, cycles,
      [](const void* pointer, BladeInt begin, BladeInt end) {
        const Args& args = *static_cast<const Args*>(pointer);
        for (BladeInt task = begin; task < end; ++task) {
          args.f(PartOf(args.gemm, args.grid, task));
        }
      },
      &args);
}

// The same, for tasks that take what EstimatedCycles says.
template <typename F>
void ForEachPart(const BladeGemm& gemm, const GemmHost& host, const Grid& grid, const F& f) {
  ForEachPart(gemm, host, grid,
              EstimatedCycles(gemm, grid.rows_per_part, grid.columns_per_part, gemm.k), f);
}

template <typename T>
class RepeatedRows;

// Computes a part by vectors, as kGemmPacked does. repeats: of A, if they are to be made use of; or
// null.
template <typename T>
void RunPackedPart(const TypedGemm<T>& gemm, const PackedB* packed, const Part& part,
                   const RepeatedRows<T>* repeats);

// Computes the whole product that way, in parallel where it pays.
template <typename T>
void RunPacked(const TypedGemm<T>& gemm, const GemmHost& host, const PackedB* packed,
               const RepeatedRows<T>* repeats);

}  // namespace blade

#endif  // BLADE_GEMM_GEMM_INTERNAL_H_
