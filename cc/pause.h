// What a thread does between two looks at something that another thread is about to change.
#ifndef BLADE_PAUSE_H_
#define BLADE_PAUSE_H_

namespace blade {

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` does nothing on most cores; this waits for some tens of cycles.
  asm volatile("isb");
#endif
}

}  // namespace blade

#endif  // BLADE_PAUSE_H_
