#ifndef BLADE_DTYPE_SIZE_H_
#define BLADE_DTYPE_SIZE_H_

#include "blade_abi.h"

namespace blade {

// Bytes of one element, or 0 for strings and a value that is no BladeDType.
inline int SizeOf(int dtype) {
  switch (dtype) {
    case BLADE_U8:
    case BLADE_I8:
    case BLADE_BOOL:
      return 1;
    case BLADE_I16:
    case BLADE_U16:
    case BLADE_F16:
    case BLADE_BF16:
      return 2;
    case BLADE_F32:
    case BLADE_I32:
    case BLADE_U32:
      return 4;
    case BLADE_F64:
    case BLADE_I64:
    case BLADE_U64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace blade

#endif  // BLADE_DTYPE_SIZE_H_
