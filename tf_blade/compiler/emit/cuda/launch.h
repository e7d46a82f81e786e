// How many threads a kernel is launched with: the host's part of CUDA executables.

//@ ceil_div:
INLINE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

//@ loop_launch: ceil_div, dim_min
// For each element of rows of `width`: a thread has some neighbours, then others far away.
INLINE BladeLaunch loop_launch(const char* kernel, i64 rows, i64 width, bool aligned,
                               const void* args) {
  const int lanes = aligned ? 4 : 1;
  const i64 pieces = ceil_div(width, lanes);
  int x = 256;
  while (x > 1 && x / 2 >= pieces) x /= 2;
  const int y = 256 / x;
  // Enough blocks for any GPU, few enough that a thread's beginning doesn't count.
  const i64 blocks_x = dim_min(ceil_div(pieces, x), 8192);
  return {kernel, lanes, 1, blocks_x, dim_min(ceil_div(rows, y), 65535), x, y, args};
}

//@ row_launch: dim_min
// A block for each row, which stays in its registers if one of the versions has room for it.
INLINE BladeLaunch row_launch(const char* kernel, i64 rows, i64 width, bool aligned, bool kept,
                              const void* args) {
  static const int kVersions[][3] = {ROW_VERSIONS};  // lanes, items, threads
  const i64 blocks = dim_min(rows, 0x7fffffff);
  for (const auto& version : kVersions) {
    const int lanes = version[0], items = version[1], threads = version[2];
    if (kept && aligned == (lanes > 1) && width <= (i64)lanes * items * threads) {
      return {kernel, lanes, items, blocks, 1, threads, 1, args};
    }
  }
  return {kernel, aligned ? 4 : 1, 0, blocks, 1, 256, 1, args};
}

//@ start:
INLINE int start(const BladeHost* host, void* ctx, const BladeLaunch& launch) {
  return reinterpret_cast<const BladeCudaHost*>(host)->launch(ctx, &launch);
}

//@ refused:
INLINE i32* refused_place(const BladeHost* host) {
  return reinterpret_cast<const BladeCudaHost*>(host)->refused;
}
// What `run` returns when a kernel has refused its inputs, or could not be asked; else BLADE_OK.
INLINE int refusal(const BladeHost* host, void* ctx) {
  int reason = 0;
  if (reinterpret_cast<const BladeCudaHost*>(host)->read_refused(ctx, &reason) != 0)
    return BLADE_HOST_ERROR;
  return reason;
}
