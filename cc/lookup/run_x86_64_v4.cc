#define BLADE_LOOKUP_RUN RunLookupX8664V4

#include "lookup/run_impl.h"
