// Which elements belong to which row: dense, sparse and ragged sources.
//
// Nothing here trusts its input. Sparse indices are checked where they are read; that all tasks
// together read every element exactly once follows from FirstElement being a function of the row
// alone, and each task ending where the next one begins.
#ifndef BLADE_LOOKUP_ROWS_H_
#define BLADE_LOOKUP_ROWS_H_

#include "plan.h"

namespace blade_lookup {

// A stream's source in one run.
struct SourceRun {
  BladeInt elements;  // in all; of a cross: an estimate
  BladeInt per_row;   // of dense sources
  const void* values[kMaxValues];
  const BladeInt* indices;  // of sparse sources: [elements, rank]
  const BladeInt* shape;
  int rank, row_dims;
  const void* splits;  // of ragged sources
  bool narrow_splits;  // i32
};

namespace {

// The shape of the rows.
struct RowDims {
  int rank;
  BladeInt dims[kMaxRank];
  BladeInt rows;  // their product

  // False when there are too many dims, or the product is out of range.
  bool Set(int new_rank, const BladeInt* new_dims) {
    if (new_rank > kMaxRank) return false;
    rank = new_rank;
    rows = 1;
    for (int d = 0; d < rank; ++d) {
      dims[d] = new_dims[d];
      if (dims[d] < 0 || __builtin_mul_overflow(rows, dims[d], &rows)) return false;
    }
    return true;
  }

  bool operator==(const RowDims& other) const {
    if (rank != other.rank) return false;
    for (int d = 0; d < rank; ++d) {
      if (dims[d] != other.dims[d]) return false;
    }
    return true;
  }
};

static inline BladeInt ElementsOf(const BladeTensor& tensor, int first_dim = 0) {
  BladeInt n = 1;
  for (int d = first_dim; d < tensor.rank; ++d) n *= tensor.dims[d];
  return n;
}

static inline bool SameDims(const BladeTensor& a, const BladeTensor& b) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.dims[d] != b.dims[d]) return false;
  }
  return true;
}

static inline BladeInt SplitAt(const SourceRun& run, BladeInt row) {
  return run.narrow_splits ? static_cast<const int*>(run.splits)[row]
                           : static_cast<const BladeInt*>(run.splits)[row];
}

// The row of sparse element e. Indices that are out of range give some number.
static inline BladeInt RowOf(const SourceRun& run, BladeInt e) {
  const BladeInt* index = run.indices + e * run.rank;
  if (run.row_dims == 1) return index[0];
  return static_cast<BladeInt>(static_cast<U64>(index[0]) * static_cast<U64>(run.shape[1]) +
                               static_cast<U64>(index[1]));
}

// Whether sparse element e, of a row that begins at element `first`, is inside the dense shape and
// comes after the element before it.
static inline bool InOrder(const SourceRun& run, BladeInt e, BladeInt first) {
  const BladeInt* index = run.indices + e * run.rank;
  if (run.rank == 2 && run.row_dims == 1) {
    const BladeInt before = e > first ? index[-1] : -1;
    return index[0] < run.shape[0] && index[1] > before && index[1] < run.shape[1];
  }
  bool inside = true, after = e == first;
  for (int d = 0; d < run.rank; ++d) {
    inside &= static_cast<U64>(index[d]) < static_cast<U64>(run.shape[d]);
  }
  for (int d = run.row_dims; d < run.rank && !after; ++d) {
    if (index[d] < index[d - run.rank]) return false;
    after = index[d] > index[d - run.rank];
  }
  return inside && after;
}

// The first sparse element of `row` or a later row. `rows` is the number of rows.
static inline BladeInt FirstElement(const SourceRun& run, BladeInt row, BladeInt rows) {
  if (row <= 0) return 0;
  if (row >= rows) return run.elements;
  BladeInt low = 0, high = run.elements;
  while (low < high) {
    const BladeInt middle = low + (high - low) / 2;
    if (RowOf(run, middle) < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Checks the inputs of a source that isn't a cross and takes its rows' dims. kNumberOfReasons when
// all is well.
static inline Reason PrepareSource(const SourcePlan& plan, const BladeTensor* inputs,
                                   SourceRun* run, RowDims* dims) {
  const BladeTensor& first = inputs[plan.values[0]];
  for (int k = 0; k < plan.n_values; ++k) {
    const BladeTensor& values = inputs[plan.values[k]];
    if (k > 0 && !SameDims(values, first)) return kShape;
    run->values[k] = values.data;
  }
  if (plan.kind == kDense) {
    if (first.rank < 1 && !plan.per_element) return kRank;
    if (plan.rank > 0 && first.rank != plan.rank) return kRank;
    for (int d = 1; d < plan.rank; ++d) {
      if (plan.dims[d - 1] >= 0 && first.dims[d] != plan.dims[d - 1]) return kShape;
    }
    if (!dims->Set(plan.per_element ? first.rank : 1, first.dims)) return kRank;
    run->per_row = plan.per_element ? 1 : ElementsOf(first, 1);
    run->elements = dims->rows * run->per_row;
    return kNumberOfReasons;
  }
  if (first.rank != 1) return kRank;
  run->elements = first.dims[0];
  run->per_row = 0;
  if (plan.kind == kRagged) {
    const BladeTensor& splits = inputs[plan.splits];
    if (splits.rank != 1) return kRank;
    const BladeInt rows = splits.dims[0] - 1;
    if (!dims->Set(1, &rows)) return kSplits;
    run->splits = splits.data;
    run->narrow_splits = splits.dtype == BLADE_I32;
    const bool fits = SplitAt(*run, 0) == 0 && SplitAt(*run, rows) == run->elements;
    return fits ? kNumberOfReasons : kSplits;
  }
  const BladeTensor& indices = inputs[plan.indices];
  const BladeTensor& shape = inputs[plan.shape];
  if (indices.rank != 2 || shape.rank != 1) return kRank;
  if (indices.dims[0] != run->elements || indices.dims[1] != shape.dims[0]) return kShape;
  if (shape.dims[0] < plan.row_dims) return kRank;
  if (plan.rank > 0 && shape.dims[0] != plan.rank) return kRank;
  run->indices = static_cast<const BladeInt*>(indices.data);
  run->shape = static_cast<const BladeInt*>(shape.data);
  run->rank = static_cast<int>(shape.dims[0]);
  run->row_dims = plan.row_dims;
  BladeInt rows[2];
  for (int d = 0; d < plan.row_dims; ++d) rows[d] = run->shape[d];
  if (!plan.complete) {
    // Sorted, the last element is in the last row; if they are not sorted, a task will find out.
    const BladeInt last = run->elements > 0 ? RowOf(*run, run->elements - 1) : -1;
    if (last < -1 || last >= run->shape[0]) return kUnsorted;
    rows[0] = last + 1;
  }
  return dims->Set(plan.row_dims, rows) ? kNumberOfReasons : kShape;
}

// A row counted from `begin` on. Any number is allowed, and wraps around.
static inline BladeInt RowFrom(const BladeInt* row, BladeInt begin) {
  return static_cast<BladeInt>(static_cast<U64>(*row) - static_cast<U64>(begin));
}

// EndsOfRows of indices [elements, 2] whose first column is the row. Which row an element belongs
// to is data, not control flow: lists of a random length would mislead the processor at every row.
static inline bool EndsOfPairs(const SourceRun& run, BladeInt begin, BladeInt first, BladeInt stop,
                               int rows, int* ends, int* fit) {
  const BladeInt* index = run.indices + 2 * first;
  const U64 columns = static_cast<U64>(run.shape[1]);
  const int count = static_cast<int>(stop - first);
  for (int i = 0; i < rows; ++i) ends[i] = 0;
  BladeInt row = -1, column = -1;
  bool good = true;
  int e = 0;
  for (; e < count; ++e) {
    const BladeInt next = RowFrom(index + 2 * e, begin), next_column = index[2 * e + 1];
    if (static_cast<U64>(next) >= static_cast<U64>(rows)) break;
    good &= (next > row) | ((next == row) & (next_column > column));
    good &= static_cast<U64>(next_column) < columns;
    ends[next] = e + 1;
    row = next;
    column = next_column;
  }
  if (!good) return false;
  int last = 0;
  for (int i = 0; i < rows; ++i) ends[i] = last = ends[i] > last ? ends[i] : last;
  if (first + e == run.elements) return true;
  const BladeInt next = RowFrom(index + 2 * e, begin);
  if (e == count && next < rows) {
    // The rows before that of the element that wasn't looked at are whole.
    if (next < 0 || next < row) return false;
    *fit = static_cast<int>(next);
    return true;
  }
  return next >= rows;
}

// For rows [begin, end): ends[i] = the end of row begin + i among the elements from `first` on,
// which is where row `begin` starts. False when the elements are out of order or out of range, in
// which case `reason` says why. At most `most` elements are looked at: if there are more, *fit is
// the number of rows that end before.
static inline bool EndsOfRows(const SourcePlan& plan, const SourceRun& run, BladeInt begin,
                              BladeInt end, BladeInt first, BladeInt most, int* ends, int* fit,
                              Reason* reason) {
  const int rows = static_cast<int>(end - begin);
  *fit = rows;
  if (plan.kind == kDense) {
    const BladeInt k = run.per_row;
    if (k * rows > most) *fit = static_cast<int>(most / k);
    for (int i = 0; i < *fit; ++i) ends[i] = static_cast<int>(k) * (i + 1);
    return true;
  }
  if (plan.kind == kRagged) {
    BladeInt previous = SplitAt(run, begin);
    *reason = kSplits;
    if (previous < 0) return false;
    for (int i = 0; i < rows; ++i) {
      const BladeInt split = SplitAt(run, begin + i + 1);
      if (split < previous || split > run.elements) return false;
      if (split - first > most) {
        *fit = i;
        return true;
      }
      ends[i] = static_cast<int>(split - first);
      previous = split;
    }
    return true;
  }
  *reason = kUnsorted;
  const BladeInt stop = run.elements - first > most ? first + most : run.elements;
  if (run.rank == 2 && run.row_dims == 1) {
    return EndsOfPairs(run, begin, first, stop, rows, ends, fit);
  }
  BladeInt e = first;
  bool good = true;
  for (int i = 0; i < rows; ++i) {
    const BladeInt row = e;
    while (e < stop && RowOf(run, e) == begin + i) {
      good &= InOrder(run, e++, row);
    }
    if (!good) return false;
    if (e == stop && stop < run.elements && RowOf(run, stop) == begin + i) {
      *fit = i;  // this row has more elements
      return true;
    }
    ends[i] = static_cast<int>(e - first);
  }
  return e == run.elements || RowOf(run, e) >= end;
}

// Where the row that starts at element `first` ends; -1 when its elements are out of order or out
// of range.
static inline BladeInt EndOfRow(const SourcePlan& plan, const SourceRun& run, BladeInt row,
                                BladeInt first) {
  if (plan.kind == kDense) return first + run.per_row;
  if (plan.kind == kRagged) {
    const BladeInt end = SplitAt(run, row + 1);
    return first <= end && end <= run.elements ? end : -1;
  }
  BladeInt e = first;
  for (; e < run.elements && RowOf(run, e) == row; ++e) {
    if (!InOrder(run, e, first)) return -1;
  }
  return e == run.elements || RowOf(run, e) > row ? e : -1;
}

static inline BladeInt SizeOfValue(int dtype) {
  switch (dtype) {
    case BLADE_BOOL:
      return 1;
    case BLADE_F32:
    case BLADE_I32:
      return 4;
    case BLADE_STRING:
      return sizeof(TString);
    default:
      return 8;
  }
}

// Whether `rows` rows of n elements from `first` on hold the same values.
static inline bool RowsRepeat(const SourcePlan& plan, const SourceRun& run, const int* dtypes,
                              BladeInt first, BladeInt n, int rows) {
  for (int k = 0; k < plan.n_values; ++k) {
    const int dtype = dtypes[plan.values[k]];
    if (dtype == BLADE_STRING) {
      const TString* row = static_cast<const TString*>(run.values[k]) + first;
      for (BladeInt i = 0; i < n * (rows - 1); ++i) {
        if (!Equal(row[i], row[i + n])) return false;
      }
    } else {
      // Each row equals the next one: compare the block with itself, a row on.
      const BladeInt bytes = n * SizeOfValue(dtype);
      const char* row = static_cast<const char*>(run.values[k]) + first * SizeOfValue(dtype);
      if (bytes > 0 && __builtin_memcmp(row, row + bytes, bytes * (rows - 1)) != 0) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_ROWS_H_
