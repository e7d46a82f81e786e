// The C ABI between generated code (an "executable") and its host.
//
// This header is included by the runtime and printed verbatim at the top of every generated
// source file, so it uses no other header and only C types.
//
// An executable exports one symbol, `blade_executable`. Its `run` functions are re-entrant, keep
// no state between calls and start no threads: memory, threads, matrix products, convolutions and
// Fourier transforms come from the host. Everything a kernel writes is an output or temporary of
// this call, so a host may answer a refusal by running something else with the same inputs.
#ifndef BLADE_ABI_H_
#define BLADE_ABI_H_

#define BLADE_ABI_VERSION 5

#ifdef __cplusplus
extern "C" {
#endif

typedef __INT64_TYPE__ BladeInt;  // every dimension, index and byte count

// Values equal TensorFlow's DataType enum.
typedef enum BladeDType {
  BLADE_F32 = 1,
  BLADE_F64 = 2,
  BLADE_I32 = 3,
  BLADE_U8 = 4,
  BLADE_I16 = 5,
  BLADE_I8 = 6,
  BLADE_STRING = 7,  // inputs only: elements are TensorFlow's TF_TString, 24 bytes each
  BLADE_I64 = 9,
  BLADE_BOOL = 10,
  BLADE_BF16 = 14,
  BLADE_U16 = 17,
  BLADE_F16 = 19,
  BLADE_U32 = 22,
  BLADE_U64 = 23,
} BladeDType;

// A dense row-major tensor. `data` is at least 16-byte aligned (strings: 8-byte) and may be null
// when it is empty. Where an op takes a variable's resource, this is the variable's value.
typedef struct BladeTensor {
  void* data;
  const BladeInt* dims;
  int rank;
  int dtype;
} BladeTensor;

// What happens to each element of C before it is stored. Hosts may run it as a second pass.
typedef enum BladeActivation {
  BLADE_ACTIVATION_NONE = 0,
  BLADE_ACTIVATION_RELU = 1,
} BladeActivation;

// C[i] = activation(scale * A[i] * B[i] + bias) + residual[i], for i in [0, batch).
// A[i] is m x k, or k x m when transpose_a; B[i] is k x n, or n x k when transpose_b. All matrices
// are row-major; ld* is the distance between rows and *_stride the distance between batch
// entries, both in elements (a stride of 0 repeats one matrix).
typedef struct BladeGemm {
  int dtype;  // BLADE_F32 or BLADE_F64
  int transpose_a, transpose_b;
  BladeInt batch, m, n, k;
  const void* a;
  BladeInt lda, a_stride;
  const void* b;
  BladeInt ldb, b_stride;
  void* c;
  BladeInt ldc, c_stride;
  const void* bias;      // n elements added to every row of C, or null
  int activation;        // BladeActivation
  double scale;          // 1: as it is
  const void* residual;  // laid out as C, or null; not C itself
  // The executable's input that B is, unchanged, when that input is the same tensor in every call:
  // the host may then pack it once and keep the result. -1 otherwise.
  int b_constant_input;
} BladeGemm;

// y = activation(sum over the window's places of x * filter + bias), over three spatial dims,
// outermost first; those that there aren't are 1, with a window of 1.
//
//   x       [batch, in..., groups * channels]
//   filter  [window..., channels, groups * filters]
//   y       [batch, out..., groups * filters]
//
// Window p of a dim begins at p * stride - low, and its places are `dilation` apart. What lies
// outside of x is zero. Of each group, the filters see the group's channels only.
typedef struct BladeConv {
  int dtype;  // BLADE_F32 or BLADE_F64
  BladeInt batch, groups, channels, filters;
  BladeInt in[3], window[3], out[3], stride[3], dilation[3], low[3];
  const void* x;
  const void* filter;
  const void* bias;  // groups * filters elements, or null
  void* y;
  int activation;             // BladeActivation
  int filter_constant_input;  // as BladeGemm::b_constant_input
} BladeConv;

// The discrete Fourier transform of rows of real numbers, or its inverse, divided by the length.
// A spectrum has two planes [rows, length / 2 + 1]: the real and the imaginary parts.
typedef struct BladeFft {
  int dtype;  // BLADE_F32
  int inverse;
  BladeInt rows, length;
  const void* x;          // [rows, length]; inverse: the real plane
  const void* imaginary;  // inverse: the other plane
  void* y;                // both planes, one after the other; inverse: [rows, length]
} BladeFft;

// What executables let the host count.
typedef enum BladeEvent {
  BLADE_EVENT_REPEATED_ROWS = 0,  // columns whose rows were all the same and were computed once
} BladeEvent;

typedef void (*BladeBody)(const void* args, BladeInt begin, BladeInt end);

// What a host offers. `ctx` is the host's own pointer for this call.
typedef struct BladeHost {
  unsigned abi_version;
  // Allocates output `index` and returns its data (64-byte aligned); null means failure.
  // Called once for each output, and dims are copied. Empty outputs return any non-null pointer.
  void* (*allocate_output)(void* ctx, int index, int rank, const BladeInt* dims);
  // Makes output `index` the same elements as input `input`, under other dims. 0 on success.
  int (*forward_input)(void* ctx, int index, int input, int rank, const BladeInt* dims);
  // Scratch memory until `run` returns (64-byte aligned); null means failure. Called at most once
  // a run, for all temporaries together.
  void* (*allocate_temp)(void* ctx, BladeInt bytes);
  // Calls body on disjoint ranges that cover [0, total), perhaps from several threads at once, and
  // returns when all are done. cost_cycles estimates the processor cycles of one unit; small work
  // runs inline on the calling thread. A body may not call parallel_for.
  void (*parallel_for)(void* ctx, BladeInt total, double cost_cycles, BladeBody body,
                       const void* args);
  // Runs a matrix product on the host's library, in parallel where it pays. 0 on success.
  int (*gemm)(void* ctx, const BladeGemm* gemm);
  // Runs a convolution in the same way.
  int (*conv)(void* ctx, const BladeConv* conv);
  // Runs Fourier transforms in the same way.
  int (*fft)(void* ctx, const BladeFft* fft);
  // Counts a BladeEvent `times` times. Called at most once an event in a run.
  void (*count)(void* ctx, int event, BladeInt times);
} BladeHost;

// What `run` returns: 0, a positive index (from 1) into `refusals` when the generated code does
// not cover these inputs, or one of these. On any non-zero result the outputs are not usable.
typedef enum BladeStatus {
  BLADE_OK = 0,
  BLADE_OUT_OF_MEMORY = -1,
  BLADE_HOST_ERROR = -2,
} BladeStatus;

typedef int (*BladeRun)(const BladeHost* host, void* ctx, const BladeTensor* inputs);

// One compilation of the same program. `isa` is a name the host knows how to test for:
// "x86-64-v2", "x86-64-v3", "x86-64-v4" or "aarch64".
typedef struct BladeVariant {
  const char* isa;
  BladeRun run;
} BladeVariant;

typedef struct BladeExecutable {
  unsigned abi_version;
  int n_inputs;
  int n_outputs;
  int n_variants;
  const BladeVariant* variants;  // best first
  int n_refusals;
  const char* const* refusals;  // e.g. "Add (head/add): input dims 0 and 0 differ"
  const char* name;             // the cluster's name, for messages
} BladeExecutable;

// extern "C" const BladeExecutable* blade_executable(void);
typedef const BladeExecutable* (*BladeExecutableFn)(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BLADE_ABI_H_
