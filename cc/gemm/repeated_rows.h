// The columns of A that hold the same value in every row.
//
// A request of a ranking model scores one user against many items: most of what goes into its first
// dense layer is the same in every row. x * W is then x_user * W_user, computed once, plus
// x_item * W_item of each row.
#ifndef BLADE_GEMM_REPEATED_ROWS_H_
#define BLADE_GEMM_REPEATED_ROWS_H_

#include <atomic>

#include "blade_abi.h"
#include "gemm/gemm_internal.h"

namespace blade {

// A split of k into what is the same in all rows of A and the rest. 72 KiB: for the stack.
template <typename T>
class RepeatedRows {
 public:
  // Looks at the rows of the product's A, bit by bit, in parallel where it pays. True if computing
  // the same columns once does. The cost is that of reading two rows, and all rows of the columns
  // that look alike there.
  bool Find(const TypedGemm<T>& gemm, const GemmHost& host);

  BladeInt same() const { return same_; }
  BladeInt rest() const { return k_ - same_; }

  // Calls f(k, length, place) for the pieces of elements [begin, end) of the rest, in order: its
  // elements [place, place + length), counted from `begin`, are A's columns [k, k + length).
  template <typename F>
  void ForRest(BladeInt begin, BladeInt end, const F& f) const {
    BladeInt at = 0, from = 0;  // `at` elements of the rest are before column `from`
    for (int i = 0; i <= n_runs_ && at < end; ++i) {
      const BladeInt to = i < n_runs_ ? runs_[i].begin : k_;
      const BladeInt first = begin > at ? begin - at : 0;
      const BladeInt last = end - at < to - from ? end - at : to - from;
      if (first < last) f(from + first, last - first, at + first - begin);
      at += to - from;
      from = i < n_runs_ ? runs_[i].end : k_;
    }
  }

  // Calls f(k, length) for the pieces that are the same in all rows, in order.
  template <typename F>
  void ForSame(const F& f) const {
    for (int i = 0; i < n_runs_; ++i) f(runs_[i].begin, runs_[i].end - runs_[i].begin);
  }

 private:
  // Columns are compared a unit at a time: embeddings are wider.
  static constexpr int kUnit = 16 / sizeof(T);
  static constexpr int kMaxUnits = 8192;  // what lies behind them is not looked at

  struct Run {
    int begin, end;
  };

  // Compares rows [begin, end) with the first one.
  void Compare(const TypedGemm<T>& gemm, BladeInt begin, BladeInt end);

  BladeInt k_ = 0, same_ = 0;
  int n_units_ = 0;
  int n_runs_ = 0;
  Run runs_[kMaxUnits / 2 + 1];
  std::atomic<bool> may_be_same_[kMaxUnits];
};

}  // namespace blade

#endif  // BLADE_GEMM_REPEATED_ROWS_H_
