// Reading a lookup's text: what is malformed is refused with a reason.
#include "tests/testing.h"
