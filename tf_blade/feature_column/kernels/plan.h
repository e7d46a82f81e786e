// What a fused lookup computes (tf_blade/feature_column/spec.py), as plain constant data.
//
// The library builds a LookupPlan from text, generated code holds one as static data; both run it
// with RunLookup of lookup.h. They differ in who computes a stream's ids: the library interprets
// expressions, generated code has a function for them. A plan is never written to.
#ifndef BLADE_LOOKUP_PLAN_H_
#define BLADE_LOOKUP_PLAN_H_

#include "text.h"

namespace blade_lookup {

// What the elements of one evaluation become.
struct Elements {
  BladeInt* ids;
  float* weights;       // only of streams with weights
  unsigned char* keep;  // 0 or 1; only of filtered streams
};

// Computes `ids`, `weights` and `keep` of elements [begin, begin + n) of a stream.
// values[k] is the data of the source's values number k. `args` is the plan's. Parts of a cross
// give what is hashed: the fingerprint of a string, an integer as it is. False when an expression
// has no value (an integer divided by zero): the run is then refused.
typedef bool (*EvaluateStream)(const void* args, const void* const* values, BladeInt begin,
                               BladeInt n, const Elements& elements);

// The same for elements of a dense part of an output.
typedef bool (*EvaluateDense)(const void* args, const void* const* values, BladeInt begin,
                              BladeInt n, float* out);

constexpr int kMaxValues = 8;  // of a source, and parts of a cross
constexpr int kMaxRank = 8;    // of the rows' dims together with an output's tail

enum SourceKind { kDense, kSparse, kRagged, kCross };

struct SourcePlan {
  SourceKind kind;
  int n_values;
  const int* values;           // numbers of inputs; of a cross: of streams that come earlier
  int indices, shape, splits;  // inputs, where the kind has them
  int row_dims;                // of kSparse: 1 or 2
  bool complete;               // of kSparse
  bool per_element;            // of kDense
  int rank;                    // what it must be: of a dense input, of a sparse shape; 0: any
  const BladeInt* dims;        // of kDense with a rank: the dims after the first; -1: any
  BladeInt buckets;            // of kCross; 0: the full range
  BladeInt key;                // of kCross
};

struct StreamPlan {
  SourcePlan source;
  EvaluateStream evaluate;
  const void* args;
  bool filtered, weighted;
  int first_bag, n_bags;  // bags are ordered by stream
};

// Where a bag's vector goes in an output's rows.
struct Place {
  int output;
  BladeInt offset;
};

enum Combiner { kSum, kMean, kSqrtN };

struct BagPlan {
  BladeInt dim;
  int n_tables;  // partitions of the table; 0: an indicator
  const int* tables;
  bool div;  // the strategy of partitions, else mod
  Combiner combiner;
  bool has_empty;
  BladeInt empty;
  bool has_max_norm;
  float max_norm;
  bool binary;
  int n_places;
  const Place* places;
};

// A dense part of an output; inputs [rows..., width elements].
struct DensePlan {
  Place place;
  BladeInt width;
  int n_values;
  const int* values;
  EvaluateDense evaluate;  // null: the first value, an f32, as it is
  const void* args;
};

struct OutputPlan {
  int rank;  // of the tail
  const BladeInt* tail;
  BladeInt width;  // floats a row
  bool add;
};

struct LookupPlan {
  int n_inputs;
  const int* dtypes;
  int n_streams;
  const StreamPlan* streams;
  int n_bags;
  const BagPlan* bags;
  int n_dense;
  const DensePlan* dense;
  int n_outputs;
  const OutputPlan* outputs;
};

// Why a run is refused. RunLookup returns RefusalOf(column, reason), where columns are the plan's
// bags, then its streams, then its dense parts, then the lookup as a whole.
enum Reason {
  kDType,
  kRank,
  kShape,
  kRows,
  kUnsorted,
  kSplits,
  kOutside,
  kTable,
  kValue,
  kLongCross,
  kEmpty,
  kNumberOfReasons,
};

// In the order of Reason.
constexpr const char* kReasons[] = {
    "an input has another dtype than the lookup was made for",
    "an input has a rank that doesn't fit",
    "the shapes of inputs don't fit each other",
    "its rows are not as many as those of other columns",
    "the indices are not in order, or lie outside the dense shape",
    "the row splits don't fit the values",
    "an id is outside its table",
    "the table's rows have another width",
    "an expression has no value",
    "a row has too many crosses",
    "there are no rows",
};
static_assert(sizeof(kReasons) / sizeof(kReasons[0]) == kNumberOfReasons, "a text a reason");

namespace {

constexpr int RefusalOf(int column, Reason reason) {
  return 1 + column * kNumberOfReasons + reason;
}

}  // namespace

}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_PLAN_H_
