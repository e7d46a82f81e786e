// Going over a whole tensor in order: which elements are true, which are equal.

//@ list_positions:
// The positions of the first `count` true elements among n.
INLINE void list_positions(const bool* mask, i64 n, i64* out, i64 count) {
  const u8* bytes = reinterpret_cast<const u8*>(mask);
  i64 to = 0;
  for (i64 i = 0; i < n && to < count; ++i) {
    out[to] = i;  // overwritten by the next one unless it is true
    to += bytes[i] != 0;
  }
}

//@ find_first_equal:
// For each of n elements, the position of the first that equals it. A NaN equals nothing; 0 and -0
// are equal. table: room for `places` positions, more than n.
template <class T>
INLINE void find_first_equal(const T* x, i64 n, i32* table, i64 places, i32* first) {
  for (i64 i = 0; i < places; ++i) table[i] = -1;
  for (i64 i = 0; i < n; ++i) {
    const T key = x[i];
    first[i] = (i32)i;
    if (key != key) continue;
    u64 hash = 0;
    if (key != T(0)) __builtin_memcpy(&hash, &key, sizeof key);
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ull;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ull;
    i64 at = (i64)((hash >> 32) * (u64)places >> 32);
    while (table[at] >= 0 && !(x[table[at]] == key)) at = at + 1 < places ? at + 1 : 0;
    if (table[at] < 0)
      table[at] = (i32)i;
    else
      first[i] = table[at];
  }
}
