// The operations of program.h, each as a loop over a block.
#ifndef BLADE_LOOKUP_OPERATIONS_H_
#define BLADE_LOOKUP_OPERATIONS_H_

#include <string>
#include <vector>

#include "lookup/program.h"

namespace blade {

// The loop for an operation with operands of these types, or null, with a message, when there is
// none. A "value" and "constants" have no loop and aren't asked for.
Instruction::Function FindOperation(const std::string& name, ElementType result,
                                    const std::vector<ElementType>& args, std::string* error);

// The "constants" of elements from number `begin` on, n of them.
void CopyConstants(const Instruction& in, int64_t begin, int n, void* to);

// AsString then StringToHashBucketFast, on integers.
Instruction::Function HashOfDecimal(ElementType integer);

// The fingerprint of strings, as a cross wants it.
Instruction::Function FingerprintOperation();

// Bytes of one element in a register. Strings made by as_string need room for their text.
size_t RegisterBytes(const std::string& name, ElementType type);

}  // namespace blade

#endif  // BLADE_LOOKUP_OPERATIONS_H_
