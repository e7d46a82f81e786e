// Runs a fused lookup (plan.h) on a host of the ABI in blade_abi.h.
//
// Generated code includes the headers of this folder verbatim and instantiates them like this, for
// a column "age" of strings [B, 1] hashed into 1,000 buckets, and a table of 16 floats a row:
//
//   struct Age {
//     static constexpr bool kFiltered = true, kWeighted = false;
//     const void* const* values;
//     View Value(BladeInt i) const { return ViewOf(static_cast<const TString*>(values[0])[i]); }
//     BladeInt Id(BladeInt i) const { return static_cast<BladeInt>(Fingerprint64(Value(i)) % 1000);
//     } bool Keep(BladeInt i) const { return Value(i).size != 0; }
//   };
//   static const int kDTypes[] = {BLADE_STRING, BLADE_F32}, kAgeValues[] = {0}, kAgeTable[] = {1};
//   static const BladeInt kAgeDims[] = {1};
//   static const Place kAgePlaces[] = {{0, 0}};
//   static const StreamPlan kStreams[] = {
//       {{kDense, 1, kAgeValues, -1, -1, -1, 1, true, false, 2, kAgeDims, 0, 0},
//        EvaluateColumn<Age>, nullptr, Age::kFiltered, Age::kWeighted, 0, 1}};
//   static const BagPlan kBags[] = {
//       {16, 1, kAgeTable, false, kMean, false, 0, false, 0, false, 1, kAgePlaces}};
//   static const BladeInt kTail[] = {16};
//   static const OutputPlan kOutputs[] = {{1, kTail, 16, false}};
//   static const LookupPlan kPlan = {2, kDTypes, 1, kStreams, 1, kBags, 0, nullptr, 1, kOutputs};
//
//   int run(const BladeHost* host, void* ctx, const BladeTensor* inputs) {
//     return RunLookup(kPlan, {true}, host, ctx, inputs);
//   }
//
// Columns that differ in constants only share a struct whose `args` point to the constants: see
// EvaluateColumnWith. Parts of a cross give Fingerprint64 of a string as their Id.
#ifndef BLADE_LOOKUP_LOOKUP_H_
#define BLADE_LOOKUP_LOOKUP_H_

#include "task.h"
#include "vocabulary.h"

namespace blade_lookup {

struct LookupOptions {
  bool find_repeats;  // compute one bag for rows that hold the same elements
};

namespace {

template <class Column>
static inline void EvaluateElements(const Column& column, BladeInt begin, BladeInt n,
                                    const Elements& elements) {
  for (BladeInt i = 0; i < n; ++i) elements.ids[i] = column.Id(begin + i);
  if constexpr (Column::kFiltered) {
    for (BladeInt i = 0; i < n; ++i) elements.keep[i] = column.Keep(begin + i);
  }
  if constexpr (Column::kWeighted) {
    for (BladeInt i = 0; i < n; ++i) elements.weights[i] = column.Weight(begin + i);
  }
}

// An EvaluateStream from a struct that computes one element.
template <class Column>
static bool EvaluateColumn(const void*, const void* const* values, BladeInt begin, BladeInt n,
                           const Elements& elements) {
  EvaluateElements(Column{values}, begin, n, elements);
  return true;
}

// The same for a struct whose second member points to its constants.
template <class Column, class Args>
static bool EvaluateColumnWith(const void* args, const void* const* values, BladeInt begin,
                               BladeInt n, const Elements& elements) {
  EvaluateElements(Column{values, static_cast<const Args*>(args)}, begin, n, elements);
  return true;
}

// Checks dtypes, shapes and tables, and that all columns have the same rows.
class Preparation {
 public:
  Preparation(Run* run, RowDims* dims) : run_(*run), plan_(*run->plan), dims_(*dims) {}

  // BLADE_OK or a refusal.
  int operator()() {
    const int whole = plan_.n_bags + plan_.n_streams + plan_.n_dense;
    for (int i = 0; i < plan_.n_inputs; ++i) {
      if (run_.inputs[i].dtype != plan_.dtypes[i]) return RefusalOf(whole, kDType);
    }
    bool known = false;
    for (int s = 0; s < plan_.n_streams; ++s) {
      const Reason reason = Stream(s, &known);
      if (reason != kNumberOfReasons) return RefusalOf(plan_.n_bags + s, reason);
    }
    for (int d = 0; d < plan_.n_dense; ++d) {
      const Reason reason = Dense(plan_.dense[d], &known);
      if (reason != kNumberOfReasons) {
        return RefusalOf(plan_.n_bags + plan_.n_streams + d, reason);
      }
    }
    if (!known) return RefusalOf(whole, kRows);
    run_.rows = dims_.rows;
    // TensorFlow's ops differ in whether they fail on empty batches.
    if (run_.rows == 0) return RefusalOf(whole, kEmpty);
    for (int b = 0; b < plan_.n_bags; ++b) {
      if (!Table(plan_.bags[b], &run_.tables[b])) return RefusalOf(b, kTable);
    }
    return BLADE_OK;
  }

 private:
  Reason Stream(int s, bool* known) {
    const SourcePlan& source = plan_.streams[s].source;
    SourceRun& run = run_.sources[s];
    if (source.kind == kCross) {
      // The parts have the same rows, they were here before. As many crosses as elements of the
      // largest part is a guess that only sets how work is divided.
      run.elements = 0;
      for (int p = 0; p < source.n_values; ++p) {
        const BladeInt elements = run_.sources[source.values[p]].elements;
        if (elements > run.elements) run.elements = elements;
      }
      return kNumberOfReasons;
    }
    RowDims dims;
    const Reason reason = PrepareSource(source, run_.inputs, &run, &dims);
    if (reason != kNumberOfReasons) return reason;
    if (!*known) {
      dims_ = dims;
      *known = true;
    } else if (!(dims == dims_)) {
      return kRows;
    }
    return kNumberOfReasons;
  }

  Reason Dense(const DensePlan& dense, bool* known) {
    const BladeTensor& first = run_.inputs[dense.values[0]];
    if (!*known) {
      if (first.rank < 1) return kRank;
      if (!dims_.Set(1, first.dims)) return kShape;
      *known = true;
    }
    if (first.rank < dims_.rank) return kRank;
    for (int d = 0; d < dims_.rank; ++d) {
      if (first.dims[d] != dims_.dims[d]) return kRows;
    }
    if (ElementsOf(first, dims_.rank) != dense.width) return kShape;
    for (int k = 1; k < dense.n_values; ++k) {
      if (!SameDims(run_.inputs[dense.values[k]], first)) return kShape;
    }
    return kNumberOfReasons;
  }

  bool Table(const BagPlan& bag, TableRun* table) const {
    table->data = nullptr;
    table->rows = 0;
    for (int t = 0; t < bag.n_tables; ++t) {
      const BladeTensor& tensor = run_.inputs[bag.tables[t]];
      if (tensor.rank < 1 || ElementsOf(tensor, 1) != bag.dim) return false;
      if (t == 0) table->data = static_cast<const float*>(tensor.data);
      table->rows += tensor.dims[0];
    }
    return true;
  }

  Run& run_;
  const LookupPlan& plan_;
  RowDims& dims_;
};

// About how many processor cycles a stream's elements take.
static inline double CyclesOfStream(const Run& run, int s) {
  constexpr double kElement = 30, kTableRow = 45;
  const StreamPlan& stream = run.plan->streams[s];
  double element = kElement;
  for (int b = 0; b < stream.n_bags; ++b) {
    element += kTableRow + static_cast<double>(run.plan->bags[stream.first_bag + b].dim);
  }
  return element * static_cast<double>(run.sources[s].elements);
}

// Divides rows into pieces and streams into groups, so that units are of about the same size, large
// enough that looking at a stream is a small part. Returns the cycles of a unit.
// `groups` has a place for each stream and two more.
static inline double Divide(Run* run, int* groups) {
  constexpr double kUnit = 10e3, kPart = 20;
  const LookupPlan& plan = *run->plan;
  const BladeInt pieces = (run->rows - 1) / kBlock + 1;
  run->piece = (run->rows - 1) / pieces + 1;
  run->groups = groups;
  run->n_groups = 0;
  run->has_crosses = false;
  double outputs = 0;  // cycles
  bool divisible = true;
  for (int o = 0; o < plan.n_outputs; ++o) {
    outputs +=
        (kPart + 0.5 * static_cast<double>(plan.outputs[o].width)) * static_cast<double>(run->rows);
    divisible &= !plan.outputs[o].add;
  }
  double all = outputs, group = 0;
  groups[0] = 0;
  for (int s = 0; s < plan.n_streams; ++s) {
    const double cycles = CyclesOfStream(*run, s);
    run->has_crosses |= plan.streams[s].source.kind == kCross;
    all += cycles;
    group += cycles;
    if (!divisible || group < kUnit * static_cast<double>(pieces)) continue;
    groups[++run->n_groups] = s + 1;
    group = 0;
  }
  if (run->n_groups == 0 || groups[run->n_groups] < plan.n_streams) ++run->n_groups;
  groups[run->n_groups] = plan.n_streams;
  return all / static_cast<double>(pieces * run->n_groups);
}

static inline void RunUnits(const void* args, BladeInt begin, BladeInt end) {
  Run* run = static_cast<Run*>(const_cast<void*>(args));
  const int n = run->plan->n_streams;
  BladeInt* cursors =
      static_cast<BladeInt*>(__builtin_alloca(2 * sizeof(BladeInt) * static_cast<U64>(n + 1)));
  Task task(run, cursors, cursors + n);
  const BladeInt groups = run->n_groups;
  while (begin < end) {
    // All groups of several pieces, or some groups of one.
    const BladeInt piece = begin / groups, first = begin % groups;
    BladeInt pieces = first == 0 ? (end - begin) / groups : 0;
    const BladeInt last = pieces > 0                     ? groups
                          : end - begin < groups - first ? first + end - begin
                                                         : groups;
    if (pieces == 0) pieces = 1;
    const BladeInt stop = (piece + pieces) * run->piece;
    task(piece * run->piece, stop < run->rows ? stop : run->rows, static_cast<int>(first),
         static_cast<int>(last));
    begin += (pieces - 1) * groups + last - first;
  }
}

// Runs a plan. Returns BLADE_OK, a refusal (see Reason) or another BladeStatus.
static inline int RunLookup(const LookupPlan& plan, LookupOptions options, const BladeHost* host,
                            void* ctx, const BladeTensor* inputs) {
  const U64 sources = sizeof(SourceRun) * static_cast<U64>(plan.n_streams);
  const U64 tables = sizeof(TableRun) * static_cast<U64>(plan.n_bags);
  const U64 outputs = sizeof(float*) * static_cast<U64>(plan.n_outputs);
  const U64 groups = sizeof(int) * static_cast<U64>(plan.n_streams + 2);
  char* temp = static_cast<char*>(
      host->allocate_temp(ctx, static_cast<BladeInt>(sources + tables + outputs + groups)));
  if (temp == nullptr) return BLADE_OUT_OF_MEMORY;
  Run run = {};
  run.plan = &plan;
  run.inputs = inputs;
  run.sources = reinterpret_cast<SourceRun*>(temp);
  run.tables = reinterpret_cast<TableRun*>(temp + sources);
  run.outputs = reinterpret_cast<float**>(temp + sources + tables);
  run.find_repeats = options.find_repeats;
  run.refusal = BLADE_OK;
  RowDims dims = {};
  const int refusal = Preparation(&run, &dims)();
  if (refusal != BLADE_OK) return refusal;

  for (int o = 0; o < plan.n_outputs; ++o) {
    const OutputPlan& output = plan.outputs[o];
    BladeInt shape[2 * kMaxRank];
    for (int d = 0; d < dims.rank; ++d) shape[d] = dims.dims[d];
    for (int d = 0; d < output.rank; ++d) shape[dims.rank + d] = output.tail[d];
    run.outputs[o] =
        static_cast<float*>(host->allocate_output(ctx, o, dims.rank + output.rank, shape));
    if (run.outputs[o] == nullptr) return BLADE_OUT_OF_MEMORY;
  }
  const double cycles = Divide(&run, reinterpret_cast<int*>(temp + sources + tables + outputs));
  const BladeInt pieces = (run.rows - 1) / run.piece + 1;
  host->parallel_for(ctx, pieces * run.n_groups, cycles, RunUnits, &run);
  if (run.repeated > 0) host->count(ctx, BLADE_EVENT_REPEATED_ROWS, run.repeated);
  return run.refusal;
}

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_LOOKUP_H_
